"""Real values in and out: how float32 becomes x's codes, and y's codes float32.

Both are bit for bit what the NumPy model's ``quantize`` and ``dequantize`` do, the latter rounded
to float32: the division is in float32, and one QuantizeLinear or DequantizeLinear does the rest
where the format is one of theirs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from approxnorm.backends.numpy_backend import storage_dtype
from approxnorm.export.onnx import rounding
from approxnorm.export.onnx.body import Body, Value
from approxnorm.export.onnx.carriers import Carrier
from approxnorm.formats import Format, Overflow, Rounding
from approxnorm.model import RMSNorm


def x_edge(model: RMSNorm, on_grid: bool) -> Format:
    """How x becomes codes: as its format says, but to the nearest code if x was made from codes.

    A code times a scale, in float32 and divided by it again, may be one ulp below the code, which
    TRN takes for the code below.
    """
    form = model.assembly.x_format
    return replace(form, rounding=Rounding.RND_CONV) if on_grid else form


def quantize(body: Body, model: RMSNorm, x: str, on_grid: bool = False) -> str:
    """Codes, in their storage type, of float32 x (..., dim); on_grid as for `x_edge`."""
    form = x_edge(model, on_grid)
    dtype = storage_dtype(model.assembly.front.inputs[0].interval)
    scale = Value(body.tensor(np.asarray(float(form.scale), np.float32)), Carrier.F32, "const")
    value = without_channel_factors(body, model, Value(x, Carrier.F32, "element"))
    info = np.iinfo(dtype)
    if _is_linear(body, form, dtype) and (form.lo, form.hi) == (info.min, info.max):
        zero = body.tensor(np.asarray(form.zero_point, dtype))
        return body.node("QuantizeLinear", [value.name, scale.name, zero])
    ratio = body.cast(body.call("Div", value, scale), Carrier.F64)
    rounded = rounding.round_real(body, ratio, form.rounding)
    limited = rounding.limited(
        body, rounded, form.lo - form.zero_point, form.hi - form.zero_point, form.overflow
    )
    if form.zero_point:
        limited = body.call("Add", limited, body.const(form.zero_point, Carrier.F64))
    return body.cast_to(limited.name, dtype)


def dequantize(body: Body, model: RMSNorm, codes: str, y: str) -> None:
    """Float32 values named y of codes in their storage type."""
    form, factors = model.assembly.context.y, model.spec.y_factors
    dtype = storage_dtype(model.assembly.require_datapath().ports["y"].interval)
    if _has_dequantize_linear(body, form, dtype):
        scale = body.tensor(np.asarray(float(form.scale), np.float32))
        says_zero = form.zero_point or body.opset < 21
        zero = [body.tensor(np.asarray(form.zero_point, dtype))] if says_zero else []
        plain = y if factors is None else body.reserve("y_over_factors")
        body.add("DequantizeLinear", [codes, scale, *zero], [plain])
        if factors is not None:
            body.add("Mul", [plain, body.tensor(factors.astype(np.float32))], [y])
        return
    value = body.cast(Value(codes, Carrier.STORED, "element"), Carrier.F64)
    if form.zero_point:
        value = body.call("Sub", value, body.const(form.zero_point, Carrier.F64))
    real = body.call("Mul", value, body.const(float(form.scale), Carrier.F64))
    if factors is not None:
        real = body.call("Mul", real, Value(body.tensor(factors), Carrier.F64, "channel"))
    body.add("Cast", [real.name], [y], to=1)


def _has_dequantize_linear(body: Body, form: Format, dtype: np.dtype) -> bool:
    """Whether DequantizeLinear takes the codes, in ONNX Runtime too.

    Its 1.32 moves one past a Transpose or Reshape by a QuantizeLinear of uint8, whatever the codes:
    before opset 21 if there is no zero point, and then values differ; from then on if there is one.
    """
    keeps_type = body.opset < 21 or form.zero_point == 0 or dtype == np.uint8
    return body.has_linear(dtype) and keeps_type


def _is_linear(body: Body, form: Format, dtype: np.dtype) -> bool:
    """Whether QuantizeLinear rounds and limits as the format does."""
    modes = (form.rounding, form.overflow) == (Rounding.RND_CONV, Overflow.SAT)
    return modes and body.has_linear(dtype)


def without_channel_factors(body: Body, model: RMSNorm, x: Value) -> Value:
    """float32 x (..., dim) over its channels' powers of two."""
    if model.spec.channel_shifts is None:
        return x
    shifts = np.array(model.spec.channel_shifts.shifts, np.int32)
    factors = np.ldexp(np.float32(1), -shifts).astype(np.float32)
    return body.call("Mul", x, Value(body.tensor(factors), Carrier.F32, "channel"))
