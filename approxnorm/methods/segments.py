"""Equal power-of-two segments of each octave: the address and the offset below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.program import ops
from approxnorm.tables.target import Target


def power_of_two_bits(count: int, field: str) -> int:
    """log2 of a count that must be a power of two."""
    if count < 1 or count & (count - 1):
        raise ApproxNormError(f"{field} is {count}; allowed: a power of two")
    return count.bit_length() - 1


# Coefficients are searched over every argument: at 20 bits two million of them, in seconds.
MAX_SEARCH_BITS = 20


@dataclass(frozen=True)
class Segments:
    """2**index_bits segments an octave, of an argument with frac_bits fraction bits."""

    index_bits: int
    frac_bits: int

    @staticmethod
    def check(index_bits: int, frac_bits: int) -> None:
        """Refuse fewer fraction bits than the address needs."""
        if frac_bits < index_bits:
            raise ApproxNormError(
                f"rsqrt.frac_bits is {frac_bits}; the table's address needs at least {index_bits}"
            )

    @staticmethod
    def check_search(index_bits: int, frac_bits: int) -> None:
        """As ``check``, and refuse more arguments than a search of coefficients can visit."""
        Segments.check(index_bits, frac_bits)
        if frac_bits > MAX_SEARCH_BITS:
            raise ApproxNormError(
                f"rsqrt.frac_bits is {frac_bits}; coefficients are searched over every argument;"
                f" allowed: at most {MAX_SEARCH_BITS}"
            )

    @property
    def low_bits(self) -> int:
        """Bits below the address."""
        return self.frac_bits - self.index_bits

    def index(self, octave: Any, frac: Any, target: Target) -> Any:
        """The table address: the octave bit, if there are two, above the fraction's top bits."""
        top = ops.shift_floor(frac, self.low_bits)
        if target.octaves == 1:
            return top
        return ops.shift_left(octave, self.index_bits) + top

    def low(self, frac: Any) -> Any:
        """The bits below the address; the constant 0 if there are none."""
        return ops.bits(frac, self.low_bits - 1, 0) if self.low_bits else ops.shift_left(0, 0)

    def index_rule(self, target: Target) -> str:
        """The address in words, for the table."""
        top = f"frac[{self.frac_bits - 1}:{self.low_bits}]" if self.index_bits else ""
        octave = "parity" if target.octaves == 2 else ""
        parts = [p for p in (octave, top) if p]
        return "{" + ", ".join(parts) + "}" if parts else "0"

    def parts(self, target: Target) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each address in order: the low fields, and the reference at each and at the end."""
        reference = target.reference(self.frac_bits)
        size = 1 << self.low_bits
        low = np.arange(size, dtype=np.int64)
        for octave in range(target.octaves):
            for start in range(0, 1 << self.frac_bits, size):
                yield low, reference[octave, start : start + size + 1]
