"""Changes of a datapath that are proven to show in no row: is every proof true?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import norm_specs
import numpy as np
import pytest
import random_specs

from approxnorm import RMSNorm, RMSNormSpec, preset
from approxnorm.cli.nominal import nominal, nominal_gamma
from approxnorm.errors import ApproxNormError
from approxnorm.vectors import equivalence, plan, small_rows
from approxnorm.vectors.changes import Change, small_changes, table_change
from approxnorm.vectors.equivalence import Prover, reason
from approxnorm.vectors.exact import ExactRows
from approxnorm.vectors.factors import Classes
from approxnorm.vectors.goals import all_changes
from approxnorm.vectors.mistakes import mistakes
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.reach import Reach
from approxnorm.vectors.shapes import few_levels, flat, mixed, random_sizes
from approxnorm.vectors.space import Space

# Every variant at 8 elements, and at 1 and 37 every third and those with a history.
NAMES = sorted(norm_specs.VARIANTS)
CASES = [
    *((name, 8) for name in NAMES),
    *((name, 37) for name in NAMES[::3]),
    *((name, 1) for name in [*NAMES[1::3], "log_adder", "log_correction"]),
]


def shows(probe: Probe, change: Change, codes: np.ndarray) -> bool:
    """Whether y of some row is another; a change that leads astray shows as well."""
    try:
        return bool((change.y(probe, codes) != probe.y(codes)).any())
    except (IndexError, AssertionError):
        return True


def many_rows(space: Space, seed: int, count: int = 600) -> np.ndarray:
    """Codes (n, dim) of all shapes and sizes; all rows there are, if they are few."""
    values = space.hi - space.lo + 1
    if values**space.dim <= 1 << 14:
        grid = np.indices((values,) * space.dim).reshape(space.dim, -1).T
        return space.codes(grid + space.lo)
    words = Words(seed, 7)
    parts = [
        random_specs.corner_rows(space.lo, space.hi, 0, space.dim, seed),
        few_levels(space, words, count),
        flat(space),
        mixed(space, words, count).rows(random_sizes(space, words, count)),
    ]
    return space.codes(np.concatenate(parts))


def tried_changes(probe: Probe, seed: int) -> Iterator[Change]:
    """Small changes, some of the mistakes, and some entries of each table."""
    small = small_changes(probe.datapath)
    yield from small
    yield from all_changes(probe.datapath)[len(small) + seed % 4 :: 4]
    rng = np.random.default_rng(seed)
    for site in probe.sites:
        for entry in rng.permutation(len(site.table.entries))[:4]:
            yield from (table_change(probe, site, int(entry), d) for d in (1, -1))


def check_proofs(model: RMSNorm, seed: int) -> int:
    """Every change that is proven shows in no row that is tried; how many are proven."""
    probe = Probe(model)
    prover, codes = Prover(probe), many_rows(probe.space, seed)
    proven = [c for c in tried_changes(probe, seed) if prover.reason(c) is not None]
    assert [c.name for c in proven if shows(probe, c, codes)] == []
    return len(proven)


def random_model(seed: int) -> RMSNorm:
    spec = RMSNormSpec(**random_specs.random_spec(seed))
    form = spec.gamma.to_format("gamma")
    gamma = np.random.default_rng(seed).integers(form.lo, form.hi + 1, spec.dim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RMSNorm(spec, gamma)


@pytest.mark.parametrize(("variant", "dim"), CASES)
def test_no_proof_is_contradicted(variant: str, dim: int) -> None:
    fields = {**norm_specs.BASE, **norm_specs.VARIANTS[variant], "dim": dim}
    if "channel_shifts" in fields:
        fields["channel_shifts"] = {"max_shift": 4, "shifts": ([0, 3, 4, 1] * dim)[:dim]}
    if "y_channel_shifts" in fields:
        fields["y_channel_shifts"] = {"max_shift": 3, "shifts": ([3, 0, 1, 2] * dim)[:dim]}
    if fields["statistic"]["method"] == "prefix":
        fields["statistic"] = {"method": "prefix", "count": -(-dim // 2)}
    spec = RMSNormSpec(**fields)
    gamma = (np.arange(dim) * 37 + 61) % 100 - 40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_proofs(RMSNorm(spec, gamma), dim)


# Among them every statistic and rsqrt method; 34 has a y that wraps in the log domain.
@pytest.mark.parametrize("seed", [*range(12), 34])
def test_no_proof_for_random_specs_is_contradicted(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equivalence, "MAX_ROWS", 0)  # or that alone would prove most
    try:
        model = random_model(seed)
    except ApproxNormError:
        pytest.fail(f"seed {seed} gives no legal spec; take another")
    check_proofs(model, seed)


def small_model(**changes: Any) -> RMSNorm:
    fields = {**norm_specs.BASE, "x": "ap_fixed<3,3>", "dim": 4, **changes}
    return RMSNorm(RMSNormSpec(**fields), np.array([97, -40, 0, 1]))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"eps": 3.0},
        {"y": "ap_fixed<5,3,RND,SAT>"},
        {"statistic": {"method": "leading_one", "bits": 1}},
        {"statistic": {"method": "low_bit", "step_exponent": 1, "bits": 1}},
        {"statistic": {"method": "mean_abs"}},
        {
            "eps": 0.01,
            "rsqrt": {"method": "log2", "index_bits": 5},
            "normalize": {"method": "log", "log_bits": 5},
        },
    ],
)
def test_most_of_what_no_row_shows_is_proven(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 4,096 rows are tried: the proofs, without trying all rows, find most that is hidden."""
    monkeypatch.setattr(equivalence, "MAX_ROWS", 0)
    probe = Probe(small_model(**changes))
    prover, codes = Prover(probe), many_rows(probe.space, 0)
    assert len(codes) == 1 << 12
    hidden = [c for c in small_changes(probe.datapath) if not shows(probe, c, codes)]
    proven = [c for c in small_changes(probe.datapath) if prover.reason(c) is not None]
    assert {c.name for c in proven} <= {c.name for c in hidden}
    assert 2 * len(proven) >= len(hidden)


