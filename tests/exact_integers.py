"""What rounding, limiting and the operations mean, in exact fractions and Python integers.

Written from the definitions alone, so that the package's own arithmetic can be held against it.
"""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

HALF = Fraction(1, 2)

ROUNDINGS = ("TRN", "TRN_ZERO", "RND", "RND_ZERO", "RND_MIN_INF", "RND_INF", "RND_CONV")
OVERFLOWS = ("WRAP", "SAT", "SAT_ZERO", "SAT_SYM")


def round_exact(value: Fraction, rounding: str) -> int:
    """The integer that a rounding mode makes of an exact value."""
    below = value.numerator // value.denominator
    rest = value - below
    if rest == 0:
        return below
    nearer_zero = below if value > 0 else below + 1
    farther = below + 1 if value > 0 else below
    if rounding == "TRN":
        return below
    if rounding == "TRN_ZERO":
        return nearer_zero
    if rest != HALF:
        return below if rest < HALF else below + 1
    return {
        "RND": below + 1,
        "RND_ZERO": nearer_zero,
        "RND_MIN_INF": below,
        "RND_INF": farther,
        "RND_CONV": below if below % 2 == 0 else below + 1,
    }[rounding]


def limit_exact(code: int, lo: int, hi: int, overflow: str) -> int:
    """The code that an overflow mode makes of an integer of any size."""
    if overflow == "WRAP":
        return (code - lo) % (hi - lo + 1) + lo
    least = lo
    if overflow == "SAT_SYM" and lo < 0:
        # Of a one-bit ap_fixed, -1 is left: test_ap_fixed.py shows it.
        least = -hi if hi > 0 else -1
    if least <= code <= hi:
        return code
    if overflow == "SAT_ZERO":
        return 0
    return hi if code > hi else least


def round_shift_exact(
    value: int, amount: int, rounding: str, limits: tuple[int, int] | None, overflow: str
) -> int:
    """Round ``value / 2**amount``, then limit it."""
    # A signal has 63 bits: past 200, either way, the amount changes nothing any more.
    amount = max(-200, min(amount, 200))
    rounded = round_exact(value * Fraction(2) ** -amount, rounding)
    return rounded if limits is None else limit_exact(rounded, *limits, overflow)


def _mantissa(value: int, frac_bits: int) -> int:
    value = max(value, 1)
    return (value << frac_bits) // 2 ** (value.bit_length() - 1)


# One entry an operation: Python integers in, a Python integer out, attributes by name.
REFERENCE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": lambda a: abs(a),
    "less": lambda a, b: 1 if a < b else 0,
    "equal": lambda a, b: 1 if a == b else 0,
    "select": lambda c, a, b: a if c == 1 else b,
    "min": lambda a, b: a if a < b else b,
    "max": lambda a, b: b if a < b else a,
    "shl": lambda a, amount: a * 2**amount,
    "shr": lambda a, amount: a // 2**amount,
    "bits": lambda a, high, low: a // 2**low % 2 ** (high - low + 1),
    "round_shift": round_shift_exact,
    "lead": lambda a: len(f"{a:b}") - 1,
    "mantissa": _mantissa,
    "lookup": lambda index, table: table.entries[index],
    "isqrt": lambda a: isqrt(a),
    "idiv": lambda a, b: a // b,
    "assume": lambda a, lo, hi: a,
}
