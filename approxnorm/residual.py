"""The residual add in front of a norm: x = limit(a + b), in the format of x."""

from __future__ import annotations

from typing import Any

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format, Overflow, lowest
from approxnorm.model import RMSNorm
from approxnorm.program import Interval, ops
from approxnorm.program.signal import Program

MAX_SEED = (1 << 64) - 1


def residual_sum(a: Any, b: Any, form: Format) -> Any:
    """Codes of one format added: a + b - zero_point, in the format's overflow mode; no rounding."""
    total = a + b - form.zero_point if form.zero_point else a + b
    return ops.saturate(total, (form.lo, form.hi), form.overflow)


def residual_program(form: Format) -> Program:
    """The addition as an element program: inputs a and b, output residual_sum."""
    codes = Interval(form.lo, form.hi)

    def add(a: Any, b: Any) -> Any:
        return ops.named("residual_sum", residual_sum(a, b, form))

    return ops.trace("add_residual", add, [("a", codes), ("b", codes)])


def add_residual(model: RMSNorm, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of two arrays of input codes (..., dim), as the fused kernel forms it.

    Raises ApproxNormError for other shapes, and for codes outside x's format.
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        raise ApproxNormError(f"a has shape {a.shape} and b {b.shape}; allowed: the same shape")
    first, second = model.check_rows(a, "a"), model.check_rows(b, "b")
    total = residual_sum(first.astype(np.int64), second.astype(np.int64), model.assembly.x_format)
    return np.asarray(total).reshape(a.shape).astype(first.dtype)


def split(model: RMSNorm, codes: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of input codes whose sum in the kernel is ``codes`` (rows, dim).

    Pseudo-random, the same for the same seed. Where a code is the format's limit, some sums lie
    beyond it, so that the limiting is seen.

    Raises ApproxNormError for codes outside x's format, and for its lowest code under SAT_SYM.
    """
    form = model.assembly.x_format
    rows = model.check_rows(np.asarray(codes), "codes").astype(np.int64)
    words = np.random.PCG64(seed & MAX_SEED).random_raw(rows.size).reshape(rows.shape)
    if (rows < lowest(form.lo, form.hi, form.overflow)).any():
        raise ApproxNormError(
            f"x has overflow SAT_SYM, so no sum is its code {form.lo}, which the rows hold; allowed"
            " for vectors of a residual add: SAT, SAT_ZERO or WRAP"
        )
    zero, span = form.zero_point, form.hi - form.lo + 1
    # b such that a = codes - b + zero is a code again.
    least = np.maximum(form.lo, rows - form.hi + zero)
    most = np.minimum(form.hi, rows - form.lo + zero)
    b = least + (words >> np.uint64(8)).astype(np.int64) % (most - least + 1)
    a = rows - b + zero
    beyond = (words & np.uint64(3)) == 0
    push = 1 + (words >> np.uint64(40)).astype(np.int64) % max(span // 4, 1)
    if _saturates(form):
        a = np.where(beyond & (rows == form.hi), np.minimum(a + push, form.hi), a)
        a = np.where(beyond & (rows == form.lo), np.maximum(a - push, form.lo), a)
    return a.astype(codes.dtype), b.astype(codes.dtype)


def _saturates(form: Format) -> bool:
    """Whether sums past the limits give the limits, both of them."""
    return form.overflow is Overflow.SAT
