"""Golden vectors: which rows there are, what they show, the files, and what is refused."""

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import norm_specs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from approxnorm import ApproxNormError, RMSNorm, RMSNormSpec
from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.formats import Rounding
from approxnorm.program.datapath import MapStage
from approxnorm.vectors import Plan, generate, plan, read_vectors, write_vectors
from approxnorm.vectors.changes import ASTRAY, small_changes, widened, with_table
from approxnorm.vectors.corners import beyond_format
from approxnorm.vectors.distributions import DISTRIBUTIONS
from approxnorm.vectors.goals import all_changes
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.space import Space
from approxnorm.vectors.text import from_hex, hex_digits, to_beats, to_hex
from approxnorm.vectors.ties import KINDS, tie_kinds, trailing_zeros
from approxnorm.vectors.widths import type_limits

CORNERS = [
    "zero",
    "spike",
    "minimum",
    "maximum",
    "alternating",
    "ones",
    "powers_of_two",
    "ties",
    "eps",
    "saturation",
]

DIRECT = {"method": "direct", "index_bits": 6, "bits": 12}
LOG = {
    "rsqrt": {"method": "log2", "index_bits": 4},
    "normalize": {"method": "log", "log_bits": 5},
}
COARSE_Y = "ap_fixed<8,4,RND_CONV,SAT>"
# Cases of all kinds: widths, signs, zero points, statistics, rows of odd lengths.
CASES: dict[str, dict[str, Any]] = {
    "linear": {},
    "direct": {"rsqrt": DIRECT},
    "quadratic": {"rsqrt": {"method": "quadratic", "segments": 2, "bits": 10}},
    "log": LOG,
    "log constant in table": {**LOG, "normalize": {**LOG["normalize"], "constant": "table"}},
    "sole": {"statistic": {"method": "sole", "input_shift": 6}},
    "outliers": {"statistic": {"method": "outlier_exact", "step_exponent": 7}},
    "dynamic": {
        "statistic": {
            "method": "outlier_exact",
            "step": "dynamic",
            "step_offset": -1,
            "outliers": "top",
            "top": 2,
        }
    },
    "row exponent": {
        "x": {"bits": 24, "signed": True, "scale": 2.0**-14},
        "row_exponent": {"bits": 14},
    },
    "zero point": {"x": {"bits": 12, "signed": False, "scale": 2.0**-6, "zero_point": 2000}},
    "unsigned": {"x": "ap_ufixed<7,4>"},
    "two bits": {"x": "ap_fixed<2,2>", "y": COARSE_Y},
    "no table": {
        "rsqrt": {"method": "power_of_two"},
        "normalize": {"method": "log", "log_bits": 5, "constant": "gamma"},
    },
    "multiplier": {"normalize": {"method": "multiply", "constant": "multiplier"}},
    "llama": {
        "normalize": {
            "method": "multiply",
            "order": "llama",
            "intermediate": "ap_fixed<14,6,RND_CONV,SAT>",
        }
    },
    "gemma": {"normalize": {"method": "multiply", "order": "gemma"}},
    "wrapping y": {"y": "ap_fixed<10,3,TRN,WRAP>"},
    "one element": {"dim": 1},
    "three elements": {"dim": 3, "y": COARSE_Y},
    "mean magnitude": {"statistic": {"method": "mean_abs"}, "eps": 0.0},
}


def make(**changes: Any) -> RMSNorm:
    """A model of 48 channels, gamma with zeros, both signs and no pattern."""
    fields: dict[str, Any] = {
        "norm": "rmsnorm",
        "dim": 48,
        "eps": 1e-5,
        "x": "ap_fixed<16,8>",
        "gamma": "ap_fixed<10,4>",
        "y": "ap_fixed<12,4,RND_CONV,SAT>",
        "statistic": {"method": "full"},
        "rsqrt": {"method": "linear", "segments": 4, "bits": 9},
        "normalize": {"method": "multiply"},
    }
    fields |= changes
    gamma = (np.arange(fields["dim"]) * 37 + 61) % 200 - 40
    gamma[0] = 97
    return RMSNorm(RMSNormSpec(**fields), gamma)


@pytest.fixture(scope="module")
def planned() -> Callable[[str], tuple[RMSNorm, Plan]]:
    """A case's model and its level 1, each made once."""
    known: dict[str, tuple[RMSNorm, Plan]] = {}

    def of(case: str) -> tuple[RMSNorm, Plan]:
        if case not in known:
            model = make(**CASES[case])
            known[case] = model, plan(model, 1, 5, lanes=5)
        return known[case]

    return of


def all_codes(rows: Plan) -> np.ndarray:
    return np.concatenate([c.codes for c in rows.classes])


def class_of(rows: Plan, name: str) -> np.ndarray:
    return next(c.codes for c in rows.classes if c.name == name)


def sums(model: RMSNorm, codes: np.ndarray) -> np.ndarray:
    return model(codes, trace=True)[1]["sum"]


# --- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_rows_are_codes_of_the_model(case: str, planned: Any) -> None:
    model, rows = planned(case)
    codes = all_codes(rows)
    form = model.assembly.x_format
    assert codes.dtype == np.int64 and codes.shape[1] == model.dim
    assert codes.min() >= form.lo and codes.max() <= form.hi
    assert len({c.name for c in rows.classes}) == len(rows.classes)


@pytest.mark.parametrize("case", CASES)
def test_every_class_is_there_or_a_note_says_why_not(case: str, planned: Any) -> None:
    _, rows = planned(case)
    names = [c.name for c in rows.classes]
    for name in [*CORNERS, *DISTRIBUTIONS]:
        noted = any(note.startswith(name) for note in rows.coverage["notes"])
        assert name in names or noted, name


def test_all_classes_of_an_ordinary_spec(planned: Any) -> None:
    names = [c.name for c in planned("outliers")[1].classes]
    assert names[: len(CORNERS) + 1] == [*CORNERS, "thresholds"]
    assert names[len(CORNERS) + 1 :][: len(DISTRIBUTIONS)] == list(DISTRIBUTIONS)


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": 4097, "y": COARSE_Y},
        {
            "dim": 64,
            "x": {"bits": 32, "signed": True, "scale": 2.0**-16},
            "row_exponent": {"bits": 16},
            "statistic": {"method": "sole", "input_shift": 7},
        },
        {
            "dim": 1000,
            "x": "ap_fixed<20,10>",
            "statistic": {"method": "low_bit", "step_exponent": 9},
        },
    ],
)
def test_level_0_is_small(changes: dict[str, Any]) -> None:
    assert sum(len(c.codes) for c in generate(make(**changes), 0, lanes=16)) < 200


