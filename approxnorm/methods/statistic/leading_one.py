"""Squares of a few leading bits: each magnitude rounded to its leading one and n bits below."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Literal

from pydantic import Field

from approxnorm.formats import Rounding
from approxnorm.methods.statistics import STATISTICS, Declared, RoundOrTruncate, Statistic
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder, Port


def leading_square(v: Any, bits: int, rounding: Rounding) -> Any:
    """The square of |v| rounded to ``bits`` bits below its leading one, in LSB**2 of v.

    The rounding is arithmetic: 1.11 may become 10.0. Magnitudes with fewer bits are exact.
    """
    magnitude = ops.named("magnitude", ops.absolute(v))
    position = ops.leading_one(magnitude)
    amount = ops.named("dropped", ops.maximum(position - bits, 0))
    # The interval of a rounded leading part is known: one bit more, for the carry.
    top = ops.round_shift(magnitude, amount, rounding, (0, 2 << bits))
    top = ops.named("leading_part", top)
    doubled = ops.shift_left(amount, 1)
    return ops.named("square", ops.round_shift(top * top, ops.neg(doubled), Rounding.TRN))


def _declare(
    method: Statistic, b: DatapathBuilder, x: Port, bits: int, rounding: Rounding
) -> Declared:
    square = b.element("square_stage", lambda v: leading_square(v, bits, rounding), x)
    return Declared(method.accumulate(b, b.sum("sum", square)), Fraction(b.dim))


@STATISTICS.register
class LeadingOne(Statistic):
    """Each magnitude is its leading one and ``bits`` bits below it, rounded arithmetically."""

    method: Literal["leading_one"] = "leading_one"
    bits: int = Field(default=2, ge=0, le=8)
    rounding: RoundOrTruncate = Rounding.RND

    summary: ClassVar[str] = "leading one and n mantissa bits, squared"

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        return _declare(self, b, x, self.bits, self.rounding)


@STATISTICS.register
class PowerOfTwo(Statistic):
    """Each magnitude is the nearest (or next lower) power of two; its square is a shift."""

    method: Literal["power_of_two"] = "power_of_two"
    rounding: RoundOrTruncate = Rounding.RND

    summary: ClassVar[str] = "powers of two: no squarer"

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        return _declare(self, b, x, 0, self.rounding)
