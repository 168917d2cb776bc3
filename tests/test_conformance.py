"""Backends against the model: what is counted, what is told, and what is an error."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from norm_specs import BASE

from approxnorm import ApproxNormError, RMSNorm, RMSNormSpec
from approxnorm.cli import main
from approxnorm.conformance import CheckResult, check, check_classes, open_backends
from approxnorm.conformance.backends import BACKENDS
from approxnorm.conformance.rows import random_rows, regrouped
from approxnorm.hls_ref.emit import emit_kernel
from approxnorm.vectors import VectorClass, generate

DIM = 12
ROWS = 30

pytestmark = pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")


@pytest.fixture(scope="module")
def model() -> RMSNorm:
    return RMSNorm(RMSNormSpec(**BASE), np.linspace(0.5, 1.5, DIM))


class Faithful:
    """The model itself, with what a subclass changes."""

    def __init__(self, model: RMSNorm, lanes: int) -> None:
        self.model, self.lanes = model, lanes

    def run(self, codes: np.ndarray) -> Any:
        return self.model(codes).astype(np.int64)


class Tracing(Faithful):
    def trace(self, codes: np.ndarray) -> dict[str, Any]:
        return dict(self.model(codes, trace=True)[1])


class WrongY(Faithful):
    """The last element of every row that starts with its largest code is one too large."""

    def run(self, codes: np.ndarray) -> Any:
        y = super().run(codes)
        y[codes[:, 0] == 2047, -1] += 1
        return y


class WrongMantissa(Tracing):
    """The root is one LSB too large; y is what follows from it."""

    def run(self, codes: np.ndarray) -> Any:
        return self.trace(codes)["y"]

    def trace(self, codes: np.ndarray) -> dict[str, Any]:
        found = super().trace(codes)
        odd = np.asarray(codes[:, 0] == -2048)
        found["mantissa"] = found["mantissa"] + odd
        found["y"] = found["y"] + odd[:, None]
        return found


class WrongInside(Tracing):
    """A signal is wrong that y does not show."""

    def trace(self, codes: np.ndarray) -> dict[str, Any]:
        found = super().trace(codes)
        found["sum"] = found["sum"] ^ 1
        return found


class Stale(Tracing):
    """Each row's y is the row's before it."""

    def run(self, codes: np.ndarray) -> Any:
        return self.trace(codes)["y"]

    def trace(self, codes: np.ndarray) -> dict[str, Any]:
        found = super().trace(codes)
        found["y"] = np.roll(found["y"], 1, axis=0)
        return found


class Flat(Faithful):
    def run(self, codes: np.ndarray) -> Any:
        return super().run(codes).reshape(-1)


class Floats(Faithful):
    def run(self, codes: np.ndarray) -> Any:
        return super().run(codes).astype(float)


class Nothing(Faithful):
    def run(self, codes: np.ndarray) -> Any:
        return None


class NoCompiler:
    def __init__(self, model: RMSNorm, lanes: int) -> None:
        raise ApproxNormError("no C++ compiler was found; install g++")


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes above as backends of their names in lower case."""
    module = sys.modules[__name__]
    assert isinstance(module, ModuleType)
    for fake in (Faithful, Tracing, WrongY, WrongMantissa, WrongInside, Stale, Flat, Floats):
        monkeypatch.setitem(BACKENDS, fake.__name__.lower(), f"{__name__}:{fake.__name__}")
    for other in (Nothing, NoCompiler):
        monkeypatch.setitem(BACKENDS, other.__name__.lower(), f"{__name__}:{other.__name__}")
    monkeypatch.setitem(BACKENDS, "absent", "approxnorm_absent.module:Class")


def run(model: RMSNorm, *names: str, **options: Any) -> CheckResult:
    return check(model, names, rows=ROWS, level=0, **options)


def test_equal_backends_are_equal_on_every_code(model: RMSNorm) -> None:
    result = run(model, "numpy", "faithful", "tracing")
    golden = sum(len(c.codes) for c in generate(model, 0))
    assert result.equal and result.lines() == []
    assert list(result.backends) == ["numpy", "faithful", "tracing"]
    for found in result.backends.values():
        assert (found.rows, found.codes) == (golden + ROWS, (golden + ROWS) * DIM)
        assert found.mismatches == 0
    assert result.digest == model.digest


