"""How far the hardware is from the mathematics: measured on data, and as a proven worst case."""

from approxnorm.metrics.bounds import Bound, bound
from approxnorm.metrics.layer_errors import LayerErrors
from approxnorm.metrics.meter import ERROR_KEYS, ErrorMeter

__all__ = ["ERROR_KEYS", "Bound", "ErrorMeter", "LayerErrors", "bound"]
