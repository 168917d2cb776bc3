"""A converted model against what it was made of: bit for bit, in ONNX Runtime, and as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from approxnorm.export.norms.wiring import STANDARD
from approxnorm.export.rewrite.external import external_tensors
from approxnorm.export.rewrite.feeds import Feeds
from approxnorm.export.rewrite.replace import Replaced
from approxnorm.export.rewrite.rows import Report, rows_of
from approxnorm.export.rewrite.session import Session, tapped


def check_codes(
    model: onnx.ModelProto,
    path: Path,
    replaced: Sequence[Replaced],
    feeds: Feeds,
    report: Report,
) -> dict[str, int]:
    """Run a converted model on all feeds; every code of each norm must be the NumPy model's.

    Each norm is given what reaches it in the converted model. path: where the model's external
    data are. Returns how many codes were compared, by norm. Raises RuntimeError with the norm and
    its digest if a code, or a real value made of it, differs: that is an error of approxnorm.
    """
    groups = [[r.norm.x, r.codes, r.norm.y] for r in replaced]
    taps = [name for group in groups for name in group]
    session = Session(tapped(model, taps), path, converted(path))
    counts = {r.norm.name: 0 for r in replaced}
    for run, feed in enumerate(feeds):
        for i, (x, codes, y) in session.run_groups(feed, groups):
            found = replaced[i]
            rows = rows_of(x, found.norm, f"{converted(path)}, run {run} of {feeds.path}")
            _compare(found, rows, codes, y)
            counts[found.norm.name] += codes.size
            report((run + (i + 1) / len(replaced)) / feeds.runs)
    return counts


def converted(path: Path) -> str:
    """What messages call the model that was made of the one at ``path``."""
    return f"the model converted from {path}"


def _compare(found: Replaced, rows: np.ndarray, codes: np.ndarray, y: np.ndarray) -> None:
    model = found.model
    want = model(model.quantize(rows))
    real = model.dequantize(want).astype(np.float32)
    got = codes.reshape(want.shape)
    wrong = (got != want) | (y.reshape(want.shape).view(np.uint32) != real.view(np.uint32))
    if wrong.any():
        row, element = divmod(int(wrong.argmax()), model.dim)
        raise RuntimeError(
            f"norm {found.norm.name}: ONNX Runtime gives the code {got[row, element]} at row {row},"
            f" element {element}, where the NumPy model gives {want[row, element]}; nothing was"
            f" written; this is an error of approxnorm, so please report it with the model"
            f" (digest {model.digest})"
        )


def check_well_formed(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Raise what onnx's checker does of a converted model, if the original one passes.

    With shape inference (full_check) unless the original has operators of other domains.
    """
    full = all(entry.domain in STANDARD for entry in before.opset_import)
    try:
        onnx.checker.check_model(_self_contained(before), full_check=full)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return  # ONNX Runtime runs more than the checker knows
    onnx.checker.check_model(_self_contained(after), full_check=full)


def _self_contained(model: onnx.ModelProto) -> Any:
    """A model without external data, which the checker would look for in the current folder.

    Its initializers of that kind are inputs instead.
    """
    if next(external_tensors(model), None) is None:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    given = {value.name for value in copy.graph.input}
    for i in reversed(range(len(copy.graph.initializer))):
        tensor = copy.graph.initializer[i]
        if tensor.data_location == TensorProto.EXTERNAL:
            value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            copy.graph.input.extend([value] * (tensor.name not in given))
            del copy.graph.initializer[i]
    return copy
