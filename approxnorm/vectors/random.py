"""Seeded integers from raw PCG64 words: the same on any machine and with any NumPy.

NumPy keeps the raw stream of a bit generator fixed, but not its distributions; so everything
here is integer arithmetic on the words themselves, with no floats.
"""

from __future__ import annotations

import numpy as np


class Words:
    """A stream of 64-bit words; ``stream`` numbers separate the uses of one seed."""

    def __init__(self, seed: int, *stream: int) -> None:
        self._generator = np.random.PCG64(np.random.SeedSequence([seed, *stream]))

    def raw(self, *shape: int) -> np.ndarray:
        """uint64 words."""
        count = 1
        for size in shape:
            count *= size
        words: np.ndarray = self._generator.random_raw(count)
        return words.reshape(shape)

    def bits(self, size: int, *shape: int) -> np.ndarray:
        """Uniform int64 of ``size`` bits, at most 63: the words' upper bits."""
        return (self.raw(*shape) >> np.uint64(64 - size)).astype(np.int64)

    def below(self, bound: int, *shape: int) -> np.ndarray:
        """int64 from 0 to bound - 1, bound at most 2**32; uniform to within 2**-31 of a share."""
        wide = (self.raw(*shape) >> np.uint64(32)) * np.uint64(bound)
        return (wide >> np.uint64(32)).astype(np.int64)

    def gaussian(self, *shape: int) -> np.ndarray:
        """Bell-shaped int64 within +-131,070, standard deviation 37,837: four uniforms summed."""
        words = self.raw(*shape)
        fields = [(words >> np.uint64(16 * i)) & np.uint64(0xFFFF) for i in range(4)]
        total = np.full(shape, -2 * 0xFFFF, np.int64)
        for field in fields:
            total += field.astype(np.int64)
        return total

    def geometric(self, most: int, *shape: int) -> np.ndarray:
        """int64 g from 0 to ``most``, at most 63, each half as frequent as the one before."""
        words = self.raw(*shape)
        count = np.zeros(shape, np.int64)
        still = np.ones(shape, bool)
        for i in range(most):
            still &= (words >> np.uint64(i)) & np.uint64(1) == 1
            count += still
        return count

    def order(self, count: int) -> np.ndarray:
        """A permutation of range(count)."""
        return np.argsort(self.raw(count), kind="stable")
