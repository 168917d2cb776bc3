"""What a statistic is: an estimate of a row's mean square, in integers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field

from approxnorm.backends.numpy_backend import NumpyBackend, storage_dtype
from approxnorm.errors import ApproxNormError
from approxnorm.formats import Overflow, Rounding
from approxnorm.methods.base import Fields, Method, Registry
from approxnorm.program import Interval, ops
from approxnorm.program.datapath import DatapathBuilder, Port

MAX_BIAS = 4096  # and its inverse is the least
BIAS_BITS = 12  # a calibrated bias is a multiple of 2**-12, so that it prints exactly


@dataclass(frozen=True)
class Declared:
    """What a statistic left in the datapath.

    ``mean square of x's codes ~ bias * operand * 4**exponent / kappa``, where ``operand`` is a
    row signal >= 0. For sums of squares kappa is the number of elements summed.
    """

    operand: Port
    kappa: Fraction
    exponent: int = 0


def _round_or_truncate(mode: Rounding) -> Rounding:
    if mode not in (Rounding.RND, Rounding.TRN):
        raise ApproxNormError(f"found {mode}; allowed for magnitudes: RND or TRN")
    return mode


RoundOrTruncate = Annotated[Rounding, Field(strict=False), AfterValidator(_round_or_truncate)]


def _bias(value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value != "calibrate" and not (number and 1 / MAX_BIAS <= value <= MAX_BIAS):
        raise ApproxNormError(
            f'found {value!r}; allowed: a number from 1/{MAX_BIAS} to {MAX_BIAS}, or "calibrate"'
        )
    return value


class Accumulator(Fields):
    """A sum narrower than its derived width. Only with a named overflow mode."""

    bits: int = Field(ge=1, le=62)
    overflow: Overflow | None = Field(default=None, strict=False)


class Statistic(Method):
    """An estimate of the mean square of a row of codes.

    bias: the sum times ``bias`` is unbiased; it is folded into the constant and into eps, and
    costs nothing. "calibrate" chooses it from data. 1 means no correction.
    accumulator: makes the sum narrower than derived; see Accumulator.
    """

    bias: Annotated[float | Literal["calibrate"], BeforeValidator(_bias)] = 1.0
    accumulator: Accumulator | None = None

    needs: ClassVar[tuple[str, ...]] = ()  # fields that calibration fills if they are absent

    def resolved(self, dim: int) -> Self:
        """Fields that follow from the row's length filled in."""
        return self

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        """Add this statistic's stages for the element signal ``x``. Resolved methods only."""
        raise NotImplementedError

    def candidates(self, magnitude_bits: int) -> list[Self]:
        """The methods that calibration tries, given the bits of the largest magnitude seen."""
        return [self]

    def objection(self, observed: Observed) -> str:
        """Why calibration may not choose this candidate, given what it does on data; or ""."""
        return ""

    def missing(self) -> list[str]:
        """Fields that only calibration can fill."""
        absent = [name for name in self.needs if getattr(self, name) is None]
        return absent + (["bias"] if self.bias == "calibrate" else [])

    @property
    def bias_fraction(self) -> Fraction:
        """The bias as an exact number; a calibrated one must have been chosen before."""
        if self.bias == "calibrate":
            raise ApproxNormError("statistic.bias is 'calibrate'; calibrate the spec on data first")
        return Fraction(repr(float(self.bias)))

    def accumulate(self, b: DatapathBuilder, total: Port) -> Port:
        """Narrow an exact sum to the accumulator that the spec names, if it names one."""
        acc = self.accumulator
        if acc is None or acc.bits >= total.interval.width:
            return total
        overflow = acc.overflow
        if overflow is None:
            raise ApproxNormError(
                f"statistic.accumulator.bits is {acc.bits}; the sum needs"
                f" {total.interval.width} bits for all inputs; allowed: at least that many,"
                " or name an overflow mode (statistic.accumulator.overflow)"
            )
        limits = (0, (1 << acc.bits) - 1)
        return b.row(
            "accumulate",
            lambda s: ops.named("accumulated", ops.saturate(s, limits, overflow)),
            total,
        )


STATISTICS: Registry[Statistic] = Registry("statistic", "approxnorm.methods.statistic")


@dataclass(frozen=True)
class Observed:
    """A statistic run on rows of codes: its signals, and the mean squares that it sees."""

    signals: dict[str, np.ndarray]
    mean_square: np.ndarray  # (rows,), in LSB**2, without the bias


def observe(statistic: Statistic, codes: np.ndarray, interval: Interval) -> Observed:
    """Run the statistic's own datapath on integers (rows, dim) within ``interval``."""
    b = DatapathBuilder(codes.shape[1])
    x = b.input("x", "element", interval.lo, interval.hi)
    declared = statistic.declare(b, x)
    backend = NumpyBackend(b.finish(declared.operand))
    signals = backend.run_traced({"x": codes.astype(storage_dtype(interval))})
    operand = signals[declared.operand.name].astype(np.float64)
    unit = float(Fraction(4) ** declared.exponent / declared.kappa)
    return Observed(signals, operand * unit)


def calibrate_statistic(statistic: Statistic, codes: np.ndarray, interval: Interval) -> Statistic:
    """Choose absent fields, and the bias if asked for, on rows of codes.

    The measure is the root mean square over rows of the relative error of the row's RMS, as in
    the project's own definition of an ARNorm-style statistic (docs/datapath.md). Rows of zeros
    carry no information and are left out.
    """
    if not statistic.missing():
        return statistic
    wide = codes.astype(np.float64)
    truth = np.einsum("ij,ij->i", wide, wide) / codes.shape[1]
    codes, truth = codes[truth > 0], truth[truth > 0]
    magnitude_bits = int(np.abs(codes).max(initial=0)).bit_length()
    trials = [
        _trial(candidate, codes, interval, truth)
        for candidate in statistic.candidates(magnitude_bits)
    ]
    _, _, best, objection = min(trials, key=lambda t: t[:2])
    if objection and len(trials) > 1:
        raise ApproxNormError(objection)
    return best


def _trial(
    candidate: Statistic, codes: np.ndarray, interval: Interval, truth: np.ndarray
) -> tuple[bool, float, Statistic, str]:
    """(whether there is an objection, error, candidate with its bias, objection): least is best."""
    observed = observe(candidate.model_copy(update={"bias": 1.0}), codes, interval)
    ratio = np.sqrt(observed.mean_square / truth)
    if candidate.bias == "calibrate":
        units = round(min(_best_gain(ratio) ** 2, MAX_BIAS) * (1 << BIAS_BITS))
        bias = max(1, units) / (1 << BIAS_BITS)
        candidate = candidate.model_copy(update={"bias": bias})
    gain = float(candidate.bias_fraction) ** 0.5
    error = float(np.mean((ratio * gain - 1.0) ** 2)) if len(ratio) else 0.0
    objection = candidate.objection(observed)
    return bool(objection), error, candidate, objection


def _best_gain(ratio: np.ndarray) -> float:
    """The factor that brings estimated over true RMS nearest to 1, in the least-squares sense."""
    power = float(np.sum(ratio * ratio))
    return float(np.sum(ratio)) / power if power > 0 else 1.0
