"""Every operation against Python integers, its interval rule, and random programs traced."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from exact_integers import OVERFLOWS, REFERENCE, ROUNDINGS, round_shift_exact
from hypothesis import given, settings
from hypothesis import strategies as st

from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.errors import ApproxNormError
from approxnorm.formats import Overflow, Rounding
from approxnorm.program import Interval, Program, Signal, WidthError, ops
from approxnorm.program.datapath import DatapathBuilder
from approxnorm.program.interval import MAX_SIGNAL_BITS, bits_signed
from approxnorm.tables.table import Table

TOP = (1 << (MAX_SIGNAL_BITS - 1)) - 1  # the largest signal
BOTTOM = -TOP - 1

Attrs = dict[str, Any]

# How each operation is called through the public functions, with the attributes of a node.
CALL: dict[str, Callable[..., Any]] = {
    "add": ops.add,
    "sub": ops.sub,
    "mul": ops.mul,
    "neg": ops.neg,
    "abs": ops.absolute,
    "less": ops.less,
    "equal": ops.equal,
    "select": ops.select,
    "min": ops.minimum,
    "max": ops.maximum,
    "shl": ops.shift_left,
    "shr": ops.shift_floor,
    "bits": ops.bits,
    "round_shift": ops.round_shift,
    "lead": ops.leading_one,
    "mantissa": ops.leading_mantissa,
    "lookup": lambda index, table: ops.lookup(table, index),
    "isqrt": ops.integer_sqrt,
    "idiv": ops.integer_divide,
    "assume": lambda a, lo, hi: ops.assume(a, lo, hi, "drawn"),
}
ARGUMENTS = {"add": 2, "sub": 2, "mul": 2, "less": 2, "equal": 2, "select": 3, "min": 2, "max": 2}
ARGUMENTS |= {"idiv": 2, "round_shift": 2}


def reference(op: str, args: Sequence[int], attrs: Mapping[str, Any]) -> int:
    return REFERENCE[op](*(int(a) for a in args), **attrs)


def test_every_operation_is_tested() -> None:
    assert set(CALL) == set(REFERENCE) == set(ops.OPS)


# --- values and intervals of single operations --------------------------------------------------


@st.composite
def boundaries(draw: st.DrawFn, bits: int = MAX_SIGNAL_BITS) -> int:
    """Integers of any size up to ``bits``, close to where integer types end."""
    sizes = [
        n for n in (1, 2, 7, 8, 14, 15, 16, 17, 30, 31, 32, 33, 52, 53, 54, 61, 62) if n < bits
    ]
    near = (1 << draw(st.sampled_from(sizes))) + draw(st.integers(-2, 2))
    value = draw(st.sampled_from([near, -near]) | st.integers(-20, 20))
    top = (1 << (bits - 1)) - 1
    return min(max(value, -top - 1), top)


def intervals(bits: int = MAX_SIGNAL_BITS, lo: int | None = None) -> st.SearchStrategy[Interval]:
    ends = boundaries(bits) if lo is None else boundaries(bits).map(lambda v: max(abs(v), lo))
    top = (1 << (bits - 1)) - 1
    return st.tuples(ends, ends).map(lambda e: Interval(min(min(e), top), min(max(e), top)))


def values_in(interval: Interval) -> st.SearchStrategy[int]:
    ends = st.sampled_from([interval.lo, interval.hi, min(max(0, interval.lo), interval.hi)])
    return ends | st.integers(interval.lo, interval.hi)


TABLES = [
    Table("small", (3, 1, 4, 1, 5, 9, 2, 6), 0, "index"),
    Table("signed", (-(1 << 15), -1, 0, 7, (1 << 15) - 1), 0, "index"),
    # An index that stays in the first half needs a narrow type only.
    Table("uneven", (1, -2, 3, 1 << 15, (1 << 31) - 1, 1 << 31, TOP, BOTTOM), 0, "index"),
    Table("one", (42,), 0, "index"),
]


@st.composite
def limits(draw: st.DrawFn, overflow: str) -> tuple[int, int]:
    """Limits that a mode takes: of a format for WRAP (any offset) and SAT_SYM, any for the rest."""
    if overflow in ("SAT", "SAT_ZERO"):
        ends = sorted([draw(boundaries()), draw(boundaries())])
        return ends[0], ends[1]
    width = draw(st.sampled_from([1, 2, 8, 14, 15, 16, 17, 31, 32, 33, 48, 61, 62]))
    if draw(st.booleans()):
        return 0, (1 << width) - 1
    offset = draw(st.integers(-1, 1)) * (1 << (width - 2)) if width > 1 else 0
    offset = offset if overflow == "WRAP" else 0
    return -(1 << (width - 1)) + offset, (1 << (width - 1)) - 1 + offset


@st.composite
def attributes(draw: st.DrawFn, op: str, args: Sequence[Interval]) -> Attrs | None:
    """Attributes that suit the arguments, or None if there are none."""
    if op == "shl":
        room = MAX_SIGNAL_BITS - bits_signed(args[0].lo, args[0].hi)
        return {"amount": draw(st.integers(1, room))} if room else None
    if op == "shr":
        return {"amount": draw(st.integers(1, 70))}
    if op == "bits":
        low = draw(st.integers(0, 66))
        return {"high": low + draw(st.integers(0, 61)), "low": low}
    if op == "mantissa":
        return {"frac_bits": draw(st.integers(0, 61))}
    if op == "lookup":
        fit = [t for t in TABLES if args[0].lo >= 0 and args[0].hi < len(t.entries)]
        return {"table": draw(st.sampled_from(fit))} if fit else None
    if op == "assume":
        return {"lo": args[0].lo - draw(st.integers(0, 1)), "hi": args[0].hi + 1}
    if op == "round_shift":
        overflow = draw(st.sampled_from(OVERFLOWS))
        rounding = draw(st.sampled_from(ROUNDINGS))
        return {
            "rounding": Rounding(rounding),
            "limits": draw(st.none() | limits(overflow)),
            "overflow": Overflow(overflow),
        }
    return {}


def allowed(op: str, args: Sequence[Interval]) -> bool:
    """Whether the operation is defined for such arguments."""
    if op == "select":
        return args[0].lo >= 0 and args[0].hi <= 1
    if op in ("lead", "mantissa", "isqrt", "lookup"):
        return args[0].lo >= 0
    return op != "idiv" or (args[0].lo >= 0 and args[1].lo >= 1)


@st.composite
def arguments(draw: st.DrawFn, op: str) -> list[Interval]:
    if op == "select":
        return [draw(intervals(2, 0)), draw(intervals()), draw(intervals())]
    if op == "lookup":
        return [
            draw(
                st.tuples(st.integers(0, 7), st.integers(0, 7)).map(
                    lambda e: Interval(min(e), max(e))
                )
            )
        ]
    if op in ("lead", "mantissa", "isqrt"):
        return [draw(intervals(lo=0))]
    if op == "idiv":
        return [draw(intervals(lo=0)), draw(intervals(lo=1))]
    if op == "round_shift":
        amount = intervals(8) | st.integers(-70, 70).map(lambda s: Interval(s, s)) | intervals()
        return [draw(intervals()), draw(amount)]
    bits = 32 if op == "mul" else MAX_SIGNAL_BITS - 1 if op in ("add", "sub", "neg", "abs") else 63
    return [draw(intervals(bits)) for _ in range(ARGUMENTS.get(op, 1))]


def call(op: str, args: Sequence[Any], attrs: Attrs) -> Any:
    return CALL[op](*args, **attrs)


def trace_one(op: str, args: Sequence[Interval], attrs: Attrs) -> Program:
    names = [(f"i{n}", interval) for n, interval in enumerate(args)]
    program: Program = ops.trace(
        "one", lambda *signals: ops.named("y", call(op, signals, attrs)), names
    )
    return program


def run_one(program: Program, args: Sequence[Interval], columns: np.ndarray) -> np.ndarray:
    """A program through the NumPy backend; each column of arguments is an element."""
    builder = DatapathBuilder(columns.shape[1])
    ports = [builder.input(f"i{n}", "element", a.lo, a.hi) for n, a in enumerate(args)]
    output = builder.element("one", _replay(program), *ports)
    inputs = {f"i{n}": column[None, :] for n, column in enumerate(columns)}
    return NumpyBackend(builder.finish(output)).run(inputs)[0]


def _replay(program: Program) -> Callable[..., Any]:
    """The same nodes once more, in another tracer."""

    def function(*signals: Signal) -> Any:
        values: list[Any] = list(signals)
        for node in program.nodes[len(signals) :]:
            if node.op == "const":
                values.append(node.attrs["value"])
                continue
            args = [values[i] for i in node.args]
            values.append(ops.apply(node.op, *args, **node.attrs))
        return ops.named("y", values[program.outputs[0]])

    return function


@pytest.mark.parametrize("op", sorted(set(ops.OPS)))
@given(data=st.data())
@settings(max_examples=60)
def test_value_is_exact_and_inside_the_interval(op: str, data: st.DataObject) -> None:
    args = data.draw(arguments(op))
    attrs = data.draw(attributes(op, args))
    if attrs is None:
        return
    samples = data.draw(st.lists(st.tuples(*(values_in(a) for a in args)), min_size=1, max_size=12))
    wanted = [reference(op, sample, attrs) for sample in samples]
    try:
        program = trace_one(op, args, attrs)
    except WidthError:  # of the interval: these values alone may fit
        if not all(BOTTOM <= w <= TOP for w in wanted):
            return
    else:
        interval = program.nodes[program.outputs[0]].interval
        assert all(w in interval for w in wanted), interval
        columns = np.array(samples, np.int64).T
        assert run_one(program, args, columns).tolist() == wanted
    eager = call(op, list(np.array(samples, np.int64).T), attrs)
    assert eager.dtype == np.int64
    assert eager.tolist() == wanted


# --- tight intervals ----------------------------------------------------------------------------


def small_intervals(lo: int, hi: int) -> list[Interval]:
    return [Interval(a, b) for a in range(lo, hi + 1) for b in range(a, hi + 1)]


def check_tight(op: str, args: Sequence[Interval], attrs: Attrs) -> None:
    """The interval rule gives the least and the greatest value, no more."""
    node_attrs = dict(attrs)
    if op == "round_shift":
        lo, hi = node_attrs.pop("limits") or (None, None)
        node_attrs |= {"lo": lo, "hi": hi}
    found = ops.OPS[op].interval(*args, **node_attrs)
    values = [
        reference(op, sample, attrs) for sample in product(*(range(a.lo, a.hi + 1) for a in args))
    ]
    assert found == Interval(min(values), max(values)), (op, args, attrs)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "less", "equal", "min", "max"])
def test_intervals_of_two_arguments_are_tight(op: str) -> None:
    some = small_intervals(-3, 3)
    for a, b in product(some, some):
        check_tight(op, [a, b], {})


@pytest.mark.parametrize("op", ["neg", "abs"])
def test_intervals_of_one_argument_are_tight(op: str) -> None:
    for a in small_intervals(-9, 9):
        check_tight(op, [a], {})


@pytest.mark.parametrize("op", ["lead", "isqrt"])
def test_intervals_of_naturals_are_tight(op: str) -> None:
    for a in small_intervals(0, 20):
        check_tight(op, [a], {})


def test_interval_of_a_division_is_tight() -> None:
    for a, b in product(small_intervals(0, 6), small_intervals(1, 6)):
        check_tight("idiv", [a, b], {})


def test_interval_of_a_choice_is_tight() -> None:
    for c, a, b in product(small_intervals(0, 1), small_intervals(-1, 1), small_intervals(0, 2)):
        check_tight("select", [c, a, b], {})


@pytest.mark.parametrize("amount", [1, 2, 5])
def test_intervals_of_constant_shifts_are_tight(amount: int) -> None:
    for a in small_intervals(-9, 9):
        check_tight("shl", [a], {"amount": amount})
        check_tight("shr", [a], {"amount": amount})


@pytest.mark.parametrize(("high", "low"), [(0, 0), (1, 0), (1, 1), (2, 1), (9, 2), (9, 9)])
def test_interval_of_a_bit_field_is_tight(high: int, low: int) -> None:
    for a in small_intervals(-9, 9):
        check_tight("bits", [a], {"high": high, "low": low})


def test_interval_of_a_look_up_is_tight() -> None:
    for a in small_intervals(0, 7):
        check_tight("lookup", [a], {"table": TABLES[0]})
        check_tight("lookup", [a], {"table": TABLES[2]})


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_interval_of_round_shift_is_tight(rounding: str) -> None:
    attrs: Attrs = {"rounding": Rounding(rounding), "limits": None, "overflow": Overflow.SAT}
    for a in small_intervals(-9, 9)[::3]:
        for s in small_intervals(-2, 4):
            check_tight("round_shift", [a, s], attrs)
            for overflow in (Overflow.SAT, Overflow.SAT_SYM):
                check_tight(
                    "round_shift", [a, s], attrs | {"limits": (-4, 3), "overflow": overflow}
                )


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("a", [Interval(-100, 90), Interval(-300, 504), Interval(-504, 3)])
def test_round_shift_inside_its_limits_keeps_its_interval(a: Interval, rounding: str) -> None:
    for overflow in Overflow:
        found = ops.OPS["round_shift"].interval(
            a, Interval(3, 3), rounding=Rounding(rounding), lo=-64, hi=63, overflow=overflow
        )
        ends = [round_shift_exact(v, 3, rounding, None, "SAT") for v in (a.lo, a.hi)]
        assert found == Interval(*ends)


@pytest.mark.parametrize(
    ("a", "wanted"), [((-7, 5), (0, 49)), ((3, 5), (9, 25)), ((-5, -3), (9, 25)), ((0, 0), (0, 0))]
)
def test_interval_of_a_square(a: tuple[int, int], wanted: tuple[int, int]) -> None:
    program = ops.trace("square", lambda x: ops.named("y", x * x), [("x", Interval(*a))])
    assert program.nodes[program.outputs[0]].interval == Interval(*wanted)


def test_interval_of_a_mantissa_holds_the_normalised_range() -> None:
    found = ops.OPS["mantissa"].interval(Interval(0, 1000), frac_bits=4)
    assert found == Interval(16, 31)


@pytest.mark.parametrize("largest", [3, 181, 1 << 15, (1 << 26) + 1, 94906267, 1 << 31])
def test_roots_about_perfect_squares(largest: int) -> None:
    """float64 rounds the squares above 2**53, and their roots up to the next integer."""
    roots = [*range(max(1, largest - 200), largest + 1), largest // 3, largest * 2 // 3]
    values = [min(r * r + d, TOP) for r in roots for d in (-1, 0, 1)]
    assert ops.integer_sqrt(np.array(values)).tolist() == [
        reference("isqrt", [v], {}) for v in values
    ]
    leads = [1 << n for n in range(1, MAX_SIGNAL_BITS - 1)]
    for value in leads:
        for near in (value - 1, value, value + 1):
            assert ops.leading_one(np.array(near)) == reference("lead", [near], {})


def test_assume_narrows_and_checks() -> None:
    program = ops.trace(
        "known", lambda x: ops.named("y", ops.assume(x, -3, 300, "so")), [("x", Interval(-9, 9))]
    )
    assert program.nodes[program.outputs[0]].interval == Interval(-3, 9)
    assert run_one(program, [Interval(-9, 9)], np.array([[-3, 9]])).tolist() == [-3, 9]
    for broken in ([-4], [-9]):
        with pytest.raises(AssertionError, match="assumption broken: so"):
            run_one(program, [Interval(-9, 9)], np.array([broken]))
    with pytest.raises(AssertionError, match="empty interval"):
        ops.trace("none", lambda x: ops.assume(x, 10, 20, "no"), [("x", Interval(-9, 9))])


# --- round-shift, whatever the amount -------------------------------------------------------------

AMOUNTS = [-(1 << 61), -600, -512, -65, -64, -63, -62, -61, -33, -32, -31, -17, -16, -15, -2, -1, 0]
AMOUNTS += [1, 2, 13, 14, 15, 16, 17, 30, 31, 32, 33, 61, 62, 63, 64, 65, 512, 600, TOP]


def magnitudes(bits: int) -> list[int]:
    top = (1 << (bits - 1)) - 1
    near = {0, 1, 2, 3, 5, 6, top // 2, top // 2 + 1, top // 2 + 2, top - 1, top}
    return sorted(near | {-v for v in near} | {-top - 1})


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("bits", [4, 15, 16, 31, 32, 63])
def test_round_shift_by_signals(bits: int, overflow: str, rounding: str) -> None:
    """Traced: the first argument's width chooses int16, int32 or int64."""
    values = magnitudes(bits)
    args = [Interval(values[0], values[-1]), Interval(AMOUNTS[0], AMOUNTS[-1])]
    columns = np.array(list(product(values, AMOUNTS))).T
    wide = [(-(1 << 62), TOP), (0, TOP)] if bits == 63 else []
    for low, high in [(-8, 7), (0, 15), (-(1 << 14), (1 << 14) - 1), (0, (1 << 16) - 1), *wide]:
        attrs: Attrs = {
            "rounding": Rounding(rounding),
            "limits": (low, high),
            "overflow": Overflow(overflow),
        }
        wanted = [reference("round_shift", pair, attrs) for pair in columns.T]
        program = trace_one("round_shift", args, attrs)
        assert run_one(program, args, columns).tolist() == wanted
        assert call("round_shift", list(columns), attrs).tolist() == wanted


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("bits", [4, 15, 16, 31, 32, 63])
def test_round_shift_to_the_right_without_limits(bits: int, rounding: str) -> None:
    values, amounts = magnitudes(bits), [s for s in AMOUNTS if s >= 0]
    args = [Interval(values[0], values[-1]), Interval(0, TOP)]
    attrs: Attrs = {"rounding": Rounding(rounding), "limits": None, "overflow": Overflow.SAT}
    columns = np.array(list(product(values, amounts))).T
    wanted = [reference("round_shift", pair, attrs) for pair in columns.T]
    assert run_one(trace_one("round_shift", args, attrs), args, columns).tolist() == wanted


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_arguments_of_any_integer_type(dtype: type) -> None:
    """Eager calls widen first: nothing wraps in the caller's type, even where nothing is done."""
    info = np.iinfo(dtype)
    a: np.ndarray = np.array([info.max, info.min, 5], dtype)
    top, bottom = int(info.max), int(info.min)
    assert (a_sum := ops.add(a, a)).tolist() == [2 * top, 2 * bottom, 10]
    assert a_sum.dtype == np.int64
    assert ops.mul(a, 3).tolist() == [3 * top, 3 * bottom, 15]
    assert ops.neg(a).tolist() == [-top, -bottom, -5]
    assert ops.absolute(a).tolist() == [top, -bottom, 5]
    assert (ops.shift_left(a, 0) + ops.shift_floor(a, 0)).tolist() == [2 * top, 2 * bottom, 10]
    amount: np.ndarray = np.array([0, 1, 3], dtype)
    shifted = ops.round_shift(a, amount, Rounding.TRN, (-(1 << 40), 1 << 40), Overflow.SAT)
    assert shifted.tolist() == [top, bottom >> 1, 0]


