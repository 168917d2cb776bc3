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

from approxnorm.backends.torch_ops import round_real
from approxnorm.formats import Format, Overflow, Rounding, lowest


def quantize(x: Tensor, scale: Tensor, form: Format) -> tuple[Tensor, Tensor | None]:
    """Codes less the zero point, as float32, of real float32 x; and where none was limited.

    scale: float32, of one element or one for each channel. The division is float32, as
    ``Format.quantize`` has it; infinities lie outside every format. The second is None where no
    code was limited at all. No gradient.
    """
    lo, hi = form.lo - form.zero_point, form.hi - form.zero_point
    least_code = lowest(lo, hi, form.overflow)
    rounded = round_real(x / scale, form.rounding)
    if not rounded.numel():
        return rounded, None
    least, most = rounded.aminmax()
    if least >= least_code and most <= hi:
        return rounded, None
    return _limited(rounded, lo, hi, form), (rounded >= least_code) & (rounded <= hi)


def _limited(rounded: Tensor, lo: int, hi: int, form: Format) -> Tensor:
    match form.overflow:
        case Overflow.SAT | Overflow.SAT_SYM:
            return rounded.clamp(lowest(lo, hi, form.overflow), hi)
        case Overflow.SAT_ZERO:
            return rounded.masked_fill((rounded < lo) | (rounded > hi), 0)
        case Overflow.WRAP:
            # In float64, where sums of a float32 and a format's ends are exact up to 2**53.
            field = torch.fmod(rounded.to(torch.float64), float(1 << form.width)) - lo
            return (torch.remainder(field, float(1 << form.width)) + lo).to(torch.float32)
    raise AssertionError(form.overflow)


class FakeQuantize(Function):
    """Real x to the real values of its codes.

    Backward: x's gradient passes where no end of the format was passed; the scale's is, per
    element, code minus real value in LSBs there and the code itself outside (Esser et al., Learned
    Step Size Quantization, ICLR 2020, equation 3).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, form: Format) -> Tensor:
        codes, inside = quantize(x, scale, form)
        learned = ctx.needs_input_grad[1]
        ctx.save_for_backward(inside, *((x, scale, codes) if learned else (None, None, None)))
        return codes * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inside, x, scale, codes = ctx.saved_tensors
        grad_x, grad_scale = None, None
        if ctx.needs_input_grad[0]:
            grad_x = grad if inside is None else grad * inside
        if codes is not None:
            grad_scale = scale_gradient(grad, codes, x / scale, inside, scale)
        return grad_x, grad_scale, None


def scale_gradient(
    grad: Tensor, codes: Tensor, ratio: Tensor, inside: Tensor | None, scale: Tensor
) -> Tensor:
    """The gradient of codes * scale with respect to the scale, of the scale's shape."""
    steps = codes - ratio
    if inside is not None:
        steps = torch.where(inside, steps, codes)
    return (grad * steps).sum_to_size(scale.shape)


class FloatRMSNorm(Function):
    """gamma * x / sqrt(mean(x**2) + eps) over the last axis; a row whose root is 0 gives 0.

    x: (..., dim), gamma: (dim,) of the same floating dtype. Such a row's gradient is 0 too, where
    the true one would not be finite.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor, eps: float) -> Tensor:
        root = inverse_root(x, eps)
        ctx.save_for_backward(x, gamma, root)
        return x * root * gamma

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, root = ctx.saved_tensors
        return *rmsnorm_gradients(grad, x * root, gamma, root, ctx.needs_input_grad), None


class HardwareRMSNorm(Function):
    """The value of y's codes, with the gradients of RMSNorm quantised to y's format.

    x: (..., dim), gamma: (dim,), float32; codes: y's, of x's shape, less the zero point; scale: of
    y. Backward is that of FloatRMSNorm and then FakeQuantize; what it needs of the float norm is
    computed there.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gamma: Tensor, scale: Tensor, codes: Tensor, form: Format, eps: float
    ) -> Tensor:
        ctx.save_for_backward(x, gamma, scale, codes)
        ctx.form, ctx.eps = form, eps
        return codes * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma, scale, codes = ctx.saved_tensors
        root, form, grad_scale = inverse_root(x, ctx.eps), ctx.form, None
        normalized = x * root
        if ctx.needs_input_grad[2]:
            ratio = normalized * (gamma / scale)
            inside = ratio.clamp(*_ends(form)) == ratio
            grad_scale = scale_gradient(grad, codes.to(grad.dtype), ratio, inside, scale)
            grad = grad * inside
        elif _may_overflow(codes, form):
            ratio = normalized * (gamma / scale)
            grad = torch.where(ratio.clamp(*_ends(form)) == ratio, grad, 0)
        grads = rmsnorm_gradients(grad, normalized, gamma, root, ctx.needs_input_grad)
        return *grads, grad_scale, None, None, None


def _ends(form: Format) -> tuple[float, float]:
    """Between which real values, in LSBs less the zero point, none passes the format's ends."""
    lo, hi = form.lo - form.zero_point, form.hi - form.zero_point
    below, above = {Rounding.TRN: (0.0, 1.0), Rounding.TRN_ZERO: (1.0, 1.0)}.get(
        form.rounding, (0.5, 0.5)
    )
    return lowest(lo, hi, form.overflow) - below, hi + above


def _may_overflow(codes: Tensor, form: Format) -> bool:
    """Whether a value may have passed an end: where it saturates, its code is at the end."""
    if not codes.numel():
        return False
    if form.overflow not in (Overflow.SAT, Overflow.SAT_SYM):
        return True
    lo, hi = form.lo - form.zero_point, form.hi - form.zero_point
    least, most = codes.aminmax()
    return bool(least <= lowest(lo, hi, form.overflow)) or bool(most >= hi)


def inverse_root(x: Tensor, eps: float) -> Tensor:
    """1 / sqrt(mean(x**2) + eps) of each row, (..., 1); 0 where the root is 0."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)  # one pass
    mean = norm.square_().div_(x.shape[-1]).add_(eps)
    return mean.rsqrt().masked_fill_(mean == 0, 0)


def rmsnorm_gradients(
    grad: Tensor, normalized: Tensor, gamma: Tensor, root: Tensor, wanted: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients with respect to x and gamma; normalized: x * root. May overwrite normalized."""
    grad_x, grad_gamma = None, None
    if wanted[1]:
        grad_gamma = (grad * normalized).sum_to_size(gamma.shape)
    if wanted[0]:
        inner = grad * gamma
        along = torch.linalg.vecdot(inner, normalized).unsqueeze(-1) / inner.shape[-1]
        grad_x = inner.sub_(normalized.mul_(along)).mul_(root)
    return grad_x, grad_gamma


class Replace(Function):
    """The value of ``exact`` with the gradient of ``smooth``; both of one shape."""

    @staticmethod
    def forward(ctx: Any, smooth: Tensor, exact: Tensor) -> Tensor:
        return exact.view_as(exact)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None
