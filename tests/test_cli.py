"""The command line: what each command prints and writes, and what bad input gets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from rich.console import Console

from approxnorm import RMSNorm, RMSNormSpec, load_spec, preset, preset_names
from approxnorm.calibrate import calibrate_array
from approxnorm.cli import main, output, rsqrt
from approxnorm.cli.output import integer, number
from approxnorm.conformance import backends as conformance_backends
from approxnorm.inputs import default_activations
from approxnorm.metrics import ERROR_KEYS, LayerErrors
from approxnorm.spec.schema import json_schema
from approxnorm.vectors import read_vectors

ROOT = Path(__file__).resolve().parent.parent
DIM = 24
SPEC: dict[str, Any] = {
    "norm": "rmsnorm",
    "dim": DIM,
    "eps": 1e-5,
    "x": "ap_fixed<12,6>",
    "gamma": "ap_fixed<8,2>",
    "y": "ap_fixed<8,4,RND_CONV,SAT>",
    "statistic": {"method": "full"},
    "rsqrt": {"method": "linear", "segments": 4, "bits": 9},
    "normalize": {"method": "multiply"},
}


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: object) -> Result:
        status = main([str(a) for a in arguments])
        return Result(status, *capsys.readouterr())

    return run


@pytest.fixture
def data() -> dict[str, np.ndarray]:
    """x (2, 3, DIM) with an outlier channel and a row of zeros, and gamma."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((2, 3, DIM)).astype(np.float32)
    x[..., 5] *= 12
    x[1, 1] = 0
    gamma = (1 + 0.2 * rng.standard_normal(DIM)).astype(np.float32)
    return {"x": x, "gamma": gamma}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, np.ndarray]) -> Path:
    """The current folder, with a spec, arrays and activations of two layers."""
    monkeypatch.chdir(tmp_path)
    write_spec("spec.json")
    x, gamma = data["x"], data["gamma"]
    np.save("X.npy", x)
    np.save("G.npy", gamma)
    np.save("C.npy", RMSNorm(RMSNormSpec(**SPEC), gamma).quantize(x))
    eps = np.float32(1e-5)
    layers = {"a.x": x, "a.gamma": gamma, "a.eps": eps, "b.x": 3 * x, "b.gamma": gamma / 2}
    np.savez("acts.npz", **layers)
    return tmp_path


def write_spec(name: str, **changes: Any) -> None:
    Path(name).write_text(json.dumps(SPEC | changes), "utf-8")


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# --- presets, show, rsqrt, schema


def test_presets_are_all_listed(cli: Cli) -> None:
    printed = cli("presets")
    assert [e["name"] for e in cli("presets", "--json").json] == preset_names()
    assert printed.status == 0
    first_words = [line.split()[0] for line in printed.out.splitlines() if line.strip()]
    assert set(preset_names()) <= set(first_words)


@pytest.mark.parametrize("name", preset_names())
def test_show_of_each_preset(cli: Cli, name: str) -> None:
    shown = cli("show", name, "--dim", 100, "--json").json
    assert shown["scales"] == "nominal"
    assert shown["digest"] is None
    assert shown["dim"] == 100 == shown["spec"]["dim"]
    assert {s["name"] for s in shown["signals"]} >= {"x", "y"}
    for s in shown["signals"]:
        lo, hi = s["lo"], s["hi"]
        bits = max(hi.bit_length(), (~lo).bit_length() + 1 if lo < 0 else 1)
        assert s["width"] == (max(bits, hi.bit_length() + 1) if lo < 0 else bits)


def test_show_a_closed_spec(cli: Cli, folder: Path, data: dict[str, np.ndarray]) -> None:
    model = RMSNorm(RMSNormSpec(**SPEC), data["gamma"])
    bare = cli("show", "spec.json", "--json").json
    full = cli("show", "spec.json", "--gamma", "G.npy", "--json").json
    assert (bare["scales"], bare["notes"]) == ("spec", [])
    assert bare["digest"] == model.assembly.digest()
    assert full["digest"] == model.digest
    assert full["spec"] == model.spec.to_dict()
    assert (bare["bound"], full["bound"]["lsb"] > 0.5) == (None, True)
    ports = model.assembly.require_datapath().signals()
    assert [(s["name"], s["width"]) for s in full["signals"]] == [
        (p.name, p.interval.width) for p in ports
    ]
    printed = cli("show", "spec.json", "--gamma", "G.npy").out
    assert model.digest in printed
    assert all(f"\n{p.name} " in printed for p in ports)


def test_show_prints_each_tables_bound_and_origin(cli: Cli) -> None:
    for name in ("outlier4-16bit", "int8-log"):
        tables = cli("show", name, "--json").json["tables"]
        lines = cli("show", name).out.splitlines()
        assert len(tables) > 1
        for table in tables:
            said = [table[key] for key in ("bound", "origin") if table[key]]
            at = lines.index(f" {table['name']}: {said[0]}")
            assert lines[at + 1 : at + len(said)] == [f"    {text}" for text in said[1:]]


def test_show_calibrates_on_input(cli: Cli, folder: Path, data: dict[str, np.ndarray]) -> None:
    calibrated = calibrate_array(preset("int8-linear"), 3 * data["x"], data["gamma"] / 2)
    shown = cli("show", "int8-linear", "--input", "acts.npz", "--layer", "b", "--json").json
    assert shown["scales"] == "input"
    assert shown["notes"] == calibrated.notes
    assert shown["digest"] == RMSNorm(calibrated.spec, data["gamma"] / 2).digest
    Path("again.json").write_text(json.dumps(shown["spec"]), "utf-8")
    again = cli("show", "again.json", "--gamma", "G.npy", "--json").json
    assert again["spec"] == shown["spec"]


def test_show_the_exact_yardstick(cli: Cli, folder: Path) -> None:
    constant = {"method": "multiply", "constant": "multiplier"}
    write_spec("exact.json", rsqrt={"method": "exact"}, normalize=constant)
    shown = cli("show", "exact.json", "--json").json
    assert (shown["signals"], shown["tables"], shown["rsqrt"]) == ([], [], None)
    assert "no hardware" in cli("show", "exact.json").out


