"""ONNX to ONNX; imported as `approxnorm.export.rewrite`.

`capture` writes what goes into a model's RMSNorms to a file, `convert` replaces them. Both run the
model in ONNX Runtime.
"""

from approxnorm.errors import ApproxNormError

try:
    from approxnorm.export.rewrite.capture import Captured, capture
    from approxnorm.export.rewrite.convert import ConvertReport, convert
    from approxnorm.export.rewrite.model_file import load_model, save_model
except ImportError as error:
    raise ApproxNormError(
        f"ONNX models need the package {error.name}, which is not installed; run"
        " pip install 'approxnorm[onnx]'"
    ) from error

__all__ = ["Captured", "ConvertReport", "capture", "convert", "load_model", "save_model"]
