"""Round, shift and limit integer codes: the one place where these are computed.

Every function works on NumPy integer arrays of any dtype and stays inside that dtype, given the
head room it states. ``approxnorm.program.ops`` wraps them as the round-shift operation; formats
use them to quantise.
"""

from __future__ import annotations

import numpy as np

from approxnorm.formats.modes import Overflow, Rounding

IntArray = np.ndarray


def shift_right(v: IntArray, shift: IntArray, rounding: Rounding) -> IntArray:
    """Round ``v / 2**shift`` to an integer in a named mode.

    ``v`` and ``shift`` broadcast; ``shift`` holds amounts >= 0 of any size, in ``v``'s dtype.
    With L value bits in the dtype (63 for int64), ``|v| <= 2**(L-1)`` must hold: the one spare
    bit takes the half that rounding adds. A shift past L gives the limit of the mode: 0, or -1
    for a negative ``v`` under TRN.
    """
    bits = v.dtype.itemsize * 8 - 1
    if np.max(shift, initial=0) > bits:
        # Past the width only the sign matters: |v| / 2**(bits+1) is below one half.
        v = np.where(shift > bits, np.sign(v), v)
        shift = np.minimum(shift, np.array(bits, shift.dtype))
    if rounding is Rounding.TRN:
        return v >> shift
    if rounding is Rounding.TRN_ZERO:
        return np.sign(v) * (np.abs(v) >> shift)
    return _shift_right_nearest(v, shift, rounding)


def _shift_right_nearest(v: IntArray, shift: IntArray, rounding: Rounding) -> IntArray:
    one = np.array(1, v.dtype)
    # 2**(shift-1), and for shift 0 nothing: (v + 0) >> 0.
    half = np.where(shift > 0, one << np.maximum(shift - one, 0), 0).astype(v.dtype)
    below = np.maximum(half - one, 0)
    match rounding:
        case Rounding.RND:
            return (v + half) >> shift
        case Rounding.RND_MIN_INF:
            return (v + below) >> shift
        case Rounding.RND_INF:
            return (v + np.where(v >= 0, half, below)) >> shift
        case Rounding.RND_ZERO:
            return (v + np.where(v >= 0, below, half)) >> shift
        case Rounding.RND_CONV:
            return _shift_right_even(v, shift, half, below)
    raise AssertionError(rounding)


def _shift_right_even(v: IntArray, shift: IntArray, half: IntArray, below: IntArray) -> IntArray:
    """Ties to even: add half, less one where the kept part is even. In place, as it is hot."""
    odd = v >> shift
    odd &= half > 0 if np.min(shift, initial=1) <= 0 else np.array(1, v.dtype)
    odd += v
    odd += below
    odd >>= shift
    return odd


def lowest(lo: int, hi: int, overflow: Overflow) -> int:
    """The smallest code that a mode yields within limits: -hi under SAT_SYM, else ``lo``.

    ap_fixed has one exception, kept here: a signed SAT_SYM format of one bit still yields -1.
    """
    return max(lo, -max(hi, 1)) if overflow is Overflow.SAT_SYM else lo


def limit(v: IntArray, lo: int, hi: int, overflow: Overflow) -> IntArray:
    """Bring codes into [lo, hi]. WRAP needs hi - lo + 1 to be a power of two."""
    match overflow:
        case Overflow.SAT | Overflow.SAT_SYM:
            return np.clip(v, lowest(lo, hi, overflow), hi)
        case Overflow.SAT_ZERO:
            return np.where((v < lo) | (v > hi), np.array(0, v.dtype), v)
        case Overflow.WRAP:
            return ((v - lo) & (hi - lo)) + lo
    raise AssertionError(overflow)


def shift_left_limited(
    v: IntArray, shift: IntArray, lo: int, hi: int, overflow: Overflow
) -> IntArray:
    """``limit(v << shift)`` for amounts >= 0 of any size, on int64, without leaving int64.

    Limits and ``v`` have at most 63 bits. Under a saturating mode ``v`` is first brought just past
    the limits, which its shifted value passes too; under WRAP the bits that int64 drops are above
    the limits'.
    """
    if overflow is Overflow.WRAP:
        return limit(v << np.minimum(shift, 63), lo, hi, overflow)
    # Shifted this far, any v but 0 has passed the limits; further shifts change nothing.
    shift = np.minimum(shift, max(hi, -lo).bit_length() + 1)
    if np.max(shift, initial=0) > 62:  # limits of 62 or 63 bits: 1 << 63 would leave int64
        v = np.where(shift > 62, 2 * np.sign(v), v)
        shift = np.minimum(shift, 62)
    ceiling = (np.int64(hi) >> shift) + 1
    floor = -((np.int64(-lo) >> shift) + 1)
    return limit(np.clip(v, floor, ceiling) << shift, lo, hi, overflow)
