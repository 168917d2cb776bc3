"""What a report says of the hardware: signals, tables, multipliers and the rsqrt stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from approxnorm.model import RMSNorm
from approxnorm.tables.error import curve
from approxnorm.tables.target import RSQRT

CURVE_POINTS = 2048


def signal_list(model: RMSNorm) -> list[dict[str, Any]]:
    """Every named signal with its level, type, width and interval."""
    return [
        {
            "name": p.name,
            "level": p.level,
            "type": p.interval.type_name,
            "width": p.interval.width,
            "lo": p.interval.lo,
            "hi": p.interval.hi,
        }
        for p in model.assembly.require_datapath().signals()
    ]


def hardware_summary(model: RMSNorm) -> dict[str, Any]:
    """Tables, multipliers and the rsqrt stage's error over [1, 4)."""
    datapath = model.assembly.require_datapath()
    return {
        "rsqrt": _rsqrt(model),
        "multipliers": datapath.count_multipliers(),
        "tables": [t.summary() for t in datapath.tables()],
    }


def _rsqrt(model: RMSNorm) -> dict[str, Any]:
    """The stage without a folded constant, as ``approxnorm rsqrt`` measures it."""
    method = model.assembly.context.rsqrt
    error = method.error()
    m, relative = curve(method.build(), RSQRT, method.f, method.o, CURVE_POINTS)
    return {
        "method": method.method,
        "table_bits": method.table_bits(),
        "max_rel": error.max_error,
        "mean_rel": error.mean_error,
        "argmax": error.worst_argument,
        "curve": {"m": np.round(m, 6).tolist(), "rel_error": relative.tolist()},
    }
