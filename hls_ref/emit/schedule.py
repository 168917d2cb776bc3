"""Which passes over the row a datapath takes, and what each of them computes.

The row is read once from the stream and kept; each pass reads it again. A pass evaluates the
element programs that its reductions, or y, need, from x on: recomputing a few operations costs
less than keeping their results for a whole row. Row programs run between passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from approxnorm.program.datapath import Datapath, MapStage, ReduceStage


@dataclass(frozen=True)
class Pass:
    """One loop over the row.

    elements: element programs in order. reductions: what is summed, or compared, on the way.
    """

    number: int
    elements: tuple[MapStage, ...]
    reductions: tuple[ReduceStage, ...]
    rows: tuple[MapStage, ...]
    last: bool


def passes_of(datapath: Datapath) -> list[Pass]:
    """The passes of a datapath in order; the last one computes y."""
    available = _availability(datapath)
    count = available[datapath.output] + 1
    return [_pass(datapath, available, number, number == count - 1) for number in range(count)]


def carried(datapath: Datapath) -> list[str]:
    """Row signals that a later pass reads than the one that makes them, in order."""
    available = _availability(datapath)
    steps = passes_of(datapath)
    read = {
        name
        for step in steps
        for stage in (*step.elements, *step.rows)
        for name in stage.program.inputs
        if available[name] <= step.number
    }
    rows = [p.name for p in datapath.signals() if p.level == "row"]
    return [name for name in rows if name in read]


def _availability(datapath: Datapath) -> dict[str, int]:
    """The first pass in which each signal is known; a row signal from the pass before."""
    known = {port.name: 0 for port in datapath.inputs}
    for stage in datapath.stages:
        if isinstance(stage, ReduceStage):
            known |= dict.fromkeys(stage.outputs, known[stage.source] + 1)
        else:
            first = max((known[name] for name in stage.program.inputs), default=0)
            known |= {n.name: first for n in stage.program.named_nodes() if n.name is not None}
    return known


def _pass(datapath: Datapath, available: dict[str, int], number: int, last: bool) -> Pass:
    reductions = tuple(
        s for s in datapath.stages if isinstance(s, ReduceStage) and available[s.source] == number
    )
    wanted = {s.source for s in reductions} | ({datapath.output} if last else set())
    elements: list[MapStage] = []
    for stage in reversed(list(datapath.programs())):
        made = {n.name for n in stage.program.named_nodes()}
        if stage.level == "element" and made & wanted:
            elements.insert(0, stage)
            wanted |= set(stage.program.inputs)
    rows = tuple(
        s
        for s in datapath.programs()
        if s.level == "row"
        and max((available[name] for name in s.program.inputs), default=0) == number + 1
    )
    return Pass(number, tuple(elements), reductions, rows, last)
