"""A QONNX model of one norm: static shapes, and a datatype for every tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    (node,) = (n for n in wrapper.graph.node if n.domain == DOMAIN)
    annotate(wrapper, model, node, "y" if form == "float" else "")
    return wrapper


def annotate(wrapper: ModelWrapper, model: RMSNorm, node: Any, y: str) -> None:
    """Set datatypes that QONNX cannot infer: of the codes at the norm's node, and its parameters.

    y: the float32 values of form "float"; "" for none.
    """
    form = model.assembly.context.y
    names = dict(
        zip(node.input, (datatype_name(model.assembly.x_format), *_fitting(model)), strict=True)
    )
    names[node.output[0]] = datatype_name(form)
    if y:
        names[y] = real_name(form) if model.spec.y_channel_shifts is None else "FLOAT32"
        # A Cast, whose output's datatype QONNX does not infer, puts the codes into float32.
        for reader in wrapper.find_consumers(node.output[0]):
            if reader.op_type == "Cast":
                names[reader.output[0]] = names[node.output[0]]
    for name, datatype in names.items():
        wrapper.set_tensor_datatype(name, DataType[datatype])


def _fitting(model: RMSNorm) -> Iterator[str]:
    """Datatypes of the node's inputs after x."""
    channels = {p.name: p.interval for p in model.assembly.require_datapath().inputs}
    for name, values in parameters(model).items():
        ends = channels.get(name) or Interval(int(values.min()), int(values.max()))
        yield fitting_name(ends.lo, ends.hi)


def _check_leading(leading: Sequence[int]) -> None:
    """QONNX executes graphs whose shapes are all known."""
    for size in leading:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ApproxNormError(
                f"leading holds {size!r}; QONNX has static shapes only: allowed are sizes from 1"
            )
