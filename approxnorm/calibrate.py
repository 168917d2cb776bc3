"""Calibration: open scales, steps and factors are chosen from real activations.

The rules, each of which ``Calibration.notes`` states with its numbers:

* scale "pow2": the smallest power of two with max|v| <= scale * (largest code);
* scale "absmax": max|v| / (largest code), as float32;
* headroom h: that of 2**h times the values, so that h bits are free above the largest;
* with a zero point, the same for the positive and the negative values and the codes on their
  side of it, and the larger of both scales; a side without codes is left to saturate;
* for y the values are those of float64 RMSNorm on the data, for gamma gamma itself (times the
  constant, if that is folded into it);
* channel factors, of x and of y: channel i counts in 2**shift_i steps, with the smallest shift that
  holds its largest magnitude, where the scale is that of the largest channel divided by
  2**max_shift; gamma is then what is left of it when y's are taken out;
* with a row exponent, x's factors follow from magnitudes relative to the row's root mean square:
  the channel with the largest takes 2**max_shift, the others the nearest power of two;
* the statistic's step and bias: the least error of the root mean square
  (``approxnorm.methods.statistics.calibrate_statistic``).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format
from approxnorm.methods.format_field import FormatSpec
from approxnorm.methods.normalizers import root_float
from approxnorm.methods.statistics import calibrate_statistic
from approxnorm.reference import rmsnorm_float64
from approxnorm.rmsnorm import EpsWarning, align_datapath, assemble
from approxnorm.spec.rmsnorm_spec import ChannelShifts, RMSNormSpec

MAX_SAMPLE_ROWS = 1024  # rows kept for the statistic's calibration
MAX_SAMPLE_ELEMENTS = 1 << 22
_LEAST_SCALE, _MOST_SCALE = 2.0**-100, 2.0**127  # data of denormals alone; float32

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
    gamma: real (dim,). Numbers that the spec fixes are left alone; if nothing is open, the data is
    not read at all.

    Raises ApproxNormError if there are no rows, or gamma does not fit them.
    """
    calibrator = Calibrator(spec, gamma)
    if calibrator.needs_data:
        for block in blocks():
            calibrator.see(block)
    return calibrator.finish()


class Calibrator:
    """Calibration of one layer whose activations come piece by piece, as a model runs.

    spec, gamma: as for ``calibrate``. Give each block to ``see``, then call ``finish``; how the
    data is cut into blocks makes no difference. A bounded number of rows is kept, and none if no
    open field needs them.

    Raises ApproxNormError if gamma is no row of finite numbers, or is not the spec's dim.
    """

    def __init__(self, spec: RMSNormSpec, gamma: np.ndarray) -> None:
        self._gamma = _checked_gamma(gamma)
        self._spec = spec.with_dim(len(self._gamma))
        dim = len(self._gamma)
        self._x = self._y = _Range(np.zeros(dim), np.zeros(dim))
        self._relative = self._x  # to the root mean square of its row
        self._sample = _Sample(dim, keep=bool(spec.statistic.missing()))

    @property
    def needs_data(self) -> bool:
        """Whether anything is open; if not, ``finish`` gives the spec back."""
        return bool(self._spec.missing())

    @property
    def rows(self) -> int:
        """How many rows were seen."""
        return self._sample.seen

    def see(self, block: np.ndarray) -> None:
        """Take in a block of real activations (..., dim); empty ones do nothing.

        Raises ApproxNormError for rows of another length and for NaN or infinity.
        """
        dim = len(self._gamma)
        if block.shape[-1] != dim:
            raise ApproxNormError(f"rows have {block.shape[-1]} elements, gamma has {dim}")
        rows = block.reshape(-1, dim)
        if not len(rows):
            return
        _check_finite(rows, self.rows)
        self._x = self._x.with_(_Range.of(rows, axis=0))
        if self._spec.row_exponent is not None and self._spec.channel_shifts is not None:
            self._relative = self._relative.with_(_Range.of(_over_rms(rows), axis=0))
        weight = self._gamma + self._spec.normalize.adds_one
        exact = rmsnorm_float64(rows, weight, self._spec.eps)
        self._y = self._y.with_(_Range.of(exact, axis=0))
        self._sample.add(rows)

    def finish(self) -> Calibration:
        """Choose what is open; ApproxNormError if that needs rows and none were seen."""
        if not self.needs_data:
            return Calibration(self._spec)
        if not self.rows:
            raise ApproxNormError("there are no rows to calibrate on; give at least one")
        notes: list[str] = []
        spec = self._spec
        if spec.row_exponent is not None:
            spec = _calibrate_relative(spec, self._relative, notes)
        spec = _calibrate_channels(spec, "x", self._x, notes)
        spec = _calibrate_statistic(spec, self._sample, notes)
        spec = _calibrate_channels(spec, "y", self._y, notes)
        spec = _calibrate_gamma(spec, self._gamma, notes)
        return Calibration(spec, notes)


