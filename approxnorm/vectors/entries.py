"""Which entries of a table no row reads, or shows when they are one more or one less."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from approxnorm.program.datapath import MapStage
from approxnorm.vectors.changes import Change, table_change
from approxnorm.vectors.equivalence import UNMOVED, UNSHOWN, Prover
from approxnorm.vectors.factors import outputs_of
from approxnorm.vectors.goals import EntryGoals
from approxnorm.vectors.row_changes import Comparison, Shown

MAX_SINGLE = 256  # entries that are looked at one at a time

UNREAD = "no operand addresses it"


class EntryProofs:
    """Proofs for the entries of one look-up. Kinds: 0 is read, 1 and 2 one more and one less."""

    def __init__(self, prover: Prover, table: EntryGoals) -> None:
        self.prover, self.table = prover, table
        probe = prover.probe
        at_row = table.site.stage == probe.row_stage and prover.reach.possible
        self._all_at_once = at_row and table.together and not table.read_only
        self._hits: dict[int, tuple[dict[int, str], list[Shown]]] = {}

    def reasons(self, kind: int, entries: np.ndarray) -> dict[int, str]:
        """For those of the entries for which it is proven, why no row reaches them."""
        if not len(entries):
            return {}
        if kind == 0:
            unread = set() if self._read is None else set(entries.tolist()) - self._read
            return dict.fromkeys(sorted(unread), UNREAD)
        if self._comparison(kind) is not None:
            proven = self._at_once(kind)[0]
            return {e: proven[e] for e in entries.tolist() if e in proven}
        if len(entries) > MAX_SINGLE:
            return {}
        found = {e: self.prover.reason(self._single(kind, e)) for e in entries.tolist()}
        return {e: r for e, r in found.items() if r is not None}

    def shown(self, kind: int, entries: np.ndarray) -> list[Shown]:
        """Elements of rows that would show one of the entries."""
        if kind == 0:
            return []
        if self._comparison(kind) is None:
            singles = (self._single(kind, e) for e in entries.tolist())
            return [s for change in singles for s in self.prover.shown(change)]
        parts = []
        for shown in self._at_once(kind)[1]:
            wanted = np.isin(self._address[shown.number], entries)
            if wanted.any():
                parts.append(shown.take(np.flatnonzero(wanted)))
        return parts

    def _single(self, kind: int, entry: int) -> Change:
        return table_change(self.prover.probe, self.table.site, entry, 3 - 2 * kind)

    def _comparison(self, kind: int) -> Comparison | None:
        """The row program with every entry changed at once: each row reads but one of them."""
        if not self._all_at_once:
            return None
        return self.prover.comparison(self.table.changes[kind - 1])

    @cached_property
    def _address(self) -> np.ndarray:
        """The entry that each class of totals reads."""
        comparison = self._comparison(1)
        assert comparison is not None
        stage = self.prover.probe.watched.stages[self.table.site.stage]
        assert isinstance(stage, MapStage)
        first = comparison.classes.first()[:-1]
        address: np.ndarray = outputs_of(stage.program, first, (self.table.site.address,))[
            self.table.site.address
        ]
        return address

    @cached_property
    def _read(self) -> set[int] | None:
        """The entries that some operand reads; None: not known."""
        comparison = self._comparison(1)
        if comparison is None:
            return None
        read: set[int] = set()
        for number in comparison.reached():
            read |= set(np.unique(self._address[number]).tolist())
        return read

    def _at_once(self, kind: int) -> tuple[dict[int, str], list[Shown]]:
        """Reasons by entry, and elements that show the others."""
        if kind not in self._hits:
            comparison = self._comparison(kind)
            assert comparison is not None
            every = [m for m in comparison.moved(None) if len(m)]
            moved = {e for m in every for e in np.unique(self._address[m.number]).tolist()}
            reasons = {e: UNMOVED for e in range(self.table.entries) if e not in moved}
            shown = self.prover.rows.all_shown(every, first=False)
            if shown is None:
                shown = self.prover.rows.first_shown(comparison)
            else:
                seen = {e for s in shown for e in np.unique(self._address[s.number]).tolist()}
                reasons |= {e: UNSHOWN for e in sorted(moved - seen)}
            self._hits[kind] = reasons, shown
        return self._hits[kind]
