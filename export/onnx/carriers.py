"""Which ONNX type carries a signal, so that every value and every sum of values is exact.

Runtimes are fast on float32, and integers below 2^24 are exact there; those below 2^53 are in
float64. Beyond, int64 is used, whose kernels are few and slow.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import numpy as np

from approxnorm.program import Interval

FLOAT32_EXACT = 1 << 24
FLOAT64_EXACT = 1 << 53


class Carrier(Enum):
    """A NumPy dtype in which ONNX computes signals, the fastest first."""

    F32 = "float32"
    F64 = "float64"
    I64 = "int64"
    BOOL = "bool"
    STORED = "stored"  # an integer type that is only cast from: the function's inputs

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.value)

    @property
    def is_float(self) -> bool:
        return self in (Carrier.F32, Carrier.F64)

    @property
    def exact(self) -> int:
        """Every integer up to this magnitude is exact."""
        return {
            Carrier.F32: FLOAT32_EXACT,
            Carrier.F64: FLOAT64_EXACT,
            Carrier.I64: (1 << 63) - 1,
        }[self]


NUMERIC = (Carrier.F32, Carrier.F64, Carrier.I64)


def magnitude(interval: Interval) -> int:
    """The largest absolute value."""
    return max(abs(interval.lo), abs(interval.hi))


def carrier_for(
    intervals: Iterable[Interval], head_room: int = 0, least: Carrier = Carrier.F32
) -> Carrier:
    """The first carrier, from ``least`` on, that holds the intervals ``head_room`` bits larger."""
    need = max(magnitude(i) for i in intervals) << head_room
    return next(
        (c for c in NUMERIC[NUMERIC.index(least) :] if need <= c.exact),
        Carrier.I64,  # signals have at most 63 bits; head room is the float carriers' affair
    )