def test_a_level_begins_with_the_one_below(planned: Any) -> None:
    model, level_1 = planned("unsigned")
    below = all_codes(plan(model, 0, 5, lanes=5))
    middle = all_codes(level_1)
    above = all_codes(plan(model, 2, 5, lanes=5))
    assert len(below) < len(middle) < len(above)
    assert (middle[: len(below)] == below).all()
    assert (above[: len(middle)] == middle).all()


def test_level_2_has_every_narrow_code_and_twenty_times_the_random_rows(planned: Any) -> None:
    model, level_1 = planned("unsigned")
    level_2 = plan(model, 2, 5, lanes=5)
    assert sorted(class_of(level_2, "every_code").max(axis=1)) == list(range(128))
    for name in DISTRIBUTIONS:
        first = len(class_of(level_1, name))
        assert len(class_of(level_2, name)) + len(class_of(level_2, f"more_{name}")) == 20 * first


def test_seed_and_lanes_change_the_rows() -> None:
    model = make()
    base = all_codes(plan(model, 0, 0, lanes=8))
    assert not np.array_equal(base, all_codes(plan(model, 0, 1, lanes=8)))
    assert not np.array_equal(base, all_codes(plan(model, 0, 0, lanes=7)))


def test_zero_row_is_the_zero_point_and_gives_zero(planned: Any) -> None:
    model, rows = planned("zero point")
    zero = class_of(rows, "zero")
    assert (zero == 2000).all() and len(zero) == 1
    assert (model(zero) == 0).all()


def test_spikes_stand_at_ends_lanes_and_powers_of_two(planned: Any) -> None:
    _, rows = planned("linear")
    spikes = class_of(rows, "spike")
    assert ((spikes != 0).sum(axis=1) == 1).all()
    places = set(np.nonzero(spikes)[1].tolist())
    assert {0, 47, 24, 4, 5, 45, 44, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33} <= places
    for place in (0, 47, 24, 4, 5):
        values = set(spikes[spikes[:, place] != 0, place].tolist())
        assert values == {-32768, 32767, -10923, 10923, -1, 1}


def test_powers_of_two_have_every_bit(planned: Any) -> None:
    magnitudes = set(np.abs(class_of(planned("linear")[1], "powers_of_two")).ravel().tolist())
    for bit in range(15):
        assert {(1 << bit) - 1, 1 << bit, (1 << bit) + 1} <= magnitudes, bit


@pytest.mark.parametrize("case", ["linear", "direct", "log", "multiplier", "gemma", "llama"])
def test_ties_of_every_kind(case: str, planned: Any) -> None:
    model, rows = planned(case)
    probe = Probe(model)
    kinds = tie_kinds(probe, probe.trace(class_of(rows, "ties")))
    assert set(range(len(KINDS))) <= set(kinds.ravel().tolist())


def test_ties_are_ties_by_the_trace(planned: Any) -> None:
    model, rows = planned("linear")
    _, trace = model(class_of(rows, "ties"), trace=True)
    doubled = [
        2 * int(p) - (int(p) >> int(s) << int(s)) * 2 == 1 << int(s)
        for row, s in zip(trace["product"], trace["shift"], strict=True)
        for p in row
    ]
    assert sum(doubled) >= 2 * len(KINDS)


def test_eps_rows_lie_around_eps(planned: Any) -> None:
    model, rows = planned("linear")
    context = model.assembly.context
    eps = context.eps_code >> context.guard
    operands = sums(model, class_of(rows, "eps"))
    assert operands.min() < eps // 2
    assert ((operands >= eps - 2) & (operands <= eps + 2)).any()
    assert (operands > 2 * eps).any()


def test_saturation_rows_reach_both_ends() -> None:
    model = make(y="ap_fixed<8,3,RND,SAT>")
    y = model(class_of(plan(model, 0), "saturation"))
    assert y.max() == 127 and y.min() == -128


def peaking_at_eight(y: str, gamma: int = 64) -> RMSNorm:
    """A model whose y is 8 at most, with gamma 64 for 1: the root of its 64 elements."""
    model = make(dim=64, y=y)
    return RMSNorm(model.spec, np.full(64, gamma))


def in_a_wider_format(model: RMSNorm, codes: np.ndarray) -> np.ndarray:
    """y's codes with room for all of them: as they are rounded, not limited."""
    y = model.assembly.context.y
    wide = make(dim=model.dim, y=f"ap_fixed<16,12,{y.rounding},WRAP>")
    return RMSNorm(wide.spec, model.gamma)(codes).astype(int)


def test_a_y_that_only_rounding_takes_past_its_format() -> None:
    model = peaking_at_eight("ap_fixed<8,4,RND_CONV,SAT>")
    rows = plan(model, 0)
    found = in_a_wider_format(model, class_of(rows, "saturation"))
    assert found.max() == 128 and (found.max(axis=1) == 128).all()
    # In some 128 is rounded up to: y does not lie that far.
    _, trace = model(class_of(rows, "saturation"), trace=True)
    assert 127 in (trace["product"] >> trace["shift"][:, None]).max(axis=1)
    (note,) = [n for n in rows.coverage["notes"] if n.startswith("saturation")]
    assert note == "saturation: no row tried has a y below its format"


def test_the_lone_minimum_is_past_a_symmetric_format() -> None:
    model = peaking_at_eight("ap_fixed<8,4,RND_CONV,SAT_SYM>")
    rows = plan(model, 0)
    found = in_a_wider_format(model, class_of(rows, "saturation"))
    assert (found.min(), found.max()) == (-128, 128)
    assert not [n for n in rows.coverage["notes"] if n.startswith("saturation")]


