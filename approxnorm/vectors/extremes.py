"""The largest y that any row can have, before its format limits it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from approxnorm.backends.numpy_backend import Arrays
from approxnorm.formats import Overflow
from approxnorm.methods.normalize.multiply import Multiply
from approxnorm.program.signal import Program
from approxnorm.vectors.factors import Classes, classes_of
from approxnorm.vectors.reach import Kind, Reach
from approxnorm.vectors.row_changes import RowTable

FAR = 1 << 60  # limits that no value reaches
MAX_SUMS = 1 << 20


class Extremes:
    """What factors a row can have that holds a value: by exhaustion over the row program."""

    def __init__(self, reach: Reach, table: RowTable) -> None:
        self.reach, self.table = reach, table
        self.normalize = reach.probe.model.spec.normalize

    @cached_property
    def classes(self) -> Classes | None:
        guard, reach = self.table.guard, self.reach
        if guard is None or not self.table.eps:
            return None
        least = min((reach.least_operand(s) << guard) + e for s, e in self.table.eps.items())
        most = (reach.most_operand << guard) + max(self.table.eps.values())
        return classes_of(self.table.program, least, most)

    def _best(self, classes: Classes, size: np.ndarray) -> np.ndarray:
        """For each class the place of the largest ``size`` from it on upward."""
        largest = np.maximum.accumulate(size[::-1])[::-1]
        place = np.where(size == largest, np.arange(len(size)), len(size))
        nearest: np.ndarray = np.minimum.accumulate(place[::-1])[::-1]
        return nearest

    def _largest_factors(self, kind: Kind, size: np.ndarray) -> Arrays | None:
        """For each value the row outputs of the largest ``size`` of all rows that hold it."""
        classes, guard = self.classes, self.table.guard
        if classes is None or guard is None:
            return None
        best = self._best(classes, size)
        place = np.zeros(len(kind.values), np.int64)
        found = np.full(len(place), -np.inf)
        for shift, eps in self.table.eps.items():
            least = np.maximum(kind.least, self.reach.least_operand(shift))
            here = best[classes.index((least << guard) + eps)]
            place = np.where(size[here] > found, here, place)
            found = np.maximum(found, size[here])
        return {n: v[place] for n, v in self.table.outputs(classes).items()}

    @cached_property
    def y(self) -> tuple[int, int] | None:
        """The least and largest y before its limits, zero point not included; None: not known."""
        if isinstance(self.normalize, Multiply) and self._rises_with_the_factor():
            return self._multiplied()
        return None

    def _rises_with_the_factor(self) -> bool:
        """y is |x|, mantissa / 2**shift and |weight| multiplied, with roundings in between; a
        product only falls where one is wrapped or set to 0 on its way."""
        middle = getattr(self.normalize, "intermediate", None)
        ports = self.reach.probe.datapath.ports
        kept = middle is None or middle.overflow in (Overflow.SAT, Overflow.SAT_SYM)
        return kept and ports["mantissa"].interval.lo >= 0

    def _multiplied(self) -> tuple[int, int] | None:
        classes = self.classes
        if classes is None:
            return None
        outputs = self.table.outputs(classes)
        # Mantissas below 2**53 and powers of two: exact in float64.
        size = np.ldexp(outputs["mantissa"].astype(np.float64), -outputs["shift"].astype(np.int32))
        ends = []
        for kind in self.reach.kinds:
            rows = self._largest_factors(kind, size)
            assert rows is not None
            for channel in self._extreme_channels(kind):
                y = self._unlimited(kind.values, channel, rows)
                ends += [int(y.min()), int(y.max())]
        return min(ends), max(ends)

    def _extreme_channels(self, kind: Kind) -> list[int]:
        weight = self.reach.probe.weights()[kind.channels]
        return [int(kind.channels[np.argmin(weight)]), int(kind.channels[np.argmax(weight)])]

    def _unlimited(self, values: np.ndarray, channel: int, rows: Arrays) -> np.ndarray:
        finish = self.reach.finish
        program = _without_limits(finish.program)
        channels = np.full(len(values), channel)
        trace = finish.paired(program, values, channels, rows)
        y = trace["y"].astype(np.int64)
        return y - self.reach.probe.model.assembly.context.y.zero_point


def _without_limits(program: Program) -> Program:
    """The last program with y's own limits taken far away."""
    place = y_rounding(program)
    node = program.nodes[place]
    far = {"lo": -FAR, "hi": FAR, "overflow": Overflow.SAT}
    nodes = list(program.nodes)
    nodes[place] = replace(node, attrs={**node.attrs, **far})
    return replace(program, nodes=tuple(nodes))


def y_rounding(program: Program) -> int:
    """The index of the round-shift that makes y, but for its zero point."""
    place = program.outputs[0]
    if program.nodes[place].op == "add":
        arguments = program.nodes[place].args
        place = next(a for a in arguments if program.nodes[a].op == "round_shift")
    return place
