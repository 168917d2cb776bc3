"""Does a manifest tell what its own spec and gamma make? The model is built again to see."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from approxnorm.backends.numpy_backend import BLOCK_ELEMENTS
from approxnorm.errors import ApproxNormError
from approxnorm.methods.base import shown
from approxnorm.model import RMSNorm
from approxnorm.program import Interval
from approxnorm.rmsnorm import SpecWarning
from approxnorm.spec.rmsnorm_spec import RMSNormSpec
from approxnorm.vectors import archive
from approxnorm.vectors.manifest import NAME, BeatEntry, Manifest, SignalEntry
from approxnorm.vectors.signals import STREAMED, beat_entry, ports_of, signal_entry
from approxnorm.vectors.text import to_beats, to_hex


def verify(folder: Path, manifest: Manifest) -> None:
    """Refuse a manifest that its spec, its gamma or its archive contradict.

    The files must have passed their SHA-256. Raises ApproxNormError that names the file and field.
    """
    where = folder / NAME
    _check_classes(where, manifest)
    model = _model(folder, manifest)
    if model.digest != manifest.digest:
        raise _wrong(where, "digest", manifest.digest, f"{model.digest}, which spec and gamma have")
    for key, value in model.spec.to_dict().items():
        if manifest.spec.get(key) != value:  # left open, though the digest is of what it becomes
            raise _wrong(where, f"spec.{key}", manifest.spec.get(key), shown(value))
    _check_signals(where, manifest, model)
    _check_codes(folder, manifest)


def _wrong(where: Path, field: str, found: object, allowed: object) -> ApproxNormError:
    return ApproxNormError(
        f"{where}: {field} is {shown(found)}; allowed: {allowed}; write the vectors again"
    )


def _check_classes(where: Path, manifest: Manifest) -> None:
    """Classes follow each other without a gap; that they reach the last row is a matter of sums."""
    first = 0
    for i, entry in enumerate(manifest.classes):
        if entry.first != first:
            raise _wrong(where, f"classes.{i}.first", entry.first, first)
        first += entry.count


def _model(folder: Path, manifest: Manifest) -> RMSNorm:
    """The model of the manifest's spec and the archive's gamma."""
    where = folder / NAME
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpecWarning)  # said when the vectors were written
        try:
            spec = RMSNormSpec(**manifest.spec)
        except (ApproxNormError, TypeError) as error:
            raise _bad_spec(where, error) from None
        if spec.missing():
            raise ApproxNormError(
                f"{where}: spec.{spec.missing()[0]} is missing; write the vectors again"
            )
        if spec.dim != manifest.dim:
            raise _wrong(where, "dim", manifest.dim, f"{spec.dim}, as spec.dim says")
        form = spec.gamma.to_format("gamma")
        path = folder / manifest.archive.file
        gamma = archive.read_npz(path, "gamma", Interval(form.lo, form.hi), (manifest.dim,))
        try:
            return RMSNorm(spec, gamma)
        except ApproxNormError as error:
            raise _bad_spec(where, error) from None


def _bad_spec(where: Path, error: Exception) -> ApproxNormError:
    return ApproxNormError(f"{where}: spec: {str(error).removeprefix('spec: ')}")


def _check_signals(where: Path, manifest: Manifest, model: RMSNorm) -> None:
    """Signals, beats and their files are those of the model, in its order."""
    ports = {p.name: p for p in ports_of(model)}
    _check_names(where, "signals", [e.name for e in manifest.signals], list(ports))
    _check_names(where, "beats", [e.signal for e in manifest.beats], list(STREAMED))
    for i, entry in enumerate(manifest.signals):
        due = signal_entry(model, ports[entry.name], entry.words, entry.sha256)
        _check_entry(where, f"signals.{i}", entry, due)
    words = manifest.rows * manifest.padding.beats_per_row
    for i, beat in enumerate(manifest.beats):
        made = beat_entry(ports[beat.signal], manifest.lanes, words, beat.sha256)
        _check_entry(where, f"beats.{i}", beat, made)
    if manifest.archive.file != archive.NAME:
        raise _wrong(where, "archive.file", manifest.archive.file, archive.NAME)


def _check_names(where: Path, field: str, found: Sequence[str], due: Sequence[str]) -> None:
    if list(found) != list(due):
        raise _wrong(where, f"the list of {field}", ", ".join(found), ", ".join(due))


def _check_entry(
    where: Path, field: str, found: SignalEntry | BeatEntry, due: SignalEntry | BeatEntry
) -> None:
    for key, value in due.model_dump().items():
        if getattr(found, key) != value:
            raise _wrong(where, f"{field}.{key}", getattr(found, key), value)


def _check_codes(folder: Path, manifest: Manifest) -> None:
    """Codes lie within their signal's interval, and text and beats are those of the archive."""
    path = folder / manifest.archive.file
    archive.check_names(path, [e.name for e in manifest.signals])
    beats = {b.signal: b for b in manifest.beats}
    for entry in manifest.signals:
        interval = Interval(entry.lo, entry.hi)
        codes = archive.read_npz(path, entry.name, interval, manifest.shape(entry))
        _check_range(path, entry, codes)
        _check_text(folder / entry.file, codes, partial(to_hex, width=entry.width))
        if entry.name in beats:
            _check_text(
                folder / beats[entry.name].file,
                codes,
                partial(_beats, width=entry.width, lanes=manifest.lanes),
                manifest.lanes,
            )


def _beats(codes: np.ndarray, width: int, lanes: int) -> bytes:
    return to_beats(codes.astype(np.int64), width, lanes)


def _check_range(path: Path, entry: SignalEntry, codes: np.ndarray) -> None:
    least, most = int(np.min(codes, initial=entry.lo)), int(np.max(codes, initial=entry.lo))
    if least < entry.lo or most > entry.hi:
        bad = least if least < entry.lo else most
        raise ApproxNormError(
            f"{path}: {entry.name} holds the code {bad}; allowed: {entry.lo} to {entry.hi}, as"
            f" {NAME} says; write the vectors again"
        )


def _check_text(
    path: Path, codes: np.ndarray, as_text: Callable[[np.ndarray], bytes], lanes: int = 1
) -> None:
    """A file holds what ``as_text`` makes of codes; a block at a time, so that any length fits."""
    row = codes.shape[1] if codes.ndim == 2 else 1
    size = max(1, BLOCK_ELEMENTS // max(row, lanes))
    with path.open("rb") as file:
        for start in range(0, len(codes), size):
            due = as_text(codes[start : start + size])
            if file.read(len(due)) != due:
                raise ApproxNormError(
                    f"{path} holds other codes than {archive.NAME}; write the vectors again"
                )
