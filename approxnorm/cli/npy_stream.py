"""A .npy file that is written block by block."""

from __future__ import annotations

from math import prod
from typing import IO

import numpy as np


class NpyStream:
    """Writes the header of an array of known shape and dtype, then its values as they come."""

    def __init__(self, out: IO[bytes], shape: tuple[int, ...], dtype: np.dtype) -> None:
        self._out, self._dtype = out, dtype.newbyteorder("<")
        self._left = prod(shape)
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(out, header)

    def append(self, values: np.ndarray) -> None:
        """Write the next values, in C order."""
        self._left -= values.size
        self._out.write(values.astype(self._dtype, order="C", casting="safe").tobytes())

    def check_complete(self) -> None:
        """AssertionError unless as many values came as the shape says."""
        if self._left:
            raise AssertionError(f"{self._left} values of a .npy file were not written")
