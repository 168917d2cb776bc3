"""Datapaths on NumPy: reductions, blocks, levels, and what the builder refuses."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from approxnorm.backends import numpy_backend
from approxnorm.backends.numpy_backend import NumpyBackend, storage_dtype
from approxnorm.formats import Overflow, Rounding
from approxnorm.program import Interval, WidthError, ops
from approxnorm.program.datapath import MAX_TOP, Datapath, DatapathBuilder, Port, node_levels
from approxnorm.program.signal import Signal
from approxnorm.tables.table import Table

Reduce = Callable[[DatapathBuilder, Port], Port]


def reduced(dim: int, lo: int, hi: int, reduce: Reduce) -> Datapath:
    """x, reduced, and given back to every element as the output "y"."""
    builder = DatapathBuilder(dim)
    x = builder.input("x", "element", lo, hi)
    row = reduce(builder, x)
    return builder.finish(builder.element("copy", lambda r: ops.named("y", r + 0), row))


def rms_like(dim: int) -> Datapath:
    """Three stages, every level and every kind of reduction."""
    builder = DatapathBuilder(dim)
    x = builder.input("x", "element", -128, 127)
    gamma = builder.input("gamma", "channel", -8, 7)
    table = Table("root", tuple(range(64, 32, -1)), 5, "leading bits")

    def scale(total: Signal, largest: Signal) -> Any:
        lead = ops.named("lead", ops.leading_one(total))
        index = ops.bits(ops.leading_mantissa(total, 5), 4, 0)
        mantissa = ops.named("mantissa", ops.lookup(table, index))
        return mantissa, ops.named("shift", lead - largest + 3)

    def normalize(x: Signal, gamma: Signal, mantissa: Signal, shift: Signal) -> Any:
        product = ops.named("product", x * gamma * mantissa)
        return ops.named(
            "y", ops.round_shift(product, shift, Rounding.RND_CONV, (-128, 127), Overflow.SAT)
        )

    square = builder.element("square", lambda x: ops.named("square", x * x), x)
    total = builder.sum("total", square)
    largest = builder.max(
        "largest", builder.element("low", lambda x: ops.named("low", ops.bits(x, 2, 0)), x)
    )
    top = builder.top("top", square, 2)
    spread = builder.row("spread", lambda a, b, c: ops.named("spread", a + b + c), total, *top)
    mantissa, shift = builder.row("scale", scale, spread, largest)
    return builder.finish(builder.element("normalize", normalize, x, gamma, mantissa, shift))


def codes(rows: int, dim: int, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 127, (rows, dim), endpoint=True) >> rng.integers(0, 8, (rows, 1))
    return {
        "x": x.astype(np.int8),
        "gamma": rng.integers(-8, 7, dim, endpoint=True).astype(np.int8),
    }


# --- reductions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "bits"), [(131071, 31), (131072, 32)])
def test_the_sum_of_squares_of_all_minimum_is_exact(dim: int, bits: int) -> None:
    builder = DatapathBuilder(dim)
    x = builder.input("x", "element", -128, 127)
    square = builder.element("square", lambda x: ops.named("square", x * x), x)
    total = builder.sum("total", square)
    output = builder.element("copy", lambda x, t: ops.named("y", ops.shift_floor(t, 24)), x, total)
    assert total.interval == Interval(0, dim * 16384)
    assert total.interval.width == bits
    rows = np.full((2, dim), -128, np.int8)
    traced = NumpyBackend(builder.finish(output)).run_traced({"x": rows})
    assert traced["total"].tolist() == [dim * 16384] * 2
    assert traced["y"].tolist() == [[dim * 16384 >> 24] * dim] * 2


@pytest.mark.parametrize("dim", [131071, 131072, 1 << 24, (1 << 24) + 1])
def test_sums_of_either_sign_are_exact(dim: int) -> None:
    """-128 in all places: 2**31 at 2**24 elements, where a signed 32-bit sum ends."""
    data = reduced(dim, -128, 127, lambda b, x: b.sum("total", x))
    assert data.ports["total"].interval == Interval(-128 * dim, 127 * dim)
    for value in (-128, 127):
        row = np.broadcast_to(np.int8(value), (1, dim))
        assert NumpyBackend(data).run({"x": row})[0, 0] == value * dim


@pytest.mark.parametrize(
    ("bits", "dim", "fits"), [(31, 2, True), (31, 3, False), (30, 8, True), (30, 9, False)]
)
def test_a_sum_past_63_bits_is_refused(bits: int, dim: int, fits: bool) -> None:
    top = (1 << (2 * bits - 1)) - 1  # two squares of 31 bits make 62, and a sign

    def build() -> Datapath:
        return reduced(dim, 0, top, lambda b, x: b.sum("total", x))

    if not fits:
        with pytest.raises(WidthError, match="signal total needs 64 signed bits"):
            build()
        return
    rows = np.full((1, dim), top)
    assert NumpyBackend(build()).run({"x": rows})[0, 0] == top * dim


SUBSETS = [(0, None, 1), (0, 5, 1), (3, None, 1), (3, 4, 2), (0, None, 4), (1, None, 4)]
SUBSETS += [(11, 1, 1), (11, None, 7), (0, 1, 100), (5, 2, 6), (0, 12, 1), (2, 3, 3)]


@pytest.mark.parametrize(("start", "count", "stride"), SUBSETS)
def test_sums_over_a_part_of_the_row(start: int, count: int | None, stride: int) -> None:
    dim = 12
    data = reduced(dim, -100, 90, lambda b, x: b.sum("total", x, start, count, stride))
    rows = np.random.default_rng(2).integers(-100, 91, (7, dim))
    picked = list(range(start, dim, stride))[:count]
    traced = NumpyBackend(data).run_traced({"x": rows})
    assert traced["total"].tolist() == [sum(int(row[i]) for i in picked) for row in rows]
    assert data.ports["total"].interval == Interval(-100 * len(picked), 90 * len(picked))
    stage = data.stages[0]
    assert (stage.start, stage.count, stage.stride) == (start, len(picked), stride)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("start", "count", "stride"),
    [
        (0, 13, 1),
        (1, 12, 1),
        (-1, 3, 1),
        (0, 3, 0),
        (0, 3, -1),
        (0, 4, 4),
        (12, None, 1),
        (0, 0, 1),
    ],
)
def test_subsets_outside_the_row_are_refused(start: int, count: int | None, stride: int) -> None:
    with pytest.raises(AssertionError, match="does not fit the row"):
        reduced(12, 0, 1, lambda b, x: b.sum("total", x, start, count, stride))


@pytest.mark.parametrize(("lo", "hi"), [(-128, 127), (0, 255), (-(1 << 40), 1 << 40)])
def test_the_largest_of_a_row(lo: int, hi: int) -> None:
    data = reduced(9, lo, hi, lambda b, x: b.max("largest", x))
    rows = np.random.default_rng(3).integers(lo, hi, (6, 9), endpoint=True)
    rows[0], rows[1] = lo, hi
    traced = NumpyBackend(data).run_traced({"x": rows.astype(storage_dtype(Interval(lo, hi)))})
    assert traced["largest"].tolist() == [max(row) for row in rows.tolist()]
    assert data.ports["largest"].interval == Interval(lo, hi)


@given(
    rows=st.integers(1, 11).flatmap(
        lambda dim: st.lists(
            st.lists(st.integers(0, 9) | st.integers(0, 255), min_size=dim, max_size=dim),
            min_size=1,
            max_size=5,
        )
    ),
    k=st.integers(1, MAX_TOP),
    lo=st.integers(0, 3),
)
def test_the_k_largest_of_a_row(rows: list[list[int]], k: int, lo: int) -> None:
    """Ties, rows shorter than k (padded with 0), and every k."""
    values = np.array(rows, np.uint8) + np.uint8(lo) * (np.array(rows) < 200)
    builder = DatapathBuilder(values.shape[1])
    x = builder.input("x", "element", 0 if lo == 0 else 1, 255)
    values = np.maximum(values, x.interval.lo).astype(np.uint8)
    top = builder.top("top", x, k)
    assert [p.name for p in top] == [f"top_{i}" for i in range(k)]
    assert all(p.interval == Interval(0, 255) for p in top)
    output = builder.element("copy", lambda r: ops.named("y", r + 0), top[0])
    traced = NumpyBackend(builder.finish(output)).run_traced({"x": values})
    for r, row in enumerate(values.tolist()):
        wanted = (sorted(row, reverse=True) + [0] * k)[:k]
        assert [int(traced[p.name][r]) for p in top] == wanted


@pytest.mark.parametrize(("k", "lo"), [(0, 0), (MAX_TOP + 1, 0), (1, -1)])
def test_impossible_k_largest(k: int, lo: int) -> None:
    with pytest.raises(AssertionError, match="top needs k from 1 to 8 and values >= 0"):
        reduced(12, lo, 9, lambda b, x: b.top("top", x, k)[0])


@pytest.mark.parametrize("kind", ["sum", "max", "top"])
def test_a_signal_that_is_the_same_in_the_whole_row(kind: str) -> None:
    """Computed once a row, or once at all, and reduced as if it stood in every element."""
    builder = DatapathBuilder(5)
    x = builder.input("x", "element", 0, 100)
    largest = builder.max("largest", x)
    twice = builder.element("twice", lambda r: ops.named("twice", r * 2), largest)
    three = builder.element("three", lambda x: ops.named("three", ops.parameter("p", 3, x) * 1), x)
    results = [
        builder.sum(f"{p.name}_r", p)
        if kind == "sum"
        else builder.max(f"{p.name}_r", p)
        if kind == "max"
        else builder.top(f"{p.name}_r", p, 2)[1]
        for p in (twice, three)
    ]
    output = builder.element("copy", lambda a, b: ops.named("y", a + b), *results)
    rows = np.random.default_rng(4).integers(0, 101, (4, 5))
    traced = NumpyBackend(builder.finish(output)).run_traced({"x": rows})
    times = 5 if kind == "sum" else 1
    wanted = [int(2 * max(row) * times) for row in rows]
    assert traced[results[0].name].tolist() == wanted
    assert traced[results[1].name].tolist() == [3 * times] * 4
    assert traced["three"].tolist() == [[3] * 5] * 4
    assert traced["y"].tolist() == [[w + 3 * times] * 5 for w in wanted]


# --- whole datapaths ------------------------------------------------------------------------------


def by_hand(x: np.ndarray, gamma: np.ndarray) -> list[list[int]]:
    """``rms_like`` in Python integers."""
    result = []
    for row in x.tolist():
        squares = sorted((v * v for v in row), reverse=True)
        spread = sum(squares) + sum(squares[:2])
        lead = max(spread.bit_length() - 1, 0)
        mantissa = 64 - ((max(spread, 1) << 5 >> lead) - 32)
        shift = lead - max(v % 8 for v in row) + 3
        result.append(
            [_limited(v * int(g) * mantissa, shift) for v, g in zip(row, gamma, strict=True)]
        )
    return result


def _limited(product: int, shift: int) -> int:
    value = product << -shift if shift < 0 else round(product / 2**shift)  # exact: half to even
    return min(max(value, -128), 127)


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 64])
def test_a_datapath_of_every_kind_of_stage(rows: int) -> None:
    inputs = codes(rows, 10)
    found = NumpyBackend(rms_like(10)).run(inputs)
    assert found.dtype == np.int8
    assert found.shape == (rows, 10)
    assert found.tolist() == by_hand(inputs["x"], inputs["gamma"])


@pytest.mark.parametrize("dim", [2, 3, 1000])
@pytest.mark.parametrize("block", [1, 7, 3000, 1 << 17])
def test_blocks_change_nothing(block: int, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row in a block, blocks that do not divide the rows, and one block for all."""
    inputs = codes(23, dim)
    wanted = by_hand(inputs["x"], inputs["gamma"])
    monkeypatch.setattr(numpy_backend, "BLOCK_ELEMENTS", block)
    backend = NumpyBackend(rms_like(dim))
    assert backend.run(inputs).tolist() == wanted
    traced = backend.run_traced(inputs)
    assert traced["y"].tolist() == wanted
    assert all(len(v) == 23 for name, v in traced.items() if name != "gamma")


