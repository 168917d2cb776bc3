"""A whole ONNX model of one norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import onnx
from onnx import helper

from approxnorm.backends.numpy_backend import storage_dtype
from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx.names import (
    DEFAULT_IR,
    DEFAULT_OPSET,
    DOMAIN,
    DOMAIN_VERSION,
    MIN_IR,
)
from approxnorm.export.onnx.parts import Parts, code_parts, float_parts
from approxnorm.model import RMSNorm
from approxnorm.version import __version__

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
    if form == "codes":
        parts = code_parts(model, opset=opset, x="x", y="y", signals=signals)
    else:
        parts = float_parts(model, opset=opset, x="x", y="y")
    return model_of_parts(
        model,
        parts,
        opset=opset,
        ir_version=ir_version,
        leading=leading,
        signals=signals,
        dtype=None if form == "codes" else np.dtype(np.float32),
    )


def model_of_parts(
    model: RMSNorm,
    parts: Parts,
    *,
    opset: int,
    ir_version: int,
    leading: Sequence[str | int],
    signals: tuple[str, ...] = (),
    dtype: np.dtype | None = None,
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """The ONNX model of a norm's parts, which lead from ``x`` to ``y``; else as onnx_model.

    dtype: of both ends; None for the storage types of their codes. domains: further domains of
    operators, and their versions.
    """
    if not MIN_IR <= ir_version <= onnx.IR_VERSION:
        raise ApproxNormError(
            f"ir_version is {ir_version}; allowed: {MIN_IR} (the first with functions) to"
            f" {onnx.IR_VERSION}, the newest of the installed onnx"
        )
    if not leading:
        raise ApproxNormError("leading is empty; allowed: the size or the name of one axis or more")
    datapath = model.assembly.require_datapath()
    ports = {"x": datapath.inputs[0], "y": datapath.ports["y"]}
    ports |= {name: datapath.ports[name] for name in signals}

    def value(name: str) -> onnx.ValueInfoProto:
        port = ports[name]
        stored = dtype or storage_dtype(port.interval)
        shape = [*leading, model.dim if port.level == "element" else 1]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(stored), shape)

    graph = helper.make_graph(
        parts.nodes,
        "approxnorm",
        [value("x")],
        [value(name) for name in ("y", *signals)],
        parts.initializers,
    )
    versions = {"": opset, DOMAIN: DOMAIN_VERSION} | dict(domains or {})
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(*version) for version in versions.items()],
        functions=[parts.function],
        ir_version=ir_version,
        producer_name="approxnorm",
        producer_version=__version__,
        doc_string=model.spec.description or "",
    )
