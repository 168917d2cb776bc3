"""Every operation as C++ against its own value, on small ranges in full and on wide ones."""

import random
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exact_integers import OVERFLOWS, ROUNDINGS

from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.formats import Overflow, Rounding
from approxnorm.hls_ref import csim
from approxnorm.hls_ref.emit.names import identifier, type_of
from approxnorm.hls_ref.emit.programs import function_name, function_text, signals_type
from approxnorm.hls_ref.emit.tables import table_text
from approxnorm.program import Interval, Program, ops
from approxnorm.program.datapath import Datapath, DatapathBuilder
from approxnorm.program.interval import MAX_SIGNAL_BITS, WidthError, check_width
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
    """Programs in one C++ file, each as an element program of a datapath of its own."""

    datapaths: list[Datapath] = field(default_factory=list)
    samples: list[np.ndarray] = field(default_factory=list)  # (inputs, samples)

    def add(self, function: Callable[..., Any], *spans: Span) -> None:
        """A program of inputs of these intervals; its function returns the named outputs."""
        columns = samples_of([Interval(*s) for s in spans], len(self.datapaths))
        builder = DatapathBuilder(columns.shape[1])
        inputs = [builder.input(f"i{n}", "element", *span) for n, span in enumerate(spans)]
        outputs = builder.element(f"program_{len(self.datapaths)}", function, *inputs)
        last = outputs[-1] if isinstance(outputs, tuple) else outputs
        self.datapaths.append(builder.finish(last))
        self.samples.append(columns)

    def one(self, function: Callable[..., Any], *spans: Span) -> None:
        """A program of one output, unless it would pass 63 bits."""
        try:
            self.add(lambda *args: ops.named("y", function(*args)), *spans)
        except WidthError:
            return

    @property
    def traced(self) -> list[Program]:
        return [next(d.programs()).program for d in self.datapaths]

    def check(self, folder: Path) -> None:
        """Compile, run, and compare every output of every program on every sample."""
        found = run(self, folder)
        for datapath, columns, values in zip(self.datapaths, self.samples, found, strict=True):
            (stage,) = datapath.programs()
            inputs = {f"i{n}": column[None, :] for n, column in enumerate(columns)}
            wanted = NumpyBackend(datapath).run_traced(inputs)
            for node, got in zip(stage.program.named_nodes(), values, strict=True):
                assert node.name is not None
                right = wanted[node.name][0].astype(np.int64)
                bad = np.flatnonzero(got != right)
                assert not bad.size, (
                    f"{node.name} of {described(stage.program)} at {columns[:, bad[0]].tolist()}:"
                    f" {got[bad[0]]}, not {right[bad[0]]}"
                )


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


HEAD = """\
#include <cstdio>
#include <cstdlib>
#include "approx/ops.hpp"
static void get(void *data, size_t size, std::FILE *file) {
    if (std::fread(data, size, 1, file) != 1) std::exit(2);
}
"""


