"""The fast NumPy path, with its look-up tables of narrow signals, as a backend."""

from __future__ import annotations

import numpy as np

from approxnorm.model import RMSNorm


class NumpyRunner:
    """What users call: ``model(codes)``. It is compared with the model's traced path."""

    def __init__(self, model: RMSNorm, lanes: int = 8) -> None:
        self._model = model  # arrays have no beats, hence no use for lanes

    def run(self, codes: np.ndarray) -> np.ndarray:
        """y's codes (rows, dim)."""
        return self._model(codes)
