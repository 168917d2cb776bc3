"""Tables that are added up: the entries of all of them chosen together.

The sum of one entry from each table approximates a value within each cell of reals. Coordinate
descent on integers: for a bound on the error, each cell allows an interval for its sum; table by
table, each entry moves to the middle of what the others leave it, until every cell is met. The
bound is lowered while that succeeds. For two tables the result was compared with the exact
optimum (a system of two-variable constraints) and met it in all cases tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

START_SWEEPS = 30  # real-valued, to find the shape
SWEEPS = 200  # integer, for each bound that is tried
FIRST_STEP, LAST_STEP = 0.02, 0.001  # relative lowering of the bound


@dataclass(frozen=True, eq=False)
class Part:
    """One table of a sum.

    index: for each cell, the entry that it reads. sign: for each cell, +1 or -1.
    step: entries are multiples of it, in units of the sum's last place.
    """

    index: np.ndarray
    sign: np.ndarray
    step: int = 1

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.index, kind="stable")

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.searchsorted(self.index[self._order], np.arange(int(self.index.max()) + 1))

    def most(self, values: np.ndarray) -> np.ndarray:
        """For each entry, the largest value over the cells that read it."""
        return np.maximum.reduceat(values[self._order], self._starts)

    def least(self, values: np.ndarray) -> np.ndarray:
        """For each entry, the smallest value over the cells that read it."""
        return np.minimum.reduceat(values[self._order], self._starts)

    def term(self, entries: np.ndarray) -> np.ndarray:
        """What the table adds to the sum in each cell."""
        return self.sign * entries[self.index]


@dataclass(frozen=True, eq=False)
class SumProblem:
    """Cells with the function's values at both ends, in units of the sum's last place."""

    parts: tuple[Part, ...]
    low: np.ndarray  # the smaller end of each cell
    high: np.ndarray  # the larger end
    relative: bool
    scale: float  # units to one, for absolute errors

    def total(self, entries: Sequence[np.ndarray]) -> np.ndarray:
        total = np.zeros(len(self.low))
        for part, table in zip(self.parts, entries, strict=True):
            total = total + part.term(table)
        return total

    def error(self, entries: Sequence[np.ndarray]) -> float:
        total = self.total(entries)
        below, above = self.high - total, total - self.low
        if self.relative:
            return float(np.maximum(below / self.high, above / self.low).max())
        return float(np.maximum(below, above).max()) / self.scale

    def allowed(self, bound: float) -> tuple[np.ndarray, np.ndarray]:
        """The integers that each cell's sum may lie between for an error of at most ``bound``."""
        if self.relative:
            return np.ceil(self.high * (1 - bound)), np.floor(self.low * (1 + bound))
        return np.ceil(self.high - bound * self.scale), np.floor(self.low + bound * self.scale)


Entries = list[np.ndarray]


def fit_sum(problem: SumProblem) -> list[tuple[int, ...]]:
    """The integer entries of each part with the least maximum error that the descent finds."""
    best = _start(problem)
    bound, step = problem.error(best), FIRST_STEP
    while step > LAST_STEP:
        trial = _descend(problem, best, bound * (1 - step))
        if trial is None:
            step /= 2
        else:
            best, bound = trial, problem.error(trial)
    return [tuple(int(e) for e in table) for table in best]


def _start(problem: SumProblem) -> Entries:
    """Real-valued midpoints, then rounded, the first table last: it takes up the rest."""
    low, high = problem.low, problem.high
    center = 2 * low * high / (low + high) if problem.relative else (low + high) / 2
    entries = [np.zeros(len(part._starts)) for part in problem.parts]
    for _ in range(START_SWEEPS):
        for k, part in enumerate(problem.parts):
            entries[k] = _middle(problem, entries, k, center, part)
    for k, part in list(enumerate(problem.parts))[::-1]:
        entries[k] = _on_grid(_middle(problem, entries, k, center, part), part.step)
    return entries


def _middle(
    problem: SumProblem, entries: Entries, k: int, center: np.ndarray, part: Part
) -> np.ndarray:
    rest = center - problem.total(entries) + part.term(entries[k])
    wanted = rest * part.sign
    return (part.most(wanted) + part.least(wanted)) / 2


def _on_grid(values: np.ndarray, step: int) -> np.ndarray:
    return np.floor(values / step + 0.5) * step


def _descend(problem: SumProblem, start: Entries, bound: float) -> Entries | None:
    """Entries with an error of at most ``bound``, or None if the sweeps do not reach it."""
    low, high = problem.allowed(bound)
    if np.any(low > high):
        return None
    entries = list(start)
    for sweep in range(SWEEPS):
        for k, part in enumerate(problem.parts):
            rest = problem.total(entries) - part.term(entries[k])
            entries[k] = _moved(part, entries[k], low - rest, high - rest, sweep)
        total = problem.total(entries)
        if np.all(total >= low) and np.all(total <= high):
            return entries
    return None


def _moved(
    part: Part, entries: np.ndarray, low: np.ndarray, high: np.ndarray, sweep: int
) -> np.ndarray:
    """Each entry in the middle of its interval; two sweeps of three leave it if it lies inside.

    An empty interval has a middle too: it spreads the violation. The middle is rounded down and
    up in turn, which gets the descent off plateaus.
    """
    floor = part.most(np.where(part.sign > 0, low, -high))
    ceiling = part.least(np.where(part.sign > 0, high, -low))
    middle = (floor + ceiling) / 2 / part.step
    middle = (np.floor(middle) if sweep % 2 else np.ceil(middle)) * part.step
    if sweep % 3 == 0:
        return middle
    return np.where((floor <= entries) & (entries <= ceiling), entries, middle)
