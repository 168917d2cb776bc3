"""Exact fractions, rounded upward: what a proof may be computed with."""

from __future__ import annotations

import math
from fractions import Fraction

from approxnorm.tables.target import Target

_BITS = 96  # significant bits of a root
_EXP_BITS = 32  # fraction bits of an exponent of two

# What float64 and 50-bit reference values may hide in an exhaustively found error: the floor of
# the reference, at most 2**-48 of the value, and two IEEE roundings.
_RELATIVE_SLACK, _ABSOLUTE_SLACK = Fraction(1, 1 << 40), Fraction(1, 1 << 47)


def sqrt_down(value: Fraction) -> Fraction:
    """At most sqrt(value), value >= 0, by less than one part in 2**90."""
    return _sqrt(value, 0)


def sqrt_up(value: Fraction) -> Fraction:
    """At least sqrt(value), value >= 0, by less than one part in 2**90."""
    return _sqrt(value, 1) if value else Fraction(0)


def _sqrt(value: Fraction, add: int) -> Fraction:
    n, d = value.numerator, value.denominator
    bits = max(0, _BITS + (d.bit_length() - n.bit_length()) // 2)
    return Fraction(math.isqrt((n << (2 * bits)) // d) + add, 1 << bits)


def exp2_up(exponent: Fraction) -> Fraction:
    """At least 2**exponent, exponent >= 0, by less than one part in 2**31."""
    units = math.ceil(exponent * (1 << _EXP_BITS))
    whole, frac = divmod(units, 1 << _EXP_BITS)
    power = Target("exp2").floor(0, frac, _EXP_BITS, 40) + 1
    return Fraction(power << whole, 1 << 40)


def measured_up(error: float) -> Fraction:
    """At least the true error, given what ``approxnorm.tables.error`` measures for it."""
    return Fraction(error) * (1 + _RELATIVE_SLACK) + _ABSOLUTE_SLACK


def ceil_to(value: Fraction, bits: int) -> Fraction:
    """The least multiple of 2**-bits that is not below ``value``."""
    return Fraction(math.ceil(value * (1 << bits)), 1 << bits)