def test_few_rows_are_all_tried() -> None:
    probe = Probe(small_model())
    hidden = [c for c in small_changes(probe.datapath) if reason(probe, c) is not None]
    codes = many_rows(probe.space, 0)
    shown = [c for c in small_changes(probe.datapath) if shows(probe, c, codes)]
    assert len(hidden) + len(shown) == len(small_changes(probe.datapath))


def test_a_reason_is_given_for_a_model() -> None:
    model = norm_specs.build("linear")
    changes = {c.name: c for c in small_changes(model.assembly.require_datapath())}
    assert reason(model, changes["normalize.y: rounding TRN"]) is None


# --- the parts of a proof


def test_classes_number_totals_without_gaps() -> None:
    classes = Classes(3, 5, 1000)
    totals = np.arange(5, 1001)
    index = classes.index(totals)
    assert index[0] == 0 and index[-1] == len(classes) - 1
    assert set(np.diff(index)) == {0, 1}
    first = classes.first()
    assert (classes.index(first[:-1]) == np.arange(len(classes))).all()
    for a, b in pairwise(totals.tolist()):
        lead = a.bit_length() - 1
        same = lead == b.bit_length() - 1 and a >> max(lead - 3, 0) == b >> max(lead - 3, 0)
        assert (index[a - 5] == index[b - 5]) == same


@pytest.mark.parametrize("variant", sorted(norm_specs.VARIANTS))
def test_no_row_has_a_smaller_operand_than_its_elements_allow(variant: str) -> None:
    model = norm_specs.build(variant)
    reach, codes = Reach(Probe(model)), norm_specs.rows(model, 200)
    _, trace = model(codes, trace=True)
    aligned = trace[reach.x.name]
    operand = trace[reach.operand.name].astype(np.int64)
    assert operand.max() <= reach.most_operand
    if reach.bounded:
        spikes = reach.spike(aligned.reshape(-1)).reshape(aligned.shape)
        assert (spikes[:, reach.summed].max(axis=1, initial=0) <= operand).all()
    if "row_shift" in trace:
        assert (operand[trace["row_shift"] > 0] >= reach.least_peak).all()


