"""Round-shift-saturate as ONNX operators, in all modes of rounding and overflow.

In a float carrier ``v * 2**-s`` is exact, to the left too, and the modes are a Floor or a Round
and what comes before and after it. In int64 the quotient and the remainder decide, as in
``ops.round_shift_exact``.
"""

from __future__ import annotations

import numpy as np
from onnx import helper

from approxnorm.export.onnx import powers
from approxnorm.export.onnx.body import Body, Value
from approxnorm.export.onnx.carriers import Carrier, magnitude
from approxnorm.export.onnx.emitter import ProgramEmitter
from approxnorm.export.onnx.sticky_product import sticky_product
from approxnorm.formats import Overflow, Rounding, lowest
from approxnorm.program import Interval, Node, ops
from approxnorm.program.interval import MAX_SIGNAL_BITS

# A left shift further than this passes every limit, and no float overflows by it.
MAX_LEFT = 64
# Right shifts in int64 that are larger are made smaller first, see _nearer.
MAX_RIGHT = 60
_NEARER = 7
_SATURATING = (Overflow.SAT, Overflow.SAT_SYM)


def round_shift(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    """The whole operation, in a float carrier or in int64."""
    if not carrier.is_float:
        return _in_integers(e, node)
    rounded = rounded_float(e, node, carrier)
    return _limited(e, node, rounded)


def rounded_float(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    """Shifted and rounded, not limited."""
    value, amount = node.args
    scaled = e.scaled(value, _factor(e, node, carrier), carrier)
    if e.interval(amount).hi <= 0:
        return scaled  # whole numbers
    return round_real(e.body, scaled, node.attrs["rounding"])


def quantized(e: ProgramEmitter, node: Node, dtype: np.dtype) -> str | None:
    """The codes in their dtype by one QuantizeLinear, where that rounds and limits alike."""
    if node.op != "round_shift" or node.attrs["rounding"] is not Rounding.RND_CONV:
        return None
    if not _saturates(node) or not e.body.has_linear(dtype):
        return None
    split = sticky_product(e, node)
    if split is not None:
        return _divided_by_row(e, node, dtype, *split)
    carrier = e.carrier(node)
    if carrier is not Carrier.F32:
        return None
    scaled = e.scaled(node.args[0], _factor(e, node, carrier), carrier)
    return _quantize(e, node, dtype, scaled)


def _divided_by_row(
    e: ProgramEmitter, node: Node, dtype: np.dtype, value: Value, divisor: Value
) -> str:
    """A QuantizeLinear whose blocks are the rows, each with its scale, saves a pass."""
    body = e.body
    if body.opset >= 21 and not _clips(e, node, dtype):
        return body.node(
            "QuantizeLinear",
            [value.name, divisor.name],
            axis=-1,
            block_size=e.dim,
            output_dtype=helper.np_dtype_to_tensor_dtype(dtype),
        )
    return _quantize(e, node, dtype, body.call("Div", value, divisor))


def _quantize(e: ProgramEmitter, node: Node, dtype: np.dtype, value: Value) -> str:
    if _clips(e, node, dtype):
        value = _clip(e.body, value, _limits(node))
    one, zero = e.body.const(1, Carrier.F32).name, e.body.tensor(np.zeros((), dtype))
    return e.body.node("QuantizeLinear", [value.name, one, zero])


def _clips(e: ProgramEmitter, node: Node, dtype: np.dtype) -> bool:
    """Whether something can be beyond the limits that QuantizeLinear does not bring into them.

    It has the dtype's limits; and onnx.reference's rounds to int32 first.
    """
    info, limits = np.iinfo(dtype), _limits(node)
    free = ops.rounded_interval(node.attrs, *(e.interval(a) for a in node.args))
    narrower = (limits.lo, limits.hi) != (info.min, info.max) and _acts(e, node)
    return narrower or magnitude(free) >= 1 << 31


def _saturates(node: Node) -> bool:
    return node.attrs["lo"] is not None and node.attrs["overflow"] in _SATURATING


def _given(node: Node) -> tuple[int, int, Overflow]:
    return node.attrs["lo"], node.attrs["hi"], node.attrs["overflow"]


def _limits(node: Node) -> Interval:
    lo, hi, overflow = _given(node)
    return Interval(lowest(lo, hi, overflow), hi)


def _acts(e: ProgramEmitter, node: Node) -> bool:
    value, amount = (e.interval(a) for a in node.args)
    return ops.limits_act(node.attrs, value, amount)


def _factor(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    """2**-amount, the amount held to what still makes a difference."""
    value, amount = (e.interval(a) for a in node.args)
    furthest = magnitude(value).bit_length() + 2
    if amount.lo == amount.hi:
        exponent = -min(max(amount.lo, -MAX_LEFT), furthest)
        return e.body.const(2.0**exponent, carrier)
    held, span = held_amount(e, node.args[1], Interval(-MAX_LEFT, furthest))
    # A row's factor is small; float64 lets it take in a mantissa before it becomes float32.
    own = carrier if held.level == "element" else Carrier.F64
    return powers.power(e.body, held, span, own, sign=-1)


def held_amount(e: ProgramEmitter, amount: int, within: Interval) -> tuple[Value, Interval]:
    """An amount brought into an interval, and what it may still be."""
    value, span = e.value(amount), e.interval(amount)
    lo, hi = max(span.lo, within.lo), min(span.hi, within.hi)
    if lo > hi:  # it is beyond for certain
        lo = hi = within.lo if span.hi < within.lo else within.hi
    if span.hi > hi:
        value = e.body.call("Min", value, e.body.const(hi, value.carrier))
    if span.lo < lo:
        value = e.body.call("Max", value, e.body.const(lo, value.carrier))
    return value, Interval(lo, hi)


def round_real(body: Body, v: Value, rounding: Rounding) -> Value:
    """A dyadic fraction to an integer; its carrier has room for one half more."""
    match rounding:
        case Rounding.RND_CONV:
            return body.call("Round", v)
        case Rounding.TRN:
            return body.call("Floor", v)
    half = body.const(0.5, v.carrier)
    match rounding:
        case Rounding.RND:
            return body.call("Floor", body.call("Add", v, half))
        case Rounding.RND_MIN_INF:
            return body.call("Ceil", body.call("Sub", v, half))
    size = body.call("Abs", v)
    if rounding is Rounding.TRN_ZERO:
        size = body.call("Floor", size)
    elif rounding is Rounding.RND_INF:
        size = body.call("Floor", body.call("Add", size, half))
    else:
        assert rounding is Rounding.RND_ZERO
        size = body.call("Ceil", body.call("Sub", size, half))
    return body.call("Mul", body.call("Sign", v), size)


def _limited(e: ProgramEmitter, node: Node, v: Value) -> Value:
    """Integers in a float carrier brought into the limits; they may be any multiple of 2**n."""
    if not _acts(e, node):
        return v
    return limited(e.body, v, *_given(node))


def limited(body: Body, v: Value, lo: int, hi: int, overflow: Overflow) -> Value:
    """Integers brought into limits by an overflow mode."""
    limits = Interval(lowest(lo, hi, overflow), hi)
    if overflow in _SATURATING:
        return _clip(body, v, limits)
    if overflow is Overflow.SAT_ZERO:
        ends = [body.const(end, v.carrier) for end in (limits.lo, limits.hi)]
        least = body.call("GreaterOrEqual", v, ends[0], carrier=Carrier.BOOL)
        most = body.call("LessOrEqual", v, ends[1], carrier=Carrier.BOOL)
        inside = body.call("And", least, most)
        if v.carrier.is_float:
            return body.call("Mul", body.cast(inside, v.carrier), v)
        return body.call("Where", inside, v, body.const(0, v.carrier), carrier=v.carrier)
    assert overflow is Overflow.WRAP
    return _wrapped(body, v, limits)


def _wrapped(body: Body, v: Value, limits: Interval) -> Value:
    """The residue modulo the number of codes that lies within the limits."""
    size = limits.hi - limits.lo + 1
    return _recentred(body, powers.modulo(body, v, size.bit_length() - 1), limits)


def _recentred(body: Body, residue: Value, limits: Interval) -> Value:
    """A residue from 0 on, as the code within the limits that it stands for."""
    size = limits.hi - limits.lo + 1
    first = limits.lo % size  # the residue of the lowest code
    if limits.lo == 0:
        return residue
    upper = body.call(
        "GreaterOrEqual", residue, body.const(first, residue.carrier), carrier=Carrier.BOOL
    )
    turns = body.call("Mul", body.cast(upper, residue.carrier), body.const(-size, residue.carrier))
    code = body.call("Add", residue, turns)
    return body.call("Add", code, body.const(limits.lo - first + size, residue.carrier))


def _clip(body: Body, v: Value, limits: Interval) -> Value:
    lo, hi = body.const(limits.lo, v.carrier), body.const(limits.hi, v.carrier)
    return body.call("Clip", v, lo, hi)


# --- int64 ------------------------------------------------------------------------------------


def _in_integers(e: ProgramEmitter, node: Node) -> Value:
    """Values that float64 does not hold: right shifts by division; left shifts within limits."""
    body, span = e.body, e.interval(node.args[1])
    value = e.value(node.args[0], Carrier.I64)
    amount = body.cast(e.value(node.args[1]), Carrier.I64)
    if span.hi > 0:
        value = _divided(body, value, amount, span, node.attrs["rounding"])
    if span.lo < 0:
        left, reach = held_amount(e, node.args[1], Interval(-MAX_SIGNAL_BITS, 0))
        return _shifted_left(body, value, left, reach, node)
    return limited(body, value, *_given(node)) if node.attrs["lo"] is not None else value


def _shifted_left(body: Body, v: Value, amount: Value, reach: Interval, node: Node) -> Value:
    """v * 2**-amount for amounts <= 0, within the limits before it can pass int64."""
    shifts = [-a for a in range(reach.lo, reach.hi + 1)]

    def table(entries: list[int]) -> Value:
        return powers.by_amount(body, amount, reach, np.array(entries, np.int64), Carrier.I64)

    factor = table([1 << k if k < MAX_SIGNAL_BITS else 0 for k in shifts])
    if node.attrs["lo"] is None:
        return body.call("Mul", v, factor)
    limits = _limits(node)
    if node.attrs["overflow"] is Overflow.WRAP:
        bits = (limits.hi - limits.lo + 1).bit_length() - 1
        residue = body.call("Mod", v, table([1 << max(bits - k, 0) for k in shifts]))
        return _recentred(body, body.call("Mul", residue, factor), limits)
    most, least = (
        table([limits.hi >> k for k in shifts]),
        table([-(-limits.lo >> k) for k in shifts]),
    )
    within = body.call("Min", body.call("Max", v, least), most)
    shifted = body.call("Mul", within, factor)
    over = body.call("Greater", v, most, carrier=Carrier.BOOL)
    under = body.call("Less", v, least, carrier=Carrier.BOOL)
    saturates = _saturates(node)
    hi = body.const(limits.hi if saturates else 0, Carrier.I64)
    lo = body.const(limits.lo if saturates else 0, Carrier.I64)
    shifted = body.call("Where", over, hi, shifted, carrier=Carrier.I64)
    return body.call("Where", under, lo, shifted, carrier=Carrier.I64)


def _divided(body: Body, v: Value, amount: Value, span: Interval, rounding: Rounding) -> Value:
    if span.hi > MAX_RIGHT:
        v, amount = _nearer(body, v, amount)
    held = body.call("Max", amount, body.const(0, Carrier.I64)) if span.lo < 0 else amount
    least = span.lo if span.hi <= MAX_RIGHT else min(span.lo, MAX_RIGHT - _NEARER)
    reach = Interval(max(least, 0), min(span.hi, MAX_RIGHT))
    divisor = powers.power(body, held, reach, Carrier.I64)
    floor, rest = powers.floor_and_rest(body, v, divisor)
    up = _rounds_up(body, v, floor, rest, divisor, rounding)
    return floor if up is None else body.call("Add", floor, body.cast(up, Carrier.I64))


def _nearer(body: Body, v: Value, amount: Value) -> tuple[Value, Value]:
    """Amounts past 60 made smaller, and the value with them, its lost bits kept as one (sticky)."""
    far = body.call("Greater", amount, body.const(MAX_RIGHT, Carrier.I64), carrier=Carrier.BOOL)
    size = body.const(2 << _NEARER, Carrier.I64)
    floor, rest = powers.floor_and_rest(body, v, size)
    lost = body.call("Min", rest, body.const(1, Carrier.I64))
    sticky = body.call("Add", body.call("Mul", floor, body.const(2, Carrier.I64)), lost)
    less = body.call("Sub", amount, body.const(_NEARER, Carrier.I64))
    v = body.call("Where", far, sticky, v, carrier=Carrier.I64)
    amount = body.call("Where", far, less, amount, carrier=Carrier.I64)
    return v, body.call("Min", amount, body.const(MAX_RIGHT, Carrier.I64))


def _rounds_up(
    body: Body, v: Value, floor: Value, rest: Value, divisor: Value, rounding: Rounding
) -> Value | None:
    """Whether the next integer above the floor is taken."""
    if rounding is Rounding.TRN:
        return None
    zero = body.const(0, Carrier.I64)

    def compare(op: str, a: Value, b: Value) -> Value:
        return body.call(op, a, b, carrier=Carrier.BOOL)

    negative = compare("Less", v, zero)
    if rounding is Rounding.TRN_ZERO:
        return body.call("And", negative, compare("Greater", rest, zero))
    twice = body.call("Add", rest, rest)
    above, tie = compare("Greater", twice, divisor), compare("Equal", twice, divisor)
    match rounding:
        case Rounding.RND:
            ties_up = tie
        case Rounding.RND_MIN_INF:
            return above
        case Rounding.RND_INF:
            ties_up = body.call("And", tie, body.call("Not", negative))
        case Rounding.RND_ZERO:
            ties_up = body.call("And", tie, negative)
        case _:
            assert rounding is Rounding.RND_CONV
            odd = compare("Equal", powers.modulo(body, floor, 1), body.const(1, Carrier.I64))
            ties_up = body.call("And", tie, odd)
    return body.call("Or", above, ties_up)
