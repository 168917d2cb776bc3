"""The proven worst case of the datapath, in output LSBs. docs/error-metrics.md derives it.

In y's LSBs the exact value of an element is ``u = x * w * K / sqrt(S + e)``: x and w are integers
(x aligned by the row exponent, w gamma's weight), S is the statistic's operand, e is eps in its
units, and K is a constant. What is computed here is exact, or rounded upward.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from approxnorm.formats import Overflow, Rounding
from approxnorm.methods.normalize.log_domain import LogDomain
from approxnorm.methods.normalize.multiply import Multiply
from approxnorm.methods.statistic.full import Full, Prefix, Strided
from approxnorm.metrics import stage_error
from approxnorm.metrics.counts import lowest_code
from approxnorm.metrics.upward import ceil_to, exp2_up, sqrt_down, sqrt_up
from approxnorm.model import RMSNorm
from approxnorm.program.datapath import ReduceStage

_PRINT_BITS = 20  # parts are rounded up to multiples of 2**-20 LSB


@dataclass(frozen=True)
class Bound:
    """|y - exact| <= lsb for every input, in LSBs of y; exact is clamped to y's range.

    lsb: None if nothing can be said; ``text`` gives the reason. parts: what each cause
    contributes; they add up to lsb.
    """

    lsb: Fraction | None
    parts: dict[str, Fraction]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: floats, None where there is no bound."""
        return {
            "lsb": None if self.lsb is None else float(self.lsb),
            "parts": {name: float(value) for name, value in self.parts.items()},
            "text": self.text,
        }


def bound(model: RMSNorm) -> Bound:
    """The worst case over all input codes, given the model's formats, tables and gamma codes.

    Against exact arithmetic on the input codes with gamma's codes if the statistic is the exact
    sum of squares of the whole row. For any other statistic its own value stands in for the mean
    square, and the aligned row for x: its error depends on the data and is not bounded here.
    """
    try:
        parts = {n: ceil_to(v, _PRINT_BITS) for n, v in _Worst(model).parts().items()}
    except _NoBound as reason:
        return Bound(None, {}, f"no bound: {reason}")
    total = sum(parts.values(), Fraction(0))
    listed = ", ".join(f"{name} {float(value):.4g}" for name, value in parts.items() if value)
    return Bound(total, parts, f"at most {float(total):.4g} LSB ({listed}) {_against(model)}")


def is_exact_sum(model: RMSNorm) -> bool:
    """Whether the operand is the exact sum of squares of the whole row, without a bias."""
    statistic, front = model.spec.statistic, model.assembly.front
    whole = any(
        isinstance(s, ReduceStage)
        and s.outputs == (model.assembly.row.operand.name,)
        and s.count == model.dim
        for s in front.stages
    )
    return isinstance(statistic, Full | Prefix | Strided) and whole and statistic.bias == 1


class _NoBound(Exception):
    """Why there is no bound."""


