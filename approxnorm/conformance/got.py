"""What a user's RTL or board wrote: which files hold which signals, and their codes.

More is taken than golden vectors' own format allows: what simulators and boards really write.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from approxnorm.conformance import words
from approxnorm.errors import ApproxNormError
from approxnorm.inputs.npy import open_npy
from approxnorm.inputs.stored import DtypeError, Stored
from approxnorm.spec.rmsnorm_spec import RMSNormSpec
from approxnorm.vectors import VectorSet
from approxnorm.vectors.manifest import SignalEntry

BEATS = "_beats"
HEX, DECIMAL, ARRAY = (".hex", ".mem"), (".dat",), (".npy",)
SUFFIXES = (*HEX, *DECIMAL, *ARRAY)
_MAX_BYTES = 200  # of text for each word: comments and addresses included
OUTPUT = "y"
_REAL_SIGNALS = ("x", "y")  # those whose codes stand for real numbers


@dataclass(frozen=True)
class GotFile:
    """A file, the signal that it holds, and whether as stream beats."""

    path: Path
    entry: SignalEntry
    beats: bool

    @property
    def is_decimal(self) -> bool:
        return self.path.suffix.lower() in DECIMAL


@dataclass(frozen=True)
class Got:
    """A file's codes, int64 in the signal's shape; unknown: where a word had x or z digits.

    lanes: all lanes of its beats, (rows, beats, lanes), if the file holds beats.
    """

    codes: np.ndarray
    unknown: np.ndarray
    lanes: np.ndarray | None = None


def find_files(vectors: VectorSet, got: Path, signal: str | None) -> list[GotFile]:
    """The files of ``got`` in order of computation.

    got: a file or a folder; in a folder, files are taken by their names, and one of them is y's.
    signal: what a single file holds; else its name says so, or it is y. Raises ApproxNormError if
    there is no such file, and for one in the folder whose name is no signal's: it was meant to be
    compared.
    """
    if got.is_dir():
        if signal is not None:
            raise ApproxNormError(
                f"--signal is {signal!r}, but {got} is a folder, whose files' names say what they"
                " hold; give a file, or leave --signal out"
            )
        return _in_folder(vectors, got)
    if not got.exists():
        raise ApproxNormError(f"{got} does not exist; give a file or a folder of {_allowed()}")
    if got.suffix.lower() not in SUFFIXES:
        raise ApproxNormError(f"{got} has the suffix {got.suffix!r}; allowed: {_allowed()}")
    named = _by_name(vectors, got) if signal is None else None
    beats = got.stem.endswith(BEATS)
    return [named or _file(GotFile(got, vectors.signal(signal or OUTPUT), beats))]


def _allowed() -> str:
    return "NAME.hex, NAME.mem, NAME_beats.hex, NAME.dat or NAME.npy"


def _in_folder(vectors: VectorSet, folder: Path) -> list[GotFile]:
    found: list[GotFile] = []
    order = [e.name for e in vectors.manifest.signals]
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in SUFFIXES or path.name.startswith("."):
            continue
        file = _by_name(vectors, path)
        if file is None:
            raise ApproxNormError(
                f"{path} has a name that is no signal's; allowed: {_allowed()}, where NAME is one"
                f" of {', '.join(order)}; rename it, or take it out of the folder"
            )
        found.append(file)
    if not found:
        raise ApproxNormError(
            f"{folder} holds no file of a signal; allowed: {_allowed()}, where NAME is one of"
            f" {', '.join(order)}"
        )
    if all(file.entry.name != OUTPUT for file in found):
        raise ApproxNormError(
            f"{folder} holds no {OUTPUT}, only {', '.join(f.path.name for f in found)}; add"
            f" {OUTPUT}.hex or another file of it, or give one file in place of the folder"
        )
    return sorted(found, key=lambda f: order.index(f.entry.name))


def _by_name(vectors: VectorSet, path: Path) -> GotFile | None:
    """The signal that a file's name says; None if it says none."""
    entries = {e.name: e for e in vectors.manifest.signals}
    if path.stem in entries:
        return _file(GotFile(path, entries[path.stem], False))
    name = path.stem.removesuffix(BEATS)
    if name in entries and entries[name].level == "element" and path.suffix.lower() in HEX:
        return _file(GotFile(path, entries[name], True))
    return None


