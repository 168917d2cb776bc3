"""Changed datapaths with the widths that their signals have in hardware.

A mistake may give a signal values that its type does not hold. C++ and Verilog then keep the low
bits without a word; so do the datapaths made here, or what is proven of them would not be true of
hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from approxnorm.formats import Overflow, Rounding, limit
from approxnorm.program import Interval, WidthError, ops
from approxnorm.program.datapath import Datapath, MapStage, Port, ReduceStage
from approxnorm.program.signal import Node, Program, Signal, Tracer
from approxnorm.tables.table import Table


def type_limits(interval: Interval) -> tuple[int, int]:
    """All codes of the type of an interval."""
    width = interval.width
    if interval.signed:
        return -(1 << (width - 1)), (1 << (width - 1)) - 1
    return 0, (1 << width) - 1


def fit(value: Any, interval: Interval) -> Any:
    """A value wrapped to the type of an interval."""
    return ops.round_shift(value, 0, Rounding.TRN, type_limits(interval), Overflow.WRAP)


def stored(table: Table, entry: int) -> int:
    """What a memory as wide as the table keeps of an entry."""
    size = 1 << table.width
    lo = -size // 2 if table.signed else 0
    return int(limit(np.array(entry), lo, lo + size - 1, Overflow.WRAP))


def keep_widths(datapath: Datapath, first: int, changed: frozenset[int]) -> Datapath:
    """The datapath with each signal wrapped to its type wherever it may now leave it.

    first, changed: the stage that was changed and the indices of its nodes that were. Types are
    those of the intervals that nodes and ports have. Programs within them are left as they are.
    """
    kept = _Kept(dict(datapath.ports))
    stages: list[MapStage | ReduceStage] = list(datapath.stages[:first])
    for stage in datapath.stages[first:]:
        if isinstance(stage, ReduceStage):
            stages += kept.reduction(stage)
        else:
            stages.append(kept.program(stage, changed))
            changed = frozenset()  # of later stages only what they read is another
    return replace(datapath, stages=tuple(stages), ports=kept.ports)


@dataclass
class _Kept:
    """Ports by name, and what those may hold that may leave their intervals."""

    ports: dict[str, Port]
    loose: dict[str, Interval] = field(default_factory=dict)

    def program(self, stage: MapStage, changed: frozenset[int]) -> MapStage:
        again = _Again(stage.program, self.ports, self.loose, changed)
        self.loose |= again.loose()
        return MapStage(stage.level, again.program()) if again.differs else stage

    def reduction(self, stage: ReduceStage) -> list[MapStage | ReduceStage]:
        source = self.loose.get(stage.source, self.ports[stage.source].interval)
        if stage.kind == "sum":
            result = Interval(source.lo * stage.count, source.hi * stage.count)
        else:
            result = source if stage.kind == "max" else source.hull(Interval(0, 0))
        declared = {name: self.ports[name].interval for name in stage.outputs}
        beyond = [n for n, interval in declared.items() if not _within_type(result, interval)]
        self.loose |= {n: result for n, i in declared.items() if not _within(result, i)}
        if not beyond:
            return [stage]
        exact = {name: f"{name}_exact" for name in beyond}
        self.ports |= {e: Port(e, "row", result) for e in exact.values()}
        self.loose |= {n: Interval(*type_limits(declared[n])) for n in beyond}
        outputs = tuple(exact.get(name, name) for name in stage.outputs)
        return [replace(stage, outputs=outputs), *(self._wrap(n, exact[n], result) for n in beyond)]

    def _wrap(self, name: str, exact: str, result: Interval) -> MapStage:
        interval = self.ports[name].interval
        program = ops.trace("wrap", lambda v: ops.named(name, fit(v, interval)), [(exact, result)])
        return MapStage("row", program)


def _within(inner: Interval, outer: Interval) -> bool:
    return outer.lo <= inner.lo and inner.hi <= outer.hi


def _within_type(interval: Interval, declared: Interval) -> bool:
    return _within(interval, Interval(*type_limits(declared)))


class _Again:
    """A program traced again, as far as it follows from what was changed, with its old types."""

    def __init__(
        self,
        program: Program,
        ports: dict[str, Port],
        loose: dict[str, Interval],
        changed: frozenset[int],
    ) -> None:
        self._own, self._ports = program, ports
        inputs = program.nodes[: len(program.inputs)]
        names = [n.name or "" for n in inputs]
        # A port may have been made another than its readers take it for.
        own = {n: i.interval for n, i in zip(names, inputs, strict=True)}
        other = {n: ports[n].interval for n in names if not _within(ports[n].interval, own[n])}
        loose = other | loose
        spans = [loose.get(n, own[n]) for n in names]
        self._tracer = Tracer(program.name, list(zip(names, spans, strict=True)))
        self._follows = changed | {i for i, n in enumerate(names) if n in loose}
        self._signals: list[Signal] = []
        self._named: dict[int, Signal] = {}
        self.differs = False
        for i, node in enumerate(program.nodes):
            self._signals.append(self._next(i, node))

    def _next(self, i: int, node: Node) -> Signal:
        if node.op == "input":
            return Signal(self._tracer, i, self._tracer.interval(i))
        args = [self._signals[a] for a in node.args]
        if i in self._follows or self._follows & set(node.args):
            self._follows |= {i}
            signal = self._computed(node, args)
        else:
            signal = self._tracer.replay(node, self._signals)
        if node.name is not None:
            self._named[i] = self._as_port(signal, node.name)
            self._tracer.name(self._named[i], node.name)
        return signal

    def _as_port(self, signal: Signal, name: str) -> Signal:
        """What of a signal leaves the program: its port keeps the type that it had."""
        port = self._ports[name].interval
        if _within_type(signal.interval, port):
            return signal
        self.differs = True
        fitted: Signal = fit(signal, port)
        return fitted

    def _computed(self, node: Node, args: Sequence[Signal]) -> Signal:
        """The node's value in its type; an unnamed constant has none, it is a literal."""
        if node.op == "round_shift":
            node, args = self._shifter(node, args)
        signal = _record(self._tracer, node, args)
        is_literal = node.op == "const" and node.name is None
        if is_literal or _within_type(signal.interval, node.interval):
            return signal
        self.differs = True
        fitted: Signal = fit(signal, node.interval)
        return fitted

    def _shifter(self, node: Node, args: Sequence[Signal]) -> tuple[Node, list[Signal]]:
        """A round-shift as it was built: for the amounts and the values that were to be expected.

        It shifts no further than the furthest of those, and limits nothing if none could be beyond.
        """
        value, amount = (self._own.nodes[a].interval for a in node.args)
        if not _within(args[0].interval, value) and not ops.limits_act(node.attrs, value, amount):
            node = replace(node, attrs={**node.attrs, "lo": None, "hi": None})
            self.differs = True
        reached = args[1]
        if not _within(reached.interval, amount):
            self.differs = True
            least, most = min(amount.lo, 0), max(amount.hi, 0)
            reached = ops.minimum(ops.maximum(reached, least), most)
        return node, [args[0], reached]

    def loose(self) -> dict[str, Interval]:
        """Named signals that may leave the interval that they have."""
        spans = {self._own.nodes[i].name or "": s.interval for i, s in self._named.items()}
        return {n: i for n, i in spans.items() if not _within(i, self._ports[n].interval)}

    def program(self) -> Program:
        return self._tracer.finish([self._named[i] for i in self._own.outputs])


def _record(tracer: Tracer, node: Node, args: Sequence[Signal]) -> Signal:
    """The node on other arguments, with the interval that follows from theirs."""
    if node.op == "const":
        value = node.attrs["value"]
        return tracer.record("const", [], node.attrs, Interval(value, value))
    if node.op == "assume":  # what was assumed need not be so any more
        span = args[0].interval
        return tracer.record("assume", args, {**node.attrs, "lo": span.lo, "hi": span.hi}, span)
    try:
        signal: Signal = ops.apply(node.op, *args, **node.attrs)
    except (AssertionError, WidthError):
        # An address past the table, a root of less than 0: no hardware says what comes of it.
        signal = tracer.record(node.op, args, node.attrs, node.interval)
    return signal
