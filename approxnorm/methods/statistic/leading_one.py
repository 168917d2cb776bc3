"""Squares of a few leading bits: each magnitude rounded to its leading one and n bits below."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Rounding
from approxnorm.methods.statistics import STATISTICS, Declared, RoundOrTruncate, Statistic
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder, Port
from approxnorm.tables.table import Table

Squarer = Literal["multiply", "table"]


def leading_square(v: Any, bits: int, rounding: Rounding, squarer: Squarer = "multiply") -> Any:
    """The square of |v| rounded to ``bits`` bits below its leading one, in LSB**2 of v.

    The rounding is arithmetic: 1.11 may become 10.0. Magnitudes with fewer bits are exact.
    """
    magnitude = ops.named("magnitude", ops.absolute(v))
    position = ops.leading_one(magnitude)
    amount = ops.named("dropped", ops.maximum(position - bits, 0))
    # The interval of a rounded leading part is known: one bit more, for the carry.
    top = ops.round_shift(magnitude, amount, rounding, (0, 2 << bits))
    top = ops.named("leading_part", top)
    product = top * top if squarer == "multiply" else _looked_up(top, bits)
    if squarer == "table":  # of the part moved up to its leading one: that is taken back here
        amount = amount + ops.leading_one(top) - bits
    doubled = ops.shift_left(amount, 1)
    return ops.named("square", ops.round_shift(product, ops.neg(doubled), Rounding.TRN))


def _looked_up(top: Any, bits: int) -> Any:
    """The square of ``top`` * 2**n with 2**bits <= top * 2**n < 2**(bits + 1); 0 for 0."""
    index = ops.bits(ops.leading_mantissa(top, bits), bits - 1, 0)
    return ops.select(ops.equal(top, 0), 0, ops.lookup(_squares(bits), index))


@lru_cache(maxsize=16)
def _squares(bits: int) -> Table:
    one = 1 << bits
    return Table(
        "square_table",
        tuple((one + i) ** 2 for i in range(one)),
        2 * bits,
        "the bits of leading_part below its leading one",
        bound="exact",
        origin=f"squares of 1 + i / {one}",
    )


def _declare(
    method: Statistic,
    b: DatapathBuilder,
    x: Port,
    bits: int,
    rounding: Rounding,
    squarer: Squarer = "multiply",
) -> Declared:
    square = b.element("square_stage", lambda v: leading_square(v, bits, rounding, squarer), x)
    return Declared(method.accumulate(b, b.sum("sum", square)), Fraction(b.dim))


@STATISTICS.register
class LeadingOne(Statistic):
    """Each magnitude is its leading one and ``bits`` bits below it, rounded arithmetically.

    squarer: "multiply" with bits + 1 bits, or "table", 2**bits squares and shifts instead of a
    multiplier. The sums are the same.
    """

    method: Literal["leading_one"] = "leading_one"
    bits: int = Field(default=2, ge=0, le=8)
    rounding: RoundOrTruncate = Rounding.RND
    squarer: Squarer = "multiply"

    summary: ClassVar[str] = "leading one and n mantissa bits, squared"

    def resolved(self, dim: int) -> Self:
        """Refuse a table of one square."""
        if self.squarer == "table" and self.bits == 0:
            raise ApproxNormError(
                'statistic.squarer is "table", but statistic.bits is 0: powers of two, whose'
                ' squares are shifts; allowed: bits of 1 or more, or the method "power_of_two"'
            )
        return self

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        return _declare(self, b, x, self.bits, self.rounding, self.squarer)


@STATISTICS.register
class PowerOfTwo(Statistic):
    """Each magnitude is the nearest (or next lower) power of two; its square is a shift."""

    method: Literal["power_of_two"] = "power_of_two"
    rounding: RoundOrTruncate = Rounding.RND

    summary: ClassVar[str] = "powers of two: no squarer"

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        return _declare(self, b, x, 0, self.rounding)
