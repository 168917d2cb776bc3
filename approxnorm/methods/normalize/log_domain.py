"""Log domain: subtract logarithms, take one antilogarithm; no multiplier at all."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Rounding
from approxnorm.methods.function import FunctionMethod
from approxnorm.methods.normalize.corrections import exp2_corrected, log2_corrected
from approxnorm.methods.normalizers import (
    MAX_OFFSET,
    NORMALIZERS,
    Context,
    Normalize,
    Row,
    check_constant,
    exponent_offset,
    range_reduce,
    row_inputs,
    shift_and_limit,
    split_gain,
)
from approxnorm.methods.rsqrt.direct import Direct
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder, Port
from approxnorm.tables.error import StageFunction
from approxnorm.tables.target import Target, log2_floor

# A correction is searched over all arguments of its cell; beyond 256 cells none is needed.
_MOST_INDEX_BITS = {"constant": 12, "correction": 8}


@NORMALIZERS.register
class LogDomain(Normalize):
    """log2|x| - log2(operand + eps) / 2 + log2|gamma|, then 2**that, signed, rounded once.

    log_bits: fraction bits of every logarithm.
    log_index_bits: top bits below x's leading one that address its log2 table; 0 is Mitchell.
    antilog_index_bits: top fraction bits that address the antilog table; 0 is Mitchell.
    form: "constant", a table holds the function; "correction", what Mitchell's line lacks, with one
        adder more and two to three times as accurate with as many entries (up to 256).
    antilog_bits: fraction bits of the antilog's output in [1, 2).
    half_rounding: how log2(operand + eps) / 2 is rounded to log_bits.
    gamma is stored as (sign, zero flag, log2 code), derived from its codes and rounded to nearest.
    A zero x or gamma gives 0. The row's root must be log2 or power_of_two. The constant goes into
    gamma's logarithms ("gamma"), the antilog table of form "constant" ("table"), or an adder
    ("multiplier").
    """

    method: Literal["log"] = "log"
    log_bits: int = Field(default=6, ge=1, le=16)
    log_index_bits: int | None = Field(default=None, ge=0, le=12)
    antilog_index_bits: int | None = Field(default=None, ge=0, le=12)
    form: Literal["constant", "correction"] = "constant"
    antilog_bits: int | None = Field(default=None, ge=1, le=24)
    half_rounding: Rounding = Field(default=Rounding.RND, strict=False)

    summary: ClassVar[str] = "no multiplier: log2 and antilog tables, adders, one shift"
    source: ClassVar[str] = "log-subtraction division as in Kang & Wang, Micromachines 17(1):84"

    def resolved(self, rsqrt: FunctionMethod) -> Self:
        if not hasattr(rsqrt, "build_log2"):
            raise ApproxNormError(
                f'rsqrt.method is {rsqrt.method!r}; with normalize.method = "log" allowed:'
                " log2 or power_of_two"
            )
        if self.constant not in (None, "table"):
            check_constant(self, rsqrt)
        if self.constant_bits is not None:
            raise ApproxNormError(
                'normalize.constant_bits is not allowed with normalize.method = "log";'
                " the constant's logarithm has log_bits"
            )
        most = _MOST_INDEX_BITS[self.form]
        derived = {
            "log_index_bits": min(self.log_bits, most),
            "antilog_index_bits": min(self.log_bits, most),
            "antilog_bits": self.log_bits + 2,
        }
        absent = {k: v for k, v in derived.items() if getattr(self, k) is None}
        filled = self.model_copy(update=absent)
        if filled.constant is None:
            place = "table" if filled._antilog_holds_constant else "gamma"
            return filled.model_copy(update={"constant": place}).resolved(rsqrt)
        filled._check_antilog()
        if self.form == "correction":
            filled._check_correction()
        return filled

    @property
    def _antilog_holds_constant(self) -> bool:
        return self.form == "constant" and self.antilog_index_bits != 0

    def _check_antilog(self) -> None:
        assert self.antilog_index_bits is not None
        if self.antilog_index_bits > self.log_bits:
            raise ApproxNormError(
                f"normalize.antilog_index_bits is {self.antilog_index_bits}; allowed: at most"
                f" log_bits, {self.log_bits}"
            )
        if self.constant == "table" and not self._antilog_holds_constant:
            found = (
                "antilog_index_bits is 0 (no table)"
                if self.antilog_index_bits == 0
                else 'form is "correction", whose table is added to a line'
            )
            raise ApproxNormError(
                f'normalize.constant is "table", but {found}; allowed: "gamma" or "multiplier"'
            )

    def _check_correction(self) -> None:
        assert self.log_index_bits is not None and self.antilog_bits is not None
        most = min(self.log_bits, _MOST_INDEX_BITS["correction"])
        for name in ("log_index_bits", "antilog_index_bits"):
            if (found := getattr(self, name)) > most:
                raise ApproxNormError(
                    f'normalize.{name} is {found}; with normalize.form = "correction" and'
                    f" log_bits = {self.log_bits} allowed: at most {most}"
                )
        if self.antilog_bits < self.log_bits:
            raise ApproxNormError(
                f'normalize.antilog_bits is {self.antilog_bits}; with normalize.form = "correction"'
                f" allowed: at least log_bits, {self.log_bits}"
            )

    def channels(self, gamma: np.ndarray, context: Context) -> Mapping[str, np.ndarray]:
        real = np.asarray(gamma, np.int64) - context.gamma.zero_point
        magnitudes, places = np.unique(np.abs(real), return_inverse=True)
        logs = [self._gamma_log(int(m), context) if m else 0 for m in magnitudes]
        return {
            "gamma_log": np.array(logs, np.int64)[places],
            "gamma_negative": (real < 0).astype(np.int64),
            "gamma_zero": (real == 0).astype(np.int64),
        }

    def gain(self, context: Context) -> Fraction:
        """K**2; gamma's codes count in units of its scale."""
        return context.gain_squared(gamma_scale=context.gamma.scale, out_scale=context.y.scale)

    def _gamma_log(self, magnitude: int, context: Context) -> int:
        """round(2**log_bits * log2(magnitude * constant folded into gamma)), exact."""
        gain = self.gain(context) if self.constant == "gamma" else Fraction(1)
        return self._rounded_log(magnitude * magnitude * gain)

    def _rounded_log(self, squared: Fraction) -> int:
        """round(2**log_bits * log2(squared) / 2): half of a logarithm with log_bits."""
        return (log2_floor(squared, self.log_bits) + 1) >> 1

    def root(self, trace: Mapping[str, np.ndarray], context: Context) -> np.ndarray:
        root = np.exp2(-trace["log_root"].astype(np.float64) / (1 << self.log_bits))
        return np.where(trace["row_zero"] != 0, 0.0, root)

    def declare(self, b: DatapathBuilder, row: Row, context: Context) -> Port:
        top = max(
            abs(context.gamma.lo - context.gamma.zero_point),
            abs(context.gamma.hi - context.gamma.zero_point),
        )
        least, most = self._gamma_log(1, context), self._gamma_log(top, context)
        if b.settings_are_ports:  # a part of the layer's constant may be in it
            least, most = -MAX_OFFSET << self.log_bits, MAX_OFFSET << self.log_bits
        channels = (
            b.input("gamma_log", "channel", min(least, 0), max(most, 0)),
            b.input("gamma_negative", "channel", 0, 1),
            b.input("gamma_zero", "channel", 0, 1),
        )
        root, zero = b.row("scale", lambda *s: self._root(context, *s), *row_inputs(row))
        port: Port = b.element(
            "normalize", lambda *s: self._element(context, *s), row.x, *channels, root, zero
        )
        return port

    def _root(self, context: Context, operand: Any, row_shift: Any = None) -> tuple[Any, Any]:
        """log2(operand + eps) / 2 with log_bits, and whether it is the logarithm of 0."""
        reduced = range_reduce(operand, row_shift, context)
        log2: StageFunction = context.rsqrt.build_log2(self.log_bits)  # type: ignore[attr-defined]
        # operand + eps = m * 4**(half - guard/2), so half of its log2 is log2(m)/2 + the exponent.
        exponent = reduced.half + exponent_offset(-(context.guard // 2), operand)
        doubled = ops.shift_left(exponent, self.log_bits + 1) + log2(reduced.parity, reduced.frac)
        doubled = ops.named("log_total", doubled)
        half = ops.round_shift(doubled, 1, self.half_rounding)
        return ops.named("log_root", half), ops.named("row_zero", reduced.is_zero)

    def _element(
        self,
        context: Context,
        x: Any,
        gamma_log: Any,
        gamma_negative: Any,
        gamma_zero: Any,
        log_root: Any,
        row_zero: Any,
    ) -> Any:
        magnitude = ops.named("abs_x", ops.absolute(x))
        log_x = ops.named("log_x", self.log_of(magnitude))
        total = log_x - log_root + gamma_log
        if self.constant == "multiplier":
            constant = self._rounded_log(self.gain(context))
            span = (-MAX_OFFSET << self.log_bits, MAX_OFFSET << self.log_bits)
            total = total + ops.parameter("log_constant", constant, x, span)
        total = ops.named("log_y", total)
        mantissa, shift = self.antilog(total, context)
        zero = ops.maximum(ops.maximum(ops.equal(magnitude, 0), gamma_zero), row_zero)
        mantissa = ops.named("antilog", ops.select(zero, 0, mantissa))
        negative = ops.sub(1, ops.equal(ops.less(x, 0), gamma_negative))
        signed = ops.named("signed", ops.select(negative, ops.neg(mantissa), mantissa))
        return ops.named("y", shift_and_limit(signed, ops.named("shift", shift), context.y))

    def log_of(self, magnitude: Any) -> Any:
        """log2 of an integer >= 1 with log_bits (of 0 as of 1)."""
        position = ops.shift_left(ops.leading_one(magnitude), self.log_bits)
        assert self.log_index_bits is not None
        if self.log_index_bits == 0:
            mantissa = ops.leading_mantissa(magnitude, self.log_bits)
            return position + ops.bits(mantissa, self.log_bits - 1, 0)
        if self.form == "correction":
            mantissa = ops.leading_mantissa(magnitude, self.log_bits)
            frac = ops.bits(mantissa, self.log_bits - 1, 0)
            return position + log2_corrected(self.log_index_bits, self.log_bits)(0, frac)
        mantissa = ops.leading_mantissa(magnitude, self.log_index_bits)
        index = ops.bits(mantissa, self.log_index_bits - 1, 0)
        table = Direct(index_bits=self.log_index_bits, bits=self.log_bits).resolved()
        return position + table.build(Target("log2"))(0, index)

    def antilog(self, log_y: Any, context: Context) -> tuple[Any, Any]:
        """2**(log_y / 2**log_bits) as mantissa / 2**shift, mantissa in [1, 2) before a constant."""
        assert self.antilog_index_bits is not None and self.antilog_bits is not None
        integer = ops.shift_floor(log_y, self.log_bits)
        frac = ops.bits(log_y, self.log_bits - 1, 0)
        if self.antilog_index_bits == 0:
            one = 1 << self.log_bits
            return frac + one, ops.sub(self.log_bits, integer)
        if self.form == "correction":
            line = exp2_corrected(self.antilog_index_bits, self.log_bits, self.antilog_bits)
            return line(0, frac), ops.sub(self.antilog_bits, integer)
        c_squared, p = (
            split_gain(self.gain(context)) if self.constant == "table" else (Fraction(1), 0)
        )
        # With every fraction bit in the address the argument is exact, and so is the entry;
        # with fewer, an entry serves a cell.
        whole = self.antilog_index_bits == self.log_bits
        table = Direct(
            index_bits=self.antilog_index_bits,
            frac_bits=self.log_bits,
            bits=self.antilog_bits,
            entries="left" if whole else "minimax",
        ).resolved()
        mantissa = table.build(Target("exp2", c_squared))(0, frac)
        return mantissa, ops.sub(self.antilog_bits - p, integer)
