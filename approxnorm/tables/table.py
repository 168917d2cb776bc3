"""Tables are data: integers with a format, an index rule, a bound and an origin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Table:
    """A read-only memory of integers.

    ``frac_bits``: an entry's real value is ``entry / 2**frac_bits``.
    ``index_rule``: what the address is made of, for a hardware engineer.
    ``bound``: the proven error of the stage that the table serves, as text ("" if none stated).
    ``origin``: how the entries came to be (builder and its arguments, or a file's name).
    """

    name: str
    entries: tuple[int, ...]
    frac_bits: int
    index_rule: str
    bound: str = ""
    origin: str = ""

    @property
    def signed(self) -> bool:
        return min(self.entries) < 0

    @property
    def width(self) -> int:
        """Bits of an entry as it is read: two's complement if any entry is negative."""
        size = max((~e if e < 0 else e).bit_length() for e in self.entries)
        return max(1, size + self.signed)

    @property
    def stored_width(self) -> int:
        """Columns that must be stored: leading columns that are the same everywhere are wired."""
        varying = 0
        for entry in self.entries:
            varying |= entry ^ self.entries[0]
        return (varying & ((1 << self.width) - 1)).bit_length()

    @property
    def bits(self) -> int:
        """Stored bits: entries times stored columns."""
        return len(self.entries) * self.stored_width

    def summary(self) -> dict[str, str | int]:
        """What a listing shows of it: everything but the entries themselves."""
        return {
            "name": self.name,
            "entries": len(self.entries),
            "width": self.width,
            "stored_width": self.stored_width,
            "bits": self.bits,
            "index_rule": self.index_rule,
            "bound": self.bound,
            "origin": self.origin,
        }

    def array(self, dtype: np.dtype) -> np.ndarray:
        """The entries as an array; callers must not write to it."""
        return _array(self.entries, np.dtype(dtype))


@lru_cache(maxsize=1024)
def _array(entries: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    array = np.array(entries, dtype)
    array.flags.writeable = False
    return array
