"""What a normalize method is, and the range reduction that all of them share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format, Rounding
from approxnorm.methods.base import Method, Registry
from approxnorm.methods.function import FunctionMethod
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder, Port
from approxnorm.program.interval import MAX_SIGNAL_BITS
from approxnorm.program.signal import Signal

MAX_OFFSET = 64  # of a layer's exponents, either way: beyond, nothing is left of y
ConstantPlace = Literal["table", "gamma", "multiplier"]


@dataclass(frozen=True)
class Row:
    """What the front of the datapath hands over: the row's operand, and x as it was summed.

    ``mean square of x ~ (operand + eps) / kappa`` in the units below; ``row_shift`` is the row
    exponent's shift, or None.
    """

    x: Port
    operand: Port
    row_shift: Port | None


@dataclass(frozen=True)
class Context:
    """All numbers that a normalize method needs, each exact.

    operand_squared_unit: the real mean square of one unit of the operand, before a row exponent:
        ``mean(x**2) + eps = operand_squared_unit * (operand + eps_code / 2**guard)``, in units of
        x's codes squared.
    eps: the exact eps in units of the operand, without a row exponent; eps_code is it with
        ``guard`` fraction bits, rounded.
    """

    rsqrt: FunctionMethod
    operand_squared_unit: Fraction
    eps: Fraction
    eps_code: int
    guard: int
    gamma: Format
    y: Format

    def gain_squared(self, *, gamma_scale: Fraction, out_scale: Fraction) -> Fraction:
        """K**2 with ``y = x * gamma * K / sqrt(operand + eps)`` in codes."""
        return (gamma_scale / out_scale) ** 2 / self.operand_squared_unit


class Normalize(Method):
    """How x, gamma and the root become y.

    constant: where the part in [1, 2) of the constant sqrt(k)*s_gamma/s_y goes; the rest is a
    shift. "table" scales the table's entries, "gamma" the gamma codes, "multiplier" costs one
    multiplier a row, with ``constant_bits`` fraction bits and rounding RND. Absent, it is "table"
    where there is a table that can hold it, else a method's own second choice.
    """

    constant: ConstantPlace | None = None
    constant_bits: int | None = Field(default=None, ge=1, le=24)

    def resolved(self, rsqrt: FunctionMethod) -> Any:
        """Every absent field derived; ApproxNormError for an illegal combination."""
        raise NotImplementedError

    def declare(self, b: DatapathBuilder, row: Row, context: Context) -> Port:
        """Add the stages that make y; channel inputs are declared here too."""
        raise NotImplementedError

    def gamma_gain_squared(self, context: Context) -> Fraction:
        """The square of what real gamma is multiplied by before it becomes codes."""
        return Fraction(1)

    @property
    def scales_gamma(self) -> bool:
        """Whether real gamma is multiplied by a part of the constant before it becomes codes."""
        return False

    @property
    def adds_one(self) -> bool:
        """Whether the weight is 1 + gamma, as in Gemma."""
        return False

    def weight_offset(self, context: Context) -> int:
        """What is added to gamma's codes, less their zero point: 1 / scale for 1 + gamma."""
        return 0

    def root(self, trace: Mapping[str, np.ndarray], context: Context) -> np.ndarray:
        """What a traced run used for 1/sqrt(operand + eps), float64 (rows,); 0 for zero rows.

        For error reports: it tells the root's share of the error.
        """
        raise NotImplementedError

    def channels(self, gamma: np.ndarray, context: Context) -> Mapping[str, np.ndarray]:
        """Channel inputs of the datapath from int64 gamma codes (dim,)."""
        raise NotImplementedError


NORMALIZERS: Registry[Normalize] = Registry("normalize", "approxnorm.methods.normalize")


def split_gain(squared: Fraction) -> tuple[Fraction, int]:
    """K**2 = c**2 * 4**p with c in [1, 2): returns (c**2, p)."""
    p = 0
    while squared >= 4:
        squared, p = squared / 4, p + 1
    while squared < 1:
        squared, p = squared * 4, p - 1
    return squared, p


