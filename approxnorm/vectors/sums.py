"""Every sum of logarithms that an element of a row can have, and what y makes of it.

In the log domain y depends on x, gamma and the root only through the sum of their logarithms, its
sign and whether one of them is 0.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from approxnorm.methods.normalize.log_domain import LogDomain
from approxnorm.program.signal import Program
from approxnorm.vectors.changes import ASTRAY, widened_nodes
from approxnorm.vectors.columns import Columns
from approxnorm.vectors.factors import Classes
from approxnorm.vectors.programs import changed_nodes, cut_at, run_alone
from approxnorm.vectors.reach import Reach
from approxnorm.vectors.row_changes import RowTable, Shown

MAX_PAIRS = 1 << 25  # of an element and a root; past it, sums are listed with more than there are


class Sums:
    """All sums of a log-domain model: which there are, and rows that have them."""

    def __init__(
        self, reach: Reach, table: RowTable, classes: Classes | None, columns: Columns
    ) -> None:
        self.reach, self.table, self.columns = reach, table, columns
        normal = isinstance(reach.probe.model.spec.normalize, LogDomain)
        self.known = normal and classes is not None and columns.complete
        self.classes = classes

    @cached_property
    def _element(self) -> tuple[np.ndarray, np.ndarray]:
        """What each column adds to the sum, and its sign (0 for a product that is 0)."""
        finish, columns = self.reach.finish, self.columns
        none = {n: np.zeros(len(columns), np.int64) for n in finish.row_names}
        trace = finish.paired(finish.program, columns.values, columns.channels, none)
        return trace["log_y"].astype(np.int64), np.sign(trace["signed"].astype(np.int64))

    @cached_property
    def _operands(self) -> dict[int, tuple[np.ndarray, np.ndarray, int]]:
        """By row shift: the least and largest operand of each root's logarithm, from the least
        logarithm on, which is the third."""
        assert self.classes is not None
        outputs = self.table.outputs(self.classes)
        first = int(outputs["log_root"].min())
        root, size = outputs["log_root"] - first, int(outputs["log_root"].max()) - first + 1
        found = {}
        for shift in self.reach.shifts:
            low, high = self.table.operands(self.classes, shift)
            here = (low <= high) & (outputs["row_zero"] == 0)
            least = np.full(size, np.iinfo(np.int64).max)
            most = np.full(size, -1, np.int64)
            np.minimum.at(least, root[here], low[here])
            np.maximum.at(most, root[here], high[here])
            found[shift] = least, most, first
        return found

    @cached_property
    def all(self) -> np.ndarray | None:
        """Every sum, and more, ascending; None: not known."""
        if not self.known:
            return None
        element, sign = self._element
        element, least = element[sign != 0], self.columns.least[sign != 0]
        sums: set[int] = set()
        for _, most, first in self._operands.values():
            few = len(element) * len(most) <= MAX_PAIRS
            found = (_each_sum if few else _ranges_of_sums)(element, least, most, first)
            sums |= set(found.tolist())
        return np.array(sorted(sums), np.int64)

    def apart(self, changed: Program) -> np.ndarray | None:
        """The sums at which a changed last program has another y; None: it cannot be told."""
        own = widened_nodes(self.reach.finish.program)
        if self.all is None or not _changed_after(own, changed, "log_y"):
            return None
        try:
            plain, other = (self._y(p, self.all) for p in (own, changed))
        except ASTRAY:
            return None
        return self.all[(plain != other).any(axis=0)]

    def _y(self, program: Program, sums: np.ndarray) -> np.ndarray:
        """y (3, sums) for x of -1, 0 and 1: what it takes besides is the sign and zero."""
        cut, x = cut_at(program, "log_y"), self.reach.finish.x
        inputs = {n: np.zeros(3 * len(sums), np.int64) for n in cut.inputs}
        inputs["log_y"] = np.tile(sums, 3)
        if x in inputs:
            inputs[x] = np.repeat(np.array([-1, 0, 1]), len(sums))
        return run_alone(cut, inputs)["y"].reshape(3, -1)

    def shown(self, sums: np.ndarray) -> list[Shown]:
        """Elements and operands that have one of the sums."""
        element, sign = self._element
        found = []
        for shift, (least, most, first) in self._operands.items():
            root = element[:, None] - sums[None, :] - first
            inside = (root >= 0) & (root < len(most)) & (sign != 0)[:, None]
            root = np.where(inside, root, 0)
            column, place = np.nonzero(inside & (self.columns.least[:, None] <= most[root]))
            root = root[column, place]
            low = np.maximum(least[root], self.columns.least[column])
            values, channels = self.columns.values[column], self.columns.channels[column]
            found.append(Shown(shift, low, most[root], root, values, channels))
        return [s for s in found if len(s.values)]


def _each_sum(element: np.ndarray, least: np.ndarray, most: np.ndarray, first: int) -> np.ndarray:
    """What elements and the roots' logarithms from ``first`` on add up to, where both can be."""
    total = element[:, None] - (np.arange(len(most)) + first)[None, :]
    sums: np.ndarray = np.unique(total[least[:, None] <= most[None, :]])
    return sums


def _ranges_of_sums(
    element: np.ndarray, least: np.ndarray, most: np.ndarray, first: int
) -> np.ndarray:
    """The same and more: an element with every number from its first root's logarithm on."""
    start = np.searchsorted(np.maximum.accumulate(most), least)
    element, start = element[start < len(most)], start[start < len(most)]
    if not len(element):
        return element
    low, high = element - first - (len(most) - 1), element - first - start
    bottom = int(low.min())
    ends = np.zeros(int(high.max()) - bottom + 2, np.int64)
    np.add.at(ends, low - bottom, 1)
    np.add.at(ends, high - bottom + 1, -1)
    return np.flatnonzero(np.cumsum(ends) > 0) + bottom


def _changed_after(own: Program, changed: Program, name: str) -> bool:
    """Whether all that differs is used by nodes that follow from ``name`` alone."""
    nodes = own.nodes
    after = {next(i for i, n in enumerate(nodes) if n.name == name)}
    for i, node in enumerate(nodes):
        if after & set(node.args):
            after.add(i)
    differ = set(changed_nodes(own, changed))
    after.discard(min(after))
    for i in differ:
        users = {u for u, n in enumerate(nodes) if i in n.args}
        if i not in after and not (nodes[i].op == "const" and users <= after):
            return False
    return True
