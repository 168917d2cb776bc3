"""The QONNX operation behind our domain: QONNX imports a node's domain as a Python module.

``ApproxRMSNorm`` runs the NumPy model that the node's attributes describe. In a graph with
several norms the further ones are called ``ApproxRMSNorm_2`` and so on, each name standing for a
function of its own; all of them are this class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import GraphProto, NodeProto, helper
from qonnx.core.datatype import DataType
from qonnx.custom_op.base import CustomOp

from approxnorm.backends.numpy_backend import storage_dtype
from approxnorm.export.onnx.names import OP_TYPE
from approxnorm.export.onnx.rebuild import (
    check_input_count,
    check_parameters,
    model_of_node,
    title,
)
from approxnorm.export.qonnx.containers import check_container, datatype_name, from_container

MAX_NAMES = 4096  # QONNX goes through __all__ to find an op, so that it cannot be endless

__all__ = ["ApproxRMSNorm", *(f"ApproxRMSNorm_{i}" for i in range(2, MAX_NAMES + 1))]


class ApproxRMSNorm(CustomOp):
    """Codes of y (..., dim) of codes of x (..., dim), by the NumPy model.

    Both may lie in integers or, as is usual in QONNX, in float32; y is written in the type that
    the graph declares for it. Inputs after x are what the function's body reads; they must be
    those of the node's spec and gamma.

    Its methods raise ApproxNormError, naming the node, where the model cannot be rebuilt or its
    digest is not the node's, for parameters that were changed, for values that are no codes of x,
    and for codes that float32 does not hold.
    """

    def get_nodeattr_types(self) -> Mapping[str, tuple[str, bool, Any]]:
        """The model's digest, gamma's codes and the resolved spec as JSON; all are required."""
        return {"digest": ("s", True, ""), "gamma": ("ints", True, []), "spec": ("s", True, "")}

    def make_shape_compatible_op(self, model: Any) -> NodeProto:
        """y has x's shape, and the type that is declared for it, or the storage type of y."""
        node, to = self.onnx_node, _declared_type(model.graph, self.onnx_node.output[0])
        if not to:
            port = model_of_node(node).assembly.require_datapath().ports["y"]
            to = helper.np_dtype_to_tensor_dtype(storage_dtype(port.interval))
        return helper.make_node("Cast", node.input[:1], node.output, to=to)

    def infer_node_datatype(self, model: Any) -> None:
        """y's codes are integers of y's width."""
        name = datatype_name(model_of_node(self.onnx_node).assembly.context.y)
        model.set_tensor_datatype(self.onnx_node.output[0], DataType[name])

    def execute_node(self, context: dict[str, Any], graph: GraphProto) -> None:
        """Take x from the executor's values, and put y among them."""
        node, where = self.onnx_node, title(self.onnx_node)
        model = model_of_node(node)
        x, *given = [context[name] for name in node.input]
        check_parameters(node, model, given)
        y = model(from_container(f"{where}: its input {node.input[0]}", x))
        declared = _declared_type(graph, node.output[0])
        dtype = helper.tensor_dtype_to_np_dtype(declared) if declared else y.dtype
        check_container(f"{where}: its output", y, dtype)
        context[node.output[0]] = y.astype(dtype)

    def verify_node(self) -> list[str]:
        """What is right, as QONNX's own operations say it; ApproxNormError for what is wrong."""
        model = model_of_node(self.onnx_node)
        check_input_count(self.onnx_node, model)
        return [
            "All necessary attributes exist",
            "The number of inputs is correct",
            f"The digest is that of the spec, the tables and gamma: {model.digest}",
        ]


def _declared_type(graph: GraphProto, name: str) -> int:
    """The element type of a tensor in the graph; 0, which is undefined, if it has none."""
    for value in (*graph.output, *graph.value_info, *graph.input):
        if value.name == name:
            return int(value.type.tensor_type.elem_type)
    return 0


def __getattr__(name: str) -> type[CustomOp]:
    """The class, for every name that an op of ours may have."""
    prefix, _, number = name.rpartition("_")
    if prefix == OP_TYPE and number.isdigit():
        return ApproxRMSNorm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
