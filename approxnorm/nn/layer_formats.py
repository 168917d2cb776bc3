"""Formats between specs, Brevitas' quantisers and keywords, for QuantRMSNorm."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from brevitas.quant_tensor import IntQuantTensor

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format
from approxnorm.methods.format_field import FormatSpec
from approxnorm.nn.quantizers import SpecActQuant, SpecWeightQuant
from approxnorm.spec import RMSNormSpec

SLOTS = {"x": "input_quant", "gamma": "weight_quant", "y": "output_quant"}
_NUMBERS = (
    *("bit_width", "signed", "zero_point", "rounding", "overflow"),
    *("scaling_impl_type", "restrict_scaling_type"),
)


def row_length(normalized_shape: int | Sequence[int]) -> int:
    sizes = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    if len(sizes) != 1:
        raise ApproxNormError(
            f"normalized_shape is {tuple(sizes)}; allowed: one number, as rows are the last axis"
        )
    return int(sizes[0])


def quantizer_numbers(
    spec: RMSNormSpec, quantizers: dict[str, Any], learn_scales: bool
) -> dict[str, Any]:
    """The keywords that make our quantisers those of the spec."""
    kwargs: dict[str, Any] = {}
    for name, quantizer in quantizers.items():
        if not is_ours(quantizer):
            continue
        form: FormatSpec = getattr(spec.replace(**{name: getattr(spec, name).with_modes()}), name)
        power_of_two = form.scale is None and form.calibrate == "pow2"
        power_of_two |= form.scale is not None and is_power_of_two(form.scale)
        numbers = {
            "bit_width": form.bits,
            "signed": form.signed,
            "zero_point": form.zero_point,
            "rounding": form.rounding,
            "overflow": form.overflow,
            "scaling_impl_type": "parameter" if learn_scales else "const",
            "restrict_scaling_type": "power_of_two" if learn_scales and power_of_two else "fp",
        }
        prefix = SLOTS[name].removesuffix("quant")
        kwargs |= {f"{prefix}{key}": value for key, value in numbers.items()}
    return kwargs


def require_known_keywords(kwargs: dict[str, Any], quantizers: dict[str, Any]) -> None:
    """Keywords begin with a slot; our quantisers know those that _numbers gives."""
    prefixes = {name: slot.removesuffix("quant") for name, slot in SLOTS.items()}
    for key in kwargs:
        slot = next((n for n, prefix in prefixes.items() if key.startswith(prefix)), None)
        allowed = ", ".join(prefixes.values())
        if slot is not None:
            if not is_ours(quantizers[slot]) or key.removeprefix(prefixes[slot]) in _NUMBERS:
                continue
            allowed = ", ".join(prefixes[slot] + number for number in _NUMBERS)
        raise TypeError(
            f"QuantRMSNorm got the keyword {key}; allowed besides its own: numbers of its"
            f" quantisers, {allowed}{'...' if slot is None else ''}"
        )


def is_ours(quantizer: Any) -> bool:
    return quantizer in (SpecActQuant, SpecWeightQuant)


def format_spec(form: Format) -> FormatSpec:
    return FormatSpec(
        bits=form.width,
        signed=form.signed,
        scale=float(form.scale),
        zero_point=form.zero_point,
        rounding=form.rounding,
        overflow=form.overflow,
    )


def with_scale(form: FormatSpec, bits: int, signed: bool, scale: float | None) -> FormatSpec:
    form = form.with_modes().model_copy(update={"bits": bits, "signed": signed})
    return form if scale is None else form.with_scale(scale)


def as_quantised(form: FormatSpec, quantised: Format) -> FormatSpec:
    """A format with its scale, open or not, and all else as a quantiser has it."""
    return form.model_copy(
        update={
            "bits": quantised.width,
            "signed": quantised.signed,
            "zero_point": quantised.zero_point,
            "rounding": quantised.rounding,
            "overflow": quantised.overflow,
        }
    )


def shape_of(form: FormatSpec) -> str:
    """What calibration does not change."""
    kind, full = "signed" if form.signed else "unsigned", form.with_modes()
    return (
        f"{form.bits} bits, {kind}, zero point {form.zero_point}, {full.rounding}, {full.overflow}"
    )


def is_power_of_two(scale: float) -> bool:
    fraction = Fraction(scale)
    return fraction.numerator & (fraction.numerator - 1) == 0


def parameter_codes(tensor: IntQuantTensor) -> np.ndarray:
    """The codes of a parameter."""
    codes = (tensor.value / tensor.scale).round() + tensor.zero_point
    integers: np.ndarray = codes.detach().to("cpu", torch.int64).numpy()
    return integers
