"""Multiply: x * gamma * mantissa, shifted by the exponent and rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format, Rounding
from approxnorm.methods.format_field import FormatSpec
from approxnorm.methods.function import FunctionMethod, gain_target
from approxnorm.methods.normalizers import (
    MAX_OFFSET,
    NORMALIZERS,
    Context,
    Normalize,
    Row,
    check_constant,
    exponent_offset,
    range_reduce,
    root_float,
    rounded_root,
    row_inputs,
    shift_and_limit,
    split_gain,
)
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder, Port
from approxnorm.program.signal import Signal


@NORMALIZERS.register
class Multiply(Normalize):
    """y = x * gamma * mantissa / 2**shift, exact until one rounding; or as a model orders it.

    order = "fused": one rounding at the end; also ONNX Runtime's SimplifiedLayerNormalization,
        which scales before it casts.
    order = "llama" or "onnx": x / rms is rounded to ``intermediate`` before gamma multiplies it,
        as LLaMA and ONNX RMSNormalization (opset 23) cast first. The intermediate's scale times
        gamma's must be y's times a power of two.
    order = "gemma": the weight is 1 + gamma, fused; gamma's scale must be 2**-n, n >= 0.
    """

    method: Literal["multiply"] = "multiply"
    order: Literal["fused", "llama", "onnx", "gemma"] = "fused"
    intermediate: FormatSpec | None = None

    summary: ClassVar[str] = "two multiplications an element, one rounding"

    def resolved(self, rsqrt: FunctionMethod) -> Self:
        if self.constant is None:
            place = "table" if rsqrt.holds_constant else "multiplier"
            return self.model_copy(update={"constant": place}).resolved(rsqrt)
        check_constant(self, rsqrt)
        casts_first = self.order in ("llama", "onnx")
        if casts_first != (self.intermediate is not None):
            raise ApproxNormError(
                f"normalize.order is {self.order!r}; normalize.intermediate is allowed, and"
                ' needed, with "llama" and "onnx" only'
            )
        if self.intermediate is not None:
            self.intermediate.require_modes("normalize.intermediate")
            self.intermediate.to_format("normalize.intermediate")
            self._check_intermediate(self.intermediate.zero_point, rsqrt)
        if self.order == "gemma" and self.constant == "gamma":
            raise ApproxNormError(
                'normalize.constant is "gamma"; with order "gemma" the weight is 1 + gamma;'
                ' allowed: "table" or "multiplier"'
            )
        if self.constant == "multiplier" and self.constant_bits is None:
            return self.model_copy(update={"constant_bits": min(rsqrt.o + 2, 24)})
        return self

    def _check_intermediate(self, zero_point: int, rsqrt: FunctionMethod) -> None:
        if zero_point:
            raise ApproxNormError(
                f"normalize.intermediate.zero_point is {zero_point}; allowed: 0, as the"
                " intermediate is multiplied"
            )
        if rsqrt.method == "exact":
            raise ApproxNormError(
                f'normalize.order is "{self.order}"; with rsqrt.method "exact", which rounds once,'
                ' allowed: "fused" or "gemma"'
            )

    def gain(self, context: Context) -> Fraction:
        """K**2 of the row's factor: to y's scale, or to the intermediate's."""
        if self.intermediate is None:
            return context.gain_squared(gamma_scale=context.gamma.scale, out_scale=context.y.scale)
        middle = self.intermediate.to_format("normalize.intermediate")
        return context.gain_squared(gamma_scale=Fraction(1), out_scale=middle.scale)

    @property
    def scales_gamma(self) -> bool:
        return self.constant == "gamma"

    def gamma_gain_squared(self, context: Context) -> Fraction:
        return split_gain(self.gain(context))[0] if self.scales_gamma else Fraction(1)

    def channels(self, gamma: np.ndarray, context: Context) -> Mapping[str, np.ndarray]:
        return {"gamma": gamma}

    def root(self, trace: Mapping[str, np.ndarray], context: Context) -> np.ndarray:
        gain = self.gain(context) / self.gamma_gain_squared(context)
        factor = np.ldexp(trace["mantissa"].astype(np.float64), -trace["shift"].astype(np.int32))
        return factor / root_float(gain)

    def declare(self, b: DatapathBuilder, row: Row, context: Context) -> Port:
        gamma = b.input("gamma", "channel", context.gamma.lo, context.gamma.hi)
        mantissa, shift = b.row(
            "scale", lambda *signals: self.scale_row(context, *signals), *row_inputs(row)
        )
        finish = self._fused if self.intermediate is None else self._cast_first
        port: Port = b.element(
            "normalize",
            lambda x, g, m, s: finish(context, x, g, m, s),
            row.x,
            gamma,
            mantissa,
            shift,
        )
        return port

    def scale_row(self, context: Context, operand: Any, row_shift: Any = None) -> tuple[Any, Any]:
        """The row's factor: mantissa / 2**shift, 0 for a row without any energy."""
        reduced = range_reduce(operand, row_shift, context)
        c_squared, p = split_gain(self.gain(context))
        stage = context.rsqrt.build(
            gain_target(c_squared if self.constant == "table" else Fraction(1))
        )
        mantissa = stage(reduced.parity, reduced.frac)
        if self.constant == "multiplier":
            assert self.constant_bits is not None
            constant = rounded_root(c_squared, self.constant_bits)
            span = (1 << self.constant_bits, 2 << self.constant_bits)
            product = mantissa * ops.parameter("constant", constant, operand, span)
            mantissa = ops.round_shift(product, self.constant_bits, Rounding.RND)
        mantissa = ops.select(reduced.is_zero, 0, mantissa)
        shift = reduced.half + exponent_offset(context.rsqrt.o - p - context.guard // 2, operand)
        return ops.named("mantissa", mantissa), ops.named("shift", shift)

    @property
    def adds_one(self) -> bool:
        return self.order == "gemma"

    def weight_offset(self, context: Context) -> int:
        if not self.adds_one:
            return 0
        one = 1 / context.gamma.scale
        if one.denominator != 1:
            raise ApproxNormError(
                f'gamma has scale {float(context.gamma.scale)}; order "gemma" adds 1 to it;'
                " allowed: a scale of 2**-n"
            )
        return one.numerator

    def _weight(self, gamma: Any, context: Context) -> Any:
        zero = context.gamma.zero_point
        offset = self.weight_offset(context) - zero
        if self.adds_one:  # 1 in LSBs of gamma, whose scale is the layer's
            span = (1 - zero, (1 << context.gamma.width) - zero)
            offset = ops.setting("gamma_offset", offset, gamma, span)
        return gamma + offset if isinstance(offset, Signal) or offset else gamma

    def _fused(self, context: Context, x: Any, gamma: Any, mantissa: Any, shift: Any) -> Any:
        weighted = ops.named("weighted", x * self._weight(gamma, context))
        product = ops.named("product", weighted * mantissa)
        return ops.named("y", shift_and_limit(product, shift, context.y))

    def _cast_first(self, context: Context, x: Any, gamma: Any, mantissa: Any, shift: Any) -> Any:
        assert self.intermediate is not None
        middle = self.intermediate.to_format("normalize.intermediate")
        cast = shift_and_limit(x * mantissa, shift, middle, zero_point=False)
        product = ops.named("normalized", cast) * self._weight(gamma, context)
        product = ops.named("product", product)
        span = (-MAX_OFFSET, MAX_OFFSET)
        amount = ops.setting("cast_shift", _static_shift(middle, context), product, span)
        return ops.named("y", shift_and_limit(product, amount, context.y))


def _static_shift(middle: Format, context: Context) -> int:
    """The power of two between intermediate * gamma and y."""
    ratio = context.y.scale / (middle.scale * context.gamma.scale)
    bits = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    if ratio != Fraction(2) ** bits:
        raise ApproxNormError(
            "normalize.intermediate: its scale times gamma's must be y's times a power of two;"
            f" found y/(intermediate*gamma) = {float(ratio)}; use power-of-two scales"
        )
    return bits
