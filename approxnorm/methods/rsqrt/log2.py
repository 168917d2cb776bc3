"""Logarithm, halving, antilogarithm: the square root is a wire, no multiplier is needed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Overflow
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.methods.segments import Segments
from approxnorm.program import ops
from approxnorm.tables.constants import EntryRule, cell_constants, minimax_between, rounded
from approxnorm.tables.error import StageFunction, with_bound
from approxnorm.tables.search import best_candidate
from approxnorm.tables.table import Table
from approxnorm.tables.target import RSQRT, FunctionName, Target

LOG2 = Target("log2")


@RSQRT_METHODS.register
class Log2(FunctionMethod):
    """1/sqrt(m) ~ 2**-(L/2), L ~ log2(m) = octave + log2(1 + f).

    index_bits: top bits of f that address the log2 table; 0 is Mitchell's log2(1 + f) ~ f.
    form: "constant", log2(1 + f) ~ T[i]; "correction", log2(1 + f) ~ f + T[i], one adder more and
        three times as accurate.
    log_bits: fraction bits of L.
    antilog_index_bits: top bits of L/2 that address the antilog table, whose entries are the
        output; 0 is Mitchell's antilogarithm, 2**-t ~ 1 - t/2 for t in [0, 1).
    entries: rule for both tables. Minimax antilog entries take the error of L into account.
    """

    method: Literal["log2"] = "log2"
    index_bits: int = Field(default=6, ge=0, le=8)
    form: Literal["constant", "correction"] = "constant"
    log_bits: int | None = Field(default=None, ge=1, le=20)
    antilog_index_bits: int | None = Field(default=None, ge=0, le=12)
    entries: EntryRule = "minimax"

    summary: ClassVar[str] = "log2 table (or Mitchell), halve, antilog table (or Mitchell)"
    source: ClassVar[str] = "Mitchell, IRE Trans. Electron. Comput. EC-11(4), 1962"
    functions: ClassVar[tuple[FunctionName, ...]] = ("rsqrt", "log2")

    def resolved(self) -> Self:
        """frac_bits: index_bits for constants, else index_bits + 4 (Mitchell: 8).

        log_bits: index_bits + 2 for constants, else frac_bits. antilog_index_bits:
        log_bits + 1, which is all of L/2, but at most index_bits + 2; with Mitchell's logarithm 0.
        out_bits: log_bits + 4.
        """
        constant = self.form == "constant" and self.index_bits > 0
        frac_bits = self.frac_bits
        if frac_bits is None:
            frac_bits = self.index_bits if constant else max(8, self.index_bits + 4)
        Segments.check(self.index_bits, frac_bits)
        log_bits = self.log_bits
        if log_bits is None:
            log_bits = self.index_bits + 2 if constant else max(1, min(frac_bits, 20))
        antilog = self.antilog_index_bits
        if antilog is None:
            antilog = min(log_bits + 1, self.index_bits + 2) if self.index_bits else 0
        self._check_antilog(antilog, log_bits)
        out_bits = min(log_bits + 4, 30) if self.out_bits is None else self.out_bits
        update = {"frac_bits": frac_bits, "out_bits": out_bits}
        return self.model_copy(
            update=update | {"log_bits": log_bits, "antilog_index_bits": antilog}
        )

    @staticmethod
    def _check_antilog(antilog: int, log_bits: int) -> None:
        if antilog > log_bits + 1:
            raise ApproxNormError(
                f"rsqrt.antilog_index_bits is {antilog}; half of a logarithm with log_bits = "
                f"{log_bits} has {log_bits + 1} fraction bits, which is the most allowed"
            )

    @property
    def holds_constant(self) -> bool:
        return self.antilog_index_bits != 0

    def build(self, target: Target = RSQRT) -> StageFunction:
        self.check_target(target)
        if target.name == "log2":
            return self.build_log2(self.o)
        logarithm, antilog = self.build_log2(self._log_bits), self._antilog(target)

        def stage(octave: Any, frac: Any) -> Any:
            return antilog(ops.named("rsqrt_log2", logarithm(octave, frac)))

        return stage

    def build_log2(self, log_bits: int, table: str = "rsqrt_log2_table") -> StageFunction:
        """(octave, frac) -> code of log2(m) in [0, 2) with ``log_bits`` fraction bits.

        table: the name of the table that it reads.
        """
        fraction = self._log2_fraction(log_bits, table)

        def stage(octave: Any, frac: Any) -> Any:
            return ops.add(ops.shift_left(octave, log_bits), fraction(frac))

        return stage

    def _log2_fraction(self, log_bits: int, table: str) -> Any:
        """frac -> code of log2(1 + f), below 2**log_bits."""
        if self.index_bits == 0:
            limits = (0, (1 << log_bits) - 1)
            return lambda f: self._rounded_fraction(f, log_bits, limits)
        return self._read_log2(_log2_table(self, log_bits, table), log_bits)

    def _read_log2(self, table: Table, log_bits: int) -> Any:
        segments = Segments(self.index_bits, self.f)
        if self.form == "constant":
            return lambda f: ops.lookup(table, segments.index(0, f, LOG2))
        return lambda f: self._corrected(f, ops.lookup(table, segments.index(0, f, LOG2)), log_bits)

    def _rounded_fraction(self, frac: Any, log_bits: int, limits: tuple[int, int]) -> Any:
        return ops.round_shift(frac, self.f - log_bits, self.rounding, limits)

    def _corrected(self, frac: Any, correction: Any, log_bits: int) -> Any:
        limits = (0, (1 << log_bits) - 1)
        total = self._rounded_fraction(frac, log_bits, limits) + correction
        return ops.saturate(total, limits, Overflow.SAT)

    def _antilog(self, target: Target) -> Any:
        """Code of L -> code of gain * 2**-(L/2)."""
        if self.antilog_index_bits == 0:
            if target.gain_squared != 1:
                raise ApproxNormError(
                    "rsqrt.antilog_index_bits is 0: Mitchell's antilogarithm has no table to fold "
                    'the constant into; set normalize.constant to "gamma" or "multiplier"'
                )
            return self._mitchell_antilog
        return self._read_antilog(_antilog_table(self, target))

    def _read_antilog(self, table: Table) -> Any:
        return lambda code: ops.lookup(table, self._antilog_index(code))

    def _mitchell_antilog(self, code: Any) -> Any:
        one = ops.sub(4 << self._log_bits, code)  # 4 - L, in units of 2**-log_bits
        return ops.round_shift(one, self._log_bits + 2 - self.o, self.rounding)

    def _antilog_index(self, code: Any) -> Any:
        assert self.antilog_index_bits is not None
        return ops.shift_floor(code, self._log_bits + 1 - self.antilog_index_bits)

    @property
    def _log_bits(self) -> int:
        assert self.log_bits is not None
        return self.log_bits


@lru_cache(maxsize=256)
def _log2_table(method: Log2, log_bits: int, name: str) -> Table:
    segments = Segments(method.index_bits, method.f)
    if method.form == "constant":
        entries = cell_constants(LOG2, method.index_bits, log_bits, method.entries)
        entries = tuple(min(e, (1 << log_bits) - 1) for e in entries)
    else:
        entries = _corrections(method, log_bits)
    table = Table(
        name,
        entries,
        log_bits,
        segments.index_rule(LOG2),
        origin=f"{method.entries} {method.form}s, log2, {1 << method.index_bits} entries",
    )
    fraction = method._read_log2(table, log_bits)
    return with_bound([table], lambda _, frac: fraction(frac), LOG2, method.f, log_bits)[0]


def _corrections(method: Log2, log_bits: int) -> tuple[int, ...]:
    """log2(1 + f) - f, one for each segment, through the datapath's own rounding."""
    parts = Segments(method.index_bits, method.f).parts(LOG2)
    return tuple(_correction(method, log_bits, c, *part) for c, part in enumerate(parts))


