"""Newton's iteration for 1/sqrt(m) on codes: shared by the methods that iterate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from approxnorm.formats import Rounding
from approxnorm.program import ops
from approxnorm.tables.error import StageFunction, measure
from approxnorm.tables.target import RSQRT

DELTA_FRAC_BITS = 16  # arguments that a recentred constant is chosen on; a matter of speed


@dataclass(frozen=True)
class NewtonStep:
    """y = s * (3 + delta - m * s**2) / 2.

    in_bits, out_bits: fraction bits of s and of y. work_bits: fraction bits that s**2 (at most)
    and the residual are rounded to. three: 3 + delta in units of 2**-work_bits.
    """

    in_bits: int
    out_bits: int
    work_bits: int
    three: int
    rounding: Rounding

    def __call__(self, s: Any, octave: Any, frac: Any, frac_bits: int) -> Any:
        square_bits = min(2 * self.in_bits, self.work_bits)
        square = ops.round_shift(ops.mul(s, s), 2 * self.in_bits - square_bits, self.rounding)
        m = ops.add(frac, 1 << frac_bits)
        product = square * m
        product = ops.select(octave, ops.shift_left(product, 1), product)
        shift = square_bits + frac_bits - self.work_bits
        residual = ops.sub(self.three, ops.round_shift(product, shift, self.rounding))
        shift = self.in_bits + self.work_bits + 1 - self.out_bits
        return ops.round_shift(s * residual, shift, self.rounding)


@dataclass(frozen=True)
class Iteration:
    """``steps`` Newton steps after a seed: the widths of each, and the constants."""

    frac_bits: int
    out_bits: int
    seed_bits: int
    step_bits: int  # fraction bits of the values between steps
    work_bits: int
    steps: int
    recenter: bool
    rounding: Rounding

    def build(self, seed: StageFunction) -> StageFunction:
        """The whole stage. With ``recenter`` each step's constant is chosen by measuring.

        A step from a relative error e gives -1.5*e**2 (and smaller terms), never above 0; with
        delta = 1.5 * max(e)**2 the result lies evenly around 0, at half the largest error.
        """
        stage, in_bits = seed, self.seed_bits
        for i in range(self.steps):
            out_bits = self.out_bits if i == self.steps - 1 else self.step_bits
            delta = self._delta(stage, in_bits) if self.recenter else 0
            three = (3 << self.work_bits) + delta
            step = NewtonStep(in_bits, out_bits, self.work_bits, three, self.rounding)
            stage, in_bits = self._after(stage, step), out_bits
        return stage

    def _after(self, stage: StageFunction, step: NewtonStep) -> StageFunction:
        return lambda octave, frac: step(stage(octave, frac), octave, frac, self.frac_bits)

    def _delta(self, stage: StageFunction, bits: int) -> int:
        coarse = min(self.frac_bits, DELTA_FRAC_BITS)
        shift = self.frac_bits - coarse
        error = measure(lambda o, f: stage(o, f << shift), RSQRT, coarse, bits).max_error
        return round(1.5 * error * error * (1 << self.work_bits))