@pytest.mark.parametrize("rounding", ["TRN", "TRN_ZERO", "RND_CONV"])
@pytest.mark.parametrize("overflow", ["SAT", "SAT_SYM", "WRAP"])
def test_saturation_rows_are_there_when_any_row_saturates(rounding: str, overflow: str) -> None:
    model = peaking_at_eight(f"ap_fixed<8,4,{rounding},{overflow}>")
    rows = plan(model, 0)
    lowest = -127 if overflow == "SAT_SYM" else -128
    every = in_a_wider_format(model, all_codes(rows))
    notes = rows.coverage["notes"]
    for side, reached in (("above", every.max() > 127), ("below", every.min() < lowest)):
        noted = f"saturation: no row tried has a y {side} its format" in notes
        assert noted != reached, side


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("overflow", ["SAT", "SAT_SYM", "SAT_ZERO", "WRAP"])
def test_beyond_format_is_exact_to_the_code(rounding: str, overflow: str) -> None:
    model = peaking_at_eight(f"ap_fixed<8,4,{rounding},{overflow}>", 67)
    codes = np.zeros((4096, 64), int)
    # A large element of either sign over smaller and smaller others: y falls past each code.
    codes[:, 0] = np.where(np.arange(4096) % 2, 30000, -30000)
    codes[:, 1:] = np.arange(4096)[:, None] // 2
    wide = in_a_wider_format(model, codes)
    lowest = -127 if overflow == "SAT_SYM" else -128
    for near in (127, 128, 129, lowest, lowest - 1, lowest - 2):
        assert (wide == near).any(), near
    probe = Probe(model)
    above, below = beyond_format(probe, probe.trace(codes))
    assert np.array_equal(above, wide > 127)
    assert np.array_equal(below, wide < lowest)


def test_threshold_rows_straddle_the_outlier_threshold(planned: Any) -> None:
    _, rows = planned("outliers")
    magnitudes = set(np.abs(class_of(rows, "thresholds")).max(axis=1).tolist())
    assert {1983, 1984} <= magnitudes  # 2**7 * (2**4 - 1/2)
    assert {63, 64} <= magnitudes  # the first code: half a step


def test_sole_rows_straddle_its_range_switch(planned: Any) -> None:
    model, rows = planned("sole")
    seen = model(class_of(rows, "thresholds"), trace=True)[1]["magnitude"].max(axis=1)
    assert {254, 255} <= set(seen.tolist())


def test_uneven_row_has_a_wide_sum() -> None:
    model = make(dim=37)
    rows = plan(model, 0)
    assert "sum" not in rows.coverage["unused_top_bits"]
    assert sums(model, class_of(rows, "minimum"))[0] == 37 << 30


# --- what the rows show -----------------------------------------------------------------------


def entries_seen(model: RMSNorm, codes: np.ndarray) -> list[tuple[str, int, int]]:
    """(table, entry, delta) of each single changed entry that y does not show."""
    datapath = model.assembly.require_datapath()
    probe, y = Probe(model), model(codes)
    unseen = []
    for table in datapath.tables():
        for entry in range(len(table.entries)):
            for delta in (1, -1):
                entries = list(table.entries)
                entries[entry] += delta
                changed = with_table(datapath, table, replace(table, entries=tuple(entries)))
                other = NumpyBackend(widened(changed)).run(probe.inputs(codes))
                if (other == y).all():
                    unseen.append((table.name, entry, delta))
    return unseen


@pytest.mark.parametrize(
    "case",
    [
        "linear",
        "direct",
        "quadratic",
        "sole",
        "dynamic",
        "row exponent",
        "zero point",
        "multiplier",
        "llama",
        "gemma",
        "three elements",
        "outliers",
    ],
)
def test_every_table_entry_is_read_and_shown_by_y(case: str, planned: Any) -> None:
    model, rows = planned(case)
    for table in rows.coverage["tables"]:
        assert table["reached"] == table["entries"] and table["unreached"] == []
        assert table["unseen_plus_one"] == [] and table["unseen_minus_one"] == []
    assert entries_seen(model, all_codes(rows)) == []


@pytest.mark.parametrize("case", ["log", "log constant in table"])
def test_entries_of_logarithms_are_shown_where_their_half_shows_them(
    case: str, planned: Any
) -> None:
    """Half of log2(sum) drops a bit: there, half of the changes show nowhere, by exhaustion."""
    model, rows = planned(case)
    assert all(t["reached"] == t["entries"] for t in rows.coverage["tables"])
    unseen = entries_seen(model, all_codes(rows))
    assert {name for name, *_ in unseen} == {"rsqrt_log2_table"}
    table = model.assembly.require_datapath().tables()[0]
    # RND of half: an odd logarithm rounds up, so one more changes nothing, and so on.
    hidden = {("rsqrt_log2_table", e, 1 if v % 2 else -1) for e, v in enumerate(table.entries)}
    assert set(unseen) == hidden
    reasons = {
        u["reason"]
        for t in rows.coverage["tables"]
        for u in (*t["unseen_plus_one"], *t["unseen_minus_one"])
    }
    assert reasons == {"it changes no output of the row program, whatever the operand"}


def test_large_table_under_a_coarse_output() -> None:
    model = make(y=COARSE_Y, rsqrt={"method": "direct", "index_bits": 7, "bits": 18})
    (table,) = plan(model, 1).coverage["tables"]
    assert [table[k] for k in ("reached", "seen_plus_one", "seen_minus_one")] == [256] * 3


@pytest.mark.parametrize("case", CASES)
def test_exponents_are_reached(case: str, planned: Any) -> None:
    model, rows = planned(case)
    reached = {s["signal"]: s for s in rows.coverage["row_signals"]}
    lead = model(all_codes(rows), trace=True)[1]["lead"]
    assert reached["lead"]["reached"] == len(np.unique(lead))
    if case == "row exponent":
        assert reached["row_shift"]["unreached"] == []
    if case in ("linear", "direct"):
        assert reached["lead"]["unreached"] == []


def test_every_small_change_that_y_can_show_is_shown() -> None:
    model = make(dim=96, y="ap_fixed<12,3,RND_CONV,SAT>")
    rows = plan(model, 1)
    assert rows.coverage["changes"]["tried"] >= 18
    assert rows.coverage["changes"]["unseen"] == []


def test_unseen_changes_are_told(planned: Any) -> None:
    _, rows = planned("one element")
    told = {u["change"] for u in rows.coverage["changes"]["unseen"]}
    assert "normalize.y: overflow WRAP" in told  # |y| <= |gamma| there


