"""Programs for every operation, on small ranges in full and on wide ones, to try backends on."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np
from exact_integers import OVERFLOWS, ROUNDINGS

from approxnorm.formats import Overflow, Rounding
from approxnorm.program import Interval, Program, ops
from approxnorm.program.datapath import Datapath, DatapathBuilder
from approxnorm.program.interval import MAX_SIGNAL_BITS, WidthError
from approxnorm.tables.table import Table

EXHAUSTIVE = 3000  # samples
RANDOM = 150
TOP = (1 << (MAX_SIGNAL_BITS - 1)) - 1
SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 30, 31, 32, 33, 47, 52, 53, 54, 60, 61, 62)

Span = tuple[int, int]


def wide(bits: int, *, signed: bool = True) -> Span:
    """All of a type: ``bits`` with the sign."""
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


@dataclass
class Programs:
    """Programs on samples of their inputs, each as an element program of a datapath of its own."""

    datapaths: list[Datapath] = field(default_factory=list)
    samples: list[np.ndarray] = field(default_factory=list)  # (inputs, samples)
    functions: list[tuple[Callable[..., Any], tuple[Span, ...]]] = field(default_factory=list)

    def add(self, function: Callable[..., Any], *spans: Span) -> None:
        """A program of inputs of these intervals; its function returns the named outputs."""
        columns = samples_of([Interval(*s) for s in spans], len(self.datapaths))
        builder = DatapathBuilder(columns.shape[1])
        inputs = [builder.input(f"i{n}", "element", *span) for n, span in enumerate(spans)]
        outputs = builder.element(f"program_{len(self.datapaths)}", function, *inputs)
        last = outputs[-1] if isinstance(outputs, tuple) else outputs
        self.datapaths.append(builder.finish(last))
        self.samples.append(columns)
        self.functions.append((function, spans))

    def one(self, function: Callable[..., Any], *spans: Span) -> None:
        """A program of one output, unless it would pass 63 bits."""
        try:
            self.add(lambda *args: ops.named("y", function(*args)), *spans)
        except WidthError:
            return

    @property
    def traced(self) -> list[Program]:
        return [next(d.programs()).program for d in self.datapaths]


def described(program: Program) -> str:
    return "; ".join(
        f"{n.op}{n.args}{dict(n.attrs) or ''} in {n.interval.lo}..{n.interval.hi}"
        for n in program.nodes
    )


def samples_of(spans: Sequence[Interval], seed: int) -> np.ndarray:
    """Every combination if there are few, else combinations of ends and random values."""
    if prod(s.hi - s.lo + 1 for s in spans) <= EXHAUSTIVE:
        return np.array(list(product(*(range(s.lo, s.hi + 1) for s in spans))), np.int64).T
    rng = random.Random(seed)
    ends = [edges(s) for s in spans]
    some = list(product(*(e if len(spans) == 1 else rng.sample(e, min(len(e), 9)) for e in ends)))
    some += list(product(*((s.lo, s.hi) for s in spans)))
    some += [tuple(drawn(rng, s) for s in spans) for _ in range(RANDOM)]
    return np.array(some, np.int64).T


def edges(span: Interval) -> list[int]:
    near = {s * (1 << n) + d for n in range(62) for s in (1, -1) for d in (-1, 0, 1)}
    ends = {span.lo, span.lo + 1, span.hi - 1, span.hi, 0}
    return sorted(v for v in near | ends if v in span)


def drawn(rng: random.Random, span: Interval) -> int:
    """Of any size: uniform values of a wide interval are all large."""
    size = rng.randint(0, 62)
    low, high = max(span.lo, -(1 << size)), min(span.hi, 1 << size)
    return rng.randint(low, high) if low <= high else rng.randint(span.lo, span.hi)


# --- operations of two values -------------------------------------------------------------------

SMALL: list[Span] = [(-4, 3), (0, 7), (-1, 0), (0, 1), (-3, 5), (2, 6), (-9, -2), (5, 5)]
WIDE: list[Span] = [
    *(wide(b) for b in (31, 32, 33, 62)),
    *(wide(b, signed=False) for b in (31, 32, 33, 61)),
    (-5, (1 << 40) + 3),
    (-(1 << 50), -(1 << 33)),
]
NUMBERS = (
    0,
    1,
    -1,
    7,
    -8,
    (1 << 31) - 1,
    1 << 31,
    -(1 << 31),
    -(1 << 31) - 1,
    1 << 45,
    1 - (1 << 60),
)

TWO: dict[str, Callable[..., Any]] = {
    "add": ops.add,
    "sub": ops.sub,
    "mul": ops.mul,
    "less": ops.less,
    "equal": ops.equal,
    "min": ops.minimum,
    "max": ops.maximum,
}


def two_values(op: Callable[..., Any], seed: int) -> Programs:
    rng, programs = random.Random(seed), Programs()
    spans = SMALL + WIDE
    pairs = [(a, b) for a in spans for b in spans]
    for a, b in rng.sample(pairs, 26):
        programs.one(op, a, b)
    for number in NUMBERS:  # as it stands in the text, on either side
        span = rng.choice(spans)
        programs.one(lambda x, number=number: op(x, number), span)
        programs.one(lambda x, number=number: op(number, x), span)
    programs.one(lambda x: op(x, x), (-9, 4))
    return programs


def products_of_narrow_values(programs: Programs) -> None:
    for a, b in ((wide(31), wide(32)), (wide(31, signed=False), wide(31)), (wide(8), wide(54))):
        programs.one(ops.mul, a, b)
    programs.one(lambda x: x * x, wide(31))


# --- of one value ---

NATURALS: list[Span] = [
    *((0, 0), (0, 1), (1, 1), (0, 20), (7, 300), (0, 1023)),
    *(wide(b, signed=False) for b in (31, 32, 33, 53, 54, 61, 62)),
    ((1 << 40) - 3, 1 << 61),
]
ANY = [*SMALL, *WIDE, *NATURALS, (-TOP, TOP)]

TABLES = (
    Table("plain", (3, 1, 4, 1, 5, 9, 2, 6), 0, "index"),
    Table("negative", (-(1 << 15), -1, 0, 7, (1 << 15) - 1), 0, "index"),
    Table("large", (1, -2, 3, 1 << 15, (1 << 31) - 1, 1 << 31, TOP, -TOP - 1), 0, "index"),
    Table("single", (42,), 0, "index"),
    Table("register", (1, 0), 0, "index"),  # a word that C++ keeps
)


def signs() -> Programs:
    programs = Programs()
    for span in ANY:
        programs.one(ops.neg, span)
        programs.one(ops.absolute, span)
    return programs


def shifts() -> Programs:
    rng, programs = random.Random(4), Programs()
    for span in ANY:
        for amount in rng.sample((1, 3, 17, 31, 32, 44, 61), 2):
            programs.one(lambda x, n=amount: ops.shift_left(x, n), span)
        for amount in rng.sample((1, 2, 8, 31, 32, 33, 61, 62, 63, 64, 200), 3):
            programs.one(lambda x, n=amount: ops.shift_floor(x, n), span)
    return programs


def fields() -> Programs:
    rng, programs = random.Random(6), Programs()
    places = (
        (0, 0),
        (2, 1),
        (3, 0),
        (5, 5),
        (31, 0),
        (32, 30),
        (61, 0),
        (62, 62),
        (63, 60),
        (70, 9),
    )
    for span in ANY:
        for high, low in rng.sample(places, 3):
            programs.one(lambda x, h=high, n=low: ops.bits(x, h, n), span)
    return programs


def leading_ones() -> Programs:
    programs = Programs()
    for span in NATURALS:
        programs.one(ops.leading_one, span)
        for frac_bits in (0, 1, 5, 31, 61):
            programs.one(lambda x, n=frac_bits: ops.leading_mantissa(x, n), span)
    return programs


def roots() -> Programs:
    programs = Programs()
    for span in NATURALS:
        programs.one(ops.integer_sqrt, span)
    return programs


def divisions() -> Programs:
    programs = Programs()
    for a in NATURALS:
        for b in ((1, 1), (1, 9), (3, 300), (1, (1 << 31) - 1), (1, (1 << 62) - 1)):
            programs.one(ops.integer_divide, a, b)
        programs.one(lambda x: ops.integer_divide(x, 1 << 33), a)
        programs.one(lambda x: ops.integer_divide(1 << 40, x), (max(1, a[0]), max(1, a[1])))
    return programs


def look_ups() -> Programs:
    programs = Programs()
    for table in TABLES:
        last = len(table.entries) - 1
        for span in {(0, last), (0, last // 2), (last, last), (last // 2, last)}:
            programs.one(lambda i, table=table: ops.lookup(table, i), span)
        programs.one(lambda i, table=table: ops.lookup(table, ops.minimum(i, 0)), (0, 1))
    return programs


def choices() -> Programs:
    rng, programs = random.Random(5), Programs()
    for _ in range(30):
        programs.one(ops.select, (0, 1), rng.choice(ANY), rng.choice(ANY))
    for number in NUMBERS:
        span = rng.choice(ANY)
        programs.one(lambda c, x, number=number: ops.select(c, number, x), (0, 1), span)
        programs.one(lambda c, x, number=number: ops.select(c, x, number), (0, 1), span)
        programs.one(lambda c, number=number: ops.select(c, number, -7), (0, 1))
    programs.one(lambda x, y: ops.select(ops.less(x, y), x, y), (-9, 9), (-9, 9))
    return programs


def assumptions() -> Programs:
    programs = Programs()
    for lo, hi in ANY:
        programs.one(lambda x, lo=lo, hi=hi: ops.assume(x, lo - 1, hi + 2, "wider"), (lo, hi))
    # Known of what has been computed: narrower than its interval.
    programs.one(lambda x: ops.assume(ops.sub(x, ops.minimum(x, 5)), 0, 4, "kept"), (-9, 9))
    programs.one(lambda x: ops.assume(ops.mul(x, x), 0, 1 << 40, "a square"), (-(1 << 20), 1 << 20))
    return programs


ONE: dict[str, tuple[Callable[[], Programs], set[str]]] = {
    "signs": (signs, {"neg", "abs"}),
    "shifts": (shifts, {"shl", "shr"}),
    "fields": (fields, {"bits"}),
    "leading_ones": (leading_ones, {"lead", "mantissa"}),
    "roots": (roots, {"isqrt"}),
    "divisions": (divisions, {"idiv"}),
    "look_ups": (look_ups, {"lookup"}),
    "choices": (choices, {"select"}),
    "assumptions": (assumptions, {"assume"}),
}


# --- rounding shifts ---

MODES = [(Rounding(r), Overflow(o)) for r in ROUNDINGS for o in OVERFLOWS]
VALUES: list[Span] = [(-8, 7), (0, 15), (-1, 0), (0, 1), (-37, 100), (20, 90), (-40, -3)]
WIDE_VALUES = [wide(33), wide(48, signed=False), wide(62), wide(61, signed=False), (-TOP, TOP)]
AMOUNTS = (-70, -9, -1, 0, 1, 2, 4, 5, 31, 40, 62, 63, 64, 200, 1 << 40, -(1 << 40))
SPANS: list[Span] = [(-3, 4), (0, 5), (-70, 70), (2, 2), (-4, -1), (60, 70), (-(1 << 40), 1 << 41)]
LIMITS: list[Span] = [
    *(wide(b) for b in (1, 2, 4, 8, 31, 32, 33, 62)),
    *(wide(b, signed=False) for b in (1, 3, 8, 32, 61)),
]
# Of a format with a zero point: as many codes as a wrap needs, but not those of a format.
SHIFTED: list[Span] = [(-3, 4), (3, 10), (-12, -5), (-100, 155), (-(1 << 33) + 5, (1 << 33) + 4)]
UNEVEN: list[Span] = [(-5, 9), (0, 6), (1, 3), (-7, -2), (4, 4), (-(1 << 40), 5)]


def rounded(rng: random.Random, limits: Span, modes: int) -> Callable[..., Any]:
    """Several modes on the same value and amount: a program of as many outputs."""
    fit = [(r, o) for r, o in MODES if allowed(limits, o)]

    def function(value: Any, amount: Any) -> Any:
        chosen = rng.sample(fit, min(modes, len(fit)))
        return tuple(
            ops.named(f"{r}_{o}", ops.round_shift(value, amount, r, limits, o)) for r, o in chosen
        )

    return function


def allowed(limits: Span, overflow: Overflow) -> bool:
    """WRAP needs 2**n codes, SAT_SYM limits that have a symmetric part."""
    lo, hi = limits
    if overflow is Overflow.WRAP:
        return (hi - lo + 1) & (hi - lo) == 0
    return overflow is not Overflow.SAT_SYM or limits in LIMITS


def every_mode(seed: int) -> Programs:
    """Small values: each pair of modes with each kind of limits."""
    rng, programs = random.Random(seed), Programs()
    for limits in rng.sample(LIMITS[:4] + LIMITS[8:11] + SHIFTED[:4] + UNEVEN[:5], 6):
        function = rounded(rng, limits, 28)
        programs.add(function, rng.choice(VALUES), rng.choice(SPANS[:3]))
    return programs


def any_sizes(seed: int) -> Programs:
    """Values, amounts and limits of any size; a few pairs of modes each."""
    rng, programs = random.Random(100 + seed), Programs()
    for _ in range(14):
        values = rng.choice(VALUES + 2 * WIDE_VALUES)
        limits = rng.choice(LIMITS + SHIFTED + UNEVEN)
        function = rounded(rng, limits, 3)
        if rng.random() < 0.5:
            programs.add(function, values, rng.choice(SPANS))
        else:
            amount = rng.choice(AMOUNTS)
            programs.add(lambda x, f=function, n=amount: f(x, n), values)
    for _ in range(3):  # the value as it stands in the text
        function, number = rounded(rng, rng.choice(LIMITS), 3), rng.choice(NUMBERS)
        programs.add(lambda s, f=function, v=number: f(v, s), rng.choice(SPANS))
    return programs


def unlimited() -> Programs:
    """No limits, where the interval shows that none are needed."""
    rng, programs = random.Random(3), Programs()
    for rounding in map(Rounding, ROUNDINGS):
        for span in (rng.choice(VALUES), wide(61, signed=rng.random() < 0.5)):
            for amount in (0, 3, 80):
                programs.one(lambda x, r=rounding, n=amount: ops.round_shift(x, n, r), span)
            programs.one(lambda x, s, r=rounding: ops.round_shift(x, s, r), span, (-2, 5))
    return programs


def numbers_alone() -> Programs:
    """Operations on constants only: what C++ would compute in int, and past its end."""
    programs = Programs()
    for a in NUMBERS:
        for b in (3, -(1 << 31), (1 << 31) - 1, 1 << 31):
            for op in TWO.values():

                def function(x: Any, op: Any = op, a: int = a, b: int = b) -> Any:
                    return ops.add(x, op(x.tracer.lift(a), b))

                programs.one(function, (0, 1))
    programs.one(lambda x: ops.add(x, ops.neg(x.tracer.lift(-(1 << 31)))), (0, 1))
    programs.one(lambda x: ops.add(x, ops.absolute(x.tracer.lift(-(1 << 31)))), (0, 1))
    programs.one(lambda x: ops.add(x, ops.shift_left(x.tracer.lift(3), 40)), (0, 1))
    programs.one(lambda x: ops.add(x, ops.shift_floor(x.tracer.lift(-(1 << 31)), 3)), (0, 1))
    programs.one(lambda x: ops.add(x, ops.bits(x.tracer.lift(-5), 40, 1)), (0, 1))
    programs.one(lambda x: ops.add(x, ops.leading_one(x.tracer.lift(1 << 45))), (0, 1))
    programs.one(lambda x: ops.add(x, ops.integer_sqrt(x.tracer.lift(1 << 45))), (0, 1))
    programs.one(lambda x: ops.named("eps", ops.add(ops.parameter("k", 1 << 60, x), x)), (0, 1))
    return programs
