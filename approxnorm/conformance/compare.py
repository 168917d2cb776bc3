"""A user's own outputs against golden vectors, every word of every signal they supply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from approxnorm.conformance.difference import Difference, Where
from approxnorm.conformance.got import Got, GotFile, find_files, read_got
from approxnorm.conformance.hints import hint
from approxnorm.errors import ApproxNormError
from approxnorm.vectors import VectorSet, read_vectors
from approxnorm.vectors.manifest import SignalEntry


@dataclass(frozen=True)
class SignalResult:
    """One file: how many words it has, how many of them differ, the first, and a likely cause."""

    signal: str
    file: str
    words: int
    mismatches: int
    first: Difference | None
    hint: str | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "signal": self.signal,
            "file": self.file,
            "words": self.words,
            "mismatches": self.mismatches,
            "first": None if self.first is None else self.first.to_dict(),
            "hint": self.hint,
        }


@dataclass(frozen=True)
class Comparison:
    """What was compared, in order of computation; ``not_compared``: signals without a file."""

    digest: str
    rows: int
    dim: int
    signals: tuple[SignalResult, ...]
    not_compared: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return all(result.first is None for result in self.signals)

    @property
    def first(self) -> SignalResult | None:
        """Of the first row that differs the first differing signal; a channel signal before all."""
        wrong = [result for result in self.signals if result.first is not None]
        return min(wrong, key=_row_of, default=None)  # of equal ones min takes the first

    def line(self) -> str | None:
        """The first difference in one line; None if there is none."""
        result = self.first
        if result is None or result.first is None:
            return None
        return result.first.line(f"file={result.file}")

    def to_dict(self) -> dict[str, Any]:
        return {
            "digest": self.digest,
            "rows": self.rows,
            "dim": self.dim,
            "signals": [result.to_dict() for result in self.signals],
            "first": None if self.first is None else self.first.to_dict(),
            "not_compared": list(self.not_compared),
        }


def _row_of(result: SignalResult) -> int:
    assert result.first is not None
    return -1 if result.first.row is None else result.first.row


def compare(
    vectors: str | Path, got: str | Path, *, signal: str | None = None, real: bool = False
) -> Comparison:
    """Compare what hardware wrote with a folder of golden vectors.

    got: a file, or a folder of files named after signals, y among them: NAME.hex or NAME.mem (a
    word a line), NAME_beats.hex (a beat a line), NAME.dat (decimal codes, or real values of x and
    y), NAME.npy (integers). signal: what a single file holds, if its name does not say so; else y.
    real: numbers in .dat files are real values even where all are integers.

    Raises ApproxNormError for vectors that are not intact, for a folder without y, and for a file
    of ``got`` that is no signal's, cannot be read as words, or holds another number of them; it
    names the file.
    """
    known = read_vectors(vectors)
    if not known.rows:
        raise ApproxNormError(f"{vectors} has no rows to compare; write vectors with rows")
    files = find_files(known, Path(got), signal)
    if real and not any(file.is_decimal for file in files):
        raise ApproxNormError(
            f"--real is given, but {got} is no .dat file and holds none; leave it out"
        )
    where = Where(known.manifest.classes, known.manifest.lanes, known.digest)
    results = [_compare_file(known, file, where, real) for file in files]
    given = {result.signal for result in results}
    absent = tuple(e.name for e in known.manifest.signals if e.name not in given)
    return Comparison(known.digest, known.rows, known.dim, tuple(results), absent)


def _compare_file(vectors: VectorSet, file: GotFile, where: Where, real: bool) -> SignalResult:
    entry = file.entry
    got, want = read_got(file, vectors, real), vectors.array(entry.name)
    wrong = (got.codes != want) | got.unknown
    if not wrong.any():
        return SignalResult(entry.name, file.path.name, want.size, 0, None, None)
    return SignalResult(
        entry.name,
        file.path.name,
        want.size,
        int(np.count_nonzero(wrong)),
        _first(entry, got, want, np.argwhere(wrong)[0].tolist(), where),
        hint(got, want, entry, vectors.manifest),
    )


def _first(
    entry: SignalEntry, got: Got, want: np.ndarray, index: Sequence[int], where: Where
) -> Difference:
    at = tuple(index)
    row = None if entry.level == "channel" else at[0]
    element = None if entry.level == "row" else at[-1]
    found = "x" if got.unknown[at] else int(got.codes[at])
    return where.difference(entry.name, row, element, found, int(want[at]))
