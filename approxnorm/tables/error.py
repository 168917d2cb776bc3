"""The error of a function stage over its whole domain, found exhaustively."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Any

import numpy as np

from approxnorm.tables.table import Table
from approxnorm.tables.target import REFERENCE_BITS, Target

EXACT_FRAC_BITS = 18  # beyond it, no array of all exact values is made
BLOCK = 1 << 16  # arguments at a time

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
        """The bound in words, as a table states it: rounded up, so that it is still one."""
        domain = {"rsqrt": "[1, 4)", "exp2": "[0, 1)"}.get(target.name, "[1, 2)")
        kind = "rel" if target.relative else "abs"
        return f"max {kind} {_rounded_up(self.max_error):.4e} over {domain}"


def _rounded_up(value: float) -> float:
    """The next number of 5 digits."""
    with localcontext(prec=5, rounding=ROUND_CEILING):
        return float(+Decimal(value))


def cell_errors(
    codes: np.ndarray, out_bits: int, reference: np.ndarray, relative: bool
) -> np.ndarray:
    """Signed errors of codes against reference values with REFERENCE_BITS; shapes broadcast.

    The difference is an exact int64; one IEEE division makes it relative, so that the result is
    the same on any machine.
    """
    difference = (codes.astype(np.int64) << (REFERENCE_BITS - out_bits)) - reference
    return difference / (reference.astype(np.float64) if relative else float(1 << REFERENCE_BITS))


@dataclass(frozen=True)
class _Block:
    """The stage's signed errors at both ends of the cells from ``first`` on, each (n,)."""

    octave: int
    first: int
    left: np.ndarray
    right: np.ndarray


def _blocks(
    function: StageFunction, target: Target, frac_bits: int, out_bits: int
) -> Iterator[_Block]:
    """The whole domain in ascending order, a block at a time: memory does not grow with F."""
    size = 1 << frac_bits
    for octave in range(target.octaves):
        for first in range(0, size, BLOCK):
            part = range(first, min(first + BLOCK, size))
            frac = np.arange(part.start, part.stop, dtype=np.int64)
            codes = np.broadcast_to(function(np.full(1, octave, np.int64), frac), frac.shape)
            if frac_bits > EXACT_FRAC_BITS:
                exact = target.near_reference(octave, frac_bits, part)
            else:
                exact = target.reference(frac_bits)[octave, part.start : part.stop + 1]
            ends = (
                cell_errors(codes, out_bits, e, target.relative) for e in (exact[:-1], exact[1:])
            )
            yield _Block(octave, first, *ends)


def measure(function: StageFunction, target: Target, frac_bits: int, out_bits: int) -> StageError:
    """Run ``function`` on every (octave, frac) and compare with the exact values.

    Beyond EXACT_FRAC_BITS fraction bits they are exact to 2**-50, far below a digit of the text.
    """
    worst, place, total = -1.0, (0, 0), 0.0
    for block in _blocks(function, target, frac_bits, out_bits):
        for end, errors in enumerate((block.left, block.right)):
            total += float(errors.sum())
            column = int(np.argmax(np.abs(errors)))
            if (found := abs(float(errors[column]))) > worst:
                worst, place = found, (block.octave, block.first + column + end)
    octave, fraction = place[0], place[1] / (1 << frac_bits)
    argument = fraction if target.name == "exp2" else (1 + fraction) * (1 << octave)
    return StageError(worst, total / (2 * target.octaves << frac_bits), argument)


def with_bound(
    tables: Sequence[Table], function: StageFunction, target: Target, frac_bits: int, out_bits: int
) -> tuple[Table, ...]:
    """The tables that ``function`` reads, each with the measured error of that stage."""
    bound = measure(function, target, frac_bits, out_bits).text(target)
    return tuple(replace(table, bound=bound) for table in tables)


def curve(
    function: StageFunction, target: Target, frac_bits: int, out_bits: int, bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """The stage's error for a plot: arguments and errors, each (points,), in ascending order.

    With more arguments than bins, each bin gives its least and its largest error, so that no
    peak is lost.
    """
    y = np.concatenate([b.left for b in _blocks(function, target, frac_bits, out_bits)])
    fraction = np.arange(1 << frac_bits) / (1 << frac_bits)
    octaves = [(1 + fraction) * (1 << octave) for octave in range(target.octaves)]
    x = fraction if target.name == "exp2" else np.concatenate(octaves)
    per_bin = max(1, len(y) // bins)
    if per_bin < 3:
        return x, y
    binned = y[: len(y) // per_bin * per_bin].reshape(-1, per_bin)
    starts = x[: binned.size : per_bin]
    extremes = np.stack([binned.min(axis=1), binned.max(axis=1)], axis=1)
    return np.repeat(starts, 2), extremes.ravel()
