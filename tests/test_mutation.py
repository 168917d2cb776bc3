"""Mutants of the emitted kernel: that they are what they say, and that golden vectors kill them."""

import json
from functools import cache

import numpy as np
import pytest

from approxnorm import RMSNorm, preset
from approxnorm.cli.entry import main
from approxnorm.cli.nominal import nominal, nominal_gamma
from approxnorm.hls_ref.emit import Kernel, kernel_files
from approxnorm.hls_ref.mutation import MutationReport, mutate
from approxnorm.hls_ref.mutation.arithmetic import arithmetic_mutants, entry_mutants
from approxnorm.hls_ref.mutation.mutants import Expression, Mutant
from approxnorm.hls_ref.mutation.run import entry_change, run_mutants
from approxnorm.hls_ref.mutation.variants import (
    edited,
    function_of,
    with_expression,
    with_variants,
)
from approxnorm.hls_ref.mutation.wiring import shared_expressions, wiring_mutants
from approxnorm.vectors import plan
from approxnorm.vectors.changes import ASTRAY
from approxnorm.vectors.probe import Probe

SMALL = ("int8-linear", "outlier4-12bit")


def model_of(name: str, dim: int = 37) -> RMSNorm:
    spec, _ = nominal(preset(name).with_dim(dim))
    gamma, _ = nominal_gamma(spec)
    return RMSNorm(spec, gamma)


def kernel_of(model: RMSNorm, lanes: int = 8) -> Kernel:
    datapath = model.assembly.require_datapath()
    return Kernel({"": model}, datapath, model.dim, lanes, wrap=False)


@cache
def report_of(name: str, level: int = 1) -> MutationReport:
    return mutate(model_of(name), level=level)


# --- the mutants ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["outlier4-top4", "int8-log", "published-ibert"])
def test_every_mutant_differs_from_the_kernel_and_has_its_own_name(name: str) -> None:
    kernel = kernel_of(model_of(name))
    files = kernel_files(kernel)
    source = files[f"kernel/{kernel.top}.cpp"]
    mutants = [*arithmetic_mutants(kernel), *wiring_mutants(kernel, source)]
    for mutant in mutants:
        original = function_of(files[mutant.file], mutant.function)
        assert mutant.text != original, mutant.name
    shared = list(shared_expressions(kernel))
    for expression in shared:
        assert expression.before + expression.old in files[expression.file]
    names = [m.name for m in [*mutants, *shared, *entry_mutants(kernel)]]
    assert len(set(names)) == len(names)
    assert len(mutants) + len(shared) > 60


def test_the_mistakes_that_engineers_make_are_all_there() -> None:
    kernel = kernel_of(model_of("outlier4-12bit"))
    source = kernel_files(kernel)[f"kernel/{kernel.top}.cpp"]
    every: list[Mutant | Expression] = [
        *arithmetic_mutants(kernel),
        *wiring_mutants(kernel, source),
        *shared_expressions(kernel),
    ]
    names = "\n".join(m.name for m in every)
    for mistake in (
        "normalize.y: rounding TRN",
        "normalize.y: overflow WRAP",
        "normalize.y: upper limit",
        "address one more",
        "address one less",
        "address rounded",
        "halves of the table swapped",
        "scale.parity: swapped",
        "accumulator of",
        "becomes 0",
        "shifted the other way",
        "truncated before gamma",
        "lanes read in the wrong order",
        "partly filled beat left out",
        "first element skipped",
        "last element skipped",
        "buffer_0 of the row before",
        "not cleared for each row",
        "read as unsigned",
        "sign not extended",
    ):
        assert mistake in names, mistake


# --- putting them into one program ------------------------------------------------------------

FILE = """\
static inline int twice(const int &value, const ap_uint<5> &other) {
    return 2 * value;
}

static void fill(hls::stream<ap_uint<8> > &out, int data[4]) {
    data[0] = 1;
}
"""