def test_rows_are_the_vectors_and_random_ones_of_every_distribution(model: RMSNorm) -> None:
    names = [c.name for c in run(model, "numpy").classes]
    golden = [c.name for c in generate(model, 0)]
    assert names[: len(golden)] == golden
    kinds = ["uniform", "gaussian", "heavy_tailed", "sparse", "sink", "small"]
    assert names[len(golden) :] == [f"further_random_{kind}" for kind in kinds]
    assert not any(c.name.startswith("further") for c in check(model, ["numpy"], rows=0).classes)


def test_a_wrong_y_is_counted_and_told(model: RMSNorm) -> None:
    result = run(model, "wrongy")
    found = result.backends["wrongy"]
    x = np.concatenate([c.codes for c in generate(model, 0)])
    at = int(np.flatnonzero(x[:, 0] == 2047)[0])
    assert found.first is not None
    assert (found.first.row, found.first.element, found.first.lane) == (at, DIM - 1, 3)
    want = int(model(x[at])[-1])
    name = next(c.name for c in result.classes if c.first <= at < c.first + c.count)
    assert result.lines() == [
        f"MISMATCH backend=wrongy class={name} row={at} lane=3 element=11 signal=y"
        f" got={want + 1} want={want} digest={model.digest}"
    ]
    assert np.count_nonzero(x[:, 0] == 2047) <= found.mismatches <= found.rows


def test_the_first_differing_signal_is_named_if_the_backend_shows_it(model: RMSNorm) -> None:
    found = run(model, "wrongmantissa").backends["wrongmantissa"]
    assert found.first is not None and found.mismatches > 0
    assert (found.first.signal, found.first.element, found.first.lane) == ("mantissa", None, None)
    assert isinstance(found.first.got, int) and found.first.got == int(found.first.want) + 1
    assert " lane=- element=- signal=mantissa " in found.first.line("backend=b")


def test_what_a_row_leaves_behind_still_shows(model: RMSNorm) -> None:
    codes = np.arange(3 * DIM).reshape(3, DIM) ** 2
    result = check_classes(model, open_backends(["stale"], model), [VectorClass("mine", codes)])
    first = result.backends["stale"].first
    assert first is not None and (first.signal, first.class_name) == ("y", "mine")
    assert first.got != first.want


def test_signals_that_y_does_not_show_are_compared_on_request(model: RMSNorm) -> None:
    assert run(model, "wronginside").equal
    found = run(model, "wronginside", signals=True).backends["wronginside"]
    assert (found.mismatches, found.signal_mismatches) == (0, found.rows)
    assert found.first is not None
    assert (found.first.signal, found.first.row) == ("sum", 0)
    equal = run(model, "tracing", "faithful", signals=True)
    assert equal.equal
    levels = [p.level for p in model.assembly.require_datapath().signals()]
    words = levels.count("element") * DIM + levels.count("row")
    assert equal.backends["tracing"].signal_codes == words * equal.backends["tracing"].rows
    assert equal.backends["faithful"].signal_codes is None


@pytest.mark.parametrize(
    ("name", "got"),
    [("flat", "shape("), ("floats", "dtype(float64)"), ("nothing", "type(NoneType)")],
)
def test_what_is_no_answer_is_a_mismatch_of_every_code(model: RMSNorm, name: str, got: str) -> None:
    result = run(model, name)
    found = result.backends[name]
    assert found.mismatches == found.codes > 0
    assert f"row=0 lane=0 element=0 signal=y got={got}" in result.lines()[0]


def test_blocks_count_rows_from_the_first(model: RMSNorm, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(model, "wrongmantissa", "wronginside", signals=True)
    module = sys.modules["approxnorm.conformance.check"]  # the function has the same name
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 7 * DIM)
    assert run(model, "wrongmantissa", "wronginside", signals=True) == whole