@dataclass(frozen=True)
class _Worst:
    """All numbers of the derivation, under the names that the docs use."""

    model: RMSNorm

    def parts(self) -> dict[str, Fraction]:
        """Every cause's share of the bound, in LSBs."""
        parts = {"output_rounding": _rounding(self.model.assembly.context.y.rounding)}
        if self.model.assembly.row.row_shift is not None and self.exact_sum:
            parts["row_exponent"] = self._row_exponent()
        if self.model.assembly.datapath is not None:
            if self.model.assembly.context.rsqrt.f > stage_error.MAX_EXHAUSTED_BITS:
                raise _NoBound(
                    f"rsqrt.frac_bits is {self.model.assembly.context.rsqrt.f}, too many to run"
                    f" through; allowed: {stage_error.MAX_EXHAUSTED_BITS}"
                )
            parts["eps"] = max(self._eps(*case) for case in self._eps_cases())
            parts |= self._stages()
        self._check_overflow(sum(parts.values(), Fraction(0)))
        return parts

    @cached_property
    def exact_sum(self) -> bool:
        return is_exact_sum(self.model)

    @cached_property
    def limits(self) -> tuple[int, int]:
        """y's range without its zero point; 0 lies in it."""
        form = self.model.assembly.context.y
        return lowest_code(form) - form.zero_point, form.hi - form.zero_point

    @cached_property
    def largest(self) -> Fraction | None:
        """max |u| before clamping: K * max|w|, as |x| <= sqrt(S). None if S is an estimate."""
        return self._gain * self.weight if self.exact_sum else None

    @cached_property
    def size(self) -> Fraction:
        """The largest |u| whose relative error can be seen in y."""
        reach = Fraction(max(-self.limits[0], self.limits[1]))
        return reach if self.largest is None else min(reach, self.largest)

    @cached_property
    def weight(self) -> int:
        """max |w| over the channels."""
        form = self.model.assembly.context.gamma
        one = self.model.spec.normalize.weight_offset(self.model.assembly.context)
        return max(abs(int(g) - form.zero_point + one) for g in self.model.gamma)

    @cached_property
    def _gain(self) -> Fraction:
        """K, rounded up."""
        context = self.model.assembly.context
        squared = context.gain_squared(gamma_scale=context.gamma.scale, out_scale=context.y.scale)
        return sqrt_up(squared / self.model.spec.normalize.gamma_gain_squared(context))

    # --- the row exponent ---------------------------------------------------------------------

    def _row_exponent(self) -> Fraction:
        """x / 2**shift is rounded to bits: the root moves, and the element itself."""
        row = self.model.assembly.row
        assert row.row_shift is not None and self.model.spec.row_exponent is not None
        if row.row_shift.interval.hi == 0:
            return Fraction(0)
        peak = 1 << (self.model.spec.row_exponent.bits - 2)  # the aligned largest is at least this
        element = self._gain * self.weight * Fraction(1, 2 * peak - 1)
        if self.model.spec.channel_shifts is None:
            return self.size * _root_of_rounded(self.model.dim, peak) + element
        # Channel c is multiplied by 2**k_c after it was rounded, and so is its error; the row's
        # largest element is no smaller for that. What saturates is counted as in _root_of_rounded.
        shifts = self.model.spec.channel_shifts.shifts or ()
        root = sqrt_up(Fraction(sum(4**k for k in shifts) + 3)) / (2 * peak)
        return self.size * root + element * 2 ** max(shifts)

    # --- eps ----------------------------------------------------------------------------------

    def _eps_cases(self) -> Iterator[tuple[Fraction, Fraction, int]]:
        """(e, what stands for it, the least S) for each shift of a row exponent."""
        assembly, spec = self.model.assembly, self.model.spec
        context, row = assembly.context, assembly.row
        shifts = range(1) if row.row_shift is None else range(row.row_shift.interval.hi + 1)
        for shift in shifts:
            unit = Fraction(4) ** shift
            code = round(context.eps_code / unit)
            peak = 1 if shift == 0 or spec.row_exponent is None else 1 << spec.row_exponent.bits - 2
            yield context.eps / unit, Fraction(code, 1 << context.guard), self._least_sum(peak)

    def _least_sum(self, peak: int) -> int:
        if self.exact_sum:
            return peak * peak
        row = self.model.assembly.row
        return stage_error.least_operand(self.model.spec.statistic, row.x.interval, peak)

    def _eps(self, exact: Fraction, used: Fraction, least: int) -> Fraction:
        """max over S >= least of |u| times the relative error that eps's code makes."""
        if exact == used:
            return Fraction(0)
        start = Fraction(least)
        if least == 0 and used == 0:
            start = Fraction(1)  # a row without any energy gives 0 and is left out
        simple = self.size * _relative(start, exact, used)
        if self.largest is None:
            return simple
        # |u| <= largest * sqrt(S / (S + e)) too: small where eps matters most.
        worst = max(start, min(exact, used) / 2)
        free = self.largest * _slope(worst, exact, used)
        if self.largest <= self.size:
            return min(simple, free)
        # Up to S = knee that is below the size; from there on clamping hides the rest.
        squared = (self.size / self.largest) ** 2
        knee = max(start, exact * squared / (1 - squared))
        below = self.largest * _slope(min(worst, knee), exact, used)
        return min(simple, free, max(below, self.size * _relative(knee, exact, used)))

    # --- the root and the normalisation -------------------------------------------------------

    def _stages(self) -> dict[str, Fraction]:
        normalize, context = self.model.spec.normalize, self.model.assembly.context
        if isinstance(normalize, LogDomain):
            return self._log_domain(normalize)
        if not isinstance(normalize, Multiply):
            raise _NoBound(f"normalize.method {normalize.method!r} has no derivation")
        root = stage_error.factor_error(normalize, context)
        parts = {"rsqrt": self.size * root}
        if normalize.intermediate is not None:
            parts["normalize"] = self._intermediate(normalize, root)
        return parts

    def _intermediate(self, normalize: Multiply, root: Fraction) -> Fraction:
        """One more rounding, before gamma; the format must hold every normalised value."""
        assert normalize.intermediate is not None
        context = self.model.assembly.context
        middle = normalize.intermediate.to_format("normalize.intermediate")
        step = middle.scale * context.gamma.scale / context.y.scale  # its LSB times w's, in y's
        if self.largest is None:
            raise _NoBound("with an estimated mean square, normalize.intermediate may saturate")
        largest = self._gain / step
        if middle.overflow not in (Overflow.SAT, Overflow.SAT_SYM):
            largest = largest * (1 + root) + 1
        if largest > min(-lowest_code(middle), middle.hi):
            raise _NoBound(
                f"normalize.intermediate is {middle}, which may overflow: normalised values reach"
                f" {float(largest * middle.scale):.4g}"
            )
        return self.weight * step * _rounding(middle.rounding)

    def _log_domain(self, normalize: LogDomain) -> dict[str, Fraction]:
        """Errors of logarithms add up; 2**that is a relative error."""
        context = self.model.assembly.context
        half_unit = Fraction(1, 2 << normalize.log_bits)
        root = stage_error.log_root_error(normalize, context)
        others = stage_error.log_x_error(normalize) + half_unit  # of x and of gamma
        if normalize.constant == "multiplier":
            others += half_unit
        antilog = stage_error.antilog_error(normalize, context)
        alone = exp2_up(root) - 1
        whole = exp2_up(root + others) * (1 + antilog) - 1
        return {"rsqrt": self.size * alone, "normalize": self.size * (whole - alone)}

    # --- overflow -----------------------------------------------------------------------------

    def _check_overflow(self, total: Fraction) -> None:
        """Only saturation keeps an error small beyond the range; otherwise all must fit."""
        form = self.model.assembly.context.y
        if form.overflow in (Overflow.SAT, Overflow.SAT_SYM):
            return
        if self.largest is None or self.largest + total > min(-self.limits[0], self.limits[1]):
            raise _NoBound(
                f"y overflows with {form.overflow}, so that a large value may become any other;"
                " use SAT, or a wider y"
            )


