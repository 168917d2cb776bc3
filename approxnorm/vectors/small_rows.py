"""A dynamic step that is another for small rows only: does any of them notice?

With the largest magnitudes squared exactly, a row's operand is the sum of their squares and of what
the rest counts under the step. The factor is another only if one of its edges lies between the
squares alone and the most that the rest can add; and if no element that small has another y on the
other side of those edges, no y is another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from approxnorm.methods.statistic.outlier_exact import OutlierExact
from approxnorm.program.datapath import MapStage
from approxnorm.program.signal import Program
from approxnorm.vectors.changes import Change
from approxnorm.vectors.factors import outputs_of
from approxnorm.vectors.programs import run_alone
from approxnorm.vectors.reach import Reach
from approxnorm.vectors.row_changes import RowTable

MAX_TOTALS = 1 << 22  # sums of magnitudes that are all tried
MAX_TOPS = 1 << 22  # sets of largest magnitudes, likewise
MAX_ELEMENTS = 1 << 24  # elements with the factors on both sides of an edge
STEP = "step_stage"


@dataclass(frozen=True)
class Differing:
    """Where the step is another: sums of magnitudes up to ``most``, and the steps there."""

    most: int
    steps: frozenset[int]


@dataclass(frozen=True)
class Tops:
    """Rows' largest magnitudes: sums of their squares, the least of them, their sums, and the two
    that are largest, each (n,)."""

    squares: np.ndarray
    least: np.ndarray
    used: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def magnitudes(self, where: np.ndarray) -> np.ndarray:
        """All that rows with some of these can hold."""
        most = int(self.second[where].max(initial=-1))
        return np.union1d(np.arange(most + 1), self.first[where])


def is_unnoticed(reach: Reach, table: RowTable, edges: np.ndarray | None, change: Change) -> bool:
    """Whether a change of the step changes no y: False if not proven. edges: totals, ascending,
    from which on the row's factor is another."""
    statistic = reach.probe.model.spec.statistic
    if not isinstance(statistic, OutlierExact) or statistic.outliers != "top":
        return False
    if edges is None or table.guard is None or any(reach.narrowed()):
        return False
    found = _differing(reach, change)
    if found is None or (reach.bits is not None and found.most >= 1 << (reach.bits - 2)):
        return False  # a row that its exponent shifts has a peak of all bits but one
    tops = _tops(found.most, statistic.top)
    if reach.probe.space.dim <= statistic.top:
        return True
    if tops is None:
        return False
    largest = tops.squares + _most_of_rest(statistic, found, tops)
    if int(largest.max()) > reach.operand.interval.hi:
        return False  # the sum might leave its type
    ends = ((t << table.guard) + table.eps[0] for t in (tops.squares, largest))
    low, high = (np.searchsorted(edges, e, "right") for e in ends)
    between = [edges[a:b] for a, b in np.unique(np.stack([low, high]), axis=1).T]
    magnitudes = tops.magnitudes(low != high)
    return _no_element_tells(reach, table, np.unique(np.concatenate(between)), magnitudes)


def _no_element_tells(
    reach: Reach, table: RowTable, edges: np.ndarray, magnitudes: np.ndarray
) -> bool:
    """Whether y is the same on both sides of some edges, of every element of such magnitudes."""
    finish, dim = reach.finish, reach.probe.space.dim
    signed = np.concatenate([magnitudes, -magnitudes])
    if not len(edges):
        return True
    if len(edges) * len(signed) * dim > MAX_ELEMENTS:
        return False
    values, channels = np.repeat(signed, dim), np.tile(np.arange(dim), len(signed))
    sides = (outputs_of(table.program, e, finish.row_names) for e in (edges - 1, edges))
    below, above = (finish.crossed(finish.program, values, channels, rows) for rows in sides)
    return bool((below == above).all())


def _differing(reach: Reach, change: Change) -> Differing | None:
    """None if the step is not the stage's only output, or there are too many sums."""
    own = reach.probe.datapath.stages[change.stage]
    changed = change.datapath.stages[change.stage]
    assert isinstance(own, MapStage) and isinstance(changed, MapStage)
    if own.program.name != STEP or len(own.program.inputs) != 1:
        return None
    hi = own.program.nodes[0].interval.hi
    if hi >= MAX_TOTALS:
        return None
    totals = np.arange(hi + 1, dtype=np.int64)
    plain, other = (_step(p, totals) for p in (own.program, changed.program))
    places = np.flatnonzero(plain != other)
    if not len(places):
        return None
    steps = frozenset(np.concatenate([plain[places], other[places]]).tolist())
    return Differing(int(places.max()), steps) if min(steps) >= 0 else None


def _step(program: Program, totals: np.ndarray) -> np.ndarray:
    return run_alone(program, {program.inputs[0]: totals})[program.output_names[0]]


def _tops(most: int, count: int) -> Tops | None:
    """All descending sets of ``count`` magnitudes whose sum is at most ``most``, 0 among them."""
    known = np.array([[0, most, 0, 0, 0]], np.int64)  # as in Tops
    for i in range(count):
        room = np.minimum(known[:, 1], most - known[:, 2]) + 1
        if int(room.sum()) > MAX_TOPS:
            return None
        rows = np.repeat(np.arange(len(known)), room)
        value = np.arange(len(rows)) - np.repeat(np.cumsum(room) - room, room)
        squares, _, used, first, second = known[rows].T
        first, second = value if i == 0 else first, value if i == 1 else second
        columns = [squares + value**2, value, used + value, first, second]
        known = np.unique(np.stack(columns, axis=1), axis=0)
    return Tops(*known.T)


def _most_of_rest(statistic: OutlierExact, found: Differing, tops: Tops) -> np.ndarray:
    """What the other elements can count at most, under any of the steps: (n,), rounded up.

    They are no larger than the least of the top, and have what that leaves of the row's sum; so
    each counts at most as much for its size as the one that counts most.
    """
    magnitudes = np.arange(1, found.most + 1, dtype=np.int64)
    ratio = np.zeros(found.most + 1)
    for step in found.steps:
        counted = statistic.low_code(magnitudes, np.int64(step)) ** 2 << 2 * step
        ratio[1:] = np.maximum(ratio[1:], counted / magnitudes)
    best = np.maximum.accumulate(ratio)
    rest: np.ndarray = np.ceil((found.most - tops.used) * best[tops.least]).astype(np.int64)
    return np.where(rest > 0, rest + 1, 0)  # a unit more than the division may have lost
