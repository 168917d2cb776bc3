"""A coefficient times a corrected operand, C[i] * (X + Q[j]): both tables chosen together.

For a given Q the best integer C of each segment is known at once; so the search runs over Q
alone, through tables of each segment's extremes for each value that an entry of Q may take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

KEEP = 8  # starting points that are improved step by step


@dataclass(frozen=True, eq=False)
class ProductProblem:
    """Cells of a function on segments, all of the same size.

    low, high: (segments, cells), the smaller and the larger end of the function in each cell.
    operand: (segments, cells), X; unit: what one step of Q adds to it.
    correction: (cells,), the entry j of Q that each cell reads; it is the same in all segments.
    bits: fraction bits of C.
    """

    low: np.ndarray
    high: np.ndarray
    operand: np.ndarray
    unit: float
    correction: np.ndarray
    bits: int

    def extremes(self, values: int) -> tuple[np.ndarray, np.ndarray]:
        """(segments, entries, values): the extremes of f / (X + q), in units of C's last place."""
        order = np.argsort(self.correction, kind="stable")
        entries = int(self.correction.max()) + 1
        starts = np.searchsorted(self.correction[order], np.arange(entries))
        most, least = [], []
        for q in range(values):
            operand = (self.operand + q * self.unit) * 2.0**-self.bits
            most.append(np.maximum.reduceat((self.high / operand)[:, order], starts, axis=1))
            least.append(np.minimum.reduceat((self.low / operand)[:, order], starts, axis=1))
        return np.stack(most, axis=-1), np.stack(least, axis=-1)


def best_product(
    problem: ProductProblem, starts: Iterable[np.ndarray], values: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The integers C and Q with the least maximum relative error that the search finds.

    starts: guesses of Q, entries from 0 to values - 1. The best few are improved by steps of one
    in one entry, as long as the largest errors, compared in descending order, go down.
    """
    most, least = problem.extremes(values)
    guesses = np.unique(np.array(list(starts), np.int64), axis=0)
    _, errors = _coefficients(most, least, guesses)
    first = np.argsort(errors.max(axis=1), kind="stable")[:KEEP]
    improved = [_improve(most, least, guesses[i], values) for i in first]
    best = min(improved, key=lambda found: found[0])[1]
    coefficients, _ = _coefficients(most, least, best[None, :])
    return tuple(int(c) for c in coefficients[0]), tuple(int(q) for q in best)


def _coefficients(
    most: np.ndarray, least: np.ndarray, guesses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each guess of Q: the best C of each segment and its error, both (guesses, segments)."""
    entry = np.arange(most.shape[1])[None, :]
    high = most[:, entry, guesses].max(axis=2).T
    low = least[:, entry, guesses].min(axis=2).T
    below = np.floor(2 * high * low / (high + low))
    errors = [np.maximum(1 - c / high, c / low - 1) for c in (below, below + 1)]
    return np.where(errors[0] <= errors[1], below, below + 1), np.minimum(*errors)


def _improve(
    most: np.ndarray, least: np.ndarray, start: np.ndarray, values: int
) -> tuple[list[float], np.ndarray]:
    steps = np.concatenate(
        [np.eye(len(start), dtype=np.int64), -np.eye(len(start), dtype=np.int64)]
    )
    best, score = start, _score(most, least, start[None, :])[0]
    while True:
        near = best + steps
        near = near[np.all((near >= 0) & (near < values), axis=1)]
        if not len(near):
            return score, best
        scores = _score(most, least, near)
        i = min(range(len(near)), key=lambda k: scores[k])
        if not scores[i] < score:
            return score, best
        best, score = near[i], scores[i]


def _score(most: np.ndarray, least: np.ndarray, guesses: np.ndarray) -> list[list[float]]:
    """The segments' errors in descending order: lists compare them one after the other."""
    errors = _coefficients(most, least, guesses)[1]
    found: list[list[float]] = (-np.sort(-errors, axis=1)).tolist()
    return found
