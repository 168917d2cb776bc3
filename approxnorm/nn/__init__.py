"""Brevitas layers: train with the arithmetic of the hardware, and put it into a real model."""

from approxnorm.nn.bitnet import BitBlock, BitLinear
from approxnorm.nn.calibration import calibrate
from approxnorm.nn.export import export_onnx
from approxnorm.nn.probe import Norm
from approxnorm.nn.quant_rmsnorm import QuantRMSNorm
from approxnorm.nn.quantizers import SpecActQuant, SpecWeightQuant
from approxnorm.nn.registry import register_norm
from approxnorm.nn.replace import Replacement, replace_norms
from approxnorm.nn.reports import Report, report

__all__ = [
    "BitBlock",
    "BitLinear",
    "Norm",
    "QuantRMSNorm",
    "Replacement",
    "Report",
    "SpecActQuant",
    "SpecWeightQuant",
    "calibrate",
    "export_onnx",
    "register_norm",
    "replace_norms",
    "report",
]