def run(programs: Programs, folder: Path) -> list[np.ndarray]:
    """Values (outputs, samples) of each program, from C++."""
    (folder / "programs.cpp").write_text("".join(source(programs)), "utf-8")
    csim.compile_program(
        folder / "programs",
        [folder / "programs.cpp"],
        [csim.HERE / "include"],
        ["-O0", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"],
    )
    with (folder / "in").open("wb") as file:
        for columns in programs.samples:
            file.write(struct.pack("q", columns.shape[1]) + columns.T.tobytes())
    subprocess.run([folder / "programs", folder / "in", folder / "out"], check=True)
    values, found, at = np.fromfile(folder / "out", np.int64), [], 0
    for program, columns in zip(programs.traced, programs.samples, strict=True):
        shape = (columns.shape[1], len(program.named_nodes()))
        found.append(values[at : at + prod(shape)].reshape(shape).T)
        at += prod(shape)
    assert at == values.size
    return found


def source(programs: Programs) -> Iterator[str]:
    yield HEAD
    tables = {t: None for d in programs.datapaths for t in d.tables()}
    yield "namespace rom {\n" + "".join(map(table_text, tables)) + "}\n"
    for program in programs.traced:
        yield function_text(program, "each element") + "".join(loop(program))
    yield "int main(int, char **argv) {\n"
    yield '    std::FILE *in = std::fopen(argv[1], "rb"), *out = std::fopen(argv[2], "wb");\n'
    yield "".join(f"    run_{p.name}(in, out);\n" for p in programs.traced)
    yield "    return std::fclose(out);\n}\n"


def loop(program: Program) -> Iterator[str]:
    """A function that runs a program on all samples of a file."""
    arguments = [
        f"{type_of(node.interval)}(a[{n}])"
        for n, node in enumerate(program.nodes[: len(program.inputs)])
    ]
    outputs = [f"s.{identifier(n.name or '')}.to_int64()" for n in program.named_nodes()]
    yield f"static void run_{program.name}(std::FILE *in, std::FILE *out) {{\n"
    yield f"    long long count, a[{len(arguments)}];\n"
    yield "    get(&count, sizeof count, in);\n"
    yield "    while (count--) {\n        get(a, sizeof a, in);\n"
    yield f"        const {signals_type(program)} s = {function_name(program)}("
    yield f"{', '.join(arguments)});\n"
    yield f"        const long long made[] = {{{', '.join(outputs)}}};\n"
    yield "        std::fwrite(made, sizeof made, 1, out);\n    }\n}\n"


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


@pytest.mark.parametrize("op", sorted(TWO))
def test_of_two_values(op: str, tmp_path: Path) -> None:
    programs = two_values(TWO[op], len(op))
    if op == "mul":
        products_of_narrow_values(programs)
    programs.check(tmp_path)


# --- of one value -------------------------------------------------------------------------------

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


@pytest.mark.parametrize("kind", sorted(ONE))
def test_of_other_values(kind: str, tmp_path: Path) -> None:
    make, operations = ONE[kind]
    programs = make()
    used = {node.op for program in programs.traced for node in program.nodes}
    assert operations <= used
    programs.check(tmp_path)


def test_every_operation_is_tested() -> None:
    assert set(TWO).union(*(used for _, used in ONE.values()), {"round_shift"}) == set(ops.OPS)


# --- rounding shifts ----------------------------------------------------------------------------

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


@pytest.mark.parametrize("make", [every_mode, any_sizes])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_shifts(make: Callable[[int], Programs], seed: int, tmp_path: Path) -> None:
    make(seed).check(tmp_path)


def test_rounding_shifts_without_limits(tmp_path: Path) -> None:
    unlimited().check(tmp_path)


def test_every_limit_is_drawn() -> None:
    drawn_limits = {
        (node.attrs["lo"], node.attrs["hi"])
        for make in (every_mode, any_sizes)
        for seed in range(3)
        for program in make(seed).traced
        for node in program.nodes
        if node.op == "round_shift"
    }
    assert len(drawn_limits & set(LIMITS + SHIFTED + UNEVEN)) >= 18


# --- how numbers and names are written ----------------------------------------------------------


def test_numbers_alone(tmp_path: Path) -> None:
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
    programs.check(tmp_path)


KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
compl const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
explicit export extern false float for friend goto if inline int long mutable namespace new noexcept
not not_eq nullptr operator or or_eq private protected public register reinterpret_cast return
short signed sizeof static static_assert static_cast struct switch template this thread_local throw
true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
OURS = ["signals", "t1", "t2", "approx", "rom"]


def test_any_word_is_a_name(tmp_path: Path) -> None:
    programs = Programs()

    def words(x: Any, y: Any) -> Any:
        made = []
        for word in [*KEYWORDS.split(), *OURS]:
            y = ops.named(word, ops.saturate(x + y + 1, (-90, 90), Overflow.SAT))
            made.append(y)
        return tuple(made)

    programs.add(words, (-5, 5), (0, 3))
    programs.check(tmp_path)


def test_a_wrong_program_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: one sample that differs is told with its arguments."""
    programs = Programs()
    programs.one(ops.add, (-4, 3), (0, 3))
    real = run

    def spoiled(programs: Programs, folder: Path) -> list[np.ndarray]:
        found = [np.array(values) for values in real(programs, folder)]
        found[0][0, 5] += 1
        return found

    monkeypatch.setattr(f"{__name__}.run", spoiled)
    with pytest.raises(AssertionError, match=r"y of .* at \[-3, 1\]: -1, not -2"):
        programs.check(tmp_path)


def test_signals_past_63_bits_are_left_out() -> None:
    programs = Programs()
    programs.one(ops.mul, wide(62), wide(62))
    assert programs.datapaths == []
    check_width(Interval(-TOP - 1, TOP), "the widest")
