"""The body of a function in the making: values, their carriers, and the nodes that make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx
from onnx import helper, numpy_helper

from approxnorm.export.onnx.carriers import Carrier

# const: (); channel: (dim,); row: (..., 1); element: (..., dim). They broadcast as they are.
Level = Literal["const", "channel", "row", "element"]


@dataclass(frozen=True)
class Value:
    """A value of the graph: its name, what carries it, and over what it runs."""

    name: str
    carrier: Carrier
    level: Level


def joint_level(*values: Value) -> Level:
    """The level of what depends on all of the values."""
    kinds = {v.level for v in values} - {"const"}
    if not kinds:
        return "const"
    return kinds.pop() if len(kinds) == 1 else "element"


class Body:
    """Collects nodes. Names are unique; constants and casts are made once.

    prefix: of every name. initializers: where constants go in a graph; a function has none, and
    makes them with nodes.
    """

    def __init__(
        self, opset: int, prefix: str = "", initializers: list[onnx.TensorProto] | None = None
    ) -> None:
        self.opset, self._prefix = opset, prefix
        self.nodes: list[onnx.NodeProto] = []
        self._initializers = initializers
        self._names: set[str] = set()
        self._constants: dict[tuple[Any, ...], str] = {}
        self._casts: dict[tuple[str, Carrier], Value] = {}
        self._signal_names: dict[str, str] = {}

    def reserve(self, name: str) -> str:
        """The name, or one like it that is free."""
        free, number = self._prefix + name, 1
        while free in self._names:
            number += 1
            free = f"{self._prefix}{name}_{number}"
        self._names.add(free)
        return free

    def node(self, op: str, inputs: list[str], name: str = "", **attrs: Any) -> str:
        """Add a node of the default domain; the name of what it makes."""
        output = self.reserve(name or f"v_{op.lower()}")
        self.add(op, inputs, [output], **attrs)
        return output

    def add(self, op: str, inputs: list[str], outputs: list[str], **attrs: Any) -> None:
        """Add a node whose outputs have been named."""
        self.nodes.append(helper.make_node(op, inputs, outputs, **attrs))

    def reduce(self, operator: str, name: str, keep: bool = True) -> str:
        """Over the last axis; axes are an input or, in older opsets, an attribute."""
        attrs: dict[str, Any] = {} if keep else {"keepdims": 0}
        if operator == "ReduceSum" or self.opset >= 18:
            return self.node(operator, [name, self.tensor(np.array([-1]))], **attrs)
        return self.node(operator, [name], axes=[-1], **attrs)

    def has_linear(self, dtype: np.dtype) -> bool:
        """Whether QuantizeLinear and DequantizeLinear take codes of this type."""
        return dtype.itemsize <= (2 if self.opset >= 21 else 1)

    def leading_shape(self, name: str) -> str:
        """All axes but the last."""
        return self.slice(self.node("Shape", [name]), 0, -1, 1)

    def slice(self, name: str, start: int, stop: int, stride: int) -> str:
        """A subset of the last axis."""
        numbers = [self.tensor(np.array([n])) for n in (start, stop, -1, stride)]
        return self.node("Slice", [name, *numbers])

    def call(self, op: str, *args: Value, carrier: Carrier | None = None, **attrs: Any) -> Value:
        """An elementwise operator on values of one carrier, which is the result's unless given."""
        output = self.node(op, [a.name for a in args], **attrs)
        return Value(output, carrier or args[0].carrier, joint_level(*args))

    def tensor(self, array: np.ndarray) -> str:
        """The name of a constant tensor."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = self.reserve("c")
            tensor = numpy_helper.from_array(array, name)
            if self._initializers is None:
                self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
            else:
                self._initializers.append(tensor)
            self._constants[key] = name
        return self._constants[key]

    def const(self, value: float, carrier: Carrier) -> Value:
        """A constant number that the carrier holds exactly."""
        number = carrier.dtype.type(value)
        assert number == value, f"{value} is not exact in {carrier.value}"
        return Value(self.tensor(np.asarray(number)), carrier, "const")

    def cast(self, value: Value, carrier: Carrier) -> Value:
        """The value in another carrier; the caller knows that it is exact there."""
        if value.carrier is carrier:
            return value
        key = (value.name, carrier)
        if key not in self._casts:
            name = self.cast_to(value.name, carrier.dtype)
            self._casts[key] = Value(name, carrier, value.level)
        return self._casts[key]

    def cast_to(self, name: str, dtype: np.dtype) -> str:
        return self.node("Cast", [name], to=helper.np_dtype_to_tensor_dtype(dtype))

    def named(self, value: Value, name: str) -> None:
        """Give a value its signal's name in the finished body, unless it has another's."""
        if value.name.startswith("v_") and value.name not in self._signal_names:
            self._signal_names[value.name] = self.reserve(name)

    def rename(self, old: str, new: str) -> None:
        """Let a value have a certain name in the finished body."""
        self._signal_names[old] = new

    def finished(self) -> list[onnx.NodeProto]:
        """The nodes, with the signals' names."""
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [self._signal_names.get(n, n) for n in names]
        return self.nodes
