"""Brevitas layers: train with the arithmetic of the hardware, and put it into a real model."""

from approxnorm.nn.export import export_onnx
from approxnorm.nn.quant_rmsnorm import QuantRMSNorm
from approxnorm.nn.quantizers import SpecActQuant, SpecWeightQuant

__all__ = ["QuantRMSNorm", "SpecActQuant", "SpecWeightQuant", "export_onnx"]
