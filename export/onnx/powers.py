"""Powers of two, shifts and bit fields: exact in every carrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from approxnorm.export.onnx.body import Body, Value
from approxnorm.export.onnx.carriers import Carrier
from approxnorm.program import Interval
from approxnorm.program.interval import MAX_SIGNAL_BITS


def floor_shift(body: Body, value: Value, amount: int) -> Value:
    """floor(value / 2**amount) for a constant amount >= 0."""
    if amount == 0:
        return value
    amount = min(amount, MAX_SIGNAL_BITS - 1)  # further shifts leave 0 or -1 as well
    if value.carrier.is_float:
        scaled = body.call("Mul", value, body.const(2.0**-amount, value.carrier))
        return body.call("Floor", scaled)
    return floor_divide(body, value, body.const(1 << amount, Carrier.I64))


def modulo(body: Body, value: Value, bits: int) -> Value:
    """value mod 2**bits, from 0 on."""
    if not value.carrier.is_float:
        return body.call("Mod", value, body.const(1 << bits, Carrier.I64))
    size = body.const(1 << bits, value.carrier)
    whole = body.call("Mul", floor_shift(body, value, bits), size)
    return body.call("Sub", value, whole)


def floor_divide(body: Body, value: Value, divisor: Value) -> Value:
    """floor(value / divisor) in int64 for a divisor >= 1."""
    return floor_and_rest(body, value, divisor)[0]


def floor_and_rest(body: Body, value: Value, divisor: Value) -> tuple[Value, Value]:
    """floor(value / divisor), and what is left of it, in int64; Div alone rounds towards zero."""
    rest = body.call("Mod", value, divisor)  # from 0 on, as the divisor is positive
    return body.call("Div", body.call("Sub", value, rest), divisor), rest


def power(
    body: Body,
    amount: Value,
    span: Interval,
    carrier: Carrier,
    *,
    offset: int = 0,
    sign: int = 1,
    least: int | None = None,
) -> Value:
    """2**(offset + sign * amount), from a table of what the span of the amount allows.

    least: exponents below it are taken as it.
    """
    exponents = [offset + sign * a for a in range(span.lo, span.hi + 1)]
    if least is not None:
        exponents = [max(e, least) for e in exponents]
    if carrier is Carrier.I64:
        entries = np.array([1 << e for e in exponents], np.int64)
    else:
        entries = np.ldexp(carrier.dtype.type(1), exponents).astype(carrier.dtype)
    return by_amount(body, amount, span, entries, carrier)


def by_amount(
    body: Body, amount: Value, span: Interval, entries: np.ndarray, carrier: Carrier
) -> Value:
    """The entry for each amount, of which there is one for every integer of its span."""
    index = body.cast(amount, Carrier.I64)
    if span.lo:
        index = body.call("Sub", index, body.const(span.lo, Carrier.I64))
    return gather(body, Value(body.tensor(entries), carrier, "const"), len(entries), index)


# onnx.reference has no GatherElements past so many entries.
_FEW = 31


def gather(body: Body, table: Value, size: int, index: Value) -> Value:
    """table[index] for a table of one axis and ``size`` entries, and an int64 index."""
    if index.level != "element" or size > _FEW:
        name = body.node("Gather", [table.name, index.name], axis=0)
        return Value(name, table.carrier, index.level)
    # For whole elements GatherElements is four times as fast in ONNX Runtime.
    flat = body.node("Reshape", [index.name, body.tensor(np.array([-1]))])
    found = body.node("GatherElements", [table.name, flat], axis=0)
    # 0 is a size, of no rows, and not "as before"; older opsets cannot say so.
    attrs: dict[str, Any] = {"allowzero": 1} if body.opset >= 14 else {}
    shape = body.node("Shape", [index.name])
    return Value(body.node("Reshape", [found, shape], **attrs), table.carrier, "element")
