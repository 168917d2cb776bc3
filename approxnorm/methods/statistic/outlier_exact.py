"""The outlier-exact statistic: few bits for most elements, the true square for the outliers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from approxnorm.formats import Rounding
from approxnorm.methods.low_bits import LowBitStatistic, rescaled
from approxnorm.methods.statistics import STATISTICS, Declared, Observed
from approxnorm.program import ops
from approxnorm.program.datapath import MAX_TOP, DatapathBuilder, Port


@STATISTICS.register
class OutlierExact(LowBitStatistic):
    """Low-bit squares, but outliers are squared exactly.

    outliers = "threshold": every |x| >= 2**step * (2**bits - 1/2). In hardware the latency
    varies with the row, or a full squarer stands by. Calibration chooses the step of least error
    among those that square at most ``max_outliers`` of the elements exactly, on average; absent,
    that is 0.4 / 2**bits.
    outliers = "top": the ``top`` largest magnitudes of each row, by ``top`` squarers.
    """

    method: Literal["outlier_exact"] = "outlier_exact"
    outliers: Literal["threshold", "top"] = "threshold"
    max_outliers: float | None = Field(default=None, gt=0, le=1)
    top: int = Field(default=4, ge=1, le=MAX_TOP)

    summary: ClassVar[str] = "few-bit squares, outliers squared exactly"

    def objection(self, observed: Observed) -> str:
        if self.outliers == "top" or not observed.mean_square.size:
            return ""
        share = np.count_nonzero(observed.signals["outlier"]) / observed.signals["outlier"].size
        limit = 0.4 / (1 << self.bits) if self.max_outliers is None else self.max_outliers
        if share <= limit:
            return ""
        return (
            f"statistic.max_outliers is {limit}; no step squares so few of this data exactly (the"
            f" best: {share:.3g}); allowed: that or more, or other statistic.bits"
        )

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        magnitude = self.magnitude(b, x)
        step = self.step_ports(b, magnitude)
        parts = self._threshold if self.outliers == "threshold" else self._top
        return Declared(parts(b, magnitude, step), Fraction(b.dim))

    def _threshold(self, b: DatapathBuilder, magnitude: Port, step: tuple[Port, ...]) -> Port:
        low, high = b.element("square_stage", self._split_squares, magnitude, *step)
        low_sum, high_sum = b.sum("sum", low), b.sum("outlier_sum", high)
        low_sum = self.accumulate(b, low_sum)
        port: Port = b.row("operand_stage", self._combine, low_sum, high_sum, *step)
        return port

    def _split_squares(self, magnitude: Any, step: Any = None) -> tuple[Any, Any]:
        """(q**2, 0) below the threshold, (0, magnitude**2) from it on."""
        step = self.step_exponent if step is None else step
        # |x| >= 2**step * (2**bits - 1/2), doubled so that it stays an integer.
        edge = (2 << self.bits) - 1
        threshold = ops.round_shift(edge, ops.neg(step), Rounding.TRN)
        is_low = ops.named("is_low", ops.less(ops.shift_left(magnitude, 1), threshold))
        code = ops.named("low_code", ops.select(is_low, self.low_code(magnitude, step), 0))
        outlier = ops.named("outlier", ops.select(is_low, 0, magnitude))
        return (
            ops.named("square", code * code),
            ops.named("outlier_square", outlier * outlier),
        )

    def _combine(self, low_sum: Any, outlier_sum: Any, step: Any = None) -> Any:
        step = self.step_exponent if step is None else step
        return ops.named("exact_sum", rescaled(low_sum, step) + outlier_sum)

    def _top(self, b: DatapathBuilder, magnitude: Port, step: tuple[Port, ...]) -> Port:
        largest = b.top("largest", magnitude, min(self.top, b.dim))
        square = b.element("square_stage", self.low_square, magnitude, *step)
        exact = b.sum("sum", square)
        low_sum = self.accumulate(b, exact)
        narrowed = low_sum is not exact

        def correct(low: Any, *rest: Any) -> Any:
            return self._correct(narrowed, low, rest[: len(largest)], *rest[len(largest) :])

        port: Port = b.row("operand_stage", correct, low_sum, *largest, *step)
        return port

    def _correct(
        self, narrowed: bool, low_sum: Any, largest: tuple[Any, ...], step: Any = None
    ) -> Any:
        """Replace the low-bit squares of the largest magnitudes by true ones.

        A sum that was narrowed may have lost them: what would fall below 0 is then 0.
        """
        step = self.step_exponent if step is None else step
        total = rescaled(low_sum, step)
        for magnitude in largest:
            code = self.low_code(magnitude, step)
            total = total + (magnitude * magnitude - rescaled(code * code, step))
        if narrowed:
            return ops.named("exact_sum", ops.maximum(total, 0))
        positive = ops.assume(
            total, 0, 1 << 62, "the largest elements' low-bit squares are part of the sum"
        )
        return ops.named("exact_sum", positive)