def rounded_root(squared: Fraction, bits: int) -> int:
    """round(2**bits * sqrt(squared)), exact."""
    doubled = math.isqrt((squared.numerator << (2 * bits + 2)) // squared.denominator)
    return (doubled + 1) >> 1


def root_float(squared: Fraction) -> float:
    """The root of a fraction as float64, within a unit of its last place, without libm."""
    scaled = math.isqrt((squared.numerator << 256) // squared.denominator)
    return float(Fraction(scaled, 1 << 128))


@dataclass(frozen=True)
class Reduced:
    """operand + eps = m * 4**half, m = 2**parity * (1 + frac / 2**F), or zero."""

    is_zero: Any
    parity: Any
    frac: Any
    half: Any


def range_reduce(operand: Any, row_shift: Any, context: Context) -> Reduced:
    """Add eps with its guard bits, and split the sum at its leading one.

    ``half`` counts from the guard bits: the true exponent is half - guard / 2. A row exponent
    shifts eps down with the data, rounded half to even, so that it is never inflated.
    """
    guarded, eps = _guarded(operand, context)
    if row_shift is not None:
        eps = ops.round_shift(eps, ops.shift_left(row_shift, 1), Rounding.RND_CONV)
        eps = ops.named("eps_row", eps)
    total = ops.named("total", guarded + eps)
    lead = ops.named("lead", ops.leading_one(total))
    f = context.rsqrt.f
    mantissa = ops.leading_mantissa(total, f)
    frac = ops.named("frac", ops.bits(mantissa, f - 1, 0)) if f else 0
    return Reduced(
        is_zero=ops.equal(total, 0),
        parity=ops.named("parity", ops.bits(lead, 0, 0)),
        frac=frac,
        half=ops.shift_floor(lead, 1),
    )


def _guarded(operand: Any, context: Context) -> tuple[Any, Any]:
    """The operand with its guard bits, and eps in the same unit."""
    if not isinstance(operand, Signal):
        return ops.shift_left(operand, context.guard), context.eps_code
    # Of any layer: as many guard bits as the derived rule may ask for, where there is room.
    room = MAX_SIGNAL_BITS - 2 - operand.interval.width
    most = max(0, min((context.rsqrt.f + 2) // 2 * 2, room))
    guard = ops.setting("guard", context.guard, operand, (0, most))
    eps = ops.parameter("eps", context.eps_code, operand, (0, operand.interval.hi << most))
    if isinstance(guard, Signal):
        return ops.round_shift(operand, ops.neg(guard), Rounding.TRN), eps
    return ops.shift_left(operand, guard), eps


def exponent_offset(value: int, like: Any) -> Any:
    """A constant that is added to a row's exponent: it holds the powers of two of all scales."""
    return ops.setting("shift_offset", value, like, (-MAX_OFFSET, MAX_OFFSET))


def row_inputs(row: Row) -> tuple[Port, ...]:
    """The row signals that ``range_reduce`` reads."""
    return (row.operand,) if row.row_shift is None else (row.operand, row.row_shift)


def check_constant(normalize: Normalize, rsqrt: FunctionMethod) -> None:
    """Refuse a constant in a table that cannot hold it, and bits where there is no multiplier."""
    if normalize.constant == "table" and not rsqrt.holds_constant:
        raise ApproxNormError(
            f'normalize.constant is "table"; rsqrt.method {rsqrt.method!r} cannot hold it;'
            ' allowed: "gamma" or "multiplier"'
        )
    if normalize.constant != "multiplier" and normalize.constant_bits is not None:
        raise ApproxNormError(
            f"normalize.constant_bits is {normalize.constant_bits}; it is allowed with"
            ' normalize.constant = "multiplier" only'
        )


def shift_and_limit(value: Any, amount: Any, target: Format, zero_point: bool = True) -> Any:
    """Round value / 2**amount once into a format, zero point included."""
    zero = target.zero_point if zero_point else 0
    limits = (target.lo - zero, target.hi - zero)
    rounded = ops.round_shift(value, amount, target.rounding, limits, target.overflow)
    return rounded + zero if zero else rounded
