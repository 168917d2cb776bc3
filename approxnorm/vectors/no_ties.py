"""Proof that no product lies on a tie: then all modes that round to nearest give the same y."""

from __future__ import annotations

import numpy as np

from approxnorm.program.signal import Program
from approxnorm.vectors.columns import Columns
from approxnorm.vectors.factors import Classes
from approxnorm.vectors.row_changes import RowTable

ZERO = 64  # where the factors of 2 of 0 are put: past those of any other


def multiplies_at_once(program: Program) -> bool:
    """Whether y is x * weight * mantissa, rounded once by ``shift``."""
    rounded = [n for n in program.nodes if n.op == "round_shift"]
    if len(rounded) != 1 or {"weighted", "mantissa"} - {n.name for n in program.nodes}:
        return False
    product, shift = (program.nodes[a] for a in rounded[0].args)
    names = [program.nodes[a].name for a in product.args]
    return product.op == "mul" and names == ["weighted", "mantissa"] and shift.name == "shift"


def none_is_a_tie(
    table: RowTable, classes: Classes, columns: Columns, weights: np.ndarray, shifts: range
) -> bool:
    """Whether no x * weight * mantissa is an odd multiple of half of y's unit.

    Only factors of 2 count. Of the columns with as many, the one of the least operand stands for
    all: it fits into every row that any of them fits into. weights: of each channel.
    """
    if not columns.complete:
        return False
    own = _factors_of_2(columns.values * weights[columns.channels])
    least = np.full(ZERO + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, own, columns.least)
    outputs = table.outputs(classes)
    wanted = outputs["shift"] - 1 - _factors_of_2(outputs["mantissa"])
    possible = (wanted >= 0) & (wanted < ZERO)
    wanted = np.where(possible, wanted, ZERO)
    for shift in shifts:
        low, high = table.operands(classes, shift)
        if (possible & (low <= high) & (least[wanted] <= high)).any():
            return False
    return True


def _factors_of_2(numbers: np.ndarray) -> np.ndarray:
    """How often 2 divides each number, ZERO for 0."""
    lowest = (numbers & -numbers).astype(np.float64)  # a power of two, which floats hold
    return np.where(numbers == 0, ZERO, np.frexp(lowest)[1] - 1).astype(np.int64)
