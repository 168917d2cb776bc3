"""Which operands of the row program show a change: what a directed search aims at."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from approxnorm.backends.numpy_backend import Arrays, NumpyBackend
from approxnorm.program.datapath import MapStage
from approxnorm.vectors.changes import Change
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.shapes import Shapes, sizes_for

GRID_BITS = 18  # at most 2**18 operands in the two upper octaves
SMALL_BITS = 14  # operands up to here, and as many around eps, are all in the grid


class Operands:
    """A grid of operands put through the row program alone.

    row_shift: what a row exponent shifts the rows by that have these operands, else 0; it is the
    largest there is, as eps counts least there.
    complete: the grid has every operand there is, or every fraction in both octaves, so that no
    table address is missed.
    """

    def __init__(self, probe: Probe, words: Words) -> None:
        self._probe, self._words = probe, words
        self._changed: dict[str, Arrays] = {}
        row = probe.model.spec.row_exponent
        bits = probe.space.magnitude_bits
        self.row_shift = 0 if row is None else max(0, bits - (row.bits - 1))
        most = Shapes.most(probe.space)
        # Below that size the row's peak loses a bit, and the shift is one less.
        self._sizes = ((most >> 1) + (most >> 15) if self.row_shift else 0, most)
        highest = self._highest()
        # Twice the largest that was seen, but no more than the signal can hold.
        limit = min(2 * highest + 1, probe.model.assembly.row.operand.interval.hi)
        self.whole = row is None and limit < 1 << GRID_BITS
        small = limit < 1 << GRID_BITS
        self.grid = np.arange(limit + 1) if small else self._sampled(highest)

    def rows(self, shapes: Shapes, points: np.ndarray) -> np.ndarray:
        """Values (n, dim): each shape at the size at which it has the operand of a grid point."""
        wanted = self.grid[points]
        return shapes.rows(sizes_for(self._probe, shapes, wanted, *self._sizes))

    @cached_property
    def complete(self) -> bool:
        if self.whole:
            return True
        bits = self._probe.model.assembly.context.rsqrt.f
        argument = self.trace["parity"].astype(np.int64) << bits
        if "frac" in self.trace:
            argument += self.trace["frac"]
        return len(np.unique(argument)) == 2 << bits

    def _highest(self) -> int:
        """About the largest operand that rows reach."""
        space = self._probe.space
        flat = Shapes(space, np.full((1, space.dim), 0xFFFF), np.zeros((1, space.dim), bool))
        values = flat.rows(np.array([Shapes.most(space)]))
        return max(1, int(self._probe.operand(space.codes(values))[0]))

    def _sampled(self, highest: int) -> np.ndarray:
        """Small operands, those about eps, and two octaves that dense rows reach."""
        context = self._probe.model.assembly.context
        eps = min(context.eps_code >> (context.guard + 2 * self.row_shift), highest)
        parts = [np.arange(1 << SMALL_BITS), np.arange(1 << SMALL_BITS) + eps // 2]
        # 3 and 4 bits below the largest operand.
        for lead in (highest.bit_length() - 4, highest.bit_length() - 5):
            bits = min(GRID_BITS - 1, lead)
            top = np.arange(1 << bits, 2 << bits, dtype=np.int64) << (lead - bits)
            low = self._words.bits(lead - bits, 1 << bits) if lead > bits else np.int64(0)
            parts.append(top + low)
        return np.concatenate(parts)

    @cached_property
    def trace(self) -> Arrays:
        """The row program's signals on the grid, each (points,)."""
        return self._run(self._probe.row_program())

    def changed(self, change: Change) -> Arrays:
        """The same with a change of the row program."""
        if change.name not in self._changed:
            program = self._probe.row_program(change.datapath)
            self._changed[change.name] = self._run(program)
        return self._changed[change.name]

    def differs(self, change: Change) -> np.ndarray:
        """How far a change of the row program moves its outputs at each grid point."""
        stage = self._probe.datapath.stages[self._probe.row_stage]
        assert isinstance(stage, MapStage)
        apart = np.zeros(len(self.grid), np.int64)
        for name in stage.program.output_names:
            moved = self.changed(change)[name] - self.trace[name].astype(np.int64)
            apart = np.maximum(apart, np.abs(moved))
        return apart

    def magnitude(self, point: int) -> int:
        """The largest |x| that a row of a grid point's operand can hold, about, and at least 1.

        That is the root of the row's sum of squares, as the statistic counts it; after the row
        exponent's shift.
        """
        unit = self._probe.model.assembly.context.operand_squared_unit * self._probe.space.dim
        root = math.isqrt(int(self.grid[point]) * unit.numerator // unit.denominator)
        return max(1, min(root, self._probe.space.largest >> self.row_shift))

    def _run(self, backend: NumpyBackend) -> Arrays:
        shift = np.full_like(self.grid, self.row_shift)
        operand = self._probe.model.assembly.row.operand.name
        names = [p.name for p in backend.datapath.inputs]
        inputs = {n: (self.grid if n == operand else shift)[:, None] for n in names}
        needed = {n for s in backend.datapath.programs() for n in s.program.output_names}
        needed |= {site.address for site in self._probe.sites} | {"parity", "frac"}
        traced = backend.run_traced(inputs)
        return {n: v[:, 0] for n, v in traced.items() if n in needed}
