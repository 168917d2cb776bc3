"""Model files of one norm, run by ONNX Runtime from where they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from approxnorm.export.onnx.runtimes import OrtBackend, cpu_session
from approxnorm.model import RMSNorm


class FileBackend(OrtBackend):
    """A written model of form "codes" in ONNX Runtime: y comes from that very file.

    Its leading axes are two whose sizes are free (``LEADING``). Named signals, which the file does
    not show, come from a model that is made for them.
    """

    def __init__(self, model: RMSNorm, path: Path) -> None:
        self._path = path
        super().__init__(model)

    def run(self, codes: np.ndarray) -> np.ndarray:
        """Output codes (rows, dim) of input codes (rows, dim)."""
        return super().run(codes[None])[0]

    def _build(self, signals: tuple[str, ...]) -> onnx.ModelProto:
        return super()._build(signals) if signals else onnx.load(self._path)


def run_float_file(path: Path, x: np.ndarray) -> np.ndarray:
    """float32 y (rows, dim) of float32 x (rows, dim), by a written model of form "float"."""
    y: np.ndarray = cpu_session(str(path)).run(None, {"x": x[None]})[0]
    return y[0]
