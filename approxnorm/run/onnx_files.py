"""A layer's ONNX files, and what ONNX Runtime makes of them.

approxnorm.export.onnx is imported when it is used: it needs the package onnx.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from approxnorm.conformance import BackendResult
from approxnorm.conformance.backends import Backend
from approxnorm.conformance.difference import Where
from approxnorm.model import RMSNorm
from approxnorm.run.folders import ONNX, ONNX_FLOAT
from approxnorm.vectors.manifest import ClassEntry


def write_files(model: RMSNorm, folder: Path) -> dict[str, Any]:
    """Write the norm on codes and the norm on float32; returns what the report has of them."""
    from approxnorm.export.onnx import DEFAULT_IR, DEFAULT_OPSET, onnx_model
    from approxnorm.export.onnx.write import save

    save(onnx_model(model), folder / ONNX)
    save(onnx_model(model, form="float"), folder / ONNX_FLOAT)
    return {
        "codes": ONNX,
        "float": ONNX_FLOAT,
        "opset": DEFAULT_OPSET,
        "ir_version": DEFAULT_IR,
    }


def open_codes_file(model: RMSNorm, path: Path) -> Backend:
    """A written file on codes as a backend that ONNX Runtime runs."""
    from approxnorm.export.onnx.files import FileBackend

    return FileBackend(model, path)


def check_float_file(model: RMSNorm, path: Path, x: np.ndarray, lanes: int) -> BackendResult:
    """Compare the float file's y with the model's, bit for bit.

    x: real rows (n, dim). Due is the float32 next to what the model's output codes stand for.
    """
    from approxnorm.export.onnx.files import run_float_file

    x = x.astype(np.float32)
    due = model.dequantize(model(model.quantize(x))).astype(np.float32)
    got = run_float_file(path, x)
    wrong = got.view(np.uint32) != due.view(np.uint32)
    first = None
    if wrong.any():
        row, element = (int(i) for i in np.argwhere(wrong)[0])
        where = Where([ClassEntry(name="input", first=0, count=len(x))], lanes, model.digest)
        shown = str(got[row, element]), str(due[row, element])
        first = where.difference("y", row, element, *shown)
    return BackendResult(len(x), x.size, int(np.count_nonzero(wrong)), None, None, first)
