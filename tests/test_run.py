"""The main job: artefacts of every layer, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from approxnorm import ApproxNormError, RMSNorm, RMSNormSpec, preset, preset_names
from approxnorm.inputs import default_activations, open_activations
from approxnorm.layer_model import calibrated_model
from approxnorm.output import listed_by, staged_folder
from approxnorm.run import job
from approxnorm.run.conformance import differences
from approxnorm.run.folders import folder_names
from approxnorm.run.job import Options, run_job
from approxnorm.run.onnx_files import write_files
from approxnorm.run.tools import BACKENDS
from approxnorm.vectors import read_vectors

DIM = 24
LEVEL_0 = Options(level=0)

# int8 data with an outlier channel: eps is below one unit, which is not the matter here.
pytestmark = pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")


def activations(path: Path, **extra: Any) -> Path:
    """Two small layers with an outlier channel, from integers only."""
    words = np.random.PCG64(5).random_raw(40 * DIM)
    x = (words % 2001).astype(np.int64).reshape(40, DIM) - 1000
    x[:, 3] *= 50
    arrays: dict[str, Any] = {
        "model.layers.0/norm.x": (x[:20] / 256).astype(np.float32),
        "model.layers.0/norm.gamma": np.linspace(0.5, 1.5, DIM, dtype=np.float32),
        "model.layers.0/norm.eps": np.float32(1e-6),
        "b.x": (x[20:] / 16).astype(np.float32).reshape(2, 10, DIM),
        "b.gamma": np.linspace(-1, 1, DIM, dtype=np.float32),
    }
    np.savez(path, **arrays | extra)
    return path


def run(spec: RMSNormSpec, source: Path, out: Path) -> dict[str, Any]:
    return run_job(spec, spec_name="test", input_path=source, out=out, options=LEVEL_0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("run")
    source = activations(folder / "acts.npz")
    return source, folder / "out", run(preset("outlier4-16bit"), source, folder / "out")


def test_writes_everything(finished: tuple[Path, Path, dict[str, Any]]) -> None:
    _, out, results = finished
    assert sorted(p.name for p in out.iterdir()) == [
        "b",
        "model.layers.0_norm",
        "report.html",
        "report.json",
    ]
    assert json.loads((out / "report.json").read_text("utf-8")) == results
    for layer in results["layers"]:
        names = sorted(p.name for p in (out / layer["folder"]).iterdir())
        assert names == ["errors.json", "spec.json", "vectors", "vectors-input"]
    assert b"<html" in (out / "report.html").read_bytes()


def test_resolved_spec_makes_the_same_model(finished: tuple[Path, Path, dict[str, Any]]) -> None:
    source, out, results = finished
    for layer, result in zip(open_activations(source), results["layers"], strict=True):
        data = json.loads((out / result["folder"] / "spec.json").read_text("utf-8"))
        assert layer.gamma is not None
        assert RMSNorm(RMSNormSpec(**data), layer.gamma).digest == result["digest"]


def test_eps_of_the_file_wins(finished: tuple[Path, Path, dict[str, Any]]) -> None:
    assert [layer["eps"] for layer in finished[2]["layers"]] == [1e-6, 1e-5]


def test_vectors_are_the_models(finished: tuple[Path, Path, dict[str, Any]]) -> None:
    source, out, results = finished
    spec = preset("outlier4-16bit")
    for layer, result in zip(open_activations(source), results["layers"], strict=True):
        model, _ = calibrated_model(spec, layer)
        for kind in ("vectors", "vectors-input"):
            found = read_vectors(out / result["folder"] / kind)
            assert found.digest == model.digest
            assert np.array_equal(model(found.array("x")), found.array("y"))
        own = np.concatenate(list(layer.blocks()))[: job.MAX_VECTOR_ROWS]
        assert np.array_equal(found.array("x"), model.quantize(own))


def test_same_input_same_bytes(finished: tuple[Path, Path, dict[str, Any]], tmp_path: Path) -> None:
    source, out, _ = finished
    run(preset("outlier4-16bit"), source, tmp_path / "again")
    files = sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file())
    again = sorted(
        p.relative_to(tmp_path / "again") for p in (tmp_path / "again").rglob("*") if p.is_file()
    )
    assert files == again
    for name in files:
        assert (out / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_replaces_a_former_result(tmp_path: Path) -> None:
    source, out = activations(tmp_path / "acts.npz"), tmp_path / "out"
    run(preset("int8-linear"), source, out)
    first = json.loads((out / "report.json").read_text("utf-8"))
    run(preset("int16-accurate"), source, out)
    second = json.loads((out / "report.json").read_text("utf-8"))
    assert first["layers"][0]["digest"] != second["layers"][0]["digest"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["acts.npz", "out"]


def test_leaves_other_folders_alone(tmp_path: Path) -> None:
    source, out = activations(tmp_path / "acts.npz"), tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("precious", "utf-8")
    with pytest.raises(ApproxNormError, match="not empty"):
        run(preset("int8-linear"), source, out)
    assert (out / "thesis.txt").read_text("utf-8") == "precious"


def test_leaves_a_former_result_with_other_files_alone(tmp_path: Path) -> None:
    source, out = activations(tmp_path / "acts.npz"), tmp_path / "out"
    run(preset("int8-linear"), source, out)
    (out / "thesis.txt").write_text("precious", "utf-8")
    with pytest.raises(ApproxNormError, match=r"thesis\.txt is no part of the former result"):
        run(preset("int8-linear"), source, out)
    assert (out / "thesis.txt").read_text("utf-8") == "precious"


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"b.x": np.full((2, DIM), np.nan, np.float32)}, ["'b.x'", "row 0"]),
        ({"b.gamma": np.ones(DIM + 1, np.float32)}, ["b", "gamma", str(DIM + 1), str(DIM)]),
        ({"b.x": np.ones((2, DIM), np.int16)}, ["b", "integer codes"]),
        ({"b.x": np.ones((0, DIM), np.float32)}, ["b", "no rows"]),
    ],
    ids=["nan", "gamma", "codes", "empty"],
)
def test_bad_layer_leaves_nothing(tmp_path: Path, extra: dict[str, Any], words: list[str]) -> None:
    source = activations(tmp_path / "acts.npz", **extra)
    with pytest.raises(ApproxNormError) as caught:
        run(preset("int8-linear"), source, tmp_path / "out")
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["acts.npz"]


def test_a_file_without_gamma_takes_ones_or_the_one_given(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 2 * DIM, dtype=np.float32).reshape(2, DIM)
    np.save(tmp_path / "x.npy", x)
    spec = preset("int8-linear")
    results = run(spec, tmp_path / "x.npy", tmp_path / "ones")["layers"][0]
    assert results["calibration"][0] == "gamma: the file has none; ones are used"
    gamma = np.linspace(1, 2, DIM)
    out = tmp_path / "given"
    given = run_job(
        spec, spec_name="t", input_path=tmp_path / "x.npy", out=out, gamma=gamma, options=LEVEL_0
    )["layers"][0]
    stored = read_vectors(out / given["folder"] / "vectors")
    assert stored.digest == given["digest"] != results["digest"]
    assert len(set(stored.array("gamma").tolist())) > DIM // 2
    with pytest.raises(ApproxNormError, match=r"gamma has shape \(3,\); the rows of layer x"):
        run_job(spec, spec_name="t", input_path=tmp_path / "x.npy", out=out, gamma=np.ones(3))


def test_hardware_of_each_layer_is_written_and_checked(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 3 * DIM, dtype=np.float32).reshape(3, DIM)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "out"
    results = run_job(
        preset("int8-linear"),
        spec_name="t",
        input_path=tmp_path / "x.npy",
        out=out,
        options=Options(level=0, lanes=4, hls=True, backends=("numpy", "cpp")),
    )
    (layer,) = results["layers"]
    rows = sum(read_vectors(out / "x" / kind).rows for kind in ("vectors", "vectors-input"))
    for found in (results["conformance"], layer["conformance"]):
        for name in ("numpy", "cpp"):
            counts = {key: found["backends"][name][key] for key in ("rows", "codes", "mismatches")}
            assert counts == {"rows": rows, "codes": rows * DIM, "mismatches": 0}
    project = json.loads((out / "x" / "hls" / "project.json").read_text("utf-8"))
    assert project["digest"] == layer["digest"]
    assert (project["lanes"], (out / "x" / "hls" / "vectors").exists()) == (4, False)
    kernel = out / "x" / "hls" / "kernel" / "approx_rmsnorm.cpp"
    kernel.write_text("// mine\n", "utf-8")
    with pytest.raises(ApproxNormError, match=r"approx_rmsnorm\.cpp was edited"):
        run(preset("int8-linear"), tmp_path / "x.npy", out)
    assert kernel.read_text("utf-8") == "// mine\n"


def test_onnx_of_each_layer_is_written_and_checked(tmp_path: Path) -> None:
    source, out = activations(tmp_path / "acts.npz"), tmp_path / "out"
    options = Options(level=0, onnx=True, backends=("numpy", "onnx"))
    results = run_job(
        preset("int8-linear"), spec_name="t", input_path=source, out=out, options=options
    )
    counts = results["conformance"]["backends"]
    assert list(counts) == ["numpy", "onnx", "onnx-float"]
    own = sum(min(layer["rows"], job.MAX_VECTOR_ROWS) for layer in results["layers"])
    assert counts["onnx"] == counts["numpy"]
    assert counts["onnx-float"] == {"rows": own, "codes": own * DIM, "mismatches": 0}
    for layer, result in zip(open_activations(source), results["layers"], strict=True):
        model, _ = calibrated_model(preset("int8-linear"), layer)
        folder = out / result["folder"]
        assert result["onnx"]["codes"] == "norm.onnx"
        assert result["onnx"]["float"] == "norm.float.onnx"
        for name in ("norm.onnx", "norm.float.onnx"):
            made = onnx.load(folder / name)
            assert made.ir_version == result["onnx"]["ir_version"]
            assert made.opset_import[0].version == result["onnx"]["opset"]
            (node,) = [n for n in made.graph.node if n.op_type == "ApproxRMSNorm"]
            assert {a.name: a.s for a in node.attribute}["digest"].decode() == model.digest


def test_an_onnx_file_whose_results_differ_is_told(tmp_path: Path) -> None:
    """The written files are what is compared: here their gamma is another one's."""
    source, out = activations(tmp_path / "acts.npz"), tmp_path / "out"

    def write_other(model: RMSNorm, folder: Path) -> dict[str, Any]:
        return write_files(RMSNorm(model.spec, model.gamma[::-1]), folder)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job, "write_files", write_other)
        options = Options(level=0, onnx=True, backends=("onnx",))
        results = run_job(
            preset("int8-linear"), spec_name="t", input_path=source, out=out, options=options
        )
    assert [line.split(" class=")[0] for line in differences(results)] == [
        f"layer {layer['name']}: MISMATCH backend={name}"
        for layer in results["layers"]
        for name in ("onnx", "onnx-float")
    ]
    for layer in results["layers"]:
        found = layer["conformance"]["backends"]["onnx-float"]
        assert found["mismatches"] > DIM
        assert found["first"]["class"] == "input" and found["first"]["lane"] is not None
        assert float(found["first"]["got"]) != float(found["first"]["want"])


