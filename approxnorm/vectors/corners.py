"""Level 0: the corners of a norm, each class a list of rows."""

from __future__ import annotations

import numpy as np

from approxnorm.backends.numpy_backend import Arrays
from approxnorm.formats import lowest
from approxnorm.program.datapath import MapStage, ReduceStage
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.shapes import Shapes, dense, peaked, sizes_for
from approxnorm.vectors.space import Space

MAX_THRESHOLDS = 12  # thresholds of a statistic that are looked for; two or three rows each

Rows = list[np.ndarray]


def zero_rows(space: Space) -> Rows:
    """All codes at the zero point."""
    return [space.level(0)]


def spike_rows(space: Space, lanes: int) -> Rows:
    """One element that is not zero, in each class of position, of every sign and kind of size.

    The ends, the middle and the lane boundaries see all six sizes; the neighbours of powers of
    two see one each, in turn.
    """
    largest = space.largest
    odd = max(1, (largest // 3) | 1)
    sizes = [s for m in (largest, odd, 1) for s in (m, -m)]
    main = _inside(space, [0, space.dim - 1, space.dim // 2, lanes - 1, lanes])
    rows = [_spike(space, p, s) for p in main for s in sizes]
    last_beat = (space.dim - 1) // lanes * lanes
    others = [last_beat, last_beat - 1, 2 * lanes - 1, 2 * lanes]
    for power in range(1, space.dim.bit_length()):
        others += [(1 << power) + d for d in (-1, 0, 1)]
    others = [p for p in _inside(space, others) if p not in main]
    # Five of the six sizes, so that neighbours of one power do not always meet the same.
    rows += [_spike(space, p, sizes[i * 5 % 6]) for i, p in enumerate(others)]
    return rows


def _inside(space: Space, positions: list[int]) -> list[int]:
    return [p for p in dict.fromkeys(positions) if 0 <= p < space.dim]


def _spike(space: Space, position: int, value: int) -> np.ndarray:
    if not space.lo <= value <= space.hi:
        value = max(min(value, space.hi), space.lo) or -value
    return space.spike(position, value)


def minimum_rows(space: Space) -> Rows:
    """The smallest code everywhere."""
    return [space.level(space.lo)]


def maximum_rows(space: Space) -> Rows:
    """The largest code everywhere."""
    return [space.level(space.hi)]


def alternating_rows(space: Space) -> Rows:
    """The two extreme codes in turn, starting with either."""
    even = np.arange(space.dim) % 2 == 0
    return [np.where(even, a, b) for a, b in ((space.lo, space.hi), (space.hi, space.lo))]


def one_rows(space: Space) -> Rows:
    """Plus and minus one, the smallest magnitudes that are not zero."""
    even = np.arange(space.dim) % 2 == 0
    ones = np.ones(space.dim, np.int64)
    return [space.signed(ones, n) for n in (~even | even, even & ~even, even, ~even)]


def power_of_two_rows(space: Space) -> Rows:
    """For each bit b, rows of 2**b with alternating signs, and of 2**b - 1, 2**b and 2**b + 1."""
    place = np.arange(space.dim)
    rows = []
    for bit in range(space.magnitude_bits):
        power = np.full(space.dim, 1 << bit, np.int64)
        rows.append(space.signed(power, place % 2 == bit % 2))
        if space.magnitude_bits <= 20 or bit % 2:
            around = np.minimum(power + (place + bit) % 3 - 1, space.largest)
            rows.append(space.signed(around, place % 5 < 2))
    return rows


def eps_rows(probe: Probe, words: Words) -> Rows:
    """Rows whose sum is about eps: below it, at it, around it, and the smallest there are."""
    space, context = probe.space, probe.model.assembly.context
    units = context.eps_code >> context.guard
    wanted = [1, 2, 3, units // 2, units - 1, units, units + 1, 2 * units, 4 * units]
    wanted = sorted({w for w in wanted if w >= 1})
    shapes = dense(space, words, len(wanted))
    sizes = sizes_for(probe, shapes, np.array(wanted), 0, Shapes.most(space))
    rows = list(shapes.rows(sizes)) + list(shapes.rows(np.maximum(sizes - (1 << 4), 0)))
    return unique_rows(rows)


def saturation_rows(probe: Probe, words: Words) -> tuple[Rows, list[str]]:
    """Rows with a y beyond its format on either side, and which side was not reached."""
    space = probe.space
    tallest = np.argsort(-np.abs(probe.weights()), kind="stable")
    rows = []
    for count in (1, 2, 4, max(1, space.dim // 4), space.dim):
        for negative in (False, True):
            row = space.level(0)
            chosen = tallest[:count]
            row[chosen] = space.signed(
                np.full(len(chosen), space.largest), np.full(len(chosen), negative)
            )
            rows.append(row)
    # Alone it is as tall as can be, and the root's own error decides: so sizes of all mantissas.
    sizes = [max(1, space.largest * k // 32) for k in range(32, 8, -1)] + [1]
    rows += [_spike(space, int(tallest[0]), s * sign) for s in sizes for sign in (1, -1)]
    shapes = peaked(space, words, 16)
    rows += list(shapes.rows(np.full(16, Shapes.most(space), np.int64)))
    return _saturating(probe, rows)


def _saturating(probe: Probe, rows: Rows) -> tuple[Rows, list[str]]:
    above, below = beyond_format(probe, probe.trace(probe.space.codes(np.stack(rows))))
    chosen, missing = [], []
    for side, beyond in (("above", above), ("below", below)):
        found = np.flatnonzero(beyond.any(axis=1))[:3]
        chosen += [rows[i] for i in found]
        if not len(found):
            missing.append(f"saturation: no row tried has a y {side} its format")
    return unique_rows(chosen), missing


def beyond_format(probe: Probe, trace: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Where (rows, dim) y as it is rounded lies above its format, and where below.

    Below the least code that its overflow mode yields: SAT_SYM moves the lone minimum as well.
    """
    y = probe.model.assembly.context.y
    code = probe.final.rounded(trace) + y.zero_point
    return code > y.hi, code < lowest(y.lo, y.hi, y.overflow)


def threshold_rows(probe: Probe) -> Rows:
    """Rows on both sides of the statistic's own thresholds: clips, outliers, rounding halves.

    A threshold is where a comparison or a limited rounding before the sum changes, for a single
    spike; each is found by bisection, and comes with and without a background.
    """
    space = probe.space
    rows = []
    for k, magnitude in enumerate(_thresholds(probe)[:MAX_THRESHOLDS]):
        position = (k * 5 + 1) % space.dim
        for below in (1, 0):
            size = magnitude - below
            rows.append(_spike(space, position, -size if k % 2 else size))
        floor = space.signed(np.full(space.dim, magnitude >> 4), np.arange(space.dim) % 2 == 0)
        floor[position] = rows[-1][position]
        rows.append(floor)
    return unique_rows(rows)


def _thresholds(probe: Probe) -> list[int]:
    """Magnitudes of a spike at which a watched node reaches one of its marks."""
    last = max(i for i, s in enumerate(probe.datapath.stages) if isinstance(s, ReduceStage))
    found: list[int] = []
    for stage in probe.datapath.stages[:last]:
        if not isinstance(stage, MapStage) or stage.level != "element":
            continue
        for node in stage.program.named_nodes():
            lo, hi = node.interval.lo, node.interval.hi
            if hi - lo <= 1 << 12 and hi > lo:
                marks = {lo + 1, lo + 2, (lo + hi + 1) // 2, hi}
                found += [_first(probe, node.name or "", m) for m in sorted(marks) if m <= hi]
    return [m for m in dict.fromkeys(found) if m > 0]


def _first(probe: Probe, name: str, mark: int) -> int:
    """The least magnitude whose spike brings signal ``name`` across ``mark``; 0 if none does."""
    space = probe.space

    def across(magnitude: int) -> bool:
        row = _spike(space, 0, magnitude)[None, :]
        return bool(probe.trace(space.codes(row))[name][0, 0] >= mark)

    # Up by powers of two first: what a clip or an outlier undoes again is found as well.
    start = across(0)
    ladder = [1 << b for b in range(space.magnitude_bits)] + [space.largest]
    high = next((m for m in ladder if across(m) != start), 0)
    low = high >> 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if across(middle) == start else (low, middle)
    return high


def unique_rows(rows: Rows) -> Rows:
    """The rows without repetitions, in order."""
    return list({row.tobytes(): row for row in rows}.values())
