"""Every code of every backend against the model's traced path: equal, or told where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from approxnorm.conformance.backends import (
    Backend,
    TracingBackend,
    open_backends,
)
from approxnorm.conformance.difference import Difference, Where, first_in_row, wrong_kind
from approxnorm.conformance.rows import Rows, regrouped, rows_for
from approxnorm.errors import ApproxNormError
from approxnorm.model import RMSNorm, Trace
from approxnorm.vectors import VectorClass
from approxnorm.vectors.manifest import ClassEntry

BLOCK_ELEMENTS = 1 << 19  # codes given to a backend at once

# (what is being done, fraction of all codes that are compared)
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class BackendResult:
    """One backend's rows, output codes, and how many of those differ from the model's.

    ``signal_codes`` and ``signal_mismatches`` count the named signals, y's own among them; they
    are None if signals were not asked for, or the backend shows none. ``first`` is the first
    difference of either.
    """

    rows: int
    codes: int
    mismatches: int
    signal_codes: int | None
    signal_mismatches: int | None
    first: Difference | None

    @property
    def equal(self) -> bool:
        return self.first is None

    def line(self, name: str) -> str | None:
        """The first difference in one line, with the backend's name; None if there is none."""
        return None if self.first is None else self.first.line(f"backend={name}")

    def named_dict(self, name: str) -> dict[str, Any]:
        """The counts and the first difference, with its line."""
        return self.to_dict() | {"line": self.line(name)}

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "codes": self.codes,
            "mismatches": self.mismatches,
            "signal_codes": self.signal_codes,
            "signal_mismatches": self.signal_mismatches,
            "first": None if self.first is None else self.first.to_dict(),
        }


@dataclass(frozen=True)
class CheckResult:
    """What a check compared, and each backend's result by its name."""

    digest: str
    dim: int
    lanes: int
    classes: tuple[ClassEntry, ...]
    backends: dict[str, BackendResult]

    @property
    def equal(self) -> bool:
        return all(result.equal for result in self.backends.values())

    def line(self, name: str) -> str | None:
        """A backend's first difference in one line; None if there is none."""
        return self.backends[name].line(name)

    def lines(self) -> list[str]:
        """For each backend that differs, its first difference."""
        found = [self.line(name) for name in self.backends]
        return [line for line in found if line is not None]

    def backends_dict(self) -> dict[str, Any]:
        """Each backend's counts and first difference, by its name."""
        return {name: result.named_dict(name) for name, result in self.backends.items()}

    def to_dict(self) -> dict[str, Any]:
        return {
            "digest": self.digest,
            "dim": self.dim,
            "lanes": self.lanes,
            "classes": [{"name": c.name, "rows": c.count} for c in self.classes],
            "backends": self.backends_dict(),
        }


def check(
    model: RMSNorm,
    backends: Iterable[str],
    *,
    rows: int = 512,
    level: int = 1,
    seed: int = 0,
    lanes: int = 8,
    signals: bool = False,
    own: np.ndarray | Rows | None = None,
    progress: Progress | None = None,
) -> CheckResult:
    """Run backends on golden vectors and further random rows, and compare every output code.

    level, seed, lanes: of the golden vectors (``approxnorm.vectors.plan``), which are made in
    memory. rows: further seeded random rows of all distributions; they are made and compared block
    by block. own: the user's own input codes (n, dim), or what makes them. signals: compare every
    named signal that a backend shows as well, not y alone.

    Raises ApproxNormError for a backend that is not registered, or lacks what it needs; for
    arguments that are not allowed; and for the rsqrt method "exact", which has no datapath.
    """
    tell = _tell_nothing if progress is None else progress
    tell("building backends", 0.0)
    ready = open_backends(backends, model, lanes)
    if own is not None and not isinstance(own, Rows):
        own = Rows.of("input", model.check_rows(np.asarray(own), "own").astype(np.int64))
    tell("making golden vectors", 0.0)
    classes = rows_for(model, level=level, seed=seed, lanes=lanes, rows=rows, own=own)
    return _check_rows(model, ready, classes, lanes, signals, tell)


def check_classes(
    model: RMSNorm,
    backends: Mapping[str, Backend],
    classes: Sequence[VectorClass],
    *,
    lanes: int = 8,
    signals: bool = False,
    progress: Progress | None = None,
) -> CheckResult:
    """As ``check``, with backends and rows that are there already; at least one row is needed."""
    rows = [Rows.of(c.name, c.codes) for c in classes]
    return _check_rows(model, backends, rows, lanes, signals, progress or _tell_nothing)


def _tell_nothing(_: str, __: float) -> None:
    pass


