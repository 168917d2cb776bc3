"""Frequent mistakes of wiring and of reading: would the codes match if one of them were undone?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from approxnorm.conformance.got import Got
from approxnorm.vectors.manifest import Manifest, SignalEntry

_NEVER = np.iinfo(np.int64).min  # no code: widths end at 63 bits


@dataclass(frozen=True)
class _Case:
    """One signal's codes: got (unknown ones as no code), want, and what the set says of them."""

    got: np.ndarray
    lanes: np.ndarray | None
    want: np.ndarray
    entry: SignalEntry
    manifest: Manifest


def hint(got: Got, want: np.ndarray, entry: SignalEntry, manifest: Manifest) -> str | None:
    """What would make all codes match, in a sentence; None if nothing that is looked for does."""
    codes = np.where(got.unknown, _NEVER, got.codes)
    case = _Case(codes, got.lanes, want.astype(np.int64), entry, manifest)
    for find in (_other_sign, _reversed_lanes, _shifted, _transposed, _offset):
        for text in find(case):
            return f"{entry.name} would match if {text}"
    return None


def _other_sign(case: _Case) -> Iterator[str]:
    """Two's complement read without its sign, or an unsigned code read with one."""
    width = case.entry.width
    mask = (1 << width) - 1
    if np.array_equal(case.got & mask, case.want & mask) and (case.got != _NEVER).all():
        kind = "two's complement" if case.entry.signed else "unsigned"
        yield f"its words of {width} bits were read as {kind}"


def _reversed_lanes(case: _Case) -> Iterator[str]:
    manifest, lanes = case.manifest, case.manifest.lanes
    if case.entry.level != "element" or lanes == 1:
        return
    beats = case.lanes
    if beats is None and manifest.dim % lanes == 0:
        beats = case.got.reshape(manifest.rows, -1, lanes)
    if beats is None:
        return
    turned = beats[:, :, ::-1].reshape(manifest.rows, -1)[:, : manifest.dim]
    if np.array_equal(turned, case.want):
        yield f"the {lanes} lanes of each beat were in reverse: lane 0 belongs in the low bits"


def _shifted(case: _Case) -> Iterator[str]:
    """Everything one row, one beat or one element early or late."""
    dim, lanes = case.manifest.dim, case.manifest.lanes
    if case.entry.level == "channel":
        return
    steps = {"row": 1}
    if case.entry.level == "element":
        steps = {"row": dim, "beat": lanes, "element": 1}
    got, want = case.got.reshape(-1), case.want.reshape(-1)
    for kind, step in steps.items():
        if len(want) > step:
            if np.array_equal(got[step:], want[:-step]):
                yield f"it were not one {kind} late"
            if np.array_equal(got[:-step], want[step:]):
                yield f"it were not one {kind} early"
    yield from _shifted_beats(case)


def _shifted_beats(case: _Case) -> Iterator[str]:
    """The same for a file of beats, whose last beat of a row may be partly padding."""
    if case.lanes is None:
        return
    rows, per_row, lanes = case.lanes.shape
    want = np.zeros((rows, per_row * lanes), np.int64)
    want[:, : case.manifest.dim] = case.want
    real = np.arange(per_row * lanes) < case.manifest.dim
    due = np.where(real, want, 0).reshape(-1, lanes)
    got, used = case.lanes.reshape(-1, lanes), np.tile(real.reshape(per_row, lanes), (rows, 1))
    if len(due) > 1:
        if np.array_equal(got[1:][used[:-1]], due[:-1][used[:-1]]):
            yield "it were not one beat late"
        if np.array_equal(got[:-1][used[1:]], due[1:][used[1:]]):
            yield "it were not one beat early"


def _transposed(case: _Case) -> Iterator[str]:
    rows, dim = case.manifest.rows, case.manifest.dim
    if case.entry.level == "element" and min(rows, dim) > 1:
        turned = case.got.reshape(dim, rows).T
        if np.array_equal(turned, case.want):
            yield "it were written row after row, not channel after channel"


def _offset(case: _Case) -> Iterator[str]:
    """The same number missing in every code, as of a zero point."""
    if (case.got == _NEVER).any() or not case.got.size:
        return
    missing = case.want - case.got
    if missing.flat[0] != 0 and (missing == missing.flat[0]).all():
        yield f"{int(missing.flat[0])} were added to every code (is it the zero point?)"
