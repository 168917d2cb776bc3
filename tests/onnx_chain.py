"""An ONNX model of several norms."""

from __future__ import annotations

import onnx
from onnx import helper

from approxnorm import RMSNorm
from approxnorm.export.onnx import DOMAIN, DOMAIN_VERSION, Parts, code_parts


def chain(*models: RMSNorm) -> onnx.ModelProto:
    """Norms on codes, one after the other, each with a function of its own."""
    parts: list[Parts] = []
    for i, model in enumerate(models):
        x, y = "x" if i == 0 else f"v{i}", "y" if i == len(models) - 1 else f"v{i + 1}"
        name = "ApproxRMSNorm" if i == 0 else f"ApproxRMSNorm_{i + 1}"
        parts.append(code_parts(model, opset=21, x=x, y=y, prefix=f"norm{i}/", function_name=name))
    ends = [
        helper.make_tensor_value_info(n, onnx.TensorProto.INT8, [2, models[0].dim]) for n in "xy"
    ]
    graph = helper.make_graph(
        [n for p in parts for n in p.nodes],
        "chain",
        ends[:1],
        ends[1:],
        [t for p in parts for t in p.initializers],
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, DOMAIN_VERSION)],
        functions=[p.function for p in parts],
        ir_version=10,
    )
