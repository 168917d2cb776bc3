"""Rows that hit the rounding ties of y: the bits that are dropped are exactly one half."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from approxnorm.backends.numpy_backend import Arrays
from approxnorm.formats import Rounding, lowest
from approxnorm.vectors import straddle
from approxnorm.vectors.corners import Rows
from approxnorm.vectors.operands import Operands
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.shapes import dense, mixed, random_sizes

BATCH = 192
ATTEMPTS = 6
SAMPLE = 2048  # operands looked at, at most
EACH = 2  # rows wanted of each kind
KINDS = tuple(
    f"{sign} y, kept code {parity}"
    for sign in ("positive", "negative")
    for parity in ("even", "odd")
)


def tie_rows(probe: Probe, words: Words) -> tuple[Rows, list[str]]:
    """Rows with a tie of each kind (sign and parity of the kept code), and the kinds not found.

    From random rows with many small elements, each small element is shifted so that its product
    has its lowest one just below the kept bits; a few attempts settle what that does to the sum.
    """
    counts = np.zeros(len(KINDS), np.int64)
    chosen: Rows = []
    for values in tie_candidates(probe, words):
        if not len(values):
            continue
        kind = tie_kinds(probe, probe.trace(probe.space.codes(values)))
        for row in np.flatnonzero((kind >= 0).any(axis=1)):
            kinds = np.unique(kind[row][kind[row] >= 0])
            if (counts[kinds] < EACH).any():
                counts[kinds] += 1
                chosen.append(values[row].copy())
        if (counts >= EACH).all():
            break
    missing = [f"ties: none found with {k}" for k, c in zip(KINDS, counts, strict=True) if not c]
    return chosen, missing


def tie_candidates(probe: Probe, words: Words) -> Iterator[np.ndarray]:
    """Batches of values (rows, dim) in which ties of y are more and more frequent."""
    values = _start(probe, words)
    for _ in range(ATTEMPTS):
        yield values
        values = _adjusted(probe, values)
    operands = Operands(probe, words)
    # Only where the product is x * gamma * mantissa, with no rounding in between.
    if straddle.possible(probe, operands):
        for attempt in range(2 * ATTEMPTS):
            channel = _best_channels(probe)[attempt % 2]
            yield _aimed(probe, words, operands, channel)


def tie_kinds(probe: Probe, trace: Arrays) -> np.ndarray:
    """For each element the kind of its tie, an index into KINDS, or -1.

    -1 also where one of the two codes beside the tie lies beyond y's format.
    """
    y, final = probe.model.assembly.context.y, probe.final
    kept = replace(final, mode=Rounding.TRN).rounded(trace)
    # Only a tie tells these two modes apart.
    up, down = (
        replace(final, mode=mode).rounded(trace) for mode in (Rounding.RND, Rounding.RND_MIN_INF)
    )
    code = kept + y.zero_point
    tie = (up != down) & (code >= lowest(y.lo, y.hi, y.overflow)) & (code < y.hi)
    return np.where(tie, 2 * (trace[final.value] < 0) + (kept & 1), -1)


def _start(probe: Probe, words: Words) -> np.ndarray:
    space = probe.space
    batch = max(8, min(BATCH, (1 << 19) // space.dim))
    values = mixed(space, words, batch).rows(random_sizes(space, words, batch))
    small = np.arange(space.dim) % 2 == 0
    if space.dim > 1:
        odd = 2 * words.below(8, batch, space.dim) + 1
        tiny = space.signed(np.minimum(odd, space.largest), words.bits(1, batch, space.dim) == 1)
        values = np.where(small, tiny, values)
    return values


def _adjusted(probe: Probe, values: np.ndarray) -> np.ndarray:
    """Small elements shifted by what their product lacks, where they stay small."""
    space = probe.space
    trace = probe.trace(space.codes(values))
    value = trace[probe.final.value].astype(np.int64)
    lacking = probe.final.amounts(trace).astype(np.int64) - 1 - trailing_zeros(value)
    left, right = np.clip(lacking, 0, 40), np.clip(-lacking, 0, 40)
    room = max(1, space.largest >> 2)
    exact = values & ((np.int64(1) << right) - 1) == 0
    moved = (values >> right) << np.where(np.abs(values) > room >> np.minimum(left, 40), 0, left)
    useful = (value != 0) & exact & (moved != values) & (moved >= space.lo) & (moved <= space.hi)
    return np.where(useful, moved, values)


def trailing_zeros(value: np.ndarray) -> np.ndarray:
    """The position of the lowest one; 63 for zero."""
    rest = np.where(value == 0, np.int64(-(1 << 62)) * 2, value)
    count = np.zeros(value.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        empty = rest & np.int64((1 << step) - 1) == 0
        count += np.where(empty, step, 0)
        rest = np.where(empty, rest >> step, rest)
    return count


def _best_channels(probe: Probe) -> tuple[int, int]:
    """The channels whose gamma ends in most zeros, and whose gamma has the least odd part."""
    weight = np.abs(probe.weights())
    zeros = np.where(weight == 0, -1, trailing_zeros(weight))
    odd = np.where(weight == 0, 1 << 62, weight >> np.maximum(zeros, 0))
    return int(np.argmax(zeros)), int(np.argmin(odd))


def _tie_points(probe: Probe, operands: Operands, channel: int) -> tuple[np.ndarray, np.ndarray]:
    """The points at which a channel has a tie within y's format, and for every point the zeros in
    which the x of that tie ends.

    A tie's product is 2**(shift - 1) times an odd number, so the kept code is half of that: the
    odd parts of gamma and mantissa alone must be small enough.
    """
    weight, mantissa = np.abs(probe.weights())[channel], operands.trace["mantissa"]
    zeros = trailing_zeros(mantissa) + trailing_zeros(weight[None])
    odd = (weight >> trailing_zeros(weight[None])) * (mantissa >> trailing_zeros(mantissa))
    needed = operands.trace["shift"] - 1 - zeros
    y = probe.model.assembly.context.y
    most = max(abs(y.lo - y.zero_point), abs(y.hi - y.zero_point))
    within = (weight != 0) & (needed >= 0) & (mantissa != 0) & (odd >> 1 <= most)
    return np.flatnonzero(within), needed


def _aimed(probe: Probe, words: Words, operands: Operands, channel: int) -> np.ndarray:
    """Rows whose mantissa ends in many zeros, with an element that lacks just the others.

    Where y is much coarser than the product, only these have ties. Operands with such mantissas
    are looked for first; then an element is fixed, and the rest of the row scaled to the operand.
    """
    space = probe.space
    points, needed = _tie_points(probe, operands, channel)
    # A sample is enough to look at: then drop what leaves no room for the rest of the row.
    points = points[words.order(len(points))[:SAMPLE]]
    room = np.array([operands.magnitude(i) for i in points], np.int64)
    points = points[room >> np.clip(needed[points], 0, 62) > 0]
    if not len(points):
        return np.zeros((0, space.dim), np.int64)
    n = max(8, min(BATCH, (1 << 18) // space.dim))
    points = points[words.below(len(points), n)]
    odd = 2 * words.geometric(3, n) + 1
    fixed = space.signed(odd << needed[points], words.bits(1, n) == 1)
    shapes = dense(space, words, n)
    return operands.rows(shapes.with_fixed(channel, fixed << operands.row_shift), points)
