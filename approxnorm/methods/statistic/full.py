"""The exact sum of squares, over the whole row or a subset of it."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal, Self

from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.methods.statistics import STATISTICS, Declared, Statistic
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder, Port


def sum_of_squares(
    method: Statistic, b: DatapathBuilder, x: Port, start: int, count: int | None, stride: int
) -> Declared:
    """Square each element and sum a static subset of the row exactly."""
    available = len(range(start, b.dim, stride))
    size = available if count is None else count
    if size < 1 or size > available:
        raise ApproxNormError(
            f"statistic.count is {size}; a row of {b.dim} has {available} elements from start"
            f" {start} with stride {stride}; allowed: 1 to {available}"
        )
    square = b.element("square_stage", lambda v: ops.named("square", v * v), x)
    total = b.sum("sum", square, start, size, stride)
    return Declared(method.accumulate(b, total), Fraction(size))


@STATISTICS.register
class Full(Statistic):
    """The sum of the squares of all elements."""

    method: Literal["full"] = "full"

    summary: ClassVar[str] = "every element squared exactly"

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        return sum_of_squares(self, b, x, 0, None, 1)


@STATISTICS.register
class Prefix(Statistic):
    """The squares of the first ``count`` elements only, or of a ``fraction`` of the row.

    On models with outlier channels the estimate may be wrong by a factor of tens.
    """

    method: Literal["prefix"] = "prefix"
    count: int | None = Field(default=None, ge=1)
    fraction: float | None = Field(default=None, gt=0, le=1)

    summary: ClassVar[str] = "the first count elements squared"
    source: ClassVar[str] = "pRMSNorm, Zhang & Sennrich, NeurIPS 2019"

    def resolved(self, dim: int) -> Self:
        if (self.count is None) == (self.fraction is None):
            raise ApproxNormError("statistic needs count or fraction, and only one of them")
        if self.fraction is None:
            return self
        count = max(1, round(dim * Fraction(repr(self.fraction))))
        return self.model_copy(update={"count": count, "fraction": None})

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        return sum_of_squares(self, b, x, 0, self.count, 1)


@STATISTICS.register
class Strided(Statistic):
    """The squares of every ``stride``-th element from ``start``; ``count`` of them, or all."""

    method: Literal["strided"] = "strided"
    start: int = Field(default=0, ge=0)
    stride: int = Field(default=2, ge=1)
    count: int | None = Field(default=None, ge=1)

    summary: ClassVar[str] = "every stride-th element squared"
    source: ClassVar[str] = "subsampled statistics as in HAAN, DATE 2025 (arXiv 2502.11832)"

    def resolved(self, dim: int) -> Self:
        if self.start >= dim:
            raise ApproxNormError(
                f"statistic.start is {self.start}; allowed: 0 to {dim - 1}, within the row"
            )
        if self.count is not None:
            return self
        return self.model_copy(update={"count": len(range(self.start, dim, self.stride))})

    def declare(self, b: DatapathBuilder, x: Port) -> Declared:
        return sum_of_squares(self, b, x, self.start, self.count, self.stride)
