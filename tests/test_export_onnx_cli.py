"""`approxnorm export onnx` and `export qonnx`: the files, what is printed, what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx

from approxnorm import RMSNorm, load_spec
from approxnorm.cli import main
from approxnorm.cli.onnx_options import IR_VERSION, OPSET
from approxnorm.export.onnx import DEFAULT_IR, DEFAULT_OPSET
from approxnorm.export.onnx.model import LEADING
from approxnorm.export.onnx.rebuild import model_of_node
from approxnorm.export.onnx.runtimes import cpu_session

DIM = 24
SPEC = """
norm = "rmsnorm"
dim = 24
eps = 1e-3
x = "ap_fixed<8,4>"
gamma = "ap_fixed<6,2>"
y = "ap_fixed<8,4,{},SAT>"
[statistic]
method = "full"
[rsqrt]
method = "linear"
segments = 4
bits = 9
[normalize]
method = "multiply"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(SPEC.format("RND_CONV"), "utf-8")
    Path("rnd.toml").write_text(SPEC.format("RND"), "utf-8")
    np.save("G.npy", np.linspace(0.5, 1.5, DIM))
    rng = np.random.default_rng(0)
    np.savez(
        "acts.npz",
        **{
            "a.x": rng.standard_normal((32, DIM)).astype(np.float32),
            "a.gamma": np.linspace(0.5, 1.5, DIM).astype(np.float32),
            "a.eps": np.float32(1e-6),
            "b.x": rng.standard_normal((32, DIM)).astype(np.float32),
        },
    )
    return tmp_path


