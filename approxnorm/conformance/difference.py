"""The first code that differs, told in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from approxnorm.program.datapath import Port
from approxnorm.vectors.manifest import ClassEntry


@dataclass(frozen=True)
class Difference:
    """A code that differs: which one, what was got (a code, or why there is none), what is due.

    row counts all rows from 0; it is None for a channel signal. element is None for a row signal.
    """

    signal: str
    row: int | None
    element: int | None
    got: int | str
    want: int | str
    class_name: str
    lanes: int
    digest: str

    @property
    def lane(self) -> int | None:
        """The element's place in its beat."""
        return None if self.element is None else self.element % self.lanes

    def line(self, source: str) -> str:
        """One line of KEY=VALUE; source, such as "backend=cpp", says whose code it is."""
        return (
            f"MISMATCH {source} class={self.class_name} row={_or_dash(self.row)}"
            f" lane={_or_dash(self.lane)} element={_or_dash(self.element)} signal={self.signal}"
            f" got={self.got} want={self.want} digest={self.digest}"
        )

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        del found["lanes"], found["class_name"]
        return found | {"lane": self.lane, "class": self.class_name}


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


@dataclass(frozen=True)
class Where:
    """What names a row of a set: its classes, the lanes of a beat and the digest."""

    classes: Sequence[ClassEntry]
    lanes: int
    digest: str

    def class_of(self, row: int | None) -> str:
        if row is None:
            return "-"
        return next(c.name for c in self.classes if c.first <= row < c.first + c.count)

    def difference(
        self, signal: str, row: int | None, element: int | None, got: int | str, want: int | str
    ) -> Difference:
        name = self.class_of(row)
        return Difference(signal, row, element, got, want, name, self.lanes, self.digest)


def wrong_kind(got: Any, shape: tuple[int, ...]) -> str | None:
    """Why an answer cannot be codes of that shape, in one word and a bracket; None if it can."""
    if not isinstance(got, np.ndarray):
        return f"type({type(got).__name__})"
    if got.dtype.kind not in "iu":
        return f"dtype({got.dtype})"
    if got.shape != shape:
        return f"shape({'x'.join(map(str, got.shape))})"
    return None


def first_in_row(
    ports: Sequence[Port], got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray], row: int
) -> tuple[str, int | None, int | str, int] | None:
    """(signal, element, got, want) of the first differing signal of one row, in ports' order."""
    for port in ports:
        if port.level == "channel" or port.name not in got:
            continue
        due = want[port.name]
        kind = wrong_kind(got[port.name], due.shape)
        if kind is not None:
            return port.name, None, kind, int(due[row].flat[0])
        wrong = np.flatnonzero(np.atleast_1d(got[port.name][row] != due[row]))
        if len(wrong):
            at = int(wrong[0])
            element = at if port.level == "element" else None
            found, right = (np.atleast_1d(a[row])[at] for a in (got[port.name], due))
            return port.name, element, int(found), int(right)
    return None
