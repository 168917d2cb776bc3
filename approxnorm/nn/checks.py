"""What goes into a QuantRMSNorm, and what is refused; title names the layer in the error."""

from __future__ import annotations

import math

import torch
from brevitas.quant_tensor import IntQuantTensor, QuantTensor
from torch import Tensor

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format
from approxnorm.methods.format_field import FormatSpec
from approxnorm.nn.layer_formats import is_power_of_two
from approxnorm.nn.quantizers import CODE_BITS, EXACT_BITS


def check_rows(title: str, x: Tensor | QuantTensor, dim: int, wraps: bool) -> None:
    """x holds rows of dim real numbers; wraps: its overflow mode has no code for infinities."""
    real = x.value if isinstance(x, QuantTensor) else x
    if not isinstance(real, Tensor):
        raise ApproxNormError(
            f"{title}: x is a {type(x).__name__}; allowed: a torch tensor, or a"
            " QuantTensor of Brevitas"
        )
    if real.dim() == 0 or real.shape[-1] != dim:
        raise ApproxNormError(
            f"{title}: x has shape {tuple(real.shape)}; allowed: rows of {dim}"
            " elements (the hidden size that the layer was made for)"
        )
    if not real.dtype.is_floating_point:
        raise ApproxNormError(f"{title}: x has dtype {real.dtype}; allowed: real numbers")
    if not real.numel():
        return
    least, most = (float(end) for end in real.detach().aminmax())
    if math.isnan(least) or (wraps and math.isinf(max(-least, most))):
        bad = ~torch.isfinite(real) if wraps else torch.isnan(real)
        at = tuple(int(i) for i in torch.nonzero(bad)[0])
        raise ApproxNormError(
            f"{title}: x holds {float(real[at])} at {at}; allowed: numbers (look for the"
            " layer before it that made it, or lower the learning rate)"
        )


def check_format(title: str, x: IntQuantTensor, want: FormatSpec) -> None:
    """A QuantTensor is of the spec's width and sign."""
    bits, signed = int(x.bit_width), bool(x.signed)
    if (bits, signed) != (want.bits, want.signed):
        kind = {True: "signed", False: "unsigned"}
        raise ApproxNormError(
            f"{title}: x is a QuantTensor of {bits} bits, {kind[signed]}; allowed: the"
            f" spec's {want.bits} bits, {kind[want.signed]} (quantise what comes before to"
            " that, or give the layer a spec of that width)"
        )


def check_bits(title: str, name: str, form: Format, scale: float | None) -> None:
    """Codes must be found again from a QuantTensor's float32 value."""
    exact = scale is None or is_power_of_two(scale)
    reach = max(form.hi - form.zero_point, form.zero_point - form.lo)
    if reach > 1 << (EXACT_BITS if exact else CODE_BITS):
        raise ApproxNormError(
            f"{title}: {name} has {form.width} bits, so that codes are up to {reach}"
            f" from their zero; allowed: 2^{CODE_BITS}, or 2^{EXACT_BITS} under a power-of-two"
            " scale, as a QuantTensor's value is float32"
        )


def check_codes(title: str, codes: Tensor, form: Format) -> None:
    """x's codes lie within their format, unless a QuantTensor lies or WRAP met infinity."""
    if not codes.numel():
        return
    least, most = (float(end) for end in codes.aminmax())
    if not (least >= form.lo and most <= form.hi):
        raise ApproxNormError(
            f"{title}: x has codes from {least:g} to {most:g}; allowed: {form.lo} to"
            f" {form.hi} (quantise x to the layer's format, or scale it)"
        )


def in_float32(title: str, x: Tensor | QuantTensor, want: FormatSpec) -> Tensor | QuantTensor:
    """x as float32; a QuantTensor as it is, from which codes can be recovered."""
    if not isinstance(x, QuantTensor):
        return x.to(torch.float32)
    if not isinstance(x, IntQuantTensor):
        raise ApproxNormError(
            f"{title}: x is a {type(x).__name__}; allowed: an IntQuantTensor or real numbers"
        )
    if x.value.dtype != torch.float32 or x.scale.dtype != torch.float32:
        raise ApproxNormError(
            f"{title}: x is a QuantTensor whose value is {x.value.dtype}, from which"
            " codes cannot be recovered; allowed: float32 value and scale, or plain numbers"
        )
    check_format(title, x, want)
    return x
