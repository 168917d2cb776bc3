"""RMSNorm as mathematics and as frameworks compute it: what the hardware is measured against.

A row whose mean square plus eps is 0 gives zeros everywhere here, as in the hardware; frameworks
divide 0 by 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from approxnorm.errors import ApproxNormError

Order = Literal["llama", "onnx", "pytorch"]

_EXACT_BITS = 80


def rmsnorm_float64(x: np.ndarray, gamma: np.ndarray, eps: float) -> np.ndarray:
    """gamma * x / sqrt(mean(x**2) + eps) in float64; x (..., dim), gamma (dim,).

    The sum of squares of integers is exact up to 2**53.
    """
    x = np.asarray(x, np.float64)
    gamma = _checked_gamma(x, gamma, np.dtype(np.float64))
    square = np.einsum("...i,...i->...", x, x)[..., None] * (1 / x.shape[-1])
    return x * inverse_root(square + eps) * gamma


def inverse_root(square: np.ndarray) -> np.ndarray:
    """1 / sqrt(square) in the dtype of ``square``; 0 where ``square`` is 0."""
    one, zero = square.dtype.type(1), square.dtype.type(0)
    return np.where(square > 0, one / np.sqrt(np.where(square > 0, square, one)), zero)


def rmsnorm_fp32(
    x: np.ndarray, gamma: np.ndarray, eps: float, order: Order = "llama"
) -> np.ndarray:
    """RMSNorm with every elementwise step rounded to float32, in a framework's order.

    =========== ===================================================== ==========================
    order       steps, r = mean(x*x) + eps in float32                 source
    =========== ===================================================== ==========================
    "llama"     gamma * cast(x * (1 / sqrt(r)))                       transformers, LlamaRMSNorm
    "onnx"      cast(x / sqrt(r)) * gamma                             RMSNormalization, opset 23
    "pytorch"   cast(x * (1 / sqrt(r)) * gamma)                       torch.nn.RMSNorm
    =========== ===================================================== ==========================

    x: (..., dim). float16 input is widened to float32 first and ``cast`` goes back to float16,
    gamma is taken as float16, and the result is float16; any other x is taken as float32, where
    ``cast`` does nothing. eps is rounded to float32. The order in which float32 sums up a row is
    NumPy's (pairwise), as frameworks leave it open; so is the last place of their rsqrt.
    """
    if order not in get_args(Order):
        allowed = ", ".join(get_args(Order))
        raise ApproxNormError(f"order is {order!r}; allowed: {allowed}")
    given = np.asarray(x)
    dtype = given.dtype if given.dtype == np.float16 else np.dtype(np.float32)
    # Large activations do overflow float32 here, and float16 at the cast, as in the frameworks.
    with np.errstate(over="ignore"):
        wide = given.astype(np.float32)
        weight = _checked_gamma(wide, gamma, dtype)
        mean = np.asarray(np.mean(wide * wide, axis=-1, keepdims=True, dtype=np.float32))
        square: np.ndarray = mean + np.float32(eps)
        if order == "pytorch":
            return (wide * inverse_root(square) * weight.astype(np.float32)).astype(dtype)
        if order == "onnx":
            root = np.sqrt(square)
            normal = np.divide(wide, root, out=np.zeros_like(wide), where=root > 0)
        else:
            normal = wide * inverse_root(square)
        return normal.astype(dtype) * weight


def rmsnorm_exact(
    x: Sequence[Fraction | int],
    gamma: Sequence[Fraction | int],
    eps: Fraction,
    bits: int = _EXACT_BITS,
) -> list[Fraction]:
    """One row as exact fractions, each cut to ``bits`` fraction bits: within 2**-bits, toward 0."""
    if len(gamma) != len(x):
        raise ApproxNormError(f"gamma has {len(gamma)} values; allowed: one for each of {len(x)}")
    square = sum((Fraction(v) * v for v in x), Fraction(0)) / len(x) + eps
    if square == 0:
        return [Fraction(0)] * len(x)
    return [signed_root(Fraction(v) * g, square, bits) for v, g in zip(x, gamma, strict=True)]


def signed_root(value: Fraction, square: Fraction, bits: int = _EXACT_BITS) -> Fraction:
    """value / sqrt(square), square > 0, cut to ``bits`` fraction bits toward 0."""
    ratio = value * value / square
    root = math.isqrt((ratio.numerator << (2 * bits)) // ratio.denominator)
    return Fraction(-root if value < 0 else root, 1 << bits)


def _checked_gamma(x: np.ndarray, gamma: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ApproxNormError(f"x has shape {x.shape}; allowed: rows of at least one element")
    weight = np.asarray(gamma)
    if weight.shape != (x.shape[-1],):
        raise ApproxNormError(
            f"gamma has shape {weight.shape}; allowed: ({x.shape[-1]},), one for each channel"
        )
    return weight.astype(dtype)
