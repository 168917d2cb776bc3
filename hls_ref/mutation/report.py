"""What became of the mutants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

NOT_PROVEN = "no row shows it, and no proof that none can"  # of a mutant that survived


@dataclass(frozen=True)
class Fate:
    """One mutant: whether y shows it, whether the trace does, and why neither can."""

    name: str
    kind: str  # "arithmetic", "wiring" or "table"
    by_y: bool
    by_trace: bool
    reason: str = ""  # of an equivalent one

    @property
    def equivalent(self) -> bool:
        return not self.by_y and bool(self.reason)


@dataclass(frozen=True)
class MutationReport:
    """All mutants of a kernel against one set of golden vectors.

    A mutant counts as killed if y alone shows it. killed_by_trace counts those that any named
    signal shows.
    """

    digest: str
    rows: int
    fates: list[Fate] = field(repr=False)

    @property
    def killed(self) -> int:
        return sum(f.by_y for f in self.fates)

    @property
    def killed_by_trace(self) -> int:
        return sum(f.by_trace for f in self.fates)

    @property
    def survived(self) -> list[Fate]:
        """Not shown by y, and not known to be equivalent."""
        return [f for f in self.fates if not f.by_y and not f.equivalent]

    @property
    def equivalent(self) -> list[Fate]:
        return [f for f in self.fates if f.equivalent]

    def counts(self) -> tuple[int, int, int, int, int]:
        """(mutants, killed by y, killed by the trace, equivalent, survived)."""
        proven, left = len(self.equivalent), len(self.survived)
        return len(self.fates), self.killed, self.killed_by_trace, proven, left

    def kinds(self) -> Iterator[tuple[str, int, int, int, int, int]]:
        """(kind, mutants, killed by y, killed by the trace, equivalent, survived)."""
        for kind in dict.fromkeys(f.kind for f in self.fates):
            here = MutationReport("", 0, [f for f in self.fates if f.kind == kind])
            yield (kind, *here.counts())

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "digest": self.digest,
            "rows": self.rows,
            "mutants": len(self.fates),
            "killed": self.killed,
            "killed_by_trace": self.killed_by_trace,
            "survived": [{"mutant": f.name, "reason": NOT_PROVEN} for f in self.survived],
            "equivalent": [{"mutant": f.name, "reason": f.reason} for f in self.equivalent],
        }
