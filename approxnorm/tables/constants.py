"""One constant a cell: the entries of tables that are read without interpolation."""

from __future__ import annotations

from typing import Literal

from approxnorm.tables.target import REFERENCE_BITS, Target

EntryRule = Literal["minimax", "midpoint", "left"]


def cell_constants(target: Target, index_bits: int, bits: int, rule: EntryRule) -> tuple[int, ...]:
    """One entry for each of the 2**index_bits cells of each octave, octaves in order.

    bits: fraction bits of an entry. "minimax": the integer whose largest error over the cell is
    least, ties to the smaller; "midpoint" and "left": the function there, rounded half up.
    """
    cells = [(o, i) for o in range(target.octaves) for i in range(1 << index_bits)]
    if rule == "minimax":
        return tuple(_minimax_cell(target, o, i, index_bits, bits) for o, i in cells)
    if rule == "midpoint":
        return tuple(rounded(target, o, 2 * i + 1, index_bits + 1, bits) for o, i in cells)
    return tuple(rounded(target, o, i, index_bits, bits) for o, i in cells)


def rounded(target: Target, octave: int, frac: int, frac_bits: int, bits: int) -> int:
    """2**bits * f, rounded half up, exact."""
    return (target.floor(octave, frac, frac_bits, bits + 1) + 1) >> 1


def minimax_between(first: int, last: int, bits: int, relative: bool) -> int:
    """The entry with ``bits`` fraction bits nearest to both values, given with REFERENCE_BITS."""
    unit = REFERENCE_BITS - bits
    center = 2 * first * last // (first + last) if relative else (first + last) // 2
    weights = (last, first) if relative else (1, 1)

    def worst(entry: int) -> int:
        value = entry << unit
        return max(abs(value - first) * weights[0], abs(value - last) * weights[1])

    below = center >> unit
    return min((below, below + 1), key=worst)


def _minimax_cell(target: Target, octave: int, cell: int, index_bits: int, bits: int) -> int:
    first = target.floor(octave, cell, index_bits, REFERENCE_BITS)
    last = target.floor(octave, cell + 1, index_bits, REFERENCE_BITS)
    return minimax_between(first, last, bits, target.relative)
