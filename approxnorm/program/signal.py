"""Signals, the tracer that records what is done to them, and the program it leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from approxnorm.program.interval import Interval, check_width


@dataclass(frozen=True)
class Node:
    """One step of a program in single-assignment form.

    ``op`` is "input", "const" or a key of ``ops.OPS``; ``args`` are indices of earlier nodes.
    """

    op: str
    args: tuple[int, ...]
    attrs: Mapping[str, Any]
    interval: Interval
    name: str | None = None


@dataclass(frozen=True)
class Setting:
    """A number that differs between the layers of a model, and all that it may be in any layer."""

    value: int
    span: Interval


@dataclass(frozen=True)
class Program:
    """A straight-line integer program: what backends read.

    ``inputs`` are the first nodes' names in order; ``outputs`` are node indices, each named.
    ``settings`` are the numbers of the layer that the program was traced with, by name; traced for
    run-time ports they are inputs, and their values here mean nothing.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[int, ...]
    settings: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(self.nodes[i].name or "" for i in self.outputs)

    def needed(
        self, roots: Iterable[int] | None = None, given: frozenset[int] = frozenset()
    ) -> set[int]:
        """Nodes that ``roots`` depend on, themselves too; of the outputs, if none are given.

        Nodes in ``given`` need nothing.
        """
        found = set(self.outputs if roots is None else roots)
        for i in range(len(self.nodes) - 1, -1, -1):
            if i in found and i not in given:
                found.update(self.nodes[i].args)
        return found

    def named_nodes(self) -> list[Node]:
        """Every named signal but the inputs, in order of computation."""
        return [n for n in self.nodes if n.name is not None and n.op != "input"]


@dataclass(frozen=True, eq=False)
class Signal:
    """A value known by its interval only. Arithmetic on it records nodes."""

    tracer: Tracer
    index: int
    interval: Interval = field(repr=True)

    # An array must not take a Signal for one of its elements.
    __array_ufunc__ = None

    # ``ops`` imports this module, so the operators look it up when used.
    def __add__(self, other: Any) -> Any:
        return _ops().add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return _ops().sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return _ops().sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return _ops().mul(self, other)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return _ops().neg(self)

    def __bool__(self) -> bool:
        raise TypeError("a Signal has no truth value; use ops.select")


class Tracer:
    """Collects the nodes of one program while its function runs.

    ports: inputs that take the place of settings of the same name; None while it is not known yet
    which there are: any setting is then a value known by its span only.
    """

    def __init__(
        self,
        program_name: str,
        inputs: Sequence[tuple[str, Interval]],
        ports: Sequence[str] | None = (),
    ) -> None:
        self._program_name = program_name
        self._ports = None if ports is None else frozenset(ports)
        self.settings: dict[str, Setting] = {}
        for name, interval in inputs:
            check_width(interval, f"{program_name}.{name}")
        self._inputs = tuple(name for name, _ in inputs)
        self._nodes = [Node("input", (), {}, interval, name) for name, interval in inputs]
        self._constants: dict[int, int] = {}

    def input_signals(self) -> list[Signal]:
        return [Signal(self, i, self._nodes[i].interval) for i in range(len(self._inputs))]

    def lift(self, value: Any) -> Signal:
        """A Signal as it is; an integer as a constant node, one for each value."""
        if isinstance(value, Signal):
            if value.tracer is not self:
                raise AssertionError("a Signal of one program was used in another")
            return value
        number = int(value)
        if number != value:
            raise TypeError(f"constants are integers, found {value!r}")
        if number not in self._constants:
            constant = self.record("const", [], {"value": number}, Interval(number, number))
            self._constants[number] = constant.index
        return Signal(self, self._constants[number], Interval(number, number))

    def parameter(self, name: str, value: int, span: Interval | None) -> Signal:
        """A constant that keeps its own node and name; a setting, if it has a span."""
        port = None if span is None else self.setting(name, value, span)
        if port is not None:
            return port
        signal = self.record("const", [], {"value": value}, Interval(value, value))
        self.name(signal, name)
        return signal

    def setting(self, name: str, value: int, span: Interval) -> Signal | None:
        """Note a number of the layer; its input, if this program has one for it."""
        self.settings[name] = Setting(value, span)
        if self._ports is None:
            return self.record("input", [], {}, span)
        if name not in self._ports:
            return None
        index = self._inputs.index(name)
        return Signal(self, index, self._nodes[index].interval)

    def record(
        self, op: str, args: Sequence[Signal], attrs: Mapping[str, Any], interval: Interval
    ) -> Signal:
        check_width(interval, f"{self._program_name}.{op}")
        self._nodes.append(Node(op, tuple(s.index for s in args), dict(attrs), interval))
        return Signal(self, len(self._nodes) - 1, interval)

    def replay(self, node: Node, signals: Sequence[Signal]) -> Signal:
        """Record a node of another program again, of which ``signals`` are the nodes so far."""
        if node.op == "input":
            return Signal(self, len(signals), node.interval)
        args = [signals[a] for a in node.args]
        return self.record(node.op, args, node.attrs, node.interval)

    def interval(self, index: int) -> Interval:
        return self._nodes[index].interval

    def has_name(self, signal: Signal) -> bool:
        return self._nodes[signal.index].name is not None

    def name(self, signal: Signal, name: str) -> None:
        node = self._nodes[signal.index]
        if node.name is not None:
            raise AssertionError(f"signal {node.name} of {self._program_name} is named twice")
        if any(n.name == name for n in self._nodes):
            raise AssertionError(f"two signals of {self._program_name} are named {name}")
        self._nodes[signal.index] = Node(node.op, node.args, node.attrs, node.interval, name)

    def finish(self, outputs: Sequence[Signal]) -> Program:
        for signal in outputs:
            if self._nodes[signal.index].name is None:
                raise AssertionError(f"an output of {self._program_name} has no name")
        return Program(
            self._program_name,
            tuple(self._nodes),
            self._inputs,
            tuple(s.index for s in outputs),
            dict(self.settings),
        )


def _ops() -> Any:
    from approxnorm.program import ops

    return ops