@pytest.mark.parametrize("rows", [0, 1, 6])
def test_the_trace_holds_every_signal(rows: int) -> None:
    data, inputs = rms_like(10), codes(rows, 10)
    backend = NumpyBackend(data)
    traced = backend.run_traced(inputs)
    assert set(traced) == {port.name for port in data.signals()}
    shapes = {"element": (rows, 10), "row": (rows,), "channel": (10,)}
    for port in data.signals():
        values = traced[port.name]
        assert values.shape == shapes[port.level], port
        assert values.dtype == (
            np.int8 if port.level == "channel" else storage_dtype(port.interval)
        )
        assert all(int(v) in port.interval for v in values.ravel()), port
    assert traced["x"].tolist() == inputs["x"].tolist()
    assert traced["y"].tolist() == backend.run(inputs).tolist()


def test_inputs_are_not_written_to_and_may_be_any_view() -> None:
    inputs = codes(9, 10)
    wanted = NumpyBackend(rms_like(10)).run(inputs).tolist()
    views: dict[str, np.ndarray] = {
        "x": np.asfortranarray(inputs["x"]),
        "gamma": np.repeat(inputs["gamma"], 2)[::2],
    }
    wide: dict[str, np.ndarray] = {
        "x": inputs["x"].astype(np.int64)[::-1][::-1],
        "gamma": inputs["gamma"].astype(np.int16),
    }
    for given_inputs in (views, wide):
        for array in given_inputs.values():
            array.flags.writeable = False
        assert NumpyBackend(rms_like(10)).run(given_inputs).tolist() == wanted


