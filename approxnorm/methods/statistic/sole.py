"""SOLE's two-range compression: 4-bit squares of 8-bit magnitudes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from approxnorm.formats import Rounding
from approxnorm.methods.statistics import STATISTICS, Declared, Statistic
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder, Port
from approxnorm.tables.table import Table

MAX_SHIFT = 32
SQUARES = Table(
    name="square16",
    entries=tuple(i * i for i in range(16)),
    frac_bits=0,
    index_rule="compressed[3:0]",
    bound="exact",
    origin="squares of 0..15",
)


def compress(magnitude: Any) -> tuple[Any, Any]:
    """An 8-bit magnitude u as (code of 4 bits, range flag): u ~ code * 4 * 4**flag.

    DynamicCompress of SOLE (arXiv 2510.17189): u >= 64 keeps u[7:4], smaller ones u[5:2], both
    rounded half up and clipped to 15.
    """
    large = ops.less(63, magnitude)
    by_16 = ops.round_shift(magnitude, 4, Rounding.RND, (0, 15))
    by_4 = ops.round_shift(magnitude, 2, Rounding.RND, (0, 15))
    return ops.select(large, by_16, by_4), large


@STATISTICS.register
class Sole(Statistic):
    """Magnitudes are brought to 8 bits by a shift, compressed to 4 bits, squared by a table.

    input_shift: |x| / 2**input_shift is rounded (RND) and clipped to 255; calibrated if absent.
    """

    method: Literal["sole"] = "sole"
    input_shift: int | None = Field(default=None, ge=0, le=MAX_SHIFT)

    summary: ClassVar[str] = "4-bit two-range compression and a 16-entry square table"
    source: ClassVar[str] = "SOLE, ICCAD 2023 (arXiv 2510.17189), AILayerNorm"
    needs: ClassVar[tuple[str, ...]] = ("input_shift",)

    def candidates(self, magnitude_bits: int) -> list[Self]:
        if self.input_shift is not None:
            return [self]
        shifts = range(max(0, magnitude_bits - 8) + 1)
        return [self.model_copy(update={"input_shift": s}) for s in shifts]

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        assert self.input_shift is not None
        square = b.element("square_stage", self._square, x)
        total = self.accumulate(b, b.sum("sum", square))
        return Declared(total, Fraction(b.dim), self.input_shift + 2)

    def _square(self, v: Any) -> Any:
        assert self.input_shift is not None
        shift = ops.setting("input_shift", self.input_shift, v, (0, MAX_SHIFT))
        magnitude = ops.round_shift(ops.absolute(v), shift, Rounding.RND, (0, 255))
        code, large = compress(ops.named("magnitude", magnitude))
        small_square = ops.lookup(SQUARES, ops.named("compressed", code))
        return ops.named("square", ops.select(large, ops.shift_left(small_square, 4), small_square))
