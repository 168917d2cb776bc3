"""A straight line in each segment: one table of two coefficients, one multiplier."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.methods.segments import MAX_SEARCH_BITS, Segments, power_of_two_bits
from approxnorm.program import ops
from approxnorm.tables.error import StageFunction, with_bound
from approxnorm.tables.search import around, best_candidate
from approxnorm.tables.table import Table
from approxnorm.tables.target import RSQRT, FunctionName, Target


@RSQRT_METHODS.register
class Linear(FunctionMethod):
    """f(m) ~ c0[i] + c1[i] * low / 2**l, where i is the segment and low the l bits below it.

    c0 and c1 are chosen jointly for the least maximum error of the rounded output.
    """

    method: Literal["linear"] = "linear"
    segments: int = Field(default=8, ge=1, le=1024)  # an octave
    bits: int = Field(default=11, ge=2, le=24)  # fraction bits of c0
    slope_bits: int | None = Field(default=None, ge=0, le=24)  # of c1

    summary: ClassVar[str] = "c0 + c1*low in equal segments; one multiplier"
    functions: ClassVar[tuple[FunctionName, ...]] = ("rsqrt", "reciprocal", "log2", "exp2")

    def resolved(self) -> Self:
        """slope_bits: bits; frac_bits: bits + 4, at most 20; out_bits: bits + 3."""
        index_bits = power_of_two_bits(self.segments, "rsqrt.segments")
        frac_bits = self.frac_bits
        if frac_bits is None:
            frac_bits = max(min(self.bits + 4, MAX_SEARCH_BITS), index_bits)
        out_bits = self.bits + 3 if self.out_bits is None else self.out_bits
        Segments.check_search(index_bits, frac_bits)
        slope_bits = self.bits if self.slope_bits is None else self.slope_bits
        if slope_bits > self.bits:
            raise ApproxNormError(
                f"rsqrt.slope_bits is {slope_bits}; allowed: at most rsqrt.bits, {self.bits}"
            )
        return self.model_copy(
            update={"frac_bits": frac_bits, "out_bits": out_bits, "slope_bits": slope_bits}
        )

    def build(self, target: Target = RSQRT) -> StageFunction:
        return self._stage(_tables(self, target), target)

    def _stage(self, tables: tuple[Table, ...], target: Target) -> StageFunction:
        c0, c1 = tables
        segments = self._segments()

        def stage(octave: Any, frac: Any) -> Any:
            index = segments.index(octave, frac, target)
            return self.line(ops.lookup(c0, index), ops.lookup(c1, index), segments.low(frac))

        return stage

    def line(self, c0: Any, c1: Any, low: Any) -> Any:
        """c0 + c1 * low / 2**l, rounded once to out_bits."""
        low_bits = self._segments().low_bits
        exact = ops.shift_left(c0, low_bits) + ops.shift_left(c1 * low, self.slope_coarser)
        return ops.round_shift(exact, self.bits + low_bits - self.o, self.rounding)

    @property
    def slope_coarser(self) -> int:
        """Fraction bits that c1 has fewer than c0, in a resolved method."""
        assert self.slope_bits is not None
        return self.bits - self.slope_bits

    def _segments(self) -> Segments:
        return Segments(power_of_two_bits(self.segments, "rsqrt.segments"), self.f)


@lru_cache(maxsize=256)
def _tables(method: Linear, target: Target) -> tuple[Table, ...]:
    segments = method._segments()
    pairs = [_best_line(method, target, *part) for part in segments.parts(target)]
    rule = segments.index_rule(target)
    origin = f"minimax pairs, {target.name}, {method.segments} segments an octave"
    tables = tuple(
        Table(f"{target.name}_c{k}", tuple(p[k] for p in pairs), bits, rule, origin=origin)
        for k, bits in enumerate((method.bits, method.bits - method.slope_coarser))
    )
    return with_bound(tables, method._stage(tables, target), target, method.f, method.o)


def _best_line(
    method: Linear, target: Target, low: np.ndarray, reference: np.ndarray
) -> tuple[int, ...]:
    unit = 2.0 ** (method.bits - 50)  # one LSB of a coefficient per unit of the reference
    start, end = float(reference[0]) * unit, float(reference[-1]) * unit
    middle = float(reference[len(low) // 2]) * unit
    # The minimax line lies between the chord and its parallel tangent.
    sag = (middle - (start + end) / 2) / 2
    return best_candidate(
        lambda c, x: method.line(c[0], c[1], x),
        [around(start + sag, 3), around((end - start) / (1 << method.slope_coarser), 3)],
        low,
        reference,
        method.o,
        target.relative,
    )