def test_an_output_is_no_view_of_its_input() -> None:
    builder = DatapathBuilder(3)
    x = builder.input("x", "element", -128, 127)
    data = builder.finish(
        builder.element("same", lambda x: ops.named("y", ops.assume(x, -128, 127, "same")), x)
    )
    rows = np.array([[1, 2, 3]], np.int8)
    result, traced = NumpyBackend(data).run({"x": rows}), NumpyBackend(data).run_traced({"x": rows})
    rows[:] = 0
    assert result.tolist() == traced["y"].tolist() == traced["x"].tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("lo", "hi", "dtype"),
    [
        (0, 127, np.int8),
        (-128, 127, np.int8),
        (0, 255, np.uint8),
        (-1, 128, np.int16),
        (0, 65535, np.uint16),
        (-1, 65535, np.int32),
        (0, (1 << 32) - 1, np.uint32),
        (-1, 1 << 31, np.int64),
        (0, 1 << 32, np.int64),
    ],
)
def test_storage_types(lo: int, hi: int, dtype: type) -> None:
    assert storage_dtype(Interval(lo, hi)) == dtype


def test_an_assumption_need_not_hold_for_values_that_never_come() -> None:
    """Though the input has 8 bits, and what follows is long enough to be tabulated."""
    table = Table("sixteen", tuple(range(100, 116)), 0, "x")

    def function(x: Signal) -> Any:
        small = ops.assume(x, 0, 15, "small")
        value = ops.lookup(table, small) * 3 + 1
        return ops.named("y", ops.round_shift(value * value, 2, Rounding.RND_CONV))

    builder = DatapathBuilder(16)
    data = builder.finish(builder.element("look", function, builder.input("x", "element", 0, 255)))
    rows = np.arange(16, dtype=np.uint8)[None, :]
    wanted = [round((3 * (100 + v) + 1) ** 2 / 4) for v in range(16)]
    backend = NumpyBackend(data)
    assert backend.run({"x": rows})[0].tolist() == wanted
    assert backend.run_traced({"x": rows})["y"][0].tolist() == wanted
    for run in (backend.run, backend.run_traced):
        with pytest.raises(AssertionError, match="assumption broken: small"):
            run({"x": rows + np.uint8(1)})


