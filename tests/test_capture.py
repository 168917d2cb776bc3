"""What goes into a model's norms, as a file that the other commands read."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_graphs import graph
from onnx_graphs import rows as graph_rows
from onnx_models import DIM, EPS, STEPS, Cli, block_model, rows, weights

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms import find_norms
from approxnorm.export.rewrite import capture
from approxnorm.export.rewrite.session import tapped
from approxnorm.inputs import open_activations


def stored(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as data:
        return {key: data[key] for key in data.files}


def test_rows_gamma_and_eps_of_each_norm(folder: Path) -> None:
    done = capture("model.onnx", "inputs.npz", "acts.npz")
    found, x, given = stored(folder / "acts.npz"), rows(8, 1).reshape(-1, DIM), weights()
    assert list(found) == [
        f"block.norm{i}.{part}" for i in (1, 2) for part in ("x", "gamma", "eps")
    ]
    np.testing.assert_array_equal(found["block.norm1.x"], x)
    np.testing.assert_array_equal(found["block.norm1.gamma"], given["block.norm1.weight"])
    np.testing.assert_array_equal(found["block.norm2.gamma"], 1 + given["block.norm2.weight"])
    assert found["block.norm1.eps"] == EPS
    before = block_model()
    second = tapped(before, [norm.x for norm in find_norms(before).norms])
    session: Any = onnxruntime.InferenceSession(
        second.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (value,) = session.run([find_norms(before).norms[1].x], {"x": rows(8, 1)})
    np.testing.assert_array_equal(found["block.norm2.x"], value.reshape(-1, DIM))
    assert not np.array_equal(found["block.norm2.x"], x)
    assert [(n["name"], n["rows"], n["dim"]) for n in done.norms] == [
        ("block.norm1", 8 * STEPS, DIM),
        ("block.norm2", 8 * STEPS, DIM),
    ]


def test_rows_of_several_runs_follow_each_other(folder: Path) -> None:
    assert capture("model.onnx", "more.npz", "acts.npz").runs == 2
    want = np.concatenate([rows(4, 2), rows(4, 3)]).reshape(-1, DIM)
    np.testing.assert_array_equal(stored(folder / "acts.npz")["block.norm1.x"], want)


def test_same_arguments_same_bytes(folder: Path) -> None:
    written = []
    for _ in range(2):
        capture("model.onnx", "inputs.npz", "acts.npz")
        written.append((folder / "acts.npz").read_bytes())
    assert written[0] == written[1]


def test_float64_inputs_become_float32(folder: Path) -> None:
    np.savez("wide.npz", x=rows(8, 1).astype(np.float64))
    capture("model.onnx", "wide.npz", "acts.npz", only=["block.norm1"])
    np.testing.assert_array_equal(
        stored(folder / "acts.npz")["block.norm1.x"].ravel(), rows(8, 1).ravel()
    )


def test_file_is_one_that_the_other_commands_read(cli: Cli, folder: Path) -> None:
    assert cli("capture", "model.onnx", "-i", "inputs.npz", "-o", "acts.npz")[0] == 0
    layers = open_activations("acts.npz")
    assert [(la.name, la.rows, la.eps) for la in layers] == [
        ("block.norm1", 32, EPS),
        ("block.norm2", 32, EPS),
    ]
    status, out, _ = cli("error", "int16-accurate", "--input", "acts.npz", "--json")
    assert status == 0
    assert [la["name"] for la in json.loads(out)["layers"]] == ["block.norm1", "block.norm2"]


def test_sum_inside_a_norm_is_captured(tmp_path: Path) -> None:
    """A SkipSimplifiedLayerNormalization without an output for its sum."""
    model = graph(
        "y = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 1e-5>(x, x2, w)",
        inputs="float[b, 4, 8] x, float[b, 4, 8] x2",
    )
    onnx.save(model, tmp_path / "m.onnx")
    x, x2 = graph_rows(3, 4, seed=1), graph_rows(3, 4, seed=2)
    np.savez(tmp_path / "in.npz", x=x, x2=x2)
    done = capture(tmp_path / "m.onnx", tmp_path / "in.npz", tmp_path / "acts.npz")
    (name,) = [norm["name"] for norm in done.norms]
    np.testing.assert_array_equal(
        stored(tmp_path / "acts.npz")[f"{name}.x"], (x + x2).reshape(-1, 8)
    )


def test_names_may_be_paths(tmp_path: Path) -> None:
    """Older exporters name nodes so; a parameter without a name of its own says nothing."""
    model = graph("y = SimplifiedLayerNormalization<axis = -1, epsilon = 1e-5>(x, w)")
    model.graph.node[0].name = "/model/layers.0/norm/../[a]: ü"
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=graph_rows(3, 4))
    done = capture(tmp_path / "m.onnx", tmp_path / "in.npz", tmp_path / "acts.npz")
    (name,) = [norm["name"] for norm in done.norms]
    assert name.startswith("model.layers.0.norm")
    assert [layer.name for layer in open_activations(tmp_path / "acts.npz")] == [name]
    again = capture(tmp_path / "m.onnx", tmp_path / "in.npz", tmp_path / "acts.npz", only=[name])
    assert again.norms == done.norms


@pytest.mark.parametrize(
    ("only", "skip", "left"),
    [
        (["block.norm1"], [], ["block.norm1"]),
        (["*norm?"], [], ["block.norm1", "block.norm2"]),
        ([], ["*2"], ["block.norm1"]),
        (["block.norm2", "*1"], ["*.norm[1]"], ["block.norm2"]),
        ([], ["block.over_steps", "*1"], ["block.norm2"]),
        (["*"], [], ["block.norm1", "block.norm2"]),
    ],
)
def test_norms_are_chosen_by_name(
    only: list[str], skip: list[str], left: list[str], folder: Path
) -> None:
    done = capture("model.onnx", "inputs.npz", "acts.npz", only=only, skip=skip)
    assert [norm["name"] for norm in done.norms] == left
    names = {"block.norm1", "block.norm2"}
    assert set(done.skipped) == names - set(left)
    assert [u.name for u in done.findings.unrecognised] == ["block.over_steps"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--only", "norm9"], ["--only 'norm9' matches no norm", "block.norm1, block.norm2"]),
        (["--skip", "norm9"], ["--skip 'norm9' matches no norm"]),
        (["--only", "block.over*"], ["block.over_steps is left alone: ", "axes [-2]"]),
        (["--skip", "*"], ["leave no norm"]),
        (["--out", "acts.npy"], ["--out is 'acts.npy'", ".npz"]),
        (["--out", "inputs.npz"], ["--out is 'inputs.npz', which is --inputs too"]),
        (["--out", "no/acts.npz"], ["there is no folder no"]),
        (["--inputs", "x.npz"], ["x.npz does not exist"]),
        (["--inputs", "nan.npz"], ["block.norm1 gets nan in run 0 of nan.npz", "channel 1"]),
        (["--inputs", "none.npz"], ["none.npz gives the norm block.norm1 no rows"]),
    ],
)
def test_bad_input_is_refused_and_nothing_written(
    arguments: list[str], parts: list[str], cli: Cli, folder: Path
) -> None:
    bad = rows(1, 1)
    bad[0, 2, 1] = np.nan
    np.savez("nan.npz", x=bad)
    np.savez("none.npz", x=bad[:0])
    before = sorted(folder.iterdir())
    given = ["capture", "model.onnx", "--inputs", "inputs.npz", "--out", "acts.npz"]
    status, out, err = cli(*given, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert all(part in err for part in parts), err
    assert sorted(folder.iterdir()) == before


def test_model_without_norms_is_refused(folder: Path) -> None:
    model = block_model()
    for node in model.graph.node:
        node.op_type = node.op_type.replace("Sqrt", "Exp")
    onnx.save(model, "model.onnx")
    with pytest.raises(ApproxNormError, match="has no RMSNorm that can be taken"):
        capture("model.onnx", "inputs.npz", "acts.npz")


def test_missing_library_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith("approxnorm.export.rewrite")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    status, _, err = cli("capture", "model.onnx", "-i", "inputs.npz", "-o", "acts.npz")
    assert status == 2
    assert "need the package onnxruntime, which is not installed" in err
    assert "pip install 'approxnorm[onnx]'" in err