def test_variants_of_a_function_are_chosen_by_number() -> None:
    other = edited(function_of(FILE, "twice"), "2 * value", "3 * value")
    text = with_variants(FILE, "twice", {7: other})
    assert "static inline int twice_original(const int &value" in text
    assert "static inline int twice_7(const int &value" in text
    assert "case 7: return twice_7(value, other);" in text
    assert "default: return twice_original(value, other);" in text
    text = with_variants(FILE, "fill", {2: function_of(FILE, "fill")})
    assert "case 2: fill_2(out, data);\n        return;" in text


def test_an_expression_is_another_in_one_mutant() -> None:
    text = with_expression("a = b + c;", "a = ", "b + c", "b - c", 5)
    assert text == "a = (approx_mutant == 5 ? (b - c) : (b + c));"


def test_an_edit_that_changes_nothing_is_an_error() -> None:
    with pytest.raises(AssertionError, match="has no 'absent'"):
        edited("text", "absent", "new")
    with pytest.raises(AssertionError, match="has no function"):
        function_of(FILE, "absent")


# --- running them -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_level_1_kills_every_mutant_that_is_not_equivalent(name: str) -> None:
    report = report_of(name)
    assert [f.name for f in report.survived] == []
    assert report.killed + len(report.equivalent) == len(report.fates)
    assert report.killed > 90
    assert report.killed_by_trace >= report.killed
    assert all(f.reason for f in report.equivalent)
    tables = [f for f in report.fates if f.kind == "table"]
    entries = sum(len(t.entries) for t in kernel_of(model_of(name)).datapath.tables())
    assert len(tables) == 2 * entries


def test_a_mutant_in_c_is_wrong_as_often_as_its_model_in_numpy() -> None:
    """What is proven of a change in NumPy is then true of the mutant, wrapped types and all."""
    model = model_of("int8-log")
    kernel, probe = kernel_of(model), Probe(model)
    mutants, entries = list(arithmetic_mutants(kernel)), list(entry_mutants(kernel))
    codes = np.concatenate([c.codes for c in plan(model, 0).classes])
    results = run_mutants(kernel, kernel_files(kernel), mutants, entries, codes)
    changes = [m.change for m in mutants] + [entry_change(probe, e) for e in entries]
    right, compared = probe.y(codes), 0
    for result, change in zip(results, changes, strict=True):
        if change is None:
            continue
        try:
            wrong = np.count_nonzero(change.y(probe, codes) != right)
        except ASTRAY:
            continue
        assert (result.end, result.outputs) == ("ran", wrong), change.name
        compared += 1
    assert compared > 400


def test_fewer_vectors_leave_survivors() -> None:
    weak, strong = report_of(SMALL[0], 0), report_of(SMALL[0], 1)
    assert weak.survived
    assert weak.killed < strong.killed
    assert {f.name for f in weak.equivalent} == {f.name for f in strong.equivalent}


def test_the_report_counts_what_it_lists() -> None:
    report = report_of(SMALL[0])
    data = report.to_dict()
    assert data["mutants"] == data["killed"] + len(data["survived"]) + len(data["equivalent"])
    kinds = list(report.kinds())
    assert [k[0] for k in kinds] == ["arithmetic", "wiring", "table"]
    assert [sum(column) for column in list(zip(*kinds, strict=True))[1:]] == list(report.counts())


def test_the_command_prints_json_and_says_by_its_status_whether_one_survived(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = ["int8-linear", "--dim", "11", "--level", "0", "--lanes", "4"]
    status = main(["mutate", *small, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert status == 1
    assert data["survived"] and all(s["reason"] for s in data["survived"])
    assert {"mutants", "killed", "survived", "equivalent"} <= set(data)


def test_without_a_compiler_it_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["mutate", "int8-linear", "--dim", "11"]) == 2
    assert "no-such-compiler" in capsys.readouterr().err