@pytest.mark.parametrize(
    "words", ["linear segments=8 bits=11", "direct index_bits=5 bits=12", "bipartite split=3,3,3"]
)
def test_rsqrt_gives_what_the_method_measures(cli: Cli, words: str) -> None:
    found = cli("rsqrt", *words.split(), "--json").json
    method = rsqrt.parse_method(words.split()[0], words.split()[1:])
    error = method.error()
    assert found["max_rel"] == error.max_error
    assert found["mean_rel"] == error.mean_error
    assert found["argmax"] == error.worst_argument
    assert found["table_bits"] == method.table_bits() == sum(t["bits"] for t in found["tables"])
    assert f"{error.max_error:.4e}" in cli("rsqrt", *words.split()).out


def test_rsqrt_reads_each_kind_of_field() -> None:
    nested = rsqrt.parse_method("multipartite", ["offsets=[[3,2],[2,3]]", "rounding=TRN"])
    assert nested.model_dump()["offsets"] == ((3, 2), (2, 3))
    assert str(nested.rounding) == "TRN"
    assert rsqrt.parse_method("newton", ["recenter=false"]).model_dump()["recenter"] is False


@pytest.mark.parametrize("name", ["reciprocal", "log2", "exp2"])
def test_rsqrt_of_other_functions(cli: Cli, name: str) -> None:
    found = cli("rsqrt", "linear", "--function", name, "--json").json
    kind = "abs" if name == "log2" else "rel"
    assert found["function"] == name
    assert 0 < found[f"max_{kind}"] < 1e-2


def test_rsqrt_lists_methods_whose_defaults_it_takes(cli: Cli) -> None:
    for entry in cli("rsqrt", "--list", "--json").json:
        given = [f"{k}={v}" for k, v in entry["fields"].items() if v is not None]
        if entry["method"] not in ("file", "exact"):
            assert rsqrt.parse_method(entry["method"], given).method == entry["method"]
    assert "\nlinear\n" in cli("rsqrt", "--list").out


def test_schema(cli: Cli) -> None:
    assert cli("schema").json == json_schema()


# --- apply


def test_apply_codes(cli: Cli, folder: Path, data: dict[str, np.ndarray]) -> None:
    model = RMSNorm(RMSNormSpec(**SPEC), data["gamma"])
    done = cli("apply", "spec.json", "--input", "C.npy", "--gamma", "G.npy", "--out", "Y.npy")
    y = np.load("Y.npy")
    assert done.status == 0
    assert y.dtype == np.int8
    np.testing.assert_array_equal(y, model(np.load("C.npy")))
    assert not y[1, 1].any()  # a row of zeros


def test_apply_quantises_floats(cli: Cli, folder: Path, data: dict[str, np.ndarray]) -> None:
    np.save("GC.npy", RMSNorm(RMSNormSpec(**SPEC), data["gamma"]).gamma)  # codes of gamma
    for x, gamma in (("X.npy", "G.npy"), ("C.npy", "GC.npy"), ("X.npy", "GC.npy")):
        assert cli(
            "apply", "spec.json", "--input", x, "--gamma", gamma, "--out", f"{x}-{gamma}"
        ).out
    codes = [np.load(p) for p in ("X.npy-G.npy", "C.npy-GC.npy", "X.npy-GC.npy")]
    np.testing.assert_array_equal(codes[0], codes[1])
    np.testing.assert_array_equal(codes[0], codes[2])


def test_apply_calibrates_open_scales(cli: Cli, folder: Path, data: dict[str, np.ndarray]) -> None:
    arguments = ("--input", "X.npy", "--gamma", "G.npy", "--out", "Y.npy")
    done = cli("apply", "int8-lowbit4", *arguments, "--json").json
    calibrated = calibrate_array(preset("int8-lowbit4"), data["x"], data["gamma"])
    model = RMSNorm(calibrated.spec, data["gamma"])
    assert (done["notes"], done["digest"]) == (calibrated.notes, model.digest)
    np.testing.assert_array_equal(np.load("Y.npy"), model(model.quantize(data["x"])))


@pytest.mark.parametrize("shape", [(DIM,), (0, DIM), (2, 0, 3, DIM), (6, DIM)])
def test_apply_keeps_any_leading_shape(cli: Cli, folder: Path, shape: tuple[int, ...]) -> None:
    x = np.resize(np.load("X.npy"), shape).astype(np.float32)
    np.save("some.npy", x)
    arguments = ("--input", "some.npy", "--gamma", "G.npy", "--out", "Y.npy", "--trace", "t")
    assert cli("apply", "spec.json", *arguments).status == 0
    assert np.load("Y.npy").shape == shape
    assert np.load("t/square.npy").shape == shape
    assert np.load("t/sum.npy").shape == shape[:-1]
    assert np.load("t/gamma.npy").shape == (DIM,)


@pytest.mark.parametrize("changes", [{}, {"row_exponent": {"bits": 6}}], ids=str)
def test_trace_holds_every_signal(
    cli: Cli, folder: Path, data: dict[str, np.ndarray], changes: dict[str, Any]
) -> None:
    write_spec("spec.json", **changes)
    arguments = ("--input", "X.npy", "--gamma", "G.npy", "--out", "Y.npy", "--trace", "t")
    done = cli("apply", "spec.json", *arguments, "--json").json
    model = RMSNorm(RMSNormSpec(**SPEC | changes), data["gamma"])
    _, trace = model(model.quantize(data["x"]), trace=True)
    assert set(done["trace"]["signals"]) == set(trace)
    for name, values in trace.items():
        np.testing.assert_array_equal(np.load(f"t/{name}.npy"), values)
    manifest = json.loads(Path("t/trace.json").read_text("utf-8"))
    levels = {p.name: p.level for p in model.assembly.require_datapath().signals()}
    assert manifest["digest"] == model.digest
    assert {s["name"]: s["level"] for s in manifest["signals"]} == levels