def _checked_gamma(gamma: np.ndarray) -> np.ndarray:
    gamma = np.asarray(gamma, np.float64)
    if gamma.ndim != 1 or gamma.size == 0:
        raise ApproxNormError(f"gamma has shape {gamma.shape}; allowed: one number a channel")
    if not np.isfinite(gamma).all():
        raise ApproxNormError("gamma must be finite real numbers")
    return gamma


@dataclass(frozen=True)
class _Range:
    """How far values go, each number >= 0: a number, or one for each channel."""

    above: Any
    below: Any

    @classmethod
    def of(cls, values: np.ndarray, axis: int | None = None) -> _Range:
        lowest = values.min(axis=axis, initial=0)
        return cls(values.max(axis=axis, initial=0) + 0.0, 0.0 - lowest)  # no -0.0

    def with_(self, other: _Range) -> _Range:
        return _Range(np.maximum(self.above, other.above), np.maximum(self.below, other.below))

    def divided(self, by: Any) -> _Range:
        """The largest over channels after dividing each by a number."""
        return _Range(np.max(self.above / by), np.max(self.below / by))

    @property
    def peak(self) -> Any:
        """The largest magnitude."""
        return np.maximum(self.above, self.below)


def _over_rms(rows: np.ndarray) -> np.ndarray:
    """Rows over their root mean square; rows of zeros as they are. float64."""
    wide = rows.astype(np.float64)
    rms = np.sqrt(np.mean(wide * wide, axis=1, keepdims=True))
    relative: np.ndarray = wide / np.where(rms > 0, rms, 1.0)
    return relative


def _calibrate_relative(spec: RMSNormSpec, seen: _Range, notes: list[str]) -> RMSNormSpec:
    """x's channel factors under a row exponent; seen: relative to the rows, of each channel."""
    shifts = spec.channel_shifts
    if shifts is None or shifts.shifts is not None:
        return spec
    ratios = seen.peak / max(float(np.max(seen.peak)), _LEAST_SCALE)
    chosen = tuple(
        max(0, shifts.max_shift + _round_log2(ratio)) if ratio > 0 else 0
        for ratio in ratios.tolist()
    )
    notes.append(
        f"channel_shifts: {sum(s > 0 for s in chosen)} of {len(chosen)} channels have a factor"
        f" above 1, up to 2^{max(chosen)}; by magnitudes relative to the row's root mean square"
    )
    return spec.replace(channel_shifts=shifts.model_copy(update={"shifts": chosen}))


def _round_log2(value: float) -> int:
    """log2(value) to the nearest integer, halves down, exact for any positive float."""
    mantissa, exponent = math.frexp(value)
    return exponent - 1 + (mantissa * mantissa > 0.5)


def _check_finite(rows: np.ndarray, seen: int) -> None:
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        bad = rows[row][~np.isfinite(rows[row])][0]
        raise ApproxNormError(f"row {seen + row} of x holds {bad}; allowed: finite numbers")


