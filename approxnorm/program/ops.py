"""The integer operations that every datapath is made of.

Each function takes Signals, NumPy integer arrays or Python ints. On a Signal it records itself
in the program being traced; on arrays it computes. So a method written with these functions runs
on both, and is written once. The semantics are in docs/datapath.md.

An operation is two functions: ``evaluate`` on arrays of a given dtype that is wide enough for the
arguments and the result, and ``interval``, the exact interval of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from approxnorm.formats import Overflow, Rounding, limit, lowest, shift_left_limited, shift_right
from approxnorm.program.interval import Interval, check_width
from approxnorm.program.signal import Program, Signal, Tracer
from approxnorm.tables.table import Table

Value: TypeAlias = Any  # Signal | np.ndarray | int, the same kind in and out


@dataclass(frozen=True)
class Op:
    """One operation: its name, its value on arrays, its interval, and its head room.

    ``head_room`` says how many bits beyond arguments and result ``evaluate`` needs in its dtype.
    """

    name: str
    evaluate: Callable[..., np.ndarray]
    interval: Callable[..., Interval]
    head_room: int = 0


OPS: dict[str, Op] = {}


def _register(
    name: str,
    evaluate: Callable[..., np.ndarray],
    interval: Callable[..., Interval],
    *,
    head_room: int = 0,
) -> None:
    OPS[name] = Op(name, evaluate, interval, head_room)


def apply(name: str, *args: Value, **attrs: Any) -> Value:
    """Record ``name`` if any argument is a Signal, else compute it in int64."""
    tracer = next((a.tracer for a in args if isinstance(a, Signal)), None)
    if tracer is not None:
        op = OPS[name]
        signals = [tracer.lift(a) for a in args]
        interval = op.interval(*(s.interval for s in signals), **attrs)
        if name == "mul" and signals[0].index == signals[1].index:
            interval = _square_interval(signals[0].interval)
        return tracer.record(name, signals, attrs, interval)
    arrays = [_int64(a) for a in args]
    return OPS[name].evaluate(*arrays, dtype=np.dtype(np.int64), **attrs)


def _int64(a: Value) -> np.ndarray:
    array = np.asarray(a)
    if array.dtype.kind not in "iub":
        raise TypeError(f"operations take integers, found {array.dtype}")
    return array.astype(np.int64, copy=False)


# --- arithmetic -------------------------------------------------------------------------------


def add(a: Value, b: Value) -> Value:
    """a + b, exact."""
    return apply("add", a, b)


def sub(a: Value, b: Value) -> Value:
    """a - b, exact."""
    return apply("sub", a, b)


def mul(a: Value, b: Value) -> Value:
    """a * b, exact; the interval of a square is known to be >= 0."""
    return apply("mul", a, b)


def neg(a: Value) -> Value:
    """-a, exact."""
    return apply("neg", a)


def absolute(a: Value) -> Value:
    """|a|, exact: |-128| of an 8-bit code is 128."""
    return apply("abs", a)


def _corners(f: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    values = [f(p, q) for p in (a.lo, a.hi) for q in (b.lo, b.hi)]
    return Interval(min(values), max(values))


def _abs_interval(a: Interval) -> Interval:
    low = 0 if 0 in a else min(abs(a.lo), abs(a.hi))
    return Interval(low, max(abs(a.lo), abs(a.hi)))


def _square_interval(a: Interval) -> Interval:
    m = _abs_interval(a)
    return Interval(m.lo * m.lo, m.hi * m.hi)


_register(
    "add",
    lambda a, b, dtype: np.add(a, b, dtype=dtype),
    lambda a, b: Interval(a.lo + b.lo, a.hi + b.hi),
)
_register(
    "sub",
    lambda a, b, dtype: np.subtract(a, b, dtype=dtype),
    lambda a, b: Interval(a.lo - b.hi, a.hi - b.lo),
)
_register(
    "mul",
    lambda a, b, dtype: np.multiply(a, b, dtype=dtype),
    lambda a, b: _corners(lambda p, q: p * q, a, b),
)
_register("neg", lambda a, dtype: np.negative(a, dtype=dtype), lambda a: Interval(-a.hi, -a.lo))
_register("abs", lambda a, dtype: np.absolute(a, dtype=dtype), _abs_interval)


# --- comparison and choice --------------------------------------------------------------------


def less(a: Value, b: Value) -> Value:
    """1 if a < b, else 0."""
    return apply("less", a, b)


def equal(a: Value, b: Value) -> Value:
    """1 if a == b, else 0."""
    return apply("equal", a, b)


def select(condition: Value, if_one: Value, if_zero: Value) -> Value:
    """``if_one`` where ``condition`` is 1, ``if_zero`` where it is 0.

    A condition whose interval is a single number leaves no hardware behind.
    """
    if isinstance(condition, Signal) and condition.interval.lo == condition.interval.hi:
        return condition.tracer.lift(if_one if condition.interval.lo else if_zero)
    return apply("select", condition, if_one, if_zero)


def minimum(a: Value, b: Value) -> Value:
    """The smaller of two values."""
    return apply("min", a, b)


def maximum(a: Value, b: Value) -> Value:
    """The larger of two values."""
    return apply("max", a, b)


def _less_interval(a: Interval, b: Interval) -> Interval:
    return Interval(int(a.hi < b.lo), int(a.lo < b.hi))


def _equal_interval(a: Interval, b: Interval) -> Interval:
    certain = a.lo == a.hi == b.lo == b.hi
    possible = a.lo <= b.hi and b.lo <= a.hi
    return Interval(int(certain), int(possible))


def _select_evaluate(c: np.ndarray, a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> np.ndarray:
    chosen: np.ndarray = np.where(c != 0, a, b)
    return chosen.astype(dtype, copy=False)


def _select_interval(c: Interval, a: Interval, b: Interval) -> Interval:
    if c.lo < 0 or c.hi > 1:
        raise AssertionError("select needs a condition of 0 or 1")
    if c.lo == c.hi:
        return a if c.lo else b
    return a.hull(b)


_register("less", lambda a, b, dtype: np.less(a, b).astype(dtype), _less_interval)
_register("equal", lambda a, b, dtype: np.equal(a, b).astype(dtype), _equal_interval)
_register(
    "select",
    _select_evaluate,
    _select_interval,
)
_register(
    "min",
    lambda a, b, dtype: np.minimum(a, b, dtype=dtype),
    lambda a, b: Interval(min(a.lo, b.lo), min(a.hi, b.hi)),
)
_register(
    "max",
    lambda a, b, dtype: np.maximum(a, b, dtype=dtype),
    lambda a, b: Interval(max(a.lo, b.lo), max(a.hi, b.hi)),
)


# --- shifts and bit fields --------------------------------------------------------------------


def shift_left(a: Value, amount: int) -> Value:
    """a * 2**amount for a constant amount >= 0, exact."""
    if amount == 0:
        return a if isinstance(a, Signal) else _int64(a)
    return apply("shl", a, amount=amount)


def shift_floor(a: Value, amount: int) -> Value:
    """floor(a / 2**amount) for a constant amount >= 0: an arithmetic right shift."""
    if amount == 0:
        return a if isinstance(a, Signal) else _int64(a)
    return apply("shr", a, amount=amount)


def bits(a: Value, high: int, low: int) -> Value:
    """The bit field a[high:low] of the two's complement, as an unsigned number."""
    return apply("bits", a, high=high, low=low)


