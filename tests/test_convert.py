"""Norms of a model replaced: the bits are the model's, and nothing else has changed."""

import importlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_graphs import graph
from onnx_graphs import rows as graph_rows
from onnx_models import DIM, EPS, Cli, block_model, rows, weights, write_block
from onnx_zoo import export, fused

from approxnorm import RMSNorm, RMSNormSpec, load_spec, preset
from approxnorm.errors import ApproxNormError
from approxnorm.export.norms import find_norms
from approxnorm.export.onnx import DOMAIN, OP_TYPE
from approxnorm.export.rewrite import ConvertReport, convert, load_model
from approxnorm.export.rewrite.errors import NormErrors, OutputErrors
from approxnorm.export.rewrite.graph import names_in
from approxnorm.export.rewrite.replace import Replaced, replace_norms
from approxnorm.export.rewrite.session import tapped
from approxnorm.export.rewrite.verify import check_codes
from approxnorm.inputs import Layer
from approxnorm.layer_model import calibrated_model

GONE = ["square", "mean", "shifted", "root", "normal"]


def converted(
    spec: RMSNormSpec | str = "int16-accurate", inputs: str | Path = "inputs.npz", **options: Any
) -> ConvertReport:
    """model.onnx made into model.q.onnx."""
    chosen = preset(spec) if isinstance(spec, str) else spec
    return convert(
        "model.onnx",
        chosen,
        inputs,
        "model.q.onnx",
        **options,
    )


