"""Low-bit magnitudes and their power-of-two step: shared by the low-bit statistics."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from approxnorm.formats import Rounding
from approxnorm.methods.statistics import RoundOrTruncate, Statistic
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder, Port
from approxnorm.program.signal import Signal

MAX_EXPONENT = 32
PORT_OFFSET = 0  # the largest step_offset of a layer whose kernel has run-time ports
MAX_OFFSET = 8
MEAN_BITS = 8  # significant bits of the constant 1/k that the dynamic step uses


def rescaled(squares: Any, step: Any) -> Any:
    """squares * 4**step: from units of the step back to units of x; step as in low_code."""
    return ops.round_shift(squares, ops.neg(ops.shift_left(step, 1)), Rounding.TRN)


class LowBitStatistic(Statistic):
    """Magnitudes at ``bits`` bits with a power-of-two step.

    step = "static": the step is 2**step_exponent, one number for all rows, calibrated if absent.
    step = "dynamic": it follows the row's mean magnitude, 2**(floor(log2 mean|x|) + step_offset)
    and at least 1; this costs one more reduction over the row. step_offset is calibrated if
    absent; -1 is half the mean magnitude.
    """

    bits: int = Field(default=4, ge=1, le=6)
    step: Literal["static", "dynamic"] = "static"
    step_exponent: int | None = Field(default=None, ge=0, le=MAX_EXPONENT)
    step_offset: int | None = Field(default=None, ge=-MAX_OFFSET, le=MAX_OFFSET)
    rounding: RoundOrTruncate = Rounding.RND

    needs: ClassVar[tuple[str, ...]] = ()

    def missing(self) -> list[str]:
        own = "step_exponent" if self.step == "static" else "step_offset"
        return ([own] if getattr(self, own) is None else []) + super().missing()

    def candidates(self, magnitude_bits: int) -> list[Self]:
        own = "step_exponent" if self.step == "static" else "step_offset"
        if getattr(self, own) is not None:
            return [self]
        # From fine to coarse: at equal error, the first one found squares fewer bits away.
        values = range(magnitude_bits + 1) if self.step == "static" else range(-4, 4)
        return [self.model_copy(update={own: v}) for v in values]

    def low_code(self, magnitude: Any, step: Any) -> Any:
        """min(round(magnitude / 2**step), 2**bits - 1); step is a constant or a signal."""
        return ops.round_shift(magnitude, step, self.rounding, (0, (1 << self.bits) - 1))

    def step_ports(self, b: DatapathBuilder, magnitude: Port) -> tuple[Port, ...]:
        """The step's exponent as a row signal, if it is one: dynamic, or a run-time port."""
        if self.step == "dynamic":
            return (self.dynamic_step(b, magnitude),)
        assert self.step_exponent is not None
        # Of a step with more bits than |x| nothing is left.
        most = min(magnitude.interval.width, MAX_EXPONENT)
        return b.setting("step_exponent", self.step_exponent, 0, most)

    def low_square(self, magnitude: Any, step: Any = None) -> Any:
        """The square of the low-bit code; the static step if none is given."""
        step = self.step_exponent if step is None else step
        code = ops.named("low_code", self.low_code(magnitude, step))
        return ops.named("square", code * code)

    def magnitude(self, b: DatapathBuilder, x: Port) -> Port:
        """The element signal |x|."""
        port: Port = b.element(
            "magnitude_stage", lambda v: ops.named("magnitude", ops.absolute(v)), x
        )
        return port

    def dynamic_step(self, b: DatapathBuilder, magnitude: Port) -> Port:
        """The row signal: the step's exponent, from the row's mean magnitude.

        The mean is sum * round(2**s / k) / 2**s with an 8-bit constant; only its leading one
        counts.
        """
        chosen = self.step_offset
        assert chosen is not None
        total = b.sum("magnitude_sum", magnitude)
        scale = MEAN_BITS + (b.dim - 1).bit_length()
        inverse = round(Fraction(1 << scale, b.dim))
        size = magnitude.interval.width

        def step(s: Any) -> Any:
            # dim lies in (2**(scale-9), 2**(scale-8)], so 2**scale / dim in [2**8, 2**9).
            span = (1 << MEAN_BITS, 2 << MEAN_BITS)
            position = ops.leading_one(s * ops.parameter("inverse_count", inverse, s, span))
            offset = ops.setting("step_offset", chosen, s, (-MAX_OFFSET, PORT_OFFSET))
            least = offset - ops.setting("mean_scale", scale, s, (MEAN_BITS, MEAN_BITS + 20))
            exponent = ops.maximum(position + least, 0)
            if isinstance(least, Signal):
                most = size + PORT_OFFSET
                exponent = ops.assume(exponent, 0, most, "no mean passes the largest magnitude")
            return ops.named("step", exponent)

        port: Port = b.row("step_stage", step, total)
        return port
