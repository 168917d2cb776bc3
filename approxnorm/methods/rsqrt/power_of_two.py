"""The nearest power of two in the log domain: the shift alone does the work."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.program import ops
from approxnorm.tables.error import StageFunction
from approxnorm.tables.target import RSQRT, Target


@RSQRT_METHODS.register
class PowerOfTwo(FunctionMethod):
    """1/sqrt(m) ~ 2**-round(log2(m) / 2), ties up: 1 in the lower octave, 1/2 in the upper.

    No table and no multiplier; the relative error lies in (-0.293, 0.415).
    """

    method: Literal["power_of_two"] = "power_of_two"

    summary: ClassVar[str] = "1 or 1/2 from the octave bit: no table, no multiplier"
    folds_constant: ClassVar[bool] = False

    def resolved(self) -> Self:
        frac_bits = 0 if self.frac_bits is None else self.frac_bits
        out_bits = 1 if self.out_bits is None else self.out_bits
        if out_bits < 1:
            raise ApproxNormError(
                "rsqrt.out_bits is 0; power_of_two needs at least 1, as 1/2 is one of its values"
            )
        return self.model_copy(update={"frac_bits": frac_bits, "out_bits": out_bits})

    def build(self, target: Target = RSQRT) -> StageFunction:
        self.check_target(target)

        def stage(octave: Any, frac: Any) -> Any:
            return ops.shift_left(ops.sub(2, octave), self.o - 1)

        return stage

    def build_log2(self, log_bits: int) -> StageFunction:
        """(octave, frac) -> the even number 0 or 2 as log2(m), with ``log_bits`` fraction bits.

        Its half is the integer that ``build`` rounds log2(m) / 2 to.
        """

        def stage(octave: Any, frac: Any) -> Any:
            return ops.shift_left(octave, log_bits + 1)

        return stage
