"""Calibration: open scales, steps and factors are chosen from real activations.

The rules, each of which ``Calibration.notes`` states with its numbers:

* scale "pow2": the smallest power of two with max|v| <= scale * (largest code);
* scale "absmax": max|v| / (largest code), as float32;
* for y the values are those of float64 RMSNorm on the data, for gamma gamma itself (times the
  constant, if that is folded into it);
* channel factors: channel i counts in 2**shift_i steps, with the smallest shift that holds its
  largest magnitude, where the scale is that of the largest channel divided by 2**max_shift;
* the statistic's step and bias: the least error of the root mean square
  (``approxnorm.methods.statistics.calibrate_statistic``).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format
from approxnorm.methods.format_field import FormatSpec
from approxnorm.methods.statistics import calibrate_statistic
from approxnorm.reference import rmsnorm_float64
from approxnorm.rmsnorm import EpsWarning, align_datapath, assemble
from approxnorm.spec.rmsnorm_spec import RMSNormSpec

MAX_SAMPLE_ROWS = 1024  # rows kept for the statistic's calibration
MAX_SAMPLE_ELEMENTS = 1 << 22

Blocks = Callable[[], Iterable[np.ndarray]]


@dataclass(frozen=True)
class Calibration:
    """A spec with nothing left open, and a sentence for each number that was chosen."""

    spec: RMSNormSpec
    notes: list[str] = field(default_factory=list)


def calibrate_array(spec: RMSNormSpec, x: np.ndarray, gamma: np.ndarray) -> Calibration:
    """Calibrate on real activations x (..., dim) that fit in memory; see ``calibrate``."""
    rows = np.asarray(x, np.float32).reshape(-1, np.shape(x)[-1])
    return calibrate(spec, lambda: [rows], gamma)


def calibrate(spec: RMSNormSpec, blocks: Blocks, gamma: np.ndarray) -> Calibration:
    """Fill in what is open in a spec from real activations and gamma.

    blocks: each call starts a pass over the data in blocks (rows, dim) of finite float32; one
    pass is made, and a bounded number of evenly spaced rows is kept.
    gamma: real (dim,). Numbers that the spec fixes are left alone.

    Raises ApproxNormError if there are no rows, or gamma does not fit them.
    """
    gamma = np.asarray(gamma, np.float64)
    if gamma.ndim != 1 or gamma.size == 0:
        raise ApproxNormError(f"gamma has shape {gamma.shape}; allowed: one number a channel")
    spec = spec.with_dim(len(gamma))
    if not spec.missing():
        return Calibration(spec)
    seen = _observe(blocks, gamma, spec)
    notes: list[str] = []
    spec = _calibrate_x(spec, seen, notes)
    spec = _calibrate_statistic(spec, seen, notes)
    spec = _calibrate_format(spec, "y", seen.y_peak, notes)
    spec = _calibrate_gamma(spec, gamma, notes)
    return Calibration(spec, notes)


@dataclass
class _Seen:
    """What one pass over the data left."""

    channel_peak: np.ndarray  # (dim,), largest |x|
    y_peak: float
    sample: np.ndarray  # (rows, dim) float32

    @property
    def x_peak(self) -> float:
        return float(self.channel_peak.max())


def _observe(blocks: Blocks, gamma: np.ndarray, spec: RMSNormSpec) -> _Seen:
    dim = len(gamma)
    peak, y_peak = np.zeros(dim), 0.0
    sample = _Sample(dim)
    for block in blocks():
        if block.shape[-1] != dim:
            raise ApproxNormError(f"rows have {block.shape[-1]} elements, gamma has {dim}")
        rows = block.reshape(-1, dim)
        if not len(rows):
            continue
        peak = np.maximum(peak, np.abs(rows).max(axis=0))
        exact = rmsnorm_float64(rows, gamma + spec.normalize.adds_one, spec.eps)
        y_peak = max(y_peak, float(np.abs(exact).max()))
        sample.add(rows)
    if sample.seen == 0:
        raise ApproxNormError("there are no rows to calibrate on; give at least one")
    return _Seen(peak, y_peak, sample.rows())


class _Sample:
    """Evenly spaced rows of a stream of unknown length, the same however it is cut in blocks.

    Every stride-th row is kept; when the store is full, every second one is dropped and the
    stride doubles.
    """

    def __init__(self, dim: int) -> None:
        self._capacity = max(2, min(MAX_SAMPLE_ROWS, MAX_SAMPLE_ELEMENTS // dim))
        self._stride = 1
        self._rows: list[np.ndarray] = []
        self.seen = 0

    def add(self, rows: np.ndarray) -> None:
        first = -self.seen % self._stride
        for row in rows[first :: self._stride]:
            self._rows.append(np.array(row))
        self.seen += len(rows)
        while len(self._rows) > self._capacity:
            self._rows = self._rows[::2]
            self._stride *= 2

    def rows(self) -> np.ndarray:
        return np.stack(self._rows)


def _calibrate_x(spec: RMSNormSpec, seen: _Seen, notes: list[str]) -> RMSNormSpec:
    shifts = spec.channel_shifts
    if shifts is None or shifts.shifts is not None:
        return _calibrate_format(spec, "x", seen.x_peak, notes)
    if spec.x.scale is None:
        # The largest channel takes the largest factor; the scale serves the small ones.
        spec = _calibrate_format(spec, "x", seen.x_peak / (1 << shifts.max_shift), notes)
    limit = float(spec.x.to_format("x").scale) * _largest_code(spec.x)
    chosen = tuple(
        min(shifts.max_shift, max(0, _ceil_log2(p / limit))) if p > 0 else 0
        for p in seen.channel_peak
    )
    used = sum(s > 0 for s in chosen)
    notes.append(
        f"channel_shifts: {used} of {len(chosen)} channels have a factor above 1,"
        f" up to 2^{max(chosen)}"
    )
    return spec.replace(channel_shifts=shifts.model_copy(update={"shifts": chosen}))


def _calibrate_format(spec: RMSNormSpec, name: str, peak: float, notes: list[str]) -> RMSNormSpec:
    form: FormatSpec = getattr(spec, name)
    if form.scale is not None:
        return spec
    largest = _largest_code(form)
    if peak == 0:
        scale, rule = 1.0 / largest, "all values are 0"
    elif form.calibrate == "absmax":
        scale, rule = peak / largest, f"max|{name}| / {largest}"
    else:
        scale = 2.0 ** _ceil_log2(peak / largest)
        rule = f"smallest power of two with max|{name}| <= scale * {largest}"
    if peak == 0:
        scale = 2.0 ** _ceil_log2(scale)
    form = form.with_scale(scale)
    notes.append(f"{name}: max|{name}| = {peak:.6g}, scale = {form.scale:.6g} ({rule})")
    return spec.replace(**{name: form})


def _largest_code(form: FormatSpec) -> int:
    """The code magnitude that the data's largest magnitude maps to, zero point considered."""
    codes: Format = form.with_scale(1.0).to_format("scale")
    high, low = codes.hi - codes.zero_point, codes.zero_point - codes.lo
    return max(1, min(high, low) if codes.zero_point else high)


