"""Where a change of the row program moves the row's factor, and which elements of y show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from approxnorm.backends.numpy_backend import Arrays
from approxnorm.program.datapath import Datapath, MapStage
from approxnorm.program.signal import Program
from approxnorm.vectors.changes import ASTRAY, Change, widened_nodes
from approxnorm.vectors.columns import Columns, all_columns
from approxnorm.vectors.factors import (
    TOTAL,
    Classes,
    added_to_operand,
    classes_of,
    from_total,
    outputs_of,
)
from approxnorm.vectors.programs import index_of, last_program, run_alone
from approxnorm.vectors.random import Words
from approxnorm.vectors.reach import Reach

BUDGET = 1 << 25  # elements tried for one proof
CHUNK = 1 << 20
MAX_MOVED = 1 << 20  # ranges of operands that are all tried
SAMPLE = 1 << 14  # operands looked at in a first try
SEED = 29  # of those samples
FEW = 8  # elements kept for each factor
TRIED = 1 << 9  # of these, factors and elements crossed with each other


@dataclass(frozen=True)
class Moved:
    """Operands from ``low`` to ``high`` (n,) of one row shift, the class of their totals, the
    factor that rows of such operands have, and the one that the change gives them.

    last: the program that makes y of the latter.
    """

    shift: int
    low: np.ndarray
    high: np.ndarray
    number: np.ndarray
    plain: Arrays
    changed: Arrays
    last: Program

    def __len__(self) -> int:
        return len(self.low)

    def take(self, places: np.ndarray | slice) -> Moved:
        return Moved(
            self.shift,
            self.low[places],
            self.high[places],
            self.number[places],
            {n: v[places] for n, v in self.plain.items()},
            {n: v[places] for n, v in self.changed.items()},
            self.last,
        )


@dataclass(frozen=True)
class Shown:
    """Elements (n,) whose y differs, with the operands, their class and the shift of their rows."""

    shift: int
    low: np.ndarray
    high: np.ndarray
    number: np.ndarray
    values: np.ndarray
    channels: np.ndarray

    def take(self, places: np.ndarray) -> Shown:
        arrays = (self.low, self.high, self.number, self.values, self.channels)
        return Shown(self.shift, *(a[places] for a in arrays))


class RowTable:
    """A row program's outputs for every class of its total, and eps for every row shift."""

    def __init__(self, reach: Reach, program: Program, shifts: range | None = None) -> None:
        self.reach, self.program = reach, program
        self._shifts = reach.shifts if shifts is None else shifts
        self.guard = added_to_operand(program, reach.operand.name)
        self._known: dict[Classes, Arrays] = {}

    @cached_property
    def eps(self) -> dict[int, int]:
        """What is added to the operand, by row shift."""
        shifts = np.array(self._shifts, np.int64)
        operand = self.reach.operand.name
        inputs = {n: shifts * (n != operand) for n in self.program.inputs}
        # Only the total is wanted: what a changed program makes of it may lead astray.
        total = index_of(self.program, TOTAL)
        alone = replace(self.program, nodes=self.program.nodes[: total + 1], outputs=(total,))
        eps = run_alone(alone, inputs)[TOTAL]
        return dict(zip(self._shifts, (int(e) for e in eps), strict=True))

    def operands(self, classes: Classes, shift: int) -> tuple[np.ndarray, np.ndarray]:
        """The least and largest operand of each class; least above largest if there is none."""
        assert self.guard is not None
        first, eps = classes.first(), self.eps[shift]
        low = -((eps - first[:-1]) >> self.guard)
        high = (first[1:] - 1 - eps) >> self.guard
        low = np.maximum(low, self.reach.least_operand(shift))
        return low, np.minimum(high, self.reach.most_operand)

    def outputs(self, classes: Classes) -> Arrays:
        """The outputs of each class; IndexError or AssertionError if a change leads astray."""
        if classes not in self._known:
            names = self.program.output_names
            self._known[classes] = outputs_of(self.program, classes.first()[:-1], names)
        return self._known[classes]