@pytest.mark.parametrize("variant", ["linear", "row_exponent", "row_exponent_outliers", "prefix"])
def test_exact_rows_have_the_operand_and_the_element(variant: str) -> None:
    fields = {**norm_specs.BASE, **norm_specs.VARIANTS[variant], "dim": 48, "eps": 1e-5}
    probe = Probe(RMSNorm(RMSNormSpec(**fields), (np.arange(48) * 37 + 61) % 100 - 40))
    prover = Prover(probe)
    change = next(c for c in small_changes(probe.datapath) if c.name.startswith("scale.eps"))
    shown = prover.shown(change)
    rows = ExactRows(prover.reach, Words(1)).rows(shown, 40)
    assert len(rows) >= 10
    codes = probe.space.codes(rows)
    assert (change.y(probe, codes) != probe.y(codes)).any(axis=1).sum() >= 8


# --- what it is for


@pytest.mark.parametrize(
    "variant", ["linear", "row_exponent", "log", "low_bit", "y_narrow", "row_exponent_outliers"]
)
def test_level_1_leaves_little_open(variant: str) -> None:
    spec = RMSNormSpec(**{**norm_specs.BASE, **norm_specs.VARIANTS[variant], "dim": 64})
    coverage = plan(RMSNorm(spec, (np.arange(64) * 37 + 61) % 100 - 40), 1).coverage
    assert [u["change"] for u in coverage["changes"]["unseen"] if not u["equivalent"]] == []
    for table in coverage["tables"]:
        for key in ("unreached", "unseen_plus_one", "unseen_minus_one"):
            assert [e for e in table[key] if not e["equivalent"]] == []


def test_a_narrower_accumulator_is_seen_or_fits() -> None:
    model = norm_specs.build("outliers_top")
    changes = plan(model, 1).coverage["changes"]
    told = {u["change"]: u for u in changes["unseen"]}
    narrower = [
        c.name for c in small_changes(model.assembly.require_datapath()) if c.bits is not None
    ]
    assert len(narrower) == 2
    assert all(told[n]["equivalent"] for n in narrower if n in told)


def preset_prover(name: str) -> Prover:
    spec, _ = nominal(preset(name).with_dim(37))
    return Prover(Probe(RMSNorm(spec, nominal_gamma(spec)[0])))


@pytest.mark.parametrize(("name", "has_ties"), [("published-sole", False), ("int8-linear", True)])
def test_modes_to_nearest_are_the_same_where_nothing_is_a_tie(name: str, has_ties: bool) -> None:
    prover = preset_prover(name)
    changes = [c for c in small_changes(prover.probe.datapath) if "normalize.y: round" in c.name]
    nearest = [c for c in changes if "TRN" not in c.name]
    assert len(changes) == 6 and len(nearest) == 4
    reasons = {c.name: prover.reason(c) for c in changes}
    assert all((reasons[c.name] is None) == has_ties for c in nearest)
    assert all(reasons[c.name] is None for c in changes if c not in nearest)


@pytest.mark.parametrize(
    ("name", "mistake", "words"),
    [
        ("int8-log", "normalize.less_25: less or equal", "x = 0 alone"),
        ("int8-log", "normalize.log_root: read as unsigned", "no operand and no element"),
        ("published-haan", "normalize.mantissa: read as unsigned", "no output of the row program"),
    ],
)
def test_mistakes_that_no_row_can_show_have_a_reason(name: str, mistake: str, words: str) -> None:
    prover = preset_prover(name)
    found = next(m for m in mistakes(prover.probe.datapath) if m.name == mistake)
    assert words in (prover.reason(found) or "")


def test_a_step_that_small_rows_alone_would_notice() -> None:
    prover = preset_prover("outlier4-top4")
    changes = {c.name: c for c in small_changes(prover.probe.datapath)}
    assert "small rows alone" in (prover.reason(changes["step_stage.const_6: 0 becomes -1"]) or "")
    assert prover.reason(changes["step_stage.const_6: 0 becomes 1"]) is None
    # Were the factor another one in between, a row could notice.
    edges = prover.edges()
    assert edges is not None and prover.rows.own.guard is not None
    between = np.sort(np.append(edges, prover.rows.own.eps[0] + (2000 << prover.rows.own.guard)))
    change = changes["step_stage.const_6: 0 becomes -1"]
    assert not small_rows.is_unnoticed(prover.reach, prover.rows.own, between, change)
