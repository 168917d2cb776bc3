"""What the layer's forward and backward passes are made of, as autograd functions.

Roundings have straight-through gradients: that of the value that was rounded, and zero where a
format's end was passed. The norm has the true gradient of RMSNorm.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from approxnorm.formats import Format, Overflow, Rounding


def quantize(x: Tensor, scale: Tensor, form: Format) -> Tensor:
    """Codes less the zero point, as float32, of real float32 x.

    scale: float32, of one element or one for each channel. The division is float32, as
    ``Format.quantize`` has it; infinities lie outside every format. No gradient.
    """
    lo, hi = form.lo - form.zero_point, form.hi - form.zero_point
    rounded = _rounded(x / scale, form.rounding)
    match form.overflow:
        case Overflow.SAT:
            return rounded.clamp_(lo, hi)
        case Overflow.SAT_SYM:
            return rounded.clamp_(max(lo, -max(hi, 1)), hi)
        case Overflow.SAT_ZERO:
            return rounded.masked_fill_((rounded < lo) | (rounded > hi), 0)
        case Overflow.WRAP:
            # In float64, where sums of a float32 and a format's ends are exact up to 2**53.
            field = torch.fmod(rounded.to(torch.float64), float(1 << form.width)) - lo
            return (torch.remainder(field, float(1 << form.width)) + lo).to(torch.float32)
    raise AssertionError(form.overflow)


def _rounded(ratio: Tensor, rounding: Rounding) -> Tensor:
    """A new tensor of ratio rounded to integers."""
    match rounding:
        case Rounding.TRN:
            return ratio.floor()
        case Rounding.TRN_ZERO:
            return ratio.trunc()
        case Rounding.RND_CONV:
            return ratio.round()
        case Rounding.RND:
            return _half_up(ratio)
        case Rounding.RND_MIN_INF:
            return -_half_up(-ratio)
        case Rounding.RND_INF:
            return ratio.sign() * _half_up(ratio.abs())
        case Rounding.RND_ZERO:
            return -ratio.sign() * _half_up(-ratio.abs())
    raise AssertionError(rounding)


def _half_up(v: Tensor) -> Tensor:
    # Not floor(v + 0.5): for a tiny v the sum would be rounded before the floor.
    floor = v.floor()
    return floor + (v - floor >= 0.5)


class FakeQuantize(Function):
    """Real x to the real values of its codes.

    Backward: x's gradient passes where x lies within the format; the scale's is, per element, code
    minus real value in LSBs there and the code itself outside (Esser et al., Learned Step Size
    Quantization, ICLR 2020, equation 3).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, form: Format) -> Tensor:
        codes = quantize(x, scale, form)
        ctx.form = form
        ctx.save_for_backward(x, scale, codes if ctx.needs_input_grad[1] else None)
        return codes * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, codes = ctx.saved_tensors
        inside, grad_x, grad_scale = _inside(x, scale, ctx.form), None, None
        if ctx.needs_input_grad[0]:
            grad_x = grad * inside
        if codes is not None:
            steps = torch.where(inside, codes - x / scale, codes)
            grad_scale = (grad * steps).sum_to_size(scale.shape)
        return grad_x, grad_scale, None


def _inside(x: Tensor, scale: Tensor, form: Format) -> Tensor:
    """Where x is within half an LSB of the format's ends."""
    lo, hi = form.lo - form.zero_point, form.hi - form.zero_point
    ratio = x / scale
    return (ratio >= lo - 0.5) & (ratio <= hi + 0.5)


class FloatRMSNorm(Function):
    """gamma * x / sqrt(mean(x**2) + eps) over the last axis; a row whose root is 0 gives 0.

    x: (..., dim), gamma: (dim,) of the same floating dtype. Such a row's gradient is 0 too, where
    the true one would not be finite.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor, eps: float) -> Tensor:
        root = _inverse_root(x, eps)
        ctx.save_for_backward(x, gamma, root)
        return x * root * gamma

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, root = ctx.saved_tensors
        return *_rmsnorm_gradients(grad, x, gamma, root, ctx.needs_input_grad), None


def _inverse_root(x: Tensor, eps: float) -> Tensor:
    mean = x.square().mean(dim=-1, keepdim=True).add_(eps)
    return mean.rsqrt().masked_fill_(mean == 0, 0)


def _rmsnorm_gradients(
    grad: Tensor, x: Tensor, gamma: Tensor, root: Tensor, wanted: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor | None]:
    grad_x, grad_gamma, normalized = None, None, x * root
    if wanted[0]:
        inner = grad * gamma
        along = (inner * normalized).mean(dim=-1, keepdim=True)
        grad_x = inner.addcmul_(normalized, along, value=-1).mul_(root)
    if wanted[1]:
        grad_gamma = (grad * normalized).sum_to_size(gamma.shape)
    return grad_x, grad_gamma


class Replace(Function):
    """The value of ``exact`` with the gradient of ``smooth``; both of one shape."""

    @staticmethod
    def forward(ctx: Any, smooth: Tensor, exact: Tensor) -> Tensor:
        return exact.view_as(exact)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None
