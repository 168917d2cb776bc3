"""An integer square root, then an integer division: I-BERT's way."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Rounding
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.program import ops
from approxnorm.tables.error import StageFunction
from approxnorm.tables.target import RSQRT, Target


@RSQRT_METHODS.register
class IsqrtDivide(FunctionMethod):
    """1/sqrt(m) ~ floor(2**(O + r) / floor(2**r * sqrt(m))).

    root_bits r: fraction bits of the root. rounding: TRN, as published, or RND, which adds half
    of the divisor to the dividend. No table; a sequential root and a divider instead.
    """

    method: Literal["isqrt_divide"] = "isqrt_divide"
    root_bits: int = Field(default=12, ge=1, le=28)
    rounding: Rounding = Field(default=Rounding.TRN, strict=False)

    summary: ClassVar[str] = "integer square root, then integer division; no table"
    source: ClassVar[str] = "Kim et al., I-BERT, ICML 2021"
    folds_constant: ClassVar[bool] = False

    def resolved(self) -> Self:
        """frac_bits: root_bits + 1; out_bits: root_bits + 2."""
        if self.rounding not in (Rounding.TRN, Rounding.RND):
            raise ApproxNormError(
                f"rsqrt.rounding is {self.rounding.value}; isqrt_divide allows TRN and RND"
            )
        frac_bits = min(24, self.root_bits + 1) if self.frac_bits is None else self.frac_bits
        out_bits = min(30, self.root_bits + 2) if self.out_bits is None else self.out_bits
        return self.model_copy(update={"frac_bits": frac_bits, "out_bits": out_bits})

    def build(self, target: Target = RSQRT) -> StageFunction:
        self.check_target(target)

        def stage(octave: Any, frac: Any) -> Any:
            m = ops.add(frac, 1 << self.f)
            m = ops.select(octave, ops.shift_left(m, 1), m)
            square = ops.round_shift(m, self.f - 2 * self.root_bits, Rounding.TRN)
            root = ops.integer_sqrt(square)
            dividend = ops.add(1 << (self.o + self.root_bits), self._half(root))
            return ops.integer_divide(dividend, root)

        return stage

    def _half(self, root: Any) -> Any:
        return ops.shift_floor(root, 1) if self.rounding is Rounding.RND else 0
