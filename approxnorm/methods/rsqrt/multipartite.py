"""A coarse table and small offset tables, added up: no multiplier."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.program import ops
from approxnorm.tables.additive import Part, SumProblem, fit_sum
from approxnorm.tables.error import StageFunction, with_bound
from approxnorm.tables.table import Table
from approxnorm.tables.target import REFERENCE_BITS, RSQRT, FunctionName, Target

# Spec files have lists where Python has tuples.
Offset = Annotated[tuple[int, int], Field(strict=False)]


class Piece(NamedTuple):
    """Where an offset table's address lies in the fraction."""

    lead_bits: int  # top bits of the fraction
    bits: int  # of the piece itself: its top one is the sign
    shift: int  # bits below the piece


@RSQRT_METHODS.register
class Multipartite(FunctionMethod):
    """f(m) ~ A[i] + sum_j s_j * B_j[(lead_j, |d_j|)], symmetric tables.

    index_bits: top bits of the fraction that address A, the table of initial values.
    offsets: (g, b) for each offset table, from the top: the next b bits of the fraction, d_j from
        the middle of their range, with its sign in s_j, and the fraction's top g bits, in which
        the slope is taken as constant. The table has 2**(g + b - 1) entries an octave.
    bits, offset_bits: fraction bits of the entries of A and of the B_j.
    base_bits: if given, A is stored as base[top base_bits] - difference[i], one subtraction more
        and fewer bits.
    The entries of all tables are chosen jointly, as integers, before the output's rounding.
    """

    method: Literal["multipartite"] = "multipartite"
    index_bits: int = Field(default=5, ge=1, le=12)
    offsets: tuple[Offset, ...] = Field(default=((3, 2), (2, 3)), strict=False)
    bits: int = Field(default=13, ge=2, le=24)
    offset_bits: int | None = Field(default=None, ge=2, le=24)
    base_bits: int | None = Field(default=None, ge=0, le=11)

    summary: ClassVar[str] = "a coarse table plus small offset tables; adders only"
    source: ClassVar[str] = "de Dinechin & Tisserand, IEEE Trans. Comput. 54(3), 2005"
    functions: ClassVar[tuple[FunctionName, ...]] = ("rsqrt", "reciprocal", "log2", "exp2")

    def resolved(self) -> Self:
        """offset_bits: bits; frac_bits: all bits that reach a table; out_bits: the sum's."""
        self._check_offsets()
        used = self.index_bits + sum(b for _, b in self.offsets)
        frac_bits = used if self.frac_bits is None else self.frac_bits
        if frac_bits < used:
            raise ApproxNormError(
                f"rsqrt.frac_bits is {frac_bits}; the tables' addresses need at least {used}"
            )
        offset_bits = self.bits if self.offset_bits is None else self.offset_bits
        if offset_bits < self.bits:
            raise ApproxNormError(
                f"rsqrt.offset_bits is {offset_bits}; at least rsqrt.bits, {self.bits}, is allowed"
            )
        out_bits = offset_bits if self.out_bits is None else self.out_bits
        return self.model_copy(
            update={"frac_bits": frac_bits, "offset_bits": offset_bits, "out_bits": out_bits}
        )

    def _check_offsets(self) -> None:
        for g, b in self.offsets:
            if not (0 <= g <= self.index_bits and 1 <= b <= 12):
                raise ApproxNormError(
                    f"rsqrt.offsets has ({g}, {b}); the first number may be 0 to index_bits, "
                    f"{self.index_bits}, and the second 1 to 12"
                )
        if (
            not 1 <= len(self.offsets) <= 4
            or self.index_bits + sum(b for _, b in self.offsets) > 18
        ):
            raise ApproxNormError(
                f"rsqrt.offsets is {self.offsets}; allowed: 1 to 4 pairs whose second numbers and "
                "index_bits add up to at most 18"
            )
        if self.base_bits is not None and self.base_bits >= self.index_bits:
            raise ApproxNormError(
                f"rsqrt.base_bits is {self.base_bits}; it must be below index_bits, "
                f"{self.index_bits}"
            )

    def build(self, target: Target = RSQRT) -> StageFunction:
        return self._stage(_tables(self, target), target)

    def _stage(self, tables: tuple[Table, ...], target: Target) -> StageFunction:
        """``tables``: those of the initial value (one or two), then the offsets'."""
        count = len(tables) - len(self.offsets)
        initial, offsets = tables[:count], tables[count:]

        def stage(octave: Any, frac: Any) -> Any:
            total = ops.shift_left(self._initial(initial, octave, frac), self.sum_bits - self.bits)
            for piece, table in zip(self.pieces(), offsets, strict=True):
                index, sign = self.address(piece, octave, frac)
                entry = ops.lookup(table, index)
                # The tables hold magnitudes: the function's direction says which half adds.
                up = _rising(target)
                total = total + ops.select(sign, entry if up else -entry, -entry if up else entry)
            return ops.round_shift(total, self.sum_bits - self.o, self.rounding)

        return stage

    def _initial(self, tables: tuple[Table, ...], octave: Any, frac: Any) -> Any:
        index = self._top(octave, frac, self.index_bits)
        if self.base_bits is None:
            return ops.lookup(tables[0], index)
        base, difference = tables
        step = base.frac_bits - self.bits
        coarse = ops.lookup(base, self._top(octave, frac, self.base_bits))
        return ops.shift_left(coarse, -step) - ops.lookup(difference, index)

    def address(self, piece: Piece, octave: Any, frac: Any) -> tuple[Any, Any]:
        """An offset table's index, and 1 where the piece lies in its upper half."""
        low_bits = piece.bits - 1
        sign = ops.bits(frac, piece.shift + low_bits, piece.shift + low_bits)
        lead = self._top(octave, frac, piece.lead_bits)
        if low_bits == 0:
            return lead, sign
        low = ops.bits(frac, piece.shift + low_bits - 1, piece.shift)
        distance = ops.select(sign, low, ops.sub((1 << low_bits) - 1, low))
        return ops.shift_left(lead, low_bits) + distance, sign

    def pieces(self) -> list[Piece]:
        """The offset tables' address fields of a resolved method, from the top."""
        found, shift = [], self.f - self.index_bits
        for lead_bits, bits in self.offsets:
            shift -= bits
            found.append(Piece(lead_bits, bits, shift))
        return found

    def _top(self, octave: Any, frac: Any, size: int) -> Any:
        return ops.shift_left(octave, size) + ops.shift_floor(frac, self.f - size)

    @property
    def sum_bits(self) -> int:
        """Fraction bits of the sum before the output's rounding."""
        assert self.offset_bits is not None
        return self.offset_bits


