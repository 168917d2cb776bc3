"""QONNX: its executor and its passes on our node, datatypes, and Quant at the edges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hls_cases import preset_model
from norm_specs import VARIANTS, build, rows
from onnx import numpy_helper
from onnx_chain import chain
from onnx_models import write_block
from qonnx.core.datatype import DataType
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.custom_op.general.quant import quant
from qonnx.custom_op.registry import getCustomOp, is_custom_op
from qonnx.transformation.base import Transformation
from qonnx.transformation.fold_constants import FoldConstants
from qonnx.transformation.general import (
    GiveReadableTensorNames,
    GiveUniqueNodeNames,
    GiveUniqueParameterTensors,
    RemoveStaticGraphInputs,
    RemoveUnusedTensors,
    SortGraph,
)
from qonnx.transformation.infer_datatypes import InferDataTypes
from qonnx.transformation.infer_shapes import InferShapes
from qonnx.transformation.qonnx_to_qcdq import QuantToQCDQ
from qonnx.util.cleanup import cleanup_model

from approxnorm import RMSNorm
from approxnorm.cli import main
from approxnorm.conformance import check
from approxnorm.errors import ApproxNormError
from approxnorm.export import ops
from approxnorm.export.onnx import DOMAIN, OP_TYPE, onnx_model
from approxnorm.export.onnx.runtimes import cpu_session
from approxnorm.export.qonnx import qonnx_model
from approxnorm.export.qonnx.containers import datatype_name, fitting_name, real_name
from approxnorm.export.qonnx.modes import ROUNDING_NAMES, quant_modes
from approxnorm.formats import Overflow, Rounding, parse_fixed
from approxnorm.spec import preset_names

DIM = 64
# In float32 alone 0.49999997 + 0.5 is 1, and so QONNX's HALF_UP makes 1 of it.
FLAW = float(np.nextafter(np.float32(0.5), np.float32(0)))

pytestmark = pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.SpecWarning")


def run(wrapper: ModelWrapper, x: np.ndarray) -> np.ndarray:
    """What QONNX's executor makes of the only input."""
    y = execute_onnx(wrapper, {wrapper.graph.input[0].name: x})[wrapper.graph.output[0].name]
    assert isinstance(y, np.ndarray)
    return y


def reals(model: RMSNorm, count: int = 6) -> np.ndarray:
    """float32 rows (count, dim) with ties, with what saturates, infinities and tiny values."""
    rng = np.random.default_rng(1)
    form = model.assembly.x_format
    halves = rng.integers(2 * form.lo - 8, 2 * form.hi + 8, (count, model.dim)) / 2
    x = (halves * float(form.scale)).astype(np.float32)
    x[1] *= np.float32(0.01)
    x[2, ::5] += np.float32(float(form.scale) / 3)
    x[3, :4] = np.inf, -np.inf, 3e38, -1e-40
    x[4, :2] = 0.0, -0.0
    return x


def due(model: RMSNorm, x: np.ndarray) -> np.ndarray:
    return model.dequantize(model(model.quantize(x))).astype(np.float32)


def with_formats(model: RMSNorm, **formats: str) -> RMSNorm:
    return RMSNorm(model.spec.replace(**formats), model.gamma)


# --- codes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_executed_on_codes(variant: str) -> None:
    model = build(variant)
    codes = rows(model, 30)
    want = model(codes)
    y = run(qonnx_model(model, leading=(len(codes),)), codes.astype(model.x_dtype))
    assert y.dtype == want.dtype
    assert (y == want).all()


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_executed_on_codes(name: str) -> None:
    model = preset_model(name, 24)
    codes = rows(model, 30)
    y = run(qonnx_model(model, leading=(len(codes),)), codes.astype(model.x_dtype))
    assert (y == model(codes)).all()


def test_the_backend_of_check() -> None:
    result = check(preset_model("int8-log", 24), ["qonnx"], rows=40, level=0)
    assert result.equal, result.lines()
    assert result.backends["qonnx"].rows > 40