def _rounding(mode: Rounding) -> Fraction:
    """The largest change that a rounding mode makes, in its LSBs."""
    return Fraction(1) if mode in (Rounding.TRN, Rounding.TRN_ZERO) else Fraction(1, 2)


def _root_of_rounded(dim: int, peak: int) -> Fraction:
    """max relative change of a row's norm when each of its elements is rounded to an integer.

    The row's largest magnitude is at least ``peak``, and 2 * peak - 1 the largest code, to which
    saturation takes back what was rounded past it.
    """
    if_saturated = sqrt_up(Fraction(dim + 3)) / (2 * (2 * peak - 1))
    midway = (1 + sqrt_up(Fraction(dim))) / (4 * peak)
    triangle = sqrt_up(Fraction(dim + 3)) / (2 * peak)
    if midway >= 1:
        return triangle
    return min(triangle, max(if_saturated, midway / (1 - midway / 2)))


def _relative(total: Fraction, exact: Fraction, used: Fraction) -> Fraction:
    """|sqrt((S + e) / (S + used)) - 1|, rounded up; it falls as S grows."""
    ratio = (total + exact) / (total + used)
    return sqrt_up(ratio) - 1 if ratio > 1 else 1 - sqrt_down(ratio)


def _slope(total: Fraction, exact: Fraction, used: Fraction) -> Fraction:
    """sqrt(S) * |(S + e)**-1/2 - (S + used)**-1/2|, rounded up by the mean value theorem.

    As a function of S the result rises up to half of the smaller eps, and falls from there on.
    """
    smaller = min(exact, used)
    return abs(exact - used) / 2 * sqrt_up(total / (total + smaller) ** 3)


def _against(model: RMSNorm) -> str:
    if is_exact_sum(model):
        return "from exact arithmetic on the input codes and gamma's codes"
    aligned = "the aligned row" if model.spec.row_exponent is not None else "the input codes"
    return (
        f"from exact arithmetic on {aligned} and gamma's codes with the statistic's own value for"
        " the mean square: the statistic's error is not in it, nor are rows whose statistic and"
        " eps both count 0"
    )
