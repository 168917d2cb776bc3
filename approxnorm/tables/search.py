"""The choice of table entries: coefficients are searched jointly, through the datapath itself.

A builder hands in candidates for a segment's coefficients and a function that computes the
stage's output from them, in the very arithmetic that the hardware has. So the roundings inside
the datapath are part of what is minimised, and no formula is written twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from approxnorm.tables.error import cell_errors

SAMPLES = 48  # points a segment in the first, coarse round
KEEP = 12  # candidates that go into the second, exhaustive round

Evaluate = Callable[[tuple[np.ndarray, ...], np.ndarray], np.ndarray]


def best_candidate(
    evaluate: Evaluate,
    candidates: Sequence[Sequence[int]],
    offsets: np.ndarray,
    reference: np.ndarray,
    out_bits: int,
    relative: bool = True,
) -> tuple[int, ...]:
    """The coefficients, one from each list, with the least maximum error over a segment.

    evaluate: (coefficient arrays (n, 1), offsets (1, p)) -> codes (n, p) with ``out_bits``.
    offsets: the p low fields of the segment's arguments, ascending.
    reference: int64 (p + 1,), the function at each argument and at the segment's right end.
    Ties go to the first candidate in lexicographic order, so that the result is the same anywhere.
    """
    combos = np.array(list(itertools.product(*candidates)), np.int64)
    if len(offsets) > 2 * SAMPLES:
        pick = np.unique(np.linspace(0, len(offsets) - 1, SAMPLES).astype(np.int64))
        errors = _max_errors(evaluate, combos, offsets, reference, pick, out_bits, relative)
        order = np.argsort(errors, kind="stable")[:KEEP]
        combos = combos[np.sort(order)]
    everything = np.arange(len(offsets))
    errors = _max_errors(evaluate, combos, offsets, reference, everything, out_bits, relative)
    return tuple(int(c) for c in combos[int(np.argmin(errors))])


def _max_errors(
    evaluate: Evaluate,
    combos: np.ndarray,
    offsets: np.ndarray,
    reference: np.ndarray,
    pick: np.ndarray,
    out_bits: int,
    relative: bool,
) -> np.ndarray:
    worst = np.empty(len(combos))
    step = max(1, (1 << 20) // len(pick))  # bounds the memory of one round
    for i in range(0, len(combos), step):
        columns = tuple(c[:, None] for c in combos[i : i + step].T)
        codes = evaluate(columns, offsets[pick][None, :])
        left = np.abs(cell_errors(codes, out_bits, reference[pick], relative))
        right = np.abs(cell_errors(codes, out_bits, reference[pick + 1], relative))
        worst[i : i + step] = np.maximum(left, right).max(axis=1)
    return worst


def around(center: float, radius: int, least: int | None = None) -> range:
    """Integers within ``radius`` of a centre, for a candidate list."""
    middle = round(center)
    low = middle - radius if least is None else max(least, middle - radius)
    return range(low, middle + radius + 1)
