"""The error of a model on a layer's activations: against references, and split by cause."""

from __future__ import annotations

from typing import Any

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.metrics.chain import CAUSES, steps
from approxnorm.metrics.counts import (
    AccumulatorCounts,
    CodeCounts,
    at_limits,
    beyond_input,
    beyond_output,
    beyond_row,
    lowest_code,
)
from approxnorm.metrics.histogram import Histogram
from approxnorm.metrics.meter import ErrorMeter
from approxnorm.model import RMSNorm, Trace
from approxnorm.reference import Order, rmsnorm_float64, rmsnorm_fp32

BLOCK_ELEMENTS = (
    1 << 17
)  # a block's signals and float64 values, some 30 arrays, stay near the cache


class LayerErrors:
    """Errors of ``model`` over blocks of rows; docs/error-metrics.md defines every figure.

    gamma_real: (dim,), the layer's own gamma before it was quantised.
    eps: the references' eps; the spec's if absent. order: of the fp32 reference.
    Where y's channels have factors, every figure is of y over them.
    Feed either real activations (``add``) or input codes (``add_codes``). Memory is bounded,
    whatever the size of a block.

    Raises ApproxNormError for a gamma or a block of the wrong shape, for NaN or infinity in the
    activations, and when both kinds are fed.
    """

    def __init__(
        self,
        model: RMSNorm,
        gamma_real: np.ndarray,
        eps: float | None = None,
        order: Order = "llama",
    ) -> None:
        factors = model.spec.y_factors
        self._model = model = model.without_y_factors()
        self._eps = float(model.spec.eps if eps is None else eps)
        self._order: Order = order
        self._gamma = _finite(np.asarray(gamma_real, np.float64), "gamma_real")
        if self._gamma.shape != (model.dim,):
            raise ApproxNormError(
                f"gamma_real has shape {self._gamma.shape}; allowed: ({model.dim},)"
            )
        if factors is not None:
            self._gamma = self._gamma / factors
        form = model.assembly.context.y
        self._lsb = float(form.scale)
        ends = (lowest_code(form) - form.zero_point, form.hi - form.zero_point)
        self._range = (ends[0] * self._lsb, ends[1] * self._lsb)
        self._one = model.spec.normalize.adds_one
        self._fed: str | None = None
        self._rows = 0
        self._exact, self._fp32 = ErrorMeter(self._lsb), ErrorMeter(self._lsb)
        self._split: dict[str, ErrorMeter] = {}
        self._histogram = Histogram()
        self._counts = self._new_counts()
        self._accumulator = self._new_accumulator()

    def add(self, x_real: np.ndarray) -> None:
        """Add real activations (rows, dim), which the model quantises itself."""
        x = np.asarray(x_real, np.float32)
        self._check(x, "real activations")
        _finite(x, "x")
        for block in self._blocks(x):
            codes = self._model.quantize(block)
            self._counts["x"].add(codes, beyond_input(self._model, block, codes))
            self._measure(codes, block)

    def add_codes(self, codes: np.ndarray) -> None:
        """Add input codes (rows, dim); the fp32 reference then has nothing to compare."""
        codes = np.asarray(codes)
        self._check(codes, "codes")
        form = self._model.assembly.x_format
        for block in self._blocks(codes):
            self._counts["x"].add(block, at_limits(block, form.lo, form.hi))
            self._measure(block, None)

    def result(self) -> dict[str, Any]:
        """Plain data, ready for JSON.

        Keys: rows, codes, against_exact, against_fp32 (None when fed codes), split (by cause; the
        causes that the model has), histogram (of the error against exact), x, y and, with a row
        exponent, x_row (format, codes, zero_codes, zero_rows, saturated); with an accumulator
        narrower than derived, accumulator (bits, bits_needed, overflowed_rows).
        """
        return {
            "rows": self._rows,
            "codes": self._rows * self._model.dim,
            "against_exact": self._exact.result(),
            "against_fp32": None if self._fed == "codes" else self._fp32.result(),
            "split": {c: self._split[c].result() for c in CAUSES if c in self._split},
            "histogram": self._histogram.result(),
            **{name: counts.result() for name, counts in self._counts.items()},
            **({"accumulator": self._accumulator.result()} if self._accumulator else {}),
        }

    def _check(self, block: np.ndarray, kind: str) -> None:
        if block.ndim != 2 or block.shape[1] != self._model.dim:
            raise ApproxNormError(
                f"a block has shape {block.shape}; allowed: rows of dim = {self._model.dim} values"
            )
        if self._fed not in (None, kind):
            raise ApproxNormError(f"{kind} were fed after {self._fed}; feed one kind only")
        self._fed = kind

    def _blocks(self, rows: np.ndarray) -> list[np.ndarray]:
        size = max(1, BLOCK_ELEMENTS // self._model.dim)
        return [rows[i : i + size] for i in range(0, len(rows), size)]

    def _measure(self, codes: np.ndarray, x_real: np.ndarray | None) -> None:
        model = self._model
        y, trace = model(codes, trace=True)
        got = model.dequantize(y)
        self._rows += len(codes)
        weight = model.gamma_real() + self._one
        exact = self._clamp(rmsnorm_float64(model.dequantize_x(codes), weight, self._eps))
        self._exact.add(got, exact)
        self._histogram.add((got - exact) / self._lsb)
        if x_real is not None:
            gamma = self._gamma.astype(np.float32) + np.float32(self._one)
            fp32 = rmsnorm_fp32(x_real, gamma, self._eps, self._order)
            self._fp32.add(got, self._clamp(fp32.astype(np.float64)))
        unrounded = self._split_causes(trace, codes, x_real)
        self._count(trace, y, unrounded)

    def _split_causes(
        self, trace: Trace, codes: np.ndarray, x_real: np.ndarray | None
    ) -> np.ndarray:
        """Meter each cause's change; returns the reals before the last rounding."""
        weight = self._gamma + self._one
        before = unrounded = np.empty(0)
        for cause, after in steps(self._model, trace, weight, self._eps, x_real, codes):
            if cause != "reference":
                meter = self._split.setdefault(cause, ErrorMeter(self._lsb))
                meter.add(after, before)
            unrounded, before = before, after
        return unrounded

    def _count(self, trace: Trace, y: np.ndarray, unrounded: np.ndarray) -> None:
        model = self._model
        if "x_row" in self._counts:
            self._counts["x_row"].add(trace["x_row"], beyond_row(model, trace))
        if self._accumulator is not None:
            self._accumulator.add(trace["sum"])
        self._counts["y"].add(y, beyond_output(model, trace, unrounded / self._lsb))

    def _clamp(self, real: np.ndarray) -> np.ndarray:
        return np.clip(real, *self._range)

    def _new_accumulator(self) -> AccumulatorCounts | None:
        narrowed = "accumulated" in self._model.assembly.front.ports
        accumulator = self._model.spec.statistic.accumulator
        return AccumulatorCounts(accumulator.bits) if narrowed and accumulator else None

    def _new_counts(self) -> dict[str, CodeCounts]:
        assembly = self._model.assembly
        x, y = assembly.x_format, assembly.context.y
        counts = {"x": CodeCounts(str(x), x.zero_point)}
        if self._model.spec.row_exponent is not None:
            bits = self._model.spec.row_exponent.bits
            counts["x_row"] = CodeCounts(f"{bits} bits, scale of x times a power of two a row")
        return counts | {"y": CodeCounts(str(y), y.zero_point)}


def _finite(values: np.ndarray, what: str) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ApproxNormError(f"{what} holds NaN or infinity; allowed: finite numbers")
    return values
