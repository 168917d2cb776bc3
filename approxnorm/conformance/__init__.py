"""Exact equality: backends against the model, and what a user's hardware wrote against vectors."""

from approxnorm.conformance.check import BackendResult, CheckResult, check, check_classes

__all__ = [
    "BackendResult",
    "CheckResult",
    "check",
    "check_classes",
]