def test_apply_works_in_blocks(cli: Cli, folder: Path, data: dict[str, np.ndarray]) -> None:
    rows = np.resize(data["x"], (100_000, DIM))  # more than one block
    np.save("long.npy", rows)
    arguments = ("--input", "long.npy", "--gamma", "G.npy", "--out", "Y.npy", "--trace", "t")
    assert cli("apply", "spec.json", *arguments).status == 0
    model = RMSNorm(RMSNormSpec(**SPEC), data["gamma"])
    expected, trace = model(model.quantize(rows), trace=True)
    np.testing.assert_array_equal(np.load("Y.npy"), expected)
    np.testing.assert_array_equal(np.load("t/mantissa.npy"), trace["mantissa"])


# --- error, vectors, run


def test_error_gives_the_figures_of_each_layer(
    cli: Cli, folder: Path, data: dict[str, np.ndarray]
) -> None:
    layers = cli("error", "spec.json", "--input", "acts.npz", "--json").json["layers"]
    for layer, x, gamma in (("a", data["x"], data["gamma"]), ("b", 3 * data["x"], None)):
        gamma = data["gamma"] / 2 if gamma is None else gamma
        found = next(one for one in layers if one["name"] == layer)
        spec = RMSNormSpec(**SPEC | {"eps": found["eps"]})
        errors = LayerErrors(RMSNorm(spec, gamma), gamma.astype(np.float64), spec.eps)
        errors.add(x.reshape(-1, DIM))
        assert {k: found[k] for k in errors.result()} == errors.result()
        assert set(found["against_fp32"]) == set(ERROR_KEYS)
    printed = cli("error", "spec.json", "--input", "acts.npz").out
    assert number(layers[0]["against_exact"]["max_abs_lsb"]) in printed
    assert number(layers[1]["against_fp32"]["sqnr_db"]) in printed


def test_error_of_one_layer_with_eps_of_the_file(cli: Cli, folder: Path) -> None:
    x = np.load("X.npy")
    np.savez("eps.npz", **{"a.x": x, "a.eps": np.float32(0.25), "b.x": x})
    found = cli("error", "spec.json", "--input", "eps.npz", "--layer", "a", "--json").json
    (layer,) = found["layers"]
    assert layer["eps"] == 0.25
    assert layer["calibration"] == [
        "gamma: the file has none; ones are used",
        "eps: 0.25 from the file in place of the spec's 1e-05",
    ]
    assert "ones are used" in cli("error", "spec.json", "--input", "eps.npz").out


def test_error_with_gamma_for_a_file_that_has_none(cli: Cli, folder: Path) -> None:
    from_array = cli("error", "spec.json", "--input", "X.npy", "--gamma", "G.npy", "--json").json
    from_layer = cli("error", "spec.json", "--input", "acts.npz", "--layer", "a", "--json").json
    (one,), (other,) = from_array["layers"], from_layer["layers"]
    assert one["against_exact"] == other["against_exact"]
    assert one["calibration"] == []


def test_error_of_codes(cli: Cli, folder: Path, data: dict[str, np.ndarray]) -> None:
    model = RMSNorm(RMSNormSpec(**SPEC), data["gamma"])
    errors = LayerErrors(model, data["gamma"].astype(np.float64))
    errors.add_codes(np.load("C.npy").reshape(-1, DIM))
    arguments = ("--input", "C.npy", "--gamma", "G.npy")
    (layer,) = cli("error", "spec.json", *arguments, "--json").json["layers"]
    assert layer["against_fp32"] is None
    assert layer["against_exact"] == errors.result()["against_exact"]
    assert "fp32" not in cli("error", "spec.json", *arguments).out


def test_vectors_are_those_of_the_model(cli: Cli, folder: Path) -> None:
    arguments = ("--gamma", "G.npy", "--level", 0, "--seed", 3, "--lanes", 5)
    done = cli("vectors", "spec.json", *arguments, "--out", "v", "--json").json
    made = read_vectors("v")
    assert (done["digest"], done["rows"], done["lanes"]) == (made.digest, made.rows, 5)
    assert made.digest == RMSNorm(load_spec("spec.json"), np.load("G.npy")).digest
    assert cli("vectors", "spec.json", *arguments, "--out", "w").status == 0
    for one in sorted(Path("v").iterdir()):
        assert one.read_bytes() == (Path("w") / one.name).read_bytes()


def test_vectors_of_the_users_rows(cli: Cli, folder: Path) -> None:
    arguments = ("--input", "C.npy", "--gamma", "G.npy", "--rows", 4)
    assert cli("vectors", "spec.json", *arguments, "--out", "v").status == 0
    np.testing.assert_array_equal(
        read_vectors("v").array("x"), np.load("C.npy").reshape(-1, DIM)[:4]
    )
    real = ("--input", "acts.npz", "--layer", "b")
    done = cli("vectors", "int8-linear", *real, "--out", "w", "--json").json
    assert done["rows"] == 6
    assert done["notes"][0].startswith("x: max|x| = ")


@pytest.mark.parametrize("name", ["int8-linear", "int8-log", "outlier4-12bit", "published-sole"])
def test_vectors_of_a_preset_without_data_are_nominal(cli: Cli, folder: Path, name: str) -> None:
    arguments = ("vectors", name, "--dim", 40, "--level", 0, "--out")
    made = cli(*arguments, "v", "--json")
    assert made.err == (
        "approxnorm: warning: scales are nominal, not calibrated: give --input for vectors of"
        " your own layer\n"
    )
    shown = cli("show", name, "--dim", 40, "--json").json
    assert made.json["scales"] == "nominal"
    assert made.json["notes"][:-1] == shown["notes"]
    assert "a pattern of +-1/2 to +-3/2" in made.json["notes"][-1]
    magnitude = np.array([0.5 + (648055 * (i + 1) % 2**20) / 2**20 for i in range(40)])
    pattern = np.where(np.arange(40) % 8 == 5, -magnitude, magnitude)
    model = RMSNorm(RMSNormSpec(**shown["spec"]), pattern)
    vectors = read_vectors("v")
    assert vectors.digest == model.digest == made.json["digest"]
    np.testing.assert_array_equal(vectors.array("y"), model(vectors.array("x")))
    assert len(set(vectors.array("gamma").tolist())) > 4
    assert "nominal" in cli(*arguments, "v").err