def run(path: str | Path | onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs, by ONNX Runtime as it is."""
    source = path.SerializeToString() if isinstance(path, onnx.ModelProto) else str(path)
    session: Any = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def with_outputs(path: str, names: Sequence[str]) -> onnx.ModelProto:
    """The model of a file with nothing but these values as outputs."""
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return model


# --- what is written ------------------------------------------------------------------------------


def test_each_norm_gives_the_codes_of_its_numpy_model(folder: Path) -> None:
    done = converted(evaluate_path="more.npz")
    given = weights()
    gammas = [given["block.norm1.weight"], 1 + given["block.norm2.weight"]]
    for entry, gamma, x, y in zip(done.norms, gammas, "xh", ["n1", "n2"], strict=True):
        model = RMSNorm(RMSNormSpec(**entry["spec"]), gamma)
        assert model.digest == entry["digest"]
        codes = f"{entry['name']}/ApproxRMSNorm/y_codes"
        got = run(with_outputs("model.q.onnx", [x, codes, y]), {"x": rows(5, 9)})
        want = model(model.quantize(got[0]))
        np.testing.assert_array_equal(got[1], want)
        np.testing.assert_array_equal(got[2], model.dequantize(want).astype(np.float32))


def test_report_has_every_norm_and_output(folder: Path) -> None:
    done = converted(evaluate_path="more.npz").to_dict()
    assert [n["name"] for n in done["norms"]] == ["block.norm1", "block.norm2"]
    assert [n["codes_checked"] for n in done["norms"]] == [32 * DIM, 32 * DIM]
    assert [n["eps"] for n in done["norms"]] == [EPS, EPS]
    assert all(n["calibration"][0].startswith("x: max|x| = ") for n in done["norms"])
    assert [(o["name"], o["elements"]) for o in done["outputs"]] == [
        ("hidden", 8 * 4 * DIM),
        ("best", 8 * 4),
    ]
    assert done["outputs"][1]["max_abs"] is None
    assert done["measured_on"] == "more.npz" and done["runs"] == 1
    assert [(u["name"], u["kind"]) for u in done["unrecognised"]] == [
        ("block.over_steps", "decomposed")
    ]
    assert (done["skipped"], done["layernorms"], done["copied"]) == ([], 1, [])
    assert done["ir_version"] == {"before": 10, "after": 10}
    json.dumps(done)


def test_errors_are_those_of_the_files(folder: Path) -> None:
    done = converted(evaluate_path="more.npz")
    feeds = [{"x": rows(4, 2 + i)} for i in range(2)]
    before, after = ([run(p, f) for f in feeds] for p in ("model.onnx", "model.q.onnx"))
    want = np.concatenate([b[0] for b in before]).astype(np.float64)
    error = np.concatenate([a[0] for a in after]) - want
    entry = done.outputs[0]
    assert entry["max_abs"] == np.abs(error).max()
    sqnr = 10 * np.log10((want**2).sum() / (error**2).sum())
    # float64 sums of 2**10 terms, in another order: 2**10 * 2**-53 at most
    assert entry["sqnr_db"] == pytest.approx(sqnr, rel=1e-12)
    assert entry["rms_rel"] == pytest.approx(10 ** (-sqnr / 20), rel=1e-12)
    assert sqnr > 50

    # ONNX Runtime fuses nodes as the outputs let it, so the float norm is shown as convert does.
    found = find_norms(onnx.load("model.onnx")).norms
    taps = [name for norm in found for name in (norm.x, norm.y)]
    tapped_model = tapped(onnx.load("model.onnx"), taps)
    model = RMSNorm(RMSNormSpec(**done.norms[0]["spec"]), weights()["block.norm1.weight"])
    largest = 0.0
    for feed in feeds:
        names = [output.name for output in tapped_model.graph.output]
        values = dict(zip(names, run(tapped_model, feed), strict=True))
        x, y = values[found[0].x], values[found[0].y]
        largest = max(largest, float(np.abs(model.dequantize(model(model.quantize(x))) - y).max()))
    assert done.norms[0]["max_abs"] == largest


def test_nothing_else_in_the_graph_changes(folder: Path) -> None:
    converted()
    before, after = block_model(), onnx.load("model.q.onnx")
    ours = [n for n in after.graph.node if "/ApproxRMSNorm/" in n.name or n.domain == DOMAIN]
    ours += [n for n in after.graph.node if any("/ApproxRMSNorm/" in o for o in n.output)]
    ours += [n for n in after.graph.node if any("/ApproxRMSNorm/" in i for i in n.input)]
    others = [n for n in after.graph.node if n not in ours]
    gone = {f"block.norm{i}.{part}" for i in (1, 2) for part in GONE} | {"n1", "n2", "gamma2"}
    assert others == [n for n in before.graph.node if not gone & set(n.output)]

    removed = {"block.norm1.weight", "block.norm2.weight", "one", "last"}
    kept = [t for t in before.graph.initializer if t.name not in removed]
    assert list(after.graph.initializer)[: len(kept)] == kept
    added = list(after.graph.initializer)[len(kept) :]
    assert all("/ApproxRMSNorm/" in t.name for t in added) and added

    stale = "block.norm1.normal"
    assert list(after.graph.value_info) == [v for v in before.graph.value_info if v.name != stale]
    for part in (after.graph, before.graph):
        for field in ("node", "initializer", "value_info"):
            part.ClearField(field)
    del after.functions[:]
    assert after.opset_import.pop() == helper.make_opsetid(DOMAIN, 1)
    assert after == before


def test_norm_stands_where_it_stood(folder: Path) -> None:
    converted()
    model = onnx.load("model.q.onnx")
    written = {"x"} | {t.name for t in model.graph.initializer}
    for node in model.graph.node:
        assert set(node.input) <= written
        written |= set(node.output)
    onnx.checker.check_model(model, full_check=True)


def test_norms_of_one_datapath_share_a_function(folder: Path) -> None:
    spec = preset("int16-accurate")
    norms = find_norms(block_model()).norms
    made = [RMSNorm(_closed(spec), n.gamma) for n in norms]
    model, replaced = replace_norms(block_model(), list(zip(norms, made, strict=True)))
    assert [r.function for r in replaced] == ["ApproxRMSNorm", "ApproxRMSNorm"]
    assert [f.name for f in model.functions] == ["ApproxRMSNorm"]


def test_norms_of_other_datapaths_have_their_own(folder: Path) -> None:
    norms = find_norms(block_model()).norms
    specs = [_closed(preset(name)) for name in ("int16-accurate", "int8-linear")]
    made = [RMSNorm(s, n.gamma) for s, n in zip(specs, norms, strict=True)]
    model, replaced = replace_norms(block_model(), list(zip(norms, made, strict=True)))
    assert [r.function for r in replaced] == ["ApproxRMSNorm", "ApproxRMSNorm_2"]
    assert [f.name for f in model.functions] == ["ApproxRMSNorm", "ApproxRMSNorm_2"]
    nodes = {n.op_type for n in model.graph.node if n.domain == DOMAIN}
    assert nodes == {"ApproxRMSNorm", "ApproxRMSNorm_2"}


def _closed(spec: RMSNormSpec) -> RMSNormSpec:
    """The spec with scales for numbers up to 8, for rows of DIM."""
    formats = {
        name: getattr(spec, name).model_dump() | {"scale": 8 / 2 ** (getattr(spec, name).bits - 1)}
        for name in ("x", "gamma", "y")
    }
    return spec.replace(dim=DIM, **formats)


def test_one_norm_now_and_the_other_later(folder: Path) -> None:
    converted(only=["block.norm1"])
    first = Path("model.q.onnx").read_bytes()
    Path("model.onnx").write_bytes(first)
    done = converted("int8-linear")
    assert [n["name"] for n in done.norms] == ["block.norm2"]
    assert done.norms[0]["function"] == "ApproxRMSNorm_2"
    model = onnx.load("model.q.onnx")
    assert [f.name for f in model.functions] == ["ApproxRMSNorm", "ApproxRMSNorm_2"]
    assert sum(entry.domain == DOMAIN for entry in model.opset_import) == 1


def test_ir_version_goes_up_for_functions(folder: Path, cli: Cli) -> None:
    write_block(folder, opset=17, ir_version=7)
    arguments = ["--spec", "int16-accurate", "--calibrate", "inputs.npz", "--out", "model.q.onnx"]
    status, out, _ = cli("convert", "model.onnx", *arguments)
    assert status == 0
    assert "IR version 8, before 7: the first with functions" in out.splitlines()
    assert onnx.load("model.q.onnx").ir_version == 8


@pytest.mark.parametrize("opset", [17, 18, 20, 21, 22, 23, 24])
def test_opset_stays(opset: int, folder: Path) -> None:
    write_block(folder, opset=opset)
    done = converted("int8-linear")
    assert done.opset == opset == load_model("model.q.onnx").opset_import[0].version
    assert done.outputs[0]["sqnr_db"] > 20
    assert names_in(load_model("model.q.onnx")) >= {"n1", "n2"}


def test_gamma_of_a_datapath_that_adds_one(folder: Path) -> None:
    spec = preset("int16-accurate").to_dict()
    spec["normalize"] = spec["normalize"] | {"order": "gemma"}
    spec = RMSNormSpec(**{k: v for k, v in spec.items() if v is not None})
    done = converted(spec)
    assert done.norms[1]["sqnr_db"] > 70
    w = weights()["block.norm2.weight"]
    assert RMSNorm(RMSNormSpec(**done.norms[1]["spec"]), w).digest == done.norms[1]["digest"]


# --- other forms ----------------------------------------------------------------------------------


def convert_graph(model: onnx.ModelProto, tmp_path: Path, **inputs: np.ndarray) -> ConvertReport:
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", **inputs)
    return convert(
        tmp_path / "m.onnx",
        preset("int16-accurate"),
        tmp_path / "in.npz",
        tmp_path / "q.onnx",
    )


SKIP = "com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 1e-5>"


@pytest.mark.parametrize(
    ("body", "outputs", "adds"),
    [
        (f"y = {SKIP}(x, x2, w)", ["y"], 1),
        (f"y, a, b, s = {SKIP}(x, x2, w) z = Neg(s)", ["y", "z"], 1),
        (f"y, a, b, s = {SKIP}(x, x2, w)", ["y", "s"], 1),
        (f"y, a, b, s = {SKIP}(x, x2, w, w)", ["y", "s"], 2),
    ],
    ids=["no sum", "sum read", "sum is an output", "bias"],
)
def test_sum_of_a_skip_norm_is_kept(
    body: str, outputs: list[str], adds: int, tmp_path: Path
) -> None:
    rank3 = "float[b, 4, 8]"
    model = graph(
        body,
        inputs=f"{rank3} x, {rank3} x2",
        outputs=", ".join(f"{rank3} {name}" for name in outputs),
    )
    feed = {"x": graph_rows(3, 4, seed=1), "x2": graph_rows(3, 4, seed=2)}
    done = convert_graph(model, tmp_path, **feed)
    assert done.norms[0]["kind"] == "SkipSimplifiedLayerNormalization"
    after = onnx.load(tmp_path / "q.onnx")
    assert [n.op_type for n in after.graph.node].count("Add") == adds
    assert [o.name for o in after.graph.output] == outputs
    before, got = run(model, feed), run(after, feed)
    if len(outputs) > 1:  # the sum itself, or its negative: not touched by the norm
        np.testing.assert_array_equal(got[1], before[1])
    assert done.outputs[0]["sqnr_db"] > 50


def test_norms_that_share_a_root(tmp_path: Path) -> None:
    """Two gammas on one x: the root goes when both norms are gone, and stays for a third reader."""
    shared = (
        "s = Mul(x, x) m = ReduceMean(s, last) a = Add(m, eps) r = Sqrt(a) i = Reciprocal(r)"
        " n = Mul(x, i) y = Mul(n, w) k = Mul(i, x) z = Mul(w_row, k)"
    )
    rank3 = "float[b, 4, 8]"
    for end, more, left in [("", "", []), (" o = Neg(i)", ", float[b, 4, 1] o", ["s", "r", "i"])]:
        model = graph(shared + end, outputs=f"{rank3} y, {rank3} z{more}")
        done = convert_graph(model, tmp_path, x=graph_rows(3, 4))
        assert len(done.norms) == 2
        written = {o for n in onnx.load(tmp_path / "q.onnx").graph.node for o in n.output}
        assert {"s", "r", "i"} & written == set(left)


def test_norm_that_is_the_model_itself(tmp_path: Path) -> None:
    """x is the graph's input and y its output."""
    model = graph("y = SimplifiedLayerNormalization<axis = -1, epsilon = 1e-5>(x, w)")
    done = convert_graph(model, tmp_path, x=graph_rows(6, 4))
    assert done.norms[0]["codes_checked"] == 6 * 4 * 8
    after = onnx.load(tmp_path / "q.onnx")
    assert [v.name for v in (*after.graph.input, *after.graph.output)] == ["x", "y"]


def test_value_read_in_a_branch_is_kept(folder: Path) -> None:
    """What only an If's body reads is not dead."""
    model = block_model()
    floats = ["b", 4, DIM]
    result = helper.make_tensor_value_info("branch", TensorProto.FLOAT, None)
    body = helper.make_graph(
        [helper.make_node("Neg", ["block.norm1.weight"], ["branch"])], "body", [], [result]
    )
    node = helper.make_node("If", ["yes"], ["chosen"], then_branch=body, else_branch=body)
    model.graph.node.append(node)
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    model.graph.output.append(helper.make_tensor_value_info("chosen", TensorProto.FLOAT, [DIM]))
    onnx.save(model, "model.onnx")
    converted()
    after = onnx.load("model.q.onnx")
    assert "block.norm1.weight" in {t.name for t in after.graph.initializer}
    np.testing.assert_array_equal(
        run(after, {"x": np.zeros((1, *floats[1:]), np.float32)})[2],
        -weights()["block.norm1.weight"],
    )


def test_names_of_the_model_are_not_taken(folder: Path) -> None:
    model = block_model()
    for node in model.graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = name.replace("block.norm1.square", "block.norm1/ApproxRMSNorm/y_codes")
    onnx.save(model, "model.onnx")
    converted()
    after = onnx.load("model.q.onnx")
    assert any(
        o.startswith("block.norm1/ApproxRMSNorm_2/") for n in after.graph.node for o in n.output
    )


def test_external_data_stay_external(folder: Path) -> None:
    onnx.save(
        block_model(), "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=64
    )
    data = Path("w.bin").read_bytes()
    done = converted()
    assert done.copied == [] and Path("w.bin").read_bytes() == data
    after = load_model("model.q.onnx")
    outside = [t.name for t in after.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    assert {"up", "down"} <= set(outside)
    assert run("model.q.onnx", {"x": rows(2, 5)})[0].shape == (2, 4, DIM)

    Path("other").mkdir()
    report = convert(
        "model.onnx",
        preset("int16-accurate"),
        "inputs.npz",
        "other/q.onnx",
    )
    assert report.copied == [Path("other/w.bin")]
    assert Path("other/w.bin").read_bytes() == data
    got = [run(p, {"x": rows(2, 5)})[0] for p in ("model.q.onnx", "other/q.onnx")]
    np.testing.assert_array_equal(*got)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            ["--only", "norm9"],
            ["--only 'norm9' matches no norm; allowed: block.norm1, block.norm2"],
        ),
        (["--only", "block.over_steps"], ["block.over_steps is left alone", "axes [-2]"]),
        (["--spec", "int8"], ["SPEC is 'int8'", "allowed"]),
        (["--spec", "dim.toml"], ["the spec's dim is 64, but the norm block.norm1 has rows of 32"]),
        (["--spec", "exact.toml"], ['rsqrt.method is "exact"']),
        (["--calibrate", "empty.npz"], ["no array for the model's input 'x'"]),
        (["--calibrate", "nan.npz"], ["block.norm1 gets nan in run 0 of nan.npz"]),
        (["--evaluate", "nan.npz"], ["block.norm1 gets nan in run 0 of nan.npz"]),
        (["--evaluate", "gone.npz"], ["gone.npz does not exist"]),
        (["--out", "model.onnx"], ["--out is 'model.onnx', which is the model too"]),
        (["--out", "inputs.npz"], ["it must be a file with the suffix .onnx"]),
        (["--out", "gone/q.onnx"], ["there is no folder gone"]),
    ],
)
def test_bad_input_is_refused_and_nothing_written(
    arguments: list[str], parts: list[str], cli: Cli, folder: Path
) -> None:
    _write_bad(folder)
    before = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    given = ["--spec", "int16-accurate", "--calibrate", "inputs.npz", "--out", "model.q.onnx"]
    status, out, err = cli("convert", "model.onnx", *given, *arguments)
    assert (status, out) == (2, "")
    assert all(part in err.splitlines()[-1] for part in parts), err
    assert {path: path.read_bytes() for path in sorted(folder.iterdir())} == before