# --- levels ---------------------------------------------------------------------------------------


def test_what_is_the_same_in_a_row_is_hoisted() -> None:
    builder = DatapathBuilder(4)
    x = builder.input("x", "element", -16, 15)
    gamma = builder.input("gamma", "channel", -8, 7)
    total = builder.sum("total", x)

    def function(x: Signal, gamma: Signal, total: Signal) -> Any:
        row = ops.named("row", total * total)
        channel = ops.named("channel", gamma * gamma + 1)
        both = ops.named("both", row * channel)
        return ops.named("y", both * x + ops.parameter("p", 3, x) * 2)

    output = builder.element("mixed", function, x, gamma, total)
    data = builder.finish(output)
    stage = next(data.programs())
    levels = node_levels(stage.program, data.ports)
    found = {n.name: level for n, level in zip(stage.program.nodes, levels, strict=True) if n.name}
    assert found == {
        "x": "element",
        "gamma": "channel",
        "total": "row",
        "row": "row",
        "channel": "channel",
        "both": "element",
        "p": "const",
        "y": "element",
    }
    # gamma * gamma is a table of 4 bits; p * 2 is a constant.
    assert data.count_multipliers() == {"element": 2, "row": 1}

    rows, g = np.arange(-8, 8).reshape(4, 4), np.array([-8, 0, 3, 7])
    sums = rows.sum(axis=1, keepdims=True)
    inside = numpy_backend._Plan(stage.program).run([rows, g[None, :], sums])
    assert {n: inside[n].shape for n in ("row", "channel", "both", "p")} == {
        "row": (4, 1),
        "channel": (1, 4),
        "both": (4, 4),
        "p": (1, 1),
    }
    wanted = sums * sums * (g * g + 1) * rows + 6
    assert NumpyBackend(data).run({"x": rows, "gamma": g}).tolist() == wanted.tolist()


