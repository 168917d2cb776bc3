"""The functions that tables approximate, as exact integers of any precision.

Nothing here touches floating point: square roots are ``math.isqrt``, division is integer, log2
and exp2 are computed by repeated squaring and rooting with guard bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from approxnorm.tables.reference import near_reference, reference_row

FunctionName = Literal["rsqrt", "reciprocal", "log2", "exp2"]

REFERENCE_BITS = 50  # fraction bits of the reference that errors are measured against


@dataclass(frozen=True)
class Target:
    """A function over a whole number of octaves, addressed by (octave, fraction).

    =========== ==================== ============================== ==========
    name        argument             value                          error kind
    =========== ==================== ============================== ==========
    rsqrt       m in [1, 4)          gain / sqrt(m)                 relative
    reciprocal  m in [1, 2)          gain / m                       relative
    log2        m in [1, 2)          log2(m)                        absolute
    exp2        t in [0, 1)          gain * 2**t                    relative
    =========== ==================== ============================== ==========

    ``m = 2**octave * (1 + frac / 2**F)`` (t = frac / 2**F). The gain is given by its square,
    which is rational where it is needed: the constant sqrt(k)*s_gamma/s_y of a norm.
    """

    name: FunctionName
    gain_squared: Fraction = Fraction(1)

    @property
    def octaves(self) -> int:
        return 2 if self.name == "rsqrt" else 1

    @property
    def relative(self) -> bool:
        """True if errors are divided by the value, False if they are absolute."""
        return self.name != "log2"

    def floor(self, octave: int, frac: int, frac_bits: int, bits: int) -> int:
        """floor(2**bits * f), exact; ``frac`` may be 2**frac_bits, the right end."""
        return _floor(self, octave, frac, frac_bits, bits)

    def reference(self, frac_bits: int) -> np.ndarray:
        """floor(2**50 * f) at every fraction and the right end: int64 (octaves, 2**F + 1)."""
        return _reference(self, frac_bits)

    def near_reference(self, octave: int, frac_bits: int, part: range) -> np.ndarray:
        """2**50 * f to within a unit, at the fractions of ``part`` and its end: int64 (n + 1,).

        For F beyond 10; ``part`` starts and ends at multiples of 2**(F - 10). Nothing is kept.
        """
        known = (self.name, self._float_gain(), self.floor, octave, frac_bits)
        return near_reference(*known, REFERENCE_BITS, part)

    def _float_gain(self) -> float:
        return 1.0 if self.name == "log2" else math.sqrt(self.gain_squared)


RSQRT = Target("rsqrt")


def _floor(target: Target, octave: int, frac: int, frac_bits: int, bits: int) -> int:
    g2 = target.gain_squared
    m = ((1 << frac_bits) + frac) << octave
    match target.name:
        case "rsqrt":
            return math.isqrt((g2.numerator << (2 * bits + frac_bits)) // (g2.denominator * m))
        case "reciprocal":
            top = g2.numerator << (2 * (bits + frac_bits))
            return math.isqrt(top // (g2.denominator * m * m))
        case "log2":
            return log2_floor(Fraction(m, 1 << frac_bits), bits)
        case "exp2":
            return _exp2_floor(g2, frac, frac_bits, bits)
    raise AssertionError(target.name)


@lru_cache(maxsize=64)
def _reference(target: Target, frac_bits: int) -> np.ndarray:
    gain = target._float_gain()
    array = np.stack(
        [
            reference_row(target.name, gain, target.floor, o, frac_bits, REFERENCE_BITS)
            for o in range(target.octaves)
        ]
    )
    array.flags.writeable = False
    return array


@lru_cache(maxsize=1 << 16)
def log2_floor(value: Fraction, bits: int) -> int:
    """floor(2**bits * log2(value)) for value > 0, by repeated squaring.

    Intervals of growing precision are used until both ends give the same bits; an exact power of
    two, whose ends never agree, is handled first.
    """
    power = _exact_log2(value)
    if power is not None:
        return power << bits
    precision = bits + 32
    while True:
        low, high = (_log2_bits(value, bits, precision, up) for up in (False, True))
        if low == high:
            return low
        precision *= 2


def _exact_log2(value: Fraction) -> int | None:
    n, d = value.numerator, value.denominator
    if n & (n - 1) or d & (d - 1):
        return None
    return n.bit_length() - d.bit_length()


def _log2_bits(value: Fraction, bits: int, precision: int, up: bool) -> int:
    """The first bits of log2, rounding every step down (or up)."""
    whole = 0
    while value >= 2:
        value, whole = value / 2, whole + 1
    while value < 1:
        value, whole = value * 2, whole - 1
    v = ((value.numerator << precision) + (value.denominator - 1) * up) // value.denominator
    result = whole
    for _ in range(bits):
        v = (v * v + ((1 << precision) - 1) * up) >> precision
        bit = v >> (precision + 1)
        v = (v + bit * up) >> bit
        result = 2 * result + bit
    return result


def _exp2_floor(g2: Fraction, frac: int, frac_bits: int, bits: int) -> int:
    """floor(2**bits * sqrt(g2 * 4**t)), t = frac / 2**F: a product of repeated roots of two.

    Where 4**t is a whole number the value may be one too, and no two bounds would ever agree.
    """
    if 2 * frac % (1 << frac_bits) == 0:
        power = 2 * frac >> frac_bits
        return math.isqrt((g2.numerator << (2 * bits + power)) // g2.denominator)
    precision = bits + 32
    while True:
        low, high = _exp2_ends(frac, frac_bits, precision)
        ends = {
            math.isqrt((g2.numerator * v * v << 2 * bits) // (g2.denominator << 2 * precision))
            for v in (low, high)
        }
        if len(ends) == 1:
            return ends.pop()
        precision *= 2


@lru_cache(maxsize=1 << 16)
def _exp2_ends(frac: int, frac_bits: int, precision: int) -> tuple[int, int]:
    low = high = 1 << precision
    roots = _roots_of_two(frac_bits, precision)
    for i in range(1, frac_bits + 1):
        if (frac >> (frac_bits - i)) & 1:
            root_low, root_high = roots[i - 1]
            low, high = (low * root_low) >> precision, -(-high * root_high >> precision)
    doubled = frac >> frac_bits  # the right end, t = 1
    return low << doubled, high << doubled


@lru_cache(maxsize=64)
def _roots_of_two(count: int, precision: int) -> tuple[tuple[int, int], ...]:
    """Bounds of 2**(1/2), 2**(1/4), ... in units of 2**-precision."""
    roots, low, high = [], 2 << precision, 2 << precision
    for _ in range(count):
        low, high = math.isqrt(low << precision), math.isqrt(high << precision) + 1
        roots.append((low, high))
    return tuple(roots)
