"""A table of the function's values: no arithmetic at all."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.methods.segments import Segments
from approxnorm.program import ops
from approxnorm.tables.constants import EntryRule, cell_constants
from approxnorm.tables.error import StageFunction, with_bound
from approxnorm.tables.table import Table
from approxnorm.tables.target import RSQRT, FunctionName, Target


@RSQRT_METHODS.register
class Direct(FunctionMethod):
    """f(m) ~ T[i], where i is the octave bit and the fraction's top ``index_bits`` bits.

    entries: "minimax" halves the largest error of "left", which is the published LOD-driven rsqrt
    (with index_bits = 8 and bits = 15: 512 entries in Q1.15); "midpoint" lies close to minimax.
    """

    method: Literal["direct"] = "direct"
    index_bits: int = Field(default=8, ge=0, le=16)  # an octave
    bits: int = Field(default=15, ge=1, le=30)  # fraction bits of an entry, and of the output
    entries: EntryRule = "minimax"

    summary: ClassVar[str] = "one table, no multiplier; largest table"
    source: ClassVar[str] = 'entries = "left": Kang & Wang, Micromachines 17(1):84, 2026'
    functions: ClassVar[tuple[FunctionName, ...]] = ("rsqrt", "reciprocal", "log2", "exp2")

    def resolved(self) -> Self:
        frac_bits = self.index_bits if self.frac_bits is None else self.frac_bits
        Segments.check(self.index_bits, frac_bits)
        if self.out_bits not in (None, self.bits):
            raise ApproxNormError(
                f"rsqrt.out_bits is {self.out_bits}; a direct table's entry is its output, so "
                f"leave it out or give rsqrt.bits, {self.bits}"
            )
        return self.model_copy(update={"frac_bits": frac_bits, "out_bits": self.bits})

    def build(self, target: Target = RSQRT) -> StageFunction:
        return self._stage(_table(self, target), target)

    def _stage(self, table: Table, target: Target) -> StageFunction:
        segments = Segments(self.index_bits, self.f)

        def stage(octave: Any, frac: Any) -> Any:
            return ops.lookup(table, segments.index(octave, frac, target))

        return stage


@lru_cache(maxsize=256)
def _table(method: Direct, target: Target) -> Table:
    table = Table(
        f"{target.name}_table",
        cell_constants(target, method.index_bits, method.bits, method.entries),
        method.bits,
        Segments(method.index_bits, method.f).index_rule(target),
        origin=f"{method.entries} constants, {target.name}, {1 << method.index_bits} an octave",
    )
    stage = method._stage(table, target)
    return with_bound([table], stage, target, method.f, method.o)[0]
