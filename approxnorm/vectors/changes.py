"""Small changes to a datapath that an engineer might make by mistake, one at a time.

Rows that let each of them show in y are what golden vectors are for. Only changes of the integer
program are made here; wiring mistakes (lanes, buffers) show in almost every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.formats import Overflow, Rounding, lowest
from approxnorm.program import ops
from approxnorm.program.datapath import Datapath, MapStage, ReduceStage
from approxnorm.program.interval import Interval
from approxnorm.program.signal import Node, Program
from approxnorm.tables.table import Table
from approxnorm.vectors.probe import Probe, Site, replace_node
from approxnorm.vectors.widths import keep_widths, stored

_WIDE = Interval(-(1 << 40), 1 << 40)  # makes NumPy compute in int64, so that nothing wraps
# On values >= 0 the two modes of a pair are the same; on values <= 0 those of the others.
_POSITIVE_TWINS = (
    {Rounding.TRN, Rounding.TRN_ZERO},
    {Rounding.RND, Rounding.RND_INF},
    {Rounding.RND_MIN_INF, Rounding.RND_ZERO},
)
_NEGATIVE_TWINS = (
    {Rounding.TRN_ZERO},
    {Rounding.TRN},
    {Rounding.RND, Rounding.RND_ZERO},
    {Rounding.RND_MIN_INF, Rounding.RND_INF},
)


# What a changed datapath may raise: an address past a table, a broken assumption, a division by 0.
ASTRAY = (IndexError, AssertionError)


@dataclass(frozen=True)
class Change:
    """A changed datapath; ``stage`` is where it was changed, ``nodes`` which of its nodes.

    plain: the datapath with the change, each signal with the type that it had: what C++ with this
    mistake says. bits: what the sum of stage ``stage`` was narrowed to, if it was.
    twin: a change elsewhere that changes as much, which may be easier to prove harmless.
    """

    name: str
    stage: int
    plain: Datapath
    nodes: frozenset[int] = frozenset()
    bits: int | None = None
    twin: Change | None = None

    @cached_property
    def datapath(self) -> Datapath:
        """What it computes: values that leave their type wrap, as in hardware."""
        return widened(keep_widths(self.plain, self.stage, self.nodes))

    def y(self, probe: Probe, codes: np.ndarray) -> np.ndarray:
        """What the changed datapath makes of codes (rows, dim)."""
        return NumpyBackend(self.datapath).run(probe.inputs(codes))


def widened(datapath: Datapath) -> Datapath:
    """The same datapath computed in int64, so that changed values cannot leave their type."""
    stages: list[MapStage | ReduceStage] = []
    for stage in datapath.stages:
        if isinstance(stage, MapStage):
            stages.append(MapStage(stage.level, widened_nodes(stage.program)))
        else:
            stages.append(stage)
    ports = {n: replace(p, interval=p.interval.hull(_WIDE)) for n, p in datapath.ports.items()}
    return replace(datapath, stages=tuple(stages), ports=ports)


def widened_nodes(program: Program) -> Program:
    """The same program computed in int64."""
    nodes = tuple(replace(n, interval=n.interval.hull(_WIDE)) for n in program.nodes)
    return replace(program, nodes=nodes)


def with_table(datapath: Datapath, table: Table, changed: Table) -> Datapath:
    """A datapath that reads ``changed`` wherever it read ``table``."""
    for s, stage in enumerate(datapath.stages):
        if not isinstance(stage, MapStage):
            continue
        for i, node in enumerate(stage.program.nodes):
            if node.op == "lookup" and node.attrs["table"] == table:
                new = replace(node, attrs={**node.attrs, "table": changed})
                datapath = replace_node(datapath, s, i, new)
    return datapath


def table_change(probe: Probe, site: Site, entry: int, delta: int) -> Change:
    """One entry of a table made larger by delta, in a memory as wide as it is."""
    entries = list(site.table.entries)
    entries[entry] = stored(site.table, entries[entry] + delta)
    return _of_table(probe, site, f"{site.table.name}[{entry}] {delta:+d}", entries)


def whole_table_change(probe: Probe, site: Site, delta: int) -> Change:
    """Every entry of a table made larger by delta."""
    entries = [stored(site.table, e + delta) for e in site.table.entries]
    return _of_table(probe, site, f"{site.table.name} {delta:+d}", entries)


def _of_table(probe: Probe, site: Site, name: str, entries: Sequence[int]) -> Change:
    """A table with other entries, wherever it is read."""
    reading = [
        (s, i)
        for s, stage in enumerate(probe.datapath.stages)
        if isinstance(stage, MapStage)
        for i, n in enumerate(stage.program.nodes)
        if n.op == "lookup" and n.attrs["table"] == site.table
    ]
    first = min(s for s, _ in reading)
    plain = with_table(probe.datapath, site.table, replace(site.table, entries=tuple(entries)))
    return Change(name, first, plain, frozenset(i for s, i in reading if s == first))


def small_changes(datapath: Datapath) -> list[Change]:
    """Rounding and overflow modes, limits, thresholds, constants and ends of reductions."""
    found: list[Change] = []
    for s, stage in enumerate(datapath.stages):
        if isinstance(stage, MapStage):
            for i, node, what in _node_changes(stage.program):
                label = _label(stage.program, i)
                changed = replace_node(datapath, s, i, node)
                found.append(Change(f"{label}: {what}", s, changed, frozenset({i})))
        else:
            found += _reduction_changes(datapath, s, stage)
    return found


def _label(program: Program, index: int) -> str:
    node = program.nodes[index]
    return f"{program.name}.{node.name or f'{node.op}_{index}'}"


def _node_changes(program: Program) -> Iterator[tuple[int, Node, str]]:
    """(node index, changed node, in words) for every change within one program."""
    compared = {a for n in program.nodes if n.op in ("less", "equal", "min", "max") for a in n.args}
    live = program.needed()
    for i, node in enumerate(program.nodes):
        if i not in live:
            continue
        if node.op == "round_shift":
            arguments = [program.nodes[a].interval for a in node.args]
            for attrs, what in _round_shift_changes(node, *arguments):
                yield i, replace(node, attrs={**node.attrs, **attrs}), what
        elif node.op == "const" and (node.name is not None or i in compared):
            value = node.attrs["value"]
            for other in dict.fromkeys([value - 1, value + 1, 0]):
                if other != value:
                    changed = replace(node, attrs={"value": other})
                    yield i, changed, f"{value} becomes {other}"


def _round_shift_changes(
    node: Node, value: Interval, amount: Interval
) -> Iterator[tuple[dict[str, Any], str]]:
    if amount.hi > 0:
        for rounding in _other_roundings(node.attrs["rounding"], value):
            yield {"rounding": rounding}, f"rounding {rounding}"
    if not ops.limits_act(node.attrs, value, amount):
        return
    lo, hi, overflow = (node.attrs[k] for k in ("lo", "hi", "overflow"))
    free = ops.rounded_interval(node.attrs, value, amount)
    for mode in _other_overflows(overflow, lo, hi, free):
        yield {"overflow": mode}, f"overflow {mode}"
    if overflow is not Overflow.WRAP:
        if free.hi > hi:
            yield {"hi": hi + 1}, f"upper limit {hi + 1}"
            if hi - 1 >= lo:
                yield {"hi": hi - 1}, f"upper limit {hi - 1}"
        if free.lo < lo:
            yield {"lo": lo + 1}, f"lower limit {lo + 1}"


def _other_roundings(mode: Rounding, value: Interval) -> list[Rounding]:
    """The modes that differ from ``mode`` on such values, one of each kind."""
    if value.lo < 0 < value.hi:
        return [m for m in Rounding if m is not mode]
    kinds = (*(_POSITIVE_TWINS if value.lo >= 0 else _NEGATIVE_TWINS), {Rounding.RND_CONV})
    return [next(m for m in Rounding if m in kind) for kind in kinds if mode not in kind]


def _other_overflows(overflow: Overflow, lo: int, hi: int, free: Interval) -> list[Overflow]:
    """The modes that are possible and differ on values of the interval ``free``."""
    others = [m for m in Overflow if m is not overflow]
    if (hi - lo + 1) & (hi - lo):
        others = [m for m in others if m is not Overflow.WRAP]
    if free.lo >= 0 or lowest(lo, hi, Overflow.SAT_SYM) == lo:  # no symmetry to be had
        twin = {Overflow.SAT: Overflow.SAT_SYM, Overflow.SAT_SYM: Overflow.SAT}.get(overflow)
        others = [m for m in others if m is not twin]
    return others


def _reduction_changes(datapath: Datapath, index: int, stage: ReduceStage) -> Iterator[Change]:
    if stage.count >= 2:
        yield from _edge_changes(datapath, index, stage)
    name = stage.outputs[-1]
    port = datapath.ports[name]
    if stage.kind == "sum" and port.interval.lo == 0 and port.interval.width > 1:
        bits = port.interval.width - 1
        narrow = replace(port, interval=Interval(0, (1 << bits) - 1))
        narrowed = replace(datapath, ports={**datapath.ports, name: narrow})
        yield Change(f"{name}: accumulator of {bits} bits", index, narrowed, bits=bits)
    if stage.kind == "top":
        yield Change(f"{name}: ignored", index, _without(datapath, index, name))


def _edge_changes(datapath: Datapath, index: int, stage: ReduceStage) -> Iterator[Change]:
    edges = {
        "first element skipped": replace(
            stage, start=stage.start + stage.stride, count=stage.count - 1
        ),
        "last element skipped": replace(stage, count=stage.count - 1),
    }
    for what, changed in edges.items():
        stages = (*datapath.stages[:index], changed, *datapath.stages[index + 1 :])
        whole = replace(datapath, stages=stages)
        yield Change(f"{stage.outputs[0]}: {what}", index, whole)


def _without(datapath: Datapath, index: int, name: str) -> Datapath:
    """The datapath with 0 in place of one of a reduction's outputs."""
    stage, port = datapath.stages[index], datapath.ports[name]
    assert isinstance(stage, ReduceStage)
    exact = f"{name}_exact"
    outputs = tuple(exact if o == name else o for o in stage.outputs)
    zero = ops.trace("ignored", lambda v: ops.named(name, v - v), [(exact, port.interval)])
    stages = list(datapath.stages)
    stages[index : index + 1] = [replace(stage, outputs=outputs), MapStage("row", zero)]
    ports = {**datapath.ports, exact: replace(port, name=exact)}
    return replace(datapath, stages=tuple(stages), ports=ports)
