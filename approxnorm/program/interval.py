"""Closed integer intervals: what is known of a signal before any data is seen."""

from __future__ import annotations

from dataclasses import dataclass

from approxnorm.errors import ApproxNormError

MAX_SIGNAL_BITS = 63


@dataclass(frozen=True)
class Interval:
    """All integers from ``lo`` to ``hi``, both included."""

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise AssertionError(f"empty interval {self.lo}..{self.hi}")

    @property
    def signed(self) -> bool:
        return self.lo < 0

    @property
    def width(self) -> int:
        """Bits of the narrowest ap_int (if signed) or ap_uint that holds the interval."""
        return max(1, bits_signed(self.lo, self.hi) - (not self.signed))

    @property
    def type_name(self) -> str:
        """The type in C++ terms: ap_int<W> or ap_uint<W>."""
        return f"ap_{'' if self.signed else 'u'}int<{self.width}>"

    def __contains__(self, value: int) -> bool:
        return self.lo <= value <= self.hi

    def hull(self, other: Interval) -> Interval:
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))


def bits_signed(lo: int, hi: int) -> int:
    """Bits of the narrowest two's complement type that holds [lo, hi]."""
    return max((~lo if lo < 0 else lo).bit_length(), (~hi if hi < 0 else hi).bit_length()) + 1


def check_width(interval: Interval, what: str) -> None:
    """Refuse a signal that does not fit 63-bit two's complement (int64 less a rounding bit)."""
    bits = bits_signed(interval.lo, interval.hi)
    if bits > MAX_SIGNAL_BITS:
        raise WidthError(what, bits)


class WidthError(ApproxNormError):
    """A signal would pass 63 bits; the spec's builder adds which field to change."""

    def __init__(self, what: str, bits: int, advice: str = "") -> None:
        self.what, self.bits = what, bits
        super().__init__(
            f"signal {what} needs {bits} signed bits; at most {MAX_SIGNAL_BITS} are allowed"
            + (f"; {advice}" if advice else "")
        )
