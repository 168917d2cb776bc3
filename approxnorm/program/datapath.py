"""A datapath: element programs, reductions over the row, and row programs, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from approxnorm.program import ops
from approxnorm.program.interval import Interval, check_width
from approxnorm.program.signal import Node, Program
from approxnorm.tables.table import Table

MAX_TOP = 8

Level = Literal["element", "channel", "row"]
ReduceKind = Literal["sum", "max", "top"]


@dataclass(frozen=True)
class Port:
    """A signal between stages: a value per element, per channel or per row."""

    name: str
    level: Level
    interval: Interval


@dataclass(frozen=True)
class MapStage:
    """A program run for each element or once a row."""

    level: Literal["element", "row"]
    program: Program


@dataclass(frozen=True)
class ReduceStage:
    """A reduction of an element signal over ``count`` elements from ``start``, every ``stride``.

    "sum" is exact; "max" is the largest value; "top" gives the ``len(outputs)`` largest values,
    largest first, by value, so that ties do not matter; it pads with 0 where count is smaller.
    """

    kind: ReduceKind
    source: str
    outputs: tuple[str, ...]
    start: int
    count: int
    stride: int

    @property
    def stop(self) -> int:
        """One past the last element that is taken."""
        return self.start + (self.count - 1) * self.stride + 1


@dataclass(frozen=True)
class Datapath:
    """Stages over a row of ``dim`` elements, from ``inputs`` to the element signal ``output``.

    settings: the layer's numbers by name, which are inputs of a datapath built for run-time ports.
    """

    dim: int
    inputs: tuple[Port, ...]
    stages: tuple[MapStage | ReduceStage, ...]
    ports: dict[str, Port]
    output: str
    settings: dict[str, int] = field(default_factory=dict)

    def programs(self) -> Iterator[MapStage]:
        return (s for s in self.stages if isinstance(s, MapStage))

    def tables(self) -> list[Table]:
        """Each distinct table once, in order of use."""
        found = {
            n.attrs["table"]: None
            for s in self.programs()
            for n in s.program.nodes
            if n.op == "lookup"
        }
        return list(found)

    def signals(self) -> list[Port]:
        """Every named signal in order of computation, inputs first; unused inputs too."""
        listed = list(self.inputs)
        for stage in self.stages:
            if isinstance(stage, ReduceStage):
                listed += [self.ports[name] for name in stage.outputs]
            else:
                listed += _named_ports(stage)
        return listed

    def count_multipliers(self) -> dict[Level, int]:
        """Multiplications of two signals, for each element and for each row.

        Multiplications by bare constants and squares of at most 6 bits (a small table) are not
        counted; those by a parameter of the spec are, as it may be a register.
        """
        counts: dict[Level, int] = {"element": 0, "row": 0}
        for stage in self.programs():
            levels = node_levels(stage.program, self.ports)
            for node, level in zip(stage.program.nodes, levels, strict=True):
                if node.op == "mul" and _is_multiplier(node, stage.program.nodes):
                    counts["row" if level == "row" else "element"] += 1
        return counts


def node_levels(program: Program, ports: dict[str, Port]) -> list[Level | Literal["const"]]:
    """Where each node must be computed: element if it mixes channel and row signals.

    Backends use it to hoist what is the same for a whole row out of the element loop.
    """
    levels: list[Any] = []
    for node in program.nodes:
        if node.op == "input":
            levels.append(ports[node.name or ""].level)
            continue
        kinds = {levels[i] for i in node.args} - {"const"}
        if not kinds:
            levels.append("const")
        else:
            levels.append(kinds.pop() if len(kinds) == 1 else "element")
    return levels


def _named_ports(stage: MapStage) -> list[Port]:
    return [Port(n.name or "", stage.level, n.interval) for n in stage.program.named_nodes()]


def _is_multiplier(node: Node, nodes: Sequence[Node]) -> bool:
    a, b = (nodes[i] for i in node.args)
    if any(n.op == "const" and n.name is None for n in (a, b)):
        return False
    return not (node.args[0] == node.args[1] and a.interval.width <= 6)


class DatapathBuilder:
    """Builds a Datapath stage by stage; each method returns the Port(s) it made.

    ports: the layer's numbers (``ops.setting``) become row inputs, and dim is the longest row:
    every reduction takes all that there may be.
    """

    def __init__(self, dim: int, *, ports: bool = False) -> None:
        self._dim = dim
        self.settings_are_ports = ports
        self._ports: dict[str, Port] = {}
        self._inputs: list[Port] = []
        self._stages: list[MapStage | ReduceStage] = []
        self._settings: dict[str, int] = {}

    @property
    def dim(self) -> int:
        return self._dim

    def input(self, name: str, level: Level, lo: int, hi: int) -> Port:
        """Declare an element or channel input; its interval comes from its format alone."""
        if level == "row":
            raise AssertionError(f"input {name}: a row signal comes from a reduction")
        port = self._add(Port(name, level, Interval(lo, hi)))
        self._inputs.append(port)
        return port

    def setting(self, name: str, value: int, lo: int, hi: int) -> tuple[Port, ...]:
        """A number of the layer for the stages that follow: its port, or () if it is fixed."""
        self._settings[name] = value
        if not self.settings_are_ports:
            return ()
        self._inputs.append(self._add(Port(name, "row", Interval(lo, hi))))
        return (self._inputs[-1],)

    def element(self, stage: str, function: Callable[..., Any], *inputs: Port) -> Any:
        """Trace an element program; returns its output Port, or a tuple if it returns several."""
        return self._map("element", stage, function, inputs)

    def row(self, stage: str, function: Callable[..., Any], *inputs: Port) -> Any:
        """Trace a row program; its inputs are row signals."""
        foreign = [p.name for p in inputs if p.level != "row"]
        if foreign:
            raise AssertionError(f"row program {stage} reads {foreign}, not of the row level")
        return self._map("row", stage, function, inputs)

    def sum(
        self, name: str, source: Port, start: int = 0, count: int | None = None, stride: int = 1
    ) -> Port:
        """The exact sum of an element signal over a static subset of the row."""
        size = self._size(count, start, stride)
        total = Interval(source.interval.lo * size, source.interval.hi * size)
        check_width(total, name)
        return self._reduce("sum", source, [Port(name, "row", total)], start, size, stride)[0]

    def max(self, name: str, source: Port) -> Port:
        """The largest value of an element signal over the row."""
        port = Port(name, "row", source.interval)
        return self._reduce("max", source, [port], 0, self._dim, 1)[0]

    def top(self, name: str, source: Port, k: int) -> tuple[Port, ...]:
        """The k largest values, largest first, as ``name_0`` ... ``name_{k-1}``."""
        if not 1 <= k <= MAX_TOP or source.interval.lo < 0:
            raise AssertionError(f"top needs k from 1 to {MAX_TOP} and values >= 0")
        ports = [Port(f"{name}_{i}", "row", source.interval.hull(Interval(0, 0))) for i in range(k)]
        return tuple(self._reduce("top", source, ports, 0, self._dim, 1))

    def finish(self, output: Port) -> Datapath:
        return Datapath(
            self._dim,
            tuple(self._inputs),
            tuple(self._stages),
            dict(self._ports),
            output.name,
            dict(self._settings),
        )

    def _size(self, count: int | None, start: int, stride: int) -> int:
        available = len(range(start, self._dim, stride)) if start >= 0 and stride >= 1 else 0
        size = available if count is None or self.settings_are_ports else count
        if not 1 <= size <= available:
            raise AssertionError(f"a reduction of {size} elements does not fit the row")
        return size

    def _add(self, port: Port) -> Port:
        if port.name in self._ports:
            raise AssertionError(f"two signals are named {port.name}")
        check_width(port.interval, port.name)
        self._ports[port.name] = port
        return port

    def _add_settings(self, program: Program, count: int) -> None:
        """Inputs of a program past ``count`` are settings; two programs may read the same."""
        self._settings |= {name: s.value for name, s in program.settings.items()}
        for name in program.inputs[count:]:
            if name not in self._ports:
                port = self._add(Port(name, "row", program.settings[name].span))
                self._inputs.append(port)

    def _map(
        self,
        level: Literal["element", "row"],
        stage: str,
        function: Callable[..., Any],
        inputs: tuple[Port, ...],
    ) -> Any:
        named = [(p.name, p.interval) for p in inputs]
        program = ops.trace(stage, function, named, ports=self.settings_are_ports)
        self._add_settings(program, len(inputs))
        map_stage = MapStage(level, program)
        self._stages.append(map_stage)
        ports = {p.name: self._add(p) for p in _named_ports(map_stage)}
        outputs = tuple(ports[name] for name in program.output_names)
        return outputs if len(outputs) > 1 else outputs[0]

    def _reduce(
        self,
        kind: ReduceKind,
        source: Port,
        ports: list[Port],
        start: int,
        count: int,
        stride: int,
    ) -> list[Port]:
        for port in ports:
            self._add(port)
        names = tuple(p.name for p in ports)
        self._stages.append(ReduceStage(kind, source.name, names, start, count, stride))
        return ports
