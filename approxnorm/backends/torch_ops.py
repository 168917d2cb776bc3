"""The operations of a program on torch's integer tensors.

Each takes int32 or int64 tensors of one dtype, which the executor has chosen wide enough for the
arguments, the result and the operation's head room, and gives that dtype. The semantics are in
docs/datapath.md.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from approxnorm.formats import Overflow, Rounding, lowest

VALUE_BITS = {torch.int32: 31, torch.int64: 63}


def less(a: Tensor, b: Tensor) -> Tensor:
    """1 where a < b, else 0."""
    return (a < b).to(a.dtype)


def equal(a: Tensor, b: Tensor) -> Tensor:
    """1 where a == b, else 0."""
    return (a == b).to(a.dtype)


def select(condition: Tensor, if_one: Tensor, if_zero: Tensor) -> Tensor:
    """if_one where condition is 1, if_zero where it is 0; by bits, as torch.where is far slower."""
    return if_zero ^ ((if_one ^ if_zero) & -condition)


def bits(a: Tensor, high: int, low: int) -> Tensor:
    """The field a[high:low]. One that passes the dtype is of a value >= 0: its upper bits are 0."""
    size = min(high - low + 1, VALUE_BITS[a.dtype])
    return (a >> low) & ((1 << size) - 1)


def assume(a: Tensor, lo: int, hi: int, reason: str) -> Tensor:
    """The value itself: the NumPy model checks assumptions."""
    return a


def lead(a: Tensor) -> Tensor:
    """floor(log2 a) of a >= 0; 0 for 0."""
    # float64 may round a wide integer up to the next power of two; the comparison takes it back.
    wide = a.to(torch.int64).clamp(min=1)
    position = torch.frexp(wide.to(torch.float64)).exponent.to(torch.int64) - 1
    too_high = (torch.ones_like(position) << position.clamp(max=62)) > wide
    return (position - too_high.to(torch.int64)).clamp(max=62).to(a.dtype)


def mantissa(a: Tensor, frac_bits: int) -> Tensor:
    """a >= 0 with frac_bits bits below its leading one, truncated; of 0 as of 1."""
    wide = a.to(torch.int64).clamp(min=1)
    position = lead(wide)
    down, up = (position - frac_bits).clamp(min=0), (frac_bits - position).clamp(min=0)
    return ((wide >> down) << up).to(a.dtype)


def take(entries: Tensor, index: Tensor) -> Tensor:
    """entries[index], of index's shape."""
    return entries.index_select(0, index.reshape(-1)).view(index.shape)


def isqrt(a: Tensor) -> Tensor:
    """floor(sqrt a) of a >= 0."""
    wide = a.to(torch.int64)
    root = torch.sqrt(wide.to(torch.float64)).to(torch.int64)  # IEEE sqrt: off by one at most
    root -= (root * root > wide).to(torch.int64)
    root += ((root + 1) * (root + 1) <= wide).to(torch.int64)
    return root.to(a.dtype)


def idiv(a: Tensor, b: Tensor) -> Tensor:
    """floor(a / b) of a >= 0 and b >= 1."""
    return torch.div(a, b, rounding_mode="floor")


OPERATIONS: dict[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "neg": torch.neg,
    "abs": torch.abs,
    "less": less,
    "equal": equal,
    "select": select,
    "min": torch.minimum,
    "max": torch.maximum,
    "shl": lambda a, amount: a << amount,
    "shr": lambda a, amount: a >> amount,
    "bits": bits,
    "assume": assume,
    "lead": lead,
    "mantissa": mantissa,
    "isqrt": isqrt,
    "idiv": idiv,
}


# --- rounding -------------------------------------------------------------------------------------