def _write_bad(folder: Path) -> None:
    bad = rows(1, 1)
    bad[0, 2, 1] = np.nan
    np.savez("nan.npz", x=bad)
    np.savez("empty.npz")
    text = Path(load_spec.__code__.co_filename).parent / "presets" / "int16-accurate.toml"
    toml = text.read_text("utf-8")
    (folder / "dim.toml").write_text("dim = 64\n" + toml, "utf-8")
    method = re.sub('method = "quadratic"', 'method = "exact"', toml)
    (folder / "exact.toml").write_text(method, "utf-8")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = SimplifiedLayerNormalization<axis = -1, epsilon = 1e-5>(x, g)", "gamma"),
        (
            "h = Cast<to = 10>(x) s = Mul(h, h) m = ReduceMean(s, last) e = Cast<to = 10>(eps)"
            " a = Add(m, e) r = Sqrt(a) n = Div(h, r) y = Cast<to = 1>(n)",
            "float16",
        ),
    ],
)
def test_norms_out_of_reach_are_named(body: str, reason: str, tmp_path: Path) -> None:
    model = graph(body, inputs="float[b, 4, 8] x, float[8] g")
    with pytest.raises(ApproxNormError, match=f"has no RMSNorm that can be taken.*{reason}"):
        convert_graph(model, tmp_path, x=graph_rows(3, 4), g=np.ones(8, np.float32))
    assert not (tmp_path / "q.onnx").exists()


