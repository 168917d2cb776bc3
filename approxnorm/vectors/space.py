"""The rows that a model takes, counted from its zero point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from approxnorm.model import RMSNorm


@dataclass(frozen=True)
class Space:
    """Rows of ``dim`` values from lo to hi; a value is a code less the zero point."""

    dim: int
    lo: int
    hi: int
    zero_point: int

    @staticmethod
    def of(model: RMSNorm) -> Space:
        form = model.assembly.x_format
        zero = form.zero_point
        return Space(model.dim, form.lo - zero, form.hi - zero, zero)

    @property
    def largest(self) -> int:
        """The largest magnitude of a value."""
        return max(self.hi, -self.lo)

    @property
    def magnitude_bits(self) -> int:
        return self.largest.bit_length()

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Values of any size to int64 codes; what lies outside becomes the nearest."""
        return np.clip(values, self.lo, self.hi) + self.zero_point

    def signed(self, magnitude: np.ndarray, negative: np.ndarray) -> np.ndarray:
        """Values of the magnitudes, clipped, with the wanted sign where the format has it."""
        flipped = np.where(negative, self.lo == 0, self.hi == 0)
        value = np.where(negative ^ flipped, -magnitude, magnitude)
        return np.clip(value, self.lo, self.hi)

    def level(self, value: int) -> np.ndarray:
        """One row of the same value."""
        return np.full(self.dim, min(max(value, self.lo), self.hi), np.int64)

    def spike(self, position: int, value: int) -> np.ndarray:
        """One row of zeros but for one value."""
        row = self.level(0)
        row[position] = min(max(value, self.lo), self.hi)
        return row
