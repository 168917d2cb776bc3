"""The torch executor as a backend: what the Brevitas layer runs."""

from __future__ import annotations

import numpy as np
import torch

from approxnorm.backends.torch_backend import TorchBackend
from approxnorm.model import RMSNorm


class TorchRunner:
    """A model's datapath on torch tensors."""

    def __init__(self, model: RMSNorm, lanes: int = 8) -> None:
        # Tensors have no beats, hence no use for lanes.
        self._backend = TorchBackend(model.assembly.require_datapath())
        self._channels = {n: torch.from_numpy(v) for n, v in model.channel_inputs.items()}

    def run(self, codes: np.ndarray) -> np.ndarray:
        """y's codes (rows, dim)."""
        return self._backend.run(self._inputs(codes)).numpy()

    def trace(self, codes: np.ndarray) -> dict[str, np.ndarray]:
        """Signals by name: element signals (rows, dim), row signals (rows,)."""
        return {n: v.numpy() for n, v in self._backend.run_traced(self._inputs(codes)).items()}

    def _inputs(self, codes: np.ndarray) -> dict[str, torch.Tensor]:
        return {"x": torch.from_numpy(codes.astype(np.int64))} | self._channels
