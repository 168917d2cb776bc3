"""Model files, written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import onnx

from approxnorm.output import write_atomically


def save(made: onnx.ModelProto, path: str | Path) -> None:
    """Write a model that the onnx package's checker accepts, shapes included; all of it or nothing.

    The same model gives the same bytes. Raises ApproxNormError if the file cannot be written.
    """
    onnx.checker.check_model(made, full_check=True)
    data = made.SerializeToString(deterministic=True)

    def write(out: IO[bytes]) -> None:
        out.write(data)

    write_atomically(Path(path), write)