def test_pieces_are_regrouped_in_order() -> None:
    rows = np.arange(46).reshape(23, 2)
    for cuts in ([], [0, 23], [1, 2, 3], [4], [5, 5, 9], [21, 22]):
        for size in (1, 4, 5, 23, 50):
            made = list(regrouped(np.split(rows, cuts), size))
            assert [len(block) for block in made[:-1]] == [size] * (len(made) - 1)
            assert 0 < len(made[-1]) <= size
            np.testing.assert_array_equal(np.concatenate(made), rows)
    assert list(regrouped([rows[:0]], 3)) == []


def test_many_rows_are_made_block_by_block(model: RMSNorm, monkeypatch: pytest.MonkeyPatch) -> None:
    (first, *others) = random_rows(model, 0, 10**30)  # no memory holds them
    assert first.count > 10**29 and len(others) == 5
    block = next(first.blocks())
    again, second = itertools.islice(first.blocks(), 2)
    np.testing.assert_array_equal(block, again)
    assert block.shape == second.shape and (block != second).any()
    monkeypatch.setattr("approxnorm.conformance.rows._BLOCK_ELEMENTS", 7 * DIM)
    largest = []

    class Counting(Faithful):
        def run(self, codes: np.ndarray) -> Any:
            largest.append(len(codes))
            return super().run(codes)

    monkeypatch.setitem(BACKENDS, "counting", f"{__name__}:Counting")
    monkeypatch.setattr(sys.modules[__name__], "Counting", Counting, raising=False)
    module = sys.modules["approxnorm.conformance.check"]  # the function has the same name
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 50 * DIM)
    told: list[tuple[str, float]] = []
    result = check(
        model, ["numpy", "counting"], rows=1000, level=0, progress=lambda *t: told.append(t)
    )
    assert result.equal and result.backends["counting"].rows == sum(largest) > 1000
    assert max(largest) == 50
    assert [name for name, _ in told[2:6]] == ["numpy", "counting"] * 2
    fractions = [fraction for _, fraction in told]
    assert fractions == sorted(fractions) and 0.9 < fractions[-1] < 1


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["numpy", "verilog"], "backends names 'verilog'; allowed: numpy, cpp"),
        (["numpy", "cpp", "numpy"], "backends names numpy twice; name it once"),
        ([""], "backends names ''; allowed: numpy, cpp"),
        ([], "backends is empty; allowed: one or more of numpy, cpp"),
        (["numpy", "absent"], "backend absent cannot be loaded (No module named"),
        (["nocompiler"], "no C++ compiler was found; install g++"),
    ],
)
def test_a_backend_that_is_unknown_or_missing_is_an_error(
    model: RMSNorm, names: list[str], message: str
) -> None:
    with pytest.raises(ApproxNormError) as caught:
        run(model, *names)
    assert message in str(caught.value)


def test_rows_of_ones_own_are_checked_too(model: RMSNorm) -> None:
    own = np.arange(2 * DIM).reshape(2, DIM)
    result = run(model, "numpy", own=own)
    assert (result.classes[-1].name, result.classes[-1].count) == ("input", 2)
    with pytest.raises(ApproxNormError, match="own holds the code 5023; its format allows"):
        run(model, "numpy", own=own + 5000)
    with pytest.raises(ApproxNormError, match="there are no rows to check"):
        check_classes(model, open_backends(["numpy"], model), [VectorClass("input", own[:0])])


@pytest.mark.parametrize("lanes", [1, 8])
def test_cpp_is_equal_in_y_and_in_every_signal(model: RMSNorm, lanes: int) -> None:
    result = run(model, "cpp", lanes=lanes, signals=True)
    found = result.backends["cpp"]
    assert result.equal and found.codes > 1000
    assert found.signal_codes is not None and found.signal_codes > found.codes


def test_a_wrong_table_of_the_kernel_is_found_and_named(
    model: RMSNorm, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry, *_) = model.assembly.require_datapath().tables()[0].entries

    def wrong(model: RMSNorm, lanes: int) -> dict[str, str]:
        sources = emit_kernel(model, lanes)
        text = sources["kernel/tables.hpp"]
        changed = text.replace(f" {entry},", f" {entry - 8},", 1)
        assert changed != text
        return sources | {"kernel/tables.hpp": changed}

    monkeypatch.setattr("approxnorm.hls_ref.csim.emit_kernel", wrong)
    found = run(model, "cpp").backends["cpp"]
    assert 0 < found.mismatches < found.codes
    assert found.first is not None and found.first.signal == "mantissa"
    assert found.first.element is None