class _Sample:
    """Evenly spaced rows of a stream of unknown length, the same however it is cut in blocks.

    Every stride-th row is kept; when the store is full, every second one is dropped and the
    stride doubles. keep: whether rows are kept, or only counted.
    """

    def __init__(self, dim: int, keep: bool) -> None:
        self._keep = keep
        self._capacity = max(2, min(MAX_SAMPLE_ROWS, MAX_SAMPLE_ELEMENTS // dim))
        self._stride = 1
        self._rows: list[np.ndarray] = []
        self.seen = 0

    def add(self, rows: np.ndarray) -> None:
        first = -self.seen % self._stride
        self.seen += len(rows)
        if not self._keep:
            return
        for row in rows[first :: self._stride]:
            self._rows.append(np.array(row))
        while len(self._rows) > self._capacity:
            self._rows = self._rows[::2]
            self._stride *= 2

    def rows(self) -> np.ndarray:
        return np.stack(self._rows)


def _calibrate_channels(
    spec: RMSNormSpec, name: str, seen: _Range, notes: list[str]
) -> RMSNormSpec:
    """The scale of x or y, and its channel factors; seen: of each channel."""
    field = {"x": "channel_shifts", "y": "y_channel_shifts"}[name]
    shifts: ChannelShifts | None = getattr(spec, field)
    if shifts is None:
        return _calibrate_format(spec, name, seen.divided(1.0), notes)
    if shifts.shifts is not None:
        return _calibrate_format(spec, name, seen.divided(np.exp2(shifts.shifts)), notes)
    form: FormatSpec = getattr(spec, name)  # as it was: a chosen scale takes the head room's place
    if form.scale is None:
        # The largest channel takes the largest factor; the scale serves the small ones.
        spec = _calibrate_format(spec, name, seen.divided(2.0**shifts.max_shift), notes)
    scale = float(getattr(spec, name).to_format(name).scale)
    needed = (
        _ceil_log2(_needed_scale(form, above, below) / scale)
        for above, below in zip(seen.above.tolist(), seen.below.tolist(), strict=True)
    )
    chosen = tuple(min(shifts.max_shift, max(0, n)) for n in needed)
    used = sum(s > 0 for s in chosen)
    notes.append(
        f"{field}: {used} of {len(chosen)} channels have a factor above 1, up to 2^{max(chosen)}"
    )
    return spec.replace(**{field: shifts.model_copy(update={"shifts": chosen})})


def _calibrate_format(spec: RMSNormSpec, name: str, seen: _Range, notes: list[str]) -> RMSNormSpec:
    form: FormatSpec = getattr(spec, name)
    if form.scale is not None:
        return spec
    scale = _needed_scale(form, float(seen.above), float(seen.below))
    if scale == 0:
        # Any scale will do: the largest code stands for about 1.
        scale, rule = 2.0 ** _ceil_log2(_needed_scale(form, 1.0, 1.0)), "all values are 0"
    else:
        scale = scale if form.calibrate == "absmax" else 2.0 ** _ceil_log2(scale)
        rule = _rule(form, name, seen)
    if scale > _MOST_SCALE:
        raise ApproxNormError(
            f"{name}: max|{name}| = {seen.peak:.6g}, for which its scale would be {scale:.3g};"
            " allowed: at most 2^127 (give smaller values, or a zero point amid the codes)"
        )
    form = form.with_scale(max(scale, _LEAST_SCALE))
    notes.append(f"{name}: max|{name}| = {seen.peak:.6g}, scale = {form.scale:.6g} ({rule})")
    return spec.replace(**{name: form})


def _rule(form: FormatSpec, name: str, seen: _Range) -> str:
    """How the scale was chosen, in words."""
    pow2 = form.calibrate == "pow2"
    if form.zero_point:
        kind = "smallest power of two" if pow2 else "smallest"
        ends = f"{-seen.below:.6g} to {seen.above:.6g}"
        return f"{kind} that holds {ends} about zero point {form.zero_point}"
    largest = _codes(form).hi
    free = f" / 2^{form.headroom}" if form.headroom else ""
    if pow2:
        return f"smallest power of two with max|{name}| <= scale * {largest}{free}"
    return f"max|{name}| / {largest}" + (f" * 2^{form.headroom}" if form.headroom else "")


def _codes(form: FormatSpec) -> Format:
    return form.with_scale(1.0).to_format("scale")


def _needed_scale(form: FormatSpec, above: float, below: float) -> float:
    """The least scale with which the codes reach from -below to above, and leave the head room.

    Without a zero point both sides count alike, and have the largest code.
    """
    codes = _codes(form)
    above, below = (math.ldexp(float(reach), form.headroom) for reach in (above, below))
    if codes.zero_point == 0:
        return max(above, below) / codes.hi
    sides = ((above, codes.hi - codes.zero_point), (below, codes.zero_point - codes.lo))
    return max(reach / count for reach, count in sides if count > 0)


def _ceil_log2(value: float) -> int:
    """ceil(log2(value)), exact for any positive float."""
    mantissa, exponent = math.frexp(value)
    return exponent - (mantissa == 0.5)


def _calibrate_statistic(spec: RMSNormSpec, sample: _Sample, notes: list[str]) -> RMSNormSpec:
    if not spec.statistic.missing():
        return spec
    open_fields = spec.statistic.missing()
    datapath, port = align_datapath(spec)
    inputs: dict[str, Any] = {"x": _x_codes(spec, sample.rows())}
    if spec.channel_shifts is not None:
        inputs["channel_shift"] = np.array(spec.channel_shifts.shifts, np.int64)
    codes = NumpyBackend(datapath).run_traced(inputs)[port.name]
    chosen = calibrate_statistic(spec.statistic, codes, port.interval)
    values = ", ".join(f"{f} = {getattr(chosen, f)}" for f in open_fields)
    notes.append(f"statistic: {values} (least error of the RMS over {len(codes)} rows)")
    return spec.replace(statistic=chosen)


def _x_codes(spec: RMSNormSpec, rows: np.ndarray) -> np.ndarray:
    return spec.x.to_format("x").quantize(spec.divide_channels(rows))


def _calibrate_gamma(spec: RMSNormSpec, gamma: np.ndarray, notes: list[str]) -> RMSNormSpec:
    """gamma's scale; if gamma is multiplied by the constant's part in [1, 2), that counts too.

    The part does not change with a power of two in gamma's scale, so a first guess tells it. Any
    other factor of the scale would go into that part again, and the codes would be the same.
    """
    if spec.gamma.scale is not None:
        return spec
    factors = spec.y_factors
    reach = _Range.of(gamma if factors is None else gamma / factors)
    if not spec.normalize.scales_gamma:
        return _calibrate_format(spec, "gamma", reach, notes)
    form = spec.gamma.model_copy(update={"calibrate": "pow2"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EpsWarning)  # the calibrated spec warns when it is built
        guess = assemble(spec.replace(gamma=form.with_scale(1.0)))
    factor = root_float(guess.spec.normalize.gamma_gain_squared(guess.context))
    return _calibrate_format(spec.replace(gamma=form), "gamma", reach.divided(1 / factor), notes)
