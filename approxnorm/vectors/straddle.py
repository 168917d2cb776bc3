"""Rows made so that a tiny change of the mantissa shows: one product just beside a rounding edge.

Where y is much coarser than the mantissa, random rows hardly ever show its last bit. So for an
operand, and its mantissa with and without the change, an element is looked for whose y differs;
it is fixed, and the rest of the row scaled to the operand.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from approxnorm.methods.normalizers import shift_and_limit
from approxnorm.vectors.changes import Change
from approxnorm.vectors.operands import Operands
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.shapes import dense

TRIALS = 1 << 14  # elements tried for each operand; all that there are, if fewer
POINTS = 4  # operands tried for each change

Choice: TypeAlias = tuple[Change, np.ndarray]  # a change, and grid points at which it shows


def possible(probe: Probe, operands: Operands) -> bool:
    """Whether y is x * gamma * mantissa, rounded once."""
    return "weighted" in probe.datapath.ports and "mantissa" in operands.trace


def straddling_rows(
    probe: Probe, words: Words, operands: Operands, choices: list[Choice], copies: int
) -> np.ndarray:
    """Values (n, dim): for each choice that allows it, ``copies`` rows."""
    tried = (_element(probe, words, operands, *choice) for choice in choices)
    found = [element for element in tried if element is not None]
    if not found:
        return np.zeros((0, probe.space.dim), np.int64)
    columns = (np.array(column) for column in zip(*found, strict=True))
    point, channel, value = (np.repeat(column, copies) for column in columns)
    shapes = dense(probe.space, words, len(point))
    return operands.rows(shapes.with_fixed(channel, value << operands.row_shift), point)


def _element(
    probe: Probe, words: Words, operands: Operands, change: Change, points: np.ndarray
) -> tuple[int, int, int] | None:
    """(grid point, channel, value) such that y differs under the change, if a trial finds one."""
    picked = points[words.below(len(points), 4 * POINTS)]
    shifts = operands.trace["shift"][picked]
    # One point of each shift: the same mantissa meets other edges there.
    _, first = np.unique(shifts, return_index=True)
    found = []
    for point in picked[np.sort(first)][:POINTS]:
        channel, value = _candidates(probe, words, operands.magnitude(point))
        shown = _shown(probe, operands, change, point, value * probe.weights()[channel])
        found += [(int(point), int(channel[i]), int(value[i])) for i in np.flatnonzero(shown)]
    return found[int(words.below(len(found), 1)[0])] if found else None


def _candidates(probe: Probe, words: Words, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Channels and values to try: all magnitudes up to ``most`` with each weight, or a sample."""
    weights, channels = np.unique(probe.weights(), return_index=True)
    if most * len(weights) <= TRIALS:
        magnitude = np.repeat(np.arange(1, most + 1), len(weights))
        channel = np.tile(channels, most)
    else:
        magnitude = words.below(most, TRIALS) + 1
        channel = channels[words.below(len(channels), TRIALS)]
    return channel, probe.space.signed(magnitude, words.bits(1, len(magnitude)) == 1)


def _shown(
    probe: Probe, operands: Operands, change: Change, point: int, weighted: np.ndarray
) -> np.ndarray:
    """Where y differs under the change, for products of x and gamma."""
    y, outputs = probe.model.assembly.context.y, []
    for trace in (operands.trace, operands.changed(change)):
        product = weighted * np.int64(trace["mantissa"][point])
        outputs.append(shift_and_limit(product, np.int64(trace["shift"][point]), y))
    differs: np.ndarray = outputs[0] != outputs[1]
    return differs
