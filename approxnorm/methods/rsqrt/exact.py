"""The yardstick: no approximation at all."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import MAX_FRAC_BITS, RSQRT_METHODS, FunctionMethod
from approxnorm.tables.error import StageFunction
from approxnorm.tables.target import RSQRT, Target


@RSQRT_METHODS.register
class Exact(FunctionMethod):
    """y is the correctly rounded value of the whole norm, computed with big integers.

    It has no stage, hence no hardware: the NumPy model alone knows it, and the comparison of
    backends leaves it out. Any place of the constant is allowed, as the constant is exact.
    frac_bits only says how finely eps is kept.
    """

    method: Literal["exact"] = "exact"

    summary: ClassVar[str] = "the correctly rounded result; the yardstick, not hardware"

    def resolved(self) -> Self:
        frac_bits = MAX_FRAC_BITS if self.frac_bits is None else self.frac_bits
        out_bits = 30 if self.out_bits is None else self.out_bits
        return self.model_copy(update={"frac_bits": frac_bits, "out_bits": out_bits})

    def build(self, target: Target = RSQRT) -> StageFunction:
        raise ApproxNormError(
            'rsqrt.method "exact" is the yardstick of the NumPy model, computed with big integers '
            "and outside the conformance matrix; choose another method for hardware"
        )
