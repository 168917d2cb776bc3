"""How far the converted norms, and the outputs of the converted model, are from the float ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from approxnorm.metrics.meter import ErrorMeter


class NormErrors:
    """Errors of a norm's y, in the model's own units."""

    def __init__(self) -> None:
        self._meter = ErrorMeter(1.0)

    def add(self, got: np.ndarray, want: np.ndarray) -> None:
        """Add arrays of one shape; what is not finite in ``want`` (0/0 without eps) is left out."""
        finite = np.isfinite(want)
        self._meter.add(got[finite], want[finite])

    def result(self) -> dict[str, float | None]:
        """max_abs; rms_rel, the RMS error over the RMS of what was wanted; sqnr_db.

        rms_rel is None where all that was wanted is 0 and the error is not, sqnr_db also where
        there is no error.
        """
        found = self._meter.result()
        decibels, rms = found["sqnr_db"], found["rms_lsb"]
        relative = 0.0 if rms == 0 else None
        if decibels is not None:
            relative = 10 ** (-decibels / 20)
        return {"max_abs": found["max_abs_lsb"], "rms_rel": relative, "sqnr_db": decibels}


class OutputErrors:
    """Errors of one output of a model; it may have any type, and numbers that are not finite.

    Floating-point numbers are measured where both are finite; an infinity or NaN in one of them
    alone makes max_abs infinite, and there are then no other figures. Of all else (integers,
    booleans, strings) the elements that differ are counted.
    """

    def __init__(self, name: str) -> None:
        self._name, self._errors = name, NormErrors()
        self._elements = self._different = 0
        self._is_real = self._comparable = True
        self._broken = False

    def add(self, before: Any, after: Any) -> None:
        """Add what the float model and the converted one gave in one run."""
        arrays = isinstance(before, np.ndarray) and isinstance(after, np.ndarray)
        if not arrays or before.shape != after.shape:
            self._comparable = False
            return
        self._elements += before.size
        if before.dtype.kind != "f":
            self._is_real = False
            self._different += int(np.count_nonzero(before != after))
            return
        before, after = before.astype(np.float64), after.astype(np.float64)
        same = (before == after) | (np.isnan(before) & np.isnan(after))
        self._different += int(np.count_nonzero(~same))
        finite = np.isfinite(before) & np.isfinite(after)
        self._broken |= bool((~finite & ~same).any())
        self._errors.add(after[finite], before[finite])

    def result(self) -> dict[str, Any]:
        """name; elements; different: how many differ at all; max_abs, rms_rel and sqnr_db.

        The last three are None for what is no real number, different is None where shapes differ.
        """
        figures: dict[str, float | None] = dict.fromkeys(("max_abs", "rms_rel", "sqnr_db"))
        if self._broken:
            figures["max_abs"] = math.inf
        elif self._is_real and self._comparable:
            figures = self._errors.result()
        different = self._different if self._comparable else None
        return {"name": self._name, "elements": self._elements, "different": different, **figures}
