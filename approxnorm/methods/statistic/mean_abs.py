"""The mean absolute value in place of the root mean square."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field

from approxnorm.methods.statistics import STATISTICS, Declared, Statistic
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder, Port


@STATISTICS.register
class MeanAbs(Statistic):
    """RMS ~ ratio * mean|x|. The root's operand is (sum|x|)**2, so that the rest is the same.

    ratio: sqrt(pi/2) for Gaussian rows. A bias of "calibrate" fits it to data.
    """

    method: Literal["mean_abs"] = "mean_abs"
    ratio: float = Field(default=1.2533141373155003, ge=1 / 1024, le=1024)

    summary: ClassVar[str] = "no squares: the sum of magnitudes"
    source: ClassVar[str] = "MeanAbsNorm (L1) experiments; Gaussian ratio sqrt(pi/2)"

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        magnitude = b.element(
            "magnitude_stage", lambda v: ops.named("magnitude", ops.absolute(v)), x
        )
        total = self.accumulate(b, b.sum("sum", magnitude))
        operand = b.row("operand_stage", lambda s: ops.named("sum_squared", s * s), total)
        # mean square ~ (ratio * sum / k)**2 = sum**2 / kappa
        kappa = (Fraction(b.dim) / Fraction(repr(self.ratio))) ** 2
        return Declared(operand, kappa)
