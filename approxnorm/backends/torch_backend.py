"""The torch executor: a datapath on integer tensors, the same codes as NumPy's.

As in NumPy's, each node is computed in the narrowest of int32 and int64 that holds its arguments,
its result and the operation's head room, and parts of a program that depend on few bits are looked
up in tables that ``approxnorm.backends.tabulate`` computes. Products past
int32, and shifts of them, are computed in float64 where it holds them exactly: processors multiply
these several at a time, and int64 not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set

import torch
from torch import Tensor

from approxnorm.backends import torch_ops
from approxnorm.backends.tabulate import Cut, cut_values, find_cuts
from approxnorm.formats import Overflow, lowest
from approxnorm.program.datapath import Datapath, MapStage, ReduceStage, node_levels
from approxnorm.program.interval import Interval, bits_signed
from approxnorm.program.ops import OPS, limits_act
from approxnorm.program.signal import Node, Program

BLOCK_ELEMENTS = 1 << 18
_FLOAT_BITS = 54  # of a signed integer that float64 holds, with all smaller ones
_FARTHEST = 512  # past any width a shift changes nothing any more
_DTYPES = ((32, torch.int32), (64, torch.int64))
# In additions. Comparisons and what is made of several passes are slow, look-ups are not.
_COSTS = {"less": 4, "equal": 4, "select": 4, "lookup": 6, "lead": 20, "mantissa": 25, "isqrt": 20}
_COSTS |= {"round_shift": 6}
_LOOKUP_COST = 6

Tensors = dict[str, Tensor]


def dtype_of(intervals: list[Interval], head_room: int = 0) -> torch.dtype:
    """The narrower of int32 and int64 that holds the intervals, head_room bits larger."""
    need = head_room + max(bits_signed(i.lo, i.hi) for i in intervals)
    return next(dtype for bits, dtype in _DTYPES if need <= bits)


class TorchBackend:
    """Runs a datapath on two-dimensional tensors of codes on one device."""

    def __init__(self, datapath: Datapath, device: torch.device | str = "cpu") -> None:
        self.datapath = datapath
        self.device = torch.device(device)
        self._plans = {id(s): self._plan(s, tables=True) for s in datapath.programs()}
        self._traced = {id(s): self._plan(s, tables=False) for s in datapath.programs()}

    @torch.no_grad()
    def run(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Output codes (rows, dim) of element inputs (rows, dim) and channel inputs (dim,).

        Codes are integers of any dtype within their ports' intervals; the result is int32, or
        int64 if it is wider.
        """
        element = next(p.name for p in self.datapath.inputs if p.level == "element")
        rows = len(inputs[element])
        size = max(1, BLOCK_ELEMENTS // self.datapath.dim)
        parts = [
            self._outputs(self._values(inputs, slice(at, at + size), self._plans))
            for at in range(0, max(rows, 1), size)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    @torch.no_grad()
    def run_traced(self, inputs: Mapping[str, Tensor]) -> Tensors:
        """Every named signal but the inputs: element (rows, dim), row (rows,)."""
        values = self._values(inputs, slice(None), self._traced)
        element = next(p.name for p in self.datapath.inputs if p.level == "element")
        rows, named = len(inputs[element]), {}
        given = {p.name for p in self.datapath.inputs}
        for port in self.datapath.signals():
            if port.name in given:
                continue
            width = self.datapath.dim if port.level == "element" else 1
            value = values[port.name].expand(rows, width)
            named[port.name] = value if port.level == "element" else value[:, 0]
        return named

    def _values(
        self, inputs: Mapping[str, Tensor], block: slice, plans: Mapping[int, _Plan]
    ) -> Tensors:
        values: Tensors = {}
        for port in self.datapath.inputs:  # x first
            given = inputs[port.name].to(self.device, dtype_of([port.interval]))
            values[port.name] = given[block] if port.level == "element" else given[None, :]
        for stage in self.datapath.stages:
            if isinstance(stage, MapStage):
                plan = plans[id(stage)]
                values |= plan.run([values[n] for n in stage.program.inputs])
            else:
                values |= _reduce(stage, values[stage.source], self.datapath)
        return values

    def _outputs(self, values: Tensors) -> Tensor:
        y, x = values[self.datapath.output], values[self.datapath.inputs[0].name]
        port = self.datapath.ports[self.datapath.output]
        return y.to(dtype_of([port.interval])).expand(len(x), self.datapath.dim)

    def _plan(self, stage: MapStage, *, tables: bool) -> _Plan:
        levels = node_levels(stage.program, self.datapath.ports)
        return _Plan(stage.program, self.device, levels if tables else None)


class _Plan:
    """A program made ready: a function of the values so far for each node that is computed.

    levels: of its nodes; then what is worth a table is looked up and the outputs alone are
    computed, else every named signal.
    """

    def __init__(
        self, program: Program, device: torch.device, levels: Sequence[str] | None
    ) -> None:
        nodes = program.nodes
        cuts = [] if levels is None else find_cuts(program, levels, _COSTS, _LOOKUP_COST)
        tables = {cut.node: cut for cut in cuts}
        every = set(range(len(nodes)))
        live = every if levels is None else _needed(program, tables)
        named = {i: n.name for i, n in enumerate(nodes) if n.name and n.op != "input"}
        self._results = {i: n for i, n in named.items() if levels is None or i in program.outputs}
        self._constants = {
            i: torch.tensor([[n.attrs["value"]]], dtype=dtype_of([n.interval]), device=device)
            for i, n in enumerate(nodes)
            if n.op == "const"
        }
        order = [i for i in sorted(live) if nodes[i].op not in ("input", "const")]
        computed = {
            i: _table(program, tables[i], device) if i in tables else _step(nodes[i], nodes, device)
            for i in order
        }
        reads = {i: tables[i].sources if i in tables else nodes[i].args for i in order}
        dead = _last_reads(reads, kept=self._results.keys() | self._constants.keys())
        self._steps = [(i, computed[i], dead.get(i, ())) for i in order]

    def run(self, inputs: list[Tensor]) -> Tensors:
        """Signals by name; values keep broadcastable (row, channel) shapes."""
        values: dict[int, Tensor] = dict(enumerate(inputs)) | self._constants
        for i, compute, dead in self._steps:
            values[i] = compute(values)
            for each in dead:  # memory that was just in use is the fastest there is
                del values[each]
        return {name: _integers(values[i]) for i, name in self._results.items()}


def _needed(program: Program, tables: Mapping[int, Cut]) -> set[int]:
    """The nodes that the outputs read, where tables read their sources alone."""
    needed, waiting = set(), set(program.outputs)
    while waiting:
        i = waiting.pop()
        needed.add(i)
        waiting |= set(tables[i].sources if i in tables else program.nodes[i].args) - needed
    return needed


def _last_reads(reads: Mapping[int, tuple[int, ...]], kept: Set[int]) -> dict[int, tuple[int, ...]]:
    """For each node in order, the values that nothing after it reads; without those to be kept."""
    last = {value: node for node, args in reads.items() for value in args if value not in kept}
    dead: dict[int, tuple[int, ...]] = {}
    for value, node in last.items():
        dead[node] = (*dead.get(node, ()), value)
    return dead


def _table(
    program: Program, cut: Cut, device: torch.device
) -> Callable[[dict[int, Tensor]], Tensor]:
    """What looks a cut's node up."""
    dtype = dtype_of([program.nodes[cut.node].interval])
    entries = torch.from_numpy(cut_values(program, cut).copy()).to(device, dtype)
    intervals = [program.nodes[i].interval for i in cut.sources]

    def compute(values: dict[int, Tensor]) -> Tensor:
        index: Tensor | None = None
        for source, interval in zip(cut.sources, intervals, strict=True):
            place = _integers(values[source])
            if index is not None:
                place = place + index * (interval.hi - interval.lo + 1)
            index = place - interval.lo if interval.lo else place
        assert index is not None
        return torch_ops.take(entries, index)

    return compute


def _step(
    node: Node, nodes: tuple[Node, ...], device: torch.device
) -> Callable[[dict[int, Tensor]], Tensor]:
    """What computes one node from the values of the nodes before it."""
    if node.op == "round_shift":
        return _round_shift(node, nodes, device)
    intervals = [node.interval] + [nodes[i].interval for i in node.args]
    dtype = dtype_of(intervals, OPS[node.op].head_room)
    args, attrs = node.args, dict(node.attrs)
    if node.op == "mul" and dtype is torch.int64 and _fits_float64(intervals):
        return lambda values: values[args[0]].to(torch.float64) * values[args[1]].to(torch.float64)
    if node.op == "lookup":
        table = torch.tensor(attrs["table"].entries, dtype=torch.int64, device=device)
        (index,), result = args, dtype_of([node.interval])
        return lambda values: torch_ops.take(table, _integers(values[index])).to(result)
    operation = torch_ops.OPERATIONS[node.op]
    return lambda values: operation(*(values[a].to(dtype) for a in args), **attrs)


def _fits_float64(intervals: list[Interval]) -> bool:
    return all(bits_signed(i.lo, i.hi) <= _FLOAT_BITS for i in intervals)


def _integers(v: Tensor) -> Tensor:
    return v.to(torch.int64) if v.is_floating_point() else v


def _real_round_shift(
    node: Node, nodes: tuple[Node, ...], device: torch.device
) -> Callable[[dict[int, Tensor]], Tensor]:
    """A round-shift by multiplication with 2**-amount: limits, if any, saturate."""
    attrs, amount = dict(node.attrs), nodes[node.args[1]].interval
    lo, hi, overflow, rounding = (attrs[k] for k in ("lo", "hi", "overflow", "rounding"))
    limits = None if lo is None else (lowest(lo, hi, overflow), hi)
    first, last = (min(max(end, -_FARTHEST), _FARTHEST) for end in (amount.lo, amount.hi))
    entries = [math.ldexp(1.0, -shift) for shift in range(first, last + 1)]
    powers = torch.tensor(entries, dtype=torch.float64, device=device)
    dtype = dtype_of([node.interval])
    at, by = node.args

    def compute(values: dict[int, Tensor]) -> Tensor:
        index = values[by].clamp(first, last) - first
        power = torch_ops.take(powers, _integers(index))
        return torch_ops.round_shift_real(values[at], power, rounding, limits).to(dtype)

    return compute


def _round_shift(
    node: Node, nodes: tuple[Node, ...], device: torch.device
) -> Callable[[dict[int, Tensor]], Tensor]:
    value, amount = (nodes[i].interval for i in node.args)
    attrs = dict(node.attrs)
    lo, hi, overflow, rounding = (attrs[k] for k in ("lo", "hi", "overflow", "rounding"))
    dtype = dtype_of([node.interval, value], OPS[node.op].head_room)
    limited = limits_act(attrs, value, amount)
    largest = min(amount.hi, _FARTHEST)
    at, by = node.args
    wide = dtype is torch.int64 or amount.lo < 0
    saturates = not limited or overflow in (Overflow.SAT, Overflow.SAT_SYM)
    if amount.hi <= 0 and not limited and dtype is torch.int32:
        return lambda values: values[at].to(dtype) << (-values[by]).clamp(max=31).to(dtype)
    if wide and saturates and _fits_float64([value, node.interval]):
        return _real_round_shift(node, nodes, device)

    def compute(values: dict[int, Tensor]) -> Tensor:
        v = values[at].to(dtype)
        shift = values[by].clamp(-_FARTHEST, _FARTHEST).to(dtype)
        if largest > 0:
            right = shift.clamp(min=0) if amount.lo < 0 else shift
            v = torch_ops.shift_right(v, right, rounding, largest)
        if amount.lo < 0:
            v, left = v.to(torch.int64), (-shift).clamp(min=0).to(torch.int64)
            if lo is None:
                return (v << left.clamp(max=62)).to(dtype)
            return torch_ops.shift_left_limited(v, left, lo, hi, overflow).to(dtype)
        return torch_ops.limit(v, lo, hi, overflow).to(dtype) if limited else v

    return compute


def _reduce(stage: ReduceStage, values: Tensor, datapath: Datapath) -> Tensors:
    values = values.expand(values.shape[0], datapath.dim)
    part = values[:, stage.start : stage.stop : stage.stride]
    if stage.kind == "sum":
        dtype = dtype_of([datapath.ports[stage.outputs[0]].interval])
        return {stage.outputs[0]: part.sum(dim=1, keepdim=True, dtype=dtype)}
    if stage.kind == "max":
        return {stage.outputs[0]: part.amax(dim=1, keepdim=True)}
    return dict(zip(stage.outputs, _largest(part, len(stage.outputs)), strict=True))


def _largest(part: Tensor, k: int) -> tuple[Tensor, ...]:
    if part.shape[1] < k:
        part = torch.nn.functional.pad(part, (0, k - part.shape[1]))
    return part.topk(k, dim=1).values.split(1, dim=1)
