"""The bench's rows as hls4ml writes them: text, a row a line, numbers with spaces between."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from approxnorm.model import RMSNorm
from approxnorm.vectors import VectorSet

FOLDER = "tb_data"
INPUT, OUTPUT = "tb_input_features.dat", "tb_output_predictions.dat"
INPUT_CODES, OUTPUT_CODES = "tb_input_codes.dat", "tb_output_codes.dat"
_BLOCK_ROWS = 256


def write_tb_data(folder: Path, model: RMSNorm, vectors: VectorSet) -> None:
    """Write the four files of ``tb_data`` into an empty folder.

    Reals are the shortest decimals of their float64, whose nearest code is the code itself; the
    files of codes hold the integers. Channel factors are part of the input's reals.
    """
    x, y = vectors.array("x"), vectors.array("y")
    with (
        (folder / INPUT).open("w", encoding="ascii", newline="\n") as x_real,
        (folder / OUTPUT).open("w", encoding="ascii", newline="\n") as y_real,
        (folder / INPUT_CODES).open("w", encoding="ascii", newline="\n") as x_codes,
        (folder / OUTPUT_CODES).open("w", encoding="ascii", newline="\n") as y_codes,
    ):
        for first in range(0, len(x), _BLOCK_ROWS):
            rows = slice(first, first + _BLOCK_ROWS)
            x_real.write(_lines(model.dequantize_x(x[rows])))
            y_real.write(_lines(model.dequantize(y[rows])))
            x_codes.write(_lines(x[rows]))
            y_codes.write(_lines(y[rows]))


def _lines(rows: np.ndarray) -> str:
    return "".join(" ".join(map(repr, row)) + "\n" for row in rows.tolist())
