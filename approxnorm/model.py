"""The NumPy model: codes in, codes out, bit for bit what the hardware does."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np

from approxnorm.backends.numpy_backend import NumpyBackend, storage_dtype
from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format
from approxnorm.methods.normalizers import root_float
from approxnorm.program.datapath import Datapath
from approxnorm.rmsnorm import Assembly, GammaWarning, assemble
from approxnorm.spec.rmsnorm_spec import RMSNormSpec
from approxnorm.yardstick import exact_rows

Trace = dict[str, np.ndarray]


class RMSNorm:
    """A hardware RMSNorm on NumPy arrays.

    spec: calibrated, or with every scale given; ``model.spec`` has all numbers filled in.
    gamma: (dim,); integers are codes, floats are quantised to the spec's gamma format (after the
    constant is folded in, with normalize.constant = "gamma", and y's channel factors taken out).

    Raises ApproxNormError for an illegal or open spec, or a gamma that does not fit.
    """

    def __init__(self, spec: RMSNormSpec, gamma: np.ndarray) -> None:
        if not isinstance(spec, RMSNormSpec):
            raise ApproxNormError(
                f"spec is a {type(spec).__name__}; allowed: an RMSNormSpec, which"
                " approxnorm.preset and approxnorm.load_spec give"
            )
        self.assembly: Assembly = assemble(spec)
        self.spec = self.assembly.spec
        self.gamma = self._gamma_codes(np.asarray(gamma))

    @classmethod
    def of(cls, assembly: Assembly, gamma: np.ndarray) -> RMSNorm:
        """The model of a spec that has been assembled already; gamma as ``RMSNorm`` takes it."""
        model = cls.__new__(cls)
        model.assembly, model.spec = assembly, assembly.spec
        model.gamma = model._gamma_codes(np.asarray(gamma))
        return model

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what makes it: the resolved spec and gamma's codes."""
        return type(self), (self.spec, self.gamma)

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
        x = np.asarray(x)
        rows, leading = self.check_rows(x), x.shape[:-1]
        inputs = {"x": rows, **self.channel_inputs}
        if not trace and self.assembly.datapath is not None:
            return self._backend.run(inputs).reshape(*leading, self.dim)
        traced = self._backend.run_traced(inputs)
        if self.assembly.datapath is None:
            traced["y"] = exact_rows(self.assembly, self.gamma, traced)
        shaped = {n: self._shape(n, v, leading) for n, v in traced.items()}
        return (shaped["y"], shaped) if trace else shaped["y"]

    def quantize(self, x: np.ndarray) -> np.ndarray:
        """Real x (..., dim) to input codes; infinities saturate, NaN is refused.

        Raises ApproxNormError for rows of another length and for what is no real number.
        """
        values = np.asarray(x)
        if values.dtype.kind not in "fiu" or values.ndim == 0 or values.shape[-1] != self.dim:
            raise ApproxNormError(
                f"x has shape {values.shape} and dtype {values.dtype}; allowed: real numbers in"
                f" rows of dim = {self.dim}"
            )
        codes = self.assembly.x_format.quantize(self.spec.divide_channels(x))
        return codes.astype(self.x_dtype)

    def dequantize(self, y: np.ndarray) -> np.ndarray:
        """Output codes to float64 reals, y's channel factors included.

        y: of any shape; (..., dim) where there are factors. Raises ApproxNormError for another
        shape then, and for what is no integer.
        """
        codes, factors = np.asarray(y), self.spec.y_factors
        if codes.dtype.kind not in "iu":
            raise ApproxNormError(f"y has dtype {codes.dtype}; allowed: integer codes")
        real = self.assembly.context.y.dequantize(codes)
        if factors is None:
            return real
        if codes.ndim == 0 or codes.shape[-1] != self.dim:
            raise ApproxNormError(
                f"y has shape {codes.shape}; allowed: rows of dim = {self.dim}, as its channels"
                " have factors"
            )
        scaled: np.ndarray = real * factors
        return scaled

    def dequantize_x(self, x: np.ndarray) -> np.ndarray:
        """Input codes to the float64 reals that they stand for, channel factors included."""
        real = self.assembly.x_format.dequantize(x)
        return real if self._channel_shifts is None else np.ldexp(real, self._channel_shifts)

    def gamma_real(self) -> np.ndarray:
        """gamma (dim,) as its codes say, float64, with the folded constant taken out again."""
        gain = self.spec.normalize.gamma_gain_squared(self.assembly.context)
        real = self.assembly.context.gamma.dequantize(self.gamma) / root_float(gain)
        factors = self.spec.y_factors
        return real if factors is None else real * factors

    def without_y_factors(self) -> RMSNorm:
        """The same codes as a model whose y counts alike in all channels: gamma over the factors.

        What is counted in LSBs of y, errors say, is the same for both.
        """
        if self.spec.y_channel_shifts is None:
            return self
        spec = self.spec.replace(y_channel_shifts=None)
        return RMSNorm.of(replace(self.assembly, spec=spec), self.gamma)

    @property
    def _datapath(self) -> Datapath:
        """What the backend runs: all of it, or the exact yardstick's front."""
        return self.assembly.datapath or self.assembly.front

    @cached_property
    def _backend(self) -> NumpyBackend:
        return NumpyBackend(self._datapath)

    @cached_property
    def channel_inputs(self) -> dict[str, np.ndarray]:
        """The datapath's channel inputs (dim,) by name, in their narrowest dtypes: gamma's codes,
        or what the log domain keeps of them, and channel factors. The yardstick has no gamma."""
        values = dict(self.spec.normalize.channels(self.gamma, self.assembly.context))
        if self._channel_shifts is not None:
            values["channel_shift"] = self._channel_shifts
        ports = {p.name: p.interval for p in self._datapath.inputs if p.level == "channel"}
        return {n: values[n].astype(storage_dtype(interval)) for n, interval in ports.items()}

    @cached_property
    def _channel_shifts(self) -> np.ndarray | None:
        shifts = self.spec.channel_shifts.shifts if self.spec.channel_shifts else None
        return None if shifts is None else np.array(shifts, np.int32)

    @cached_property
    def x_dtype(self) -> np.dtype:
        """The narrowest dtype of x's codes."""
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
        real = gamma.astype(np.float64) * root_float(gain)
        factors = self.spec.y_factors
        real = real if factors is None else real / factors
        _warn_if_beyond(real, context.gamma)
        return context.gamma.quantize(real)

    def check_rows(self, x: np.ndarray, name: str = "x") -> np.ndarray:
        """Input codes (..., dim) as rows (n, dim) of the narrowest dtype.

        Raises ApproxNormError, with ``name`` for x, as a call of the model does.
        """
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ApproxNormError(
                f"{name} has shape {x.shape}; allowed: rows of dim = {self.dim} elements"
            )
        if x.dtype.kind not in "iu":
            raise ApproxNormError(
                f"{name} has dtype {x.dtype}; allowed: integer codes (model.quantize makes them)"
            )
        interval = self.assembly.front.inputs[0].interval
        rows = x.reshape(-1, self.dim)
        if not np.can_cast(x.dtype, self.x_dtype, "safe") or x.dtype != self.x_dtype:
            rows = _check_codes(rows, interval.lo, interval.hi, name).astype(self.x_dtype)
        elif np.iinfo(x.dtype).max > interval.hi or np.iinfo(x.dtype).min < interval.lo:
            _check_codes(rows, interval.lo, interval.hi, name)
        return rows

    def _shape(self, name: str, value: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
        if name in self.channel_inputs:
            return value
        return value.reshape(leading if value.ndim == 1 else (*leading, self.dim))


def _warn_if_beyond(real: np.ndarray, form: Format) -> None:
    """Tell how many values have no code within half an LSB of the format's ends."""
    ends = form.dequantize(np.array([form.lo, form.hi])) + np.array([-0.5, 0.5]) * float(form.scale)
    count = int(np.count_nonzero((real < ends[0]) | (real > ends[1])))
    if count:
        warnings.warn(
            f"{count} of gamma's {real.size} values are beyond {form}, up to"
            f" {np.abs(real).max():.6g}; give gamma a coarser scale or more bits",
            GammaWarning,
            stacklevel=4,
        )


def _check_codes(codes: np.ndarray, lo: int, hi: int, what: str) -> np.ndarray:
    if codes.size and (int(codes.min()) < lo or int(codes.max()) > hi):
        bad = int(codes.min()) if int(codes.min()) < lo else int(codes.max())
        raise ApproxNormError(f"{what} holds the code {bad}; its format allows {lo} to {hi}")
    return codes.astype(np.int64)