def _bits_interval(a: Interval, high: int, low: int) -> Interval:
    size = high - low + 1
    first, last = a.lo >> low, a.hi >> low
    if first >> size == last >> size:  # the field does not wrap within the interval
        base = (first >> size) << size
        return Interval(first - base, last - base)
    return Interval(0, (1 << size) - 1)


def _bits_evaluate(a: np.ndarray, dtype: np.dtype, high: int, low: int) -> np.ndarray:
    # A field that reaches past the dtype is taken of a value >= 0 only: its upper bits are 0.
    size = min(high - low + 1, dtype.itemsize * 8 - 1)
    field: np.ndarray = np.right_shift(a, low, dtype=dtype) & ((1 << size) - 1)
    return field


_register(
    "shl",
    lambda a, dtype, amount: np.left_shift(a, amount, dtype=dtype),
    lambda a, amount: Interval(a.lo << amount, a.hi << amount),
)
_register(
    "shr",
    lambda a, dtype, amount: np.right_shift(a, amount, dtype=dtype),
    lambda a, amount: Interval(a.lo >> amount, a.hi >> amount),
)
_register(
    "bits",
    _bits_evaluate,
    _bits_interval,
)


def round_shift(
    a: Value,
    amount: Value,
    rounding: Rounding,
    limits: tuple[int, int] | None = None,
    overflow: Overflow = Overflow.SAT,
) -> Value:
    """Round ``a / 2**amount`` in a named mode, then bring it into ``limits``.

    ``amount`` is a constant or a signal, of either sign and any size: a negative one shifts left,
    exactly; one beyond the width gives the rounded limit (0, or -1 for negative ``a`` under TRN).
    Rounding comes before overflow, as in ap_fixed. ``limits`` is (lo, hi), and for WRAP
    hi - lo + 1 must be a power of two; None means no limit, for amounts that are never negative
    or whose result the interval shows to fit.
    """
    lo, hi = limits if limits is not None else (None, None)
    if lo is not None and hi is not None:
        _check_limits(lo, hi, overflow)
    return apply("round_shift", a, amount, rounding=rounding, lo=lo, hi=hi, overflow=overflow)


