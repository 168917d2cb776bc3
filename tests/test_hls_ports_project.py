"""The project of one kernel for several layers: `approxnorm export hls --runtime`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hls_projects import everything, make, model_of

from approxnorm.cli import main
from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref.emit import ports_kernel
from approxnorm.hls_ref.project import Project, write_ports_project, write_project
from approxnorm.hls_ref.project.registers import channel_words
from approxnorm.residual import add_residual
from approxnorm.vectors import read_vectors
from approxnorm.vectors.text import from_hex

LAYERS = {
    "attn": model_of("multiplier"),
    "mlp.1": model_of("multiplier", dim=17, eps=0.5, x="ap_fixed<12,3>"),
}
OWN_ROWS = {n: np.arange(3 * m.dim).reshape(3, m.dim) * 40 - 700 for n, m in LAYERS.items()}
OPTIONS: dict[str, Any] = dict(
    level=0, lanes=5, max_dim=20, x_codes=OWN_ROWS, residual=True, tb_data=True
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Two layers with all that can be asked for, which no test changes."""
    return write_ports_project(LAYERS, tmp_path_factory.mktemp("ports") / "hls", **OPTIONS)


def read_registers(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "registers" / "registers.json").read_text("ascii")))


# --- what is in it -------------------------------------------------------------------------------


def test_listing_has_every_layer(project: Project) -> None:
    listing = json.loads((project.folder / "project.json").read_text("ascii"))
    assert listing["runtime"] is True
    assert (listing["dim"], project.dim) == (20, 20)
    assert {n: v["digest"] for n, v in listing["layers"].items()} == {
        n: m.digest for n, m in LAYERS.items()
    }
    found = set(everything(project.folder)) - {"project.json"}
    assert found == set(listing["files"]) == set(project.files)


def test_every_layer_has_vectors_of_its_own(project: Project) -> None:
    assert list(project.layers) == list(LAYERS)
    for name, replayed in project.layers.items():
        assert replayed.vectors.folder == project.folder / "vectors" / name
        assert read_vectors(replayed.vectors.folder).digest == LAYERS[name].digest
        assert replayed.own_vectors is not None
        own = read_vectors(replayed.own_vectors.folder)
        np.testing.assert_array_equal(own.array("x"), OWN_ROWS[name])
        assert own.folder == project.folder / "vectors-input" / name
        rows = (project.folder / "tb_data" / name / "tb_input_codes.dat").read_text("ascii")
        assert rows.split() == [str(code) for code in OWN_ROWS[name].reshape(-1)]


def test_addends_of_every_layer_have_its_x_as_their_sum(project: Project) -> None:
    for name, model in LAYERS.items():
        for path in ("vectors", "vectors-input"):
            used = read_vectors(project.folder / path / name)
            x = used.signal("x")
            folder = project.folder / "residual" / path / name
            a, b = (
                from_hex((folder / f"{n}.hex").read_bytes(), x.width, x.signed, n).reshape(
                    -1, model.dim
                )
                for n in "ab"
            )
            np.testing.assert_array_equal(add_residual(model, a, b), used.array("x"))


def test_same_arguments_same_bytes(project: Project, tmp_path: Path) -> None:
    write_ports_project(LAYERS, tmp_path / "other", **OPTIONS)
    assert everything(tmp_path / "other") == everything(project.folder)