def _file(file: GotFile) -> GotFile:
    """The same, if it is a file itself and can hold what it is said to."""
    mode = file.path.lstat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
        raise ApproxNormError(
            f"{file.path} is {kind}; allowed: a file that holds the words of {file.entry.name}"
        )
    if file.beats and (file.entry.level != "element" or file.path.suffix.lower() not in HEX):
        raise ApproxNormError(
            f"{file.path}: beats are hex words of an element signal, and {file.entry.name} has the"
            f" level {file.entry.level}; give a .hex file of an element signal"
        )
    return file


def read_got(file: GotFile, vectors: VectorSet, real: bool = False) -> Got:
    """A file's codes. real: the numbers of a .dat are real values even if all are integers.

    Raises ApproxNormError that names the file for one that cannot be read, holds something other
    than words, or another number of them than the vectors.
    """
    suffix = file.path.suffix.lower()
    try:
        if suffix in ARRAY:
            return _from_array(file, vectors)
        text = _read(file, vectors)
        if suffix in HEX:
            return _from_hex(file, vectors, text)
        return _from_decimals(file, vectors, text, real)
    except OSError as error:
        reason = error.strerror or error
        raise ApproxNormError(f"{file.path} cannot be read: {reason}; give another") from error


def _read(file: GotFile, vectors: VectorSet) -> bytes:
    size = file.path.stat().st_size
    most = _MAX_BYTES * (file.entry.words + 100)
    if size > most:
        raise ApproxNormError(
            f"{file.path} has {size} bytes, too many for {file.entry.words} words of"
            f" {file.entry.name}; give the words of these vectors alone"
        )
    return file.path.read_bytes()


def _from_hex(file: GotFile, vectors: VectorSet, text: bytes) -> Got:
    manifest, entry, where = vectors.manifest, file.entry, str(file.path)
    tokens = words.hex_tokens(text, where)
    if not file.beats:
        _check_count(file, vectors, len(tokens), 1)
        codes, unknown = words.from_tokens(tokens, entry.width, 1, entry.signed, where)
        shape = vectors.shape(entry)
        return Got(codes.reshape(shape), unknown.reshape(shape))
    per_row = manifest.padding.beats_per_row
    _check_count(file, vectors, len(tokens), manifest.lanes)
    codes, unknown = words.from_tokens(tokens, entry.width, manifest.lanes, entry.signed, where)
    rows = (manifest.rows, per_row * manifest.lanes)
    in_rows, dim = codes.reshape(rows), manifest.dim
    lanes = np.where(unknown, np.iinfo(np.int64).min, codes)
    return Got(
        in_rows[:, :dim],
        unknown.reshape(rows)[:, :dim],
        lanes.reshape(manifest.rows, per_row, manifest.lanes),
    )


def _from_decimals(file: GotFile, vectors: VectorSet, text: bytes, real: bool) -> Got:
    entry, where = file.entry, str(file.path)
    tokens = words.decimal_tokens(text, where)
    _check_count(file, vectors, len(tokens), 1)
    if real or not words.all_integers(tokens):
        codes, unknown = _from_reals(file, vectors, tokens)
    else:
        codes, unknown = words.from_integers(tokens, where)
    shape = vectors.shape(entry)
    return Got(codes.reshape(shape), unknown.reshape(shape))