def test_vectors_with_nominal_scales_and_a_gamma(cli: Cli, folder: Path) -> None:
    arguments = ("--gamma", "G.npy", "--level", 0, "--out", "v")
    made = cli("vectors", "int8-linear", *arguments, "--json")
    assert "nominal" in made.err
    assert not [note for note in made.json["notes"] if "pattern" in note]
    spec = RMSNormSpec(**cli("show", "int8-linear", "--dim", DIM, "--json").json["spec"])
    assert made.json["digest"] == RMSNorm(spec, np.load("G.npy")).digest


def test_vectors_where_the_datapath_adds_one(cli: Cli, folder: Path) -> None:
    scaled = {"bits": 8}
    write_spec("gemma.json", gamma=scaled, normalize={"method": "multiply", "order": "gemma"})
    made = cli("vectors", "gemma.json", "--level", 0, "--out", "v", "--json").json
    assert "less the 1" in made["notes"][-1]
    gamma = read_vectors("v").array("gamma")
    assert gamma.min() < 0 < gamma.max()


ALONE = ("--no-hls", "--no-onnx", "--no-check")  # no C++ is compiled


def test_run_prints_and_writes_the_same(cli: Cli, folder: Path) -> None:
    arguments = ("run", "int8-linear", "--input", "acts.npz", "--level", 0, "--out", "r", *ALONE)
    result = cli(*arguments, "--json")
    report = json.loads(Path("r/report.json").read_text("utf-8"))
    assert result.json == report | {"left_out": []}
    assert [layer["name"] for layer in result.json["layers"]] == ["a", "b"]
    printed = cli(*arguments)  # replaces the former result
    assert printed.status == 0
    assert str(Path("r/report.html")) in printed.out
    assert Path("r/report.html").is_file()
    assert all(note in printed.out for one in result.json["layers"] for note in one["calibration"])


def test_run_on_an_array_with_its_gamma_beside_it(
    cli: Cli, folder: Path, data: dict[str, np.ndarray]
) -> None:
    arguments = ("--input", "X.npy", "--gamma", "G.npy", "--level", 0, *ALONE)
    (layer,) = cli("run", "int8-linear", *arguments, "--out", "r", "--json").json["layers"]
    calibrated = calibrate_array(preset("int8-linear"), data["x"], data["gamma"])
    model = RMSNorm(calibrated.spec, data["gamma"])
    assert (layer["digest"], layer["calibration"]) == (model.digest, calibrated.notes)
    rows = read_vectors("r/X/vectors-input")
    codes = model.quantize(data["x"].reshape(-1, DIM))
    np.testing.assert_array_equal(rows.array("x"), codes)
    np.testing.assert_array_equal(rows.array("y"), model(codes))


def test_run_without_gamma_takes_ones_and_says_so(cli: Cli, folder: Path) -> None:
    arguments = ("run", "int8-linear", "--input", "X.npy", "--level", 0, *ALONE, "--out")
    (layer,) = cli(*arguments, "r", "--json").json["layers"]
    np.save("ones.npy", np.ones(DIM))
    (given,) = cli(*arguments, "s", "--gamma", "ones.npy", "--json").json["layers"]
    assert layer["calibration"] == [
        "gamma: the file has none; ones are used",
        *given["calibration"],
    ]
    assert layer["digest"] == given["digest"]
    assert "ones are used" in cli(*arguments, "r").out


def test_gamma_given_takes_the_place_of_the_files(cli: Cli, folder: Path) -> None:
    np.save("half.npy", np.load("G.npy") / 2)
    arguments = ("run", "int8-linear", "--input", "acts.npz", "--level", 0, *ALONE)
    a, b = cli(*arguments, "--gamma", "half.npy", "--out", "r", "--json").json["layers"]
    note = "gamma: the one given takes the place of the file's"
    assert note in a["calibration"] and note in b["calibration"]