def test_code_that_differs_is_an_internal_error(folder: Path) -> None:
    """A wrong table entry in the converted model does not pass."""
    from approxnorm.export.rewrite.feeds import Feeds

    norm = find_norms(block_model()).norms[0]
    model = RMSNorm(_closed(preset("int16-accurate")), norm.gamma)
    after, replaced = replace_norms(block_model(), [(norm, model)])
    feeds = Feeds(Path("inputs.npz"), after)
    assert _checked(after, replaced, feeds) == {"block.norm1": 32 * DIM}
    (gamma,) = [t for t in after.graph.initializer if t.name.endswith("/gamma")]
    wrong = numpy_helper.to_array(gamma).copy()
    wrong[3] += 1
    gamma.CopyFrom(numpy_helper.from_array(wrong, gamma.name))
    with pytest.raises(RuntimeError, match=f"norm block.norm1: .*element 3.*{model.digest}"):
        _checked(after, replaced, feeds)


def _checked(model: onnx.ModelProto, replaced: list[Replaced], feeds: Any) -> dict[str, int]:
    return check_codes(model, Path("model.onnx"), replaced, feeds, lambda done: None)


def test_norm_is_calibrated_by_what_it_is_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layer has the norm's own eps, gamma and rows."""
    seen: list[Layer] = []

    def spy(spec: RMSNormSpec, layer: Layer, progress: Any = None, /) -> Any:
        seen.append(layer)
        return calibrated_model(spec, layer, progress)

    module = importlib.import_module("approxnorm.export.rewrite.convert")  # not the function
    monkeypatch.setattr(module, "calibrated_model", spy)
    convert("model.onnx", preset("int8-linear"), "more.npz", "q.onnx")
    assert [(la.name, la.eps, la.rows, la.dim) for la in seen] == [
        ("block.norm1", EPS, 32, DIM),
        ("block.norm2", EPS, 32, DIM),
    ]


