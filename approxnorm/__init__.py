"""Bit-accurate models of hardware RMSNorm."""

__version__ = "0.1.0"
