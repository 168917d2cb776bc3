"""Methods that compute a function of a range-reduced argument: rsqrt above all."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Self

from pydantic import Field

from approxnorm.formats import Rounding
from approxnorm.methods.base import Method, Registry
from approxnorm.tables.error import StageError, StageFunction, measure
from approxnorm.tables.target import RSQRT, FunctionName, Target

MAX_FRAC_BITS = 24


class FunctionMethod(Method):
    """A stage (octave, frac) -> code, for one or more of rsqrt, reciprocal, log2 and exp2.

    frac_bits F: fraction bits of the argument below its leading one; the rest is truncated.
    out_bits O: fraction bits of the result, ``value = code / 2**O``.
    rounding: the mode of the one rounding at the stage's output.
    A subclass adds its fields, fills absent ones in ``resolved`` and writes ``build``.
    """

    frac_bits: int | None = Field(default=None, ge=0, le=MAX_FRAC_BITS)
    out_bits: int | None = Field(default=None, ge=0, le=30)
    rounding: Rounding = Field(default=Rounding.RND, strict=False)

    functions: ClassVar[tuple[FunctionName, ...]] = ("rsqrt",)
    # Whether the table's entries may be scaled by a constant. False for methods that iterate
    # toward the function itself, whose fixed point a constant would move.
    folds_constant: ClassVar[bool] = True

    def resolved(self) -> Self:
        """The same method with every absent field derived; raises ApproxNormError if illegal."""
        raise NotImplementedError

    def build(self, target: Target = RSQRT) -> StageFunction:
        """The stage: takes octave (0 or 1) and frac (F bits), returns a code with O bits.

        Works on Signals and on arrays. Call it on a resolved method.
        """
        raise NotImplementedError

    @property
    def f(self) -> int:
        """frac_bits of a resolved method."""
        assert self.frac_bits is not None
        return self.frac_bits

    @property
    def o(self) -> int:
        """out_bits of a resolved method."""
        assert self.out_bits is not None
        return self.out_bits

    def error(self, target: Target = RSQRT) -> StageError:
        """The error over the whole domain, found exhaustively; the method must be resolved."""
        return measure(self.build(target), target, self.f, self.o)


RSQRT_METHODS: Registry[FunctionMethod] = Registry("rsqrt")


def gain_target(constant_squared: Fraction) -> Target:
    """rsqrt with a constant folded in, given by its square."""
    return Target("rsqrt", constant_squared)
