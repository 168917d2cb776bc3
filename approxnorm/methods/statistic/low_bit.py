"""The low-bit statistic: squares of a few bits of each magnitude, clipped."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Literal

from approxnorm.methods.low_bits import MAX_EXPONENT, LowBitStatistic, rescaled
from approxnorm.methods.statistics import STATISTICS, Declared
from approxnorm.program import Interval, ops
from approxnorm.program.datapath import DatapathBuilder, Port


@STATISTICS.register
class LowBit(LowBitStatistic):
    """sum q**2 with q = min(round(|x| / 2**step), 2**bits - 1): ARNorm-style.

    No paper of that name could be found; this is the project's own definition. The largest code
    is also the clip. Outliers beyond it are lost: see outlier_exact.
    """

    method: Literal["low_bit"] = "low_bit"

    summary: ClassVar[str] = "few-bit magnitudes with a calibrated or dynamic step, squared"

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        if self.step == "static":
            return self._static(b, x)
        magnitude = self.magnitude(b, x)
        step = self.dynamic_step(b, magnitude)
        square = b.element("square_stage", self.low_square, magnitude, step)
        total = self.accumulate(b, b.sum("sum", square))
        operand = b.row(
            "operand_stage", lambda s, j: ops.named("rescaled_sum", rescaled(s, j)), total, step
        )
        return Declared(operand, Fraction(b.dim))

    def _static(self, b: DatapathBuilder, x: Port) -> Declared:
        assert self.step_exponent is not None

        most = Interval(0, max(-x.interval.lo, x.interval.hi)).width
        step = b.setting("step_exponent", self.step_exponent, 0, min(most, MAX_EXPONENT))

        def square(v: Any, *step: Any) -> Any:
            return self.low_square(ops.named("magnitude", ops.absolute(v)), *step)

        total = b.sum("sum", b.element("square_stage", square, x, *step))
        return Declared(self.accumulate(b, total), Fraction(b.dim), self.step_exponent)
