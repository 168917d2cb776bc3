"""Two tables and one adder: the smallest step beyond a direct table."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.methods.rsqrt.multipartite import Multipartite
from approxnorm.tables.error import StageFunction
from approxnorm.tables.target import RSQRT, FunctionName, Target


@RSQRT_METHODS.register
class Bipartite(FunctionMethod):
    """f(m) ~ A[(n0, n1)] + s * B[(n0, |d|)], symmetric tables.

    split: (n0, n1, n2), the fraction's bits from the top; d is the n2 bits' distance from the
    middle of their range, s its sign. bits, offset_bits: fraction bits of the entries of A and B.
    It is ``multipartite`` with index_bits = n0 + n1 and offsets = [[n0, n2]].
    """

    method: Literal["bipartite"] = "bipartite"
    split: tuple[int, int, int] = Field(default=(3, 3, 3), strict=False)
    bits: int = Field(default=12, ge=2, le=24)
    offset_bits: int | None = Field(default=None, ge=2, le=24)
    base_bits: int | None = Field(default=None, ge=0, le=11)

    summary: ClassVar[str] = "two tables and one adder, no multiplier"
    source: ClassVar[str] = "Schulte & Stine, ARITH 1997 (symmetric bipartite tables)"
    functions: ClassVar[tuple[FunctionName, ...]] = ("rsqrt", "reciprocal", "log2", "exp2")

    def resolved(self) -> Self:
        """offset_bits: bits; frac_bits: n0 + n1 + n2; out_bits: offset_bits."""
        n0, n1, n2 = self.split
        if n0 < 0 or n1 < 1 or n2 < 1 or n0 + n1 > 12:
            raise ApproxNormError(
                f"rsqrt.split is {list(self.split)}; allowed: n0 from 0, n1 and n2 from 1, and "
                "n0 + n1 at most 12"
            )
        general = self._general().resolved()
        fields = ("offset_bits", "frac_bits", "out_bits")
        return self.model_copy(update={name: getattr(general, name) for name in fields})

    def build(self, target: Target = RSQRT) -> StageFunction:
        return self._general().resolved().build(target)

    def _general(self) -> Multipartite:
        n0, n1, n2 = self.split
        return Multipartite(
            index_bits=n0 + n1,
            offsets=((n0, n2),),
            bits=self.bits,
            offset_bits=self.offset_bits,
            base_bits=self.base_bits,
            frac_bits=self.frac_bits,
            out_bits=self.out_bits,
            rounding=self.rounding,
        )
