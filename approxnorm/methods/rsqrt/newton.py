"""A small table for a seed, then Newton's iteration."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Literal, Self

from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import MAX_FRAC_BITS, RSQRT_METHODS, FunctionMethod
from approxnorm.methods.iteration import Iteration
from approxnorm.methods.rsqrt.direct import Direct
from approxnorm.methods.rsqrt.multipartite import Multipartite, Offset
from approxnorm.tables.error import StageFunction
from approxnorm.tables.target import RSQRT, Target


@RSQRT_METHODS.register
class Newton(FunctionMethod):
    """s <- s * (3 + delta - m * s**2) / 2, ``steps`` times, from a table s.

    seed_index_bits, seed_bits: the seed, a minimax direct table, and its entries' fraction bits.
    seed_offsets: if given, the seed is multipartite with these offset tables.
    recenter: delta = 1.5 * e**2 for a seed error e, which halves the one-sided error; else 0.
    step_bits: fraction bits of the values between steps. work_bits: those of s**2 and m * s**2.
    Three multipliers a step. The constant of a norm cannot be folded in.
    """

    method: Literal["newton"] = "newton"
    seed_index_bits: int = Field(default=5, ge=1, le=12)  # an octave
    seed_bits: int = Field(default=9, ge=2, le=20)
    seed_offsets: tuple[Offset, ...] = Field(default=(), strict=False)
    steps: int = Field(default=1, ge=1, le=4)
    recenter: bool = True
    step_bits: int | None = Field(default=None, ge=2, le=28)
    work_bits: int | None = Field(default=None, ge=4, le=28)

    summary: ClassVar[str] = "table seed and Newton steps of three multipliers each"
    source: ClassVar[str] = "Newton-Raphson; the constant as in optimal Goldschmidt seeds"
    folds_constant: ClassVar[bool] = False

    def resolved(self) -> Self:
        """out_bits: 2**steps * (seed address + 2) + 3, at most 24; frac_bits: out_bits - 1.

        work_bits: out_bits + 2. step_bits: work_bits, but at most twice the seed's plus 2.
        """
        address = self.seed_index_bits + sum(b for _, b in self.seed_offsets)
        reach = min(24, (address + 2) * 2**self.steps + 3)
        out_bits = reach if self.out_bits is None else self.out_bits
        frac_bits = self.frac_bits
        if frac_bits is None:
            frac_bits = max(address, min(23, out_bits - 1))
        work_bits = max(4, min(28, out_bits + 2)) if self.work_bits is None else self.work_bits
        step_bits = self.step_bits
        if step_bits is None:
            step_bits = min(work_bits, 2 * self.seed_bits + 2)
        update = {"frac_bits": frac_bits, "out_bits": out_bits}
        found = self.model_copy(update=update | {"work_bits": work_bits, "step_bits": step_bits})
        found.seed()  # refuses an illegal seed
        return found

    def seed(self) -> FunctionMethod:
        """The seed's own method, resolved."""
        if not self.seed_offsets:
            return Direct(
                index_bits=self.seed_index_bits, bits=self.seed_bits, frac_bits=self.frac_bits
            ).resolved()
        address = self.seed_index_bits + sum(bits for _, bits in self.seed_offsets)
        if address > MAX_FRAC_BITS:
            raise ApproxNormError(
                f"rsqrt.seed_offsets and seed_index_bits address {address} bits; allowed: at most"
                f" {MAX_FRAC_BITS}"
            )
        return Multipartite(
            index_bits=self.seed_index_bits,
            offsets=self.seed_offsets,
            bits=self.seed_bits,
            frac_bits=self.frac_bits,
        ).resolved()

    def build(self, target: Target = RSQRT) -> StageFunction:
        self.check_target(target)
        return _stage(self)


@lru_cache(maxsize=64)
def _stage(method: Newton) -> StageFunction:
    assert method.step_bits is not None and method.work_bits is not None
    iteration = Iteration(
        method.f,
        method.o,
        method.seed_bits,
        method.step_bits,
        method.work_bits,
        method.steps,
        method.recenter,
        method.rounding,
    )
    return iteration.build(method.seed().build(RSQRT))
