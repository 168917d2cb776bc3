"""The NumPy model: codes in, codes out, bit for bit what the hardware does."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np

from approxnorm.backends.numpy_backend import NumpyBackend, storage_dtype
from approxnorm.errors import ApproxNormError
from approxnorm.formats import limit
from approxnorm.methods.normalizers import root_float
from approxnorm.program import Interval
from approxnorm.program.ops import round_shift_exact
from approxnorm.rmsnorm import Assembly, assemble
from approxnorm.spec.rmsnorm_spec import RMSNormSpec

Trace = dict[str, np.ndarray]


class RMSNorm:
    """A hardware RMSNorm on NumPy arrays.

    spec: calibrated, or with every scale given; ``model.spec`` has all numbers filled in.
    gamma: (dim,); integers are codes, floats are quantised to the spec's gamma format (after the
    constant is folded in, with normalize.constant = "gamma").

    Raises ApproxNormError for an illegal or open spec, or a gamma that does not fit.
    """

    def __init__(self, spec: RMSNormSpec, gamma: np.ndarray) -> None:
        self.assembly: Assembly = assemble(spec)
        self.spec = self.assembly.spec
        self.gamma = self._gamma_codes(np.asarray(gamma))

    @property
    def dim(self) -> int:
        assert self.spec.dim is not None
        return self.spec.dim

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the resolved spec, the tables and gamma's codes."""
        return self.assembly.digest(self.gamma)

    @overload
    def __call__(self, x: np.ndarray, *, trace: Literal[False] = False) -> np.ndarray: ...
    @overload
    def __call__(self, x: np.ndarray, *, trace: Literal[True]) -> tuple[np.ndarray, Trace]: ...

    def __call__(self, x: np.ndarray, *, trace: bool = False) -> Any:
        """Output codes of input codes.

        x: integers (..., dim) within the spec's x format; any leading shape, empty too, in any
        memory layout. Returns codes of x's shape in the narrowest dtype; with trace=True also
        every named signal: element signals (..., dim), row signals (...), channel signals (dim,).

        Raises ApproxNormError for a wrong row length, dtype or a code outside the format.
        """
        rows, leading = self._rows(np.asarray(x))
        if self.assembly.datapath is None:
            y = self._exact(rows).reshape(*leading, self.dim)
            return (y, {"y": y}) if trace else y
        inputs = {"x": rows, **self._channels}
        if not trace:
            return self._backend.run(inputs).reshape(*leading, self.dim)
        traced = self._backend.run_traced(inputs)
        shaped = {n: self._shape(n, v, leading) for n, v in traced.items()}
        return shaped[self._backend.datapath.output], shaped

    def quantize(self, x: np.ndarray) -> np.ndarray:
        """Real x (..., dim) to input codes; infinities saturate, NaN is refused."""
        shifts = self._channel_shifts
        real = np.asarray(x, np.float32)
        if shifts is not None:
            real = np.ldexp(real, -shifts).astype(np.float32)
        codes = self.assembly.x_format.quantize(real)
        return codes.astype(self._x_dtype)

    def dequantize(self, y: np.ndarray) -> np.ndarray:
        """Output codes to float64."""
        return self.assembly.context.y.dequantize(y)

    def dequantize_x(self, x: np.ndarray) -> np.ndarray:
        """Input codes to the float64 reals that they stand for, channel factors included."""
        real = self.assembly.x_format.dequantize(x)
        return real if self._channel_shifts is None else np.ldexp(real, self._channel_shifts)

    def gamma_real(self) -> np.ndarray:
        """gamma (dim,) as its codes say, float64, with the folded constant taken out again."""
        gain = self.spec.normalize.gamma_gain_squared(self.assembly.context)
        return self.assembly.context.gamma.dequantize(self.gamma) / root_float(gain)

    @cached_property
    def _backend(self) -> NumpyBackend:
        return NumpyBackend(self.assembly.require_datapath())

    @cached_property
    def _channels(self) -> dict[str, np.ndarray]:
        """Channel inputs in their narrowest dtypes."""
        values = dict(self.spec.normalize.channels(self.gamma, self.assembly.context))
        if self._channel_shifts is not None:
            values["channel_shift"] = self._channel_shifts
        ports = {p.name: p for p in self.assembly.require_datapath().inputs}
        return {n: v.astype(storage_dtype(ports[n].interval)) for n, v in values.items()}

    @cached_property
    def _channel_shifts(self) -> np.ndarray | None:
        shifts = self.spec.channel_shifts.shifts if self.spec.channel_shifts else None
        return None if shifts is None else np.array(shifts, np.int32)

    @cached_property
    def _x_dtype(self) -> np.dtype:
        return storage_dtype(self.assembly.front.inputs[0].interval)

    def _gamma_codes(self, gamma: np.ndarray) -> np.ndarray:
        context = self.assembly.context
        if gamma.shape != (self.dim,):
            raise ApproxNormError(
                f"gamma has shape {gamma.shape}; allowed: ({self.dim},), one for each channel"
            )
        if gamma.dtype.kind in "iu":
            return _check_codes(gamma, context.gamma.lo, context.gamma.hi, "gamma")
        if gamma.dtype.kind != "f" or not np.isfinite(gamma).all():
            raise ApproxNormError("gamma must be finite real numbers, or integer codes")
        gain = self.spec.normalize.gamma_gain_squared(context)
        return context.gamma.quantize(gamma.astype(np.float64) * root_float(gain))

    def _rows(self, x: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ApproxNormError(
                f"x has shape {x.shape}; allowed: rows of dim = {self.dim} elements"
            )
        if x.dtype.kind not in "iu":
            raise ApproxNormError(
                f"x has dtype {x.dtype}; allowed: integer codes (model.quantize makes them)"
            )
        interval = self.assembly.front.inputs[0].interval
        rows = x.reshape(-1, self.dim)
        if not np.can_cast(x.dtype, self._x_dtype, "safe") or x.dtype != self._x_dtype:
            rows = _check_codes(rows, interval.lo, interval.hi, "x").astype(self._x_dtype)
        elif np.iinfo(x.dtype).max > interval.hi or np.iinfo(x.dtype).min < interval.lo:
            _check_codes(rows, interval.lo, interval.hi, "x")
        return rows, x.shape[:-1]

    def _shape(self, name: str, value: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
        if name in self._channels:
            return value
        return value.reshape(leading if value.ndim == 1 else (*leading, self.dim))

    def _exact(self, rows: np.ndarray) -> np.ndarray:
        """The correctly rounded result for the spec's statistic, in integers of any size."""
        assembly = self.assembly
        backend = NumpyBackend(assembly.front)
        channels = {}
        if self._channel_shifts is not None:
            channels["channel_shift"] = self._channel_shifts
        traced = backend.run_traced({"x": rows, **channels})
        offset = self.spec.normalize.weight_offset(assembly.context)
        weight = [int(g) - assembly.context.gamma.zero_point + offset for g in self.gamma]
        y = np.empty(rows.shape, np.int64)
        for i in range(len(rows)):
            shift = 0 if assembly.row.row_shift is None else int(traced["row_shift"][i])
            operand = int(traced[assembly.row.operand.name][i])
            y[i] = self._exact_row(traced[assembly.row.x.name][i], operand, shift, weight)
        return y.astype(storage_dtype(Interval(assembly.context.y.lo, assembly.context.y.hi)))

    def _exact_row(self, x: np.ndarray, operand: int, shift: int, weight: list[int]) -> np.ndarray:
        context, y = self.assembly.context, self.assembly.context.y
        unit = self.assembly.x_format.scale**2 * context.operand_squared_unit
        total = operand + self.spec.eps_fraction / (unit * Fraction(4) ** shift)
        if total == 0:
            return np.full(len(x), y.zero_point, np.int64)
        gain = context.gain_squared(gamma_scale=context.gamma.scale, out_scale=y.scale)
        ratio = gain / total / self.spec.normalize.gamma_gain_squared(context)
        codes = [
            _rounded_product(int(v) * w, ratio, y.rounding) for v, w in zip(x, weight, strict=True)
        ]
        lo, hi = y.lo - y.zero_point, y.hi - y.zero_point
        wide = 1 << 62  # beyond any format: limiting a limited value changes nothing but WRAP
        if any(abs(c) >= wide for c in codes):
            codes = [max(-wide, min(wide - 1, c)) for c in codes]
        return limit(np.array(codes, np.int64), lo, hi, y.overflow) + y.zero_point


def _rounded_product(product: int, ratio: Fraction, rounding: Any) -> int:
    """product * sqrt(ratio), correctly rounded: two exact bits and a sticky one decide."""
    square = product * product * ratio.numerator * 4
    root = math.isqrt(square // ratio.denominator)
    inexact = root * root * ratio.denominator != square
    quarters = 2 * root + inexact
    return round_shift_exact(-quarters if product < 0 else quarters, 2, rounding)


def _check_codes(codes: np.ndarray, lo: int, hi: int, what: str) -> np.ndarray:
    if codes.size and (int(codes.min()) < lo or int(codes.max()) > hi):
        bad = int(codes.min()) if int(codes.min()) < lo else int(codes.max())
        raise ApproxNormError(f"{what} holds the code {bad}; its format allows {lo} to {hi}")
    return codes.astype(np.int64)