def test_signals_and_tables_in_order_of_computation() -> None:
    data = rms_like(4)
    assert [p.name for p in data.signals()] == [
        "x",
        "gamma",
        "square",
        "total",
        "low",
        "largest",
        "top_0",
        "top_1",
        "spread",
        "lead",
        "mantissa",
        "shift",
        "product",
        "y",
    ]
    assert [t.name for t in data.tables()] == ["root"]
    assert data.ports["lead"].level == "row" and data.ports["product"].level == "element"
    # x * gamma, times mantissa; x * x has 8 bits.
    assert data.count_multipliers() == {"element": 3, "row": 0}


# --- what the builder refuses ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        lambda b, x: b.input("x", "element", 0, 1),
        lambda b, x: b.input("total", "channel", 0, 1),
        lambda b, x: b.sum("x", x),
        lambda b, x: b.sum("total", x),
        lambda b, x: b.max("total", x),
        lambda b, x: b.top("top", x, 3),
        lambda b, x: b.element("again", lambda x: ops.named("total", x + 1), x),
    ],
)
def test_duplicate_names_are_refused(again: Callable[[DatapathBuilder, Port], Any]) -> None:
    builder = DatapathBuilder(4)
    x = builder.input("x", "element", 0, 7)
    builder.sum("total", x)
    builder.max("top_2", x)
    with pytest.raises(AssertionError, match=r"two signals are named (x|total|top_2)"):
        again(builder, x)


def test_inputs_of_rows_and_rows_of_elements_are_refused() -> None:
    builder = DatapathBuilder(4)
    x = builder.input("x", "element", 0, 7)
    with pytest.raises(AssertionError, match="input r: a row signal comes from a reduction"):
        builder.input("r", "row", 0, 7)
    with pytest.raises(AssertionError, match=r"row program scale reads \['x'\]"):
        builder.row("scale", lambda x: ops.named("y", x + 1), x)


def test_inputs_wider_than_a_signal_are_refused() -> None:
    builder = DatapathBuilder(4)
    with pytest.raises(WidthError, match="signal x needs 64 signed bits"):
        builder.input("x", "element", 0, 1 << 62)
