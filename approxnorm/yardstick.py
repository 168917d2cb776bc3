"""The exact yardstick: the correctly rounded norm, in integers of any size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from approxnorm.backends.numpy_backend import storage_dtype
from approxnorm.formats import Overflow, Rounding, limit
from approxnorm.program import Interval
from approxnorm.program.ops import round_shift_exact
from approxnorm.rmsnorm import Assembly

_WIDE = 1 << 60  # past any format, and within int64


def exact_rows(
    assembly: Assembly, gamma: np.ndarray, trace: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Output codes (rows, dim) for the statistic's operands in ``trace``, correctly rounded.

    gamma: codes (dim,). trace: the signals of ``assembly.front``. The constant and eps are exact.
    """
    context, row = assembly.context, assembly.row
    offset = assembly.spec.normalize.weight_offset(context) - context.gamma.zero_point
    weight = [int(g) + offset for g in gamma]
    x, operands = trace[row.x.name], trace[row.operand.name]
    shifts = np.zeros(len(x), np.int64) if row.row_shift is None else trace[row.row_shift.name]
    y = np.empty(x.shape, np.int64)
    for i in range(len(x)):
        eps = context.eps / 4 ** int(shifts[i])
        y[i] = _exact_row(assembly, x[i], int(operands[i]) + eps, weight)
    return y.astype(storage_dtype(Interval(context.y.lo, context.y.hi)))


def _exact_row(assembly: Assembly, x: np.ndarray, total: Fraction, weight: list[int]) -> np.ndarray:
    context, y = assembly.context, assembly.context.y
    if total == 0:
        return np.full(len(x), y.zero_point, np.int64)
    gain = context.gain_squared(gamma_scale=context.gamma.scale, out_scale=y.scale)
    ratio = gain / total / assembly.spec.normalize.gamma_gain_squared(context)
    products = (int(v) * w for v, w in zip(x, weight, strict=True))
    codes = [_rounded_product(p, ratio, y.rounding) for p in products]
    lo, hi = y.lo - y.zero_point, y.hi - y.zero_point
    if y.overflow is Overflow.WRAP:
        codes = [c % (1 << y.width) for c in codes]
    codes = [max(-_WIDE, min(_WIDE, c)) for c in codes]
    return limit(np.array(codes, np.int64), lo, hi, y.overflow) + y.zero_point


def _rounded_product(product: int, ratio: Fraction, rounding: Rounding) -> int:
    """product * sqrt(ratio), correctly rounded: two exact bits and a sticky one decide."""
    square = product * product * ratio.numerator * 4
    root = math.isqrt(square // ratio.denominator)
    inexact = root * root * ratio.denominator != square
    quarters = 2 * root + inexact
    return round_shift_exact(-quarters if product < 0 else quarters, 2, rounding)
