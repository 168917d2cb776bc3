"""Bit-accurate models of hardware RMSNorm: one spec, the same output codes everywhere."""

from approxnorm.errors import ApproxNormError
from approxnorm.model import RMSNorm
from approxnorm.rmsnorm import EpsWarning, GammaWarning, SpecWarning, assemble
from approxnorm.spec import RMSNormSpec, load_spec, preset, preset_names
from approxnorm.version import __version__

__all__ = [
    "ApproxNormError",
    "EpsWarning",
    "GammaWarning",
    "RMSNorm",
    "RMSNormSpec",
    "SpecWarning",
    "__version__",
    "assemble",
    "load_spec",
    "preset",
    "preset_names",
]