def _from_reals(
    file: GotFile, vectors: VectorSet, tokens: list[bytes]
) -> tuple[np.ndarray, np.ndarray]:
    """The codes of real numbers, each of which must be a code's value exactly."""
    entry = file.entry
    spec = RMSNormSpec(**vectors.manifest.spec)
    factors = {"x": spec.channel_shifts, "y": spec.y_channel_shifts}
    if entry.name not in _REAL_SIGNALS or factors[entry.name] is not None:
        raise ApproxNormError(
            f"{file.path} holds real numbers, and {entry.name} is a signal of integers; write its"
            " codes"
        )
    form = {"x": spec.x, "y": spec.y}[entry.name].to_format(entry.name)
    values, unknown = words.from_reals(tokens, str(file.path))
    scaled = np.rint(values / float(form.scale)) + form.zero_point
    codes = np.clip(scaled, -(2.0**53), 2.0**53).astype(np.int64)
    wrong = np.flatnonzero((form.dequantize(codes) != values) & ~unknown)
    if len(wrong):
        at = int(wrong[0])
        near = float(form.dequantize(codes[at : at + 1])[0])
        raise ApproxNormError(
            f"{file.path} number {at + 1} is {tokens[at].decode()}, no multiple of {entry.name}'s"
            f" scale {float(form.scale)!r} (the nearest code, {codes[at]}, is {near!r}); write"
            " reals with 17 digits, or codes"
        )
    return codes, unknown


def _from_array(file: GotFile, vectors: VectorSet) -> Got:
    stored = _open_codes(file)
    shape = vectors.shape(file.entry)
    count = int(np.prod(stored.shape, dtype=object))
    _check_count(file, vectors, count, 1)
    if len(stored.shape) > 1 and stored.shape[-1] != shape[-1]:
        raise ApproxNormError(
            f"{file.path} has shape {stored.shape}; allowed: {shape}, or the same codes flat"
        )
    codes = stored.whole()
    if codes.dtype == np.uint64 and int(codes.max()) >> 63:
        raise ApproxNormError(
            f"{file.path} holds the code {codes.max()}; allowed: {file.entry.lo} to"
            f" {file.entry.hi}, as signed integers"
        )
    return Got(codes.astype(np.int64).reshape(shape), np.zeros(shape, bool))


def _open_codes(file: GotFile) -> Stored:
    """The array of a .npy file, unread, if it holds integers."""
    try:
        stored = open_npy(file.path)
    except DtypeError as error:
        raise _no_codes(file, error.dtype) from error
    if stored.dtype.kind not in "iu":
        raise _no_codes(file, stored.dtype)
    return stored


def _no_codes(file: GotFile, dtype: np.dtype[Any]) -> ApproxNormError:
    return ApproxNormError(
        f"{file.path} has dtype {dtype}; allowed: integer codes of {file.entry.name}"
    )


def _check_count(file: GotFile, vectors: VectorSet, found: int, lanes: int) -> None:
    """Refuse another number of words or beats than the vectors', and say how many rows that is."""
    entry, manifest = file.entry, vectors.manifest
    per_row = {"element": -(-manifest.dim // lanes), "row": 1, "channel": 0}[entry.level]
    due = manifest.rows * per_row or entry.words
    if found == due:
        return
    kind = f"beats of {lanes} lanes" if file.beats else "words"
    rows = f", that is {_rows(found, per_row)}" if per_row else ""
    due_rows = f" ({manifest.rows} rows)" if per_row else ""
    advice = "; ".join(_advice(file, vectors, found))
    raise ApproxNormError(
        f"{file.path} has {found} {kind}{rows}; allowed: {due}{due_rows}, one for each of"
        f" {vectors.folder / entry.file}{'; ' if advice else ''}{advice}"
    )


def _rows(found: int, per_row: int) -> str:
    whole, rest = divmod(found, per_row)
    return f"{whole} rows" + (f" and {rest} of {per_row}" if rest else "")


def _advice(file: GotFile, vectors: VectorSet, found: int) -> Iterator[str]:
    manifest = vectors.manifest
    beats = manifest.rows * manifest.padding.beats_per_row
    if file.beats and found == file.entry.words:
        yield f"if these are words, name the file {file.entry.name}{file.path.suffix}"
    elif not file.beats and file.entry.level == "element" and found == beats:
        yield f"if these are beats, name the file {file.entry.name}{BEATS}.hex"
    elif found == beats * manifest.lanes and not file.beats and file.entry.level == "element":
        yield "leave out the lanes past the end of a row"
