"""A dynamic step that is another for small rows only: does any of them notice?

With the largest magnitudes squared exactly, a row's operand is another only if enough of its
elements are coarser under the other step. Rows with a small sum of magnitudes that hold so many
have a small operand; and if the row's factor is the same for all operands up to there, no y is
another.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from approxnorm.methods.statistic.outlier_exact import OutlierExact
from approxnorm.program.datapath import MapStage
from approxnorm.program.signal import Program
from approxnorm.vectors.changes import Change
from approxnorm.vectors.programs import run_alone
from approxnorm.vectors.reach import Reach
from approxnorm.vectors.row_changes import RowTable

MAX_TOTALS = 1 << 22  # sums of magnitudes that are all tried
STEP = "step_stage"


@dataclass(frozen=True)
class Differing:
    """Where the step is another: sums of magnitudes up to ``most``, 0 before and ``step`` after."""

    most: int
    step: int


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
    bound = _largest_operand(statistic, reach.probe.space.dim, found)
    if bound is None:
        return True
    eps = table.eps[0]
    last = (bound << table.guard) + eps
    return not ((edges > eps) & (edges <= last)).any()


def _differing(reach: Reach, change: Change) -> Differing | None:
    """None if the step is another in more ways than this knows."""
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
    steps = set(other[places].tolist())
    if plain[places].any() or len(steps) != 1 or min(steps) >= 0:
        return None
    return Differing(int(places.max()), min(steps))


def _step(program: Program, totals: np.ndarray) -> np.ndarray:
    return run_alone(program, {program.inputs[0]: totals})[program.output_names[0]]


def _largest_operand(statistic: OutlierExact, dim: int, found: Differing) -> int | None:
    """The largest operand of a row that may notice, under either step; None if there is no row.

    With step 0 a magnitude counts min(m, 2**bits - 1); with -s it counts min(2**s * m, ...) / 2**s,
    never more than m. What both count alike are whole squares; the others, ``coarse`` magnitudes
    and larger, may leave parts of a unit, which are cut off of each and of the sum.
    """
    magnitudes = np.arange(found.most + 1, dtype=np.int64)
    scale = -found.step
    fine = statistic.low_code(magnitudes, np.int64(found.step)) ** 2
    coarse = np.flatnonzero(fine != statistic.low_code(magnitudes, np.int64(0)) ** 2 << 2 * scale)
    if not len(coarse):
        return None
    least, unit = int(coarse.min()), 1 << 2 * scale
    part = Fraction(int((fine[coarse] % unit).max()), unit)
    top = min(statistic.top, dim)
    # Either one more than are squared exactly, or so many that their parts make a whole.
    needed = top + 1 if part == 0 else min(top + 1, ceil(1 / part))
    spare = found.most - needed * least
    if spare < 0 or needed > dim:
        return None
    # The sum of squares is largest if all but one of these are as small as can be.
    squares = (least + spare) ** 2 + (needed - 1) * least**2
    return squares + top
