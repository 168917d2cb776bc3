"""Writing golden vectors: every signal as text, all of them as .npz, and the manifest."""

from __future__ import annotations

import hashlib
import json
import operator
import platform
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from approxnorm.backends.numpy_backend import BLOCK_ELEMENTS
from approxnorm.model import RMSNorm
from approxnorm.output import check_replaceable, staged_folder
from approxnorm.program.datapath import Port
from approxnorm.vectors import archive, manifest
from approxnorm.vectors.folder import check_former
from approxnorm.vectors.generate import Plan, check_numbers, given, plan
from approxnorm.vectors.manifest import Manifest
from approxnorm.vectors.read import VectorSet
from approxnorm.vectors.signals import (
    STREAMED,
    beat_entry,
    beat_file,
    ports_of,
    signal_entry,
    signal_file,
)
from approxnorm.vectors.text import sha256_of, to_beats, to_hex


def write_vectors(
    model: RMSNorm,
    out: str | Path,
    *,
    level: int = 1,
    seed: int = 0,
    lanes: int = 8,
    x_codes: np.ndarray | None = None,
) -> VectorSet:
    """Write a folder of golden vectors; the same arguments give the same bytes on any machine.

    level, seed, lanes: see ``approxnorm.vectors.plan``. x_codes: the user's own input codes
    (..., dim) in place of generated rows; level and seed are then not used.

    The folder is written beside ``out`` and renamed. An empty folder or a previous set is
    replaced. Raises ApproxNormError if ``out`` holds anything else, for arguments that are not
    allowed, and for the rsqrt method "exact", which has no datapath.
    """
    out = Path(out)
    check_replaceable(out, check_former)
    if x_codes is None:
        planned = plan(model, level, seed, lanes=lanes)
        level, (seed, lanes) = operator.index(level), check_numbers(seed, lanes)
    else:
        _, lanes = check_numbers(seed, lanes)
        own = model.check_rows(np.asarray(x_codes), "x_codes")
        planned, seed = given(model, own.astype(np.int64)), 0
    chosen = "input" if x_codes is not None else level
    header = {"level": chosen, "seed": seed, "lanes": lanes}
    with staged_folder(out, check_former) as folder:
        written = _fill(folder, model, planned, header)
    return VectorSet(out, written)


class _SignalFile:
    """One signal being written, block by block: its text, and its raw bytes for the archive."""

    def __init__(self, folder: Path, port: Port, open_files: ExitStack) -> None:
        self.port = port
        self.path = folder / signal_file(port)
        self.raw_path = folder / f"{port.name}.raw"
        self.dtype = archive.stored_dtype(port.interval)
        self.words = 0
        self._hash = hashlib.sha256()
        self._text = open_files.enter_context(self.path.open("wb"))
        self._raw = open_files.enter_context(self.raw_path.open("wb"))

    def add(self, codes: np.ndarray) -> None:
        text = to_hex(codes, self.port.interval.width)
        self._hash.update(text)
        self._text.write(text)
        self._raw.write(np.ascontiguousarray(codes, self.dtype).tobytes())
        self.words += codes.size

    def entry(self, model: RMSNorm) -> manifest.SignalEntry:
        return signal_entry(model, self.port, self.words, self._hash.hexdigest())


class _BeatFile:
    """One signal being written as stream beats."""

    def __init__(self, folder: Path, port: Port, lanes: int, open_files: ExitStack) -> None:
        self.port, self.lanes = port, lanes
        self.path = folder / beat_file(port)
        self.words = 0
        self._hash = hashlib.sha256()
        self._text = open_files.enter_context(self.path.open("wb"))

    def add(self, codes: np.ndarray) -> None:
        text = to_beats(codes.astype(np.int64), self.port.interval.width, self.lanes)
        self._hash.update(text)
        self._text.write(text)
        self.words += len(codes) * -(-codes.shape[1] // self.lanes)

    def entry(self) -> manifest.BeatEntry:
        return beat_entry(self.port, self.lanes, self.words, self._hash.hexdigest())


def _fill(folder: Path, model: RMSNorm, planned: Plan, header: dict[str, Any]) -> Manifest:
    """Write everything into an empty folder; returns the manifest, which is written last."""
    ports = ports_of(model)
    with ExitStack() as open_files:
        files = {p.name: _SignalFile(folder, p, open_files) for p in ports}
        beats = {n: _BeatFile(folder, files[n].port, header["lanes"], open_files) for n in STREAMED}
        _write_blocks(model, planned, files, beats)
    classes = _class_entries(planned)
    rows = sum(c.count for c in classes)
    whole = Manifest(
        format=manifest.FORMAT,
        format_version=manifest.FORMAT_VERSION,
        digest=model.digest,
        rows=rows,
        dim=model.dim,
        lane_order=manifest.LANE_ORDER,
        padding=manifest.Padding(beats_per_row=-(-model.dim // header["lanes"]), value=0),
        classes=classes,
        signals=tuple(f.entry(model) for f in files.values()),
        beats=tuple(b.entry() for b in beats.values()),
        archive=_pack(folder, files, rows, model.dim),
        coverage=planned.coverage,
        spec=model.spec.to_dict(),
        **header,
    )
    (folder / manifest.PROVENANCE).write_bytes(_provenance())
    (folder / manifest.NAME).write_bytes(whole.to_json().encode("ascii"))
    return whole


def _write_blocks(
    model: RMSNorm, planned: Plan, files: dict[str, _SignalFile], beats: dict[str, _BeatFile]
) -> None:
    """All rows through the model, a block at a time, so that files of any length fit."""
    files["gamma"].add(model.gamma)
    lanes = max(f.lanes for f in beats.values())
    size = max(1, BLOCK_ELEMENTS // max(model.dim, lanes))  # beats are padded to whole lanes
    empty = np.zeros((0, model.dim), np.int64)
    _, trace = model(empty, trace=True)
    for name, file in files.items():
        if file.port.level == "channel" and name != "gamma":
            file.add(trace[name])
    blocks = (c.codes[i : i + size] for c in planned.classes for i in range(0, len(c.codes), size))
    for codes in blocks:
        _, trace = model(codes, trace=True)
        for name, file in files.items():
            if file.port.level != "channel":
                file.add(trace[name])
        for name, beats_file in beats.items():
            beats_file.add(trace[name])


def _pack(
    folder: Path, files: dict[str, _SignalFile], rows: int, dim: int
) -> manifest.ArchiveEntry:
    """The raw bytes of all signals into one archive."""
    path = folder / archive.NAME
    archive.write_npz(
        path,
        {
            name: archive.RawArray(f.raw_path, f.dtype, manifest.shape_of(f.port.level, rows, dim))
            for name, f in files.items()
        },
    )
    for file in files.values():
        file.raw_path.unlink()
    return manifest.ArchiveEntry(file=path.name, sha256=sha256_of(path))


def _class_entries(planned: Plan) -> tuple[manifest.ClassEntry, ...]:
    entries, first = [], 0
    for c in planned.classes:
        entries.append(manifest.ClassEntry(name=c.name, first=first, count=len(c.codes)))
        first += len(c.codes)
    return tuple(entries)


def _provenance() -> bytes:
    """Versions of what wrote the set: for people, hence without a SHA-256 in the manifest."""
    try:
        own = metadata.version("approxnorm")
    except metadata.PackageNotFoundError:  # run from the source
        own = "not installed"
    versions = {"approxnorm": own, "numpy": np.__version__, "python": platform.python_version()}
    return (json.dumps(versions, indent=1) + "\n").encode("ascii")
