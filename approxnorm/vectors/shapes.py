"""Families of rows with a size that can be dialled: what searches choose from."""

from __future__ import annotations

import numpy as np

from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.space import Space

LEVELS = 4  # magnitudes of a row of few
SIZE_BITS = 8  # fraction bits of a size: one step moves about one element of 256


class Shapes:
    """Rows of fixed proportions (n, dim) and signs, scaled to any size.

    A size t stands for magnitudes up to t / 2**SIZE_BITS. Magnitudes never fall as t rises.
    """

    def __init__(self, space: Space, weights: np.ndarray, negative: np.ndarray) -> None:
        self._space = space
        self.weights = weights  # 0 to 65,535
        self.negative = negative
        self._fixed: tuple[np.ndarray | int, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.weights)

    def rows(self, size: np.ndarray) -> np.ndarray:
        """Values (n, dim) at the sizes (n,)."""
        magnitude = (self.weights * size[:, None]) >> (16 + SIZE_BITS)
        values = self._space.signed(magnitude, self.negative)
        if self._fixed is not None:
            values[np.arange(len(self)), self._fixed[0]] = self._fixed[1]
        return values

    def with_fixed(self, channel: np.ndarray | int, values: np.ndarray) -> Shapes:
        """The same rows but for one channel of each, whose values (n,) no size changes."""
        fixed = Shapes(self._space, self.weights, self.negative)
        fixed._fixed = (channel, values)
        return fixed

    @staticmethod
    def most(space: Space) -> int:
        """The size at which the largest magnitude is reached."""
        return (space.largest + 1) << SIZE_BITS


def dense(space: Space, words: Words, n: int) -> Shapes:
    """Every element of about the same size: uniform, bell-shaped or nearly constant."""
    dim = space.dim
    uniform = words.bits(16, n, dim)
    bell = np.minimum(np.abs(words.gaussian(n, dim)) >> 1, 0xFFFF)
    constant = 0xFFFF - words.bits(12, n, dim)
    kind = words.below(3, n, 1)
    weights = np.choose(kind, [uniform, bell, constant])
    return Shapes(space, _with_peak(weights, words), words.bits(1, n, dim) == 1)


def peaked(space: Space, words: Words, n: int) -> Shapes:
    """A few large elements over a low floor: there y is at its largest."""
    dim = space.dim
    rank = np.argsort(words.raw(n, dim), axis=1, kind="stable")
    hot = np.int64(1) << words.below(max(1, dim.bit_length()), n, 1)
    tall = 0x8000 + words.bits(15, n, dim)
    floor = words.bits(16, n, dim) >> (1 + words.below(10, n, 1))
    weights = np.where(rank < hot, tall, floor)
    return Shapes(space, _with_peak(weights, words), words.bits(1, n, dim) == 1)


def heavy(space: Space, words: Words, n: int) -> Shapes:
    """Magnitudes of all sizes: each halving is half as frequent."""
    dim = space.dim
    weights = (0x8000 + words.bits(15, n, dim)) >> words.geometric(14, n, dim)
    return Shapes(space, _with_peak(weights, words), words.bits(1, n, dim) == 1)


def flat(space: Space) -> np.ndarray:
    """Values (n, dim): all elements 2**b - 1 or its negative, for each bit b, and the extremes;
    and the largest at either end over a floor, for a maximum that misses an end."""
    sizes = [(1 << b) - 1 for b in range(1, space.magnitude_bits + 1)]
    rows = [space.level(s) for m in sizes for s in (m, -m)]
    even = np.arange(space.dim) % 2 == 0
    for place in (0, space.dim - 1):
        for drop in (2, 4, 6):
            floor = np.full(space.dim, space.largest >> drop, np.int64)
            floor[place] = space.largest
            rows += [space.signed(floor, even), space.signed(floor, ~even)]
    return np.stack([*rows, space.level(space.lo), space.level(space.hi)])


def few_levels(space: Space, words: Words, n: int) -> np.ndarray:
    """Values (n, dim) of four magnitudes at most, of any size, each in any number of elements."""
    most = 1 + words.below(space.magnitude_bits, n, 1)
    size = words.bits(16, n, LEVELS) * (most + 1) >> 16
    # Of each octave any value, and often its ends, where codes and leading ones change.
    low = words.bits(31, n, LEVELS) & ((np.int64(1) << size) - 1)
    end = words.below(4, n, LEVELS)
    low = np.where(end == 0, 0, np.where(end == 1, (np.int64(1) << size) - 1, low))
    magnitude = np.where(size > 0, (np.int64(1) << np.maximum(size - 1, 0)) | (low >> 1), 0)
    # Shares of the row at every scale: each level begins at a place that halves again and again.
    start = (words.below(1 << 16, n, LEVELS) * space.dim >> 16) >> words.geometric(8, n, LEVELS)
    rank = np.argsort(words.raw(n, space.dim), axis=1, kind="stable")
    values = np.zeros((n, space.dim), np.int64)
    for level in range(LEVELS):
        begins = start[:, level : level + 1] if level else np.int64(0)
        values = np.where(rank >= begins, magnitude[:, level : level + 1], values)
    return space.signed(values, words.bits(1, n, space.dim) == 1)


def mixed(space: Space, words: Words, n: int) -> Shapes:
    """All families, in turn."""
    parts = [f(space, words, (n + 2) // 3) for f in (dense, peaked, heavy)]
    weights = np.stack([p.weights for p in parts], axis=1).reshape(-1, space.dim)[:n]
    negative = np.stack([p.negative for p in parts], axis=1).reshape(-1, space.dim)[:n]
    return Shapes(space, weights, negative)


def _with_peak(weights: np.ndarray, words: Words) -> np.ndarray:
    """Give one element of each row the full weight, so that sizes mean the same in all."""
    n, dim = weights.shape
    weights[np.arange(n), words.below(dim, n)] = 0xFFFF
    return weights


def random_sizes(space: Space, words: Words, n: int) -> np.ndarray:
    """Half of them within the top octave, half over all octaves."""
    most = Shapes.most(space)
    top = most - (words.below(1 << 16, n) * (most >> 1) >> 16)
    any_octave = top >> words.below(space.magnitude_bits + 1, n)
    return np.where(words.bits(1, n) == 1, top, np.maximum(any_octave, 1 << SIZE_BITS))


def sizes_for(
    probe: Probe, shapes: Shapes, operands: np.ndarray, least: int, most: int
) -> np.ndarray:
    """The sizes (n,) above ``least`` at which each row's operand first reaches the wanted (n,).

    By bisection; ``most`` where none does. Where a statistic is not monotone, a size at which the
    operand crosses the wanted one.
    """
    space = probe.space
    low = np.full(len(shapes), least, np.int64)
    high = np.full(len(shapes), most, np.int64)
    for _ in range(most.bit_length()):
        middle = (low + high) >> 1
        reached = probe.operand(space.codes(shapes.rows(middle))) >= operands
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return high
