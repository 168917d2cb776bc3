"""The NumPy executor: the reference semantics of a datapath, in blocks of rows.

Each node is computed in the narrowest of int16, int32 and int64 that holds its arguments, its
result and the operation's head room. Blocks are small enough to stay in cache, and large enough
that the row programs' many short calls do not count. Both are matters of speed alone: the
intervals show that no value can leave its type.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from approxnorm.backends.tabulate import MAX_BITS, Cone, ConeTable, find_cones
from approxnorm.program.datapath import Datapath, MapStage, ReduceStage
from approxnorm.program.interval import Interval, bits_signed
from approxnorm.program.ops import OPS
from approxnorm.program.signal import Node, Program

BLOCK_ELEMENTS = 1 << 19
_DTYPES = tuple((bits, np.dtype(f"int{bits}")) for bits in (16, 32, 64))

Arrays = dict[str, np.ndarray]


def storage_dtype(interval: Interval) -> np.dtype:
    """The narrowest signed or unsigned NumPy integer that holds the interval."""
    for bits in (8, 16, 32):
        for kind in ("int", "uint"):
            info = np.iinfo(f"{kind}{bits}")
            if info.min <= interval.lo and interval.hi <= info.max:
                return np.dtype(f"{kind}{bits}")
    return np.dtype(np.int64)


def _compute_dtype(intervals: list[Interval], head_room: int) -> np.dtype:
    need = head_room + max(bits_signed(i.lo, i.hi) for i in intervals)
    return next(dtype for bits, dtype in _DTYPES if need <= bits)


class _Step:
    """One node made ready: its dtype chosen, and which values are dead after it."""

    def __init__(self, node: Node, nodes: tuple[Node, ...]) -> None:
        self.node = node
        op = OPS[node.op]
        self.evaluate = op.evaluate
        intervals = [node.interval] + [nodes[i].interval for i in node.args]
        if node.op == "round_shift":  # the amount is a count, not a value of the datapath
            intervals = [node.interval, nodes[node.args[0]].interval]
        self.dtype = _compute_dtype(intervals, op.head_room)
        self.dead: list[int] = []


class _Plan:
    """A program made ready for NumPy.

    With ``narrow`` inputs (element signals of at most 16 bits), parts that depend on one of them
    alone are tabulated and only the outputs are computed; without, every named signal is.
    """

    def __init__(self, program: Program, narrow: Mapping[int, Interval] | None = None) -> None:
        self.program = program
        nodes = program.nodes
        self._constants = {
            i: np.array([[n.attrs["value"]]], _compute_dtype([n.interval], 0))
            for i, n in enumerate(nodes)
            if n.op == "const"
        }
        self._steps = {
            i: _Step(n, nodes) for i, n in enumerate(nodes) if n.op not in ("input", "const")
        }
        self._order, self._results = tuple(self._steps), self._named()
        self._cones: dict[int, tuple[Cone, ConeTable]] = {}
        if narrow is not None:
            self._tabulate(narrow)
        self._mark_dead()

    def run(self, inputs: list[np.ndarray]) -> Arrays:
        """Signals by name; values keep broadcastable (row, channel) shapes."""
        values: dict[int, np.ndarray] = dict(enumerate(inputs)) | self._constants
        for i in self._order:
            if i in self._cones:
                cone, table = self._cones[i]
                values[i] = table(values[cone.source])
            else:
                values[i] = self._evaluate(i, values)
            for dead in self._steps[i].dead:
                del values[dead]
        return {name: values[i] for i, name in self._results.items()}

    def _named(self) -> dict[int, str]:
        nodes = enumerate(self.program.nodes)
        return {i: n.name for i, n in nodes if n.name is not None and n.op != "input"}

    def _evaluate(self, i: int, values: Mapping[int, np.ndarray]) -> np.ndarray:
        step = self._steps[i]
        args = [values[a] for a in step.node.args]
        return step.evaluate(*args, dtype=step.dtype, **step.node.attrs)

    def _tabulate(self, narrow: Mapping[int, Interval]) -> None:
        cones = {c.node: c for c in find_cones(self.program, narrow)}
        self._cones = {i: (c, self._table(c)) for i, c in cones.items()}
        live = self.program.needed(given=frozenset(cones))
        self._order = tuple(i for i in self._order if i in live)
        self._results = {i: n for i, n in self._results.items() if i in self.program.outputs}

    def _table(self, cone: Cone) -> ConeTable:
        source, result = (
            storage_dtype(self.program.nodes[i].interval) for i in (cone.source, cone.node)
        )
        return ConeTable(self.program, cone, source, result)

    def _mark_dead(self) -> None:
        """Note at each step which values nothing after it reads."""
        last = {
            a: i
            for i in self._order
            for a in ((self._cones[i][0].source,) if i in self._cones else self._steps[i].node.args)
        }
        for value, user in last.items():
            if value not in self._results and value not in self._constants:
                self._steps[user].dead.append(value)


class NumpyBackend:
    """Runs a datapath on two-dimensional arrays of codes."""

    def __init__(self, datapath: Datapath) -> None:
        self.datapath = datapath
        self._traced = {id(s): _Plan(s.program) for s in datapath.programs()}
        self._fast = {id(s): _Plan(s.program, self._narrow(s)) for s in datapath.programs()}
        self._levels = {p.name: p.level for p in datapath.inputs}
        self._dtypes = {p.name: storage_dtype(p.interval) for p in datapath.signals()}

    def run(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Output codes (rows, dim) from element inputs (rows, dim) and channel inputs (dim,).

        Codes must lie within the ports' intervals; the model checks that before.
        """
        output = self.datapath.output
        rows = self._rows(inputs)
        result = np.empty((rows, self.datapath.dim), self._dtypes[output])
        for block in self._blocks(rows):
            result[block] = self._run_block(inputs, block, self._fast)[output]
        return result

    def run_traced(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Every named signal: element (rows, dim), row (rows,), channel inputs (dim,)."""
        rows, dim = self._rows(inputs), self.datapath.dim
        parts: dict[str, list[np.ndarray]] = {}
        for block in self._blocks(rows) or [slice(0, 0)]:
            values = self._run_block(inputs, block, self._traced)
            height = len(range(*block.indices(rows)))
            for port in self.datapath.signals():
                if port.level == "channel":
                    continue
                shape = (height, dim) if port.level == "element" else (height, 1)
                value = np.broadcast_to(values[port.name], shape).astype(self._dtypes[port.name])
                parts.setdefault(port.name, []).append(value)
        traced = {name: np.concatenate(blocks) for name, blocks in parts.items()}
        levels = {p.name: p.level for p in self.datapath.signals()}
        traced = {n: v[:, 0] if levels[n] == "row" else v for n, v in traced.items()}
        channels = {n: np.asarray(inputs[n]) for n, level in levels.items() if level == "channel"}
        return channels | traced

    def _rows(self, inputs: Mapping[str, np.ndarray]) -> int:
        return next(len(inputs[n]) for n, level in self._levels.items() if level == "element")

    def _blocks(self, rows: int) -> list[slice]:
        size = max(1, BLOCK_ELEMENTS // self.datapath.dim)
        return [slice(i, min(i + size, rows)) for i in range(0, rows, size)]

    def _narrow(self, stage: MapStage) -> dict[int, Interval]:
        """The stage's element inputs that are narrow enough for tables."""
        ports = [self.datapath.ports[name] for name in stage.program.inputs]
        return {
            i: p.interval
            for i, p in enumerate(ports)
            if p.level == "element" and storage_dtype(p.interval).itemsize * 8 <= MAX_BITS
        }

    def _run_block(
        self, inputs: Mapping[str, np.ndarray], block: slice, plans: Mapping[int, _Plan]
    ) -> Arrays:
        values: Arrays = {}
        for name, level in self._levels.items():
            values[name] = inputs[name][block] if level == "element" else inputs[name][None, :]
        for stage in self.datapath.stages:
            if isinstance(stage, MapStage):
                plan = plans[id(stage)]
                values |= plan.run([values[n] for n in stage.program.inputs])
            else:
                values |= _reduce(stage, values[stage.source], self.datapath)
        return values


def _reduce(stage: ReduceStage, values: np.ndarray, datapath: Datapath) -> Arrays:
    if values.shape[1] != datapath.dim:  # a signal that is the same in the whole row
        values = np.broadcast_to(values, (values.shape[0], datapath.dim))
    part = values[:, stage.start : stage.stop : stage.stride]
    if stage.kind == "sum":
        dtype = _compute_dtype([datapath.ports[stage.outputs[0]].interval], 0)
        dtype = max(dtype, np.dtype(np.int32))
        return {stage.outputs[0]: np.add.reduce(part, axis=1, dtype=dtype, keepdims=True)}
    if stage.kind == "max":
        return {stage.outputs[0]: np.max(part, axis=1, keepdims=True)}
    return dict(zip(stage.outputs, _largest(part, len(stage.outputs)), strict=True))


def _largest(part: np.ndarray, k: int) -> list[np.ndarray]:
    rows, count = part.shape
    if count < k:
        part = np.concatenate([part, np.zeros((rows, k - count), part.dtype)], axis=1)
    top = np.sort(np.partition(part, part.shape[1] - k, axis=1)[:, -k:], axis=1)
    return [top[:, k - 1 - i : k - i] for i in range(k)]
