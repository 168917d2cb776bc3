"""One array where it lies in a file: its shape and dtype are known, its values are not read yet."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from approxnorm.errors import ApproxNormError

ALLOWED_DTYPES = "float16, bfloat16, float32, float64 and 8- to 64-bit integers"

RawBlocks = Callable[[int], Iterator[np.ndarray]]


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return (rows, dim) of an array whose leading axes are flattened; a scalar is (1, 1)."""
    return prod(shape[:-1]), shape[-1] if shape else 1


class DtypeError(ApproxNormError):
    """An array of a dtype that the readers do not know."""

    def __init__(self, where: str, dtype: np.dtype[Any]) -> None:
        super().__init__(
            f"{where} has dtype {dtype}; allowed are {ALLOWED_DTYPES}, so convert it first"
        )
        self.dtype = dtype


@dataclass(frozen=True, eq=False)
class Stored:
    """An array in a file, seen as a matrix (rows, dim): the leading axes are flattened.

    `where` names the file and the array in messages. `raw_blocks(n)` reads the rows in order, n at
    a time (fewer in the last block), as (r, dim) arrays of `dtype`, byte order as stored.
    `bf16` says that `dtype` is uint16 and holds bfloat16 bit patterns.
    """

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    raw_blocks: RawBlocks
    bf16: bool = False

    @property
    def dim(self) -> int:
        """The length of the last axis; 1 for a scalar."""
        return matrix_shape(self.shape)[1]

    @property
    def rows(self) -> int:
        """The product of the leading axes; 1 for a vector or a scalar."""
        return matrix_shape(self.shape)[0]

    @property
    def is_integer(self) -> bool:
        """Whether the stored values are integers (bfloat16 patterns are not)."""
        return self.dtype.kind in "iu" and not self.bf16

    def blocks(self, rows_per_block: int) -> Iterator[np.ndarray]:
        """Yield fresh, C-contiguous (r, dim) blocks: int64 if stored as integers, else float32.

        Raises ApproxNormError at the first row with a NaN, an infinity, or a value that float32
        (or int64) cannot hold, and when the file turns out to be damaged.
        """
        first_row = 0
        for raw in self.raw_blocks(rows_per_block):
            if self.is_integer:
                yield self._int_block(raw, first_row)
            else:
                yield self._float_block(raw, first_row)
            first_row += len(raw)

    def whole(self) -> np.ndarray:
        """Return all values in native byte order, in the stored shape; bfloat16 becomes float32.

        Raises ApproxNormError if a value is NaN or infinite, or the file is damaged.
        """
        native = np.dtype(np.float32) if self.bf16 else self.dtype.newbyteorder("=")
        if prod(self.shape) == 0:
            return np.empty(self.shape, native)
        # Exhausted, not just begun: a zip member's checksum is compared at its end.
        (raw,) = list(self.raw_blocks(self.rows))
        values = _widen_bf16(raw) if self.bf16 else raw.astype(native, order="C", copy=False)
        if values.dtype.kind == "f":
            self._require_finite(values, values, 0)
        return values.reshape(self.shape)

    def _int_block(self, raw: np.ndarray, first_row: int) -> np.ndarray:
        if self.dtype.kind == "u" and self.dtype.itemsize == 8:
            fits = raw <= np.iinfo(np.int64).max
            if not fits.all():
                row, channel = _first_false(fits)
                raise ApproxNormError(
                    f"{self.where} holds {raw[row, channel]} at row {first_row + row}, channel "
                    f"{channel}; codes must fit int64, so store signed codes"
                )
        return np.ascontiguousarray(raw, dtype=np.int64)

    def _float_block(self, raw: np.ndarray, first_row: int) -> np.ndarray:
        if self.bf16:
            block = _widen_bf16(raw)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                block = np.ascontiguousarray(raw, dtype=np.float32)
        self._require_finite(block, raw, first_row)
        return block

    def _require_finite(self, block: np.ndarray, raw: np.ndarray, first_row: int) -> None:
        """Raise unless all of block is finite; raw, its source, tells overflow from infinity."""
        finite = np.isfinite(block)
        if finite.all():
            return
        row, channel = _first_false(finite)
        place = f"at row {first_row + row}, channel {channel}"
        if not self.bf16 and np.isfinite(raw[row, channel]):
            raise ApproxNormError(
                f"{self.where} holds {float(raw[row, channel])!r} {place}, which is infinite in "
                f"float32; values must lie within +-3.4028235e38, so rescale or drop that row"
            )
        kind = "NaN" if np.isnan(block[row, channel]) else "an infinity"
        raise ApproxNormError(
            f"{self.where} holds {kind} {place}; values must be finite, so repair or drop that row"
        )


def _first_false(good: np.ndarray) -> tuple[int, int]:
    row, channel = np.unravel_index(np.argmin(good), good.shape)
    return int(row), int(channel)


def _widen_bf16(raw: np.ndarray) -> np.ndarray:
    """Return bfloat16 bit patterns (uint16) as float32: they are its upper half."""
    return (raw.astype(np.uint32, order="C") << np.uint32(16)).view(np.float32)


def check_dtype(where: str, dtype: np.dtype[Any]) -> None:
    """Raise DtypeError unless dtype is a real number that the readers know."""
    # longdouble is kind 'f' too, but its bytes mean different things on different machines.
    if dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize <= 8):
        return
    raise DtypeError(where, dtype)


def file_blocks(
    path: Path, where: str, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> RawBlocks:
    """Return a reader of the C-order array that begins at byte offset of path."""
    rows, dim = matrix_shape(shape)

    def read(rows_per_block: int) -> Iterator[np.ndarray]:
        for start in range(0, rows, rows_per_block):
            count = min(rows_per_block, rows - start) * dim
            # Read, not mapped: a map would fault if the file shrank, and would count as memory.
            try:
                flat = np.fromfile(path, dtype, count, offset=offset + start * dim * dtype.itemsize)
            except OSError as error:
                raise ApproxNormError(f"{where} cannot be read: {error.strerror}") from error
            if flat.size < count:
                raise ApproxNormError(
                    f"{where} ends at row {start + flat.size // dim} of {rows}; the file is "
                    f"truncated, so write it again"
                )
            yield flat.reshape(-1, dim)

    return read


def row_indices(shape: tuple[int, ...], rows_per_block: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the index of each block of rows, in C order, of an array of two or more axes.

    Indexing with it copies the (r, dim) block out of the array, whatever the memory layout.
    """
    lead = shape[:-1]
    rows = prod(lead)
    for start in range(0, rows, rows_per_block):
        yield np.unravel_index(np.arange(start, min(start + rows_per_block, rows)), lead)
