"""What a set of vectors reaches, and why the rest is not reached: the manifest's coverage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from approxnorm.vectors.entries import EntryProofs
from approxnorm.vectors.equivalence import Prover
from approxnorm.vectors.goals import EntryGoals, Goals

LISTED = 64  # entries listed by number and reason, of each table and kind

Reasons: TypeAlias = Callable[[int, np.ndarray], dict[int, str]]


def report(
    goals: Goals,
    prover: Prover | None,
    entries: list[EntryProofs],
    tried: int,
    notes: list[str],
) -> dict[str, Any]:
    """Plain data: tables, row signals, changes, notes. ``tried`` rows were searched in all.

    prover, entries: None and [] for rows that were not searched for.
    """
    proofs = [e.reasons for e in entries] or [_no_reasons] * len(goals.tables)
    tables = zip(goals.tables, proofs, strict=True)
    content: dict[str, Any] = {
        "tables": [_table(goals, t, reasons, tried) for t, reasons in tables],
        "row_signals": [_values(goals, i) for i in range(len(goals.values))],
    }
    if goals.changes.size and prover is not None:
        content["changes"] = _changes(goals, prover, tried)
    content["rows_searched"] = tried
    content["notes"] = notes
    return content


def _no_reasons(kind: int, entries: np.ndarray) -> dict[int, str]:
    return {}


def _changes(goals: Goals, prover: Prover, tried: int) -> dict[str, Any]:
    start = goals.start(goals.changes)
    seen = goals.reached[start:] > 0
    unseen = [c for c, s in zip(goals.changes.changes, seen, strict=True) if not s]
    reasons = [prover.reason(c) for c in unseen]
    return {
        "tried": goals.changes.size,
        "seen": int(seen.sum()),
        "equivalent": sum(r is not None for r in reasons),
        "unseen": [
            {"change": c.name, **_told(r, f"no row of {tried} tried shows it in y")}
            for c, r in zip(unseen, reasons, strict=True)
        ],
    }


def _told(reason: str | None, otherwise: str) -> dict[str, Any]:
    """A reason, and whether it is a proof that no row at all does it."""
    return {"reason": reason or otherwise, "equivalent": reason is not None}


def _table(goals: Goals, table: EntryGoals, reasons: Reasons, tried: int) -> dict[str, Any]:
    start = goals.start(table)
    reached = goals.reached[start : start + table.size].reshape(-1, 3) > 0
    content: dict[str, Any] = {
        "table": table.site.table.name,
        "entries": table.entries,
        "reached": int(reached[:, 0].sum()),
    }
    unreached = np.flatnonzero(~reached[:, 0])
    content |= _missing("unreached", 0, unreached, reasons, f"no row of {tried} tried reads it")
    if table.read_only:
        return content
    for kind, name in ((1, "seen_plus_one"), (2, "seen_minus_one")):
        content[name] = int(reached[:, kind].sum())
        unseen = np.flatnonzero(reached[:, 0] & ~reached[:, kind])
        otherwise = f"no row of {tried} tried shows it in y"
        content |= _missing(f"un{name}", kind, unseen, reasons, otherwise)
    return content


def _missing(
    name: str, kind: int, entries: np.ndarray, reasons: Reasons, otherwise: str
) -> dict[str, Any]:
    """How many of the entries are proven, and the first of them, those not proven before others."""
    proven = reasons(kind, entries)
    order = sorted(entries.tolist(), key=lambda e: (e in proven, e))
    listed = [{"entry": e, **_told(proven.get(e), otherwise)} for e in order[:LISTED]]
    return {f"{name}_equivalent": len(proven), name: listed}


def _values(goals: Goals, index: int) -> dict[str, Any]:
    part = goals.values[index]
    start = goals.start(part)
    reached = goals.reached[start : start + part.size] > 0
    lo = part.port.interval.lo
    return {
        "signal": part.port.name,
        "values": part.size,
        "reached": int(reached.sum()),
        "unreached": [lo + int(v) for v in np.flatnonzero(~reached)],
    }
