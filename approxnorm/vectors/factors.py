"""The row program as a table: its outputs for every class of ``total`` = operand + eps.

The range reduction keeps the leading one of ``total`` and F bits below it. So all totals that
share these have the same outputs, and a table with an entry for each such class says all there is
to know of the row program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from approxnorm.backends.numpy_backend import Arrays, NumpyBackend
from approxnorm.program.datapath import Datapath, MapStage, Port
from approxnorm.program.signal import Node, Program
from approxnorm.vectors.programs import cut_at

MAX_CLASSES = 1 << 22
TOTAL = "total"


@dataclass(frozen=True)
class Classes:
    """Totals from ``least`` to ``most`` by leading one and ``frac_bits`` bits below it."""

    frac_bits: int
    least: int
    most: int

    def __len__(self) -> int:
        ends = self.number(np.array([self.least, self.most]))
        return int(ends[1] - ends[0]) + 1

    def number(self, total: np.ndarray) -> np.ndarray:
        """The number of each total's class: ascending, without gaps. 0 is a class of its own."""
        dropped = np.maximum(_leading(total) - self.frac_bits, 0)
        return (dropped << self.frac_bits) + (total >> dropped)

    def index(self, total: np.ndarray) -> np.ndarray:
        """The place of each total's class in tables of these classes."""
        return self.number(total) - self.number(np.array(self.least))

    def first(self) -> np.ndarray:
        """The least total of each class, from that of ``least`` on, and that of one more class."""
        start = int(self.number(np.array(self.least)))
        number = np.arange(start, start + len(self) + 1, dtype=np.int64)
        dropped = np.maximum((number >> self.frac_bits) - 1, 0)
        return (number - (dropped << self.frac_bits)) << dropped


def _leading(value: np.ndarray) -> np.ndarray:
    """floor(log2 value), 0 for 0; exact for values below 2**53."""
    return np.maximum(np.frexp(value.astype(np.float64))[1].astype(np.int64) - 1, 0)


def classes_of(program: Program, least: int, most: int) -> Classes | None:
    """The classes of a row program; None if it uses ``total`` in another way, or they are many."""
    uses = list(_uses_of_total(program))
    kept = {f for f in uses if f is not None}
    if most >= 1 << 53 or not uses or None in uses or not _only_total(program):
        return None
    classes = Classes(max(kept), least, most)
    return classes if len(classes) <= MAX_CLASSES else None


def _uses_of_total(program: Program) -> Iterator[int | None]:
    """How many bits below the leading one each use of ``total`` tells apart; None: all of them."""
    nodes = program.nodes
    for node in nodes:
        if TOTAL not in (nodes[a].name for a in node.args):
            continue
        if node.op == "lead":
            yield 0
        elif node.op == "mantissa":
            yield int(node.attrs["frac_bits"])
        elif node.op == "equal":
            yield _bits_to_tell(nodes, node)
        else:
            yield None


def _bits_to_tell(nodes: tuple[Node, ...], node: Node) -> int | None:
    """An equality with a constant below 2**(F+1) is decided by the class: those hold one total."""
    constants = [nodes[a].attrs["value"] for a in node.args if nodes[a].op == "const"]
    return max(int(constants[0]).bit_length() - 1, 0) if constants else None


def _only_total(program: Program) -> bool:
    """Whether the outputs depend on the inputs through ``total`` alone, and total = a + eps."""
    nodes = program.nodes
    if not any(n.name == TOTAL and n.op == "add" for n in nodes):
        return False
    needed = set(program.outputs)
    for i in range(len(nodes) - 1, -1, -1):
        if i in needed and nodes[i].name != TOTAL:
            if nodes[i].op == "input":
                return False
            needed.update(nodes[i].args)
    return True


def from_total(program: Program) -> Program:
    """The program with ``total`` as its one input; what only led to it is dropped."""
    return cut_at(program, TOTAL)


def outputs_of(program: Program, totals: np.ndarray, names: tuple[str, ...]) -> Arrays:
    """The named signals of a row program at each total."""
    cut = from_total(program)
    ports = {n.name or "": Port(n.name or "", "element", n.interval) for n in cut.nodes if n.name}
    stage = MapStage("element", cut)
    backend = NumpyBackend(Datapath(1, (ports[TOTAL],), (stage,), ports, cut.output_names[0]))
    parts: dict[str, list[np.ndarray]] = {n: [] for n in names}
    block = 1 << 18
    for start in range(0, len(totals), block):
        traced = backend.run_traced({TOTAL: totals[start : start + block, None]})
        for name in names:
            parts[name].append(traced[name][:, 0].astype(np.int64))
    return {n: np.concatenate(p) if p else np.zeros(0, np.int64) for n, p in parts.items()}


def added_to_operand(program: Program, operand: str) -> int | None:
    """The guard bits g if total = (operand << g) + what depends on no operand; else None."""
    nodes = program.nodes
    total = next((n for n in nodes if n.name == TOTAL), None)
    if total is None or total.op != "add":
        return None
    source = nodes[total.args[0]]
    guard = int(source.attrs["amount"]) if source.op == "shl" else 0
    base = nodes[source.args[0]] if source.op == "shl" else source
    other = {total.args[1]}
    for i in range(len(nodes) - 1, -1, -1):
        if i in other:
            other.update(nodes[i].args)
    if base.op != "input" or base.name != operand:
        return None
    return None if operand in (nodes[i].name for i in other) else guard