def test_the_file_of_codes_is_that_of_onnx_with_datatypes() -> None:
    model = preset_model("int8-linear", DIM)
    codes = np.arange(-96, 96).reshape(3, 64).clip(-128, 127).astype(np.int8)
    wrapper = qonnx_model(model, leading=(3,))
    plain = onnx_model(model, leading=(3,))
    assert wrapper.model.functions == plain.functions
    assert [n.attribute for n in wrapper.graph.node] == [n.attribute for n in plain.graph.node]
    (y,) = cpu_session(wrapper.model).run(None, {"x": codes})
    assert (y == model(codes)).all()


def test_codes_that_float32_does_not_hold_are_exact_in_integers() -> None:
    base = build("row_exponent")
    wide = {"bits": 30, "signed": True, "scale": 2.0**-22}
    model = RMSNorm(base.spec.replace(x=wide), base.gamma)
    codes = np.array([[(1 << 29) - 1, (1 << 24) + 1, -(1 << 24) - 1, *range(9)]], np.int32)
    wrapper = qonnx_model(model)
    assert wrapper.get_tensor_datatype("x") == DataType["INT30"]
    assert (run(wrapper, codes) == model(codes)).all()
    message = "its input x holds the code 536870912; float32 holds every integer"
    with pytest.raises(ApproxNormError, match=message):
        run(wrapper, codes.astype(np.float32))


def test_codes_may_come_in_float32() -> None:
    model = preset_model("int8-linear", DIM)
    codes = np.arange(-32, 32)[None]
    wrapper = qonnx_model(model)
    for name in ("x", "y"):
        wrapper.set_tensor_shape(name, [1, DIM], onnx.TensorProto.FLOAT)
    y = run(wrapper, codes.astype(np.float32))
    assert y.dtype == np.float32
    assert (y == model(codes)).all()
    assert run(wrapper.transform(InferShapes()), codes.astype(np.float32)).dtype == np.float32


def test_other_values_than_codes_are_refused() -> None:
    model = preset_model("int8-linear", DIM)
    wrapper = qonnx_model(model)
    wrapper.set_tensor_datatype("x", DataType["FLOAT32"])  # else QONNX rounds by itself
    for bad, message in (
        (0.25, "its input x holds 0.25; allowed: codes, which are integers"),
        (np.nan, "its input x holds nan"),
        (np.inf, "its input x holds inf"),
        (300.0, "x holds the code 300; its format allows -128 to 127"),
    ):
        with pytest.raises(ApproxNormError, match=message):
            run(wrapper, np.full((1, DIM), bad, np.float32))
    with pytest.raises(ApproxNormError, match="its input x has dtype bool"):
        run(wrapper, np.zeros((1, DIM), bool))


# --- the operation ----------------------------------------------------------------------------


