"""Mitchell's lines for log2 and exp2, each with a table of what the line lacks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from approxnorm.methods.rsqrt.log2 import Log2
from approxnorm.methods.segments import Segments
from approxnorm.program import ops
from approxnorm.tables.error import StageFunction, with_bound
from approxnorm.tables.table import Table
from approxnorm.tables.target import REFERENCE_BITS, Target

_EXP2 = Target("exp2")


def log2_corrected(index_bits: int, bits: int) -> StageFunction:
    """(0, f) -> f + T[i] ~ log2(1 + f); f, T and the result have ``bits`` fraction bits."""
    method = Log2(index_bits=index_bits, form="correction", frac_bits=bits).resolved()
    return method.build_log2(bits, table="log2_table")


def exp2_corrected(index_bits: int, frac_bits: int, bits: int) -> StageFunction:
    """(0, t) -> 1 + t - T[i] ~ 2**t; T and the result have ``bits`` >= frac_bits fraction bits."""
    return _below_line(_exp2_table(index_bits, frac_bits, bits), index_bits, frac_bits, bits)


def _below_line(table: Table, index_bits: int, frac_bits: int, bits: int) -> StageFunction:
    segments = Segments(index_bits, frac_bits)

    def stage(_: Any, frac: Any) -> Any:
        line = ops.shift_left(frac, bits - frac_bits) + (1 << bits)
        return line - ops.lookup(table, segments.index(0, frac, _EXP2))

    return stage


@lru_cache(maxsize=64)
def _exp2_table(index_bits: int, frac_bits: int, bits: int) -> Table:
    segments = Segments(index_bits, frac_bits)
    table = Table(
        "exp2_table",
        _entries(index_bits, frac_bits, bits),
        bits,
        segments.index_rule(_EXP2),
        origin=f"minimax corrections, exp2, {1 << index_bits} entries",
    )
    stage = _below_line(table, index_bits, frac_bits, bits)
    return with_bound([table], stage, _EXP2, frac_bits, bits)[0]


def _entries(index_bits: int, frac_bits: int, bits: int) -> tuple[int, ...]:
    """Midway between the extremes of 1 + t - 2**t over the cell's arguments, which are exact."""
    one, unit = 1 << REFERENCE_BITS, REFERENCE_BITS - bits
    arguments = np.arange(1 << frac_bits, dtype=np.int64)
    line = one + (arguments << (REFERENCE_BITS - frac_bits))
    lacking = (line - _EXP2.reference(frac_bits)[0, :-1]).reshape(1 << index_bits, -1)
    twice = lacking.min(axis=1) + lacking.max(axis=1)
    return tuple(((twice + (1 << unit)) >> (unit + 1)).tolist())