def test_registers_have_the_values_of_each_layer(project: Project) -> None:
    data = read_registers(project.folder)
    assert [layer["name"] for layer in data["layers"]] == list(LAYERS)
    spans = {r["name"]: range(r["lowest"], r["highest"] + 1) for r in data["registers"]}
    for layer, model in zip(data["layers"], LAYERS.values(), strict=True):
        values = layer["registers"]
        assert layer["digest"] == model.digest
        assert list(values) == list(spans)
        assert all(values[name] in span for name, span in spans.items())
        settings = model.assembly.require_datapath().settings
        lengths = {"row_length": model.dim, "sum_stop": model.dim}
        assert values == {name: {**settings, **lengths}[name] for name in spans}
        assert layer["words"] == -(-model.dim // 5)
    of_eps = [layer["registers"]["eps"] for layer in data["layers"]]
    assert of_eps[0] != of_eps[1]


@pytest.mark.parametrize("variant", ["multiplier", "log_gamma", "channel_shifts"])
def test_words_hold_each_channels_numbers(variant: str) -> None:
    constant = dict(normalize=dict(method="multiply", constant="gamma"))
    model = model_of(variant, **(constant if variant == "channel_shifts" else {}))
    kernel = ports_kernel({"layer": model}, 5)
    (words, channels) = (channel_words(kernel, "layer"), kernel.channels)
    width = sum(p.interval.width for p in channels)
    _, trace = model(np.zeros((0, 12), np.int64), trace=True)
    low = 0
    for port in channels:
        size = port.interval.width
        codes = []
        for index in range(15):
            bits = words[index // 5] >> (index % 5 * width + low) & ((1 << size) - 1)
            sign = port.interval.signed and bits >> (size - 1)
            codes.append(bits - (1 << size) if sign else bits)
        np.testing.assert_array_equal(codes[:12], trace[port.name])
        assert codes[12:] == [0, 0, 0]
        low += size
    assert max(words) < 1 << (5 * width)
    assert len(channels) == {"multiplier": 1, "log_gamma": 3, "channel_shifts": 2}[variant]


def test_readme_says_what_to_load(project: Project) -> None:
    text = (project.folder / "README.md").read_text("utf-8")
    for name in ("README.md", "Makefile", "run_hls.tcl"):
        filled = (project.folder / name).read_text("utf-8")
        assert not re.search(r"@[a-z_]+@", filled), name
    data = read_registers(project.folder)
    for r in data["registers"]:
        assert f"| `registers.{r['name']}` | AXI4-Lite | {r['width']} | `{r['type']}`," in text
    for layer in data["layers"]:
        values = " | ".join(map(str, layer["registers"].values()))
        assert f"| {layer['name']} | {values} |" in text
        assert layer["digest"] in text
    assert "| `gamma` | [7 : 0] | `ap_int<8>` |" in text
    assert "have 32 bits however long the longest row is" in text
    assert "bits 31 to 0 are in the first" in text
    header = (project.folder / "registers" / "layers.h").read_text("ascii")
    assert "the low 32 bits of its int64_t" in header
    assert "ceil(row_length / lanes), beats of a row; of the longest, ceil(20 / 5) = 4" in text
    assert "sum over p of (B + D[p] + R[p]) = 2 * B + sum of D and R" in text
    assert "= B + the load loop's depth" in text
    for name in ("x_in", "residual_in", "sum_out", "y_out", "channels_in"):
        assert f"| `{name}` | AXI4-Stream" in text


# --- it runs -------------------------------------------------------------------------------------


def test_make_replays_every_layer(project: Project, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(project.folder, tmp_path / "moved"))
    done = make(folder, "sanitize", "CXXFLAGS=-O0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    replayed = re.findall(r"^PASS.* vectors=(\S+)$", done.stdout, re.M)
    assert replayed == [f"{path}/{n}" for path in ("vectors", "vectors-input") for n in LAYERS]


DRIVER = r"""
#include <cstdio>
#include "approx_rmsnorm.hpp"
#include "layers.h"
using namespace approx_rmsnorm_kernel;

static void call(const registers_t &registers, hls::stream<channel_word_t> &channels, bool load,
                 int rows) {
    hls::stream<x_beat_t> x("x");
    hls::stream<y_beat_t> y("y");
    const int dim = registers.row_length.to_int(), beats = (dim + LANES - 1) / LANES;
    for (int row = 0; row < rows; row++)
        for (int beat = 0; beat < beats; beat++) {
            x_beat_t word = 0;
            for (int lane = 0; lane < LANES && beat * LANES + lane < dim; lane++) {
                int code = 0;
                if (std::scanf("%d", &code) != 1) std::abort();
                word.range((lane + 1) * x_t::width - 1, lane * x_t::width) =
                    x_t(code).range(x_t::width - 1, 0);
            }
            x.write(word);
        }
    approx_rmsnorm(x, y, registers, channels, load, rows);
    for (int i = 0; i < rows * beats; i++) {
        const y_beat_t word = y.read();
        for (int lane = 0; lane < LANES && i % beats * LANES + lane < dim; lane++) {
            y_t code;
            code.range(y_t::width - 1, 0) =
                word.range((lane + 1) * y_t::width - 1, lane * y_t::width);
            std::printf("%d\n", code.to_int());
        }
    }
}

// Each layer of the input: loaded by a call of no rows, then two calls that load nothing.
int main() {
    int number = 0, rows = 0;
    while (std::scanf("%d %d", &number, &rows) == 2) {
        const approx_layer &layer = approx_layers[number];
        const registers_t registers = {MEMBERS};
        hls::stream<channel_word_t> channels("channels");
        for (unsigned i = 0; i < layer.words; i++) {
            ap_uint<8 * APPROX_WORD_BYTES> word = 0;
            for (int byte = APPROX_WORD_BYTES - 1; byte >= 0; byte--)
                word = (word << 8) | layer.channels[i * APPROX_WORD_BYTES + byte];
            channels.write(word);
        }
        call(registers, channels, true, 0);
        if (!channels.empty()) std::abort();
        call(registers, channels, false, 1);
        call(registers, channels, false, rows - 1);
    }
    return 0;
}
"""


def test_layers_are_switched_as_the_readme_says(tmp_path: Path) -> None:
    models = {"a": model_of("log_gamma"), "b": model_of("log_gamma", dim=17, eps=0.5)}
    folder = write_ports_project(models, tmp_path / "hls", level=0, lanes=5).folder
    members = [f"layer.registers.{r['name']}" for r in read_registers(folder)["registers"]]
    (tmp_path / "driver.cpp").write_text(DRIVER.replace("MEMBERS", ", ".join(members)), "ascii")
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    layers = ["gcc", *strict, "-c", "hls/registers/layers.c", "-o", "layers.o"]
    subprocess.run(layers, cwd=tmp_path, check=True)
    includes = ["-Ihls/kernel", "-Ihls/registers", "-isystem", "hls/csim"]
    sources = ["driver.cpp", "hls/kernel/approx_rmsnorm.cpp", "layers.o"]
    build = ["g++", *includes, "-isystem", "hls/csim/ap_types", "-o", "driver", *sources]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    given, expected = [], []
    for number, name in ((0, "a"), (1, "b"), (0, "a")):
        used = read_vectors(folder / "vectors" / name)
        given += [number, used.rows, *used.array("x").reshape(-1).tolist()]
        expected += used.array("y").reshape(-1).tolist()
    text = " ".join(map(str, given))
    done = subprocess.run([tmp_path / "driver"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [int(line) for line in done.stdout.split()] == expected


def test_registers_are_named_after_the_top_function(tmp_path: Path) -> None:
    folder = write_ports_project(LAYERS, tmp_path / "hls", level=0, lanes=5, top="Norm").folder
    assert read_registers(folder)["top"] == "Norm"
    header = (folder / "registers" / "layers.h").read_text("ascii")
    for name in ("Norm_registers", "Norm_layer", "NORM_LAYERS", "NORM_WORD_BYTES", "NORM_LAYERS_H"):
        assert re.search(rf"\b{name}\b", header)
    assert "approx" not in header.lower()
    done = make(folder, "CXXFLAGS=-O0")
    assert (done.returncode, done.stdout.count("PASS: ")) == (0, 2), done.stderr
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    command = ["gcc", *strict, "-c", "registers/layers.c", "-o", "layers.o"]
    subprocess.run(command, cwd=folder, check=True)


# --- what may be replaced, and what is refused ---------------------------------------------------


def test_either_form_replaces_the_other(tmp_path: Path) -> None:
    out = tmp_path / "hls"
    for _ in range(2):
        write_ports_project(LAYERS, out, level=0)
        assert (out / "registers" / "registers.json").is_file()
        write_project(LAYERS["attn"], out, level=0)
        assert not (out / "registers").exists()
        assert json.loads((out / "project.json").read_text("ascii"))["runtime"] is False


def test_edited_registers_are_never_lost(tmp_path: Path) -> None:
    write_ports_project(LAYERS, tmp_path / "hls", level=0)
    (tmp_path / "hls" / "registers" / "layers.c").write_text("work")
    with pytest.raises(ApproxNormError, match=r"registers/layers\.c was edited"):
        write_ports_project(LAYERS, tmp_path / "hls", level=0)


ONE = LAYERS["attn"]


@pytest.mark.parametrize(
    ("models", "arguments", "message"),
    [
        ({}, {}, "models holds no layer"),
        ({"a/b": ONE}, {}, "models has a layer 'a/b', which becomes a folder; allowed: letters"),
        ({"..": ONE}, {}, "models has a layer '..'"),
        ({"": ONE}, {}, "models has a layer ''"),
        ({"-rf": ONE}, {}, "models has a layer '-rf'"),
        (LAYERS, dict(names={"attn": "a"}), "names has the layers 'attn'; allowed: those of"),
        ({"a": ONE, "A": ONE}, {}, "models has a layer 'A'"),
        ({"manifest.json": ONE}, {}, "models has a layer 'manifest.json'"),
        (LAYERS, dict(max_dim=16), "max_dim is 16; allowed: 17 or more, as a layer has it"),
        (LAYERS, dict(max_dim=True), "max_dim is True; allowed: an integer from 1 to 1048576"),
        (LAYERS, dict(max_dim=1 << 21), "max_dim is 2097152; allowed"),
        (
            LAYERS,
            dict(x_codes={"attn": OWN_ROWS["attn"]}),
            "x_codes has the layers 'attn'; allowed: those of models, attn, mlp.1",
        ),
        ({"a": model_of("linear")}, {}, 'normalize.constant is "table"'),
        (
            {"a": ONE, "b": model_of("multiplier", y="ap_fixed<15,5,RND_CONV,SAT>")},
            {},
            "layers a and b differ in what is no run-time port: y.bits;",
        ),
        (LAYERS, dict(top="a b"), "top is 'a b'; allowed: a name in C"),
        (LAYERS, dict(top="row_length"), "top is 'row_length', which C++ or the project's own"),
        (LAYERS, dict(part="a b"), "part is 'a b'"),
        (LAYERS, dict(lanes=0), "lanes is 0; allowed"),
    ],
)
def test_arguments_are_refused_in_a_sentence(
    models: dict[str, Any], arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ApproxNormError, match=re.escape(message)):
        write_ports_project(models, tmp_path / "hls", level=0, **arguments)
    assert list(tmp_path.iterdir()) == []


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def acts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """acts.npz with two layers of different row length, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    arrays = {}
    for name, dim in (("blocks/0 attn", 12), ("norm", 20)):
        arrays[f"{name}.x"] = rng.normal(size=(4, dim)).astype(np.float32)
        arrays[f"{name}.gamma"] = rng.uniform(0.5, 1.5, dim).astype(np.float32)
    np.savez(tmp_path / "acts.npz", **arrays)
    return tmp_path / "acts.npz"


def test_command_writes_a_kernel_for_every_layer(
    acts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "export hls int8-log --runtime -i acts.npz --out hls --level 0 --max-dim 24 --json"
    assert main(command.split()) == 0
    done = json.loads(capsys.readouterr().out)
    listing = json.loads(Path("hls/project.json").read_text("ascii"))
    assert done["digest"] == listing["digest"]
    assert done["files"] == list(listing["files"])
    assert done["max_dim"] == 24
    assert [(d["name"], d["dim"], d["input_rows"]) for d in done["layers"]] == [
        ("blocks_0_attn", 12, 4),
        ("norm", 20, 4),
    ]
    assert all(d["scales"] == "input" for d in done["layers"])
    assert list(listing["layers"]) == ["blocks_0_attn", "norm"]
    assert main(command.removesuffix(" --json").split()) == 0
    printed = capsys.readouterr().out
    assert "kernel  8 lanes, 2 passes over rows of up to 24\n" in printed
    assert "layers  2: blocks_0_attn (blocks/0 attn), norm\n" in printed
    assert "norm: gamma: max|gamma|" in printed


def test_layers_keep_the_names_that_they_have_in_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = {
        "a/b": "a_b",
        "a:b*/|`": "a_b____",
        "A/B": "A_B-2",
        "-rf": "_rf",
        "report.html": "report.html",
        "manifest.json": "manifest.json-2",
        "plain": "plain",
    }
    rows = np.random.default_rng(5).normal(size=(3, 8)).astype(np.float32)
    np.savez("acts.npz", **{f"{name}.x": rows for name in folders})
    command = "export hls int8-log --runtime -i acts.npz --out hls --level 0 --json"
    assert main(command.split()) == 0
    done = json.loads(capsys.readouterr().out)
    assert {d["input_name"]: d["name"] for d in done["layers"]} == folders
    written = read_registers(Path("hls"))["layers"]
    assert {v["input_name"]: v["name"] for v in written} == folders
    listing = json.loads(Path("hls/project.json").read_text("ascii"))["layers"]
    assert {v["input_name"]: name for name, v in listing.items()} == folders
    source = Path("hls/registers/layers.c").read_text("ascii")
    assert '    /* a/b */\n    {"a_b", "' in source
    assert '    /* a:b* /|` */\n    {"a_b____", "' in source
    assert "plain */" not in source
    readme = Path("hls/README.md").read_text("utf-8")
    assert "| layer | name in the input | row |" in readme
    assert "| a_b____ | a:b*/\\|` | 8 |" in readme
    assert "| plain | plain | 8 |" in readme
    assert sorted(p.name for p in Path("hls/vectors").iterdir()) == sorted(folders.values())


def test_command_takes_one_layer_of_the_file(acts: Path) -> None:
    command = "export hls int8-log --runtime -i acts.npz --layer norm --out hls --level 0"
    assert main(command.split()) == 0
    assert sorted(p.name for p in Path("hls/vectors").iterdir()) == ["norm"]


def test_command_without_data_has_one_layer(acts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "export hls int8-log --runtime --dim 12 --out hls --level 0 --json"
    assert main(command.split()) == 0
    (layer,) = json.loads(capsys.readouterr().out)["layers"]
    assert (layer["name"], layer["scales"]) == ("layer", "nominal")
    assert Path("hls/vectors/layer/manifest.json").is_file()


def test_constant_takes_the_place_of_the_specs(
    acts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "export hls int8-linear --runtime -i acts.npz --out hls --level 0"
    assert main(command.split()) == 2
    said = capsys.readouterr().err
    assert 'normalize.constant is "table", so that each layer would have tables' in said
    assert "add --constant multiplier, or" in said
    assert said.count("\n") == 1
    assert not Path("hls").exists()
    assert main([*command.split(), "--constant", "multiplier"]) == 0
    layers = json.loads(Path("hls/project.json").read_text("ascii"))["layers"]
    assert {v["spec"]["normalize"]["constant"] for v in layers.values()} == {"multiplier"}
    command = "export hls int8-linear --dim 12 --out hls --level 0 --constant gamma"
    assert main(command.split()) == 0
    spec = json.loads(Path("hls/project.json").read_text("ascii"))["spec"]
    assert spec["normalize"]["constant"] == "gamma"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--max-dim 24", "--max-dim is 24, but --runtime is not given; give both"),
        ("--runtime -i acts.npz --max-dim 19", "max_dim is 19; allowed: 20 or more"),
        ("--runtime -i acts.npz --max-dim 0", "found 0; allowed: an integer from 1 on"),
        ("--runtime --layer norm", "--layer is 'norm', but --input is not given"),
        ("--runtime -i acts.npz --layer x", "--layer is 'x'; allowed: blocks/0 attn, norm"),
        ("--constant x --dim 12", "'x' is not one of 'table', 'gamma', 'multiplier'"),
    ],
)
def test_command_refuses_in_a_line(
    options: str, message: str, acts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "hls", "int8-log", "--out", "hls", "--level", "0", *options.split()])
    said = capsys.readouterr().err
    assert message in said
    assert said.strip().count("\n") == 0
    assert not Path("hls").exists()
