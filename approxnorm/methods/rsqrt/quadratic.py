"""A parabola in each segment, by Horner's rule: three coefficients, two multipliers."""

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
from approxnorm.tables.target import REFERENCE_BITS, RSQRT, FunctionName, Target


@RSQRT_METHODS.register
class Quadratic(FunctionMethod):
    """f(m) ~ c0[i] + (c1[i] + c2[i] * u) * v, where i is the segment.

    v = low / 2**l is the place within the segment, and u its top ``cut_bits`` bits: the product
    with c2 needs no more. The slope c1 + c2*u is rounded to bits + 1 fraction bits. The three
    coefficients are chosen jointly for the least maximum error of the rounded output.
    """

    method: Literal["quadratic"] = "quadratic"
    segments: int = Field(default=4, ge=1, le=512)  # an octave
    bits: int = Field(default=15, ge=4, le=24)  # fraction bits of c0
    slope_bits: int | None = Field(default=None, ge=0, le=24)  # of c1
    square_bits: int | None = Field(default=None, ge=0, le=24)  # of c2
    cut_bits: int | None = Field(default=None, ge=1, le=24)  # of u

    summary: ClassVar[str] = "c0 + (c1 + c2*low)*low in equal segments; two multipliers"
    functions: ClassVar[tuple[FunctionName, ...]] = ("rsqrt", "reciprocal", "log2", "exp2")

    def resolved(self) -> Self:
        """slope_bits: bits - 2; square_bits: bits - 1; frac_bits: bits + 3; out_bits: bits + 4.

        cut_bits: bits - 2*log2(segments), about the width of c2, but at least 3 and at most the
        bits below the address.
        """
        index_bits = power_of_two_bits(self.segments, "rsqrt.segments")
        frac_bits = self.frac_bits
        if frac_bits is None:
            frac_bits = min(MAX_SEARCH_BITS, max(self.bits + 3, index_bits + 3))
        Segments.check_search(index_bits + 1, frac_bits)
        cut_bits = self.cut_bits
        if cut_bits is None:
            cut_bits = min(frac_bits - index_bits, max(3, self.bits - 2 * index_bits))
        self._check("cut_bits", cut_bits, frac_bits - index_bits, "the bits below the address")
        slope_bits = max(self.bits - 2, 0) if self.slope_bits is None else self.slope_bits
        square_bits = max(self.bits - 1, 0) if self.square_bits is None else self.square_bits
        self._check("slope_bits", slope_bits, self.bits, "rsqrt.bits")
        self._check("square_bits", square_bits, self.bits, "rsqrt.bits")
        out_bits = self.bits + 4 if self.out_bits is None else self.out_bits
        update = {"frac_bits": frac_bits, "out_bits": out_bits, "cut_bits": cut_bits}
        return self.model_copy(
            update=update | {"slope_bits": slope_bits, "square_bits": square_bits}
        )

    @staticmethod
    def _check(field: str, found: int, most: int, limit: str) -> None:
        if found > most:
            raise ApproxNormError(f"rsqrt.{field} is {found}; allowed: at most {limit}, {most}")

    def build(self, target: Target = RSQRT) -> StageFunction:
        return self._stage(_tables(self, target), target)

    def _stage(self, tables: tuple[Table, ...], target: Target) -> StageFunction:
        segments = self._segments()

        def stage(octave: Any, frac: Any) -> Any:
            index = segments.index(octave, frac, target)
            c0, c1, c2 = (ops.lookup(table, index) for table in tables)
            return self.parabola(c0, c1, c2, segments.low(frac))

        return stage

    def parabola(self, c0: Any, c1: Any, c2: Any, low: Any) -> Any:
        """c0 + (c1 + c2*u)*v: the slope rounded to bits + 1 fraction bits, the sum to out_bits."""
        assert self.cut_bits is not None
        low_bits = self._segments().low_bits
        slope_bits, square_bits = self.coefficient_bits[1:]
        cut = ops.shift_floor(low, low_bits - self.cut_bits)
        bend = ops.shift_left(c2 * cut, self.bits - square_bits)
        exact = ops.shift_left(c1, self.cut_bits + self.bits - slope_bits) + bend
        slope = ops.round_shift(exact, self.cut_bits - 1, self.rounding)
        total = ops.shift_left(c0, low_bits + 1) + slope * low
        return ops.round_shift(total, self.bits + 1 + low_bits - self.o, self.rounding)

    @property
    def coefficient_bits(self) -> tuple[int, int, int]:
        """Fraction bits of c0, c1 and c2 of a resolved method."""
        assert self.slope_bits is not None and self.square_bits is not None
        return self.bits, self.slope_bits, self.square_bits

    def _segments(self) -> Segments:
        return Segments(power_of_two_bits(self.segments, "rsqrt.segments"), self.f)


@lru_cache(maxsize=256)
def _tables(method: Quadratic, target: Target) -> tuple[Table, ...]:
    segments = method._segments()
    triples = [_best_parabola(method, target, *part) for part in segments.parts(target)]
    rule = segments.index_rule(target)
    origin = f"minimax triples, {target.name}, {method.segments} segments an octave"
    tables = tuple(
        Table(f"{target.name}_c{k}", tuple(t[k] for t in triples), bits, rule, origin=origin)
        for k, bits in enumerate(method.coefficient_bits)
    )
    stage = method._stage(tables, target)
    return with_bound(tables, stage, target, method.f, method.o)


def _best_parabola(
    method: Quadratic, target: Target, low: np.ndarray, reference: np.ndarray
) -> tuple[int, ...]:
    parabola = _interpolated(reference)
    units = (2.0 ** (b - REFERENCE_BITS) for b in method.coefficient_bits)
    centers = [c * unit for c, unit in zip(parabola, units, strict=True)]
    return best_candidate(
        lambda c, x: method.parabola(c[0], c[1], c[2], x),
        [around(c, radius) for c, radius in zip(centers, (2, 3, 3), strict=True)],
        low,
        reference,
        method.o,
        target.relative,
    )


def _interpolated(reference: np.ndarray) -> tuple[float, float, float]:
    """The parabola through the function at Chebyshev's nodes: close to the minimax one."""
    size = len(reference) - 1
    nodes = [round(size * p) for p in (0.0669873, 0.5, 0.9330127)]
    if len(set(nodes)) < 3:
        nodes = [0, size // 2, size]
    if len(set(nodes)) < 3:
        start, end = float(reference[0]), float(reference[-1])
        return start, end - start, 0.0
    x = [n / size for n in nodes]
    y = [float(reference[n]) for n in nodes]
    d1, d2 = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    c2 = (d2 - d1) / (x[2] - x[0])
    return y[0] - d1 * x[0] + c2 * x[0] * x[1], d1 - c2 * (x[0] + x[1]), c2
