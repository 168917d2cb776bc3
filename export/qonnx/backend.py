"""The norm run by QONNX's executor, as ``approxnorm check`` runs it."""

from __future__ import annotations

import numpy as np
from qonnx.core.onnx_exec import execute_onnx

from approxnorm.export.qonnx.model import qonnx_model
from approxnorm.model import RMSNorm


class QonnxBackend:
    """``execute_onnx`` on the model of form "codes", its checks of datatypes included."""

    def __init__(self, model: RMSNorm, lanes: int = 8) -> None:
        self.model = model
        self._wrapper = qonnx_model(model)

    def run(self, codes: np.ndarray) -> np.ndarray:
        """Output codes (rows, dim) of input codes (rows, dim)."""
        for name in ("x", "y"):
            self._wrapper.set_tensor_shape(name, codes.shape)
        y: np.ndarray = execute_onnx(self._wrapper, {"x": codes.astype(self.model.x_dtype)})["y"]
        return y
