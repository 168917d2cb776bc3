"""The worst errors of the stages that are not exact, found over every argument they can get.

Each function runs the datapath's own code on all arguments, so that nothing is modelled twice.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from approxnorm.backends.numpy_backend import NumpyBackend, storage_dtype
from approxnorm.methods.low_bits import LowBitStatistic
from approxnorm.methods.normalize.log_domain import LogDomain
from approxnorm.methods.normalize.multiply import Multiply
from approxnorm.methods.normalizers import Context, split_gain
from approxnorm.methods.statistic.outlier_exact import OutlierExact
from approxnorm.methods.statistics import Statistic
from approxnorm.metrics.upward import measured_up
from approxnorm.program import Interval
from approxnorm.program.datapath import DatapathBuilder
from approxnorm.tables.error import cell_errors
from approxnorm.tables.target import RSQRT, Target

MAX_EXHAUSTED_BITS = 20  # fraction bits of an argument that are still run through, in a second

_LOG2 = Target("log2")
# Each of these sums a value >= 0 over all elements; others may leave some out.
_SUMS = ("full", "low_bit", "outlier_exact", "sole", "leading_one", "power_of_two", "mean_abs")
_MAX_CODES = 1 << 18


def factor_error(normalize: Multiply, context: Context) -> Fraction:
    """Max relative error of mantissa / 2**shift against constant / sqrt(operand + eps).

    The argument's truncation, the table, its rounding and the constant's are all in it.
    """
    f, bare = context.rsqrt.f, replace(context, eps_code=0, guard=0)
    constant, _ = split_gain(normalize.gain(context) / normalize.gamma_gain_squared(context))
    reference = Target(RSQRT.name, constant).reference(f)
    fraction = np.arange(1 << f, dtype=np.int64) + (1 << f)
    worst = 0.0
    for lead in (f, f + 1):
        mantissa, _ = normalize.scale_row(bare, fraction << (lead - f))
        exact = reference[lead & 1]
        worst = max(worst, _worst_in_cells(mantissa, context.rsqrt.o, exact, relative=True))
    return measured_up(worst)


def log_root_error(normalize: LogDomain, context: Context) -> Fraction:
    """Max absolute error of log_root against log2(operand + eps) / 2, whichever way ties go."""
    f, bits = context.rsqrt.f, normalize.log_bits
    log2 = context.rsqrt.build_log2(bits)  # type: ignore[attr-defined]
    frac = np.arange(1 << f, dtype=np.int64)
    below = _LOG2.reference(f)[0]
    worst = 0.0
    for octave in (0, 1):
        code = log2(np.full_like(frac, octave), frac)
        exact = below + (octave << 50)
        for half in (code >> 1, (code + 1) >> 1):
            worst = max(worst, _worst_in_cells(2 * half, bits, exact, relative=False))
    return measured_up(worst) / 2


def log_x_error(normalize: LogDomain) -> Fraction:
    """Max absolute error of log_x against log2|x|, x not 0."""
    all_bits = normalize.log_index_bits == 0 or normalize.form == "correction"
    bits = normalize.log_bits if all_bits else normalize.log_index_bits
    assert bits is not None
    magnitude = np.arange(1 << bits, dtype=np.int64) + (1 << bits)
    code = normalize.log_of(magnitude) - (bits << normalize.log_bits)
    exact = _LOG2.reference(bits)[0]
    return measured_up(_worst_in_cells(code, normalize.log_bits, exact, relative=False))


def antilog_error(normalize: LogDomain, context: Context) -> Fraction:
    """Max relative error of the antilogarithm of a code; its argument is exact."""
    bits = normalize.log_bits
    mantissa, shift = normalize.antilog(np.arange(1 << bits, dtype=np.int64), context)
    gain, p = Fraction(1), 0
    if normalize.constant == "table":
        gain, p = split_gain(normalize.gain(context))
    out_bits = int(np.max(shift)) + p  # one shift for all, as they are of one octave
    exact = Target("exp2", gain).reference(bits)[0, :-1]
    return measured_up(float(np.abs(cell_errors(mantissa, out_bits, exact, True)).max()))


def least_operand(statistic: Statistic, interval: Interval, peak: int) -> int:
    """A lower bound of the statistic's operand in rows whose largest magnitude is >= peak >= 1."""
    if statistic.accumulator is not None or statistic.method not in _SUMS:
        return 0
    if isinstance(statistic, LowBitStatistic) and statistic.step == "dynamic":
        return _least_dynamic(statistic, peak)
    if interval.hi - interval.lo >= _MAX_CODES or peak > max(interval.hi, -interval.lo):
        return 0
    codes = np.arange(interval.lo, interval.hi + 1)
    return int(_operands(statistic, interval, codes[np.abs(codes) >= peak]).min())


def _least_dynamic(statistic: LowBitStatistic, peak: int) -> int:
    """docs/error-metrics.md derives it: half of the peak at least is seen."""
    if not isinstance(statistic, OutlierExact):
        return 0
    if statistic.outliers == "top":
        return peak * peak
    offset = statistic.step_offset
    return peak * peak // 4 if offset is not None and offset <= -1 else 0


def _operands(statistic: Statistic, interval: Interval, codes: np.ndarray) -> np.ndarray:
    """The operands of rows of one element."""
    b = DatapathBuilder(1)
    declared = statistic.declare(b, b.input("x", "element", interval.lo, interval.hi))
    backend = NumpyBackend(b.finish(declared.operand))
    rows = codes[:, None].astype(storage_dtype(interval))
    return backend.run_traced({"x": rows})[declared.operand.name]


def _worst_in_cells(codes: Any, bits: int, reference: np.ndarray, relative: bool) -> float:
    """Max |error| of one code a cell; the exact value is monotonic, so both ends bound it."""
    ends = (reference[:-1], reference[1:])
    return max(float(np.abs(cell_errors(codes, bits, end, relative)).max()) for end in ends)
