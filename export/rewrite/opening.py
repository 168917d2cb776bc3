"""A model ready to be changed: read, known to run, and its norms found."""

from __future__ import annotations

from pathlib import Path

import onnx

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms import Findings, find_norms
from approxnorm.export.rewrite.external import reader
from approxnorm.export.rewrite.model_file import load_model
from approxnorm.export.rewrite.session import Session


def open_model(path: Path) -> tuple[onnx.ModelProto, Findings]:
    """The model of a file and what looks like an RMSNorm in it.

    Raises ApproxNormError as ``load_model`` does, and if ONNX Runtime does not take the model:
    that is asked first, so that the search only meets well-formed nodes.
    """
    model = load_model(path)
    try:
        Session(model, path)
    except ApproxNormError as error:
        if not _has_bfloat16(model):
            raise
        raise ApproxNormError(
            f"{path} computes in bfloat16, for which ONNX Runtime's CPU provider has few operators"
            f" ({error}); export the model in float32"
        ) from None
    return model, find_norms(model, reader(path))


def _has_bfloat16(model: onnx.ModelProto) -> bool:
    graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    types = {v.type.tensor_type.elem_type for v in values} | {
        t.data_type for t in graph.initializer
    }
    return onnx.TensorProto.BFLOAT16 in types
