"""Exact table builders and the Table type."""

from approxnorm.tables.table import Table

__all__ = ["Table"]
