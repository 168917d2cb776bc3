"""The last rounding of a product that float32 does not hold, in float32 nevertheless.

The row's factor is split in two, m = m1 * 2**k + m0 with k low bits in m0. Of the product
P = x*m = x*m1 * 2**k + x*m0 all that matters above bit k are its bits there, and below whether
they are all 0: no tie lies strictly between two multiples of 2**k. With t = x*m0 * 2**-k,
J = 2*x*m1 + floor(t) + ceil(t) is 2*P/2**k where P is a multiple of 2**k, else the odd number
between ("round to odd", the sticky bit of floating-point units). J is below 2**24, so float32
holds it, and rounding J * 2**(k-1-s) rounds P * 2**-s. A third faster than float64 in ONNX Runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

from approxnorm.export.onnx import powers
from approxnorm.export.onnx.body import Value
from approxnorm.export.onnx.carriers import FLOAT32_EXACT, Carrier, magnitude
from approxnorm.export.onnx.emitter import ProgramEmitter
from approxnorm.program import Interval, Node


@dataclass(frozen=True)
class Product:
    """x (of each element) times m (of the row, >= 0), with k low bits of m; node indices."""

    x: int
    m: int
    low: int


def sticky_product(e: ProgramEmitter, node: Node) -> tuple[Value, Value] | None:
    """J and the power of two that divides it, for a round-shift of a product; else None."""
    product = _split(e, node)
    if product is None:
        return None
    body, x = e.body, e.value(product.x, Carrier.F32)
    m = e.value(product.m, Carrier.F64)
    upper = powers.floor_shift(body, m, product.low)
    whole = body.call("Mul", upper, body.const(1 << product.low, Carrier.F64))
    below = body.call("Mul", body.call("Sub", m, whole), body.const(2.0**-product.low, m.carrier))
    doubled = body.call("Mul", upper, body.const(2, Carrier.F64))
    top = body.call("Mul", x, body.cast(doubled, Carrier.F32))
    t = body.call("Mul", x, body.cast(below, Carrier.F32))
    odd = body.call("Add", body.call("Floor", t), body.call("Ceil", t))
    amount = node.args[1]
    size = powers.power(
        body, e.value(amount), e.interval(amount), Carrier.F32, offset=1 - product.low
    )
    return body.call("Add", top, odd), size


def _split(e: ProgramEmitter, node: Node) -> Product | None:
    value, amount = node.args
    product = e.program.nodes[value]
    if e.carrier(node) is Carrier.F32 or product.op != "mul" or e.level_of(amount) != "row":
        return None
    for x, m in (product.args, product.args[::-1]):
        if e.level_of(x) == "element" and e.level_of(m) == "row":
            low = _low_bits(e.interval(x), e.interval(m), e.interval(amount))
            return None if low is None else Product(x, m, low)
    return None


def _low_bits(x: Interval, m: Interval, amount: Interval) -> int | None:
    """The fewest low bits with which every step is exact, and no tie is lost; None if none are."""
    most = magnitude(x)
    if m.lo < 0:
        return None
    low = next(k for k in range(64) if 2 * most * ((m.hi >> k) + 1) <= FLOAT32_EXACT or k == 63)
    exact = most << low <= FLOAT32_EXACT
    return low if exact and low < amount.lo and amount.hi < 64 else None