def _rising(target: Target) -> bool:
    return target.name in ("log2", "exp2")


@lru_cache(maxsize=256)
def _tables(method: Multipartite, target: Target) -> tuple[Table, ...]:
    initial, *offsets = fit_sum(_problem(method, target))
    grid = method.sum_bits - method.bits
    tables = _initial_tables(method, target, tuple(e >> grid for e in initial))
    for k, (piece, entries) in enumerate(zip(method.pieces(), offsets, strict=True)):
        tables.append(_offset_table(method, target, k, piece, entries))
    found = tuple(tables)
    return with_bound(found, method._stage(found, target), target, method.f, method.o)


def _problem(method: Multipartite, target: Target) -> SumProblem:
    """The sum over every cell that the tables tell apart."""
    used = method.index_bits + sum(b for _, b in method.offsets)
    cells = method.model_copy(update={"frac_bits": used})
    octave = np.repeat(np.arange(target.octaves, dtype=np.int64), 1 << used)
    frac = np.tile(np.arange(1 << used, dtype=np.int64), target.octaves)
    first = cells._top(octave, frac, method.index_bits)
    grid = 1 << (method.sum_bits - method.bits)
    parts = [Part(first, np.ones(len(first)), grid)]
    for piece in cells.pieces():
        index, sign = cells.address(piece, octave, frac)
        parts.append(Part(index, np.where(sign == int(_rising(target)), 1.0, -1.0)))
    unit = 2.0 ** (method.sum_bits - REFERENCE_BITS)
    reference = target.reference(used) * unit
    ends = reference[:, :-1].ravel(), reference[:, 1:].ravel()
    low, high = np.minimum(*ends), np.maximum(*ends)
    return SumProblem(tuple(parts), low, high, target.relative, 2.0**method.sum_bits)


def _initial_tables(method: Multipartite, target: Target, entries: tuple[int, ...]) -> list[Table]:
    rule = _rule(target, method.f, method.index_bits)
    origin = f"joint minimax, {target.name}, split {method.index_bits} {method.offsets}"
    if method.base_bits is None:
        return [Table(f"{target.name}_initial", entries, method.bits, rule, origin=origin)]
    group = 1 << (method.index_bits - method.base_bits)
    pairs = [_base_and_difference(entries, group, step) for step in range(method.bits)]
    step, (base, difference) = min(
        enumerate(pairs), key=lambda p: sum(Table("", e, 0, "").bits for e in p[1])
    )
    base_rule = _rule(target, method.f, method.base_bits)
    return [
        Table(f"{target.name}_base", base, method.bits - step, base_rule, origin=origin),
        Table(f"{target.name}_difference", difference, method.bits, rule, origin=origin),
    ]


def _base_and_difference(
    entries: tuple[int, ...], group: int, step: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A group's base is its largest entry, rounded up to a multiple of 2**step."""
    base = tuple(-(-max(entries[i : i + group]) >> step) for i in range(0, len(entries), group))
    return base, tuple((base[i // group] << step) - e for i, e in enumerate(entries))


def _offset_table(
    method: Multipartite, target: Target, k: int, piece: Piece, entries: tuple[int, ...]
) -> Table:
    lead = _rule(target, method.f, piece.lead_bits)
    distance = f"|d{k}|" if piece.bits > 1 else ""
    parts = [p for p in (lead, distance) if p]
    origin = f"joint minimax, {target.name}, offsets {k + 1} of {len(method.offsets)}"
    name = f"{target.name}_offset{k}"
    return Table(name, entries, method.sum_bits, "{" + ", ".join(parts) + "}", origin=origin)


def _rule(target: Target, frac_bits: int, size: int) -> str:
    top = f"frac[{frac_bits - 1}:{frac_bits - size}]" if size else ""
    parts = [p for p in ("parity" if target.octaves == 2 else "", top) if p]
    return ", ".join(parts)
