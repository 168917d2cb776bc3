"""A norm as an ONNX model: its bits in stock runtimes, at every level, opset and shape."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from hls_cases import preset_model
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from random_specs import spec_model

from approxnorm import RMSNorm, RMSNormSpec
from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx import DOMAIN, OP_TYPE, code_parts, onnx_model
from approxnorm.export.onnx.runtimes import LEVELS, OrtBackend, ReferenceBackend, cpu_session
from approxnorm.spec import preset_names
from approxnorm.vectors import plan

OPSETS = (13, 15, 17, 18, 20, 21, 22, 23)


def preset_of(name: str, dim: int = 37) -> RMSNorm:
    return preset_model(name, dim)


def backends(model: RMSNorm, opset: int = 21) -> dict[str, Any]:
    found: dict[str, Any] = {v: OrtBackend(model, opset=opset, level=v) for v in LEVELS}
    return found | {"reference": ReferenceBackend(model, opset=opset)}


# --- codes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names())
def test_presets_at_every_level(name: str) -> None:
    model = preset_of(name)
    codes = np.concatenate([c.codes for c in plan(model, 1, 0).classes])
    want, traced = model(codes, trace=True)
    for which, backend in backends(model).items():
        y = backend.run(codes)
        assert y.dtype == want.dtype
        assert np.count_nonzero(y != want) == 0, which
        if which not in ("ALL", "reference"):
            continue
        shown = backend.trace(codes)
        assert len(shown) > 4
        for signal, value in shown.items():
            assert np.count_nonzero(value != traced[signal]) == 0, (which, signal)


@pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.SpecWarning")
@pytest.mark.parametrize("opset", OPSETS)
def test_random_specs_at_every_opset(opset: int) -> None:
    compared = 0
    for seed in range(opset * 100, opset * 100 + 16):
        made = spec_model(seed)
        if made is None:
            continue
        model, rows = made
        want, traced = model(rows, trace=True)
        level = LEVELS[seed % len(LEVELS)]
        for backend in (
            OrtBackend(model, opset=opset, level=level),
            ReferenceBackend(model, opset=opset),
        ):
            assert (backend.run(rows) == want).all(), seed
            for signal, value in backend.trace(rows).items():
                assert (value == traced[signal]).all(), (seed, signal)
        compared += 1
    assert compared >= 12


def test_a_table_entry_that_differs_is_seen() -> None:
    """The comparison can fail: the bits come from the file, not from the model."""
    model = preset_of("int8-linear")
    made = onnx_model(model, leading=("rows",))
    codes = np.concatenate([c.codes for c in plan(model, 1, 0).classes])
    table = next(t for t in made.graph.initializer if t.name == "rsqrt_c0")
    entries = numpy_helper.to_array(table).copy()
    entries[:] += 1
    table.CopyFrom(numpy_helper.from_array(entries, table.name))
    (y,) = cpu_session(made).run(None, {"x": codes.astype(model.x_dtype)})
    assert (y != model(codes)).any()


# --- the file ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("form", ["codes", "float"])
def test_the_model_is_valid(name: str, form: Any) -> None:
    made = onnx_model(preset_of(name), form=form)
    onnx.checker.check_model(made, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(made, strict_mode=True, data_prop=True)
    (y,) = inferred.graph.output
    assert [d.dim_param or d.dim_value for d in y.type.tensor_type.shape.dim] == [
        "batch",
        "sequence",
        37,
    ]
    standard = {"", DOMAIN}
    assert {n.domain for n in made.graph.node} <= standard
    assert {n.domain for f in made.functions for n in f.node} == {""}


def test_defaults_are_what_onnx_1_17_loads() -> None:
    made = onnx_model(preset_of("int8-linear"))
    versions = {o.domain: o.version for o in made.opset_import}
    assert made.ir_version <= 10 and versions[""] <= 22
    assert versions[DOMAIN] == 1


def test_the_node_says_all_about_itself() -> None:
    model = preset_of("int8-log")
    made = onnx_model(model)
    (node,) = [n for n in made.graph.node if n.op_type == OP_TYPE]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes["digest"].decode() == model.digest
    spec = RMSNormSpec.model_validate(json.loads(attributes["spec"]))
    assert RMSNorm(spec, model.gamma).digest == model.digest
    (function,) = made.functions
    assert list(node.input) == list(function.input)
    stored = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    for table in model.assembly.require_datapath().tables():
        assert stored[table.name].tolist() == list(table.entries)


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("form", ["codes", "float"])
def test_every_constant_of_the_graph_is_read(name: str, form: Any) -> None:
    made = onnx_model(preset_of(name), form=form)
    read = {i for n in made.graph.node for i in n.input}
    assert {t.name for t in made.graph.initializer} <= read
    body = made.functions[0].node
    inside = {i for n in body for i in n.input} | set(made.functions[0].output)
    assert {n.output[0] for n in body if n.op_type == "Constant"} <= inside


def test_same_model_same_bytes() -> None:
    first, second = (onnx_model(preset_of("outlier4-12bit")) for _ in range(2))
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )


# --- shapes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5,), (0,), (1, 0), (3, 4), (2, 3, 2, 2)])
@pytest.mark.parametrize("name", ["int8-linear", "outlier4-top4", "int8-log"])
@pytest.mark.parametrize("form", ["codes", "float"])
def test_any_leading_shape(shape: tuple[int, ...], name: str, form: Any) -> None:
    model = preset_of(name)
    leading = [f"axis_{i}" for i in range(len(shape))]
    made = onnx_model(model, form=form, leading=leading)
    onnx.checker.check_model(made, full_check=True)
    rng = np.random.default_rng(3)
    real = rng.normal(size=(*shape, model.dim)).astype(np.float32) * 2
    codes = model.quantize(real)
    x = codes if form == "codes" else real
    want = model(codes)
    if form == "float":
        want = model.dequantize(want).astype(np.float32)
    for runner in (cpu_session(made), ReferenceEvaluator(made)):
        (y,) = runner.run(None, {"x": x})
        assert y.shape == want.shape and y.dtype == want.dtype
        assert (y == want).all()


@pytest.mark.parametrize("dim", [1, 2, 3, 16, 31, 1000, 4099])
def test_any_dim(dim: int) -> None:
    model = preset_of("int8-linear", dim)
    codes = np.concatenate([c.codes for c in plan(model, 0, 0).classes])
    assert (OrtBackend(model).run(codes) == model(codes)).all()
    assert (ReferenceBackend(model).run(codes) == model(codes)).all()


def test_a_sum_that_float32_does_not_hold() -> None:
    """All codes at the end of the format: 32 Mi for 2048 elements."""
    model = preset_of("int8-linear", 2048)
    codes = np.array([[-128], [127], [1]]) * np.ones((3, 2048), np.int64)
    _, traced = model(codes, trace=True)
    assert traced["sum"].max() > 1 << 24
    backend = OrtBackend(model)
    assert (backend.trace(codes)["sum"] == traced["sum"]).all()
    assert (backend.run(codes) == model(codes)).all()


# --- real values at the edges -----------------------------------------------------------------


def real_values(model: RMSNorm, seed: int) -> np.ndarray:
    """Real rows about x's codes: between them, on ties, beyond the format, tiny, zero, infinite."""
    rng, form = np.random.default_rng(seed), model.assembly.x_format
    codes = rng.integers(form.lo - 3, form.hi + 4, (6, model.dim))
    offset = rng.choice([0.0, 0.5, -0.5, 0.25, 0.49999997], codes.shape)
    rows = (codes - form.zero_point + offset) * float(form.scale)
    loud = rng.standard_normal((2, model.dim)) * 1e30
    tiny = rng.standard_normal((1, model.dim)) * 1e-41
    return np.concatenate([rows, loud, tiny, np.zeros((1, model.dim))]).astype(np.float32)


@pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.SpecWarning")
@pytest.mark.parametrize("opset", [13, 21])
def test_float_form_is_quantize_norm_dequantize(opset: int) -> None:
    compared = 0
    for seed in range(opset * 1000, opset * 1000 + 40):
        made = spec_model(seed)
        if made is None:
            continue
        model, _ = made
        real = real_values(model, seed)
        want = model.dequantize(model(model.quantize(real))).astype(np.float32)
        file = onnx_model(model, form="float", opset=opset, leading=("rows",))
        (y,) = cpu_session(file, LEVELS[seed % 4]).run(None, {"x": real})
        assert y.dtype == np.float32
        assert (y == want).all(), seed
        if opset >= 19:  # the first with a DequantizeLinear in onnx.reference
            quiet = slice(0, 6)  # whose QuantizeLinear rounds to int32
            (y,) = ReferenceEvaluator(file).run(None, {"x": real[quiet]})
            assert (y == want[quiet]).all(), seed
        compared += 1
    assert compared > 30


X_MODES = [
    {"rounding": r, "overflow": o}
    for r in ("TRN", "TRN_ZERO", "RND", "RND_ZERO", "RND_MIN_INF", "RND_INF", "RND_CONV")
    for o in ("SAT", "SAT_SYM", "SAT_ZERO", "WRAP")
]