def test_python_integers_and_scalars() -> None:
    assert ops.add(2, 3) == 5
    assert ops.round_shift(-5, 1, Rounding.RND_CONV, (-8, 7), Overflow.WRAP) == -2
    assert ops.round_shift(np.int64(-1), -70, Rounding.TRN, (-8, 7), Overflow.SAT) == -8
    assert ops.leading_one(np.array(9)) == 3
    assert ops.integer_sqrt(24) == 4
    assert ops.leading_mantissa(9, 2) == 4
    assert ops.saturate(np.bool_(True), (0, 0), Overflow.SAT) == 0


@pytest.mark.parametrize("value", [1.5, np.array([1.0]), np.float32(2), "1"])
def test_only_integers_are_taken(value: Any) -> None:
    with pytest.raises(TypeError, match="operations take integers"):
        ops.add(value, 1)


def test_constants_of_a_program_are_integers() -> None:
    with pytest.raises(TypeError, match="constants are integers"):
        ops.trace("half", lambda x: x + 1.5, [("x", Interval(0, 1))])
    program = ops.trace("two", lambda x: ops.named("y", x + np.int8(2)), [("x", Interval(0, 1))])
    assert program.nodes[program.outputs[0]].interval == Interval(2, 3)


@pytest.mark.parametrize("left", [True, False])
def test_numpy_scalars_and_signals_mix(left: bool) -> None:
    two = np.int64(2)

    def function(x: Signal) -> Any:
        value = two * x + two - x if left else x * two - x + two
        assert isinstance(value, Signal)
        return ops.named("y", value)

    program = ops.trace("mixed", function, [("x", Interval(-5, 5))])
    args = [Interval(-5, 5)]
    assert run_one(program, args, np.array([[-5, 0, 5]])).tolist() == [-3, 2, 7]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "overflow"),
    [
        ((0, 9), "WRAP"),
        ((-8, 6), "WRAP"),
        ((3, 2), "SAT"),
        ((3, 2), "SAT_ZERO"),
        ((-9, -3), "SAT_SYM"),
    ],
)
def test_limits_that_hold_no_code(limits: tuple[int, int], overflow: str) -> None:
    with pytest.raises(AssertionError):
        ops.round_shift(np.array([1]), 0, Rounding.TRN, limits, Overflow(overflow))


