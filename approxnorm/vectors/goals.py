"""What rows are searched for: addresses read, exponents reached, changes that show in y."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from approxnorm.backends.numpy_backend import Arrays
from approxnorm.program.datapath import Datapath, Port
from approxnorm.vectors.changes import (
    ASTRAY,
    Change,
    small_changes,
    table_change,
    whole_table_change,
)
from approxnorm.vectors.mistakes import mistakes
from approxnorm.vectors.probe import Probe, Site

ENTRY_GOALS = ("read", "seen_plus_one", "seen_minus_one")


@dataclass(frozen=True)
class Hits:
    """Pairs of a row and a goal that it reaches."""

    rows: np.ndarray
    goals: np.ndarray

    def shifted(self, offset: int) -> Hits:
        return Hits(self.rows, self.goals + offset)


class EntryGoals:
    """For each entry of one table: read, and shown in y when it is one more, or one less.

    The goal of entry e and kind k (an index into ENTRY_GOALS) is 3*e + k. ``together`` says that
    all entries may be changed at once, as each row or element reads one of them. ``read_only``
    leaves the changes out. Goals that are not ``open`` any more need not be looked for.
    """

    def __init__(self, probe: Probe, site: Site, read_only: bool) -> None:
        self.probe, self.site, self.read_only = probe, site, read_only
        self.entries = len(site.table.entries)
        self.size = 3 * self.entries
        self.open = np.ones(self.size, bool)
        self.together = probe.separable(site)
        if self.together:
            self.changes = [whole_table_change(probe, site, d) for d in (1, -1)]

    def hits(self, codes: np.ndarray, trace: Arrays, y: np.ndarray) -> list[Hits]:
        address = trace[self.site.address]
        found = [self._reached(address, np.ones(address.shape, bool), 0)]
        if self.read_only:
            return found
        for kind in (1, 2):
            if not self.open[kind::3].any():
                continue
            if self.together:
                shown = self.changes[kind - 1].y(self.probe, codes) != y
                shown = shown if address.ndim == 2 else shown.any(axis=1)
                found.append(self._reached(address, shown, kind))
            else:
                found.append(self._one_by_one(codes, address, y, kind))
        return found

    def _reached(self, address: np.ndarray, where: np.ndarray, kind: int) -> Hits:
        place = np.nonzero(where)
        pairs = np.unique(place[0] * self.entries + address[place].astype(np.int64))
        return Hits(pairs // self.entries, 3 * (pairs % self.entries) + kind)

    def _one_by_one(self, codes: np.ndarray, address: np.ndarray, y: np.ndarray, kind: int) -> Hits:
        rows, goals = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for entry in range(self.entries):
            reads = address == entry
            readers = np.flatnonzero(reads if reads.ndim == 1 else reads.any(axis=1))
            if not len(readers) or not self.open[3 * entry + kind]:
                continue
            change = table_change(self.probe, self.site, entry, 3 - 2 * kind)
            shown = readers[(change.y(self.probe, codes[readers]) != y[readers]).any(axis=1)]
            rows.append(shown)
            goals.append(np.full(len(shown), 3 * entry + kind))
        return Hits(np.concatenate(rows), np.concatenate(goals))


class ValueGoals:
    """Every value of a row signal with few values: exponents, shifts, parities."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.size = port.interval.hi - port.interval.lo + 1

    def hits(self, codes: np.ndarray, trace: Arrays, y: np.ndarray) -> list[Hits]:
        value = trace[self.port.name].astype(np.int64)
        return [Hits(np.arange(len(value)), value - self.port.interval.lo)]


def all_changes(datapath: Datapath) -> list[Change]:
    """Small changes, and the mistakes that engineers make."""
    return small_changes(datapath) + mistakes(datapath)


class ChangeGoals:
    """Each small change of the datapath: shown in y. Those seen often enough are not run again."""

    def __init__(self, probe: Probe, read_only: bool) -> None:
        self.probe = probe
        self.changes: list[Change] = [] if read_only else all_changes(probe.datapath)
        self.size = len(self.changes)
        self.open = np.ones(self.size, bool)

    def hits(self, codes: np.ndarray, trace: Arrays, y: np.ndarray) -> list[Hits]:
        found = []
        for goal in np.flatnonzero(self.open):
            shown = np.flatnonzero(self._shown(self.changes[goal], codes, y))
            found.append(Hits(shown, np.full(len(shown), goal)))
        return found

    def _shown(self, change: Change, codes: np.ndarray, y: np.ndarray) -> np.ndarray:
        try:
            return (change.y(self.probe, codes) != y).any(axis=1)
        except ASTRAY:
            # The change led outside a table, or broke an assumption, in some row of the batch.
            if len(codes) == 1:
                return np.ones(1, bool)
            half = len(codes) // 2
            parts = (slice(None, half), slice(half, None))
            return np.concatenate([self._shown(change, codes[p], y[p]) for p in parts])


