"""Rounding and overflow modes, named as in ap_fixed (UG1399) without the ``AP_`` prefix."""

from __future__ import annotations

from enum import StrEnum


class Rounding(StrEnum):
    """How a value between two codes becomes a code."""

    TRN = "TRN"  # toward minus infinity: an arithmetic right shift
    TRN_ZERO = "TRN_ZERO"  # toward zero: C's integer division
    RND = "RND"  # to nearest, ties toward plus infinity: floor(v + 1/2)
    RND_ZERO = "RND_ZERO"  # to nearest, ties toward zero
    RND_MIN_INF = "RND_MIN_INF"  # to nearest, ties toward minus infinity
    RND_INF = "RND_INF"  # to nearest, ties away from zero: C's round()
    RND_CONV = "RND_CONV"  # to nearest, ties to even: np.rint, ONNX Round


class Overflow(StrEnum):
    """What a code outside the format becomes; it applies after rounding."""

    WRAP = "WRAP"  # modulo 2**width
    SAT = "SAT"  # the nearest limit
    SAT_ZERO = "SAT_ZERO"  # zero
    SAT_SYM = "SAT_SYM"  # the nearest of -max and max; also moves the lone minimum to -max
