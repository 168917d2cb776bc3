"""A histogram of errors in output LSBs with fixed edges."""

from __future__ import annotations

from typing import Any

import numpy as np

REACH = 8  # LSBs to either side
PER_LSB = 4  # bins an LSB
BINS = 2 * REACH * PER_LSB


class Histogram:
    """Counts in bins of 1/4 LSB from -8 to 8; the first and the last take all beyond them too."""

    def __init__(self) -> None:
        self._counts = np.zeros(BINS, np.int64)

    def add(self, errors: np.ndarray) -> None:
        """Add errors in LSBs, of any shape. A bin holds its left edge."""
        place = np.floor((errors.ravel() + REACH) * PER_LSB)
        place = np.clip(place, 0, BINS - 1).astype(np.int64)
        self._counts += np.bincount(place, minlength=BINS)

    def result(self) -> dict[str, Any]:
        """BINS + 1 edges and BINS counts."""
        edges = [i / PER_LSB - REACH for i in range(BINS + 1)]
        return {"edges_lsb": edges, "counts": [int(c) for c in self._counts]}
