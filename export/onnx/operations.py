"""Each operation of ``approxnorm.program.ops`` as standard ONNX operators.

An emitter takes the program being emitted, a node and the carrier that was chosen for it. Float
carriers hold integers (and dyadic fractions on the way) exactly, so that ``floor(v * 2**-s)`` is a
shift. int64 has no shift in stock runtimes: it divides by powers of two, after the remainder has
been taken off, since integer division rounds towards zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from approxnorm.export.onnx import powers
from approxnorm.export.onnx.body import Value
from approxnorm.export.onnx.carriers import Carrier, magnitude
from approxnorm.export.onnx.emitter import ProgramEmitter
from approxnorm.export.onnx.rounding import round_shift
from approxnorm.program import Interval, Node

Emitter: TypeAlias = Callable[[ProgramEmitter, Node, Carrier], Value]


def _direct(op: str) -> Emitter:
    """The ONNX operator that does the same in every carrier."""

    def emit(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
        return e.body.call(op, *(e.value(a, carrier) for a in node.args))

    return emit


def _compare(op: str) -> Emitter:
    def emit(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
        args = [e.value(a, carrier) for a in node.args]
        return e.body.call(op, *args, carrier=Carrier.BOOL)

    return emit


def _select(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    """Where; for whole elements arithmetic, which is many times faster in ONNX Runtime."""
    c, a, b = node.args
    first, second = e.interval(a), e.interval(b)
    difference = Interval(first.lo - second.hi, first.hi - second.lo)
    if e.level(node) != "element" or magnitude(difference) > carrier.exact:
        return e.body.call(
            "Where",
            e.value(c, Carrier.BOOL),
            e.value(a, carrier),
            e.value(b, carrier),
            carrier=carrier,
        )
    condition = e.value(c, carrier)
    if second == Interval(0, 0):
        return e.body.call("Mul", condition, e.value(a, carrier))
    taken = e.body.call("Sub", e.value(a, carrier), e.value(b, carrier))
    return e.body.call("Add", e.value(b, carrier), e.body.call("Mul", condition, taken))


def _shl(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    factor = e.body.const(1 << node.attrs["amount"], carrier)
    return e.body.call("Mul", e.value(node.args[0], carrier), factor)


def _shr(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    value = e.value(node.args[0], carrier)
    return powers.floor_shift(e.body, value, node.attrs["amount"])


def _bits(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    """A bit field; what lies above it is taken off only where there can be something."""
    high, low = node.attrs["high"], node.attrs["low"]
    value, span = e.value(node.args[0], carrier), e.interval(node.args[0])
    shifted = powers.floor_shift(e.body, value, low)
    size = high - low + 1
    above = span.lo >> low >> size
    if above == span.hi >> low >> size:
        if above == 0:
            return shifted
        return e.body.call("Sub", shifted, e.body.const(above << size, carrier))
    return powers.modulo(e.body, shifted, size)


def _lead(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    return e.leading_one(node.args[0])


def _mantissa(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    """v * 2**(F - lead), its fraction dropped; 0 is taken as 1."""
    body = e.body
    argument, frac_bits = node.args[0], node.attrs["frac_bits"]
    span, lead = e.interval(argument), e.leading_one(argument)
    carrier = e.carrier_of(span, e.level_of(argument))
    value = e.value(argument, carrier)
    if span.lo < 1:
        value = body.call("Max", value, body.const(1, carrier))
    positions = Interval(max(span.lo, 1).bit_length() - 1, max(span.hi, 1).bit_length() - 1)
    if carrier.is_float:
        factor = powers.power(body, lead, positions, carrier, offset=frac_bits, sign=-1)
        return body.call("Floor", body.call("Mul", value, factor))
    # Past 2^53: a right shift, then, for the small ones, a left shift of what is left.
    lead = body.cast(lead, Carrier.I64)
    down = powers.power(body, lead, positions, Carrier.I64, offset=-frac_bits, least=0)
    floor = powers.floor_divide(body, value, down)
    left = powers.power(body, lead, positions, Carrier.I64, offset=frac_bits, sign=-1, least=0)
    return body.call("Mul", floor, left)


def _lookup(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    table = node.attrs["table"]
    entries = Interval(min(table.entries), max(table.entries))
    table_value = e.table(table, e.carrier_of(entries, e.level(node)))
    index = e.value(node.args[0], Carrier.I64)
    return powers.gather(e.body, table_value, len(table.entries), index)


def _isqrt(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    """The root in float64, off by one at most, then put right in int64."""
    body, value = e.body, e.value(node.args[0], Carrier.I64)
    real = body.call("Floor", body.call("Sqrt", body.cast(value, Carrier.F64)))
    root = body.cast(real, Carrier.I64)
    high = body.call("Less", value, body.call("Mul", root, root), carrier=Carrier.BOOL)
    root = body.call("Sub", root, body.cast(high, Carrier.I64))
    above = body.call("Add", root, body.const(1, Carrier.I64))
    low = body.call("Less", value, body.call("Mul", above, above), carrier=Carrier.BOOL)
    return body.call("Sub", above, body.cast(low, Carrier.I64))


def _idiv(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    """Integer division rounds towards zero: the floor, as neither argument is negative."""
    return e.body.call("Div", *(e.value(a, Carrier.I64) for a in node.args))


def _assume(e: ProgramEmitter, node: Node, carrier: Carrier) -> Value:
    return e.value(node.args[0])


EMITTERS: dict[str, Emitter] = {
    "add": _direct("Add"),
    "sub": _direct("Sub"),
    "mul": _direct("Mul"),
    "neg": _direct("Neg"),
    "abs": _direct("Abs"),
    "min": _direct("Min"),
    "max": _direct("Max"),
    "less": _compare("Less"),
    "equal": _compare("Equal"),
    "select": _select,
    "shl": _shl,
    "shr": _shr,
    "bits": _bits,
    "round_shift": round_shift,
    "lead": _lead,
    "mantissa": _mantissa,
    "lookup": _lookup,
    "isqrt": _isqrt,
    "idiv": _idiv,
    "assume": _assume,
}