# --- figures --------------------------------------------------------------------------------------


def test_figures_of_a_norm() -> None:
    meter = NormErrors()
    meter.add(np.array([[1.0, 2.0]]), np.array([[1.0, 1.0]]))
    meter.add(np.array([5.0]), np.array([np.nan]))  # left out
    assert meter.result() == {
        "max_abs": 1.0,
        # float64 logarithms and powers: a few units in the last place
        "rms_rel": pytest.approx(np.sqrt(0.5), rel=1e-14),
        "sqnr_db": pytest.approx(10 * np.log10(2), rel=1e-14),
    }
    meter = NormErrors()
    meter.add(np.ones(3), np.ones(3))
    assert meter.result() == {"max_abs": 0.0, "rms_rel": 0.0, "sqnr_db": None}


@pytest.mark.parametrize(
    ("before", "after", "different", "largest"),
    [
        ([1.0, np.inf, np.nan], [1.0, np.inf, np.nan], 0, 0.0),
        ([1.0, -np.inf], [1.5, -np.inf], 1, 0.5),
        ([1.0, 2.0], [1.0, np.inf], 1, np.inf),
        ([np.nan, 2.0], [1.0, 2.0], 1, np.inf),
        ([1, 2], [1, 3], 1, None),
        ([True, False], [True, False], 0, None),
        (["a", "b"], ["a", "c"], 1, None),
        ([1.0, 2.0], [1.0], None, None),
    ],
)
def test_figures_of_an_output(
    before: list[Any], after: list[Any], different: int | None, largest: float | None
) -> None:
    meter = OutputErrors("out")
    meter.add(np.array(before), np.array(after))
    found = meter.result()
    assert (found["different"], found["max_abs"]) == (different, largest)


