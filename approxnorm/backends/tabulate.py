"""Parts of an element program that depend on little, as tables.

A cone of operations over one element input of at most 16 bits is a function of at most 65,536
values: it is computed once for each of them, by the same operations, and then looked up. So is
what lies above a cut: a few values, of 2**18 combinations at most, that all else depends on. This
is a matter of speed alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from approxnorm.program.interval import Interval
from approxnorm.program.ops import OPS
from approxnorm.program.signal import Program

MAX_BITS = 16
MAX_CUT = 1 << 18  # entries of a table
# A look-up costs about as much as this many additions; cheaper cones are computed.
LOOKUP_COST = 6
_INDEX_COST = 3  # of one source more
_COSTS = {"select": 2, "lookup": 4, "round_shift": 8, "lead": 20, "mantissa": 25, "isqrt": 20}


@dataclass(frozen=True)
class Cone:
    """A node that is a function of one input, and the nodes that compute it, in order."""

    source: int
    node: int
    steps: tuple[int, ...]


def find_cones(
    program: Program,
    narrow: Mapping[int, Interval],
    costs: Mapping[str, int] = _COSTS,
    lookup_cost: int = LOOKUP_COST,
) -> list[Cone]:
    """The cones worth a table, largest first at each place; ``narrow`` are the usable inputs.

    costs: of an operation, in additions; 1 if it is not named. lookup_cost: of a look-up.
    """
    sources = _sources(program)
    live = program.needed()
    users: dict[int, set[int]] = {}
    for i in live:
        for a in program.nodes[i].args:
            users.setdefault(a, set()).add(i)
    cones = []
    for i in sorted(live):
        if program.nodes[i].op in ("input", "const") or len(sources[i]) != 1:
            continue
        (source,) = sources[i]
        ends = i in program.outputs or any(sources[u] != {source} for u in users.get(i, ()))
        steps = _steps(program, i)
        cost = sum(costs.get(program.nodes[s].op, 1) for s in steps)
        if any(_narrows(program, s) for s in steps):
            continue
        if ends and source in narrow and cost >= lookup_cost:
            cones.append(Cone(source, i, steps))
    return cones


@dataclass(frozen=True)
class Cut:
    """A node that is a function of a few others, and the nodes that compute it from them."""

    sources: tuple[int, ...]
    node: int
    steps: tuple[int, ...]


def find_cuts(
    program: Program, levels: Sequence[str], costs: Mapping[str, int], lookup_cost: int
) -> list[Cut]:
    """The cuts worth a table, from the outputs on; levels: of each node (``node_levels``).

    costs, lookup_cost: as for ``find_cones``.
    """
    found, waiting = [], set(program.outputs)
    while waiting:
        node = max(waiting)  # arguments come before what reads them: each is met once
        waiting.remove(node)
        cut = None
        if levels[node] == "element":
            cut = _best_cut(program, node, levels, costs, lookup_cost)
        if cut is not None:
            found.append(cut)
        waiting |= set(program.nodes[node].args if cut is None else cut.sources)
    return found


def _best_cut(
    program: Program, node: int, levels: Sequence[str], costs: Mapping[str, int], lookup_cost: int
) -> Cut | None:
    """The cut below a node that saves most, if that is what a look-up costs."""
    best, least = None, lookup_cost
    for past_bits in (False, True):  # a bit that depends on much else is better a source
        for steps, frontier in _frontiers(program, node, past_bits):
            saved = sum(costs.get(program.nodes[s].op, 1) for s in steps if levels[s] == "element")
            saved -= _INDEX_COST * (len(frontier) - 1)
            if frontier and saved >= least and math.prod(_spans(program, frontier)) <= MAX_CUT:
                best = Cut(tuple(sorted(frontier)), node, tuple(sorted(steps)))
                least = saved + 1
    return best


def _frontiers(program: Program, node: int, past_bits: bool) -> Iterator[tuple[Set[int], Set[int]]]:
    """Down from the node, the latest first: the nodes passed, and those that they read."""
    steps, frontier = set(), {node}
    while opened := [n for n in frontier if _opens(program, n, past_bits)]:
        latest = max(opened)
        steps.add(latest)
        frontier.remove(latest)
        frontier |= {a for a in program.nodes[latest].args if program.nodes[a].op != "const"}
        yield steps, frontier


def _opens(program: Program, node: int, past_bits: bool) -> bool:
    step = program.nodes[node]
    is_bit = step.interval.hi - step.interval.lo < 2
    opens = step.op not in ("input", "const") and not _narrows(program, node)
    return opens and (past_bits or not is_bit)


def _spans(program: Program, sources: Iterable[int]) -> tuple[int, ...]:
    """How many values each can have."""
    intervals = (program.nodes[i].interval for i in sources)
    return tuple(i.hi - i.lo + 1 for i in intervals)


def _narrows(program: Program, node: int) -> bool:
    """Whether a node assumes what need not hold for every value that the input could have."""
    step = program.nodes[node]
    return step.op == "assume" and step.interval != program.nodes[step.args[0]].interval


def _sources(program: Program) -> list[set[int]]:
    sources: list[set[int]] = []
    for i, node in enumerate(program.nodes):
        sources.append({i} if node.op == "input" else set().union(*(sources[a] for a in node.args)))
    return sources


def _steps(program: Program, node: int) -> tuple[int, ...]:
    found: set[int] = set()
    stack = [node]
    while stack:
        i = stack.pop()
        if i not in found and program.nodes[i].op not in ("input", "const"):
            found.add(i)
            stack += program.nodes[i].args
    return tuple(sorted(found))


def cone_values(program: Program, cone: Cone) -> np.ndarray:
    """What a cone computes of each code of its input's interval, in order (int64)."""
    return cut_values(program, Cut((cone.source,), cone.node, cone.steps))


def cut_values(program: Program, cut: Cut) -> np.ndarray:
    """What a cut's node is for each combination of its sources' values, the last one's fastest."""
    nodes, wide = program.nodes, np.dtype(np.int64)
    values: dict[int, np.ndarray] = {
        i: np.asarray(n.attrs["value"], wide) for i, n in enumerate(nodes) if n.op == "const"
    }
    domains = [nodes[i].interval for i in cut.sources]
    grid = np.ix_(*(np.arange(d.lo, d.hi + 1) for d in domains))
    values |= dict(zip(cut.sources, grid, strict=True))
    for i in cut.steps:
        args = [values[a] for a in nodes[i].args]
        values[i] = OPS[nodes[i].op].evaluate(*args, dtype=wide, **nodes[i].attrs)
    return np.broadcast_to(values[cut.node], _spans(program, cut.sources)).ravel()


class ConeTable:
    """The values of a cone for every bit pattern of its input's storage type."""

    def __init__(self, program: Program, cone: Cone, storage: np.dtype, result: np.dtype) -> None:
        domain = program.nodes[cone.source].interval
        self._storage = storage
        self._pattern = np.dtype(f"uint{8 * storage.itemsize}")
        codes = np.arange(domain.lo, domain.hi + 1).astype(storage)
        self._table = np.zeros(1 << (8 * storage.itemsize), result)
        self._table[codes.view(self._pattern)] = cone_values(program, cone)

    def __call__(self, codes: np.ndarray) -> np.ndarray:
        return np.take(self._table, codes.astype(self._storage, copy=False).view(self._pattern))