def shift_right(v: Tensor, shift: Tensor, rounding: Rounding, largest: int) -> Tensor:
    """v / 2**shift rounded, for amounts from 0 to ``largest``; v has a bit of head room."""
    last = VALUE_BITS[v.dtype]
    if largest > last:  # past the width only the sign matters: |v| / 2**(last+1) is below one half
        v = torch.where(shift > last, torch.sign(v), v)
        shift = shift.clamp(max=last)
    if rounding is Rounding.TRN:
        return v >> shift
    if rounding is Rounding.TRN_ZERO:
        return torch.sign(v) * (torch.abs(v) >> shift)
    return _nearest(v, shift, rounding)


def _nearest(v: Tensor, shift: Tensor, rounding: Rounding) -> Tensor:
    # 2**(shift-1), and for shift 0 nothing; amounts are of a row mostly, so this is little work.
    half = (torch.ones_like(shift) << (shift - 1).clamp(min=0)) * (shift > 0).to(shift.dtype)
    below = (half - 1).clamp(min=0)
    match rounding:
        case Rounding.RND:
            return (v + half) >> shift
        case Rounding.RND_MIN_INF:
            return (v + below) >> shift
        case Rounding.RND_INF:
            return (v + torch.where(v >= 0, half, below)) >> shift
        case Rounding.RND_ZERO:
            return (v + torch.where(v >= 0, below, half)) >> shift
        case Rounding.RND_CONV:
            odd = (v >> shift) & (half > 0).to(v.dtype)
            return odd.add_(v).add_(below).bitwise_right_shift_(shift)
    raise AssertionError(rounding)


def limit(v: Tensor, lo: int, hi: int, overflow: Overflow) -> Tensor:
    """v brought into [lo, hi], which may pass the dtype: there it limits nothing."""
    info = torch.iinfo(v.dtype)
    if overflow is Overflow.WRAP:
        wide = v.to(torch.int64) if lo < info.min or hi > info.max else v
        return ((wide - lo) & (hi - lo)) + lo
    if overflow is Overflow.SAT_ZERO:
        outside = (v < max(lo, info.min)) | (v > min(hi, info.max))
        return v.masked_fill(outside, 0)
    return v.clamp(max(lowest(lo, hi, overflow), info.min), min(hi, info.max))


def shift_left_limited(v: Tensor, shift: Tensor, lo: int, hi: int, overflow: Overflow) -> Tensor:
    """v * 2**shift brought into [lo, hi], for amounts >= 0, in int64 and without leaving it.

    Under a saturating mode v is first brought just past the limits, which its shifted value passes
    too; under WRAP the bits that int64 drops are above the limits'.
    """
    if overflow is Overflow.WRAP:
        shifted = torch.where(shift > 63, torch.zeros_like(v), v << shift.clamp(max=63))
        return limit(shifted, lo, hi, overflow)
    # Shifted this far, any v but 0 has passed the limits; further shifts change nothing.
    shift = shift.clamp(max=max(hi, -lo).bit_length() + 1)
    v = torch.where(shift > 62, 2 * torch.sign(v), v)  # 1 << 63 would leave int64
    shift = shift.clamp(max=62)
    ceiling = (torch.full_like(shift, hi) >> shift) + 1
    floor = -((torch.full_like(shift, -lo) >> shift) + 1)
    within = torch.minimum(torch.maximum(v, floor), ceiling)
    return limit(within << shift, lo, hi, overflow)


# --- in float64 -----------------------------------------------------------------------------------


def round_shift_real(
    v: Tensor, power: Tensor, rounding: Rounding, limits: tuple[int, int] | None
) -> Tensor:
    """v * power rounded to integers within limits, in float64; power: a power of two.

    Exact for integers of up to 53 bits: so is the product, whatever the power, and its rounding.
    """
    rounded = round_real(v.to(torch.float64) * power, rounding)
    return rounded if limits is None else rounded.clamp_(*limits)


def round_real(ratio: Tensor, rounding: Rounding) -> Tensor:
    """ratio rounded to integers, perhaps in place."""
    match rounding:
        case Rounding.TRN:
            return ratio.floor_()
        case Rounding.TRN_ZERO:
            return ratio.trunc_()
        case Rounding.RND_CONV:
            return ratio.round_()
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