def test_every_name_that_a_norm_may_have_is_the_operation() -> None:
    for name in (OP_TYPE, f"{OP_TYPE}_2", f"{OP_TYPE}_61", f"{OP_TYPE}_{ops.MAX_NAMES}"):
        assert is_custom_op(DOMAIN, name)
        assert getattr(ops, name) is ops.ApproxRMSNorm
    assert not is_custom_op(DOMAIN, "ApproxLayerNorm")
    for name in ("ApproxRMSNorm_x", "Other_2"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(ops, name)


def test_a_model_of_several_norms_is_executed() -> None:
    first = preset_model("int8-linear", DIM)
    models = [first, RMSNorm(first.spec, np.full(DIM, 3)), preset_model("int8-log", DIM)]
    codes = want = np.arange(-64, 64).reshape(2, DIM).astype(np.int8)
    for model in models:
        want = model(want)
    wrapper = ModelWrapper(chain(*models))
    for cleaned in (wrapper.transform(InferShapes()), cleanup_model(wrapper)):
        assert (run(cleaned, codes) == want).all()
        assert len(cleaned.model.functions) == 3
    inferred = cleaned.transform(InferDataTypes())
    assert [inferred.get_tensor_datatype(n.output[0]).name for n in inferred.graph.node] == [
        "INT8",
        "INT8",
        "INT8",
    ]


def test_a_converted_model_is_executed_once_its_shapes_are_static(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_block(tmp_path)
    line = "convert model.onnx --spec int16-accurate --calibrate inputs.npz --out model.q.onnx"
    assert main(line.split()) == 0
    with np.load("inputs.npz") as inputs:
        x = inputs["x"]
    wrapper = ModelWrapper("model.q.onnx")
    assert {n.domain for n in wrapper.graph.node} == {"", DOMAIN}
    wrapper.set_tensor_shape("x", x.shape)
    for output in wrapper.graph.output:
        output.type.tensor_type.ClearField("shape")
    got = execute_onnx(wrapper.transform(InferShapes()), {"x": x})
    names = [o.name for o in wrapper.graph.output]
    want = cpu_session("model.q.onnx", "DISABLE_ALL").run(names, {"x": x})
    for name, value in zip(names, want, strict=True):
        assert (got[name] == value).all()


def test_what_was_edited_is_refused() -> None:
    model = preset_model("int8-linear", DIM)
    zeros = np.zeros((1, DIM), np.int8)
    wrapper = qonnx_model(model)
    wrapper.set_initializer("gamma", wrapper.get_initializer("gamma") + 1)
    with pytest.raises(ApproxNormError, match=r"^node ApproxRMSNorm_0 .*its input gamma is not"):
        run(wrapper, zeros)
    node = getCustomOp(wrapper.graph.node[0])
    node.set_nodeattr("digest", "0" * 64)
    with pytest.raises(ApproxNormError, match=f"digest is {'0' * 64}, but .* {model.digest} in"):
        run(wrapper, zeros)
    with pytest.raises(ApproxNormError, match="digest is 0000"):
        wrapper.transform(InferDataTypes())


def test_the_node_is_verified() -> None:
    model = preset_model("int8-log", DIM)
    wrapper = qonnx_model(model)
    node = getCustomOp(wrapper.graph.node[0])
    assert node.verify_node() == [
        "All necessary attributes exist",
        "The number of inputs is correct",
        f"The digest is that of the spec, the tables and gamma: {model.digest}",
    ]
    assert node.get_nodeattr("gamma") == model.gamma.tolist()
    node.onnx_node.input.append("x")
    with pytest.raises(ApproxNormError, match="has 8 inputs; its spec asks for 7"):
        node.verify_node()


def test_named_signals_are_not_for_qonnx() -> None:
    made = onnx_model(preset_model("int8-linear", DIM), leading=(1,), signals=("sum",))
    with pytest.raises(ApproxNormError, match="has 2 outputs"):
        run(ModelWrapper(made), np.zeros((1, DIM), np.int8))


# --- passes -----------------------------------------------------------------------------------

PASSES: dict[str, Transformation] = {
    type(p).__name__: p
    for p in (
        InferShapes(),
        InferDataTypes(),
        GiveUniqueNodeNames(),
        GiveReadableTensorNames(),
        GiveUniqueParameterTensors(),
        RemoveStaticGraphInputs(),
        RemoveUnusedTensors(),
        FoldConstants(),
        SortGraph(),
    )
}


def check_kept(before: ModelWrapper, after: ModelWrapper) -> None:
    """The node, what it carries, and what stands around it."""
    (old,), (new,) = (w.get_nodes_by_op_type(OP_TYPE) for w in (before, after))
    assert new.attribute == old.attribute
    assert len(new.input) == len(old.input)
    assert after.model.functions == before.model.functions
    assert after.model.opset_import == before.model.opset_import
    assert after.model.ir_version == before.model.ir_version
    assert [n.op_type for n in after.graph.node] == [n.op_type for n in before.graph.node]
    for a, b in zip(old.input[1:], new.input[1:], strict=True):
        assert (before.get_initializer(a) == after.get_initializer(b)).all()
        assert before.get_tensor_datatype(a) == after.get_tensor_datatype(b)
    assert before.get_tensor_datatype(old.output[0]) == after.get_tensor_datatype(new.output[0])
    onnx.checker.check_model(after.model, full_check=True)


@pytest.mark.parametrize("form", ["codes", "float"])
@pytest.mark.parametrize("name", [*PASSES, "cleanup_model"])
def test_passes_keep_the_node_and_the_bits(name: str, form: Any) -> None:
    model = preset_model("int8-log", DIM)
    x = reals(model, 6).reshape(2, 3, DIM)
    wrapper = qonnx_model(model, form=form, leading=(2, 3))
    after = cleanup_model(wrapper) if name == "cleanup_model" else wrapper.transform(PASSES[name])
    check_kept(wrapper, after)
    given, want = (x, due(model, x)) if form == "float" else (model.quantize(x), None)
    got = run(after, given)
    assert (got == (model(given) if want is None else want)).all()
    if form == "codes":
        (y,) = cpu_session(after.model).run(None, {after.graph.input[0].name: given})
        assert (y == got).all()


def test_a_saved_file_is_the_same_model(tmp_path: Any) -> None:
    model = preset_model("int8-log", DIM)
    wrapper = qonnx_model(model)
    wrapper.save(str(tmp_path / "norm.onnx"))
    assert ModelWrapper(str(tmp_path / "norm.onnx")).model == wrapper.model


@pytest.mark.parametrize("form", ["codes", "float"])
def test_the_same_model_gives_the_same_bytes(form: Any) -> None:
    made = [qonnx_model(preset_model("int8-log", DIM), form=form).model for _ in range(2)]
    assert made[0] == made[1]


# --- datatypes --------------------------------------------------------------------------------


def test_every_tensor_has_its_datatype() -> None:
    wrapper = qonnx_model(preset_model("int8-log", DIM))
    found = {a.tensor_name: a for a in wrapper.graph.quantization_annotation}
    assert {n: wrapper.get_tensor_datatype(n).name for n in found} == {
        "x": "INT8",
        "gamma_log": "UINT10",
        "gamma_negative": "BINARY",
        "gamma_zero": "BINARY",
        "rsqrt_log2_table": "UINT6",
        "log2_table": "UINT7",
        "exp2_table": "UINT9",
        "y": "INT8",
    }
    for tensor in wrapper.graph.initializer:
        values = numpy_helper.to_array(tensor)
        assert wrapper.get_tensor_datatype(tensor.name).allowed(values).all()


def test_datatypes_of_the_float_form() -> None:
    model = with_formats(preset_model("int8-linear", DIM), y="ap_fixed<10,4,RND_CONV,SAT>")
    wrapper = qonnx_model(model, form="float")
    names = ("x", "x_quant", "x_codes", "y_codes", "y_held", "y_quant", "y")
    assert [wrapper.get_tensor_datatype(n).name for n in names] == [
        "FLOAT32",
        "INT8",
        "INT8",
        "INT10",
        "INT10",
        "INT10",
        "FIXED<10,4>",
    ]
    y = run(wrapper, reals(model)[:1])
    assert DataType["FIXED<10,4>"].allowed(y).all()


@pytest.mark.parametrize(
    ("form", "codes", "real"),
    [
        ("ap_fixed<8,3>", "INT8", "FIXED<8,3>"),
        ("ap_fixed<8,-2>", "INT8", "FIXED<8,-2>"),
        ("ap_fixed<8,8>", "INT8", "FLOAT32"),  # i < w
        ("ap_ufixed<4,2>", "UINT4", "FLOAT32"),  # FIXED is signed
        ("ap_ufixed<1,1>", "UINT1", "FLOAT32"),
    ],
)
def test_names_of_formats(form: str, codes: str, real: str) -> None:
    parsed = parse_fixed(form)
    assert datatype_name(parsed) == codes
    assert real_name(parsed) == real
    datatype = DataType[codes]
    assert (datatype.min(), datatype.max()) == (parsed.lo, parsed.hi)


def test_a_scale_that_is_no_power_of_two_has_no_fixed_point() -> None:
    assert real_name(replace(parse_fixed("ap_fixed<8,3>").with_scale(0.1))) == "FLOAT32"


@pytest.mark.parametrize("lo", [-1000, -129, -128, -2, -1, 0, 1])
@pytest.mark.parametrize("hi", [1, 2, 3, 127, 128, 255, 256, 1 << 40])
def test_the_narrowest_datatype_fits(lo: int, hi: int) -> None:
    datatype = DataType[fitting_name(lo, hi)]
    assert datatype.min() <= lo and hi <= datatype.max()
    narrower = DataType[f"{'INT' if lo < 0 else 'UINT'}{max(datatype.bitwidth() - 1, 1)}"]
    assert datatype.bitwidth() == 1 or narrower.min() > lo or hi > narrower.max()


# --- Quant at the edges -----------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_float_form_is_the_models_or_refused(variant: str) -> None:
    model = build(variant)
    x_form, y_form = model.assembly.x_format, model.assembly.context.y
    named = all(f.rounding in ROUNDING_NAMES for f in (x_form, y_form))
    limits = {Overflow.SAT, Overflow.SAT_SYM}
    if not named or {x_form.overflow, y_form.overflow} - limits or x_form.zero_point:
        with pytest.raises(ApproxNormError, match='form "codes"'):
            qonnx_model(model, form="float")
        return
    x = reals(model)
    y = run(qonnx_model(model, form="float", leading=(len(x),)), x)
    assert y.dtype == np.float32
    assert (y == due(model, x)).all()


@pytest.mark.parametrize("rounding", ROUNDING_NAMES)
@pytest.mark.parametrize("form", ["ap_fixed<8,4,{},SAT>", "ap_fixed<8,4,{},SAT_SYM>"])
@pytest.mark.parametrize("scale", ["power of two", 0.037])
def test_x_is_rounded_as_its_mode_says(rounding: Rounding, form: str, scale: Any) -> None:
    model = with_formats(preset_model("int8-linear", DIM), x=form.format(rounding.value))
    if scale != "power of two":
        overflow = "SAT_SYM" if "SYM" in form else "SAT"
        modes = {"rounding": rounding.value, "overflow": overflow}
        x = {"bits": 8, "signed": True, "scale": scale, **modes}
        model = RMSNorm(model.spec.replace(x=x, eps_guard=None), model.gamma)
    real = reals(model)
    wrapper = qonnx_model(model, form="float", leading=(len(real),))
    assert (run(wrapper, real) == due(model, real)).all()
    codes = execute_onnx(wrapper, {"x": real}, return_full_exec_context=True)["x_codes"]
    assert (codes == model.quantize(real)).all()


def test_unsigned_x_and_symmetric_limits() -> None:
    base = build("linear")
    model = RMSNorm(base.spec.replace(x="ap_ufixed<9,4,RND_CONV,SAT_SYM>"), base.gamma)
    x = reals(model)
    wrapper = qonnx_model(model, form="float", leading=(len(x),))
    # An unsigned narrow range would end at 510.
    assert [a.i for n in wrapper.get_nodes_by_op_type("Quant")[:1] for a in n.attribute[:1]] == [0]
    assert (run(wrapper, x) == due(model, x)).all()


def test_y_with_a_zero_point() -> None:
    base = build("linear")
    y = {"bits": 10, "signed": False, "scale": 0.011, "zero_point": 500}
    model = RMSNorm(
        base.spec.replace(y=y | {"rounding": "RND_CONV", "overflow": "SAT"}), base.gamma
    )
    x = reals(model)
    assert (run(qonnx_model(model, form="float", leading=(len(x),)), x) == due(model, x)).all()


def test_the_one_ratio_that_qonnx_rounds_otherwise() -> None:
    """docs/qonnx.md says so; HALF_UP adds a half in float32."""
    one, zero, bits = np.float32(1), np.float32(0), np.float32(8)
    ratio = np.array([FLAW, -FLAW, 0.5, 1.4999999], np.float32)
    got = quant(ratio, one, zero, bits, signed=1, narrow=0, rounding_mode="HALF_UP")
    assert got.tolist() == [1, -1, 1, 1]
    exact = parse_fixed("ap_fixed<8,8,RND_INF,SAT>").quantize(ratio)
    assert exact.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("rounding", ROUNDING_NAMES)
@pytest.mark.parametrize("signed", [True, False])
def test_the_widest_quant_is_exact(rounding: Rounding, signed: bool) -> None:
    """At its limits, where float32 has no halves left."""
    for width in (23, 24, 25):
        form = replace(parse_fixed("ap_fixed<8,8>"), width=width, signed=signed, rounding=rounding)
        ends = [form.lo, form.hi, -(1 << 22), 1 << 22, 1 << 23, 1 << 24]
        near = [e + d for e in ends for d in (-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2)]
        values = np.array(near, np.float32)
        try:
            modes = quant_modes("x", form)
        except ApproxNormError as error:
            assert f"x has {width} bits; allowed in float32" in str(error)
            continue
        one, zero, bits = np.float32(1), np.float32(0), np.float32(modes.bits)
        got = quant(values, one, zero, bits, modes.signed, modes.narrow, modes.rounding)
        assert (got == form.quantize(values)).all(), width


@pytest.mark.parametrize(
    ("field", "form", "message"),
    [
        (
            "x",
            "ap_fixed<8,4,RND>",
            "x.rounding is RND, for which QONNX has no name; allowed: RND",
        ),
        ("x", "ap_fixed<8,4,RND_MIN_INF>", "x.rounding is RND_MIN_INF, for which"),
        ("y", "ap_fixed<8,4,RND,SAT>", "y.rounding is RND, for which"),
        ("y", "ap_fixed<8,4,RND_MIN_INF,SAT>", "y.rounding is RND_MIN_INF, for which"),
        ("x", "ap_fixed<8,4,TRN,WRAP>", "x.overflow is WRAP, which QONNX's Quant does not have"),
        ("x", "ap_fixed<8,4,TRN,SAT_ZERO>", "x.overflow is SAT_ZERO, which"),
        ("y", "ap_fixed<30,14,TRN,WRAP>", "y.overflow is WRAP, which"),
        ("y", "ap_fixed<8,4,RND_CONV,SAT_ZERO>", "y.overflow is SAT_ZERO, which"),
        ("y", "ap_fixed<26,10,RND_CONV,SAT>", r"y has 26 bits; .* 25 \(signed, RND_CONV\)"),
        ("y", "ap_ufixed<25,9,RND_CONV,SAT>", r"y has 25 bits; .* 24 \(unsigned, RND_CONV\)"),
        ("y", "ap_fixed<25,9,RND_INF,SAT>", r"y has 25 bits; .* 24 \(signed, RND_INF\)"),
        (
            "x",
            {"bits": 8, "signed": False, "scale": 0.1, "zero_point": 3},
            "x.zero_point is 3; QONNX's Quant adds it before it rounds",
        ),
    ],
)
def test_what_quant_does_not_have_is_refused_by_name(field: str, form: Any, message: str) -> None:
    model = RMSNorm(build("linear").spec.replace(**{field: form}), build("linear").gamma)
    with pytest.raises(ApproxNormError, match=rf'^{message}.*form "codes"'):
        qonnx_model(model, form="float")
    codes = rows(model, 5)
    assert (run(qonnx_model(model, leading=(len(codes),)), codes) == model(codes)).all()


@pytest.mark.parametrize("form", ["ap_fixed<8,4,RND_CONV,SAT>", "ap_fixed<6,3,RND_CONV,SAT>"])
def test_stock_onnx_runtime_runs_it_after_qonnx_has_made_qcdq_of_it(form: str) -> None:
    model = with_formats(preset_model("int8-linear", DIM), y=form)
    x = reals(model)
    wrapper = qonnx_model(model, form="float", leading=(len(x),)).transform(QuantToQCDQ())
    assert wrapper.get_nodes_by_op_type("Quant") == []
    (y,) = cpu_session(wrapper.model).run(None, {"x": x})
    assert (y == due(model, x)).all()


@pytest.mark.parametrize("leading", [("rows",), (0,), (-1,), (2.0,), (True,)])
def test_shapes_are_static(leading: Any) -> None:
    with pytest.raises(ApproxNormError, match="QONNX has static shapes only: allowed are sizes"):
        qonnx_model(preset_model("int8-linear", DIM), leading=leading)


def test_one_signed_bit_is_bipolar_to_qonnx() -> None:
    with pytest.raises(ApproxNormError, match=r"^y has 1 signed bit, which is BIPOLAR \(-1 and 1"):
        quant_modes("y", parse_fixed("ap_fixed<1,1>"))
