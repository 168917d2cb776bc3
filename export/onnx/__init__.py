"""ONNX: a norm as one node whose body is standard operators, for any runtime."""

from approxnorm.errors import ApproxNormError

try:
    from approxnorm.export.onnx.model import onnx_model
    from approxnorm.export.onnx.names import (
        DEFAULT_IR,
        DEFAULT_OPSET,
        DOMAIN,
        DOMAIN_VERSION,
        MIN_OPSET,
        OP_TYPE,
    )
    from approxnorm.export.onnx.parts import Parts, code_parts, float_parts
except ImportError as error:
    _missing = (error.name or "onnx").partition(".")[0]
    raise ApproxNormError(
        f"ONNX models need the package {_missing}, which is not installed; run"
        " pip install 'approxnorm[onnx]'"
    ) from error

__all__ = [
    "DEFAULT_IR",
    "DEFAULT_OPSET",
    "DOMAIN",
    "DOMAIN_VERSION",
    "MIN_OPSET",
    "OP_TYPE",
    "Parts",
    "code_parts",
    "float_parts",
    "onnx_model",
]
