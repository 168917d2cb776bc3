"""The NumPy model from a node alone: what rebuilds it, what is refused, and onnx.reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hls_cases import preset_model
from norm_specs import VARIANTS, build, rows
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_chain import chain

from approxnorm import RMSNorm
from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx import onnx_model
from approxnorm.export.onnx.parameters import parameters
from approxnorm.export.onnx.rebuild import check_parameters, model_of_node
from approxnorm.export.onnx.reference_op import reference_ops

Change = Callable[[onnx.NodeProto], Any]


def node_of(model: RMSNorm) -> onnx.NodeProto:
    (node,) = onnx_model(model).graph.node
    return node


def attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto:
    return next(a for a in node.attribute if a.name == name)


def drop(name: str) -> Change:
    return lambda node: node.attribute.remove(attribute(node, name))


def put(name: str, value: Any) -> Change:
    def change(node: onnx.NodeProto) -> None:
        attribute(node, name).CopyFrom(helper.make_attribute(name, value))

    return change


def edited_spec(node: onnx.NodeProto) -> None:
    spec = attribute(node, "spec")
    spec.s = spec.s.replace(b'"eps":1e-05', b'"eps":1e-06')


# --- the model of a node ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.SpecWarning")
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_node_rebuilds_its_model(variant: str) -> None:
    model = build(variant)
    made = model_of_node(node_of(model))
    assert made.digest == model.digest
    assert made.spec == model.spec
    assert (made.gamma == model.gamma).all()


def test_warnings_about_a_spec_are_given_once(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.warns(match="eps is 0.001, below one unit"):
        spec = build("linear").spec.replace(eps_guard=0, x="ap_fixed<12,12>")
        model = RMSNorm(spec, build("linear").gamma)
    recwarn.clear()
    assert model_of_node(node_of(model)).digest == model.digest
    assert not recwarn.list


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("gamma"), "has no attribute gamma with a value; export it again with this version"),
        (drop("digest"), "has no attribute digest"),
        (drop("spec"), "has no attribute spec"),
        (put("gamma", "12"), "has no attribute gamma with a value"),
        (put("gamma", [1] * 64), "its attribute digest is .*, but its spec and gamma make a model"),
        (put("gamma", [1] * 63), r"spec and gamma make no model \(gamma has shape \(63,\)"),
        (put("gamma", [1] * 63 + [999]), r"make no model \(gamma holds the code 999"),
        (put("digest", "0" * 64), "its attribute digest is 0000.* whose digest is [0-9a-f]{64} in"),
        (put("digest", b"\xff"), "its attribute digest is .*, but"),
        (put("spec", "[]"), "spec and gamma make no model"),
        (put("spec", "{"), "spec and gamma make no model"),
        (put("spec", '{"norm": "layernorm"}'), "spec and gamma make no model"),
        (edited_spec, "its attribute digest is"),
        (lambda node: node.output.append("sum"), "has 2 outputs; the NumPy model gives y alone"),
    ],
)
def test_a_node_without_its_model_is_refused_by_name(change: Change, message: str) -> None:
    node = node_of(preset_model("int8-linear", 64))
    before = node.SerializeToString()
    change(node)
    assert node.SerializeToString() != before
    with pytest.raises(ApproxNormError, match=rf"^node ApproxRMSNorm \(ApproxRMSNorm\).*{message}"):
        model_of_node(node)


def test_parameters_are_compared_by_value() -> None:
    model = preset_model("int8-log", 64)
    node, given = node_of(model), parameters(model)
    assert list(node.input) == ["x", *given]
    check_parameters(node, model, [v.astype(np.float32) for v in given.values()])
    for name in given:
        changed = {n: v + (n == name) for n, v in given.items()}
        with pytest.raises(ApproxNormError, match=f"its input {name} is not what"):
            check_parameters(node, model, list(changed.values()))
    del node.input[-1]
    with pytest.raises(ApproxNormError, match=r"has 6 inputs; its spec asks for 7: x, gamma_log"):
        check_parameters(node, model, list(given.values()))


# --- onnx.reference ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.SpecWarning")
@pytest.mark.parametrize("variant", ["linear", "zero_points", "log", "row_exponent_outliers"])
def test_the_reference_runs_the_model_in_place_of_the_body(variant: str) -> None:
    model = build(variant)
    made = onnx_model(model, leading=("rows",))
    # A body that could not be run: so it was not.
    del made.functions[0].node[1:]
    codes = rows(model, 20)
    evaluator = ReferenceEvaluator(made, new_ops=reference_ops(made))
    (y,) = evaluator.run(None, {"x": codes.astype(model.x_dtype)})
    want = model(codes)
    assert y.dtype == want.dtype
    assert (y == want).all()


def test_the_reference_runs_every_norm_of_a_model() -> None:
    first = preset_model("int8-linear", 64)
    second = RMSNorm(first.spec, np.full(64, 3))
    made = chain(first, second)
    ops = reference_ops(made)
    assert [op.__name__ for op in ops] == ["ApproxRMSNorm", "ApproxRMSNorm_2"]
    codes = np.arange(-64, 64).reshape(2, 64)
    (y,) = ReferenceEvaluator(made, new_ops=ops).run(None, {"x": codes.astype(np.int8)})
    assert (y == second(first(codes))).all()


def test_the_reference_refuses_what_the_model_would_not_see() -> None:
    model = preset_model("int8-linear", 64)
    made = onnx_model(model)
    table = next(t for t in made.graph.initializer if t.name == "rsqrt_c0")
    table.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(table) + 1, table.name))
    evaluator = ReferenceEvaluator(made, new_ops=reference_ops(made))
    with pytest.raises(ApproxNormError, match="its input rsqrt_c0 is not what"):
        evaluator.run(None, {"x": np.zeros((1, 1, 64), np.int8)})