def test_run_takes_the_shipped_activations_if_none_are_given(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def run_job(spec: RMSNormSpec, **given: Any) -> dict[str, Any]:
        seen.update(given, spec=spec)
        return {"layers": []}

    monkeypatch.setattr("approxnorm.run.run_job", run_job)
    assert cli("run", "int8-log", "--out", "r", "--seed", 5, "--json").json["layers"] == []
    assert seen["input_path"] == default_activations()
    assert (seen["spec"], seen["spec_name"]) == (preset("int8-log"), "int8-log")
    assert seen["options"].seed == 5


@pytest.mark.parametrize(
    ("missing", "flags", "made", "backends", "left_out"),
    [
        (None, (), (True, True), "numpy cpp onnx", ""),
        (None, ALONE, (False, False), "", ""),
        ("no g++", (), (False, True), "numpy onnx", "HLS projects (--hls) and the check of cpp"),
        ("no g++", ("--hls", "--no-onnx"), (True, False), "numpy", "the check of cpp"),
        ("no g++", ("--check", "--no-hls"), (False, True), "numpy cpp onnx", ""),
    ],
)
def test_run_writes_and_checks_what_is_possible_here(
    cli: Cli,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str | None,
    flags: tuple[str, ...],
    made: tuple[bool, bool],
    backends: str,
    left_out: str,
) -> None:
    seen = {}

    def run_job(spec: RMSNormSpec, **given: Any) -> dict[str, Any]:
        seen.update(given)
        return {"layers": [], "spec_name": "s", "input": "i"}

    monkeypatch.setattr("approxnorm.run.run_job", run_job)
    monkeypatch.setattr("approxnorm.run.tools.missing_csim", lambda: missing)
    monkeypatch.setattr("approxnorm.cli.layer_tables.print_layers", lambda layers: None)
    result = cli("run", "int8-log", "--out", "r", *flags)
    assert result.status == 0
    assert (seen["options"].hls, seen["options"].onnx) == made
    assert seen["options"].backends == tuple(backends.split())
    told = [line for line in result.out.splitlines() if line.startswith("Left out")]
    assert told == ([f"Left out, by default: {left_out} (--check); no g++"] if left_out else [])
    assert ("HLS project in hls/" in result.out, "norm.onnx" in result.out) == made


def test_run_needs_a_compiler_for_a_check_that_was_asked_for(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    result = cli("run", "int8-linear", "--input", "acts.npz", "--check", "--out", "r")
    assert result.status == 2
    assert result.err.startswith(
        "approxnorm: no C++ compiler: /no/such/compiler is not on the path"
    )
    assert not Path("r").exists()


def test_run_exits_with_1_where_a_backend_differs(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong:
        def __init__(self, model: RMSNorm, lanes: int) -> None:
            self.model = model

        def run(self, codes: np.ndarray) -> np.ndarray:
            y = self.model(codes).astype(int)
            y[1, 2] += 1
            return y

    monkeypatch.setattr(
        conformance_backends, "_open", lambda name, model, lanes: Wrong(model, lanes)
    )
    monkeypatch.setattr(
        "approxnorm.run.conformance.open_codes_file", lambda model, path: Wrong(model, 8)
    )
    arguments = ("run", "int8-linear", "--input", "X.npy", "--level", 0, "--check", "--no-hls")
    result = cli(*arguments, "--out", "r")
    assert result.status == 1
    lines = [line for line in result.out.splitlines() if "MISMATCH" in line]
    assert [line.split(" class=")[0] for line in lines] == [
        "layer X: MISMATCH backend=numpy",
        "layer X: MISMATCH backend=cpp",
        "layer X: MISMATCH backend=onnx",
    ]
    assert all("row=1 lane=2 element=2 signal=y" in line for line in lines)
    found = json.loads(Path("r/report.json").read_text("utf-8"))
    assert found["conformance"]["backends"]["cpp"]["mismatches"] == 1
    assert "Mismatches of each layer" in Path("r/report.html").read_text("utf-8")


NARROWED = {"method": "full", "accumulator": {"bits": 12, "overflow": "SAT"}}


@pytest.mark.parametrize("command", ["error", "run --level 0 --no-hls --no-check --out r"])
def test_an_accumulator_that_overflows_is_told(cli: Cli, folder: Path, command: str) -> None:
    write_spec("spec.json", statistic=NARROWED)
    name, *options = command.split()
    arguments = (name, "spec.json", "--input", "acts.npz", *options)
    made = cli(*arguments, "--json")
    printed = cli(*arguments)
    assert made.err == printed.err
    assert made.err.count("\n") == 2
    for layer in made.json["layers"]:
        found = layer["accumulator"]
        assert found["bits"] == 12 < found["bits_needed"]
        assert 0 < found["overflowed_rows"] <= layer["rows"]
        assert (
            f"approxnorm: warning: layer {layer['name']}: the accumulator of 12 bits overflows in"
            f" {found['overflowed_rows']} of 6 rows; the data need {found['bits_needed']} bits"
        ) in made.err
        cells = [layer["name"], "12", str(found["bits_needed"]), str(found["overflowed_rows"])]
        assert cells in [line.split() for line in printed.out.splitlines()]


def test_no_accumulator_no_table(cli: Cli, folder: Path) -> None:
    result = cli("error", "spec.json", "--input", "acts.npz")
    assert "ccumulator" not in result.out + result.err


@pytest.mark.parametrize("command", ["error", "run --level 0 --no-hls --no-check --out r"])
def test_bounds_say_what_they_are_against(cli: Cli, folder: Path, command: str) -> None:
    name, *options = command.split()
    rest = ("--input", "acts.npz", *options)
    full = cli(name, "int8-linear", *rest).out
    assert "\nProven worst case in LSBs of y\n" in full
    assert (
        "\n For every input, y is at most this far from exact arithmetic on the input codes and"
        " gamma's codes.\n"
    ) in full
    subset = cli(name, "int8-lowbit4", *rest).out
    assert "\nProven worst case in LSBs of y, given the statistic's own value\n" in subset
    assert "it has the statistic's error in it and may be larger.\n" in subset
    for out in (full, subset):
        assert "\nRMS error in LSBs by cause\n" in out


def test_a_missing_bound_gives_its_reason(cli: Cli, folder: Path) -> None:
    write_spec("spec.json", y="ap_fixed<8,1,RND_CONV,WRAP>")
    out = cli("error", "spec.json", "--input", "acts.npz").out
    assert "\n There is no bound: " in out
    assert "this far" not in out


# --- bad input: one line on stderr, status 2, nothing written


def bad_spec(**changes: Any) -> Callable[[], None]:
    return lambda: write_spec("spec.json", **changes)


def bad_x(index: tuple[int, ...], value: float) -> Callable[[], None]:
    def change() -> None:
        x = np.load("X.npy")
        x[index] = value
        np.save("X.npy", x)
        parts = {"good.x": np.ones((2, DIM)), "bad.x": x.reshape(-1, DIM)}
        np.savez("acts.npz", **parts, **{f"{n}.gamma": np.ones(DIM) for n in ("good", "bad")})

    return change


def truncated(name: str) -> Callable[[], None]:
    return lambda: Path(name).write_bytes(Path(name).read_bytes()[:-7])


def foreign(name: str) -> Callable[[], None]:
    return lambda: Path(name).write_bytes(b"PK\x03\x04 this is something else")


def saved(name: str, array: np.ndarray) -> Callable[[], None]:
    return lambda: np.save(name, array)


APPLY = "apply spec.json --input X.npy --gamma G.npy --out Y.npy --trace t"
ERROR = "error spec.json --input acts.npz"
VECTORS = "vectors spec.json --level 0 --out v"
RUN = "run spec.json --input acts.npz --level 0 --no-hls --no-check --out r"
EVERY = [APPLY, ERROR, VECTORS, RUN, "show spec.json"]
LINEAR = SPEC["rsqrt"]
NARROW = {"method": "full", "accumulator": {"bits": 20}}


def bad_c() -> None:
    """A code that x's format does not have, among others."""
    codes = np.load("C.npy")
    codes.reshape(-1, DIM)[3, 7] = 2048
    np.save("C.npy", codes)


SPEC_FAULTS = [
    (bad_spec(colour="red"), ["spec.json", "'colour'"]),
    (bad_spec(rsqrt=LINEAR | {"segmnts": 8}), ["segmnts", "did you mean 'segments'"]),
    (bad_spec(x="ap_fixed<40,8>"), ["spec.json: x", "32"]),
    (bad_spec(y="ap_fixed<8,4>"), ["y must name its rounding"]),
    (bad_spec(dim=0), ["dim is 0"]),
    (bad_spec(eps=-1.0), ["eps is -1.0"]),
    (bad_spec(rsqrt=LINEAR | {"segments": 7}), ["segments is 7", "power of two"]),
    (bad_spec(statistic=NARROW), ["statistic.accumulator.bits is 20", "27 bits"]),
    (bad_spec(x="ap_fixed<32,16>", gamma="ap_fixed<32,2>"), ["63", "lower"]),
    (foreign("spec.json"), ["spec.json", "not valid JSON"]),
]
DATA_FAULTS = [
    (APPLY, saved("G.npy", np.ones(DIM + 1)), ["gamma", str(DIM + 1), str(DIM)]),
    (APPLY, saved("G.npy", np.ones((2, DIM))), ["gamma", f"(2, {DIM})"]),
    (APPLY, saved("G.npy", np.full(DIM, np.nan)), ["G.npy", "NaN"]),
    (APPLY, saved("G.npy", np.full(DIM, 300)), ["gamma", "300", "-128 to 127"]),
    (APPLY, saved("X.npy", np.ones((2, DIM + 1))), ["X.npy", str(DIM + 1), f"dim is {DIM}"]),
    (APPLY, saved("X.npy", np.full((2, DIM), 9999)), ["x", "9999", "-2048 to 2047"]),
    (APPLY, saved("X.npy", np.array(["a"])), ["X.npy", "<U1"]),
    (APPLY, saved("X.npy", np.float32(1)), ["X.npy", "shape ()"]),
    (APPLY, bad_x((1, 0, 3), np.nan), ["X.npy", "NaN", "row 3", "channel 3"]),
    (APPLY, bad_x((1, 2, 0), np.inf), ["X.npy", "infinity", "row 5"]),
    (APPLY, truncated("X.npy"), ["X.npy"]),
    (APPLY, truncated("G.npy"), ["G.npy"]),
    (APPLY, foreign("X.npy"), ["X.npy"]),
    (APPLY.replace("X.npy", "nope.npy"), None, ["nope.npy", "does not exist"]),
    (APPLY.replace("Y.npy", "no/Y.npy"), None, ["no/Y.npy", "cannot be written"]),
    (APPLY.replace("Y.npy", "Y.txt"), None, ["--out", "Y.txt", ".npy"]),
    (APPLY.replace("X.npy", "acts.npz"), None, ["--input", "acts.npz", ".npy"]),
    (APPLY.replace("--trace t", "--trace ."), None, ["--trace", "--input"]),
    (APPLY.replace("spec.json", "int8-linear").replace("X", "C"), None, ["x.scale", "codes"]),
    (APPLY.replace("spec.json", "int8-linear"), saved("G.npy", np.ones(DIM, int)), ["gamma"]),
    (ERROR, bad_x((1, 0, 3), np.nan), ["acts.npz", "bad.x", "NaN", "row 3"]),
    (ERROR, truncated("acts.npz"), ["acts.npz"]),
    (ERROR, foreign("acts.npz"), ["acts.npz"]),
    (ERROR.replace("acts.npz", "spec.json"), None, ["spec.json", ".npz"]),
    (ERROR + " --layer c", None, ["acts.npz", "--layer is 'c'", "a, b"]),
    (ERROR.replace("acts", "wide"), lambda: np.savez("wide.npz", **{"w.x": np.ones((2, 99))}),
     ["wide.npz", "99", f"{DIM}"]),
    (ERROR + " --gamma G.npy", saved("G.npy", np.ones(7)), ["gamma", "(7,)", str(DIM)]),
    ("error int8-log --input X.npy", saved("X.npy", np.ones((0, DIM))), ["X.npy", "no rows"]),
    ("error int8-log --input C.npy", None, ["C.npy", "x.scale", "codes"]),
    (RUN, bad_x((1, 0, 3), np.inf), ["acts.npz", "bad.x", "infinity", "row 3"]),
    (RUN + " --gamma G.npy", saved("G.npy", np.ones(7)), ["gamma", "(7,)", str(DIM)]),
    (RUN + " --gamma G.npy", saved("G.npy", np.ones(DIM, int)), ["gamma", "integers", "real"]),
    (RUN + " --gamma no.npy", None, ["no.npy", "does not exist"]),
    (RUN.replace("acts.npz", "C.npy"), None, ["C.npy", "codes", "real activations"]),
    (RUN.replace("acts.npz", "nope.npz"), None, ["nope.npz", "does not exist"]),
    (RUN.replace("--out r", "--out ."), None, ["current folder"]),
    (VECTORS.replace("--out v", "--out ."), None, ["current folder"]),
    (VECTORS + " --dim 9", None, ["--dim", "9", str(DIM)]),
    (VECTORS + " --input C.npy", bad_c, ["C.npy", "code 2048 at row 3, channel 7;", "-2048"]),
    (VECTORS.replace("vectors", "check").replace("--out v", "--backends numpy --input C.npy"),
     bad_c, ["C.npy: layer C holds the code 2048 at row 3, channel 7; allowed in x's format"]),
    (VECTORS + " --rows 5", None, ["--rows is 5", "--input is not given; give both"]),
    (VECTORS.replace("vectors", "export hls") + " --rows 5", None, ["--rows is 5", "--input"]),
    (VECTORS.replace("spec.json", "int8-log"), None, ["dim", "--dim N", "--input"]),
    (VECTORS + " --input acts.npz", None, ["acts.npz", "--layer", "a, b"]),
    ("show nosuch", None, ["nosuch", "int8-linear"]),
    ("show nosuch.toml", None, ["nosuch.toml", "no such file"]),
    ("show spec.json --dim 9", None, ["--dim", "9", str(DIM)]),
    ("show spec.json --gamma G.npy", saved("G.npy", np.ones(7)), ["gamma", "7", str(DIM)]),
    ("rsqrt nosuch", None, ["rsqrt.method", "'nosuch'", "linear"]),
    ("rsqrt linear segmnts=8", None, ["segmnts", "segments"]),
    ("rsqrt linear bits=many", None, ["bits", "'many'", "integer"]),
    ("rsqrt linear bits", None, ["'bits'", "KEY=VALUE"]),
    ("rsqrt linear bits=9 bits=9", None, ["twice"]),
    ("rsqrt multipartite offsets=[[1,2", None, ["offsets"]),
    ("rsqrt power_of_two --function exp2", None, ["power_of_two", "exp2"]),
    ("rsqrt", None, ["METHOD", "--list"]),
    ("show spec.json --layer a", None, ["--layer", "'a'", "--input"]),
    ("vectors spec.json --out v --layer a", None, ["--layer", "'a'", "--input"]),
]  # fmt: skip


def name_of(parameter: Any) -> str:
    """A test's name that is the same in every process: functions print their address."""
    return "changed" if callable(parameter) else str(parameter)[:50]


def check_refused(cli: Cli, folder: Path, command: str, words: list[str]) -> None:
    before = listing(folder)
    result = cli(*command.split())
    assert result.status == 2
    assert result.out == ""
    assert result.err.startswith("approxnorm: ")
    assert result.err.count("\n") == 1 and result.err.endswith("\n")
    for word in words:
        assert word in result.err
    assert listing(folder) == before
    assert not [p for p in folder.iterdir() if p.is_dir()]


@pytest.mark.parametrize(("change", "words"), SPEC_FAULTS, ids=name_of)
def test_bad_spec(cli: Cli, folder: Path, change: Callable[[], None], words: list[str]) -> None:
    change()
    for command in EVERY:
        check_refused(cli, folder, command, words)


@pytest.mark.parametrize(("command", "change", "words"), DATA_FAULTS, ids=name_of)
def test_bad_data(
    cli: Cli, folder: Path, command: str, change: Callable[[], None] | None, words: list[str]
) -> None:
    if change is not None:
        change()
    check_refused(cli, folder, command, words)
    check_refused(cli, folder, f"{command} --json", words)


@pytest.mark.parametrize("command", [APPLY + "/own", RUN[:-1] + "own", VECTORS[:-1] + "own"])
def test_a_folder_of_the_users_own_is_left_alone(cli: Cli, folder: Path, command: str) -> None:
    own = folder / command.split()[-1]
    own.mkdir(parents=True)
    (own / "notes.txt").write_text("mine")
    before = listing(folder)
    result = cli(*command.split())
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert "not empty" in result.err
    assert listing(folder) == before


def test_a_line_break_in_a_name_does_not_break_the_line(cli: Cli, folder: Path) -> None:
    result = cli("show", "one\ntwo.toml")
    assert result.err == "approxnorm: one two.toml: no such file; give a spec file or a preset\n"


# --- statuses, streams, warnings


COMMANDS = (
    "presets",
    "show",
    "rsqrt",
    "apply",
    "error",
    "vectors",
    "run",
    "schema",
    "check",
    "compare",
)
USAGE_FAULTS = [
    ("nosuch", ["'nosuch'", *COMMANDS]),
    ("show", ["SPEC", "show --help"]),
    ("show x y", ["(y)", "SPEC"]),
    ("show --nosuch", ["--nosuch", "--dim", "--gamma"]),
    ("--nosuch", ["--nosuch", "--version"]),
    ("show int8-log --dim", ["--dim", "argument"]),
    ("show int8-log --dim 0", ["--dim", "found 0", "an integer from 1 on"]),
    ("show int8-log --json=3", ["--json", "value"]),
    ("apply spec.json", ["--input"]),
    ("run int8-log", ["--out", "Where to write"]),
    ("run int8-log --out v --level 3", ["--level", "found 3", "an integer from 0 to 2"]),
    ("vectors x --out v --level 3", ["--level", "found 3", "an integer from 0 to 2"]),
    ("vectors x --out v --lanes 0", ["--lanes", "found 0", "an integer from 1 to 4096"]),
    ("vectors x --out v --lanes many", ["--lanes", "found many", "an integer from 1 to 4096"]),
    ("vectors x --out v --seed -1", ["--seed", "found -1", "an integer from 0 on"]),
    ("vectors x --out v --rows 0", ["--rows", "found 0", "an integer from 1 on"]),
    ("rsqrt linear --function cos", ["--function", "'cos'", "'exp2'"]),
]


@pytest.mark.parametrize(("command", "words"), USAGE_FAULTS, ids=name_of)
def test_bad_usage(cli: Cli, folder: Path, command: str, words: list[str]) -> None:
    check_refused(cli, folder, command, words)


def test_no_arguments_print_the_help(cli: Cli) -> None:
    shown = cli()
    assert "Usage" in shown.out + shown.err
    assert not (shown.out + shown.err).startswith("approxnorm:")


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version") == (0, "approxnorm 0.1.0\n", "")
    shown = cli("--help")
    assert shown.status == 0
    for command in COMMANDS:
        assert f" {command} " in shown.out
        assert cli(command, "--help").status == 0


def test_eps_below_one_unit_is_a_warning(cli: Cli, folder: Path) -> None:
    write_spec("spec.json", eps=1e-12)
    result = cli("error", "spec.json", "--input", "X.npy", "--json")
    assert result.status == 0
    assert result.json["layers"][0]["eps"] == 1e-12
    unit = Fraction(1, 64) ** 2 / DIM  # of the mean square
    assert result.err.startswith("approxnorm: warning: layer X: eps is 1e-12, below one unit")
    assert result.err.count("\n") == 1
    least = float(result.err.split("eps counts from ")[1].split()[0])
    assert least < float(unit)


def test_interrupt_is_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("approxnorm.spec.preset_names", interrupted)
    assert cli("presets").status == 130


def test_a_termination_unwinds(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    unwound = []

    def terminated() -> list[str]:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            unwound.append(True)
        return []

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("approxnorm.spec.preset_names", terminated)
    assert cli("presets").status == 128 + signal.SIGTERM
    assert unwound and signal.getsignal(signal.SIGTERM) is before


def test_closed_streams_are_no_failure() -> None:
    python = f"{sys.executable} -m approxnorm"
    shell = ["sh", "-c", f"{python} presets >&-; echo $?; {python} show nope.toml 2>&-; echo $?"]
    assert subprocess.run(shell, capture_output=True, text=True).stdout == "0\n2\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "X.npy"], "--out is 'X.npy', which is --input too; give another file"),
        (["--out", "G.npy"], "--out is 'G.npy', which is --gamma too; give another file"),
        (["--out", "t/Y.npy", "--trace", "t"], "--out is 't/Y.npy', in the folder of --trace"),
        (["--out", "../Y.npy", "--trace", "."], "--trace is '.', where --input lies"),
    ],
)
def test_apply_keeps_inputs_and_outputs_apart(
    cli: Cli, folder: Path, arguments: list[str], message: str
) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    result = cli("apply", "spec.json", "--input", "X.npy", "--gamma", "G.npy", *arguments)
    assert result.status == 2 and message in result.err
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_an_error_of_the_operating_system_is_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> list[str]:
        raise OSError(28, "No space left on device", "some/file")

    monkeypatch.setattr("approxnorm.spec.preset_names", full)
    assert cli("presets") == (2, "", "approxnorm: some/file: No space left on device\n")


def test_a_bug_keeps_its_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug() -> list[str]:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("approxnorm.spec.preset_names", bug)
    with pytest.raises(ZeroDivisionError):
        main(["presets"])


def spawn(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    code = "import sys; from approxnorm.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize("command", [["schema"], ["show", "int8-log"], ["presets", "--json"]])
def test_a_reader_that_goes_away_is_no_error(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = spawn(*command, stdout=writing)
    os.close(writing)
    _, err = process.communicate()
    assert (process.returncode, err) == (1, b"")


def test_names_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    name = str(tmp_path / "\u03b3.npz")
    np.savez(name, **{"\u03b3.x": np.ones((2, DIM)), "\u03b3.gamma": np.ones(DIM)})
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    process = spawn("error", "int8-log", "--input", name, stdout=subprocess.PIPE, env=environment)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert b"\\u03b3" in out


def test_start_loads_no_heavy_library() -> None:
    code = "import sys, approxnorm.cli.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert done.returncode == 0, done.stderr
    heavy = {"matplotlib", "jinja2", "safetensors", "torch", "numba"}
    heavy |= {"onnx", "onnxruntime", "onnxscript", "onnx_ir", "qonnx"}
    assert not loaded & heavy


# --- layout


def test_piped_tables_are_as_wide_as_they_need(cli: Cli, folder: Path) -> None:
    name = "layers_20_post_attention_layernorm_of_a_model_with_long_names"
    np.savez("long.npz", **{f"{name}.x": np.load("X.npy"), f"{name}.gamma": np.load("G.npy")})
    out = cli("error", "outlier4-16bit", "--input", "long.npz").out
    rows = [line for line in out.splitlines() if line.startswith(f"{name} ")]
    assert len(rows) == 5
    assert max(map(len, rows)) > 80


def test_piped_output_has_no_styles(cli: Cli, folder: Path) -> None:
    for words in ("presets", "show spec.json", "rsqrt linear", "error spec.json --input acts.npz"):
        assert "\x1b" not in cli(*words.split()).out


@pytest.mark.parametrize(
    "words",
    ["presets", "show spec.json", "show outlier4-16bit", "rsqrt --list", "rsqrt bipartite",
     "error spec.json --input long.npz", "error outlier4-16bit --input long.npz"],
)  # fmt: skip
def test_a_terminal_of_80_columns(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """No line is longer, no table is cut, and no word is spread over lines letter by letter."""
    name = "layers_20_post_attention_layernorm"
    np.savez("long.npz", **{f"{name}.x": np.load("X.npy"), f"{name}.gamma": np.load("G.npy")})

    def console() -> Console:
        return Console(
            width=80, force_terminal=True, no_color=True, color_system=None,
            markup=False, highlight=False, emoji=False,
        )  # fmt: skip

    monkeypatch.setattr(output, "stdout_console", console)
    lines = cli(*words.split()).out.splitlines()
    assert len(lines) > 5
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert not any("\u2026" in line for line in lines)
    short = [len(line.strip()) in (1, 2, 3) for line in lines]
    assert not any(one and other for one, other in pairwise(short))
    if "long.npz" in words:
        assert any(line.startswith(name) for line in lines)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-9999999, "-9999999"), (1 << 30, "2^30"), (-(1 << 30), "-2^30"),
     ((1 << 31) - 1, "2^31-1"), (1 - (1 << 31), "-(2^31-1)"), (12345678, "~1.235e+07")],
)  # fmt: skip
def test_integers_in_tables(value: int, text: str) -> None:
    assert integer(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.0, "0"), (7, "7"), (0.12345, "0.123"), (1e-7, "1e-07")]
)
def test_numbers_in_tables(value: float | None, text: str) -> None:
    assert number(value) == text


def test_json_has_no_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"a": [float("inf"), float("nan"), 1.5], "b": ({"c": -float("inf")},)})
    assert json.loads(capsys.readouterr().out) == {"a": [None, None, 1.5], "b": [{"c": None}]}