def command(text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(text.split())
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def written(text: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a command that works says in JSON."""
    status, out, err = command(f"{text} --json", capsys)
    assert status == 0, err
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def my_model() -> RMSNorm:
    return RMSNorm(load_spec("my.toml"), np.load("G.npy"))


# --- onnx -------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_library() -> None:
    assert (OPSET, IR_VERSION) == (DEFAULT_OPSET, DEFAULT_IR)


def test_codes_in_and_out(capsys: pytest.CaptureFixture[str]) -> None:
    done = written("export onnx my.toml --gamma G.npy --out norm.onnx", capsys)
    made, model = onnx.load("norm.onnx"), my_model()
    axes = [*LEADING, DIM]
    assert done["inputs"] == [{"name": "x", "dtype": "int8", "shape": axes}]
    assert done["outputs"] == [{"name": "y", "dtype": "int8", "shape": axes}]
    assert [p["name"] for p in done["parameters"]] == ["gamma", "rsqrt_c0", "rsqrt_c1"]
    assert done["parameters"][0]["shape"] == [DIM]
    assert done["digest"] == model.digest == model_of_node(made.graph.node[0]).digest
    assert done["op"] == {"domain": "approxnorm.export.ops", "name": "ApproxRMSNorm"}
    assert done["graph_nodes"] == 1
    assert done["body_nodes"] == len(made.functions[0].node)
    tables = model.assembly.require_datapath().tables()
    assert done["table_bits"] == sum(t.summary()["bits"] for t in tables)
    assert (
        (done["opset"], done["ir_version"])
        == (21, 10)
        == (
            made.opset_import[0].version,
            made.ir_version,
        )
    )
    x = np.arange(-DIM, DIM).reshape(2, 1, DIM).astype(np.int8)
    assert (cpu_session("norm.onnx").run(None, {"x": x})[0] == model(x)).all()


def test_floats_in_and_out(capsys: pytest.CaptureFixture[str]) -> None:
    line = "export onnx my.toml --gamma G.npy --form float --leading 2,tokens --out norm.onnx"
    done = written(line, capsys)
    assert done["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, "tokens", DIM]}]
    assert done["graph_nodes"] == 3
    model = my_model()
    x = np.random.default_rng(0).standard_normal((2, 5, DIM)).astype(np.float32)
    (y,) = cpu_session("norm.onnx").run(None, {"x": x})
    assert (y == model.dequantize(model(model.quantize(x))).astype(np.float32)).all()


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    line = "export onnx my.toml --gamma G.npy --form float --opset 17 --ir-version 8 --out n.onnx"
    status, out, err = command(line, capsys)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"digest  {my_model().digest}"
    assert lines[1:3] == [
        "input   x float32 (batch, sequence, 24)",
        "output  y float32 (batch, sequence, 24)",
    ]
    assert lines[3].startswith("node    ApproxRMSNorm of domain approxnorm.export.ops, with a body")
    assert lines[-1] == "wrote   n.onnx: opset 17, IR version 8"


def test_the_layer_is_calibrated(capsys: pytest.CaptureFixture[str]) -> None:
    done = written("export onnx int8-linear --input acts.npz --layer a --out n.onnx", capsys)
    assert done["scales"] == "input"
    assert any("eps" in note for note in done["notes"])
    assert done["inputs"][0]["shape"][-1] == DIM
    made = onnx.load("n.onnx")
    assert model_of_node(made.graph.node[0]).spec.eps == 1e-6


def test_without_data_the_scales_are_nominal(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = command(f"export onnx int8-log --dim {DIM} --out n.onnx", capsys)
    assert status == 0
    assert "scales are nominal, not calibrated" in err


def test_same_arguments_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("onnx", "qonnx"):
        for form in ("codes", "float"):
            files = [Path(f"{kind}-{form}-{i}.onnx") for i in range(2)]
            for file in files:
                written(f"export {kind} my.toml --form {form} --out {file}", capsys)
            assert files[0].read_bytes() == files[1].read_bytes()


# --- qonnx ------------------------------------------------------------------------------------


def test_qonnx_of_codes(capsys: pytest.CaptureFixture[str]) -> None:
    done = written("export qonnx my.toml --gamma G.npy --leading 2,3 --out norm.onnx", capsys)
    assert done["inputs"] == [
        {"name": "x", "dtype": "int8", "shape": [2, 3, DIM], "datatype": "INT8"}
    ]
    assert done["outputs"][0]["datatype"] == "INT8"
    assert [p["datatype"] for p in done["parameters"]] == ["INT6", "UINT10", "INT8"]
    x = np.arange(-72, 72).reshape(2, 3, DIM).astype(np.int8)
    y = execute_onnx(ModelWrapper("norm.onnx"), {"x": x})["y"]
    assert (y == my_model()(x)).all()


def test_qonnx_of_floats(capsys: pytest.CaptureFixture[str]) -> None:
    done = written("export qonnx my.toml --gamma G.npy --form float --out norm.onnx", capsys)
    assert done["inputs"][0] == {
        "name": "x",
        "dtype": "float32",
        "shape": [1, DIM],
        "datatype": "FLOAT32",
    }
    assert done["outputs"][0]["datatype"] == "FIXED<8,4>"
    wrapper = ModelWrapper("norm.onnx")
    assert [n.op_type for n in wrapper.graph.node] == [
        "Div",
        "Quant",
        "Cast",
        "ApproxRMSNorm",
        "Cast",
        "Quant",
        "Mul",
    ]
    x = np.random.default_rng(0).standard_normal((1, DIM)).astype(np.float32)
    model = my_model()
    y = execute_onnx(wrapper, {"x": x})["y"]
    assert (y == model.dequantize(model(model.quantize(x))).astype(np.float32)).all()


def test_qonnx_says_the_datatypes(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = command("export qonnx my.toml --gamma G.npy --form float --out n.onnx", capsys)
    assert status == 0
    assert "input   x float32 (1, 24), FLOAT32" in out.splitlines()
    assert "output  y float32 (1, 24), FIXED<8,4>" in out.splitlines()
    assert "graph   7 nodes, with those that quantise at the edges" in out.splitlines()


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["onnx", "qonnx"])
@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("--out n.bin", "--out is 'n.bin'; it must be a file with the suffix .onnx"),
        ("--out none/n.onnx", "none/n.onnx cannot be written: No such file or directory"),
        ("--out n.onnx --opset 12", "opset is 12; allowed: 13 to"),
        ("--out n.onnx --opset 99", "opset is 99; allowed: 13 to"),
        ("--out n.onnx --ir-version 7", "ir_version is 7; allowed: 8"),
        ("--out n.onnx --ir-version 99", "ir_version is 99; allowed: 8"),
        ("--out n.onnx --form int", "'int' is not one of 'codes', 'float'"),
        ("--out n.onnx --leading 0", "allowed: sizes from 1"),
        ("--out n.onnx --leading 3,,4", "allowed: sizes from 1"),
        ("--out n.onnx --leading -1", "allowed: sizes from 1"),
        ("--out n.onnx --leading 9999999999", "allowed: sizes from 1"),
        ("--out n.onnx --leading a.b", "allowed: sizes from 1"),
        ("--out n.onnx --layer a", "--layer is 'a', but --input is not given"),
        ("--out n.onnx --dim 7", "--dim is for rows of 7 elements; the spec's dim is 24"),
    ],
)
def test_bad_usage(
    kind: str, rest: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(p.name for p in folder.iterdir())
    status, out, err = command(f"export {kind} my.toml {rest}", capsys)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("qonnx my.toml --leading rows", "since QONNX has static shapes only"),
        ("qonnx rnd.toml --form float", "y.rounding is RND, for which QONNX has no name"),
    ],
)
def test_what_qonnx_has_not(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = command(f"export {line} --out n.onnx", capsys)
    assert status == 2
    assert message in err
    assert not Path("n.onnx").exists()


def test_a_former_file_stays_when_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("n.onnx").write_bytes(b"mine")
    assert command("export qonnx rnd.toml --form float --out n.onnx", capsys)[0] == 2
    assert Path("n.onnx").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("missing", "kind", "message"),
    [
        ("onnx", "onnx", "ONNX models need the package onnx, which is not installed"),
        ("onnx", "qonnx", "ONNX models need the package onnx, which is not installed"),
        ("qonnx", "qonnx", "QONNX needs the package qonnx, which is not installed"),
    ],
)
def test_a_missing_package_is_named(missing: str, kind: str, message: str) -> None:
    done = without(missing, f"export {kind} my.toml --out n.onnx")
    assert done.returncode == 2
    assert message in done.stderr
    assert "run pip install 'approxnorm[onnx]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_onnx_is_written_without_onnx_runtime() -> None:
    done = without("onnxruntime", "export onnx my.toml --out n.onnx")
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(onnx.load("n.onnx"), full_check=True)


def without(module: str, line: str) -> subprocess.CompletedProcess[str]:
    """A command where a package is not installed."""
    code = (
        f"import sys; sys.modules[{module!r}] = None; from approxnorm.cli import main;"
        f" sys.exit(main({line.split()!r}))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("page", ["onnx.md", "qonnx.md"])
def test_the_code_of_the_page_runs(page: str) -> None:
    text = (Path(__file__).parent.parent / "docs" / page).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    assert len(blocks) >= 2
    exec(compile("\n".join(blocks), page, "exec", dont_inherit=True), {})