def _check_limits(lo: int, hi: int, overflow: Overflow) -> None:
    if lowest(lo, hi, overflow) > hi:
        raise AssertionError(f"no code lies in {lo}..{hi} under {overflow}")
    if overflow is Overflow.WRAP and (hi - lo + 1) & (hi - lo):
        raise AssertionError(f"WRAP needs 2**n codes, found {lo}..{hi}")
    check_width(Interval(lo, hi), "limits")


def saturate(a: Value, limits: tuple[int, int], overflow: Overflow) -> Value:
    """Bring ``a`` into ``limits`` with a named overflow mode; no rounding."""
    return round_shift(a, 0, Rounding.TRN, limits, overflow)


def round_shift_exact(a: int, amount: int, rounding: Rounding) -> int:
    """Round one Python integer of any size: what the interval rule needs at the corners."""
    if amount <= 0:
        return a << -amount
    floor, rest, half = a >> amount, a & ((1 << amount) - 1), 1 << (amount - 1)
    up = {
        Rounding.TRN: False,
        Rounding.TRN_ZERO: a < 0 and rest > 0,
        Rounding.RND: rest >= half,
        Rounding.RND_MIN_INF: rest > half,
        Rounding.RND_INF: rest >= half if a >= 0 else rest > half,
        Rounding.RND_ZERO: rest > half if a >= 0 else rest >= half,
        Rounding.RND_CONV: rest > half or (rest == half and floor & 1 == 1),
    }[rounding]
    return floor + up


def _round_shift_interval(
    a: Interval,
    amount: Interval,
    rounding: Rounding,
    lo: int | None,
    hi: int | None,
    overflow: Overflow,
) -> Interval:
    # Monotone in a, and for a fixed a monotone in the amount: the extremes are at the corners.
    # Past 512, either way, a shift has passed any width: the amount changes nothing any more.
    amount = Interval(*(min(max(end, -512), 512) for end in (amount.lo, amount.hi)))
    raw = _corners(lambda v, s: round_shift_exact(v, s, rounding), a, amount)
    if lo is None or hi is None:
        return raw
    return _limit_interval(raw, lo, hi, overflow)


def rounded_interval(attrs: Mapping[str, Any], value: Interval, amount: Interval) -> Interval:
    """What rounding alone can make of a round-shift's arguments, before any limit."""
    return _round_shift_interval(value, amount, **{**attrs, "lo": None, "hi": None})


def limits_act(attrs: Mapping[str, Any], value: Interval, amount: Interval) -> bool:
    """Whether a round-shift's limits can change anything; else no hardware is made for them."""
    lo, hi, overflow = (attrs[key] for key in ("lo", "hi", "overflow"))
    if lo is None or hi is None:
        return False
    free = rounded_interval(attrs, value, amount)
    return free.lo < lowest(lo, hi, overflow) or free.hi > hi


def _limit_interval(raw: Interval, lo: int, hi: int, overflow: Overflow) -> Interval:
    lo = lowest(lo, hi, overflow)
    if raw.lo >= lo and raw.hi <= hi:
        return raw
    if overflow is Overflow.WRAP:
        return Interval(lo, hi)
    if overflow is Overflow.SAT_ZERO:
        inside = (
            Interval(max(raw.lo, lo), min(raw.hi, hi)) if raw.lo <= hi and raw.hi >= lo else None
        )
        return Interval(0, 0) if inside is None else inside.hull(Interval(0, 0))
    return Interval(min(max(raw.lo, lo), hi), min(max(raw.hi, lo), hi))


