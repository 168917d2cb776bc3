"""Values of an ONNX graph that are the same in every run, and what they are."""

from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms.found import ReadTensor
from approxnorm.export.norms.wiring import STANDARD, opset_of

# What stands between a stored parameter and where it is used; all without state or randomness.
FOLDED = frozenset(
    {"Add", "Div", "Exp", "Mul", "Neg", "Pow", "Reciprocal", "Softplus", "Sqrt", "Sub"}
    | {"Cast", "Concat", "ConstantOfShape", "DequantizeLinear", "Expand", "Flatten", "Gather"}
    | {"Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)

# onnx.reference has no older DequantizeLinear; FOLDED means the same in 13 to 19.
OLDEST_RUN = 19


def read_loaded(tensor: Any) -> np.ndarray:
    """The contents of a tensor that is in memory; external data must have been loaded."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ApproxNormError(
            f"the initializer {tensor.name!r} has external data that is not loaded: "
            "load it, or say how it is read"
        )
    return onnx.numpy_helper.to_array(tensor)


class Constants:
    """The constants of a model's main graph: parameters, and what is computed from them alone."""

    def __init__(self, model: onnx.ModelProto, read: ReadTensor = read_loaded) -> None:
        self._model, self._read = model, read
        self._opset = opset_of(model) or 0
        inputs = {value.name for value in model.graph.input}
        stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self.overridable = inputs & stored.keys()
        self._stored = {name: stored[name] for name in stored.keys() - inputs}
        self._writer: dict[str, int] = {}
        self._held: dict[str, np.ndarray] = {}
        for place, node in enumerate(model.graph.node):  # what is read is written before
            if self._is_folded(node):
                self._writer |= {name: place for name in node.output}

    def _is_folded(self, node: onnx.NodeProto) -> bool:
        if node.domain not in STANDARD:
            return False
        if node.op_type == "Constant":
            return True
        return node.op_type in FOLDED and all(name in self for name in node.input if name)

    def __contains__(self, name: object) -> bool:
        return name in self._stored or name in self._writer

    def why_not(self, name: str) -> str:
        """Why a value is no constant, to follow "gamma is" or "eps is"."""
        if name in self.overridable:
            return "an input of the graph with a default, so that a caller may change it"
        return "computed at run time"

    def value(self, name: str) -> np.ndarray:
        """What the constant `name` holds, in the graph's own type and shape."""
        if name not in self._held:
            stored = self._stored.get(name)
            held = self._run(name) if stored is None else np.asarray(self._read(stored))
            self._held[name] = held
        return self._held[name]

    def parameters(self, name: str) -> list[str]:
        """Names of the initializers that the constant `name` is computed from."""
        return [name] if name in self._stored else self._cone(name)[1]

    def _run(self, name: str) -> np.ndarray:
        """The value of a constant that is computed: its nodes as a model of their own."""
        nodes, parameters = self._cone(name)
        graph = onnx.helper.make_graph(
            nodes,
            "constant",
            [],
            [onnx.ValueInfoProto(name=name)],
            [onnx.numpy_helper.from_array(self.value(each), each) for each in parameters],
        )
        alone = onnx.ModelProto(ir_version=self._model.ir_version, graph=graph)
        alone.opset_import.add(domain="", version=max(OLDEST_RUN, self._opset))
        with np.errstate(all="ignore"):  # what is no number is told by whoever uses it
            outputs: Any = ReferenceEvaluator(alone).run(None, {})
        return np.asarray(outputs[0])

    def _cone(self, name: str) -> tuple[list[onnx.NodeProto], list[str]]:
        """The nodes, in order, that compute a constant, and the initializers that they read."""
        places: set[int] = set()
        parameters: set[str] = set()
        waiting: list[str] = [name]
        while waiting:
            wanted = waiting.pop()
            if wanted in self._stored:
                parameters.add(wanted)
            elif wanted and self._writer[wanted] not in places:
                places.add(self._writer[wanted])
                waiting.extend(self._model.graph.node[self._writer[wanted]].input)
        return [self._model.graph.node[place] for place in sorted(places)], sorted(parameters)
