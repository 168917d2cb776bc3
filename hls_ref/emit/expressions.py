"""One operation as a C++ expression on ap_int and ap_uint; the helpers are in approx/ops.hpp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from approxnorm.formats import Overflow, Rounding, lowest
from approxnorm.hls_ref.emit.names import identifier, literal, type_of, typed
from approxnorm.program import Interval, ops
from approxnorm.program.ops import OPS
from approxnorm.program.signal import Node

# Of an argument: its spelling, and its node.
Argument: TypeAlias = tuple[str, Node]
Emit: TypeAlias = Callable[[Node, Sequence[Argument]], str]


def expression(node: Node, arguments: Sequence[Argument]) -> str:
    """What a node computes, given its arguments' spellings; not for inputs and constants."""
    return _EMITTERS[node.op](node, arguments)


def _infix(symbol: str) -> Emit:
    def emit(node: Node, args: Sequence[Argument]) -> str:
        # Two literals would be computed in C++'s int.
        first = _wide(args[0]) if _is_literal(args[1]) else args[0][0]
        return f"{first} {symbol} {args[1][0]}"

    return emit


def _compare(symbol: str) -> Emit:
    """In one type: ap_int's comparisons of mixed signs go wrong past 32 bits."""

    def emit(node: Node, args: Sequence[Argument]) -> str:
        kind = _common_type(args)
        first, second = (f"{kind}({text})" for text, _ in args)
        return f"ap_uint<1>({first} {symbol} {second} ? 1 : 0)"

    return emit


def _extreme(name: str) -> Emit:
    """The smaller or larger of two, compared in one type."""

    def emit(node: Node, args: Sequence[Argument]) -> str:
        types = f"{type_of(node.interval)}, {_common_type(args)}"
        return f"approx::{name}<{types} >({args[0][0]}, {args[1][0]})"

    return emit


def _common_type(args: Sequence[Argument]) -> str:
    """A type that holds either of two arguments."""
    return type_of(args[0][1].interval.hull(args[1][1].interval))


def _call(name: str, *values: str) -> Emit:
    """A helper with the result's type, and further numbers of the node, as template arguments."""

    def emit(node: Node, args: Sequence[Argument]) -> str:
        template = [type_of(node.interval), *(str(node.attrs[v]) for v in values)]
        given = ", ".join(_wide(a) for a in args)
        return f"approx::{name}<{', '.join(template)} >({given})"

    return emit


def _wide(argument: Argument) -> str:
    """An argument for a template that asks for its width: literals get a type."""
    return typed(argument[1].attrs["value"]) if _is_literal(argument) else argument[0]


def _is_literal(argument: Argument) -> bool:
    """Whether an argument stands in the text as a number."""
    return argument[1].op == "const" and argument[1].name is None


def _shift_left(node: Node, args: Sequence[Argument]) -> str:
    if node.interval == Interval(0, 0):
        return f"{args[0][0]} & 0"
    return f"{type_of(node.interval)}({args[0][0]}) << {node.attrs['amount']}"


def _shift_floor(node: Node, args: Sequence[Argument]) -> str:
    source = args[0][1]
    # Past the width only the sign is left, or nothing.
    amount = min(node.attrs["amount"], source.interval.width - (source.interval.lo < 0))
    if node.attrs["amount"] > amount and source.interval.lo >= 0:
        return f"{args[0][0]} & 0"
    return f"{_wide(args[0])} >> {amount}"


def _lookup(node: Node, args: Sequence[Argument]) -> str:
    return f"{rom_name(node.attrs['table'].name)}[{args[0][0]}]"


def rom_name(table: str) -> str:
    """A table's array."""
    return f"rom::{identifier(table)}"


def _assume(node: Node, args: Sequence[Argument]) -> str:
    return f"{type_of(node.interval)}({args[0][0]})"