Part: TypeAlias = EntryGoals | ValueGoals | ChangeGoals


class Goals:
    """All goals of a model with how often each was reached, and how often it should be.

    read_only: count addresses and exponents, and run no changes; for inputs of any length.
    """

    def __init__(self, probe: Probe, repeats: int = 1, *, read_only: bool = False) -> None:
        self.probe = probe
        self.tables = [EntryGoals(probe, site, read_only) for site in probe.sites]
        self.values = [ValueGoals(port) for port in probe.small_row_signals()]
        self.changes = ChangeGoals(probe, read_only)
        parts: list[Part] = [*self.tables, *self.values, self.changes]
        ends = np.cumsum([p.size for p in parts])
        self.starts = [int(e) - p.size for e, p in zip(ends, parts, strict=True)]
        self._parts = parts
        self.reached = np.zeros(int(ends[-1]), np.int64)
        self.wanted = np.full(int(ends[-1]), repeats, np.int64)
        for start, values in zip(self.starts[len(self.tables) :], self.values, strict=False):
            self.wanted[start : start + values.size] = 1
        for start, table in zip(self.starts, self.tables, strict=False):
            # Of a large table one row for each entry is many rows already.
            self.wanted[start : start + table.size] = max(1, min(repeats, 256 // table.entries))
            self.wanted[start : start + table.size : 3] = 1

    def start(self, part: Part) -> int:
        """The number of a part's first goal."""
        return self.starts[self._parts.index(part)]

    def unseen(self, part: EntryGoals | ChangeGoals) -> np.ndarray:
        """Goals of a part, counted from 0, that no row has reached and that are wanted."""
        here = slice(self.start(part), self.start(part) + part.size)
        return np.flatnonzero((self.reached[here] == 0) & (self.wanted[here] > 0))

    def drop(self, part: EntryGoals | ChangeGoals, goals: np.ndarray) -> None:
        """Goals of a part that no row can reach: they are not wanted any more."""
        self.wanted[self.start(part) + goals] = 0
        self._close()

    def open_goals(self, part: EntryGoals | ChangeGoals) -> np.ndarray:
        """Goals of a part, counted from 0, that are not reached often enough."""
        return np.flatnonzero(part.open)

    def take_all(self, codes: np.ndarray) -> None:
        """Count what rows reach that are in the vectors anyway."""
        for _, goals in self._by_row(codes):
            self.reached[goals] += 1
        self._close()

    def choose(self, codes: np.ndarray) -> np.ndarray:
        """Indices of rows that reach something still wanted; they are counted."""
        chosen = []
        for row, goals in self._by_row(codes):
            if (self.reached[goals] < self.wanted[goals]).any():
                self.reached[goals] += 1
                chosen.append(row)
        self._close()
        return np.array(chosen, np.int64)

    def _close(self) -> None:
        """Tell the parts which of their goals are reached often enough."""
        parts: list[EntryGoals | ChangeGoals] = [*self.tables, self.changes]
        for part in parts:
            here = slice(self.start(part), self.start(part) + part.size)
            part.open = self.reached[here] < self.wanted[here]

    def _by_row(self, codes: np.ndarray) -> list[tuple[int, np.ndarray]]:
        trace, y = self.probe.trace(codes), self.probe.y(codes)
        hits = [
            h.shifted(start)
            for start, part in zip(self.starts, self._parts, strict=True)
            for h in part.hits(codes, trace, y)
        ]
        rows = np.concatenate([h.rows for h in hits])
        goals = np.concatenate([h.goals for h in hits])
        order = np.lexsort((goals, rows))
        rows, goals = rows[order], goals[order]
        edges = np.flatnonzero(np.diff(rows)) + 1
        bounds = [0, *edges.tolist(), len(rows)]
        return [(int(rows[a]), goals[a:b]) for a, b in pairwise(bounds) if a < b]
