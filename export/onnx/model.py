"""A whole ONNX model of one norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx
from onnx import helper

import approxnorm
from approxnorm.backends.numpy_backend import storage_dtype
from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx.names import (
    DEFAULT_IR,
    DEFAULT_OPSET,
    DOMAIN,
    DOMAIN_VERSION,
    MIN_IR,
)
from approxnorm.export.onnx.parts import code_parts, float_parts
from approxnorm.model import RMSNorm

Form = Literal["codes", "float"]
LEADING = ("batch", "sequence")


def onnx_model(
    model: RMSNorm,
    *,
    form: Form = "codes",
    opset: int = DEFAULT_OPSET,
    ir_version: int = DEFAULT_IR,
    leading: Sequence[str | int] = LEADING,
    signals: tuple[str, ...] = (),
) -> onnx.ModelProto:
    """An ONNX model with the norm between its input ``x`` and its output ``y``.

    form: "codes" has integer codes in and out, in the narrowest types that hold them; "float" has
    float32, with the quantisation at the edges. leading: the axes before the last, each a size or
    the name of a size that may differ from run to run. signals: named signals to be outputs too
    (form "codes" only), (..., dim) or (..., 1).

    Raises ApproxNormError for an opset or IR version that does not do, and for the rsqrt method
    "exact", which has no datapath.
    """
    if not MIN_IR <= ir_version <= onnx.IR_VERSION:
        raise ApproxNormError(
            f"ir_version is {ir_version}; allowed: {MIN_IR} (the first with functions) to"
            f" {onnx.IR_VERSION}, the newest of the installed onnx"
        )
    if not leading:
        raise ApproxNormError("leading is empty; allowed: the size or the name of one axis or more")
    if form == "codes":
        parts = code_parts(model, opset=opset, x="x", y="y", signals=signals)
    else:
        parts = float_parts(model, opset=opset, x="x", y="y")
    datapath = model.assembly.require_datapath()
    shape = [*leading, model.dim]
    ports = [datapath.inputs[0], datapath.ports["y"]]
    stored = [storage_dtype(p.interval) for p in ports]
    dtypes = stored if form == "codes" else [np.dtype(np.float32)] * 2
    ends = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
        for name, dtype in zip(("x", "y"), dtypes, strict=True)
    ]
    traced = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(storage_dtype(datapath.ports[name].interval)),
            [*leading, model.dim if datapath.ports[name].level == "element" else 1],
        )
        for name in signals
    ]
    graph = helper.make_graph(
        parts.nodes, "approxnorm", ends[:1], [ends[1], *traced], parts.initializers
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, DOMAIN_VERSION)],
        functions=[parts.function],
        ir_version=ir_version,
        producer_name="approxnorm",
        producer_version=approxnorm.__version__,
        doc_string=model.spec.description or "",
    )
    return made
