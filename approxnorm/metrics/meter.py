"""The seven figures of an error, accumulated block by block. docs/error-metrics.md defines them."""

from __future__ import annotations

import math

import numpy as np

ERROR_KEYS = (
    "max_abs_lsb",
    "mean_abs_lsb",
    "bias_lsb",
    "rms_lsb",
    "sqnr_db",
    "cosine",
    "max_rel",
)


class ErrorMeter:
    """Compares values with exact ones, in units of ``lsb``; memory does not grow with the data.

    The caller clamps the exact values to the output's range; they are not rounded.
    """

    def __init__(self, lsb: float) -> None:
        self._lsb = float(lsb)
        self._count = 0
        self._max_abs = 0.0
        self._max_rel: float | None = None
        names = ("absolute", "signed", "square", "exact", "got", "cross")
        self._sums = {name: _Sum() for name in names}

    def add(self, got: np.ndarray, exact: np.ndarray) -> None:
        """Add a block of reals of any shape; both arrays have the same shape, float64."""
        got = np.asarray(got, np.float64).ravel()
        exact = np.asarray(exact, np.float64).ravel()
        if got.shape != exact.shape:
            raise AssertionError(f"{got.size} values were compared with {exact.size}")
        if not got.size:
            return
        self._count += got.size
        error = got - exact
        magnitude = np.abs(error)
        self._max_abs = max(self._max_abs, float(magnitude.max()))
        self._add_relative(magnitude, np.abs(exact))
        sums = self._sums
        # Not np.dot: BLAS sums in an order of its own, and its threads are slow to wake.
        sums["absolute"].add(float(magnitude.sum()))
        sums["signed"].add(float(error.sum()))
        sums["square"].add(float((error * error).sum()))
        sums["exact"].add(float((exact * exact).sum()))
        sums["got"].add(float((got * got).sum()))
        sums["cross"].add(float((got * exact).sum()))

    def result(self) -> dict[str, float | None]:
        """The keys of ``ERROR_KEYS``; None where a figure is undefined or infinite."""
        if not self._count:
            return dict.fromkeys(ERROR_KEYS)
        total = {name: s.value for name, s in self._sums.items()}
        per = 1 / (self._count * self._lsb)
        return {
            "max_abs_lsb": self._max_abs / self._lsb,
            "mean_abs_lsb": total["absolute"] * per,
            "bias_lsb": total["signed"] * per,
            "rms_lsb": math.sqrt(total["square"] / self._count) / self._lsb,
            "sqnr_db": _decibels(total["exact"], total["square"]),
            "cosine": _cosine(total["cross"], total["got"], total["exact"]),
            "max_rel": self._max_rel,
        }

    def _add_relative(self, magnitude: np.ndarray, size: np.ndarray) -> None:
        counts = size >= self._lsb
        if counts.any():
            largest = float(np.max(magnitude[counts] / size[counts]))
            self._max_rel = largest if self._max_rel is None else max(self._max_rel, largest)


class _Sum:
    """A running sum that keeps what each addition rounds off (Neumaier)."""

    def __init__(self) -> None:
        self._total = 0.0
        self._lost = 0.0

    def add(self, value: float) -> None:
        total = self._total + value
        large, small = sorted((self._total, value), key=abs, reverse=True)
        self._lost += (large - total) + small
        self._total = total

    @property
    def value(self) -> float:
        return self._total + self._lost


def _decibels(signal: float, error: float) -> float | None:
    return 10 * math.log10(signal / error) if signal > 0 and error > 0 else None


def _cosine(cross: float, got: float, exact: float) -> float | None:
    if got <= 0 or exact <= 0:
        return None
    return max(-1.0, min(1.0, cross / (math.sqrt(got) * math.sqrt(exact))))
