"""vectors.npz with the same bytes on every machine: stored, not compressed, and without dates."""

from __future__ import annotations

import math
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from approxnorm.backends.numpy_backend import storage_dtype
from approxnorm.errors import ApproxNormError
from approxnorm.program import Interval

NAME = "vectors.npz"
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold
_UNIX = 3
_CHUNK = 1 << 20
# What zipfile raises for damaged, encrypted and unknown contents.
_DAMAGED = (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError, ValueError, EOFError)


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


def read_npz(path: Path, name: str, interval: Interval, shape: tuple[int, ...]) -> np.ndarray:
    """One array of an archive, in the narrowest dtype that holds the interval.

    Raises ApproxNormError unless it is stored just as ``write_npz`` does, with that shape.
    """
    dtype = stored_dtype(interval)
    header = npy_header(dtype, shape)
    size = len(header) + math.prod(shape) * dtype.itemsize
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(f"{name}.npy")
            # Looked at first, so that no small file unpacks to a large one.
            if (info.compress_type, info.file_size) != (zipfile.ZIP_STORED, size):
                raise KeyError(name)
            data = archive.read(info)
    except _DAMAGED:
        raise _unlike(path, name) from None
    if not data.startswith(header):
        raise _unlike(path, name)
    return np.frombuffer(data, dtype, offset=len(header)).reshape(shape).copy()


def check_names(path: Path, names: Iterable[str]) -> None:
    """Raise ApproxNormError unless an archive holds just these arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = archive.namelist()
    except _DAMAGED:
        found = []
    if found != [f"{name}.npy" for name in sorted(names)]:
        raise ApproxNormError(
            f"{path} does not hold just the signals that the manifest lists; write the vectors"
            " again"
        )


def stored_dtype(interval: Interval) -> np.dtype:
    """The little-endian dtype in which a signal is stored."""
    return storage_dtype(interval).newbyteorder("<")


def _unlike(path: Path, name: str) -> ApproxNormError:
    return ApproxNormError(
        f"{path} does not hold {name} as the manifest describes it; write the vectors again"
    )