def test_small_changes_change_one_thing_each(planned: Any) -> None:
    model, _ = planned("outliers")
    datapath = model.assembly.require_datapath()
    changes = small_changes(datapath)
    assert len({c.name for c in changes}) == len(changes)
    for change in changes:
        plain = change.plain
        if len(plain.stages) > len(datapath.stages):  # a program of one operation after a top
            assert change.name.endswith("ignored")
            assert len(plain.stages) == len(datapath.stages) + 1
            continue
        stages = [i for i, s in enumerate(datapath.stages) if s != plain.stages[i]]
        ports = [n for n, p in datapath.ports.items() if p != plain.ports[n]]
        assert len(stages) + len(ports) == 1
        assert bool(ports) == (change.bits is not None)
        if stages and isinstance(before := datapath.stages[stages[0]], MapStage):
            after = plain.stages[stages[0]]
            assert isinstance(after, MapStage) and stages[0] == change.stage
            nodes = zip(before.program.nodes, after.program.nodes, strict=True)
            assert {i for i, (m, n) in enumerate(nodes) if m != n} == change.nodes


@pytest.mark.parametrize("case", CASES)
def test_changed_datapaths_keep_the_widths(case: str, planned: Any) -> None:
    """Whatever a mistake makes of a signal, it is a value of the type that it has."""
    model, rows = planned(case)
    probe, codes = Probe(model), all_codes(rows)[:20]
    datapath = model.assembly.require_datapath()
    types = {p.name: type_limits(p.interval) for p in datapath.signals()}
    for change in all_changes(datapath):
        try:
            traced = NumpyBackend(change.datapath).run_traced(probe.inputs(codes))
        except ASTRAY:
            continue
        for name, value in traced.items():
            if name in types and value.size and name != change.name.partition(":")[0]:
                lo, hi = types[name]
                assert lo <= value.min() and value.max() <= hi, (change.name, name)


@pytest.mark.parametrize("case", CASES)
def test_widened_datapath_is_the_same(case: str, planned: Any) -> None:
    model, rows = planned(case)
    probe, codes = Probe(model), all_codes(rows)
    wide = NumpyBackend(widened(model.assembly.require_datapath()))
    assert (wide.run(probe.inputs(codes)) == model(codes)).all()
    assert (probe.y(codes) == model(codes)).all()


# --- random words -----------------------------------------------------------------------------


def test_words_are_pinned() -> None:
    """Were these to change, every vector would."""
    assert Words(0, 1).raw(2).tolist() == [16412783775159424549, 10277383025879800780]
    assert Words(7, 2).below(100, 4).tolist() == [27, 44, 93, 68]
    assert Words(7, 3).gaussian(3).tolist() == [87620, 52726, -3858]
    assert Words(7, 4).geometric(14, 6).tolist() == [0, 0, 0, 1, 0, 4]


@given(st.integers(0, 2**32), st.integers(1, 2**32))
def test_below_stays_below(seed: int, bound: int) -> None:
    values = Words(seed).below(bound, 50)
    assert values.min() >= 0 and values.max() < bound


def test_words_have_the_stated_shape() -> None:
    words = Words(3)
    bell = words.gaussian(20_000)
    assert np.abs(bell).max() <= 131_070 and abs(int(bell.mean())) < 1500
    assert abs(int(bell.std()) - 37_837) < 600
    counts = np.bincount(words.geometric(14, 20_000))
    assert 9_500 < counts[0] < 10_500 and 4_600 < counts[1] < 5_400
    assert sorted(words.order(50).tolist()) == list(range(50))
    assert words.bits(16, 4, 5).shape == (4, 5)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("space", [Space(7, -128, 127, 0), Space(5, 0, 3, 0), Space(9, -7, 8, 7)])
def test_distributions_stay_in_the_format(name: str, space: Space) -> None:
    rows = DISTRIBUTIONS[name](space, Words(1), 30)
    assert rows.shape == (30, space.dim)
    assert rows.min() >= space.lo and rows.max() <= space.hi
    assert len(np.unique(rows)) > 2


def test_sink_channel_stands_out() -> None:
    rows = np.abs(DISTRIBUTIONS["random_sink"](Space(64, -32768, 32767, 0), Words(2), 8))
    channel = rows.argmax(axis=1)
    assert (channel == channel[0]).all()
    assert (rows.max(axis=1) > 100 * np.median(rows, axis=1)).all()


def test_trailing_zeros() -> None:
    values = np.array([0, 1, -1, 8, -12, 1 << 40, -(1 << 62)])
    assert trailing_zeros(values).tolist() == [63, 0, 0, 3, 2, 40, 62]


# --- text and beats ---------------------------------------------------------------------------


@given(st.integers(1, 63), st.booleans(), st.data())
def test_hex_round_trip(width: int, signed: bool, data: st.DataObject) -> None:
    lo, hi = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    codes = np.array(data.draw(st.lists(st.integers(lo, hi), max_size=9)), np.int64)
    text = to_hex(codes, width)
    lines = text.decode("ascii").splitlines(keepends=True)
    assert lines == [f"{int(c) % (1 << width):0{hex_digits(width)}x}\n" for c in codes]
    assert from_hex(text, width, signed, "f").tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"0a\n1\n", "f has 5 bytes; allowed: lines of 2 hex digits"),
        (b"0a\n0A\n", "f line 2 is no word"),
        (b"0a\n0g\n", "f line 2 is no word"),
        (b"0a\n0a ", "f line 2 is no word"),
        (b"0a\n7f\n", "f holds a word of more than 6 bits"),
    ],
)
def test_bad_hex_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(ApproxNormError, match=message):
        from_hex(text, 6, True, "f")


@given(st.integers(1, 20), st.integers(1, 9), st.integers(1, 9), st.data())
def test_beats_have_lane_0_in_the_low_bits(
    width: int, lanes: int, dim: int, data: st.DataObject
) -> None:
    lo, hi = -(1 << (width - 1)), (1 << (width - 1)) - 1
    cells = st.lists(st.integers(lo, hi), min_size=dim, max_size=dim)
    rows = data.draw(st.lists(cells, min_size=1, max_size=3))
    expected = []
    for row in rows:
        for start in range(0, dim, lanes):
            beat = 0
            for lane, code in enumerate(row[start : start + lanes]):
                beat |= (code % (1 << width)) << (lane * width)
            expected.append(f"{beat:0{hex_digits(lanes * width)}x}")
    text = to_beats(np.array(rows, np.int64), width, lanes).decode("ascii")
    assert text == "\n".join(expected) + "\n"


