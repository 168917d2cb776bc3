"""Number formats: what an integer code means, and how a real value becomes one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.formats.modes import Overflow, Rounding
from approxnorm.formats.rounding import limit

_Mode = TypeVar("_Mode", Rounding, Overflow)

MAX_WIDTH = 48
MAX_FRAC_BITS = 100  # keeps every fixed-point scale a normal float32

_FIXED = re.compile(
    r"^\s*ap_(?P<u>u?)fixed\s*<\s*(?P<w>[+-]?\d{1,9})\s*,\s*(?P<i>[+-]?\d{1,9})\s*"
    r"(?:,\s*(?:AP_)?(?P<q>\w+)\s*(?:,\s*(?:AP_)?(?P<o>\w+)\s*)?)?>\s*$"
)


@dataclass(frozen=True)
class Format:
    """``real = scale * (code - zero_point)``, with codes of ``width`` bits.

    A power-of-two scale with zero point 0 is plain fixed point and reads and prints as
    ``ap_fixed<W,I,Q,O>`` (I counts the sign bit). Modes that are not given are RND_CONV and SAT,
    not ap_fixed's TRN and WRAP: activations would wrap.

    Raises ApproxNormError for impossible widths, scales or zero points.
    """

    width: int
    signed: bool
    scale: Fraction
    zero_point: int = 0
    rounding: Rounding = Rounding.RND_CONV
    overflow: Overflow = Overflow.SAT

    def __post_init__(self) -> None:
        _check_width(self.width)
        if float32_fraction(self.scale) != self.scale:
            raise ApproxNormError(
                f"scale is {float(self.scale)!r}; allowed: a value that float32 holds exactly"
            )
        if not self.lo <= self.zero_point <= self.hi:
            raise ApproxNormError(
                f"zero_point is {self.zero_point}; it must be a code, {self.lo} to {self.hi}"
            )
        if self.zero_point and self.overflow is Overflow.SAT_SYM:
            raise ApproxNormError("SAT_SYM needs zero_point 0: symmetric about zero")

    @property
    def lo(self) -> int:
        """The smallest code of the width (SAT_SYM never yields it, but it may be fed)."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def hi(self) -> int:
        """The largest code."""
        return (1 << (self.width - 1)) - 1 if self.signed else (1 << self.width) - 1

    @property
    def frac_bits(self) -> int | None:
        """Fraction bits when the scale is a power of two, else None."""
        n, d = self.scale.numerator, self.scale.denominator
        if n == 1 and d & (d - 1) == 0:
            return d.bit_length() - 1
        if d == 1 and n & (n - 1) == 0:
            return 1 - n.bit_length()
        return None

    @property
    def is_fixed_point(self) -> bool:
        """True when it prints as ap_fixed: a power-of-two scale and zero point 0.

        Scales beyond what ``parse_fixed`` reads print as scales, though powers of two they may be.
        """
        frac_bits = self.frac_bits
        return frac_bits is not None and abs(frac_bits) <= MAX_FRAC_BITS and self.zero_point == 0

    def __str__(self) -> str:
        u = "" if self.signed else "u"
        if self.is_fixed_point:
            integer = self.width - (self.frac_bits or 0)
            return f"ap_{u}fixed<{self.width},{integer},{self.rounding},{self.overflow}>"
        kind = "int" if self.signed else "uint"
        zero = f" zero_point={self.zero_point}" if self.zero_point else ""
        return (
            f"{kind}{self.width} scale={np.float32(float(self.scale))!s}{zero}"
            f" {self.rounding} {self.overflow}"
        )

    def with_scale(self, scale: float | Fraction) -> Format:
        """The same format with another scale, rounded to float32."""
        return replace(self, scale=float32_fraction(scale))

    def quantize(self, real: np.ndarray) -> np.ndarray:
        """Real values of any shape to int64 codes: float32 over float32, rounded, limited.

        The division is float32 in every backend, since float32 and float64 disagree on a few
        codes in a million. Infinities (a ratio past float32 is one) lie outside every format: SAT
        and SAT_SYM give the limit, SAT_ZERO zero. ApproxNormError for NaN, and for infinity
        under WRAP.
        """
        with np.errstate(over="ignore"):
            ratio = np.asarray(real, np.float32) / np.float32(float(self.scale))
        ratio = np.asarray(ratio)
        if np.isnan(ratio).any():
            raise ApproxNormError("NaN cannot be quantised; clean the activations first")
        rounded = _round_real(ratio.astype(np.float64), self.rounding)
        return self._limit_real(rounded)

    def _limit_real(self, rounded: np.ndarray) -> np.ndarray:
        lo, hi = self.lo - self.zero_point, self.hi - self.zero_point
        codes: np.ndarray
        if self.overflow is Overflow.WRAP:
            if np.isinf(rounded).any():
                raise ApproxNormError("infinity cannot wrap; use overflow SAT or clean the data")
            # fmod is exact, and keeps the value inside int64.
            codes = np.fmod(rounded, float(1 << self.width)).astype(np.int64)
        else:
            codes = np.clip(rounded, lo - 1, hi + 1).astype(np.int64)
        return np.asarray(limit(codes, lo, hi, self.overflow) + self.zero_point)

    def dequantize(self, codes: np.ndarray) -> np.ndarray:
        """Codes to float64 reals."""
        return (np.asarray(codes, np.int64) - self.zero_point) * float(self.scale)


