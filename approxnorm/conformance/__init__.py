"""Exact equality: backends against the model, and what a user's hardware wrote against vectors."""

from approxnorm.conformance.backends import open_backends
from approxnorm.conformance.check import BackendResult, CheckResult, check, check_classes
from approxnorm.conformance.compare import Comparison, SignalResult, compare

__all__ = [
    "BackendResult",
    "CheckResult",
    "Comparison",
    "SignalResult",
    "check",
    "check_classes",
    "compare",
    "open_backends",
]