@pytest.mark.parametrize("modes", X_MODES, ids=lambda m: "-".join(m.values()))
def test_float_form_in_every_mode_of_x(modes: dict[str, str]) -> None:
    base = preset_of("int8-linear", 5).spec.to_dict()
    for bits in (8, 5, 16, 24):
        base["x"] = {"bits": bits, "signed": True, "scale": 0.037, **modes}
        if bits > 16:
            base["row_exponent"] = {"bits": 12}
        model = RMSNorm(RMSNormSpec.model_validate(base), np.ones(5))
        real = real_values(model, bits)
        want = model.dequantize(model(model.quantize(real))).astype(np.float32)
        for opset in (13, 21):
            file = onnx_model(model, form="float", opset=opset, leading=("rows",))
            assert (cpu_session(file).run(None, {"x": real})[0] == want).all(), (bits, opset)


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [12, 0, -1, 1000])
def test_opsets_that_do_not_do(opset: int) -> None:
    with pytest.raises(ApproxNormError, match=rf"opset is {opset}; allowed: 13 to"):
        onnx_model(preset_of("int8-linear"), opset=opset)


@pytest.mark.parametrize("ir_version", [7, 0, 99])
def test_ir_versions_that_do_not_do(ir_version: int) -> None:
    with pytest.raises(ApproxNormError, match=rf"ir_version is {ir_version}; allowed: 8"):
        onnx_model(preset_of("int8-linear"), ir_version=ir_version)


def test_the_yardstick_has_no_onnx() -> None:
    base = preset_of("int8-linear").spec.to_dict()
    base["rsqrt"] = {"method": "exact"}
    base["normalize"] = {"method": "multiply"}
    model = RMSNorm(RMSNormSpec.model_validate(base), np.ones(37))
    with pytest.raises(ApproxNormError, match="yardstick"):
        code_parts(model, opset=21, x="x", y="y")


def test_a_row_alone_has_no_axis_of_rows() -> None:
    with pytest.raises(ApproxNormError, match="leading is empty"):
        onnx_model(preset_of("int8-linear"), leading=())


def test_loud_values_saturate_in_the_reference_too() -> None:
    """Left shifts that pass int32, which its QuantizeLinear rounds to."""
    base = preset_of("int8-linear", 4).spec.to_dict()
    base["y"] = {
        "bits": 8,
        "signed": True,
        "scale": 2.0**-60,
        "rounding": "RND_CONV",
        "overflow": "SAT",
    }
    model = RMSNorm(RMSNormSpec.model_validate(base), np.array([0.5, -0.5, 0.01, 1.0]))
    codes = np.array([[1, 2, -3, 4], [0, 0, 0, 0], [127, -128, 1, 0]])
    want = model(codes)
    assert want.max() == 127 and want.min() == -128
    assert (OrtBackend(model).run(codes) == want).all()
    assert (ReferenceBackend(model).run(codes) == want).all()
