"""Activation files: opened lazily, read in row blocks, checked as they stream."""

from approxnorm.inputs.files import default_activations, load_array, save_array
from approxnorm.inputs.layers import Layer, open_activations

__all__ = ["Layer", "default_activations", "load_array", "open_activations", "save_array"]
