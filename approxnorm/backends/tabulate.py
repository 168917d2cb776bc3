"""Parts of an element program that depend on one narrow input alone, as tables.

A cone of operations over one element input of at most 16 bits is a function of at most 65,536
values: it is computed once for each of them, by the same operations, and then looked up. This is
a matter of speed alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from approxnorm.program.interval import Interval
from approxnorm.program.ops import OPS
from approxnorm.program.signal import Program

MAX_BITS = 16
# A look-up costs about as much as this many additions; cheaper cones are computed.
LOOKUP_COST = 6
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
    nodes, wide = program.nodes, np.dtype(np.int64)
    domain = nodes[cone.source].interval
    values: dict[int, np.ndarray] = {
        i: np.asarray(n.attrs["value"], wide) for i, n in enumerate(nodes) if n.op == "const"
    }
    values[cone.source] = np.arange(domain.lo, domain.hi + 1)
    for i in cone.steps:
        args = [values[a] for a in nodes[i].args]
        values[i] = OPS[nodes[i].op].evaluate(*args, dtype=wide, **nodes[i].attrs)
    return np.broadcast_to(values[cone.node], values[cone.source].shape)


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