class RowChanges:
    """Compares changed row programs with the model's own."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.own = RowTable(reach, self._program(reach.probe.datapath))

    def _program(self, datapath: Datapath) -> Program:
        stage = datapath.stages[self.reach.probe.row_stage]
        assert isinstance(stage, MapStage)
        return stage.program

    @cached_property
    def columns(self) -> Columns:
        return all_columns(self.reach)

    def compared(self, change: Change) -> Comparison | None:
        """None if the programs are not of the kind that can be compared."""
        program = self._program(change.datapath)
        same = from_total(program) == from_total(widened_nodes(self.own.program))
        other = RowTable(self.reach, program)
        if self.own.guard is None or self.own.guard != other.guard:
            return None
        least = min(self._least(t, s) for t in (self.own, other) for s in self.reach.shifts)
        top = max(max(t.eps.values()) for t in (self.own, other))
        most = (self.reach.most_operand << self.own.guard) + top
        own, changed = (classes_of(t.program, least, most) for t in (self.own, other))
        if least < 0 or own is None or own != changed:
            return None
        try:
            outputs = self.own.outputs(own)
            moved = outputs if same else other.outputs(own)
        except ASTRAY:
            return None
        last = last_program(change.datapath)
        return Comparison(self.reach, own, (self.own, other), outputs, moved, last)

    def _least(self, table: RowTable, shift: int) -> int:
        assert table.guard is not None
        return (self.reach.least_operand(shift) << table.guard) + table.eps[shift]

    def first_shown(self, comparison: Comparison) -> list[Shown]:
        """Elements that show the change, from samples of operands and elements."""
        found, words = [], Words(SEED)
        for moved in comparison.moved(words):
            some = moved.take(words.below(len(moved), TRIED)) if len(moved) else moved
            within = int(np.searchsorted(self.columns.least, some.high.max(initial=-1), "right"))
            if within:
                columns = self.columns.take(_spread(words, within))
                found += list(self._shown(some, columns))
        return found

    def all_shown(self, every: list[Moved], *, first: bool = True) -> list[Shown] | None:
        """Elements of all that show the change, [] if none does; None: too many to try.

        first: stop at the first few. Otherwise every class of totals that shows it is there.
        """
        too_many = sum(len(m) for m in every) > MAX_MOVED
        if every and (too_many or not self.columns.complete):
            return None
        # A row of one element has no larger operand than that element's, nor a smaller one.
        if first and self.reach.probe.space.dim > 1:
            every = [_without_repetitions(m) for m in every]
        counts = [np.searchsorted(self.columns.least, m.high, "right").sum() for m in every]
        if sum(int(c) for c in counts) > BUDGET:
            return None
        found: list[Shown] = []
        for moved in every:
            found += self._exhaust(moved)
            if found and first:
                break
        return found

    def _exhaust(self, moved: Moved) -> Iterator[Shown]:
        order = np.argsort(moved.high, kind="stable")
        counts = np.searchsorted(self.columns.least, moved.high[order], "right")
        start = 0
        while start < len(order):
            # Rows with about as many columns are crossed together.
            size = max(1, CHUNK // max(1, int(counts[start])))
            end = min(start + size, len(order))
            while end > start + 1 and (end - start) * int(counts[end - 1]) > CHUNK:
                end = start + (end - start) // 2
            columns = self.columns.take(slice(0, int(counts[end - 1])))
            yield from self._shown(moved.take(order[start:end]), columns)
            start = end

    def _shown(self, moved: Moved, columns: Columns) -> Iterator[Shown]:
        finish = self.reach.finish
        plain, changed = (
            finish.crossed(program, columns.values, columns.channels, rows)
            for program, rows in ((finish.program, moved.plain), (moved.last, moved.changed))
        )
        held = columns.least[None, :] <= moved.high[:, None]
        if self.reach.probe.space.dim == 1 and self.reach.bounded:
            held &= columns.least[None, :] >= moved.low[:, None]
        if self.reach.probe.space.dim == 1 and moved.shift and self.reach.bits is not None:
            held &= np.abs(columns.values)[None, :] >= 1 << (self.reach.bits - 2)
        row, column = np.nonzero((plain != changed) & held)
        few = _few_of_each(row)
        row, column = row[few], column[few]
        if len(row):
            yield Shown(
                moved.shift,
                np.maximum(moved.low[row], columns.least[column]),
                moved.high[row],
                moved.number[row],
                columns.values[column],
                columns.channels[column],
            )


@dataclass(frozen=True)
class Comparison:
    """Two row programs, the model's and a changed one, and their outputs by class.

    last: what makes y with the change. It is the model's own but for factors that the model has
    for no row, which its signals may not hold.
    """

    reach: Reach
    classes: Classes
    tables: tuple[RowTable, RowTable]
    plain: Arrays
    changed: Arrays
    last: Program

    def moved(self, words: Words | None) -> Iterator[Moved]:
        """For each row shift all operands, in ranges, that the change moves; or a sample."""
        for shift in self.reach.shifts:
            if self.tables[0].eps[shift] == self.tables[1].eps[shift]:
                if self.plain is not self.changed:
                    yield self._same_eps(shift)
            else:
                yield self._other_eps(shift, words)

    def reached(self) -> Iterator[np.ndarray]:
        """For each row shift the classes that some operand leads to, as indices."""
        for shift in self.reach.shifts:
            low, high = self.tables[0].operands(self.classes, shift)
            yield np.flatnonzero(low <= high)

    @cached_property
    def _apart(self) -> np.ndarray:
        apart = [self.plain[n] != self.changed[n] for n in self.plain]
        return np.flatnonzero(np.logical_or.reduce(apart))

    @cached_property
    def _first(self) -> np.ndarray:
        return self.classes.first()

    def _same_eps(self, shift: int) -> Moved:
        """Classes with other outputs, if some operand leads to them."""
        where = self._apart
        low, high = self.tables[0].operands(self.classes, shift)
        return self._moved(shift, low[where], high[where], where, where)

    def _other_eps(self, shift: int, words: Words | None) -> Moved:
        """Ranges of operands whose class is the same with either eps, cut where either changes."""
        start, end = self.reach.least_operand(shift), self.reach.most_operand
        first = self._first
        words = words if self.reach.operands is None else None  # a single cut is hardly one
        if words is not None and len(first) > SAMPLE:
            first = first[np.sort(words.below(len(first), SAMPLE))]
        guard, eps = self.tables[0].guard, [t.eps[shift] for t in self.tables]
        assert guard is not None
        cuts = [(first - 1 - e) >> guard for e in eps]
        # Both are ascending, which a stable sort makes use of.
        high = np.sort(np.concatenate([*cuts, [end]]), kind="stable")
        high = high[(high >= start) & (high <= end)]
        high = high[np.append(True, high[1:] != high[:-1])]
        low = high if words is not None else np.concatenate([[start], high[:-1] + 1])
        own, other = (self.classes.index((high << guard) + e) for e in eps)
        return self._moved(shift, low, high, own, other)

    def _moved(
        self, shift: int, low: np.ndarray, high: np.ndarray, own: np.ndarray, other: np.ndarray
    ) -> Moved:
        known = self.reach.operands
        if known is not None:  # the largest of them in each range, if there is one
            high = known[np.maximum(np.searchsorted(known, high, "right") - 1, 0)]
        plain = {n: v[own] for n, v in self.plain.items()}
        changed = {n: v[other] for n, v in self.changed.items()}
        apart = np.logical_or.reduce([plain[n] != changed[n] for n in plain])
        return Moved(shift, low, high, own, plain, changed, self.last).take(
            np.flatnonzero(apart & (low <= high))
        )


def _spread(words: Words, within: int) -> np.ndarray:
    """Columns below ``within``: half in the upper half, of large operands, and so on down."""
    halvings = words.geometric(within.bit_length(), TRIED)
    limit = np.maximum(np.int64(within) >> halvings, 1)
    columns: np.ndarray = np.sort((words.bits(31, TRIED) * limit) >> 31)
    return columns


def _few_of_each(row: np.ndarray) -> np.ndarray:
    """Places of at most 2 * FEW pairs of each row, spread evenly; ``row`` is ascending."""
    _, start, count = np.unique(row, return_index=True, return_counts=True)
    place = np.arange(len(row)) - np.repeat(start, count)
    step = np.repeat(np.maximum(count // FEW, 1), count)
    return np.flatnonzero((place % step == 0) & (place // step < 2 * FEW))


def _without_repetitions(moved: Moved) -> Moved:
    """Of rows with the same two factors the one of the largest operand: it may hold the most."""
    signals = [*moved.plain.values(), *moved.changed.values()]
    order = np.lexsort([-moved.high, *signals])
    fresh = np.ones(len(order), bool)
    same = [s[order][1:] == s[order][:-1] for s in signals]
    fresh[1:] = ~np.logical_and.reduce(same)
    return moved.take(order[fresh])