def _correction(
    method: Log2, log_bits: int, cell: int, low: np.ndarray, reference: np.ndarray
) -> int:
    size = method.index_bits + 1
    place = 2 * cell + (method.entries != "left")
    center = rounded(LOG2, 0, place, size, log_bits) - ((place << log_bits) >> size)
    if method.entries != "minimax":
        return center
    base = cell << (method.f - method.index_bits)
    (best,) = best_candidate(
        lambda c, x: method._corrected(x + base, c[0], log_bits),
        [range(center - 3, center + 4)],
        low,
        reference,
        log_bits,
        relative=False,
    )
    return best


@lru_cache(maxsize=256)
def _antilog_table(method: Log2, target: Target) -> Table:
    size = method.antilog_index_bits
    assert size is not None
    if method.entries == "minimax":
        entries = _joint_antilog(method, target, size)
    else:
        entries = _plain_antilog(method, target, size)
    table = Table(
        "rsqrt_antilog_table",
        entries,
        method.o,
        f"log2[{method._log_bits}:{method._log_bits + 1 - size}]",
        origin=f"{method.entries} constants of 2**-(L/2), {1 << size} entries",
    )
    logarithm, antilog = method.build_log2(method._log_bits), method._read_antilog(table)

    def stage(octave: Any, frac: Any) -> Any:
        return antilog(logarithm(octave, frac))

    return with_bound([table], stage, target, method.f, method.o)[0]


def _plain_antilog(method: Log2, target: Target, size: int) -> tuple[int, ...]:
    """gain * 2**-t at the left end or the middle of each cell of t in [0, 1)."""
    gained = Target("exp2", target.gain_squared / 4)  # 2**-t = 2**(1-t) / 2
    shift = method.entries == "midpoint"
    ends = ((2 << size) - 2 * cell - shift for cell in range(1 << size))
    return tuple(rounded(gained, 0, end, size + 1, method.o) for end in ends)


def _joint_antilog(method: Log2, target: Target, size: int) -> tuple[int, ...]:
    """Each entry serves the arguments that reach it: minimax between their extreme values."""
    octave = np.arange(2, dtype=np.int64)[:, None]
    frac = np.arange(1 << method.f, dtype=np.int64)[None, :]
    code = method.build_log2(method._log_bits)(octave, frac)
    index = method._antilog_index(code).ravel()
    reference = target.reference(method.f)
    most = np.zeros(1 << size, np.int64)
    least = np.full(1 << size, np.iinfo(np.int64).max)
    np.maximum.at(most, index, reference[:, :-1].ravel())
    np.minimum.at(least, index, reference[:, 1:].ravel())
    plain = _plain_antilog(method.model_copy(update={"entries": "midpoint"}), target, size)
    return tuple(
        minimax_between(int(a), int(b), method.o, relative=True) if a else p
        for a, b, p in zip(most, least, plain, strict=True)
    )
