"""The search for rows that reach every goal: random rows first, then rows aimed at what is left.

What no row can reach is found by proof and not looked for. What single sums show gets rows of
exactly those sums.

A goal of the row program (a table entry read there, a constant, a rounding) depends on one number,
the statistic's operand. So operands are found at which it shows, then rows that have them, by
scaling random proportions; permuted copies of a found row give y more chances to show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from approxnorm.vectors import climb, straddle
from approxnorm.vectors.changes import Change
from approxnorm.vectors.entries import EntryProofs
from approxnorm.vectors.equivalence import Prover
from approxnorm.vectors.exact import ExactRows
from approxnorm.vectors.goals import ChangeGoals, EntryGoals, Goals
from approxnorm.vectors.operands import Operands
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.shapes import (
    SIZE_BITS,
    dense,
    few_levels,
    flat,
    heavy,
    mixed,
    random_sizes,
)
from approxnorm.vectors.ties import tie_candidates

Choice: TypeAlias = tuple[Change | None, np.ndarray]  # what should show, and where it may

BATCH_ELEMENTS = 1 << 18
MAX_ENTRIES = 1024  # unseen entries of a table that rows are built for
EXACT_ROUNDS = 4  # for each change, until a row shows it
ENTRY_ROWS = 6  # rows tried for each
COPIES = 3  # permuted copies of each aimed row


@dataclass(frozen=True)
class Effort:
    """How long to search: rounds of random rows, rounds of aimed rows, idle rounds to give up."""

    random_rounds: int
    aimed_rounds: int
    idle_rounds: int
    repeats: int  # rows wanted for each goal


class Search:
    """Finds rows for a model's goals; ``rows`` of codes (n, dim) join the vectors."""

    def __init__(
        self, probe: Probe, goals: Goals, words: Words, effort: Effort, prover: Prover
    ) -> None:
        self.probe, self.goals, self.words, self.effort = probe, goals, words, effort
        self.prover = prover
        self.entries = [EntryProofs(prover, t) for t in goals.tables]
        self.tried = 0
        self.batch = int(max(16, min(1024, BATCH_ELEMENTS // probe.space.dim)))

    def exponents(self) -> np.ndarray:
        """Rows of every size, for exponents and shifts."""
        space = self.probe.space
        kinds = []
        for bit in range(space.magnitude_bits):
            shapes = mixed(space, self.words, 6)
            kinds.append(shapes.rows(np.full(6, (2 << bit) << SIZE_BITS, np.int64)))
            for count in (1, 2, 3):
                row = space.level(0)
                row[:count] = min(1 << bit, space.hi) if space.hi else -(1 << bit)
                kinds.append(row[None, :])
        return self._keep(space.codes(np.concatenate(kinds)))

    def rounded_up_rows(self) -> np.ndarray:
        """Rows whose largest magnitude is all ones, which a row exponent may round up past W."""
        space, row = self.probe.space, self.probe.model.spec.row_exponent
        if row is None or space.magnitude_bits <= row.bits - 1:
            return self._nothing()
        n = self.batch
        bits = row.bits + self.words.below(space.magnitude_bits - row.bits + 1, n)
        ones = (np.int64(1) << bits) - 1
        peak = space.signed(ones, self.words.bits(1, n) == 1)
        shapes = mixed(space, self.words, n).with_fixed(self.words.below(space.dim, n), peak)
        values = shapes.rows(ones << (SIZE_BITS - 1))
        return self._keep(space.codes(values))

    def random_rows(self) -> np.ndarray:
        """Rows of all shapes and sizes, as long as they reach something new."""
        found, idle = [self._nothing()], 0
        for _ in range(self.effort.random_rounds):
            if self._done() or idle >= self.effort.idle_rounds:
                break
            shapes = mixed(self.probe.space, self.words, self.batch)
            values = shapes.rows(random_sizes(self.probe.space, self.words, self.batch))
            found.append(self._keep(self.probe.space.codes(values)))
            idle = 0 if len(found[-1]) else idle + 1
        return np.concatenate(found)

    def tie_rows(self) -> np.ndarray:
        """Rows with many ties of y, for the rounding modes that only ties tell apart."""
        if not len(self.goals.open_goals(self.goals.changes)):
            return self._nothing()
        found = [
            self._keep(self.probe.space.codes(v)) for v in tie_candidates(self.probe, self.words)
        ]
        return np.concatenate([self._nothing(), *found])

    def few_level_rows(self) -> np.ndarray:
        """Rows of one to four magnitudes, for what depends on how many elements are how large."""
        if not len(self.goals.unseen(self.goals.changes)):
            return self._nothing()
        space, found = (
            self.probe.space,
            [self._keep(self.probe.space.codes(flat(self.probe.space)))],
        )
        for _ in range(self.effort.random_rounds):
            if not len(self.goals.unseen(self.goals.changes)):
                break
            found.append(self._keep(space.codes(few_levels(space, self.words, self.batch))))
        return np.concatenate(found)

    def permuted_rows(self) -> np.ndarray:
        """Rows whose factor an unseen change moves, in many orders.

        The order changes no sum, but which weight an element meets: so another y may show it.
        """
        found, changes = [self._nothing()], self.goals.changes
        unseen = self.goals.unseen(changes)
        edges = self.prover.edges() if len(unseen) else None
        if edges is None:
            return self._nothing()
        for goal in unseen:
            change = changes.changes[goal]
            if change.stage >= self.probe.row_stage:
                continue
            for _ in range(climb.ROUNDS):
                if self.goals.reached[self.goals.start(changes) + goal]:
                    break
                seeds = climb.moved_rows(self.probe, self.words, change, edges, self.batch // 2)
                if len(seeds):
                    values = seeds[self.words.below(len(seeds), 4 * self.batch)]
                    found.append(self._keep(self.probe.space.codes(self._permuted(values))))
        return np.concatenate(found)

    def settle(self) -> None:
        """Drop what is proven to be out of reach of any row."""
        if not self.effort.random_rounds:
            return
        changes = self.goals.changes
        unseen = self.goals.unseen(changes)
        proven = [g for g in unseen if self.prover.reason(changes.changes[g]) is not None]
        self.goals.drop(changes, np.array(proven, np.int64))
        for table, proofs in zip(self.goals.tables, self.entries, strict=True):
            unseen = self.goals.unseen(table)
            for kind in range(3):
                here = unseen[unseen % 3 == kind] // 3
                if len(here):
                    known = np.array(list(proofs.reasons(kind, here)), np.int64)
                    self.goals.drop(table, 3 * known + kind)

    def exact_rows(self) -> np.ndarray:
        """Rows of exactly an operand at which something unseen shows, with an element that does."""
        builder, found = ExactRows(self.prover.reach, self.words), [self._nothing()]
        changes = self.goals.changes
        for goal in self.goals.unseen(changes):
            if self.goals.reached[self.goals.start(changes) + goal]:
                continue  # a row for another has shown it
            shown = self.prover.shown(changes.changes[goal])
            for _ in range(EXACT_ROUNDS if shown else 0):
                rows = builder.rows(shown)
                found.append(self._keep(self.probe.space.codes(rows)))
                if self.goals.reached[self.goals.start(changes) + goal]:
                    break
        for table, proofs in zip(self.goals.tables, self.entries, strict=True):
            for goal in self.goals.unseen(table)[:MAX_ENTRIES]:
                shown = proofs.shown(int(goal) % 3, np.array([goal // 3]))
                rows = builder.rows(shown, ENTRY_ROWS)
                found.append(self._keep(self.probe.space.codes(rows)))
        return np.concatenate(found)

    def aimed_rows(self) -> np.ndarray:
        """Rows whose operand is one at which an open goal shows."""
        found, idle = [self._nothing()], 0
        operands = Operands(self.probe, self.words)
        for _ in range(self.effort.aimed_rounds):
            choices = self._choices(operands)
            if not choices or idle >= self.effort.idle_rounds:
                break
            found.append(self._aim(operands, choices))
            idle = 0 if len(found[-1]) else idle + 1
        return np.concatenate(found)

    def _choices(self, operands: Operands) -> list[Choice]:
        """Open goals of the row program, a batch at most, in random order."""
        choices: list[Choice] = []
        for table in self.goals.tables:
            if table.site.stage == self.probe.row_stage:
                choices += self._entry_points(operands, table)
        choices += self._change_points(operands, self.goals.changes)
        order = self.words.order(len(choices))[: max(1, self.batch // (1 + COPIES))]
        return [choices[i] for i in order]

    def _entry_points(self, operands: Operands, table: EntryGoals) -> list[Choice]:
        """For each open goal of a table the grid points that may reach it."""
        open_goals = self.goals.open_goals(table)
        if not len(open_goals):
            return []
        address = operands.trace[table.site.address]
        changes: list[Change | None] = [None, *table.changes] if table.together else [None] * 3
        order = np.argsort(address, kind="stable")
        edges = np.searchsorted(address[order], np.arange(table.entries + 1))
        choices = []
        shown = [np.ones(len(address)) if c is None else operands.differs(c) for c in changes]
        for goal in open_goals:
            entry, kind = divmod(int(goal), 3)
            here = order[edges[entry] : edges[entry + 1]]
            here = best_half(here, shown[kind][here])
            if len(here):
                choices.append((changes[kind], here))
        return choices

    def _change_points(self, operands: Operands, goals: ChangeGoals) -> list[Choice]:
        choices: list[Choice] = []
        for goal in self.goals.open_goals(goals):
            change = goals.changes[goal]
            if change.stage != self.probe.row_stage:
                continue
            shown = operands.differs(change)
            here = best_half(np.arange(len(shown)), shown)
            if len(here):
                choices.append((change, here))
        return choices

    def _aim(self, operands: Operands, choices: list[Choice]) -> np.ndarray:
        """Rows with nearly these operands, copies of them, and rows made to show the changes."""
        space, each = self.probe.space, max(1, self.batch // (1 + COPIES) // len(choices))
        points = np.concatenate([p[self.words.below(len(p), each)] for _, p in choices])
        family = (dense, heavy)[int(self.words.below(2, 1)[0])]
        values = operands.rows(family(space, self.words, len(points)), points)
        candidates = [values] + [self._permuted(values) for _ in range(COPIES)]
        if straddle.possible(self.probe, operands):
            made = [(change, p) for change, p in choices if change is not None]
            candidates.append(
                straddle.straddling_rows(self.probe, self.words, operands, made, copies=2)
            )
        return self._keep(space.codes(np.concatenate(candidates)))

    def _permuted(self, values: np.ndarray) -> np.ndarray:
        space = self.probe.space
        order = np.argsort(self.words.raw(*values.shape), axis=1, kind="stable")
        moved = np.take_along_axis(values, order, axis=1)
        return space.signed(np.abs(moved), self.words.bits(1, *values.shape) == 1)

    def _done(self) -> bool:
        return bool((self.goals.reached >= self.goals.wanted).all())

    def _keep(self, codes: np.ndarray) -> np.ndarray:
        self.tried += len(codes)
        return codes[self.goals.choose(codes)]

    def _nothing(self) -> np.ndarray:
        return np.zeros((0, self.probe.space.dim), np.int64)


def best_half(points: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The points at which a change moves the outputs by at least half of its most."""
    if not len(points) or not shown.max():
        return points[:0]
    return points[shown * 2 >= shown.max()]
