"""Norms in a QONNX model of other layers: Quant at the edges where it can be, and datatypes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx
from onnx import helper
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.transformation.infer_shapes import InferShapes

from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx.parts import Parts, float_parts
from approxnorm.export.qonnx.model import annotate
from approxnorm.export.qonnx.quantised import QUANT_DOMAIN, QUANT_VERSION, quant_parts
from approxnorm.export.rewrite.placeholders import Placed
from approxnorm.model import RMSNorm


def edge_parts(model: RMSNorm, **given: Any) -> Parts:
    """What quant_parts makes, or float_parts for formats that QONNX's Quant does not have."""
    try:
        return quant_parts(model, **given)
    except ApproxNormError:
        return float_parts(model, **given)


def finish(model: onnx.ModelProto, placed: Iterable[Placed]) -> onnx.ModelProto:
    """The model with Quant's domain, shapes of all tensors, and datatypes of the norms'."""
    domains = {entry.domain for entry in model.opset_import}
    if QUANT_DOMAIN not in domains:
        model.opset_import.append(helper.make_opsetid(QUANT_DOMAIN, QUANT_VERSION))
    wrapper = ModelWrapper(model)
    for norm in placed:
        annotate(wrapper, norm.model, norm.node, norm.y)
    return wrapper.transform(InferShapes()).model