def _round_shift(node: Node, args: Sequence[Argument]) -> str:
    """ap_fixed itself rounds, and limits where the limits are those of a format."""
    value, amount = (argument[1].interval for argument in args)
    rounding, overflow = node.attrs["rounding"], node.attrs["overflow"]
    free = ops.rounded_interval(node.attrs, value, amount)
    limits = _limits(node) if ops.limits_act(node.attrs, value, amount) else None
    if limits is None:  # nothing can be outside
        return _rounded(node, args, _format(free, rounding, Overflow.WRAP), type_of(node.interval))
    if _is_format(limits):
        form = _format(limits, rounding, overflow)
        return _rounded(node, args, form, type_of(node.interval))
    # Just past the limits is as good as far past them, but a wrap needs all of its own bits.
    reach = max(abs(limits.lo), abs(limits.hi)).bit_length() + 2
    near = Interval(*(min(max(end, -(1 << reach)), (1 << reach) - 1) for end in (free.lo, free.hi)))
    if overflow is Overflow.WRAP:
        inner = _rounded(node, args, _format(near, rounding, Overflow.WRAP), type_of(near))
    else:
        inner = _rounded(node, args, _format(near, rounding, Overflow.SAT), type_of(near))
    mode = Overflow.SAT if overflow is Overflow.SAT_SYM else overflow
    return (
        f"approx::limit<AP_{mode}, {type_of(node.interval)} >({inner},"
        f" {literal(limits.lo)}, {literal(limits.hi)})"
    )


def _limits(node: Node) -> Interval:
    """The limits; of SAT_SYM those of the format, where there is one that does the same."""
    lo, hi, overflow = (node.attrs[key] for key in ("lo", "hi", "overflow"))
    is_symmetric = overflow is Overflow.SAT_SYM and _is_format(Interval(lo, hi))
    return Interval(lo if is_symmetric else lowest(lo, hi, overflow), hi)


def _is_format(limits: Interval) -> bool:
    """Whether the limits are all codes of an ap_int or ap_uint."""
    width = limits.width
    if limits.signed:
        return limits == Interval(-(1 << (width - 1)), (1 << (width - 1)) - 1)
    return limits == Interval(0, (1 << width) - 1)


def _format(interval: Interval, rounding: Rounding, overflow: Overflow) -> tuple[int, bool, str]:
    """(width, signed, ap_fixed type) of codes of an interval."""
    width, u = interval.width, "" if interval.signed else "u"
    modes = f"AP_{rounding}, AP_{overflow}"
    return width, interval.signed, f"ap_{u}fixed<{width}, {width}, {modes}>"


def _rounded(node: Node, args: Sequence[Argument], form: tuple[int, bool, str], result: str) -> str:
    (_, source), (_, shift) = args
    width, _, name = form
    right = min(max(shift.interval.hi, 0), source.interval.width + 1)
    # A left shift so far takes every value but 0 out of the format, and under WRAP to 0.
    left = min(max(-shift.interval.lo, 0), width + 1)
    return (
        f"approx::round_shift<{result}, {name}, {left}, {right}>({_wide(args[0])},"
        f" {_wide(args[1])})"
    )


_EMITTERS: dict[str, Emit] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "neg": lambda node, args: f"-{_wide(args[0])}",
    "abs": _call("absolute"),
    "less": _compare("<"),
    "equal": _compare("=="),
    "select": _call("select"),
    "min": _extreme("minimum"),
    "max": _extreme("maximum"),
    "shl": _shift_left,
    "shr": _shift_floor,
    "bits": _call("bits", "high", "low"),
    "round_shift": _round_shift,
    "lead": _call("leading_one"),
    "mantissa": _call("leading_mantissa", "frac_bits"),
    "lookup": _lookup,
    "isqrt": _call("integer_sqrt"),
    "idiv": _call("divide"),
    "assume": _assume,
}


def check_emitters() -> None:
    """Every operation has an emitter; a new one without is a mistake found at import."""
    missing = set(OPS) - set(_EMITTERS)
    if missing:
        raise AssertionError(f"no C++ for the operations {sorted(missing)}")


check_emitters()
