"""One coefficient a segment, times the argument with its low bits inverted: one multiplier."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.methods.segments import MAX_SEARCH_BITS, Segments, power_of_two_bits
from approxnorm.program import ops
from approxnorm.tables.error import StageFunction, with_bound
from approxnorm.tables.product import ProductProblem, best_product
from approxnorm.tables.table import Table
from approxnorm.tables.target import REFERENCE_BITS, RSQRT, Target

SQRT_HALF, SQRT_HALF_BITS = 46341, 16  # round(2**16 / sqrt(2))
GUARD = 2  # bits of a product below the output, before the constant multiplication


@RSQRT_METHODS.register
class Powering(FunctionMethod):
    """1/sqrt(m) ~ C[i] * X', X' = 2*xh + h/2 + not(xl) + Q[|d|].

    x = 1 + f is cut into xh, its segment of width h, and xl below; d = xl - h/2. Around the
    middle x0 of a segment, x**-1/2 = x0**-3/2 / 2 * (2*x0 - d + 3/4 * d**2 / x0 - ...), and
    2*x0 - d is xh, an added bit and the complement of xl: wires, no multiplier.

    correction_index_bits: top bits of |d| that address Q, a tiny table shared by all segments
        that stands for the square term; 0 leaves it out.
    correction_bits: fraction bits of Q.
    operand_bits: bits of xl that enter the product.
    shared_octave: store C for m in [1, 2) only, and multiply by 46341/65536 (a few adders) in
        the upper octave.
    C and Q are chosen jointly.
    """

    method: Literal["powering"] = "powering"
    segments: int = Field(default=8, ge=2, le=256)  # an octave
    bits: int = Field(default=15, ge=4, le=26)  # fraction bits of C
    correction_index_bits: int = Field(default=3, ge=0, le=6)
    correction_bits: int | None = Field(default=None, ge=1, le=26)
    operand_bits: int | None = Field(default=None, ge=1, le=24)
    shared_octave: bool = False

    summary: ClassVar[str] = "one coefficient times a rewired operand; one multiplier"
    source: ClassVar[str] = "Takagi, IEEE Trans. Comput. 47(11), 1998 (operand modification)"

    def resolved(self) -> Self:
        """frac_bits: bits + 1, at most 20; out_bits: bits + 3; operand_bits: all below the address.

        correction_bits: 6 + 2*log2(segments), which gives Q four columns.
        """
        index_bits = power_of_two_bits(self.segments, "rsqrt.segments")
        frac_bits = self.frac_bits
        if frac_bits is None:
            frac_bits = min(self.bits + 1, MAX_SEARCH_BITS)
        Segments.check_search(index_bits + self.correction_index_bits + 2, frac_bits)
        out_bits = min(self.bits + 3, 30) if self.out_bits is None else self.out_bits
        low_bits = frac_bits - index_bits
        operand_bits = low_bits if self.operand_bits is None else self.operand_bits
        if operand_bits > low_bits:
            raise ApproxNormError(
                f"rsqrt.operand_bits is {operand_bits}; at most the {low_bits} bits below the "
                "table's address are allowed"
            )
        correction_bits = self._correction_bits(index_bits)
        update = {"frac_bits": frac_bits, "out_bits": out_bits, "operand_bits": operand_bits}
        return self.model_copy(update=update | {"correction_bits": correction_bits})

    def _correction_bits(self, index_bits: int) -> int | None:
        if self.correction_index_bits == 0:
            if self.correction_bits is not None:
                raise ApproxNormError(
                    f"rsqrt.correction_bits is {self.correction_bits} but "
                    "rsqrt.correction_index_bits is 0: leave one of them out"
                )
            return None
        least, most = 2 * index_bits + 3, 2 * index_bits + 9
        found = least + 3 if self.correction_bits is None else self.correction_bits
        if not least <= found <= most:
            raise ApproxNormError(
                f"rsqrt.correction_bits is {found}; with {self.segments} segments {least} to "
                f"{most} are allowed"
            )
        return found

    def build(self, target: Target = RSQRT) -> StageFunction:
        self.check_target(target)
        return self._stage(_tables(self, target))

    def _stage(self, tables: tuple[Table, ...]) -> StageFunction:
        segments = self._segments()

        def stage(octave: Any, frac: Any) -> Any:
            address = 0 if self.shared_octave else octave
            coefficient = ops.lookup(tables[0], segments.index(address, frac, RSQRT))
            operand = self.operand(frac)
            if len(tables) > 1:
                entry = ops.lookup(tables[1], self.correction_index(frac))
                operand = operand + ops.shift_left(entry, self._grid - tables[1].frac_bits)
            return self._output(octave, coefficient * operand)

        return stage

    def operand(self, frac: Any) -> Any:
        """2*xh + h/2 + not(xl), in units of 2**-grid; bits of xl that are cut read as ones."""
        assert self.operand_bits is not None
        segments = self._segments()
        low_bits = segments.low_bits
        kept = ops.shift_floor(segments.low(frac), low_bits - self.operand_bits)
        inverted = ops.sub((1 << self.operand_bits) - 1, kept)
        inverted = ops.shift_left(inverted, low_bits - self.operand_bits)
        high = ops.add(ops.shift_floor(frac, low_bits), self.segments)
        total = ops.shift_left(high, low_bits + 1) + inverted + (1 << low_bits >> 1)
        return ops.shift_left(total, self._grid - self.f)

    def correction_index(self, frac: Any) -> Any:
        """The top bits of |d|: the bits below xl's top one, inverted if that is 0."""
        low_bits, size = self._segments().low_bits, self.correction_index_bits
        upper = ops.bits(frac, low_bits - 1, low_bits - 1)
        distance = ops.bits(frac, low_bits - 2, low_bits - 1 - size)
        return ops.select(upper, distance, ops.sub((1 << size) - 1, distance))

    def _output(self, octave: Any, product: Any) -> Any:
        shift = self.bits + self._grid - self.o
        if not self.shared_octave:
            return ops.round_shift(product, shift, self.rounding)
        short = ops.round_shift(product, shift - GUARD, self.rounding)
        upper = ops.mul(short, SQRT_HALF)
        chosen = ops.select(octave, upper, ops.shift_left(short, SQRT_HALF_BITS))
        return ops.round_shift(chosen, SQRT_HALF_BITS + GUARD, self.rounding)

    @property
    def _grid(self) -> int:
        """Fraction bits of the operand."""
        return max(self.f, self.correction_bits or 0)

    def _segments(self) -> Segments:
        return Segments(power_of_two_bits(self.segments, "rsqrt.segments"), self.f)


