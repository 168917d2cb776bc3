"""vectors.npz with the same bytes on every machine: stored, not compressed, and without dates."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NAME = "vectors.npz"
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold
_UNIX = 3
_CHUNK = 1 << 20


@dataclass(frozen=True)
class RawArray:
    """An array whose little-endian bytes, in C order, lie in a file."""

    path: Path
    dtype: np.dtype
    shape: tuple[int, ...]


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """The header of a .npy file of version 1.0, in C order."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape!r}, }}"
    padding = -(10 + len(text) + 1) % 64
    body = (text + " " * padding + "\n").encode("ascii")
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


def write_npz(path: Path, arrays: Mapping[str, RawArray]) -> None:
    """Pack arrays by name, in the order of their names."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            _add(archive, name, arrays[name])


def _add(archive: zipfile.ZipFile, name: str, array: RawArray) -> None:
    info = zipfile.ZipInfo(f"{name}.npy", _DATE)
    info.create_system = _UNIX  # not the system that runs this
    info.external_attr = 0o644 << 16
    header = npy_header(array.dtype, array.shape)
    info.file_size = len(header) + array.path.stat().st_size
    with archive.open(info, "w") as out, open(array.path, "rb") as source:
        out.write(header)
        shutil.copyfileobj(source, out, _CHUNK)


def read_npz(path: Path, name: str) -> np.ndarray:
    """One array of an archive."""
    with np.load(path, allow_pickle=False) as archive:
        array: np.ndarray = archive[name]
    return array
