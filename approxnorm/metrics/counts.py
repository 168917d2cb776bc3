"""How many codes a format lost: zeros, zero rows and codes beyond its range."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from approxnorm.formats import Format, Overflow, lowest
from approxnorm.metrics.chain import final_rounding
from approxnorm.model import RMSNorm, Trace


class CodeCounts:
    """Counts over blocks of codes (rows, dim) of one format."""

    def __init__(self, text: str, zero: int = 0) -> None:
        self._zero = zero
        self._counts: dict[str, Any] = {"format": text, "codes": 0, "zero_codes": 0}
        self._counts |= {"zero_rows": 0, "saturated": 0}

    def add(self, codes: np.ndarray, saturated: int) -> None:
        """Count a block, of which ``saturated`` codes lay beyond the format."""
        zero = codes == self._zero
        self._counts["codes"] += codes.size
        self._counts["zero_codes"] += int(np.count_nonzero(zero))
        self._counts["zero_rows"] += int(np.count_nonzero(zero.all(axis=1)))
        self._counts["saturated"] += saturated

    def result(self) -> dict[str, Any]:
        return dict(self._counts)


class AccumulatorCounts:
    """Rows whose sum did not fit an accumulator that the spec made narrower than derived."""

    def __init__(self, bits: int) -> None:
        self._bits, self._rows, self._largest = bits, 0, 0

    def add(self, sums: np.ndarray) -> None:
        """Count a block's exact sums (rows,)."""
        self._rows += int(np.count_nonzero(sums >> self._bits))
        self._largest = max(self._largest, int(sums.max(initial=0)))

    def result(self) -> dict[str, int]:
        """bits: the accumulator's; bits_needed: by these rows; overflowed_rows: how many."""
        needed = max(1, self._largest.bit_length())
        return {"bits": self._bits, "bits_needed": needed, "overflowed_rows": self._rows}


def at_limits(codes: np.ndarray, lo: int, hi: int) -> int:
    """How many codes are the least or the largest; of codes alone no more can be known."""
    return int(np.count_nonzero((codes == lo) | (codes == hi)))


def beyond_input(model: RMSNorm, x_real: np.ndarray, codes: np.ndarray) -> int:
    """How many real inputs x's format could not hold."""
    form = model.assembly.x_format
    wide = replace(form, width=form.width + 2, signed=True, overflow=Overflow.SAT)
    return int(np.count_nonzero(wide.quantize(model.spec.divide_channels(x_real)) != codes))


def beyond_row(model: RMSNorm, trace: Trace) -> int:
    """How many elements rounding carried past the row exponent's width: only upward, and by 1."""
    assert model.spec.row_exponent is not None
    hi = (1 << (model.spec.row_exponent.bits - 1)) - 1
    last = np.flatnonzero(trace["x_row"] == hi)
    source = "x_centered" if "x_centered" in trace else "x"
    before = trace[source].ravel()[last].astype(np.int64)
    shift = np.repeat(trace["row_shift"].astype(np.int64), model.dim)[last]
    # RND carries from hi + 1/2 on: 2 * before >= (2 * hi + 1) * 2**shift.
    return int(np.count_nonzero(2 * before >= (2 * hi + 1) << shift))


def beyond_output(model: RMSNorm, trace: Trace, unrounded: np.ndarray) -> int:
    """How many rounded results y's format could not hold.

    unrounded: the values before the last rounding, in LSBs; used for the exact yardstick alone,
    whose rounding has no signals, with the range widened by half an LSB.
    """
    form = model.assembly.context.y
    lo, hi = lowest_code(form) - form.zero_point, form.hi - form.zero_point
    if model.assembly.datapath is None:
        return int(np.count_nonzero((unrounded > hi + 0.5) | (unrounded < lo - 0.5)))
    codes = trace["y"].astype(np.int64) - form.zero_point
    saturates = form.overflow in (Overflow.SAT, Overflow.SAT_SYM)
    if saturates and not at_limits(codes, lo, hi):
        return 0
    rounded = final_rounding(model.assembly.datapath).rounded(trace)
    return int(np.count_nonzero((rounded < lo) | (rounded > hi)))


def lowest_code(form: Format) -> int:
    """The least code that the format's overflow mode yields."""
    return lowest(form.lo, form.hi, form.overflow)
