"""The arrays that a norm's node takes after x: what the channels have, and the tables."""

from __future__ import annotations

import numpy as np

from approxnorm.export.onnx.function import table_dtype
from approxnorm.model import RMSNorm


def parameters(model: RMSNorm) -> dict[str, np.ndarray]:
    """By name, in the order of the node's inputs, each in the narrowest dtype that holds it.

    First the channel inputs (dim,): gamma's codes, or what the log domain keeps of them, and
    channel factors; then the tables (entries,).
    """
    datapath = model.assembly.require_datapath()
    named = {p.name: model.channel_inputs[p.name] for p in datapath.inputs if p.level == "channel"}
    return named | {t.name: np.array(t.entries, table_dtype(t)) for t in datapath.tables()}