def _ceil_log2(value: float) -> int:
    """ceil(log2(value)), exact for any positive float."""
    mantissa, exponent = math.frexp(value)
    return exponent - (mantissa == 0.5)


def _calibrate_statistic(spec: RMSNormSpec, seen: _Seen, notes: list[str]) -> RMSNormSpec:
    if not spec.statistic.missing():
        return spec
    open_fields = spec.statistic.missing()
    datapath, port = align_datapath(spec)
    inputs: dict[str, Any] = {"x": _x_codes(spec, seen.sample)}
    if spec.channel_shifts is not None:
        inputs["channel_shift"] = np.array(spec.channel_shifts.shifts, np.int64)
    codes = NumpyBackend(datapath).run_traced(inputs)[port.name]
    chosen = calibrate_statistic(spec.statistic, codes, port.interval)
    values = ", ".join(f"{f} = {getattr(chosen, f)}" for f in open_fields)
    notes.append(f"statistic: {values} (least error of the RMS over {len(codes)} rows)")
    return spec.replace(statistic=chosen)


def _x_codes(spec: RMSNormSpec, rows: np.ndarray) -> np.ndarray:
    shifts = spec.channel_shifts.shifts if spec.channel_shifts else None
    real = rows if shifts is None else np.ldexp(rows, -np.array(shifts, np.int32))
    return spec.x.to_format("x").quantize(real.astype(np.float32))


def _calibrate_gamma(spec: RMSNormSpec, gamma: np.ndarray, notes: list[str]) -> RMSNormSpec:
    """gamma's scale; if the constant is folded into gamma, its part in [1, 2) counts too.

    That part does not change with a power of two in gamma's scale, so a first guess tells it.
    """
    if spec.gamma.scale is not None:
        return spec
    peak = float(np.abs(gamma).max())
    if spec.normalize.constant != "gamma":
        return _calibrate_format(spec, "gamma", peak, notes)
    form = spec.gamma.model_copy(update={"calibrate": "pow2"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EpsWarning)  # the calibrated spec warns when it is built
        guess = assemble(spec.replace(gamma=form.with_scale(1.0)))
    gain: Fraction = guess.spec.normalize.gamma_gain_squared(guess.context)
    return _calibrate_format(
        spec.replace(gamma=form), "gamma", peak * math.sqrt(float(gain)), notes
    )