def test_same_input_same_onnx_bytes(tmp_path: Path) -> None:
    source = activations(tmp_path / "acts.npz")
    for name in ("once", "again"):
        run_job(
            preset("log-16bit"),
            spec_name="t",
            input_path=source,
            out=tmp_path / name,
            options=Options(level=0, onnx=True),
        )
    for file in ("norm.onnx", "norm.float.onnx"):
        once, again = (tmp_path / name / "b" / file for name in ("once", "again"))
        assert once.read_bytes() == again.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_equal_in_every_backend(name: str, tmp_path: Path) -> None:
    source = activations(tmp_path / "acts.npz")
    results = run_job(
        preset(name),
        spec_name=name,
        input_path=source,
        out=tmp_path / "out",
        options=Options(hls=True, onnx=True, backends=BACKENDS),
    )
    assert differences(results) == []
    counts = results["conformance"]["backends"]
    assert list(counts) == [*BACKENDS, "onnx-float"]
    assert all(found["codes"] > 0 == found["mismatches"] for found in counts.values())


def test_a_former_result_with_other_files_in_a_layer_is_left_alone(tmp_path: Path) -> None:
    source, out = activations(tmp_path / "acts.npz"), tmp_path / "out"
    run(preset("int8-linear"), source, out)
    (out / "b" / "notes.txt").write_text("precious", "utf-8")
    with pytest.raises(ApproxNormError, match=r"b/notes\.txt is no part of the former result"):
        run(preset("int8-linear"), source, out)
    assert (out / "b" / "notes.txt").read_text("utf-8") == "precious"


def test_folder_names_are_safe_and_distinct() -> None:
    names = ["report.json", "../../etc/passwd", "a/b", "a_b", "A_B", "..", "", "x" * 300, "x" * 301]
    names += ["-rf", ".-rf", "--"]
    folders = folder_names(names)
    assert len({"report.json", "report.html"} | {f.lower() for f in folders}) == len(names) + 2
    for folder in folders:
        assert not folder.startswith("-")
        assert "/" not in folder and folder.strip(".") and len(folder) < 100


def test_staged_folder_is_all_or_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(RuntimeError), staged_folder(out, listed_by("mark", set)) as stage:
        (stage / "mark").write_text("half", "utf-8")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_the_shipped_activations_go_through_the_demo_preset() -> None:
    spec = preset("outlier4-16bit")
    for layer in open_activations(default_activations()):
        model, calibration = calibrated_model(spec, layer)
        assert any(note.startswith("statistic: step_exponent") for note in calibration.notes)
        x = np.concatenate(list(layer.blocks()))
        assert np.count_nonzero(model.quantize(x) == 0) < 0.02 * x.size
