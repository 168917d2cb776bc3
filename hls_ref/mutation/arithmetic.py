"""Mistakes in the arithmetic: changed datapaths, emitted as the kernel itself is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from approxnorm.hls_ref.emit import Kernel
from approxnorm.hls_ref.emit.kernel import channel_values
from approxnorm.hls_ref.emit.names import identifier, type_of
from approxnorm.hls_ref.emit.passes import pass_name, pass_text
from approxnorm.hls_ref.emit.programs import program_text
from approxnorm.hls_ref.emit.schedule import passes_of
from approxnorm.hls_ref.mutation.mutants import EntryMutant, Mutant
from approxnorm.hls_ref.mutation.variants import edited, function_of
from approxnorm.program.datapath import MapStage, ReduceStage
from approxnorm.vectors.changes import Change
from approxnorm.vectors.goals import all_changes
from approxnorm.vectors.mistakes import UNSIGNED

DATAPATH = "kernel/datapath.hpp"


def arithmetic_mutants(kernel: Kernel) -> Iterator[Mutant]:
    """Every small change and every mistake of the datapath."""
    for change in all_changes(kernel.datapath):
        yield from _mutants(kernel, change)


def _mutants(kernel: Kernel, change: Change) -> Iterator[Mutant]:
    file, harmless = f"kernel/{kernel.top}.cpp", _unsigned_anyway(kernel, change.name)
    stage = change.plain.stages[change.stage]
    if isinstance(stage, MapStage):
        function = identifier(stage.program.name)
        text = function_of(program_text(stage), function)
        yield Mutant(change.name, DATAPATH, function, text, change, harmless)
        return
    if len(change.plain.stages) != len(kernel.datapath.stages):  # a largest value is ignored
        function, text = _without(kernel, change)
        yield Mutant(change.name, file, function, text, change, harmless)
        return
    changed = replace(kernel, datapath=change.plain)
    for step in passes_of(change.plain):
        if stage in step.reductions:
            function = pass_name(step.number)
            text = function_of(pass_text(changed, step), function)
            yield Mutant(change.name, file, function, text, change, harmless)


def _without(kernel: Kernel, change: Change) -> tuple[str, str]:
    """The pass whose last largest value is 0, whatever it found; and its text."""
    own = kernel.datapath.stages[change.stage]
    assert isinstance(own, ReduceStage)
    step = next(p for p in kernel.passes if own in p.reductions)
    function, name = pass_name(step.number), own.outputs[-1]
    base, number = name.rsplit("_", 1)
    zero = f"{type_of(kernel.datapath.ports[name].interval)}(0)"
    text = function_of(pass_text(kernel, step), function)
    return function, edited(text, f" {base}[{number}]", f" {zero}")


def _unsigned_anyway(kernel: Kernel, name: str) -> str:
    """Why numbers of the channels may be read as unsigned, if all of them are."""
    signal, _, what = name.partition(": ")
    codes = channel_values(kernel.first).get(signal.rpartition(".")[2])
    if what != UNSIGNED or codes is None or codes.min() < 0:
        return ""
    return "no channel has a negative one"


def entry_mutants(kernel: Kernel) -> Iterator[EntryMutant]:
    """Every entry of every table, one more and one less."""
    for number, table in enumerate(kernel.datapath.tables()):
        for entry in range(len(table.entries)):
            for delta in (1, -1):
                yield EntryMutant(number, entry, delta, f"{table.name}[{entry}] {delta:+d}")
