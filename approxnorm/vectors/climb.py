"""Rows whose factor a change before the operand moves: found step by step, by how near they are.

Such a change moves the sum of few rows, and by little; the factor moves only if the sum passes
one of the edges at which the row program's outputs change.
"""

from __future__ import annotations

import numpy as np

from approxnorm.program.datapath import MapStage
from approxnorm.vectors.changes import ASTRAY, Change
from approxnorm.vectors.factors import TOTAL
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.shapes import few_levels

ROUNDS = 8  # for each change
STEPS = 10
KEPT = 32  # rows that each step starts from
FAR = np.int64(1) << 62


def moved_rows(
    probe: Probe, words: Words, change: Change, edges: np.ndarray, batch: int
) -> np.ndarray:
    """Values (n, dim) whose row factor the change moves; n is 0 if none was found.

    edges: the totals, ascending, from which on the factor is another than just below.
    """
    values = few_levels(probe.space, words, 2 * batch)
    for _ in range(STEPS):
        away = _distance(probe, change, edges, values)
        order = np.argsort(away, kind="stable")[:KEPT]
        nearest = values[order[away[order] < FAR]]
        if not len(nearest) or not away[order[0]]:
            return nearest[away[order[: len(nearest)]] == 0]
        values = np.concatenate([nearest, _varied(probe, words, nearest, batch)])
    return values[:0]


def _distance(probe: Probe, change: Change, edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How far each row's totals, plain and changed, are from an edge; 0 if the factor moves."""
    codes = probe.space.codes(values)
    try:
        plain, changed = probe.row_signals(codes), probe.row_signals(codes, change.datapath)
    except ASTRAY:  # the change leads astray
        return np.full(len(values), FAR)
    one, other = plain[TOTAL], _rescaled(probe, plain, changed)
    low, high = np.minimum(one, other), np.maximum(one, other)
    above = np.searchsorted(edges, low, "right")
    up = np.append(edges, FAR)[above] - high
    below = np.append(-FAR, edges)[above]
    context, operand = probe.model.assembly.context, probe.model.assembly.row.operand.name
    least = one - (plain[operand] << context.guard)  # eps alone: no row has a smaller total
    down = np.where(below > least, low - below + 1, FAR)
    away = np.where(one == other, FAR, np.clip(np.minimum(up, down), 1, FAR - 1))
    return np.where(_factor_moves(probe, plain, changed), 0, away)


def _rescaled(
    probe: Probe, plain: dict[str, np.ndarray], changed: dict[str, np.ndarray]
) -> np.ndarray:
    """The changed total in units of the plain one: a row exponent moves both."""
    shift = probe.model.assembly.row.row_shift
    if shift is None:
        return changed[TOTAL]
    less = 2 * (plain[shift.name] - changed[shift.name])
    total: np.ndarray = (changed[TOTAL] >> np.maximum(less, 0)) << np.maximum(-less, 0)
    return total


def _factor_moves(
    probe: Probe, plain: dict[str, np.ndarray], changed: dict[str, np.ndarray]
) -> np.ndarray:
    """Whether the row's factor is another, what a row exponent took from x put back."""
    last, shift = probe.datapath.stages[-1], probe.model.assembly.row.row_shift
    assert isinstance(last, MapStage)
    moves = np.zeros(len(plain[TOTAL]), bool)
    for name in last.program.inputs:
        if probe.datapath.ports[name].level == "row":
            back = shift is not None and name == "shift"
            one, other = (
                t[name] + (t[shift.name] if back and shift is not None else 0)
                for t in (plain, changed)
            )
            moves |= one != other
    return moves


def _varied(probe: Probe, words: Words, values: np.ndarray, n: int) -> np.ndarray:
    """n of the rows with two elements, often the largest, moved by up to any power of two."""
    space = probe.space
    varied = values[words.below(len(values), n)]
    rows = np.arange(n)
    for _ in range(2):
        magnitude = np.abs(varied)
        largest = magnitude.argmax(axis=1)
        place = np.where(words.bits(1, n) == 1, largest, words.below(space.dim, n))
        bits = words.below(space.magnitude_bits, n) & words.bits(5, n)
        step = words.bits(32, n) & ((np.int64(1) << np.minimum(bits, 31)) - 1)
        step = np.minimum(step, 2 * magnitude[rows, largest])
        size = magnitude[rows, place] + np.where(words.bits(1, n) == 1, step, -step)
        negative = varied[rows, place] < 0
        varied[rows, place] = space.signed(np.maximum(size, 0), negative)
    return varied
