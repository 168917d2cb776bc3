"""How numbers and names are written in the report; a dash stands for what is not defined."""

from __future__ import annotations

import math
import unicodedata
from typing import Any, TypeGuard

DASH = "–"
MINUS = "−"


def is_number(value: Any) -> TypeGuard[float]:
    """True for a finite int or float (no bool): what a plot can show."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond float64
        return False


def count(value: Any) -> str:
    """A whole number with thousands separators; one of more than 15 digits as a power of ten."""
    if isinstance(value, bool) or not isinstance(value, int):
        return real(value)
    if abs(value) >= 10**15:
        return _minus(_power_of_ten(value))
    return _minus(f"{value:,}")


def real(value: Any, digits: int = 3) -> str:
    """A number with ``digits`` significant digits, in scientific notation outside [1e-3, 1e5)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return DASH
    if not is_number(value):
        return _unusual(value)
    if value == 0:
        return "0"
    scientific = f"{value:.{digits - 1}e}"
    exponent = int(scientific.partition("e")[2])  # after rounding: 9.996 has the exponent 1
    if -3 <= exponent < 5:
        return _minus(f"{value:.{max(0, digits - 1 - exponent)}f}")
    return _minus(_short_exponent(scientific))


def fixed(value: Any, places: int) -> str:
    """A number with ``places`` decimals, for columns that are compared down the page."""
    if not is_number(value) or abs(value) >= 1e9:
        return real(value)
    text = f"{value:.{places}f}"
    return _minus(text) if float(text) else text.lstrip("-")


def share(part: Any, whole: Any) -> str:
    """part of whole in percent; never "0 %" for a part that is there, nor "100 %" for nearly all.

    None, or a whole of 0, gives a dash.
    """
    if not is_number(part) or not is_number(whole) or whole <= 0:
        return DASH
    if part == 0:
        return "0 %"
    if part == whole:
        return "100 %"
    percent = 100 * part / whole
    if percent < 0.01:
        return "< 0.01 %"
    if percent > 99.99:
        return "> 99.99 %"
    return f"{percent:.{2 if percent < 10 or percent > 99 else 1}f} %"


def clean(text: Any) -> str:
    """Text on one line, without control and formatting characters (those that reverse it, say)."""
    kinds = ((c, unicodedata.category(c)) for c in str(text))
    return "".join(" " if kind[0] in "CZ" else c for c, kind in kinds).strip() or "(no name)"


def shortened(text: Any, limit: int) -> str:
    """Clean text of at most ``limit`` characters: the middle gives way to an ellipsis."""
    line = clean(text)
    if len(line) <= limit:
        return line
    head = (limit - 1) // 2
    return f"{line[:head]}…{line[len(line) - (limit - 1 - head) :]}"


def _unusual(value: float) -> str:
    if isinstance(value, int):
        return _minus(_power_of_ten(value))
    if math.isnan(value):
        return DASH
    return "∞" if value > 0 else f"{MINUS}∞"


def _power_of_ten(value: int) -> str:
    """The first three digits and the exponent, without a float: any size is possible."""
    digits = str(abs(value))
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:3]}e{len(digits) - 1}"


def _short_exponent(scientific: str) -> str:
    mantissa, _, exponent = scientific.partition("e")
    return f"{mantissa}e{int(exponent)}"


def _minus(text: str) -> str:
    """A typographic sign in front; exponents keep the hyphen that programs read."""
    return MINUS + text[1:] if text.startswith("-") else text
