"""Number formats and their rounding and overflow, exactly as ap_fixed has them."""

from approxnorm.formats.format import MAX_WIDTH, Format, float32_fraction, parse_fixed
from approxnorm.formats.modes import Overflow, Rounding
from approxnorm.formats.rounding import limit, lowest, shift_left_limited, shift_right

__all__ = [
    "MAX_WIDTH",
    "Format",
    "Overflow",
    "Rounding",
    "float32_fraction",
    "limit",
    "lowest",
    "parse_fixed",
    "shift_left_limited",
    "shift_right",
]