@pytest.mark.parametrize(
    ("function", "interval"),
    [
        (ops.leading_one, Interval(-1, 5)),
        (lambda x: ops.leading_mantissa(x, 3), Interval(-1, 5)),
        (ops.integer_sqrt, Interval(-1, 5)),
        (lambda x: ops.integer_divide(x, 2), Interval(-1, 5)),
        (lambda x: ops.integer_divide(5, x), Interval(0, 5)),
        (lambda x: ops.select(x, 1, 2), Interval(0, 2)),
        (lambda x: ops.select(x, 1, 2), Interval(-1, 1)),
        (lambda x: ops.lookup(TABLES[0], x), Interval(0, 8)),
        (lambda x: ops.lookup(TABLES[0], x), Interval(-1, 7)),
    ],
)
def test_arguments_outside_an_operation(
    function: Callable[[Signal], Signal], interval: Interval
) -> None:
    with pytest.raises(AssertionError):
        ops.trace("bad", function, [("x", interval)])


def test_signals_have_no_truth_value_and_one_program() -> None:
    kept: list[Signal] = []

    def function(x: Signal) -> Any:
        kept.append(x)
        return ops.named("y", x + 1)

    ops.trace("first", function, [("x", Interval(0, 1))])
    with pytest.raises(TypeError, match="no truth value"):
        bool(kept[0])
    with pytest.raises(AssertionError, match="used in another"):
        ops.trace("second", lambda x: ops.named("y", x + kept[0]), [("x", Interval(0, 1))])


