"""Methods that compute a function of a range-reduced argument: rsqrt above all."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Self

from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Rounding
from approxnorm.methods.base import Method, Registry
from approxnorm.program import WidthError, ops
from approxnorm.program.datapath import Datapath, DatapathBuilder
from approxnorm.tables.error import StageError, StageFunction, measure
from approxnorm.tables.table import Table
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

    @property
    def holds_constant(self) -> bool:
        """Whether this resolved method has a table that a constant can be folded into."""
        return self.folds_constant

    def check_target(self, target: Target) -> None:
        """Refuse a function that the method does not approximate."""
        if target.name not in self.functions:
            raise ApproxNormError(
                f"rsqrt.method {self.method!r} does not approximate {target.name}; "
                f"allowed: {', '.join(self.functions)}"
            )

    def datapath(self, target: Target = RSQRT, dim: int = 1) -> Datapath:
        """The stage alone, as a datapath of one element program over octave and frac."""
        builder = DatapathBuilder(dim)
        octave = builder.input("octave", "element", 0, target.octaves - 1)
        frac = builder.input("frac", "element", 0, (1 << self.f) - 1)
        stage = self.build(target)
        try:
            result = builder.element(
                target.name, lambda o, f: ops.named(target.name, stage(o, f)), octave, frac
            )
        except WidthError as error:
            advice = "lower rsqrt.frac_bits, rsqrt.out_bits or another width of the method"
            raise WidthError(error.what, error.bits, advice) from None
        return builder.finish(result)

    def tables(self, target: Target = RSQRT) -> list[Table]:
        """The tables that a resolved method reads, each once, in order of use."""
        return self.datapath(target).tables()

    def table_bits(self, target: Target = RSQRT) -> int:
        """Stored bits of all tables: entries times the columns that vary."""
        return sum(table.bits for table in self.tables(target))

    def multipliers(self, target: Target = RSQRT) -> int:
        """Multiplications of two signals in one evaluation."""
        return self.datapath(target).count_multipliers()["element"]

    def error(self, target: Target = RSQRT) -> StageError:
        """The error over the whole domain, found exhaustively; the method must be resolved."""
        return measure(self.build(target), target, self.f, self.o)


RSQRT_METHODS: Registry[FunctionMethod] = Registry("rsqrt", "approxnorm.methods.rsqrt")


def gain_target(constant_squared: Fraction) -> Target:
    """rsqrt with a constant folded in, given by its square."""
    return Target("rsqrt", constant_squared)
