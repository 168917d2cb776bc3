"""Mistakes in the arithmetic: changed datapaths, emitted as the kernel itself is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from approxnorm.hls_ref.emit import Kernel
from approxnorm.hls_ref.emit.kernel import channel_values
from approxnorm.hls_ref.emit.names import identifier
from approxnorm.hls_ref.emit.passes import pass_name, pass_text
from approxnorm.hls_ref.emit.programs import program_text
from approxnorm.hls_ref.emit.schedule import passes_of
from approxnorm.hls_ref.mutation.mutants import EntryMutant, Mutant
from approxnorm.hls_ref.mutation.variants import function_of
from approxnorm.program import Interval
from approxnorm.program.datapath import Datapath, MapStage, ReduceStage
from approxnorm.program.signal import Program
from approxnorm.vectors.changes import Change, small_changes
from approxnorm.vectors.mistakes import UNSIGNED, mistakes

DATAPATH = "kernel/datapath.hpp"


def arithmetic_mutants(kernel: Kernel) -> Iterator[Mutant]:
    """Every small change and every mistake of the datapath."""
    for change in small_changes(kernel.datapath):
        narrow = _narrow(kernel.datapath, change)
        yield from _mutants(kernel, change.name, change, narrow)
    for mistake in mistakes(kernel.datapath):
        for mutant in _mutants(kernel, mistake.name, mistake.change, mistake.datapath):
            yield replace(mutant, harmless=_unsigned_anyway(kernel, mistake.name))


def _unsigned_anyway(kernel: Kernel, name: str) -> str:
    """Why numbers of the channels may be read as unsigned, if all of them are."""
    signal, _, what = name.partition(": ")
    codes = channel_values(kernel.first).get(signal.rpartition(".")[2])
    if what != UNSIGNED or codes is None or codes.min() < 0:
        return ""
    return "no channel has a negative one"


def _mutants(
    kernel: Kernel, name: str, change: Change, datapath: Datapath | None
) -> Iterator[Mutant]:
    if datapath is None:
        return
    stage = datapath.stages[change.stage]
    if isinstance(stage, MapStage):
        function = identifier(stage.program.name)
        text = function_of(program_text(stage), function)
        yield Mutant(name, DATAPATH, function, text, change)
        return
    changed = replace(kernel, datapath=datapath)
    for step in passes_of(datapath):
        if stage in step.reductions:
            function = pass_name(step.number)
            text = function_of(pass_text(changed, step), function)
            yield Mutant(name, f"kernel/{kernel.top}.cpp", function, text, change)


def _narrow(datapath: Datapath, change: Change) -> Datapath | None:
    """A change's datapath with the widths that its signals have in hardware.

    None for those that are no change of one function.
    """
    here = datapath.stages[change.stage]
    if isinstance(here, ReduceStage):
        return _narrow_reduction(datapath, change, here)
    changed = change.datapath.stages[change.stage]
    assert isinstance(changed, MapStage)
    pairs = zip(changed.program.nodes, here.program.nodes, strict=True)
    nodes = tuple(replace(new, interval=old.interval) for new, old in pairs)
    program: Program = replace(changed.program, nodes=nodes)
    stages = list(datapath.stages)
    stages[change.stage] = MapStage(here.level, program)
    return replace(datapath, stages=tuple(stages))


def _narrow_reduction(datapath: Datapath, change: Change, here: ReduceStage) -> Datapath | None:
    if change.bits is not None:  # an accumulator of fewer bits
        name = here.outputs[-1]
        port = replace(datapath.ports[name], interval=Interval(0, (1 << change.bits) - 1))
        return replace(datapath, ports={**datapath.ports, name: port})
    changed = change.datapath.stages[change.stage]
    if not isinstance(changed, ReduceStage) or changed.outputs != here.outputs:
        return None
    stages = list(datapath.stages)
    stages[change.stage] = changed
    return replace(datapath, stages=tuple(stages))


def entry_mutants(kernel: Kernel) -> Iterator[EntryMutant]:
    """Every entry of every table, one more and one less."""
    for number, table in enumerate(kernel.datapath.tables()):
        for entry in range(len(table.entries)):
            for delta in (1, -1):
                yield EntryMutant(number, entry, delta, f"{table.name}[{entry}] {delta:+d}")
