"""The rows that backends are checked on: golden vectors, made in memory, and random ones."""

from __future__ import annotations

import numpy as np

from approxnorm.model import RMSNorm
from approxnorm.vectors import VectorClass, generate
from approxnorm.vectors.distributions import DISTRIBUTIONS
from approxnorm.vectors.random import Words
from approxnorm.vectors.space import Space

_STREAM = 200  # of the seed's random words; golden vectors use those below


def classes_for(
    model: RMSNorm, *, level: int, seed: int, lanes: int, rows: int, own: np.ndarray | None
) -> list[VectorClass]:
    """The level's golden rows, ``rows`` further random ones, and the user's own (n, dim).

    The first are the rows of ``approxnorm vectors`` with the same numbers, in its order.
    """
    classes = generate(model, level, seed, lanes=lanes) + random_classes(model, seed, rows)
    return classes if own is None else [*classes, VectorClass("input", own)]


def random_classes(model: RMSNorm, seed: int, rows: int) -> list[VectorClass]:
    """``rows`` random rows, shared out among all distributions of the golden vectors."""
    space = Space.of(model)
    count = len(DISTRIBUTIONS)
    shares = [rows // count + (i < rows % count) for i in range(count)]
    return [
        VectorClass(f"further_{name}", space.codes(make(space, Words(seed, _STREAM + i), share)))
        for i, ((name, make), share) in enumerate(zip(DISTRIBUTIONS.items(), shares, strict=True))
        if share
    ]
