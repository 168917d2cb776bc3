"""What a set of vectors reaches, and why the rest is not reached: the manifest's coverage."""

from __future__ import annotations

from typing import Any

import numpy as np

from approxnorm.vectors.changes import Change
from approxnorm.vectors.goals import EntryGoals, Goals
from approxnorm.vectors.logarithms import Logarithms
from approxnorm.vectors.operands import Operands

LISTED = 64  # entries listed by number and reason, of each table and kind


def report(goals: Goals, operands: Operands | None, tried: int, notes: list[str]) -> dict[str, Any]:
    """Plain data: tables, row signals, changes, notes. ``tried`` rows were searched in all."""
    content: dict[str, Any] = {
        "tables": [_table(goals, t, operands, tried) for t in goals.tables],
        "row_signals": [_values(goals, i) for i in range(len(goals.values))],
    }
    if goals.changes.size:
        content["changes"] = _changes(goals, operands, tried)
    content["rows_searched"] = tried
    content["notes"] = notes
    return content


def _changes(goals: Goals, operands: Operands | None, tried: int) -> dict[str, Any]:
    start = goals.start(goals.changes)
    seen = goals.reached[start:] > 0
    unseen = [c for c, s in zip(goals.changes.changes, seen, strict=True) if not s]
    return {
        "tried": goals.changes.size,
        "seen": int(seen.sum()),
        "unseen": [
            {"change": c.name, "reason": _why_not_shown(goals, c, operands, tried)} for c in unseen
        ],
    }


def _why_not_shown(goals: Goals, change: Change, operands: Operands | None, tried: int) -> str:
    if operands is not None and operands.whole and change.stage == goals.probe.row_stage:
        shifted = goals.probe.model.assembly.row.row_shift is not None
        if not shifted and not operands.differs(change).any():
            return "it changes no output of the row program, whatever the operand"
    return f"no row of {tried} tried shows it in y"


def _table(
    goals: Goals, table: EntryGoals, operands: Operands | None, tried: int
) -> dict[str, Any]:
    start = goals.start(table)
    reached = goals.reached[start : start + table.size].reshape(-1, 3) > 0
    content: dict[str, Any] = {
        "table": table.site.table.name,
        "entries": table.entries,
        "reached": int(reached[:, 0].sum()),
    }
    unreached = np.flatnonzero(~reached[:, 0])
    content["unreached"] = [
        {"entry": int(e), "reason": _why_unread(table, int(e), operands, tried)}
        for e in unreached[:LISTED]
    ]
    if table.read_only:
        return content
    for kind, name in ((1, "seen_plus_one"), (2, "seen_minus_one")):
        content[name] = int(reached[:, kind].sum())
        unseen = np.flatnonzero(reached[:, 0] & ~reached[:, kind])
        content[f"un{name}"] = [
            {"entry": int(e), "reason": _why_unseen(table, int(e), kind, operands, tried)}
            for e in unseen[:LISTED]
        ]
    return content


def _of_row_program(table: EntryGoals, operands: Operands | None) -> bool:
    """Whether a complete grid of operands says all there is to know of a table."""
    return (
        operands is not None
        and operands.complete
        and table.site.stage == table.probe.row_stage
        and table.together
    )


def _why_unread(table: EntryGoals, entry: int, operands: Operands | None, tried: int) -> str:
    if _of_row_program(table, operands):
        assert operands is not None
        if not (operands.trace[table.site.address] == entry).any():
            return "no operand addresses it"
    return f"no row of {tried} tried reads it"


def _why_unseen(
    table: EntryGoals, entry: int, kind: int, operands: Operands | None, tried: int
) -> str:
    if _of_row_program(table, operands):
        assert operands is not None
        here = operands.trace[table.site.address] == entry
        if not operands.differs(table.changes[kind - 1])[here].any():
            return "it changes no output of the row program, whatever the operand"
    if table.together and operands is not None:
        logarithms = Logarithms(table.probe, table.site)
        change = table.changes[kind - 1]
        if logarithms.applies() and entry in logarithms.hidden(change):
            return "it changes y for no sum of logarithms"
    return f"no row of {tried} tried shows it in y"


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
