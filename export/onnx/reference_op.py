"""The NumPy model as an operator of ``onnx.reference``, in place of the node's body.

``ReferenceEvaluator(made, new_ops=reference_ops(made))`` runs every norm of the model so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx.reference.op_run import OpRun

from approxnorm.export.onnx.names import DOMAIN
from approxnorm.export.onnx.rebuild import check_parameters, model_of_node


class ApproxRMSNorm(OpRun):
    """Codes of y (..., dim) of codes of x (..., dim), by the model that the node describes.

    Raises ApproxNormError where the model cannot be rebuilt or its digest is not the node's, for
    parameters that are not the model's, and for values that are no codes of x.
    """

    op_domain = DOMAIN

    def _run(self, x: np.ndarray, *given: np.ndarray, **_: Any) -> tuple[np.ndarray]:
        model = model_of_node(self.onnx_node)
        check_parameters(self.onnx_node, model, given)
        return (model(x),)


def reference_ops(model: onnx.ModelProto) -> list[type[OpRun]]:
    """The class under each name that norms have in the model: what ``new_ops`` takes."""
    names = {f.name for f in model.functions if f.domain == DOMAIN}
    return [type(name, (ApproxRMSNorm,), {}) for name in sorted(names)]