def _check_rows(
    model: RMSNorm,
    backends: Mapping[str, Backend],
    classes: Sequence[Rows],
    lanes: int,
    signals: bool,
    progress: Progress,
) -> CheckResult:
    total = sum(c.count for c in classes)
    if not total:
        raise ApproxNormError("there are no rows to check backends on; give at least one")
    entries, first = [], 0
    for c in classes:
        entries.append(ClassEntry(name=c.name, first=first, count=c.count))
        first += c.count
    where = Where(entries, lanes, model.digest)
    compared = {n: _Comparing(model, b, where, signals) for n, b in backends.items()}
    pieces = (block for c in classes for block in c.blocks())
    for codes in regrouped(pieces, max(1, BLOCK_ELEMENTS // model.dim)):
        want = model(codes, trace=True)[1]
        for i, (name, comparing) in enumerate(compared.items()):
            progress(name, (comparing.rows + len(codes) * i / len(compared)) / total)
            comparing.add(codes, want)
    results = {name: comparing.result() for name, comparing in compared.items()}
    return CheckResult(model.digest, model.dim, lanes, tuple(entries), results)


class _Comparing:
    """One backend being compared, block by block."""

    def __init__(self, model: RMSNorm, backend: Backend, where: Where, signals: bool) -> None:
        self._model, self._backend, self._where = model, backend, where
        self._ports = model.assembly.require_datapath().signals()
        shows = isinstance(backend, TracingBackend)
        self._tracer: TracingBackend | None = backend if shows else None  # type: ignore[assignment]
        self._signals = signals and shows
        self._signal_codes = self._signal_mismatches = 0
        self.rows = self._codes = self._mismatches = 0
        self._first: Difference | None = None

    def add(self, codes: np.ndarray, want: Trace) -> None:
        """Compare the backend's answer for further rows (n, dim) with the model's trace."""
        got = self._backend.run(codes)
        kind = wrong_kind(got, codes.shape)
        wrong = np.ones(codes.shape, bool) if kind else got != want["y"]
        self._mismatches += int(np.count_nonzero(wrong))
        in_signals = self._compare_signals(codes, want) if self._signals else None
        if self._first is None:
            in_y = self._explain(codes, got, want, wrong, kind) if wrong.any() else None
            found = [d for d in (in_signals, in_y) if d is not None]
            self._first = min(found, key=lambda d: d.row or 0, default=None)
        self.rows += len(codes)
        self._codes += codes.size

    def _explain(
        self, codes: np.ndarray, got: Any, want: Trace, wrong: np.ndarray, kind: str | None
    ) -> Difference:
        """The first wrong y, or what the backend's own trace has wrong before it in that row."""
        row, element = (int(i) for i in np.argwhere(wrong)[0])
        due = int(want["y"][row, element])
        if kind is not None:
            return self._difference("y", row, element, kind, due)
        if self._tracer is not None:
            # With the row before it, so that what one row leaves behind for the next still shows.
            start = max(0, row - 1)
            traced = self._tracer.trace(codes[start : row + 1])
            expected = self._model(codes[start : row + 1], trace=True)[1]
            found = first_in_row(self._ports, traced, expected, row - start)
            if found is not None:
                return self._difference(found[0], row, *found[1:])
        return self._difference("y", row, element, int(got[row, element]), due)

    def _difference(
        self, signal: str, row: int, element: int | None, got: int | str, want: int
    ) -> Difference:
        return self._where.difference(signal, self.rows + row, element, got, want)

    def _compare_signals(self, codes: np.ndarray, want: Trace) -> Difference | None:
        """Compare all named signals; the first that is wrong in the first row that has one."""
        assert self._tracer is not None
        got = self._tracer.trace(codes)
        shown = [p for p in self._ports if p.level != "channel" and p.name in got]
        wrong_rows = np.zeros(len(codes), bool)
        for port in shown:
            due = want[port.name]
            bad = wrong_kind(got[port.name], due.shape) is not None
            wrong = np.ones(due.shape, bool) if bad else got[port.name] != due
            self._signal_codes += due.size
            self._signal_mismatches += int(np.count_nonzero(wrong))
            wrong_rows |= wrong.reshape(len(codes), -1).any(axis=1)
        if not wrong_rows.any():
            return None
        row = int(np.flatnonzero(wrong_rows)[0])
        found = first_in_row(self._ports, got, want, row)
        assert found is not None
        return self._difference(found[0], row, *found[1:])

    def result(self) -> BackendResult:
        return BackendResult(
            self.rows,
            self._codes,
            self._mismatches,
            self._signal_codes if self._signals else None,
            self._signal_mismatches if self._signals else None,
            self._first,
        )
