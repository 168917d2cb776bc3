"""What puts a norm into an ONNX graph: nodes, initializers and the function behind the node."""

from __future__ import annotations

import json
from dataclasses import dataclass

import onnx
from onnx import helper, numpy_helper

from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx import edges
from approxnorm.export.onnx.body import Body
from approxnorm.export.onnx.function import datapath_function
from approxnorm.export.onnx.names import DOMAIN, MIN_OPSET, OP_TYPE
from approxnorm.export.onnx.parameters import parameters
from approxnorm.model import RMSNorm


@dataclass(frozen=True)
class Parts:
    """A norm ready to be put into a graph.

    nodes: in order. initializers: gamma, the tables and constants of the edges; all names, of
    values too, begin with the prefix but for those that were given. function: what the
    ApproxRMSNorm node calls; a model needs one of each name.
    """

    nodes: list[onnx.NodeProto]
    initializers: list[onnx.TensorProto]
    function: onnx.FunctionProto


def code_parts(
    model: RMSNorm,
    *,
    opset: int,
    x: str,
    y: str,
    prefix: str = "",
    function_name: str = OP_TYPE,
    signals: tuple[str, ...] = (),
) -> Parts:
    """One node from the value x, codes (..., dim) in their storage type, to y, alike.

    opset: of the default domain in the model that it goes into; the function's body is written
    for it. signals: named signals that are outputs of the node as well, under their own names.

    Raises ApproxNormError for an opset that the body cannot be written for, and for the rsqrt
    method "exact", which has no datapath.
    """
    _check_opset(opset)
    function = datapath_function(
        model.assembly.require_datapath(), function_name, opset, tuple(signals)
    )
    tensors = _tensors(model, prefix)
    node = helper.make_node(
        function.name,
        [x, *(t.name for t in tensors)],
        [y, *signals],
        name=f"{prefix}{OP_TYPE}",
        domain=DOMAIN,
        digest=model.digest,
        # The log domain's inputs do not tell the codes that they come from.
        gamma=[int(code) for code in model.gamma],
        spec=json.dumps(model.spec.to_dict(), ensure_ascii=False, separators=(",", ":")),
    )
    return Parts([node], tensors, function)


def float_parts(
    model: RMSNorm,
    *,
    opset: int,
    x: str,
    y: str,
    prefix: str = "",
    on_grid: bool = False,
) -> Parts:
    """Nodes from float32 x (..., dim) to float32 y: quantise, the norm on codes, dequantise.

    Finite x gives, bit for bit, ``model.dequantize(model(model.quantize(x)))`` rounded to float32.
    on_grid: x is codes times the scale, of which the codes are wanted back (`edges.x_edge`).
    Raises ApproxNormError as code_parts does.
    """
    _check_opset(opset)
    initializers: list[onnx.TensorProto] = []
    body = Body(opset, prefix, initializers)
    inner = code_parts(
        model,
        opset=opset,
        x=edges.quantize(body, model, x, on_grid),
        y=body.reserve("y_codes"),
        prefix=prefix,
    )
    body.nodes += inner.nodes
    edges.dequantize(body, model, inner.nodes[0].output[0], y)
    return Parts(body.nodes, [*inner.initializers, *initializers], inner.function)


def _tensors(model: RMSNorm, prefix: str) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(a, prefix + name) for name, a in parameters(model).items()]


def _check_opset(opset: int) -> None:
    newest = onnx.defs.onnx_opset_version()
    if not MIN_OPSET <= opset <= newest:
        raise ApproxNormError(
            f"opset is {opset}; allowed: {MIN_OPSET} to {newest}, which the installed onnx"
            f" {onnx.__version__} knows"
        )
