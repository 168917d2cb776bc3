"""Archives of NPY arrays (.npz): each member streamed out of the zip, stored or deflated."""

import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.inputs.npy import (
    Header,
    check_size,
    damage_is_an_error,
    read_exactly,
    read_header,
)
from approxnorm.inputs.stored import Stored, matrix_shape, row_indices

# Rows are scattered over the whole of a Fortran-order array, so a zip member in that order is
# loaded whole, up to this many bytes. (A .npy in that order is mapped, with no limit.)
MAX_FORTRAN_MEMBER = 1 << 30
# Deflate cannot shrink anything further than about 1032 to 1; a member that claims more lies.
MAX_DEFLATE_RATIO = 1032
CHUNK = 1 << 18
_END_SIZE = 22  # of a zip's end record, without the archive's comment
_COUNT_IS_ELSEWHERE = 0xFFFF  # the end record of a zip64 archive may say so


def open_npz(path: Path) -> list[tuple[str, Stored]]:
    """Return (key, array) of each member of an .npz, unread, in the order of the file.

    Raises ApproxNormError if the file is no zip archive or a member is no plain array.
    """
    with damage_is_an_error(str(path)), zipfile.ZipFile(path) as archive:
        size = path.stat().st_size
        _check_count(path, archive, size)
        return [
            (info.filename.removesuffix(".npy"), _open_member(path, archive, info, size))
            for info in archive.infolist()
        ]


def _check_count(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    """Raise unless as many members were found as the archive says it has.

    zipfile does not compare: one wrong length in the directory can hide members, and a hidden
    gamma would be taken for none.
    """
    with open(path, "rb") as stream:
        stream.seek(max(size - _END_SIZE - len(archive.comment), 0))
        end = stream.read(_END_SIZE)
    count = int.from_bytes(end[10:12], "little")
    found = len(archive.infolist())
    if end[:4] != b"PK\5\6" or count not in (found, _COUNT_IS_ELSEWHERE):
        raise ApproxNormError(
            f"{path} has a damaged directory or is followed by foreign bytes; write it again with "
            f"numpy.savez"
        )


def _open_member(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, archive_size: int
) -> Stored:
    where = f"{path}: {info.filename.removesuffix('.npy')!r}"
    _check_member(where, info, archive_size)
    with damage_is_an_error(where), archive.open(info) as stream:
        header = read_header(stream, where)
    check_size(where, header, info.file_size)
    if header.fortran and header.data_bytes > MAX_FORTRAN_MEMBER:
        raise ApproxNormError(
            f"{where} is {header.data_bytes} bytes in Fortran order; at most {MAX_FORTRAN_MEMBER} "
            f"can be read in that order, so save it in C order (numpy.ascontiguousarray)"
        )
    blocks = partial(_member_blocks, path, where, info.filename, header)
    return Stored(where, header.shape, header.dtype, blocks)


def _check_member(where: str, info: zipfile.ZipInfo, archive_size: int) -> None:
    """Raise unless the member is stored or deflated, not encrypted, of a size that can be true."""
    if info.flag_bits & 1:
        raise ApproxNormError(f"{where} is encrypted; save the archive with numpy.savez")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ApproxNormError(
            f"{where} is compressed by zip method {info.compress_type}; allowed are stored and "
            f"deflated, so save the archive with numpy.savez or numpy.savez_compressed"
        )
    ratio = 1 if info.compress_type == zipfile.ZIP_STORED else MAX_DEFLATE_RATIO
    if info.compress_size > archive_size or info.file_size > ratio * info.compress_size:
        raise ApproxNormError(
            f"{where} claims {info.file_size} bytes, which its {info.compress_size} stored bytes "
            f"cannot hold; the archive is damaged, so write it again"
        )


def _member_blocks(
    path: Path, where: str, member: str, header: Header, rows_per_block: int
) -> Iterator[np.ndarray]:
    """Yield the rows of one zip member, checked before the last goes out."""
    size = header.data_bytes
    if header.fortran:
        whole = next(_member_bytes(path, where, member, header.size, size, max(size, 1)))
        array = whole.view(header.dtype).reshape(header.shape, order="F")
        for index in row_indices(header.shape, rows_per_block):
            yield array[index]
        return
    _, dim = matrix_shape(header.shape)
    per_block = max(rows_per_block * dim * header.dtype.itemsize, 1)
    for data in _member_bytes(path, where, member, header.size, size, per_block):
        if data.size:
            yield data.view(header.dtype).reshape(-1, dim)


def _member_bytes(
    path: Path, where: str, member: str, skip: int, size: int, per_block: int
) -> Iterator[np.ndarray]:
    """Yield the size bytes after the first skip, per_block at a time; one empty block if 0."""
    with (
        damage_is_an_error(where),
        zipfile.ZipFile(path) as archive,
        archive.open(member) as stream,
    ):
        read_exactly(stream, skip, where)
        for start in range(0, max(size, 1), per_block):
            stop = min(start + per_block, size)
            data = np.empty(stop - start, np.uint8)
            _fill(stream, data.data, where)
            # At the member's end zipfile compares the checksum: do that before the block goes out.
            if stop == size and stream.read(1):
                raise ApproxNormError(f"{where} is followed by foreign bytes; write it again")
            yield data


def _fill(stream: IO[bytes], target: memoryview, where: str) -> None:
    # In small pieces: zipfile keeps several copies of the piece it is asked for.
    position = 0
    while position < len(target):
        piece = stream.read(min(CHUNK, len(target) - position))
        if not piece:
            raise ApproxNormError(f"{where} is truncated; write the archive again")
        target[position : position + len(piece)] = piece
        position += len(piece)
