"""Real values in and out with QONNX's Quant nodes at the edges.

Quant has scale 1 here and the scales are a Div before and a Mul after, as QONNX's own
ExtractQuantScaleZeroPt would have it: what passes between Quant and the norm are the codes
themselves, so that no scale is multiplied in only to be divided out again, with a rounding each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx.body import Body, Value
from approxnorm.export.onnx.carriers import Carrier
from approxnorm.export.onnx.edges import without_channel_factors, x_edge
from approxnorm.export.onnx.parts import Parts, code_parts
from approxnorm.export.qonnx.modes import QuantModes, quant_modes
from approxnorm.formats import Format
from approxnorm.model import RMSNorm

QUANT_DOMAIN = "qonnx.custom_op.general"
QUANT_VERSION = 1


def quant_parts(
    model: RMSNorm,
    *,
    opset: int,
    x: str,
    y: str,
    prefix: str = "",
    on_grid: bool = False,
) -> Parts:
    """Nodes from float32 x (..., dim) to float32 y: Div, Quant, the norm, Quant, Mul.

    Casts to and from the norm's integers stand around it. Computes what ``float_parts`` does,
    where QONNX rounds as its names say; prefix and on_grid as there. Raises ApproxNormError as
    ``quant_modes`` does, and for an x with a zero point.
    """
    x_form, y_form = x_edge(model, on_grid), model.assembly.context.y
    if x_form.zero_point:
        raise ApproxNormError(
            f"x.zero_point is {x_form.zero_point}; QONNX's Quant adds it before it rounds, which"
            ' gives other codes at ties; allowed: 0, or export the form "codes"'
        )
    initializers: list[onnx.TensorProto] = []
    body = Body(opset, prefix, initializers)

    def number(name: str, value: Any) -> str:
        """A constant of its own: QONNX gives shared ones random names."""
        name = body.reserve(name)
        initializers.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def quant(field: str, form: Format, value: str) -> str:
        """Codes, in float32, of a ratio to the scale."""
        modes = quant_modes(field, form)
        constants = {"scale": 1.0, "zero_point": 0.0, "bits": modes.bits}
        names = [number(f"{field}_quant_{name}", constant) for name, constant in constants.items()]
        return _quant(body, [value, *names], body.reserve(f"{field}_quant"), modes)

    real = without_channel_factors(body, model, Value(x, Carrier.F32, "element")).name
    ratio = body.node("Div", [real, number("x_scale", float(x_form.scale))], "x_over_scale")
    codes = _cast(body, quant("x", x_form, ratio), "x_codes", model.x_dtype)
    inner = code_parts(
        model,
        opset=opset,
        x=codes,
        y=body.reserve("y_codes"),
        prefix=prefix,
    )
    body.nodes += inner.nodes
    held = _cast(body, inner.nodes[0].output[0], "y_held", np.dtype(np.float32))
    held = quant("y", y_form, held)  # changes no code: it says what the codes are
    if y_form.zero_point:
        held = body.node("Sub", [held, number("y_zero_point", y_form.zero_point)], "y_centered")
    factors = 1.0 if model.spec.y_factors is None else model.spec.y_factors
    body.add("Mul", [held, number("y_scale", float(y_form.scale) * factors)], [y])
    return Parts(body.nodes, [*inner.initializers, *initializers], inner.function)


def _cast(body: Body, value: str, name: str, dtype: np.dtype) -> str:
    return body.node("Cast", [value], name, to=helper.np_dtype_to_tensor_dtype(dtype))


def _quant(body: Body, inputs: list[str], output: str, modes: QuantModes) -> str:
    node = helper.make_node(
        "Quant",
        inputs,
        [output],
        domain=QUANT_DOMAIN,
        signed=int(modes.signed),
        narrow=int(modes.narrow),
        rounding_mode=modes.rounding,
    )
    body.nodes.append(node)
    return output
