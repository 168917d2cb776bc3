"""The fast inverse square root, on integers: a subtraction for a seed, then Newton."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.methods.iteration import Iteration
from approxnorm.program import ops
from approxnorm.tables.error import StageFunction
from approxnorm.tables.target import RSQRT, Target

MANTISSA_BITS = 23  # of the float32 whose bits the magic number is made for
BIAS = 381 << (MANTISSA_BITS - 1)  # 1.5 times float32's exponent bias of 127
LEAST, MOST = BIAS - (1 << MANTISSA_BITS), BIAS - 1


@RSQRT_METHODS.register
class Fisr(FunctionMethod):
    """``i = magic - (i >> 1)`` and ``steps`` times y <- y * (3 - m * y**2) / 2.

    The float's bits are Mitchell's log2(m) = octave + frac / 2**F; so the line above is
    Mitchell's antilogarithm of (constant - log2(m) / 2). ``magic`` is the familiar 32-bit number
    and is rounded to F bits: with F = 23 the seed is the float trick's, bit for bit.
    Largest relative error by steps: 3.44e-2, 1.75e-3, 4.6e-6. recenter, step_bits and work_bits
    as in ``newton``. No table; the constant of a norm cannot be folded in.
    """

    method: Literal["fisr"] = "fisr"
    magic: int = Field(default=0x5F3759DF, ge=0, lt=1 << 32)
    steps: int = Field(default=1, ge=0, le=4)
    recenter: bool = False
    step_bits: int | None = Field(default=None, ge=2, le=28)
    work_bits: int | None = Field(default=None, ge=4, le=28)

    summary: ClassVar[str] = "0x5f3759df on integers: no table; three multipliers a step"
    source: ClassVar[str] = "Lomont, Fast Inverse Square Root, 2003; HAAN, arXiv 2502.11832"
    folds_constant: ClassVar[bool] = False

    def resolved(self) -> Self:
        """out_bits: 12, 16 or 22 for 0, 1 or more steps; frac_bits: out_bits, at most 23.

        work_bits and step_bits: out_bits + 2.
        """
        if not LEAST <= self.magic <= MOST:
            raise ApproxNormError(
                f"rsqrt.magic is {self.magic:#x}; {LEAST:#x} to {MOST:#x} are allowed, for a seed "
                "from 1/4 to 1"
            )
        default = (12, 16, 22, 22, 22)[self.steps]
        out_bits = default if self.out_bits is None else self.out_bits
        frac_bits = max(1, min(23, out_bits)) if self.frac_bits is None else self.frac_bits
        if frac_bits < 1:
            raise ApproxNormError("rsqrt.frac_bits is 0; fisr needs at least 1")
        work_bits = max(4, min(28, out_bits + 2)) if self.work_bits is None else self.work_bits
        step_bits = work_bits if self.step_bits is None else self.step_bits
        update = {"frac_bits": frac_bits, "out_bits": out_bits}
        return self.model_copy(update=update | {"work_bits": work_bits, "step_bits": step_bits})

    def build(self, target: Target = RSQRT) -> StageFunction:
        self.check_target(target)
        return _stage(self)

    def seed(self, octave: Any, frac: Any) -> Any:
        """(magic - log2(m) / 2) as a number with F + 2 fraction bits."""
        size = self.f
        logarithm = ops.add(ops.shift_left(octave, size), frac)
        result = ops.sub(self.constant, ops.shift_floor(logarithm, 1))
        mantissa = ops.add(ops.bits(result, size - 1, 0), 1 << size)
        exponent = ops.bits(result, size, size)  # 0 or 1, for 2**-2 or 2**-1
        return ops.select(exponent, ops.shift_left(mantissa, 1), mantissa)

    @property
    def constant(self) -> int:
        """magic as a number with F fraction bits, its exponent raised by 2 so that it is >= 0."""
        value = self.magic - BIAS + (2 << MANTISSA_BITS)
        shift = MANTISSA_BITS - self.f
        if shift <= 0:
            return value << -shift
        return min((value + (1 << shift >> 1)) >> shift, (2 << self.f) - 1)


@lru_cache(maxsize=64)
def _stage(method: Fisr) -> StageFunction:
    seed_bits = method.f + 2
    if method.steps == 0:
        return lambda octave, frac: ops.round_shift(
            method.seed(octave, frac), seed_bits - method.o, method.rounding
        )
    assert method.step_bits is not None and method.work_bits is not None
    iteration = Iteration(
        method.f,
        method.o,
        seed_bits,
        method.step_bits,
        method.work_bits,
        method.steps,
        method.recenter,
        method.rounding,
    )
    return iteration.build(method.seed)