# --- a real model ---------------------------------------------------------------------------------


def series(seed: int) -> np.ndarray:
    """A wave with noise, scaled to [0, 1] as fracast wants it."""
    rng, time = np.random.default_rng(seed), np.arange(2048)
    wave = np.sin(time / rng.uniform(3, 40)) + 0.2 * rng.standard_normal(2048)
    scaled = (wave - wave.min()) / np.ptp(wave)
    return scaled.astype(np.float32).reshape(1, 1, -1)


@pytest.mark.parametrize(
    ("opset", "decibels"),
    [
        (18, {"int16-accurate": 65}),
        (20, {"outlier4-16bit": 35}),
        (23, {"int16-accurate": 65, "outlier4-16bit": 35}),
    ],
)
def test_forecasts_stay(opset: int, decibels: dict[str, float], tmp_path: Path) -> None:
    """fracast, a forecaster with 8 nn.RMSNorm, some of which run several times: 36 in all."""
    forecaster = export("fracast", opset)
    assert (len(forecaster.norms), sum(n.calls for n in forecaster.norms.values())) == (8, 36)
    onnx.save(forecaster.model, tmp_path / "model.onnx")
    values, valid = forecaster.inputs
    for name, seed in {"calibrate": 1, "evaluate": 2}.items():
        given = {values: series(seed), valid: forecaster.inputs[valid]}
        np.savez(tmp_path / f"{name}.npz", **given)
    for spec, least in decibels.items():
        done = convert(
            tmp_path / "model.onnx",
            preset(spec),
            tmp_path / "calibrate.npz",
            tmp_path / f"{spec}.onnx",
            evaluate_path=tmp_path / "evaluate.npz",
        )
        assert len(done.norms) == 36
        assert done.left_alone["unrecognised"] == []
        assert done.outputs[0]["sqnr_db"] > least
        assert min(norm["sqnr_db"] for norm in done.norms) > 30


