"""The float form inside a graph: runtimes move what quantises past what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hls_cases import preset_model
from onnx import helper, numpy_helper

from approxnorm import RMSNorm, RMSNormSpec
from approxnorm.export.onnx import DOMAIN, float_parts
from approxnorm.export.onnx.runtimes import LEVELS, cpu_session

FORMATS = [
    {"bits": bits, "signed": signed, "scale": 0.02, "zero_point": zero}
    for bits in (8, 16)
    for signed, zero in ((True, 0), (True, 3), (False, 0), (False, 100))
]
FOLLOWING: dict[str, tuple[Any, list[int]]] = {
    "Transpose": (lambda y: y.transpose(0, 2, 1), []),
    "Reshape": (lambda y: y.reshape(6, 8), [6, 8]),
    "Unsqueeze": (lambda y: y[None], [0]),
}


def norm_of(form: dict[str, Any]) -> RMSNorm:
    fields = preset_model("int8-linear", 8).spec.to_dict()
    fields |= {"x": form, "y": form | {"rounding": "RND_CONV", "overflow": "SAT"}}
    if form["bits"] > 8:
        fields["row_exponent"] = {"bits": 12}
    return RMSNorm(RMSNormSpec.model_validate(fields), np.linspace(-1, 1, 8))


def graph_of(model: RMSNorm, opset: int, following: str) -> onnx.ModelProto:
    """A Reshape, the norm, and an operator that runtimes let pass DequantizeLinear."""
    parts = float_parts(model, opset=opset, x="before", y="after", prefix="norm/")
    numbers = FOLLOWING[following][1]
    inputs = ["after", "numbers"] if numbers else ["after"]
    attrs = {} if numbers else {"perm": [0, 2, 1]}
    nodes = [
        helper.make_node("Reshape", ["x", "same"], ["before"]),
        *parts.nodes,
        helper.make_node(following, inputs, ["moved"], **attrs),
        helper.make_node("Identity", ["moved"], ["y"]),
    ]
    constants = {"same": [0, 0, 8], "numbers": numbers or [0]}
    graph = helper.make_graph(
        nodes,
        "around",
        [helper.make_tensor_value_info("x", 1, ["a", "b", 8])],
        [helper.make_tensor_value_info("y", 1, None)],
        [
            *parts.initializers,
            *(numpy_helper.from_array(np.array(v), n) for n, v in constants.items()),
        ],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=[parts.function], ir_version=10)


@pytest.mark.parametrize("opset", [13, 18, 20, 21, 23])
@pytest.mark.parametrize("form", FORMATS, ids=lambda f: "-".join(map(str, f.values())))
def test_what_follows_changes_no_bit(opset: int, form: dict[str, Any]) -> None:
    model = norm_of(form)
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32)
    plain = model.dequantize(model(model.quantize(x))).astype(np.float32)
    for following, (move, _) in FOLLOWING.items():
        made = graph_of(model, opset, following)
        for level in LEVELS:
            (y,) = cpu_session(made, level).run(None, {"x": x})
            assert (y == move(plain)).all(), (following, level)