# --- files ------------------------------------------------------------------------------------


def small() -> RMSNorm:
    """A model whose manifest is pinned: no table of it depends on how minimax is searched."""
    rsqrt = {"method": "direct", "index_bits": 3, "bits": 9, "entries": "left"}
    return make(dim=11, eps=1e-3, x="ap_fixed<9,5>", y=COARSE_Y, rsqrt=rsqrt)


PINNED = "42496c85253d6b66cec1ddfe225970a555c4fb7367930a7b4fe1dc376ab534b3"


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "provenance.json"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("vectors") / "set"
    write_vectors(small(), out, level=1, seed=3, lanes=4)
    return out


@pytest.fixture
def vectors(written: Path, tmp_path: Path) -> Path:
    """A copy of a set, to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "set"))


def test_same_arguments_same_bytes(written: Path, tmp_path: Path) -> None:
    write_vectors(small(), tmp_path / "again", level=1, seed=3, lanes=4)
    assert contents(tmp_path / "again") == contents(written)


def test_manifest_is_pinned(written: Path) -> None:
    """If this fails, the vectors of every user change: raise a version, then pin again."""
    assert hashlib.sha256((written / "manifest.json").read_bytes()).hexdigest() == PINNED


def test_files_hold_what_the_model_says(written: Path) -> None:
    model, found = small(), read_vectors(written)
    x = found.array("x")
    assert np.array_equal(x, all_codes(plan(model, 1, 3, lanes=4)))
    y, trace = model(x, trace=True)
    assert np.array_equal(found.array("y"), y)
    assert np.array_equal(found.array("gamma"), model.gamma)
    assert {s.name for s in found.manifest.signals} == set(trace)
    for entry in found.manifest.signals:
        assert np.array_equal(found.array(entry.name), trace[entry.name])
        assert np.array_equal(found.from_text(entry.name), trace[entry.name])
        assert found.array(entry.name).shape == found.shape(entry)


def test_log_domain_has_gamma_too(tmp_path: Path) -> None:
    model = make(**LOG)
    found = write_vectors(model, tmp_path / "set", level=0)
    assert np.array_equal(found.from_text("gamma"), model.gamma)
    names = {s.name for s in found.manifest.signals}
    assert {"gamma_log", "gamma_negative", "gamma_zero", "x", "y"} <= names


def test_beat_files(written: Path) -> None:
    found = read_vectors(written)
    for beat in found.manifest.beats:
        width = found.signal(beat.signal).width
        assert beat.width == 4 * width and beat.words == 3 * found.rows
        text = to_beats(found.array(beat.signal).astype(np.int64), width, 4)
        assert (written / beat.file).read_bytes() == text


def test_manifest_says_what_there_is(written: Path) -> None:
    text = (written / "manifest.json").read_text(encoding="ascii")
    data = json.loads(text)
    model = small()
    assert text.endswith("}\n") and "\r" not in text
    assert data["digest"] == model.digest and data["spec"] == model.spec.to_dict()
    assert (data["level"], data["seed"], data["lanes"], data["dim"]) == (1, 3, 4, 11)
    assert data["lane_order"] == "lane 0 in the low bits"
    assert data["padding"] == {"beats_per_row": 3, "value": 0}
    first = 0
    for c in data["classes"]:
        assert c["first"] == first
        first += c["count"]
    assert first == data["rows"]
    for s in data["signals"]:
        raw = (written / s["file"]).read_bytes()
        assert hashlib.sha256(raw).hexdigest() == s["sha256"]
        assert raw.count(b"\n") == s["words"] and raw.endswith(b"\n")
    assert {p.name for p in model.assembly.require_datapath().signals()} == {
        s["name"] for s in data["signals"]
    }


def test_no_versions_in_hashed_files(written: Path) -> None:
    versions = json.loads((written / "provenance.json").read_text(encoding="ascii"))
    assert set(versions) == {"approxnorm", "numpy", "python"}
    manifest = (written / "manifest.json").read_text(encoding="ascii")
    assert versions["numpy"] not in manifest and versions["python"] not in manifest


def test_archive_has_no_machine_in_it(written: Path) -> None:
    with zipfile.ZipFile(written / "vectors.npz") as archive:
        names = archive.namelist()
        for info in archive.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert info.create_system == 3 and info.compress_type == zipfile.ZIP_STORED
    assert names == sorted(names)


def test_own_input(tmp_path: Path) -> None:
    model = small()
    codes = (np.arange(6 * 11).reshape(2, 3, 11) * 7 % 400 - 200).astype(np.int16)
    found = write_vectors(model, tmp_path / "set", x_codes=codes, lanes=2)
    assert found.manifest.level == "input" and found.rows == 6
    assert [c.name for c in found.manifest.classes] == ["input"]
    assert np.array_equal(found.array("y"), model(codes).reshape(6, 11))
    (table,) = found.manifest.coverage["tables"]
    assert 1 <= table["reached"] <= 6
    assert read_vectors(tmp_path / "set").manifest == found.manifest


def test_own_input_may_be_empty(tmp_path: Path) -> None:
    write_vectors(small(), tmp_path / "set", x_codes=np.zeros((0, 11), np.int8))
    found = read_vectors(tmp_path / "set")
    assert found.rows == 0 and found.array("y").shape == (0, 11)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((2, 10), int), r"shape \(2, 10\).*rows of dim = 11"),
        (np.zeros((2, 11)), "dtype float64; allowed: integer codes"),
        (np.full((1, 11), 256), "x_codes holds the code 256; its format allows -256 to 255"),
    ],
)
def test_wrong_input_is_refused(codes: np.ndarray, message: str, tmp_path: Path) -> None:
    with pytest.raises(ApproxNormError, match=message):
        write_vectors(small(), tmp_path / "set", x_codes=codes)
    assert list(tmp_path.iterdir()) == []


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": 3}, "level is 3; allowed: 0, 1 or 2"),
        ({"level": -1}, "level is -1"),
        ({"level": 1.0}, r"level is 1\.0; allowed: 0, 1 or 2"),
        ({"level": True}, "level is True; allowed: 0, 1 or 2"),
        ({"level": None}, "level is None"),
        ({"seed": -1}, "seed is -1; allowed: an integer from 0 to 18446744073709551615"),
        ({"seed": 1.5}, r"seed is 1\.5; allowed"),
        ({"seed": 1 << 64}, "seed is 18446744073709551616; allowed"),
        ({"lanes": 0}, "lanes is 0; allowed: an integer from 1 to 4096"),
        ({"lanes": 4097}, "lanes is 4097; allowed: an integer from 1 to 4096"),
        ({"lanes": 100_000_000}, "lanes is 100000000; allowed"),
        ({"lanes": 2.0}, r"lanes is 2\.0; allowed"),
        ({"lanes": "8"}, "lanes is '8'; allowed"),
        ({"lanes": True}, "lanes is True; allowed"),
    ],
)
def test_wrong_numbers_are_refused(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ApproxNormError, match=message):
        write_vectors(small(), tmp_path / "set", **arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [{"seed": True}, {"lanes": 4097}, {"lanes": 1.0}])
def test_wrong_numbers_are_refused_with_own_input(
    arguments: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ApproxNormError, match="allowed: an integer from"):
        write_vectors(small(), tmp_path / "set", x_codes=np.zeros((1, 11), int), **arguments)
    assert list(tmp_path.iterdir()) == []


def test_integers_of_numpy_are_integers(tmp_path: Path) -> None:
    write_vectors(small(), tmp_path / "a", level=0, seed=2, lanes=4)
    numbers = {"level": np.int8(0), "seed": np.uint64(2), "lanes": np.int32(4)}
    write_vectors(small(), tmp_path / "b", **numbers)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_the_widest_beats(tmp_path: Path) -> None:
    write_vectors(small(), tmp_path / "set", level=0, lanes=4096)
    found = read_vectors(tmp_path / "set")
    assert found.manifest.beats[0].width == 4096 * found.signal("x").width
    assert found.manifest.padding.beats_per_row == 1


def test_the_yardstick_has_no_vectors(tmp_path: Path) -> None:
    model = make(
        rsqrt={"method": "exact"}, normalize={"method": "multiply", "constant": "multiplier"}
    )
    for codes in (None, np.zeros((1, 48), int)):
        with pytest.raises(ApproxNormError, match=r'rsqrt\.method "exact" is the yardstick'):
            write_vectors(model, tmp_path / "set", level=0, x_codes=codes)
    assert list(tmp_path.iterdir()) == []


def edit(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda d: (d / "y.hex").unlink(), "y.hex is missing"),
    "short": (lambda d: (d / "x.hex").write_bytes(b"000\n"), "x.hex has 4 bytes, not"),
    "edited": (lambda d: edit(d / "gamma.hex", b"\n0", b"\n1"), "gamma.hex was edited"),
    "edited archive": (lambda d: edit(d / "vectors.npz", b"NUMPY", b"NUMPI"), "vectors.npz was"),
    "edited beats": (lambda d: edit(d / "x_beats.hex", b"0", b"1"), "x_beats.hex was edited"),
    "foreign": (lambda d: (d / "notes.txt").write_text("hi"), "notes.txt is not listed"),
    "no manifest": (lambda d: (d / "manifest.json").unlink(), "manifest.json is missing"),
    "no JSON": (lambda d: (d / "manifest.json").write_text("{"), "manifest.json is not JSON"),
    "no UTF-8": (lambda d: (d / "manifest.json").write_bytes(b"\xff"), "manifest.json is not JSON"),
    "other JSON": (lambda d: (d / "manifest.json").write_text("[1]"), "is no manifest of"),
    "digest": (
        lambda d: edit(d / "manifest.json", b'"digest": "', b'"digest": "xyz'),
        "manifest.json: digest is 'xyz.*; allowed: 64 digits 0-9, a-f; write",
    ),
    "version": (
        lambda d: edit(d / "manifest.json", b'"format_version": 1', b'"format_version": 9'),
        "has format_version 9; allowed: 1",
    ),
    "unknown key": (
        lambda d: edit(d / "manifest.json", b'"seed"', b'"extra": 1, "seed"'),
        "manifest.json: extra is an unknown key; write the vectors again$",
    ),
    "no key": (
        lambda d: edit(d / "manifest.json", b' "seed": 3,', b""),
        "manifest.json: seed is missing; write",
    ),
    "seed": (
        lambda d: edit(d / "manifest.json", b'"seed": 3', b'"seed": "3"'),
        "manifest.json: seed is '3'; allowed: an integer; write",
    ),
    "negative": (
        lambda d: edit(d / "manifest.json", b'"seed": 3', b'"seed": -3'),
        "manifest.json: seed is -3; allowed: 0 or more; write",
    ),
    "lanes": (
        lambda d: edit(d / "manifest.json", b'"lanes": 4', b'"lanes": 4097'),
        "manifest.json: lanes is 4097; allowed: 4096 or less; write",
    ),
    "level": (
        lambda d: edit(d / "manifest.json", b'"level": 1', b'"level": 3'),
        "manifest.json: level is 3; allowed: 0, 1, 2 or 'input'; write",
    ),
    "deep": (
        lambda d: (d / "manifest.json").write_text("[" * 100_000),
        "manifest.json is not JSON text",
    ),
    "digits": (
        lambda d: edit(d / "manifest.json", b'"seed": 3', b'"seed": ' + b"3" * 5000),
        "manifest.json is not JSON text",
    ),
    "NaN": (
        lambda d: edit(d / "manifest.json", b'"rows_searched": ', b'"x": NaN, "rows_searched": '),
        "manifest.json is not JSON text",
    ),
    "pipe": (
        lambda d: ((d / "manifest.json").unlink(), os.mkfifo(d / "manifest.json")),
        "manifest.json is no regular file",
    ),
    "folder": (
        lambda d: ((d / "manifest.json").unlink(), (d / "manifest.json").mkdir()),
        "manifest.json is no regular file",
    ),
    "pipe of a signal": (
        lambda d: ((d / "y.hex").unlink(), os.mkfifo(d / "y.hex")),
        "y.hex is no regular file",
    ),
    "rows": (
        lambda d: edit(d / "manifest.json", b'"rows": ', b'"rows": 1'),
        "manifest.json: signal x has",
    ),
    "beats": (
        lambda d: edit(d / "manifest.json", b'"beats_per_row": 3', b'"beats_per_row": 4'),
        "beats_per_row is 4; allowed: 3",
    ),
    "outside": (
        lambda d: edit(d / "manifest.json", b'"file": "y.hex"', b'"file": "../y.hex"'),
        "manifest.json: signals.*file is '../y.hex'",
    ),
    "no y": (
        lambda d: edit(d / "manifest.json", b'"name": "y"', b'"name": "yy"'),
        "manifest.json: signal y is missing",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_sets_are_refused(damage: str, vectors: Path) -> None:
    do, message = DAMAGES[damage]
    do(vectors)
    with pytest.raises(ApproxNormError, match=message) as caught:
        read_vectors(vectors)
    assert str(vectors) in str(caught.value)


def signal_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(s for s in data["signals"] if s["name"] == name)


# Edits of a manifest that leave every SHA-256 of a file as it is, and what is said of them.
LIES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "digest": (lambda m: m.update(digest="0" * 64), "digest is '0000.*; allowed: [0-9a-f]{64}, wh"),
    "eps": (lambda m: m["spec"].update(eps=0.5), "digest is "),
    "eps guard": (lambda m: m["spec"].update(eps_guard=0), "digest is "),
    "open spec": (lambda m: m["spec"].pop("dim"), r"json: spec\.dim is missing"),
    "other dim": (lambda m: m["spec"].update(dim=12), "dim is 11; allowed: 12, as spec.dim"),
    "derived number": (
        lambda m: m["spec"].pop("eps_guard"),
        r"json: spec\.eps_guard is None; allowed: \d+; write",
    ),
    "derived field": (
        lambda m: m["spec"]["rsqrt"].pop("out_bits"),
        r"json: spec\.rsqrt is \{.*; allowed: \{",
    ),
    "no such method": (lambda m: m["spec"]["rsqrt"].update(method="guess"), "json: spec: rsqrt"),
    "self": (lambda m: m["spec"].update(self=1), "spec: "),
    "gamma too narrow": (
        lambda m: m["spec"].update(gamma="ap_fixed<7,4>"),
        "does not hold gamma as",
    ),
    "other gamma": (lambda m: m["spec"].update(gamma="ap_fixed<11,5>"), "digest is "),
    "first": (lambda m: m["classes"][0].update(first=99), r"classes\.0\.first is 99; allowed: 0"),
    "gap": (
        lambda m: m["classes"][2].update(first=m["classes"][2]["first"] + 1),
        r"classes\.2\.first is",
    ),
    "order": (lambda m: m["classes"].reverse(), r"classes\.0\.first is"),
    "lo": (lambda m: signal_of(m, "x").update(lo=-255), r"signals\.0\.lo is -255; allowed: -256"),
    "hi": (lambda m: signal_of(m, "y").update(hi=1 << 70), r"signals\.\d+\.hi is .*; allowed: 127"),
    "signed": (lambda m: signal_of(m, "y").update(signed=False), "signed is False; allowed: True"),
    "type": (lambda m: signal_of(m, "y").update(type="ap_uint<8>"), "type is 'ap_uint<8>'; all"),
    "width": (lambda m: signal_of(m, "y").update(width=7), "width is 7; allowed: 8"),
    "format": (lambda m: signal_of(m, "x").update(format=None), "format is None; allowed: ap_fix"),
    "swapped files": (
        lambda m: (
            signal_of(m, "x").update(file="y.hex", width=8),
            signal_of(m, "y").update(file="x.hex", width=9),
        ),
        "y.hex was edited|y.hex has",
    ),
    "twice": (
        lambda m: m["signals"].append(m["signals"][0]),
        "the list of signals is .*; allowed: x, gamma, ",
    ),
    "no beats": (lambda m: m["beats"].pop(), "y_beats.hex is not listed"),
    "beats twice": (lambda m: m["beats"].append(m["beats"][0]), "the list of beats is 'x, y, x'"),
    "beat width": (lambda m: m["beats"][0].update(width=35), r"beats\.0\.width is 35; allowed: 36"),
    "lanes": (
        lambda m: (m.update(lanes=3), m["padding"].update(beats_per_row=4)),
        r"beats\.0\.width is 36; allowed: 27",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_that_lies_is_refused(lie: str, vectors: Path) -> None:
    change, message = LIES[lie]
    path = vectors / "manifest.json"
    data = json.loads(path.read_bytes())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(ApproxNormError, match=message) as caught:
        read_vectors(vectors)
    assert str(vectors) in str(caught.value) and "\n" not in str(caught.value)


def test_a_manifest_may_be_formatted_otherwise(vectors: Path) -> None:
    path = vectors / "manifest.json"
    before = read_vectors(vectors)
    path.write_text(json.dumps(json.loads(path.read_bytes()), sort_keys=True))
    assert read_vectors(vectors) == before


def sign_again(folder: Path) -> None:
    """Make the manifest's SHA-256 those of the files as they are now."""
    path = folder / "manifest.json"
    data = json.loads(path.read_bytes())
    for entry in (*data["signals"], *data["beats"], data["archive"]):
        entry["sha256"] = hashlib.sha256((folder / entry["file"]).read_bytes()).hexdigest()
    path.write_text(json.dumps(data))