def test_names_are_given_once() -> None:
    x = [("x", Interval(0, 1))]
    with pytest.raises(AssertionError, match="has no name"):
        ops.trace("none", lambda x: x + 1, x)
    with pytest.raises(AssertionError, match="are named x"):
        ops.trace("taken", lambda x: ops.named("x", x + 1), x)


def test_a_signal_may_pass_through_under_another_name() -> None:
    def function(x: Signal) -> Any:
        a = ops.named("a", ops.shift_left(x, 0))
        b = ops.named("b", ops.shift_floor(a, 0))
        return ops.named("c", ops.select(1, b, a)), ops.named("d", ops.select(b, 1, 0) * 0 + 1)

    program = ops.trace("names", function, [("x", Interval(1, 1))])
    assert [n.name for n in program.named_nodes()] == ["a", "b", "c", "d"]
    assert all(n.interval == Interval(1, 1) for n in program.named_nodes()[:3])


# (function, the interval that just fits, the interval that does not)
EDGES: list[tuple[str, Callable[[Any], Any], tuple[int, int], tuple[int, int]]] = [
    ("input", lambda x: ops.shift_floor(x, 1), (BOTTOM, TOP), (0, TOP + 1)),
    ("input", lambda x: ops.shift_floor(x, 1), (BOTTOM, 0), (BOTTOM - 1, 0)),
    ("add", lambda x: x + 1, (BOTTOM, TOP - 1), (BOTTOM, TOP)),
    ("sub", lambda x: x - 1, (BOTTOM + 1, TOP), (BOTTOM, TOP)),
    ("neg", lambda x: -x, (-TOP, 0), (BOTTOM, 0)),
    ("abs", ops.absolute, (-TOP, 0), (BOTTOM, 0)),
    ("mul", lambda x: x * 2, (BOTTOM // 2, TOP // 2), (0, TOP // 2 + 1)),
    ("mul", lambda x: x * x, (-(2**31) + 1, 0), (-(2**31), 0)),
    ("shl", lambda x: ops.shift_left(x, 30), (-(2**32), 2**32 - 1), (0, 2**32)),
    ("bits", lambda x: ops.bits(x, 61, 0), (BOTTOM, TOP), (BOTTOM - 1, 0)),
    ("bits", lambda x: ops.bits(x, 70, 0), (0, TOP), (-1, 0)),
    ("mantissa", lambda x: ops.leading_mantissa(x, 61), (0, TOP), (0, TOP + 1)),
    ("round_shift", lambda x: ops.round_shift(x, -1, Rounding.TRN), (0, TOP // 2), (0, TOP)),
    ("const", lambda x: ops.minimum(x, TOP), (0, 1), (0, TOP + 1)),
]


@pytest.mark.parametrize(
    ("function", "fits", "too_wide"), [e[1:] for e in EDGES], ids=[e[0] for e in EDGES]
)
def test_sixty_three_bits_fit_and_no_more(
    function: Callable[[Any], Any], fits: tuple[int, int], too_wide: tuple[int, int]
) -> None:
    program = ops.trace("edge", lambda x: ops.named("y", function(x)), [("x", Interval(*fits))])
    ends = np.array([[fits[0], fits[0] + 1, fits[1] - 1, fits[1]]])
    found = run_one(program, [Interval(*fits)], ends)
    assert found.tolist() == function(ends[0]).tolist()
    with pytest.raises(WidthError, match=r"needs (6[4-9]|7\d) signed bits") as error:
        ops.trace("edge", lambda x: ops.named("y", function(x)), [("x", Interval(*too_wide))])
    assert isinstance(error.value, ApproxNormError)
    assert error.value.bits > MAX_SIGNAL_BITS


def test_constants_have_sixty_three_bits() -> None:
    with pytest.raises(WidthError, match="at most 63"):
        ops.trace(
            "wide", lambda x: ops.named("y", ops.minimum(x, TOP + 1)), [("x", Interval(0, 1))]
        )
    with pytest.raises(WidthError, match="at most 63"):
        ops.trace("wide", lambda x: ops.parameter("p", BOTTOM - 1, x), [("x", Interval(0, 1))])


def test_parameters_are_nodes_of_their_own() -> None:
    program = ops.trace(
        "eps",
        lambda x: ops.named("y", x + ops.parameter("eps", 7, x) + ops.parameter("again", 7, x) + 7),
        [("x", Interval(0, 1))],
    )
    constants = [n for n in program.nodes if n.op == "const"]
    assert [(n.name, n.attrs["value"]) for n in constants] == [("eps", 7), ("again", 7), (None, 7)]
    assert ops.parameter("eps", 7, np.arange(3)) == 7


@pytest.mark.parametrize(
    ("lo", "hi", "width", "type_name"),
    [
        (0, 0, 1, "ap_uint<1>"),
        (0, 1, 1, "ap_uint<1>"),
        (0, 255, 8, "ap_uint<8>"),
        (0, 256, 9, "ap_uint<9>"),
        (5, 6, 3, "ap_uint<3>"),
        (-1, 0, 1, "ap_int<1>"),
        (-128, 127, 8, "ap_int<8>"),
        (-128, 128, 9, "ap_int<9>"),
        (-129, 0, 9, "ap_int<9>"),
        (-1, 255, 9, "ap_int<9>"),
        (-5, -3, 4, "ap_int<4>"),
        (BOTTOM, TOP, 63, "ap_int<63>"),
        (0, TOP, 62, "ap_uint<62>"),
    ],
)
def test_widths_of_intervals(lo: int, hi: int, width: int, type_name: str) -> None:
    assert Interval(lo, hi).width == width
    assert Interval(lo, hi).type_name == type_name


# --- random programs ------------------------------------------------------------------------------

Step = tuple[str, list[int | tuple[int]], Attrs]  # an argument is a value's index, or (constant,)
STEPS = 12


class RandomProgram:
    """Draws a program while it is traced, and remembers it as steps to compute otherwise."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self.steps: list[Step] = []
        self.names: dict[str, int] = {}

    def __call__(self, *signals: Signal) -> Signal:
        values = list(signals)
        for _ in range(self._data.draw(st.integers(STEPS // 3, STEPS))):
            made = self._step(values)
            if made is not None:
                values.append(made)
                if self._data.draw(st.booleans()):
                    self._name(values)
        if len(values) == len(signals) or len(values) - 1 not in self.names.values():
            self.steps.append(("add", [len(values) - 1, (0,)], {}))
            values.append(values[-1] + 0)
            self._name(values)
        return values[-1]

    def _name(self, values: list[Signal]) -> None:
        name = f"v{len(values) - 1}"
        self.names[name] = len(values) - 1
        ops.named(name, values[-1])

    def _suited(self, op: str, values: list[Signal]) -> list[int]:
        """Which values the operation's first argument may be."""
        top = {"select": 1, "lookup": 7}.get(op, TOP)
        bottom = 0 if op in ("select", "lookup", "lead", "mantissa", "isqrt", "idiv") else BOTTOM
        return [i for i, v in enumerate(values) if bottom <= v.interval.lo and v.interval.hi <= top]

    def _step(self, values: list[Signal]) -> Signal | None:
        draw = self._data.draw
        op = draw(st.sampled_from(sorted(op for op in ops.OPS if self._suited(op, values))))
        picked: list[int | tuple[int]] = [
            draw(st.integers(0, len(values) - 1)) for _ in range(ARGUMENTS.get(op, 1))
        ]
        picked[0] = draw(st.sampled_from(self._suited(op, values)))
        if op == "idiv":
            picked[1] = (max(1, draw(boundaries())),)
        elif len(picked) > 1 and draw(st.booleans()):
            picked[draw(st.integers(1, len(picked) - 1))] = (draw(boundaries()),)
        signals = [values[p] if isinstance(p, int) else p[0] for p in picked]
        known = [s.interval if isinstance(s, Signal) else Interval(s, s) for s in signals]
        if not allowed(op, known):
            return None
        attrs = draw(attributes(op, known))
        if attrs is None or (op == "select" and known[0].lo == known[0].hi):
            return None
        try:
            made: Signal = call(op, signals, attrs)
        except WidthError:
            return None
        self.steps.append((op, picked, attrs))
        return made

    def compute(self, inputs: Sequence[Any], one: Callable[..., Any]) -> dict[str, Any]:
        """The named values, each step computed by ``one(op, args, attrs)``."""
        values = list(inputs)
        for op, picked, attrs in self.steps:
            args = [values[p] if isinstance(p, int) else p[0] for p in picked]
            values.append(one(op, args, attrs))
        return {name: values[index] for name, index in self.names.items()}


@st.composite
def inputs_for(draw: st.DrawFn, interval: Interval, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    values = draw(st.lists(values_in(interval), min_size=count, max_size=count))
    return np.array(values, np.int64).reshape(shape)


ROWS, DIM = 3, 2


@given(st.data())
@settings(max_examples=150)
def test_random_programs(data: st.DataObject) -> None:
    """Element, channel and row signals mixed: traced, eager and Python integers are the same."""
    # Inputs of at most 16 bits are where the backend tabulates.
    sizes = st.sampled_from([63, 62, 33, 32, 17, 16, 9, 4])
    known = [data.draw(intervals(data.draw(sizes))) for _ in range(4)] + [Interval(0, 1)]
    program = RandomProgram(data)
    builder = DatapathBuilder(DIM)
    x = builder.input("x", "element", known[0].lo, known[0].hi)
    small = builder.input("small", "element", known[1].lo, known[1].hi)
    channel = builder.input("channel", "channel", known[2].lo, known[2].hi)
    source = builder.input("source", "element", known[3].lo, known[3].hi)
    flag = builder.input("flag", "element", 0, 1)
    row = builder.max("row", source)
    output = builder.element("random", program, x, small, channel, row, flag)
    backend = NumpyBackend(builder.finish(output))
    shapes = [(ROWS, DIM), (ROWS, DIM), (DIM,), (ROWS, DIM), (ROWS, DIM)]
    arrays = [data.draw(inputs_for(i, s)) for i, s in zip(known, shapes, strict=True)]
    inputs = dict(zip(("x", "small", "channel", "source", "flag"), arrays, strict=True))

    traced = backend.run_traced(inputs)
    assert traced["row"].tolist() == arrays[3].max(axis=1).tolist()
    arguments = [*arrays[:2], arrays[2][None, :], arrays[3].max(axis=1, keepdims=True), arrays[4]]
    eager = program.compute(arguments, call)
    for r, c in product(range(ROWS), range(DIM)):
        element = [np.broadcast_to(a, (ROWS, DIM))[r, c].item() for a in arguments]
        for name, wanted in program.compute(element, reference).items():
            assert traced[name][r, c] == wanted, (name, program.steps)
            assert np.broadcast_to(eager[name], (ROWS, DIM))[r, c] == wanted, (name, program.steps)
    assert backend.run(inputs).tolist() == traced[output.name].tolist()
