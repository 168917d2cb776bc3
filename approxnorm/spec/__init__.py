"""The spec of a hardware RMSNorm: fields, files and presets."""

from approxnorm.spec.load import load_spec, preset, preset_names
from approxnorm.spec.rmsnorm_spec import SPEC_VERSION, ChannelShifts, RMSNormSpec, RowExponent

__all__ = [
    "SPEC_VERSION",
    "ChannelShifts",
    "RMSNormSpec",
    "RowExponent",
    "load_spec",
    "preset",
    "preset_names",
]
