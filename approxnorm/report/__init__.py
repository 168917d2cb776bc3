"""The HTML report of a run: one self-contained file."""

from approxnorm.report.write import write_report

__all__ = ["write_report"]
