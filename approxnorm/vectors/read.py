"""Reading golden vectors back: nothing is used that is not just what was written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.program import Interval
from approxnorm.vectors.archive import read_npz
from approxnorm.vectors.manifest import (
    NAME,
    PROVENANCE,
    Manifest,
    SignalEntry,
    read_manifest,
    require_regular,
)
from approxnorm.vectors.text import from_hex, sha256_of
from approxnorm.vectors.verify import verify


@dataclass(frozen=True)
class VectorSet:
    """A folder of golden vectors whose files are what its manifest says."""

    folder: Path
    manifest: Manifest

    @property
    def rows(self) -> int:
        return self.manifest.rows

    @property
    def dim(self) -> int:
        return self.manifest.dim

    @property
    def digest(self) -> str:
        """The digest of the model that made the vectors."""
        return self.manifest.digest

    def signal(self, name: str) -> SignalEntry:
        """A signal's entry; ApproxNormError if there is none of that name."""
        for entry in self.manifest.signals:
            if entry.name == name:
                return entry
        names = ", ".join(e.name for e in self.manifest.signals)
        raise ApproxNormError(f"{self.folder} has no signal {name!r}; allowed: {names}")

    def shape(self, entry: SignalEntry) -> tuple[int, ...]:
        """(rows, dim) of an element signal, (rows,) of a row signal, (dim,) of a channel's."""
        return self.manifest.shape(entry)

    def array(self, name: str) -> np.ndarray:
        """A signal's codes from vectors.npz, in the signal's shape and its narrowest dtype."""
        entry = self.signal(name)
        path = self.folder / self.manifest.archive.file
        return read_npz(path, name, Interval(entry.lo, entry.hi), self.shape(entry))

    def from_text(self, name: str) -> np.ndarray:
        """A signal's codes from its text file, int64 in the signal's shape."""
        entry = self.signal(name)
        path = self.folder / entry.file
        codes = from_hex(path.read_bytes(), entry.width, entry.signed, str(path))
        return codes.reshape(self.shape(entry))


def read_vectors(folder: str | Path) -> VectorSet:
    """Open a folder of golden vectors, check every byte of it, and the manifest itself.

    Raises ApproxNormError that names the file if the manifest or a file is missing, cut short,
    edited, not listed in the manifest, or no regular file; and that names the field if the
    manifest differs from what the model of its spec and gamma has (digest, signals, formats).
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ApproxNormError(f"{folder} is not a folder; give one that approxnorm vectors wrote")
    manifest = read_manifest(folder)
    _check_counts(folder, manifest)
    for name in foreign_files(folder, manifest):
        raise ApproxNormError(
            f"{folder / name} is not listed in {NAME}; keep other files outside the folder"
        )
    sizes = manifest.sizes()
    for name, sha256 in manifest.files().items():
        _check_file(folder / name, sizes.get(name), sha256)
    verify(folder, manifest)
    return VectorSet(folder, manifest)


def foreign_files(folder: Path, manifest: Manifest) -> list[str]:
    """Names in a folder that its manifest does not list; hidden files do not count."""
    known = {NAME, PROVENANCE, *manifest.files()}
    found = sorted(path.name for path in folder.iterdir())
    return [name for name in found if name not in known and not name.startswith(".")]


def _check_file(path: Path, size: int | None, sha256: str) -> None:
    try:
        require_regular(path)
    except FileNotFoundError:
        raise ApproxNormError(f"{path} is missing; write the vectors again") from None
    found = path.stat().st_size
    if size is not None and found != size:
        raise ApproxNormError(
            f"{path} has {found} bytes, not {size}, and was cut or edited; write the vectors again"
        )
    if sha256_of(path) != sha256:
        raise ApproxNormError(
            f"{path} was edited: its SHA-256 is not the manifest's; write the vectors again"
        )


def _check_counts(folder: Path, manifest: Manifest) -> None:
    """The manifest's numbers must fit together, whoever wrote it."""
    where = folder / NAME
    for entry in manifest.signals:
        words = int(np.prod(manifest.shape(entry), dtype=object))
        if entry.words != words:
            raise ApproxNormError(
                f"{where}: signal {entry.name} has {entry.words} words; allowed: {words}"
            )
    names = {e.name for e in manifest.signals}
    for needed in ("x", "gamma", "y"):
        if needed not in names:
            raise ApproxNormError(f"{where}: signal {needed} is missing; write the vectors again")
    beats = -(-manifest.dim // manifest.lanes)
    if manifest.padding.beats_per_row != beats:
        raise ApproxNormError(
            f"{where}: padding.beats_per_row is {manifest.padding.beats_per_row}; allowed: {beats}"
        )
    total = sum(c.count for c in manifest.classes)
    if total != manifest.rows:
        raise ApproxNormError(
            f"{where}: the classes have {total} rows; allowed: {manifest.rows}, as rows says"
        )
