"""The error of a function stage over its whole domain, found exhaustively."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from approxnorm.tables.table import Table
from approxnorm.tables.target import REFERENCE_BITS, Target

BOUND_FRAC_BITS = 18  # beyond it, tables carry no bound: measuring would take seconds

StageFunction = Callable[[Any, Any], Any]  # (octave, frac) -> code with out_bits fraction bits


@dataclass(frozen=True)
class StageError:
    """Errors of a stage against its function over every real argument.

    Relative for rsqrt, reciprocal and exp2, absolute for log2. Each truncated argument stands for
    a cell of reals; as the functions are monotonic, both ends of each cell bound it, so
    ``max_error`` includes the truncation of the argument and holds for all reals.
    """

    max_error: float
    mean_error: float  # signed, over the cells' two ends
    worst_argument: float  # where max_error is reached (a limit, if it is a right end)

    def text(self, target: Target) -> str:
        """The bound in words, as a table states it."""
        domain = {"rsqrt": "[1, 4)", "exp2": "[0, 1)"}.get(target.name, "[1, 2)")
        return f"max {'rel' if target.relative else 'abs'} {self.max_error:.4e} over {domain}"


def cell_errors(
    codes: np.ndarray, out_bits: int, reference: np.ndarray, relative: bool
) -> np.ndarray:
    """Signed errors of codes against reference values with REFERENCE_BITS; shapes broadcast.

    The difference is an exact int64; one IEEE division makes it relative, so that the result is
    the same on any machine.
    """
    difference = (codes.astype(np.int64) << (REFERENCE_BITS - out_bits)) - reference
    return difference / (reference.astype(np.float64) if relative else float(1 << REFERENCE_BITS))


def measure(function: StageFunction, target: Target, frac_bits: int, out_bits: int) -> StageError:
    """Run ``function`` on every (octave, frac) and compare with the exact values."""
    reference = target.reference(frac_bits)
    octave = np.arange(target.octaves, dtype=np.int64)[:, None]
    frac = np.arange(1 << frac_bits, dtype=np.int64)[None, :]
    codes = np.broadcast_to(function(octave, frac), (target.octaves, 1 << frac_bits))
    ends = np.stack(
        [
            cell_errors(codes, out_bits, reference[:, :-1], target.relative),
            cell_errors(codes, out_bits, reference[:, 1:], target.relative),
        ]
    )
    end, row, column = np.unravel_index(np.argmax(np.abs(ends)), ends.shape)
    position = (int(column) + int(end)) / (1 << frac_bits)
    argument = position if target.name == "exp2" else (1 + position) * (1 << int(row))
    return StageError(float(np.abs(ends).max()), float(ends.mean()), float(argument))


def with_bound(
    tables: Sequence[Table], function: StageFunction, target: Target, frac_bits: int, out_bits: int
) -> tuple[Table, ...]:
    """The tables that ``function`` reads, each with the measured error of that stage."""
    if frac_bits > BOUND_FRAC_BITS:
        return tuple(tables)
    bound = measure(function, target, frac_bits, out_bits).text(target)
    return tuple(replace(table, bound=bound) for table in tables)


def curve(
    function: StageFunction, target: Target, frac_bits: int, out_bits: int, bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """The stage's error for a plot: arguments and errors, each (points,), in ascending order.

    With more arguments than bins, each bin gives its least and its largest error, so that no
    peak is lost.
    """
    size = 1 << frac_bits
    octave = np.arange(target.octaves, dtype=np.int64)[:, None]
    frac = np.arange(size, dtype=np.int64)[None, :]
    codes = np.broadcast_to(function(octave, frac), (target.octaves, size))
    errors = cell_errors(codes, out_bits, target.reference(frac_bits)[:, :-1], target.relative)
    position = (frac / size) if target.name == "exp2" else (1 + frac / size) * (1 << octave)
    x, y = np.broadcast_to(position, errors.shape).ravel(), errors.ravel()
    per_bin = max(1, len(y) // bins)
    if per_bin < 3:
        return x, y
    binned = y[: len(y) // per_bin * per_bin].reshape(-1, per_bin)
    starts = x[: binned.size : per_bin]
    extremes = np.stack([binned.min(axis=1), binned.max(axis=1)], axis=1)
    return np.repeat(starts, 2), extremes.ravel()
