"""A model ready to be changed: read, known to run, and its norms found."""

from __future__ import annotations

from pathlib import Path

import onnx

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
    Session(model, path)
    return model, find_norms(model, reader(path))
