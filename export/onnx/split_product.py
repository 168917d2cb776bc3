"""The last rounding of a product that float32 does not hold, in float32 nevertheless.

The row's factor is split in two, m = m1 + m0, so that x*m1 and x*m0 are exact. With
U = x*m1*2**-s and T = x*m0*2**-s the value to be rounded is U + T. One large constant M, whose
neighbours in float32 are one apart, takes the integer part out of U: z = U + M, rounded.
The rest, w = (U - (z - M)) + T, is exact; so z + w is rounded once, to an integer, half to even,
and (z + w) - M is round(U + T). Twice as fast as float64 in ONNX Runtime.
"""

from __future__ import annotations

from approxnorm.export.onnx import powers
from approxnorm.export.onnx.body import Body, Value
from approxnorm.export.onnx.carriers import FLOAT32_EXACT, Carrier, magnitude
from approxnorm.export.onnx.emitter import ProgramEmitter
from approxnorm.program import Interval, Node

_LARGE = 3 << 22  # 1.5 * 2**23: sums with less than 2**22 stay where float32 holds integers only
_REACH = 1 << 22


def split_product(e: ProgramEmitter, node: Node) -> Value | None:
    """The rounded value of a round-shift of a product, in float32; None where it is not that."""
    value, amount = node.args
    span = e.interval(amount)
    product = e.program.nodes[value]
    if e.carrier(node) is Carrier.F32 or product.op != "mul" or e.level(product) != "element":
        return None
    if e.level_of(amount) != "row" or span.lo < 0:
        return None
    factors = sorted(product.args, key=lambda a: e.level_of(a) == "element")
    row, element = factors
    if e.level_of(row) != "row" or e.level_of(element) != "element":
        return None
    low = _low_bits(e.interval(element), e.interval(row), e.interval(value), span)
    if low is None:
        return None
    return _emit(e, element, row, low, amount)


def _low_bits(x: Interval, m: Interval, product: Interval, amount: Interval) -> int | None:
    """How many bits m0 has, if every step is exact with so many."""
    most = magnitude(x)
    low = max(0, (most * magnitude(m)).bit_length() - 24)
    rest = (1 << max(amount.hi - 1, 0)) + (most << low)  # |w| in units of 2**-s
    exact = (
        m.lo >= 0
        and most <= FLOAT32_EXACT
        and most * ((m.hi >> low) + 1) <= FLOAT32_EXACT
        and most << low <= FLOAT32_EXACT
        and rest <= FLOAT32_EXACT
        and magnitude(product) >> amount.lo < _REACH - (most << low >> amount.lo) - 2
    )
    return low if exact else None


def _emit(e: ProgramEmitter, element: int, row: int, low: int, amount: int) -> Value:
    body, x = e.body, e.value(element, Carrier.F32)
    scale = powers.power(body, e.value(amount), e.interval(amount), Carrier.F64, sign=-1)
    high_part, low_part = _split(body, e.value(row, Carrier.F64), low)
    upper = _times(body, x, high_part, scale)
    lower = _times(body, x, low_part, scale)
    large = body.const(_LARGE, Carrier.F32)
    whole = body.call("Add", upper, large)
    rest = body.call("Sub", upper, body.call("Sub", whole, large))
    rounded = body.call("Add", whole, body.call("Add", rest, lower))
    return body.call("Sub", rounded, large)


def _split(body: Body, m: Value, low: int) -> tuple[Value, Value]:
    """m1, the multiple of 2**low, and m0, both >= 0."""
    size = body.const(1 << low, Carrier.F64)
    upper = body.call("Mul", powers.floor_shift(body, m, low), size)
    return upper, body.call("Sub", m, upper)


def _times(body: Body, x: Value, m: Value, scale: Value) -> Value:
    return body.call("Mul", x, body.cast(body.call("Mul", m, scale), Carrier.F32))
