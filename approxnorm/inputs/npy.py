"""The NPY format: its header, and .npy files read without loading them whole."""

import io
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.inputs.stored import Stored, check_dtype, file_blocks, matrix_shape, row_indices

# A header of a plain array is about 120 bytes; NumPy refuses to evaluate more than this.
MAX_HEADER = 10_000
# What NumPy 1 could have written; NumPy 2 goes to 64.
MAX_AXES = 32
# What zipfile raises for archives that are damaged in one way or another; KeyError is a member
# that is gone when it is opened again, ValueError an undecodable name or an impossible offset.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    NotImplementedError,
    ValueError,
)


@dataclass(frozen=True)
class Header:
    """What an NPY header says. `fortran` is set only where it matters: with two axes or more."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    size: int  # bytes before the data

    @property
    def data_bytes(self) -> int:
        rows, dim = matrix_shape(self.shape)
        return rows * dim * self.dtype.itemsize


def open_npy(path: Path) -> Stored:
    """Return the array of a .npy file, unread. Raises ApproxNormError if it is not one."""
    where = str(path)
    with damage_is_an_error(where), open(path, "rb") as stream:
        header = read_header(stream, where)
        size = path.stat().st_size
    check_size(where, header, size)
    blocks = file_blocks(path, where, header.size, header.dtype, header.shape)
    if header.fortran and header.data_bytes:  # an empty file part cannot be mapped
        blocks = partial(_mapped_rows, path, where, header)
    return Stored(where, header.shape, header.dtype, blocks)


def check_size(where: str, header: Header, size: int) -> None:
    """Raise ApproxNormError unless header and data together are exactly size bytes."""
    wanted = header.size + header.data_bytes
    if size != wanted:
        state = "truncated" if size < wanted else "followed by foreign bytes"
        raise ApproxNormError(
            f"{where} has {size} bytes but its header (shape {header.shape}, dtype {header.dtype}) "
            f"asks for {wanted}; the array is {state}, so write it again"
        )


def read_header(stream: IO[bytes], where: str) -> Header:
    """Read the header at the start of stream (versions 1 to 3), leaving stream at the data.

    Raises ApproxNormError if it is none, is damaged or too long, or names a dtype that is no real
    number.
    """
    start = read_exactly(stream, 8, where)
    if start[:6] != b"\x93NUMPY":
        raise ApproxNormError(f"{where} is not an NPY array; save it with numpy.save or savez")
    version = start[6]
    if version not in (1, 2, 3) or start[7] != 0:
        raise ApproxNormError(
            f"{where} has NPY header version {version}.{start[7]}; allowed are 1.0, 2.0 and 3.0"
        )
    length_bytes = read_exactly(stream, 2 if version == 1 else 4, where)
    length = int.from_bytes(length_bytes, "little")
    if length > MAX_HEADER:
        raise ApproxNormError(
            f"{where} claims an NPY header of {length} bytes; at most {MAX_HEADER} are allowed, "
            f"so the file is damaged or not a plain array"
        )
    text = length_bytes + read_exactly(stream, length, where)
    shape, fortran, dtype = _parse_header(text, version, where)
    check_dtype(where, dtype)
    return Header(shape, fortran and len(shape) > 1, dtype, 8 + len(text))


def _parse_header(
    text: bytes, version: int, where: str
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    # Version 3 differs from 2 only in the encoding of field names, and an array with fields is
    # refused anyway.
    parse = np.lib.format.read_array_header_1_0
    if version > 1:
        parse = np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # hints on Python 2's and long-gone notations
            shape, fortran, dtype = parse(io.BytesIO(text))
    except Exception as error:  # of a damaged text NumPy's parser raises whatever it trips over
        raise ApproxNormError(
            f"{where} has an NPY header that cannot be parsed; write the array again with "
            f"numpy.save or savez"
        ) from error
    if any(isinstance(n, bool) or not 0 <= n <= np.iinfo(np.intp).max for n in shape):
        raise ApproxNormError(f"{where} has the impossible shape {shape}; write the array again")
    if len(shape) > MAX_AXES:
        raise ApproxNormError(f"{where} has {len(shape)} axes; at most {MAX_AXES} are allowed")
    return shape, fortran, dtype


def read_exactly(stream: IO[bytes], count: int, where: str) -> bytes:
    """Return the next count bytes of a header; ApproxNormError if the stream has fewer."""
    data = stream.read(count)
    if len(data) < count:
        raise ApproxNormError(
            f"{where} ends inside its NPY header; the file is truncated or not an NPY array"
        )
    return data


def _mapped_rows(
    path: Path, where: str, header: Header, rows_per_block: int
) -> Iterator[np.ndarray]:
    # Mapped pages are counted with the process, but the system takes them back when it needs them.
    with damage_is_an_error(where):
        if path.stat().st_size < header.size + header.data_bytes:
            raise ApproxNormError(f"{where} became shorter after it was opened; open it again")
        array = np.memmap(path, header.dtype, "r", header.size, header.shape, order="F")
    for index in row_indices(header.shape, rows_per_block):
        yield array[index]


@contextmanager
def damage_is_an_error(where: str) -> Iterator[None]:
    """Turn what zipfile, zlib and the operating system raise into one ApproxNormError."""
    try:
        yield
    except ApproxNormError:
        raise
    except _DAMAGE as error:
        reason = str(error.args[0]) if error.args else "it ends too early"
        raise ApproxNormError(
            f"{where} is damaged or not an .npz archive ({reason}); write it again with numpy.savez"
        ) from error
    except OSError as error:
        raise ApproxNormError(f"{where} cannot be read: {error.strerror or error}") from error