@pytest.mark.parametrize(
    ("family", "opset", "fuse"),
    [
        ("Llama", 18, False),
        ("Qwen3", 20, False),
        ("Gemma", 23, False),
        ("T5", 18, False),
        ("Llama", 18, True),
    ],
)
def test_families_lose_their_norms_and_nothing_else(
    family: str, opset: int, fuse: bool, tmp_path: Path
) -> None:
    exported = export(family, opset)
    exported = fused(exported) if fuse else exported
    before = exported.model
    onnx.save(before, tmp_path / "model.onnx")
    np.savez(tmp_path / "inputs.npz", **exported.inputs)
    done = convert(
        tmp_path / "model.onnx",
        preset("int16-accurate"),
        tmp_path / "inputs.npz",
        tmp_path / "q.onnx",
    )
    assert len(done.norms) == sum(norm.calls for norm in exported.norms.values())
    assert done.outputs[0]["sqnr_db"] > 60
    after = onnx.load(tmp_path / "q.onnx")
    norms = find_norms(before).norms
    gone = {place for norm in norms for place in norm.nodes}
    stay = [n.SerializeToString() for i, n in enumerate(before.graph.node) if i not in gone]
    kept = [n.SerializeToString() for n in after.graph.node if not _is_ours(n)]
    # What only the norms read goes too; what stays is as it was, in its order.
    assert kept == [node for node in stay if node in set(kept)]
    assert _left(before.graph.initializer, after.graph.initializer)
    assert _left(before.graph.value_info, after.graph.value_info)
    for field in ("input", "output", "metadata_props"):
        assert list(getattr(before.graph, field)) == list(getattr(after.graph, field))
    assert list(before.metadata_props) == list(after.metadata_props)


def _is_ours(node: onnx.NodeProto) -> bool:
    return node.domain == DOMAIN or any(
        OP_TYPE in name for name in (*node.input, *node.output, node.name)
    )


def _left(before: Any, after: Any) -> bool:
    """Whether what is there after is as it was before, but for what is ours."""
    was = {each.name: each.SerializeToString() for each in before}
    return all(was.get(e.name) == e.SerializeToString() for e in after if OP_TYPE not in e.name)
