"""Tables as data, the exact functions behind them, and the searches that choose entries."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from approxnorm.tables.additive import Part, SumProblem, fit_sum
from approxnorm.tables.constants import cell_constants, minimax_between, rounded
from approxnorm.tables.error import cell_errors, curve, measure, with_bound
from approxnorm.tables.product import ProductProblem, best_product
from approxnorm.tables.reference import ANCHOR_BITS
from approxnorm.tables.search import best_candidate
from approxnorm.tables.table import Table
from approxnorm.tables.target import REFERENCE_BITS, RSQRT, FunctionName, Target, log2_floor

GAIN = Fraction(277, 100)
TARGETS = [
    Target(name, gain)
    for name in ("rsqrt", "reciprocal", "log2", "exp2")
    for gain in (Fraction(1), GAIN)
]


# --- tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "width", "stored"),
    [
        ((5,), 3, 0),
        ((0, 0), 1, 0),
        ((4, 5, 7), 3, 2),
        ((-1, 0), 1, 1),
        ((-4, -3, -1), 3, 2),
        ((-4, 11, -1), 5, 5),
        ((-8, 7), 4, 4),
        ((1024, 1025), 11, 1),
    ],
)
def test_width_and_stored_columns(entries: tuple[int, ...], width: int, stored: int) -> None:
    table = Table("t", entries, 0, "i")
    assert (table.width, table.stored_width, table.bits) == (width, stored, stored * len(entries))


def test_stored_columns_against_counting_bits() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    for _ in range(200):
        low = int(rng.integers(-40, 40))
        entries = tuple(int(v) for v in rng.integers(low, low + int(rng.integers(1, 60)), 5))
        table = Table("t", entries, 0, "i")
        columns = [len({(e >> k) & 1 for e in entries}) > 1 for k in range(table.width)]
        varying = [k for k, varies in enumerate(columns) if varies]
        assert table.stored_width == (varying[-1] + 1 if varying else 0)


# --- exact functions --------------------------------------------------------------------------


def decimal_value(target: Target, octave: int, position: Fraction) -> Decimal:
    """The function to 60 digits; the caller has set the precision."""
    p = Decimal(position.numerator) / position.denominator
    gain = (Decimal(target.gain_squared.numerator) / target.gain_squared.denominator).sqrt()
    m = (1 + p) * 2**octave
    match target.name:
        case "rsqrt":
            return gain / m.sqrt()
        case "reciprocal":
            return gain / m
        case "log2":
            return m.ln() / Decimal(2).ln()
        case "exp2":
            return gain * (p * Decimal(2).ln()).exp()


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_floor_is_exact(target: Target) -> None:
    with localcontext() as context:
        context.prec = 60
        for octave in range(target.octaves):
            for frac in range(17):
                value = decimal_value(target, octave, Fraction(frac, 16))
                for bits in (3, 20, 50):
                    scaled = value * 2**bits
                    # A value that is an integer in truth may come out just below it.
                    want = int(scaled + Decimal(10) ** -30)
                    assert target.floor(octave, frac, 4, bits) == want


def test_log2_of_powers_of_two_and_below_one() -> None:
    assert log2_floor(Fraction(8), 5) == 3 << 5
    assert log2_floor(Fraction(1, 4), 5) == -2 << 5
    assert log2_floor(Fraction(3, 8), 4) == -23  # log2(0.375) = -1.415, times 16 is -22.6


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_reference_equals_exact_floor(target: Target) -> None:
    """Beyond ANCHOR_BITS the reference is interpolated, and must still be exact."""
    for frac_bits in (3, ANCHOR_BITS + 2):
        reference = target.reference(frac_bits)
        step = 1 if frac_bits < 8 else 3
        for octave in range(target.octaves):
            picked = [*range(0, 1 << frac_bits, step), 1 << frac_bits]
            want = [target.floor(octave, i, frac_bits, REFERENCE_BITS) for i in picked]
            assert reference[octave, picked].tolist() == want


def test_reference_of_many_bits_at_random_places() -> None:
    rng = np.random.Generator(np.random.PCG64(4))
    for name in ("rsqrt", "log2", "exp2", "reciprocal"):
        target = Target(name)
        for i in rng.integers(0, 1 << 17, 200):
            want = target.floor(0, int(i), 17, REFERENCE_BITS)
            assert int(target.reference(17)[0, i]) == want


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_near_reference_is_within_a_unit(target: Target) -> None:
    frac_bits, size = 21, 1 << 14
    for octave in range(target.octaves):
        for first in (0, 37 * size, (1 << frac_bits) - size):
            near = target.near_reference(octave, frac_bits, range(first, first + size))
            assert len(near) == size + 1
            for i in (0, 1, 777, size - 1, size):
                want = target.floor(octave, first + i, frac_bits, REFERENCE_BITS)
                assert abs(int(near[i]) - want) <= 1


# --- errors -----------------------------------------------------------------------------------


def test_measure_counts_both_ends_of_a_cell() -> None:
    """A single code for [1, 2) and one for [2, 4): the worst ends are limits."""
    error = measure(lambda o, f: np.where(o == 0, 1 << 10, 1 << 9), RSQRT, 0, 10)
    assert error.max_error == pytest.approx(2**0.5 - 1, rel=1e-12)
    assert error.worst_argument == 2.0
    assert error.text(RSQRT) == "max rel 4.1422e-01 over [1, 4)"


def test_measure_of_log2_is_absolute() -> None:
    error = measure(lambda o, f: f << 4, Target("log2"), 6, 10)
    assert 0.0861 <= error.max_error <= 0.0861 + 1 / 64
    assert error.text(Target("log2")).startswith("max abs ")


@pytest.mark.parametrize("frac_bits", [18, 19])  # with all exact values at once, and without
def test_measure_in_blocks_is_measuring_at_once(frac_bits: int) -> None:
    def stage(octave: Any, frac: Any) -> Any:
        return (5 << 17) - (frac >> (frac_bits - 16)) - (octave << 16)

    octave, frac = np.arange(2)[:, None], np.arange(1 << frac_bits)[None, :]
    codes, reference = stage(octave, frac), RSQRT.reference(frac_bits)
    ends = np.stack([cell_errors(codes, 19, reference[:, e : e - 1 or None], True) for e in (0, 1)])
    error = measure(stage, RSQRT, frac_bits, 19)
    end, row, column = np.unravel_index(np.abs(ends).argmax(), ends.shape)
    assert error.max_error == pytest.approx(np.abs(ends).max(), abs=1e-14)
    assert error.mean_error == pytest.approx(ends.mean(), abs=1e-14)
    assert error.worst_argument == (1 + float(column + end) / (1 << frac_bits)) * (1 << int(row))


def test_curve_keeps_the_peaks() -> None:
    def stage(octave: Any, frac: Any) -> Any:
        return 860 - 250 * octave - (1 - octave) * (frac == 1234) * 600  # one code far off

    x, y = curve(stage, RSQRT, 12, 10, 64)
    assert len(x) == len(y) == 128 and np.all(np.diff(x) >= 0)
    error = cell_errors(np.array([860 - 600]), 10, RSQRT.reference(12)[0, 1234:1235], True)
    assert y.min() == error[0] and 0 <= 1 + 1234 / 4096 - x[y.argmin()] < 1 / 32


def test_with_bound_leaves_entries_alone() -> None:
    tables = (Table("a", (1, 2), 0, "i"), Table("b", (3,), 0, "i"))
    found = with_bound(tables, lambda o, f: np.int64(600), RSQRT, 2, 10)
    assert [t.entries for t in found] == [(1, 2), (3,)]
    assert len({t.bound for t in found}) == 1 and found[0].bound.startswith("max rel ")


# --- choices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rsqrt", "reciprocal", "log2", "exp2"])
def test_minimax_constants_beat_their_neighbours(name: FunctionName) -> None:
    target, bits = Target(name), 7
    entries = cell_constants(target, 3, bits, "minimax")
    assert len(entries) == target.octaves * 8
    for k, entry in enumerate(entries):
        ends = [target.floor(k // 8, k % 8 + i, 3, REFERENCE_BITS) for i in (0, 1)]

        def worst(e: int, ends: list[int] = ends) -> Fraction:
            weights = ends if target.relative else [1, 1]
            value = e << (REFERENCE_BITS - bits)
            return max(Fraction(abs(value - v), w) for v, w in zip(ends, weights, strict=True))

        assert worst(entry) == min(worst(entry + d) for d in (-2, -1, 0, 1, 2))


def test_minimax_between_equal_values_is_rounding() -> None:
    value = 5 << (REFERENCE_BITS - 3)
    assert minimax_between(value, value, 3, relative=True) == 5


def test_rounded_is_to_nearest() -> None:
    assert rounded(RSQRT, 1, 0, 4, 8) == 181  # 256 / sqrt(2) = 181.02
    assert rounded(Target("reciprocal"), 0, 8, 4, 8) == 171  # 170.67


def test_best_candidate_is_the_best_of_all() -> None:
    """Against a plain search of every pair, on a segment short enough to be exhaustive."""
    low = np.arange(32)
    reference = RSQRT.reference(7)[0, :33]
    candidates = [range(1015, 1030), range(-130, -90)]

    def line(c: tuple[Any, ...], x: np.ndarray) -> Any:
        return ((c[0] << 5) + c[1] * x) >> 3  # 12 fraction bits

    def worst(pair: tuple[int, ...]) -> float:
        codes = line((np.int64(pair[0]), np.int64(pair[1])), low) << (REFERENCE_BITS - 12)
        ends = [np.abs(codes - r) / r for r in (reference[:-1], reference[1:])]
        return float(np.max(ends))

    found = best_candidate(line, candidates, low, reference, 12)
    assert found == min(itertools.product(*candidates), key=worst)


def small_sum(step: int = 1) -> SumProblem:
    """Eight cells, A addressed by the top two bits, B with a sign by the lowest."""
    cell = np.arange(8)
    value = 40 / np.sqrt(1 + np.arange(9) / 8)
    parts = (
        Part(cell >> 1, np.ones(8), step),
        Part(cell >> 2, np.where(cell & 1, -1.0, 1.0)),
    )
    return SumProblem(parts, value[1:], value[:-1], True, 1.0)


@pytest.mark.parametrize("step", [1, 2])
def test_fit_sum_reaches_the_optimum(step: int) -> None:
    problem = small_sum(step)
    entries = [np.array(e, float) for e in fit_sum(problem)]
    best = min(
        problem.error([np.array(a, float), np.array(b, float)])
        for b in itertools.product(range(4), repeat=2)
        for a in [best_first(problem, b, step)]
    )
    assert problem.error(entries) == pytest.approx(best, rel=2e-3)
    assert np.all(entries[0] % step == 0)


def best_first(problem: SumProblem, second: tuple[int, ...], step: int) -> list[int]:
    """For a given second table each entry of the first is best by itself."""
    chosen = []
    for k in range(4):
        cells = slice(2 * k, 2 * k + 2)

        def worst(a: int, cells: slice = cells) -> float:
            total = a + problem.parts[1].term(np.array(second, float))[cells]
            low, high = problem.low[cells], problem.high[cells]
            return float(np.maximum((high - total) / high, (total - low) / low).max())

        chosen.append(min(range(20, 44, step), key=worst))
    return chosen


def test_fit_sum_with_absolute_errors() -> None:
    problem = small_sum()
    absolute = SumProblem(problem.parts, problem.low, problem.high, False, 64.0)
    entries = [np.array(e, float) for e in fit_sum(absolute)]
    widest = float((problem.high - problem.low).max()) / 2 / 64
    assert widest <= absolute.error(entries) <= widest + 1 / 64


def test_best_product_is_the_best_of_all() -> None:
    """Two segments and a correction of two entries from 0 to 3: every choice can be tried."""
    x = 1 + np.arange(8).reshape(2, 4) / 8
    value = 1 / np.sqrt(np.append(x.ravel(), 2.0))
    low, high = value[1:].reshape(2, 4), value[:-1].reshape(2, 4)
    operand = 3.2 - x
    correction = np.array([1, 0, 0, 1])
    problem = ProductProblem(low, high, operand, 0.05, correction, 6)

    def error(c: int, segment: int, q: tuple[int, ...]) -> float:
        y = c / 64 * (operand[segment] + 0.05 * np.array(q)[correction])
        return float(np.maximum(1 - y / high[segment], y / low[segment] - 1).max())

    def total(q: tuple[int, ...]) -> float:
        return max(min(error(c, s, q) for c in range(10, 60)) for s in (0, 1))

    coefficients, corrections = best_product(problem, [np.array([0, 0]), np.array([3, 3])], 4)
    reached = max(error(c, s, corrections) for s, c in enumerate(coefficients))
    assert reached == pytest.approx(min(map(total, itertools.product(range(4), repeat=2))))