def store_again(folder: Path, change: Callable[[dict[str, np.ndarray]], Any]) -> None:
    """Change the arrays of the archive, and write it as numpy does."""
    with np.load(folder / "vectors.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    change(arrays)
    np.savez(folder / "vectors.npz", **arrays)


def change_code(name: str, code: int) -> Callable[[Path], Any]:
    """Put a code at the front of an array of the archive."""
    return lambda d: store_again(d, lambda arrays: arrays[name].reshape(-1).__setitem__(0, code))


FORGERIES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "text": (lambda d: edit(d / "y.hex", b"00\n", b"01\n"), "y.hex holds other codes than vectors"),
    "beats": (
        lambda d: edit(d / "x_beats.hex", b"000000000\n", b"000000001\n"),
        "x_beats.hex holds other codes than vectors",
    ),
    "row signal": (change_code("sum", 1), "sum.hex holds other codes"),
    "gamma": (change_code("gamma", 3), "manifest.json: digest is"),
    "beyond": (change_code("x", 256), "vectors.npz: x holds the code 256; allowed: -256 to 255"),
    "below": (change_code("x", -300), "vectors.npz: x holds the code -300; allowed: -256 to 255"),
    "wide": (
        lambda d: store_again(d, lambda a: a.update(x=a["x"].astype(np.int64))),
        "vectors.npz does not hold x as",
    ),
    "shape": (
        lambda d: store_again(d, lambda a: a.update(x=a["x"].T)),
        "vectors.npz does not hold x as",
    ),
    "absent": (lambda d: store_again(d, lambda a: a.pop("y")), "does not hold just the signals"),
    "no gamma": (lambda d: store_again(d, lambda a: a.pop("gamma")), "does not hold gamma as"),
    "no zip": (lambda d: (d / "vectors.npz").write_bytes(b"PK"), "does not hold gamma as"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_files_that_contradict_each_other_are_refused(forgery: str, vectors: Path) -> None:
    change, message = FORGERIES[forgery]
    change(vectors)
    sign_again(vectors)
    with pytest.raises(ApproxNormError, match=message):
        read_vectors(vectors)


@pytest.mark.parametrize("case", CASES)
def test_sets_of_every_kind_are_read_back(case: str, tmp_path: Path) -> None:
    model = make(**CASES[case])
    form = model.assembly.x_format
    codes = np.random.default_rng(4).integers(form.lo, form.hi + 1, (3, model.dim))
    written = write_vectors(model, tmp_path / "set", x_codes=codes, lanes=7)
    assert read_vectors(tmp_path / "set") == written


@pytest.mark.parametrize("name", ["y.hex", "vectors.npz", "manifest.json"])
def test_link_is_not_followed(name: str, vectors: Path, tmp_path: Path) -> None:
    (vectors / name).rename(tmp_path / "elsewhere")
    (vectors / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ApproxNormError, match=f"{name} is a symbolic link"):
        read_vectors(vectors)


def test_a_huge_manifest_is_not_read(vectors: Path) -> None:
    with open(vectors / "manifest.json", "r+b") as file:
        file.truncate((64 << 20) + 1)  # sparse
    with pytest.raises(ApproxNormError, match=r"manifest\.json is larger than 67108864 bytes"):
        read_vectors(vectors)


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ApproxNormError, match="absent is not a folder"):
        read_vectors(tmp_path / "absent")


def test_unknown_signal_is_refused(written: Path) -> None:
    with pytest.raises(ApproxNormError, match="no signal 'z'; allowed: x, gamma"):
        read_vectors(written).array("z")


def test_hidden_files_do_not_count(vectors: Path) -> None:
    (vectors / ".DS_Store").write_text("")
    assert read_vectors(vectors).dim == 11


# --- replacing --------------------------------------------------------------------------------


def test_a_previous_set_is_replaced(vectors: Path) -> None:
    write_vectors(small(), vectors, level=0, seed=9)
    found = read_vectors(vectors)
    assert (found.manifest.level, found.manifest.seed) == (0, 9)
    assert [p.name for p in vectors.parent.iterdir()] == ["set"]


def test_an_empty_folder_and_missing_parents_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "a" / "b"):
        write_vectors(small(), out, level=0)
        assert read_vectors(out).manifest.level == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "empty"]


