"""What QONNX's Quant calls a format's modes, and which formats it has none for."""

from __future__ import annotations

from dataclasses import dataclass

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format, Overflow, Rounding

# HALF_UP and HALF_DOWN are away from and towards zero. ROUND is what Brevitas writes for half to
# even (HALF_EVEN is a synonym), and the only one that QONNX's conversion to QCDQ takes.
ROUNDING_NAMES = {
    Rounding.RND_CONV: "ROUND",
    Rounding.RND_INF: "HALF_UP",
    Rounding.RND_ZERO: "HALF_DOWN",
    Rounding.TRN: "FLOOR",
    Rounding.TRN_ZERO: "DOWN",
}
_HALVES = (Rounding.RND_INF, Rounding.RND_ZERO)
_CODES = 'or export the form "codes", which leaves quantising to its neighbours'


@dataclass(frozen=True)
class QuantModes:
    """Quant's attributes and its bit width, for codes (scale 1, zero point 0)."""

    bits: int
    signed: bool
    narrow: bool
    rounding: str


def quant_modes(field: str, form: Format) -> QuantModes:
    """The Quant of a format.

    field: "x" or "y", for messages. Raises ApproxNormError, by name, for modes, widths and zero
    points that QONNX's Quant does not have or would not compute exactly in float32.
    """
    if form.rounding not in ROUNDING_NAMES:
        named = ", ".join(f"{ours} ({theirs})" for ours, theirs in ROUNDING_NAMES.items())
        raise ApproxNormError(
            f"{field}.rounding is {form.rounding}, for which QONNX has no name; allowed: {named};"
            f" change it, {_CODES}"
        )
    if form.overflow not in (Overflow.SAT, Overflow.SAT_SYM):
        raise ApproxNormError(
            f"{field}.overflow is {form.overflow}, which QONNX's Quant does not have; allowed: SAT,"
            f" SAT_SYM; change it, {_CODES}"
        )
    if form.signed and form.width == 1:
        raise ApproxNormError(
            f"{field} has 1 signed bit, which is BIPOLAR (-1 and 1) to QONNX; allowed: 2 bits or"
            f" more; change it, {_CODES}"
        )
    widest = _widest(form)
    if form.width > widest:
        raise ApproxNormError(
            f"{field} has {form.width} bits; allowed in float32, in which QONNX's Quant rounds:"
            f" {widest} ({'signed' if form.signed else 'unsigned'}, {form.rounding}); change it,"
            f" {_CODES}"
        )
    # An unsigned narrow range would lose the largest code; SAT_SYM does not.
    narrow = form.signed and form.overflow is Overflow.SAT_SYM
    return QuantModes(form.width, form.signed, narrow, ROUNDING_NAMES[form.rounding])


def _widest(form: Format) -> int:
    """Bits up to which Quant is exact: codes below 2**24, or 2**23 where it adds a half."""
    return (23 if form.rounding in _HALVES else 24) + form.signed