def _round_shift_evaluate(
    a: np.ndarray,
    amount: np.ndarray,
    dtype: np.dtype,
    rounding: Rounding,
    lo: int | None,
    hi: int | None,
    overflow: Overflow,
) -> np.ndarray:
    a = a.astype(dtype, copy=False)
    amount = np.clip(amount.astype(np.int64), -512, 512)
    left = np.min(amount, initial=0) < 0
    right = np.maximum(amount, 0) if left else amount
    right = np.minimum(right, dtype.itemsize * 8).astype(dtype)
    rounded = a if np.max(right, initial=0) == 0 else shift_right(a, right, rounding)
    if left:
        return _shift_left(rounded.astype(np.int64), np.maximum(-amount, 0), lo, hi, overflow)
    if lo is None or hi is None:
        return rounded
    return _limit_within(rounded, lo, hi, overflow)


def _shift_left(
    a: np.ndarray, amount: np.ndarray, lo: int | None, hi: int | None, overflow: Overflow
) -> np.ndarray:
    if lo is None or hi is None:
        return a << amount  # the interval has shown that it fits
    return shift_left_limited(a, amount, lo, hi, overflow)


def _limit_within(a: np.ndarray, lo: int, hi: int, overflow: Overflow) -> np.ndarray:
    """Limits that pass the dtype limit nothing, so they are brought into it first."""
    info = np.iinfo(a.dtype)
    if lo <= info.min and hi >= info.max:
        return a
    if overflow is not Overflow.WRAP and (lo < info.min or hi > info.max):
        lo = max(lowest(lo, hi, overflow), int(info.min))
        hi = min(hi, int(info.max))
        overflow = Overflow.SAT if overflow is Overflow.SAT_SYM else overflow
    elif lo < info.min or hi > info.max:
        a = a.astype(np.int64)
    return limit(a, lo, hi, overflow)


_register("round_shift", _round_shift_evaluate, _round_shift_interval, head_room=1)


# --- leading one ------------------------------------------------------------------------------


def leading_one(a: Value) -> Value:
    """The position of the leading one of a >= 0: floor(log2 a); 0 for a = 0."""
    return apply("lead", a)


def leading_mantissa(a: Value, frac_bits: int) -> Value:
    """``a`` shifted so that its leading one has ``frac_bits`` bits below it, truncated.

    The result lies in [2**frac_bits, 2**(frac_bits+1)). a = 0 gives 2**frac_bits, as a = 1 does.
    """
    return apply("mantissa", a, frac_bits=frac_bits)


