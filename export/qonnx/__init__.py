"""QONNX: a norm as one node that QONNX runs, with its arbitrary-precision annotations.

Imported as `approxnorm.export.qonnx`; the operation itself is in `approxnorm.export.ops`.
"""

from approxnorm.errors import ApproxNormError

try:
    from approxnorm.export.qonnx.model import qonnx_model
except ImportError as error:
    _missing = (error.name or "qonnx").partition(".")[0]
    raise ApproxNormError(
        f"QONNX needs the package {_missing}, which is not installed; run"
        " pip install 'approxnorm[onnx]'"
    ) from error

__all__ = ["qonnx_model"]