@lru_cache(maxsize=256)
def _tables(method: Powering, target: Target) -> tuple[Table, ...]:
    problem, values = _problem(method, target), _correction_values(method)
    coefficients, corrections = best_product(problem, _guesses(method, values), values)
    segments = method._segments()
    rule = segments.index_rule(Target("reciprocal") if method.shared_octave else target)
    origin = f"joint minimax, {method.segments} segments an octave"
    tables = [Table("rsqrt_coefficient", coefficients, method.bits, rule, origin=origin)]
    if method.correction_bits is not None:
        bits = method.correction_bits
        tables.append(Table("rsqrt_correction", corrections, bits, "|d|", origin=origin))
    found = tuple(tables)
    return with_bound(found, method._stage(found), target, method.f, method.o)


def _problem(method: Powering, target: Target) -> ProductProblem:
    unit = 2.0**-REFERENCE_BITS
    reference = target.reference(method.f) * unit
    low, high = reference[:, 1:], reference[:, :-1]
    if method.shared_octave:  # one coefficient must serve both octaves
        factor = SQRT_HALF / (1 << SQRT_HALF_BITS)
        low = np.minimum(low[0], low[1] / factor)[None, :]
        high = np.maximum(high[0], high[1] / factor)[None, :]
    frac = np.arange(1 << method.f, dtype=np.int64)
    operand = np.tile(method.operand(frac) * 2.0**-method._grid, len(low))
    if method.correction_bits is None:
        step, correction = 1.0, np.zeros(len(frac), np.int64)
    else:
        step, correction = 2.0**-method.correction_bits, method.correction_index(frac)
    count = method.segments * len(low)
    cells = len(frac) // method.segments
    return ProductProblem(
        low.reshape(count, cells),
        high.reshape(count, cells),
        operand.reshape(count, cells),
        step,
        correction[:cells],
        method.bits,
    )


def _correction_values(method: Powering) -> int:
    """The range of Q's entries: a power of two that the square term, 0.625 * (h/2)**2, fits."""
    if method.correction_bits is None:
        return 1
    half_bits = power_of_two_bits(method.segments, "rsqrt.segments") + 1
    largest = (5 << method.correction_bits) >> (2 * half_bits + 3)
    return 1 << largest.bit_length()


def _guesses(method: Powering, values: int) -> Iterator[np.ndarray]:
    """Parabolas a*d**2 + b: b moves the roundings of C, so many are tried."""
    count = 1 << method.correction_index_bits
    distance = (np.arange(count) + 0.5) / (2 * count * method.segments)
    scale = float(1 << (method.correction_bits or 0))
    for a in range(40, 81):
        for b in range(80):
            shape = distance * distance * (a / 100 * scale) + b * (values * 0.7 / 79)
            yield np.clip(np.floor(shape + 0.5), 0, values - 1).astype(np.int64)
