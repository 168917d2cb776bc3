"""What rows can hold: a sound account of elements and operands that occur together.

An element of aligned value v (what is summed and normalised) lies in a row whose operand is at
least what a spike of v has, as long as the statistic adds up contributions that are not negative.
Nothing that a row can be is left out; what is not known to be impossible is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.formats import Overflow
from approxnorm.methods.statistic.outlier_exact import OutlierExact
from approxnorm.program.datapath import Datapath, MapStage, Port, ReduceStage
from approxnorm.program.signal import Node, Program
from approxnorm.vectors.finish import Finish
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.programs import run_alone

MAX_SUMS = 1 << 25  # sums that are enumerated, at most
MAX_VALUES = 1 << 18  # aligned values that are enumerated, at most

_MONOTONE = ("input", "const", "add", "shl", "shr", "mul", "min", "max", "assume", "round_shift")


@dataclass(frozen=True)
class Kind:
    """Channels that see the same values: ``values`` ascending by ``least``.

    least: a lower bound of the operand of any row that holds the value in such a channel.
    channels: one channel for each different set of channel inputs of the last program.
    """

    values: np.ndarray
    least: np.ndarray
    channels: np.ndarray


class Reach:
    """The rows of a model. ``possible`` says whether its values can be enumerated."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.x = probe.model.assembly.row.x
        self.operand = probe.model.assembly.row.operand
        row = probe.model.spec.row_exponent
        self.bits = None if row is None else row.bits
        width = self.x.interval.hi - self.x.interval.lo
        self.possible = width < MAX_VALUES and isinstance(probe.datapath.stages[-1], MapStage)

    @cached_property
    def shifts(self) -> range:
        """Every row shift there may be; 0 alone without a row exponent."""
        port = self.probe.model.assembly.row.row_shift
        return range(1) if port is None else range(port.interval.lo, port.interval.hi + 1)

    @cached_property
    def after_x(self) -> tuple[MapStage | ReduceStage, ...]:
        """The statistic's stages: those after the one that makes the aligned x."""
        front = self.probe.model.assembly.front.stages
        made = [
            i
            for i, s in enumerate(front)
            if isinstance(s, MapStage) and self.x.name in s.program.output_names
        ]
        return front[made[0] + 1 if made else 0 :]

    def spike(self, values: np.ndarray) -> np.ndarray:
        """The operand of a row of one value that is not zero: (n,) from aligned values (n,)."""
        stages = tuple(
            replace(s, start=0, count=1, stride=1) if isinstance(s, ReduceStage) else s
            for s in self.after_x
        )
        ports = self.probe.datapath.ports
        x = Port(self.x.name, "element", self.x.interval)
        alone = Datapath(1, (x,), stages, ports, self.operand.name)
        operand: np.ndarray = NumpyBackend(alone).run({self.x.name: values[:, None]})[:, 0]
        return operand.astype(np.int64)

    @cached_property
    def bounded(self) -> bool:
        """Whether no row that holds a value has a smaller operand than that value's spike."""
        statistic = self.probe.model.spec.statistic
        if isinstance(statistic, OutlierExact) and statistic.outliers == "top":
            # The largest magnitudes are squared exactly, and the rest adds squares.
            return not any(self.narrowed())
        return all(self._adds_up(s) for s in self.after_x)

    def narrowed(self) -> Iterator[bool]:
        """Of each of the statistic's stages, whether it narrows a sum."""
        return (isinstance(s, MapStage) and s.program.name == "accumulate" for s in self.after_x)

    def _adds_up(self, stage: MapStage | ReduceStage) -> bool:
        """Contributions of each element alone, none negative, summed, then nothing but monotone."""
        ports = self.probe.datapath.ports
        if isinstance(stage, ReduceStage):
            return stage.kind == "sum" and ports[stage.source].interval.lo >= 0
        levels = {ports[n].level for n in stage.program.inputs}
        if stage.level == "element":
            return levels == {"element"}
        return all(_is_monotone(n, stage.program) for n in stage.program.nodes)

    @cached_property
    def summed(self) -> np.ndarray:
        """Which channels the operand depends on, bool (dim,)."""
        inside = np.ones(self.probe.space.dim, bool)
        for stage in self.after_x:
            if isinstance(stage, ReduceStage):
                part = np.zeros_like(inside)
                stop = stage.start + stage.count * stage.stride
                part[stage.start : stop : stage.stride] = True
                inside &= part
        return inside

    @cached_property
    def least_peak(self) -> int:
        """The least operand of a row that its exponent shifts: its peak has all bits but one."""
        if self.bits is None or not self.bounded or not self.summed.all():
            return 0
        low = 1 << (self.bits - 2)
        peaks = np.concatenate([np.arange(low, 2 * low), -np.arange(low, 2 * low + 1)])
        peaks = peaks[(peaks >= self.x.interval.lo) & (peaks <= self.x.interval.hi)]
        return int(self.spike(peaks).min())

    @cached_property
    def most_operand(self) -> int:
        """The largest operand: of sums whose every contribution is the largest there is."""
        highest = self.operand.interval.hi
        if not all(self._adds_up(s) for s in self.after_x):
            return highest
        known = {self.x.name: np.concatenate([k.values for k in self.kinds])}
        for stage in self.after_x:
            if isinstance(stage, ReduceStage):
                known[stage.outputs[0]] = known[stage.source].max(keepdims=True) * stage.count
            else:
                known |= run_alone(stage.program, {n: known[n] for n in stage.program.inputs})
        return min(highest, int(known[self.operand.name].max()))

    @cached_property
    def operands(self) -> np.ndarray | None:
        """All operands, by the sum from 0 on that makes each; None unless one sum alone does."""
        last = self.after_x[-1]
        if not isinstance(last, MapStage) or len(last.program.inputs) != 1 or not self.bounded:
            return None
        interval = self.probe.datapath.ports[last.program.inputs[0]].interval
        if interval.lo != 0 or interval.hi >= MAX_SUMS:
            return None
        sums = np.arange(interval.hi + 1, dtype=np.int64)
        operands = run_alone(last.program, {last.program.inputs[0]: sums})[self.operand.name]
        return operands if (operands[1:] > operands[:-1]).all() else None

    def sums(self, operand: np.ndarray) -> np.ndarray:
        """Operands as what contributions add up to: themselves, or the sum that makes each."""
        return operand if self.operands is None else np.searchsorted(self.operands, operand)

    def least_operand(self, shift: int) -> int:
        return self.least_peak if shift else 0

    @cached_property
    def kinds(self) -> list[Kind]:
        """All channels, by the values they see and whether these are summed."""
        probe, dim = self.probe, self.probe.space.dim
        factors = np.zeros(dim, np.int64)
        if "channel_shift" in probe.channels:
            factors = np.asarray(probe.channels["channel_shift"], np.int64)
        keys = 2 * factors + self.summed
        found = []
        for key in np.unique(keys):
            values = self._values(int(key) >> 1)
            known = key & 1 and self.bounded
            bound = self.spike(values) if known else np.zeros_like(values)
            order = np.argsort(bound, kind="stable")
            channels = self._different(np.flatnonzero(keys == key))
            found.append(Kind(values[order], bound[order], channels))
        return found

    def _values(self, shift: int) -> np.ndarray:
        """Aligned values of channels with a factor of 2**shift, after the row exponent if any."""
        space = self.probe.space
        low, high = space.lo, space.hi
        if self.bits is not None:
            row = self.probe.datapath.ports["x_row"].interval
            low, high = row.lo, row.hi
        return np.arange(low, high + 1, dtype=np.int64) << shift

    def _different(self, channels: np.ndarray) -> np.ndarray:
        """One of each set of channels that the last program cannot tell apart."""
        names = self.finish.channel_names
        if not names:
            return channels[:1]
        inputs = np.stack([self.finish.channels[n][channels] for n in names], axis=1)
        _, first = np.unique(inputs, axis=0, return_index=True)
        return channels[np.sort(first)]

    @cached_property
    def finish(self) -> Finish:
        return Finish(self.probe)


def _is_monotone(node: Node, program: Program) -> bool:
    """Whether a node of a row program never falls when its arguments, all >= 0, rise."""
    arguments = [program.nodes[a] for a in node.args]
    if node.op not in _MONOTONE or any(n.interval.lo < 0 for n in arguments[:1]):
        return False
    if node.op == "mul":
        return all(n.interval.lo >= 0 for n in arguments)
    if node.op == "round_shift":
        limited = node.attrs["lo"] is not None
        kept = node.attrs["overflow"] in (Overflow.SAT, Overflow.SAT_SYM)
        return arguments[1].op == "const" and (kept or not limited)
    return True