OBSTACLES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "full": (lambda d: (d / "manifest.json").unlink(), "is not empty and holds no manifest"),
    "foreign": (lambda d: (d / "mine.txt").write_text("x"), "mine.txt is no part of the former"),
    "hidden": (lambda d: (d / ".git").mkdir(), ".git is no part of the former"),
    "other": (lambda d: (d / "manifest.json").write_text("{}"), "is no manifest of"),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_other_folders_are_left_alone(obstacle: str, vectors: Path) -> None:
    put, message = OBSTACLES[obstacle]
    put(vectors)
    before = sorted(p.name for p in vectors.iterdir())
    with pytest.raises(ApproxNormError, match=message):
        write_vectors(small(), vectors, level=0)
    assert sorted(p.name for p in vectors.iterdir()) == before
    assert [p.name for p in vectors.parent.iterdir()] == ["set"]


def test_a_file_or_link_in_the_way_is_refused(vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(vectors)
    with pytest.raises(ApproxNormError, match="file is a file"):
        write_vectors(small(), tmp_path / "file", level=0)
    with pytest.raises(ApproxNormError, match="link is a symbolic link"):
        write_vectors(small(), tmp_path / "link", level=0)


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there(
    fault: BaseException, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise fault

    before = contents(vectors)
    monkeypatch.setattr("approxnorm.vectors.archive.write_npz", fail)
    expected = ApproxNormError if isinstance(fault, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_vectors(small(), vectors, level=0)
    assert contents(vectors) == before
    assert [p.name for p in vectors.parent.iterdir()] == ["set"]


def test_a_failed_rename_puts_the_old_set_back(
    vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.replace, []

    def second_fails(source: Any, target: Any) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise OSError(13, "Permission denied")
        real(source, target)

    before = contents(vectors)
    monkeypatch.setattr("approxnorm.output.os.replace", second_fails)
    with pytest.raises(ApproxNormError, match="cannot be written: Permission denied"):
        write_vectors(small(), vectors, level=0)
    assert contents(vectors) == before
    assert [p.name for p in vectors.parent.iterdir()] == ["set"]


def test_other_rounding_modes_are_told_apart() -> None:
    """Each pair of modes that differ at all on signed values is tried at y."""
    names = {c.name for c in small_changes(make().assembly.require_datapath())}
    expected = {f"normalize.y: rounding {m}" for m in Rounding if m is not Rounding.RND_CONV}
    assert expected <= names


@pytest.mark.parametrize(
    "statistic",
    [
        {"method": "low_bit", "step_exponent": 20},
        {"method": "sole", "input_shift": 12},
    ],
)
def test_a_statistic_that_is_always_0(statistic: dict[str, Any]) -> None:
    spec = {**norm_specs.BASE, "eps": 0, "x": "ap_fixed<8,4>", "statistic": statistic}
    made = plan(RMSNorm(RMSNormSpec(**spec), np.ones(12)), 1)
    read = [t["table"] for t in made.coverage["tables"]]
    assert not [name for name in read if "rsqrt" in name]  # y is 0, whatever they hold
    assert sum(len(c.codes) for c in made.classes) > 50