def test_cpp_without_a_compiler_is_an_error(
    model: RMSNorm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(ApproxNormError, match=r"no C\+\+ compiler"):
        run(model, "numpy", "cpp")


def test_a_wrong_ap_types_is_an_error_in_every_command(
    model: RMSNorm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = tmp_path / "s.json"
    spec.write_text(json.dumps(BASE), "utf-8")
    headers = tmp_path / "headers"
    headers.mkdir()
    out = ["--out", str(tmp_path / "out")]
    for folder, name in ((tmp_path / "absent", "ap_int.h"), (headers, "ap_fixed.h")):
        (headers / "ap_int.h").write_text("", "utf-8")
        monkeypatch.setenv("AP_TYPES", str(folder))
        for command in (["check", str(spec)], ["export", "hls", str(spec), *out], ["run", *out]):
            arguments = [*command, str(spec)] if command[0] == "run" else command
            assert main(arguments) == 2
            err = capsys.readouterr().err
            assert f"AP_TYPES is '{folder}', where there is no {name}; set it to" in err
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("AP_TYPES", "")
    assert run(model, "cpp").equal


@pytest.mark.parametrize("command", ["g++ -O0", "env 'LC_ALL=C' g++", " "])
def test_the_compiler_may_have_arguments(
    model: RMSNorm, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("CXX", command)
    assert run(model, "cpp").equal


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/no/such -O0", "no C++ compiler: /no/such is not on the path; install g++"),
        ("g++ '-O0", 'CXX is "g++ \'-O0", where a quote is not closed; allowed: a compiler'),
        ("false -O0", "false refuses the kernel: status 1"),
        ("g++ --no-such-option", "--no-such-option"),
    ],
)
def test_a_compiler_that_cannot_be_used_is_an_error(
    model: RMSNorm, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.setenv("CXX", command)
    with pytest.raises(ApproxNormError) as caught:
        run(model, "cpp")
    assert message in str(caught.value)


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parent.parent / "docs" / "conformance.md").read_text("utf-8")
    defined: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M):
        exec(compile(code, "conformance.md", "exec", dont_inherit=True), defined)
    assert defined["result"].equal
    model, mine = defined["model"], defined["MyBackend"](defined["model"])
    assert check_classes(model, {"mine": mine}, generate(model, 0), signals=True).equal


def test_command_prints_rows_codes_and_mismatches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "s.json"
    spec.write_text(json.dumps(BASE), "utf-8")
    options = ["check", str(spec), "--rows", "6", "--level", "0"]
    assert main([*options, "--backends", "numpy, wrongy"]) == 1
    out = capsys.readouterr().out
    assert "MISMATCH backend=wrongy class=" in out and "NOT EQUAL" in out
    assert main([*options, "--backends", "numpy,tracing", "--signals"]) == 0
    assert "all codes are equal" in capsys.readouterr().out
    assert main([*options, "--backends", "wrongy", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["backends"]["wrongy"].keys() >= {"rows", "codes", "mismatches"}
    assert found["backends"]["wrongy"]["first"]["signal"] == "y"
    x = np.arange(8 * DIM).reshape(8, DIM) ** 2 % 4096 - 2048
    np.save(tmp_path / "own.npy", x)
    own = [*options, "--backends", "numpy,wrongy", "--input", str(tmp_path / "own.npy"), "--json"]
    assert main(own) == 1
    ones = json.loads(capsys.readouterr().out)
    assert ones["classes"][-1] == {"name": "input", "rows": 6}
    assert ones["backends"]["numpy"]["rows"] == found["backends"]["wrongy"]["rows"] + 6
    for backends in ("numpy,", "numpy,numpy", ""):
        assert main([*options, "--backends", backends]) == 2
        assert capsys.readouterr().err.startswith("approxnorm: backends names ")
    assert main([*options, "--backends", "vhdl"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("approxnorm: backends names 'vhdl'; allowed: numpy, cpp")