def _round_real(v: np.ndarray, rounding: Rounding) -> np.ndarray:
    """Round float64 values that came from float32: adding one half to them is then safe."""
    match rounding:
        case Rounding.TRN:
            return np.floor(v)
        case Rounding.TRN_ZERO:
            return np.trunc(v)
        case Rounding.RND_CONV:
            return np.rint(v)
        case Rounding.RND:
            return _half_up(v)
        case Rounding.RND_MIN_INF:
            return -_half_up(-v)
        case Rounding.RND_INF:
            return np.sign(v) * _half_up(np.abs(v))
        case Rounding.RND_ZERO:
            return -np.sign(v) * _half_up(-np.abs(v))
    raise AssertionError(rounding)


def _half_up(v: np.ndarray) -> np.ndarray:
    # Not floor(v + 0.5): for a tiny v the sum would be rounded before the floor.
    floor = np.floor(v)
    with np.errstate(invalid="ignore"):  # inf - inf; the comparison is then False, as it must be
        return floor + (v - floor >= 0.5)


def float32_fraction(value: float | Fraction) -> Fraction:
    """The nearest float32 (by way of float64) as an exact fraction.

    Raises ApproxNormError if that is not above 0, or infinite.
    """
    try:
        double = float(value)
    except OverflowError:  # a fraction past float64
        double = float("inf")
    with np.errstate(over="ignore", under="ignore"):
        rounded = np.float32(double)
    if not np.isfinite(rounded) or rounded <= 0:
        raise ApproxNormError(f"scale is {double!r}; allowed: a positive, finite float32")
    return Fraction(float(rounded))


def _check_width(width: int) -> None:
    if not 1 <= width <= MAX_WIDTH:
        raise ApproxNormError(f"width is {width}; allowed: 1 to {MAX_WIDTH} bits")


def parse_fixed(text: str) -> Format:
    """Read ``ap_fixed<W,I>``, ``ap_ufixed<W,I,Q,O>`` and the like.

    Raises ApproxNormError when the text, a mode, the width or the position is not allowed.
    """
    found = _FIXED.match(text)
    if not found:
        raise ApproxNormError(
            f"found {text!r}; allowed: ap_fixed<W,I>, ap_fixed<W,I,Q> or ap_fixed<W,I,Q,O>"
            " (ap_ufixed for unsigned), or bits, signed and scale"
        )
    width, integer = int(found["w"]), int(found["i"])
    _check_width(width)
    if abs(width - integer) > MAX_FRAC_BITS:
        raise ApproxNormError(
            f"{text!r} has {width - integer} fraction bits;"
            f" allowed: {-MAX_FRAC_BITS} to {MAX_FRAC_BITS}"
        )
    return Format(
        width=width,
        signed=found["u"] == "",
        scale=Fraction(2) ** (integer - width),
        rounding=_mode(Rounding, found["q"] or "RND_CONV"),
        overflow=_mode(Overflow, found["o"] or "SAT"),
    )


def _mode(kind: type[_Mode], name: str) -> _Mode:
    try:
        return kind(name)
    except ValueError:
        allowed = ", ".join(kind.__members__)
        raise ApproxNormError(f"found mode {name!r}; allowed: {allowed}") from None