def _lead_evaluate(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    # float64 holds integers up to 2**53; above, the conversion may round up to the next power of
    # two, which the comparison takes back.
    position = np.frexp(a.astype(np.float64))[1].astype(np.int64) - 1
    position = np.maximum(position, 0)
    too_high = (np.int64(1) << position) > np.maximum(a, 1)
    return (position - too_high).astype(dtype)


def _lead_interval(a: Interval) -> Interval:
    if a.lo < 0:
        raise AssertionError("leading_one needs a >= 0")
    return Interval(max(a.lo.bit_length() - 1, 0), max(a.hi.bit_length() - 1, 0))


def _mantissa_evaluate(a: np.ndarray, dtype: np.dtype, frac_bits: int) -> np.ndarray:
    wide = np.maximum(a.astype(np.int64), 1)
    lead = _lead_evaluate(wide, np.dtype(np.int64))
    down, up = np.maximum(lead - frac_bits, 0), np.maximum(frac_bits - lead, 0)
    return ((wide >> down) << up).astype(dtype)


def _mantissa_interval(a: Interval, frac_bits: int) -> Interval:
    _lead_interval(a)
    return Interval(1 << frac_bits, (2 << frac_bits) - 1)


_register("lead", _lead_evaluate, _lead_interval)
_register("mantissa", _mantissa_evaluate, _mantissa_interval)


# --- tables, root, division -------------------------------------------------------------------


def lookup(table: Table, index: Value) -> Value:
    """``table.entries[index]``; the index's interval must lie inside the table."""
    return apply("lookup", index, table=table)


def integer_sqrt(a: Value) -> Value:
    """floor(sqrt(a)) for a >= 0, exact."""
    return apply("isqrt", a)


def integer_divide(a: Value, b: Value) -> Value:
    """floor(a / b) for a >= 0 and b >= 1, exact."""
    return apply("idiv", a, b)


def _lookup_interval(index: Interval, table: Table) -> Interval:
    if index.lo < 0 or index.hi >= len(table.entries):
        raise AssertionError(
            f"table {table.name} has {len(table.entries)} entries; index {index.lo}..{index.hi}"
        )
    used = table.entries[index.lo : index.hi + 1]
    return Interval(min(used), max(used))


def _isqrt_evaluate(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    wide = a.astype(np.int64)
    root = np.sqrt(wide.astype(np.float64)).astype(np.int64)  # IEEE sqrt: off by one at most
    root -= root * root > wide
    root += (root + 1) * (root + 1) <= wide
    return root.astype(dtype)


def _isqrt_interval(a: Interval) -> Interval:
    if a.lo < 0:
        raise AssertionError("integer_sqrt needs a >= 0")
    return Interval(math.isqrt(a.lo), math.isqrt(a.hi))


def _idiv_interval(a: Interval, b: Interval) -> Interval:
    if a.lo < 0 or b.lo < 1:
        raise AssertionError("integer_divide needs a >= 0 and b >= 1")
    return Interval(a.lo // b.hi, a.hi // b.lo)


def _idiv_evaluate(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if np.any(b == 0):
        raise AssertionError("integer_divide by 0")
    quotient: np.ndarray = np.floor_divide(a, b, dtype=dtype)
    return quotient


def _lookup_evaluate(index: np.ndarray, dtype: np.dtype, table: Table) -> np.ndarray:
    # The dtype holds the entries that the index reaches; others may be wider.
    fits = table.width + (not table.signed) <= dtype.itemsize * 8
    entries = np.take(table.array(dtype if fits else np.dtype(np.int64)), index)
    return entries.astype(dtype, copy=False)


_register("lookup", _lookup_evaluate, _lookup_interval)
_register("isqrt", _isqrt_evaluate, _isqrt_interval)
_register("idiv", _idiv_evaluate, _idiv_interval)


# --- names and knowledge ----------------------------------------------------------------------


def named(name: str, value: Value) -> Value:
    """Give a signal its name in traces, vectors and emitted code; arrays pass through.

    A signal that has a name already (an input, or what a shift by 0 has left as it was) keeps it,
    and gets the new one on a node of its own.
    """
    if isinstance(value, Signal):
        if value.tracer.has_name(value):
            value = assume(value, value.interval.lo, value.interval.hi, "another name")
        value.tracer.name(value, name)
    return value


def parameter(name: str, value: int, like: Value, span: tuple[int, int] | None = None) -> Value:
    """A named constant of the layer (eps, a multiplier) in the program that ``like`` belongs to.

    span: the least and the largest that it may be in any layer, for a kernel that gets it as a
    run-time port; None if it is the same in all. It stays a node of its own.
    """
    if isinstance(like, Signal):
        return like.tracer.parameter(name, value, None if span is None else Interval(*span))
    return np.int64(value)


def setting(name: str, value: int, like: Value, span: tuple[int, int]) -> Value:
    """A number of the layer that is no signal of its own: a static shift, an offset.

    ``value`` itself, or its input where the program is traced for run-time ports; span as above.
    """
    port = like.tracer.setting(name, value, Interval(*span)) if isinstance(like, Signal) else None
    return value if port is None else port


def assume(a: Value, lo: int, hi: int, reason: str) -> Value:
    """Narrow an interval by knowledge that intervals cannot see. Never changes a value.

    The NumPy model checks the assumption on every value it computes.
    """
    return apply("assume", a, lo=lo, hi=hi, reason=reason)


def _assume_interval(a: Interval, lo: int, hi: int, reason: str) -> Interval:
    return Interval(max(a.lo, lo), min(a.hi, hi))


def _assume_evaluate(a: np.ndarray, dtype: np.dtype, lo: int, hi: int, reason: str) -> np.ndarray:
    if np.any(a < lo) or np.any(a > hi):
        raise AssertionError(f"assumption broken: {reason} ({lo}..{hi})")
    return a.astype(dtype, copy=False)


_register("assume", _assume_evaluate, _assume_interval)


def trace(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[tuple[str, Interval]],
    *,
    ports: bool = False,
) -> Program:
    """Run ``function`` on symbols named as given and return its Program.

    ``function`` returns one Signal or a tuple of them; each must have been named. ports: its
    settings become further inputs, of the interval that their span says.
    """
    if not ports:
        return _trace(name, function, inputs, ())
    settings = _trace(name, function, inputs, None).settings
    added = [(n, s.span) for n, s in settings.items()]
    return _trace(name, function, [*inputs, *added], tuple(settings))


def _trace(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[tuple[str, Interval]],
    ports: tuple[str, ...] | None,
) -> Program:
    tracer = Tracer(name, inputs, ports)
    signals = tracer.input_signals()
    result = function(*signals[: len(signals) - len(ports or ())])
    outputs = result if isinstance(result, tuple) else (result,)
    return tracer.finish(tuple(tracer.lift(s) for s in outputs))
