"""Every element that a row may hold, as far as the last program can tell them apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from approxnorm.methods.normalize.log_domain import LogDomain
from approxnorm.vectors.reach import Kind, Reach

MAX_COLUMNS = 1 << 22


@dataclass(frozen=True)
class Columns:
    """Aligned values and channels (n,), and the least operand of rows that hold them, ascending.

    complete: there are no others.
    """

    values: np.ndarray
    channels: np.ndarray
    least: np.ndarray
    complete: bool

    def __len__(self) -> int:
        return len(self.values)

    def take(self, places: np.ndarray | slice) -> Columns:
        return Columns(
            self.values[places], self.channels[places], self.least[places], self.complete
        )


def all_columns(reach: Reach) -> Columns:
    """All values of all channels; thinned out if there are more than MAX_COLUMNS."""
    total = sum(len(k.values) * len(k.channels) for k in reach.kinds)
    step = -(-total // MAX_COLUMNS)
    parts = [_columns(reach, kind, step) for kind in reach.kinds]
    values, channels, least = (np.concatenate(c) for c in zip(*parts, strict=True))
    order = np.argsort(least, kind="stable")
    return Columns(values[order], channels[order], least[order], step == 1)


def _columns(reach: Reach, kind: Kind, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = len(kind.channels)
    values = np.repeat(kind.values, count)[::step]
    least = np.repeat(kind.least, count)[::step]
    channels = np.tile(kind.channels, len(kind.values))[::step]
    # A row of one element has but that element's operand: none can stand for another.
    alone = reach.probe.space.dim == 1
    if isinstance(reach.probe.model.spec.normalize, LogDomain) and not alone:
        # Only the sum of logarithms, its sign and zero count: of each the least operand is kept.
        first = _different_sums(reach, values, channels)
        return values[first], channels[first], least[first]
    return values, channels, least


def _different_sums(reach: Reach, values: np.ndarray, channels: np.ndarray) -> np.ndarray:
    finish = reach.finish
    none = {n: np.zeros(len(values), np.int64) for n in finish.row_names}
    trace = finish.paired(finish.program, values, channels, none)
    kind = np.sign(trace["signed"].astype(np.int64))
    total = trace["log_y"].astype(np.int64) * 3 + kind
    _, first = np.unique(total, return_index=True)
    return np.sort(first)
