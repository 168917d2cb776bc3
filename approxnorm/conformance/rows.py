"""The rows that backends are checked on: golden vectors, made in memory, and random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from approxnorm.model import RMSNorm
from approxnorm.vectors import VectorClass, generate
from approxnorm.vectors.distributions import DISTRIBUTIONS
from approxnorm.vectors.random import Words
from approxnorm.vectors.space import Space

_STREAM = 200  # of the seed's random words; golden vectors use those below
_BLOCK_ELEMENTS = 1 << 18  # random codes made at once; which rows are made depends on it


@dataclass(frozen=True)
class Rows:
    """``count`` rows of one class; blocks() makes them anew, codes (n, dim) at a time.

    So any number of rows fits the memory.
    """

    name: str
    count: int
    blocks: Callable[[], Iterator[np.ndarray]]

    @staticmethod
    def of(name: str, codes: np.ndarray) -> Rows:
        """Rows that are there already."""
        return Rows(name, len(codes), lambda: iter([codes]))


def rows_for(
    model: RMSNorm, *, level: int, seed: int, lanes: int, rows: int, own: Rows | None
) -> list[Rows]:
    """The level's golden rows, ``rows`` further random ones, and the user's own.

    The first are the rows of ``approxnorm vectors`` with the same numbers, in its order.
    """
    golden: list[VectorClass] = generate(model, level, seed, lanes=lanes)
    listed = [Rows.of(c.name, c.codes) for c in golden] + random_rows(model, seed, rows)
    return listed if own is None else [*listed, own]


def random_rows(model: RMSNorm, seed: int, rows: int) -> list[Rows]:
    """``rows`` random rows, shared out among all distributions of the golden vectors."""
    count = len(DISTRIBUTIONS)
    shares = [rows // count + (i < rows % count) for i in range(count)]
    return [
        _random(model, seed, i, name, share)
        for i, (name, share) in enumerate(zip(DISTRIBUTIONS, shares, strict=True))
        if share
    ]


def _random(model: RMSNorm, seed: int, index: int, name: str, count: int) -> Rows:
    space, size = Space.of(model), max(1, _BLOCK_ELEMENTS // model.dim)

    def blocks() -> Iterator[np.ndarray]:
        words = Words(seed, _STREAM + index)
        for start in range(0, count, size):
            yield space.codes(DISTRIBUTIONS[name](space, words, min(size, count - start)))

    return Rows(f"further_{name}", count, blocks)


def regrouped(pieces: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """The rows of all pieces in order, ``size`` at a time; fewer in the last block."""
    kept: list[np.ndarray] = []
    room = size
    for piece in pieces:
        for start in _cuts(len(piece), room, size):
            part = piece[start : start + room]
            kept.append(part)
            room -= len(part)
            if not room:
                yield np.concatenate(kept)
                kept, room = [], size
    if kept:
        yield np.concatenate(kept)


def _cuts(length: int, room: int, size: int) -> Iterator[int]:
    """Where a piece is cut so that its first part fills the room that is left."""
    start = 0
    while start < length:
        yield start
        start += room
        room = size
