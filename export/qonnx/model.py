"""A QONNX model of one norm: static shapes, and a datatype for every tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from qonnx.core.datatype import DataType
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.transformation.general import GiveUniqueNodeNames
from qonnx.transformation.infer_datatypes import InferDataTypes
from qonnx.transformation.infer_shapes import InferShapes

from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx.model import Form, model_of_parts, onnx_model
from approxnorm.export.onnx.names import DEFAULT_IR, DEFAULT_OPSET, DOMAIN
from approxnorm.export.onnx.parameters import parameters
from approxnorm.export.qonnx.containers import datatype_name, fitting_name, real_name
from approxnorm.export.qonnx.quantised import QUANT_DOMAIN, QUANT_VERSION, quant_parts
from approxnorm.model import RMSNorm
from approxnorm.program import Interval

LEADING = (1,)


def qonnx_model(
    model: RMSNorm,
    *,
    form: Form = "codes",
    leading: Sequence[int] = LEADING,
    opset: int = DEFAULT_OPSET,
    ir_version: int = DEFAULT_IR,
) -> ModelWrapper:
    """A model with the norm between ``x`` and ``y``, both of shape (*leading, dim).

    form: "codes" has integer codes in and out and is the file of ``onnx_model`` with datatypes,
    so that ONNX Runtime runs it as well; "float" has float32, with Quant nodes at the edges.
    QONNX's InferShapes and InferDataTypes have been run.

    Raises ApproxNormError for sizes that are not known, for formats that Quant does not have
    (form "float"), and as ``onnx_model`` does.
    """
    _check_leading(leading)
    if form == "codes":
        made = onnx_model(model, opset=opset, ir_version=ir_version, leading=leading)
    else:
        made = model_of_parts(
            model,
            quant_parts(model, opset=opset, x="x", y="y"),
            opset=opset,
            ir_version=ir_version,
            leading=leading,
            dtype=np.dtype(np.float32),
            domains={QUANT_DOMAIN: QUANT_VERSION},
        )
    wrapper = ModelWrapper(made)
    for pass_ in (GiveUniqueNodeNames(), InferShapes(), InferDataTypes()):
        wrapper = wrapper.transform(pass_)
    _annotate(wrapper, model, form)
    return wrapper


def _annotate(wrapper: ModelWrapper, model: RMSNorm, form: Form) -> None:
    """Datatypes that QONNX cannot infer: of the ends, the codes at the norm, and its parameters."""
    datapath = model.assembly.require_datapath()
    (node,) = (n for n in wrapper.graph.node if n.domain == DOMAIN)
    codes = {
        node.input[0]: datatype_name(model.assembly.x_format),
        node.output[0]: datatype_name(model.assembly.context.y),
    }
    channels = {p.name: p.interval for p in datapath.inputs}
    names: dict[str, str] = {}
    for name, values in parameters(model).items():
        ends = channels.get(name) or Interval(int(values.min()), int(values.max()))
        names[name] = fitting_name(ends.lo, ends.hi)
    if form == "float":
        held = _only_reader(wrapper, node.output[0])
        codes[held.output[0]] = codes[node.output[0]]
        names["y"] = real_name(model.assembly.context.y)
    for name, datatype in (names | codes).items():
        wrapper.set_tensor_datatype(name, DataType[datatype])


def _only_reader(wrapper: ModelWrapper, name: str) -> Any:
    (reader,) = wrapper.find_consumers(name)
    return reader


def _check_leading(leading: Sequence[int]) -> None:
    """QONNX executes graphs whose shapes are all known."""
    for size in leading:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ApproxNormError(
                f"leading holds {size!r}; QONNX has static shapes only: allowed are sizes from 1"
            )
