"""Seeded random rows of several distributions, with outliers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from approxnorm.vectors.random import Words
from approxnorm.vectors.shapes import heavy, random_sizes
from approxnorm.vectors.space import Space


def uniform(space: Space, words: Words, n: int) -> np.ndarray:
    """Every code equally likely."""
    return space.lo + words.below(space.hi - space.lo + 1, n, space.dim)


def gaussian(space: Space, words: Words, n: int) -> np.ndarray:
    """Bell-shaped, the scale halved from row to row, from clipping to a few codes."""
    wide = words.gaussian(n, space.dim) * space.largest >> 16
    halvings = np.arange(n) % max(1, space.magnitude_bits)
    return np.clip(wide >> halvings[:, None], space.lo, space.hi)


def heavy_tailed(space: Space, words: Words, n: int) -> np.ndarray:
    """Magnitudes in which each halving is half as frequent, at every scale."""
    return heavy(space, words, n).rows(random_sizes(space, words, n))


def sparse(space: Space, words: Words, n: int) -> np.ndarray:
    """Mostly zeros and ones, one element in about 32 of any size."""
    ones = space.signed(words.bits(1, n, space.dim), words.bits(1, n, space.dim) == 1)
    large = uniform(space, words, n)
    return np.where(words.below(32, n, space.dim) == 0, large, ones)


def sink(space: Space, words: Words, n: int) -> np.ndarray:
    """One channel, the same in all rows, hundreds of times larger than the others."""
    small = words.gaussian(n, space.dim) * max(2, space.largest >> 8) >> 17
    channel = int(words.below(space.dim, 1)[0])
    tall = space.largest - words.below(space.largest // 4 + 1, n)
    values = np.clip(small, space.lo, space.hi)
    values[:, channel] = space.signed(tall, words.bits(1, n) == 1)
    return values


def small(space: Space, words: Words, n: int) -> np.ndarray:
    """Magnitudes up to 3."""
    magnitude = np.minimum(words.bits(2, n, space.dim), space.largest)
    return space.signed(magnitude, words.bits(1, n, space.dim) == 1)


DISTRIBUTIONS: dict[str, Callable[[Space, Words, int], np.ndarray]] = {
    "random_uniform": uniform,
    "random_gaussian": gaussian,
    "random_heavy_tailed": heavy_tailed,
    "random_sparse": sparse,
    "random_sink": sink,
    "random_small": small,
}
