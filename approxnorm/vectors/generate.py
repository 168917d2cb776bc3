"""The classes of golden vectors of each level; a level's rows begin with those of the one below."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.methods.base import shown
from approxnorm.model import RMSNorm
from approxnorm.program.interval import bits_signed
from approxnorm.vectors import corners, coverage
from approxnorm.vectors.distributions import DISTRIBUTIONS
from approxnorm.vectors.equivalence import Prover
from approxnorm.vectors.goals import Goals
from approxnorm.vectors.manifest import MAX_LANES, MAX_SEED
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.random import Words
from approxnorm.vectors.search import Effort, Search
from approxnorm.vectors.ties import tie_rows

MAX_LEVEL = 2
RANDOM_ROWS = 20  # of each distribution at level 1
LEVEL_2_FACTOR = 20
EXHAUSTIVE_BITS = 8  # formats of at most so many bits get a spike of every code at level 2
BLOCK_ELEMENTS = 1 << 20

EFFORTS = {
    0: Effort(random_rounds=0, aimed_rounds=0, idle_rounds=0, repeats=1),
    1: Effort(random_rounds=8, aimed_rounds=64, idle_rounds=4, repeats=3),
    2: Effort(random_rounds=32, aimed_rounds=128, idle_rounds=6, repeats=6),
}


@dataclass(frozen=True)
class VectorClass:
    """Rows made for one purpose: int64 codes (n, dim)."""

    name: str
    codes: np.ndarray


@dataclass(frozen=True)
class Plan:
    """All classes of a level in order, and what they reach (see docs/vectors.md)."""

    classes: list[VectorClass]
    coverage: dict[str, Any]


def generate(model: RMSNorm, level: int = 1, seed: int = 0, *, lanes: int = 8) -> list[VectorClass]:
    """The classes of a level's rows. See ``plan``."""
    return plan(model, level, seed, lanes=lanes).classes


def plan(model: RMSNorm, level: int = 1, seed: int = 0, *, lanes: int = 8) -> Plan:
    """Golden vectors for a model.

    level: 0 corners; 1 also every table entry, every exponent, changes of the datapath that y
    shows, and random rows; 2 many more. The rows of a level begin with those of the level below.
    seed: from 0 to 2**64 - 1. lanes: elements a beat, from 1 to 4096, whose boundaries get spikes
    of their own. NumPy's integers are integers here.

    Raises ApproxNormError for a level, seed or lane count that is not allowed, and for the rsqrt
    method "exact", which has no datapath.
    """
    level, seed, lanes = _check(model, level, seed, lanes)
    probe = Probe(model)
    classes, notes = _corner_classes(probe, seed, lanes)
    prover = Prover(probe)
    goals = Goals(probe, EFFORTS[0].repeats)
    search = Search(probe, goals, Words(seed, 100), EFFORTS[0], prover)
    for upto in range(1, level + 1):
        words = Words(seed, 100 + upto)
        classes += _random_classes(probe, upto, seed)
        if upto == 2:
            classes += _exhaustive_spikes(probe)
        goals = Goals(probe, EFFORTS[upto].repeats)
        search = Search(probe, goals, words, EFFORTS[upto], prover)
        _count(goals, classes)
        classes += _searched_classes(search, upto)
    if level == 0:
        _count(goals, classes)
    rows = sum(len(c.codes) for c in classes)
    content = coverage.report(goals, search.prover, search.entries, rows + search.tried, notes)
    content["unused_top_bits"] = _unused_top_bits(probe, classes)
    return Plan(classes, content)


def given(model: RMSNorm, codes: np.ndarray) -> Plan:
    """A user's own codes (rows, dim) as the class "input", with the addresses they reach."""
    model.assembly.require_datapath()
    probe = Probe(model)
    goals = Goals(probe, read_only=True)
    classes = [VectorClass("input", codes)]
    _count(goals, classes)
    content = coverage.report(goals, None, [], len(codes), [])
    content["unused_top_bits"] = _unused_top_bits(probe, classes)
    return Plan(classes, content)


def check_numbers(seed: Any, lanes: Any) -> tuple[int, int]:
    """A seed and a lane count as plain integers; ApproxNormError for any that is not allowed."""
    most = f"an integer from 0 to {MAX_SEED}"
    return (
        _integer("seed", seed, range(MAX_SEED + 1), most),
        _integer("lanes", lanes, range(1, MAX_LANES + 1), f"an integer from 1 to {MAX_LANES}"),
    )


def _check(model: RMSNorm, level: Any, seed: Any, lanes: Any) -> tuple[int, int, int]:
    level = _integer("level", level, range(MAX_LEVEL + 1), "0, 1 or 2")
    seed, lanes = check_numbers(seed, lanes)
    model.assembly.require_datapath()
    return level, seed, lanes


def _integer(name: str, value: Any, within: range, allowed: str) -> int:
    """An integer, NumPy's too, as an int; a bool is none, whatever Python says."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number not in within:
        raise ApproxNormError(f"{name} is {shown(value)}; allowed: {allowed}")
    return number


def _corner_classes(probe: Probe, seed: int, lanes: int) -> tuple[list[VectorClass], list[str]]:
    space = probe.space
    ties, tie_notes = tie_rows(probe, Words(seed, 1))
    saturating, saturation_notes = corners.saturation_rows(probe, Words(seed, 2))
    found = {
        "zero": corners.zero_rows(space),
        "spike": corners.spike_rows(space, lanes),
        "minimum": corners.minimum_rows(space),
        "maximum": corners.maximum_rows(space),
        "alternating": corners.alternating_rows(space),
        "ones": corners.one_rows(space),
        "powers_of_two": corners.power_of_two_rows(space),
        "ties": ties,
        "eps": corners.eps_rows(probe, Words(seed, 3)),
        "saturation": saturating,
        "thresholds": corners.threshold_rows(probe),
    }
    classes = [
        VectorClass(name, space.codes(np.stack(corners.unique_rows(rows))))
        for name, rows in found.items()
        if rows
    ]
    return classes, tie_notes + saturation_notes


def _random_classes(probe: Probe, level: int, seed: int) -> list[VectorClass]:
    rows = RANDOM_ROWS if level == 1 else RANDOM_ROWS * (LEVEL_2_FACTOR - 1)
    prefix = "" if level == 1 else "more_"
    return [
        VectorClass(
            prefix + name,
            probe.space.codes(distribution(probe.space, Words(seed, 10 + i, level), rows)),
        )
        for i, (name, distribution) in enumerate(DISTRIBUTIONS.items())
    ]


def _exhaustive_spikes(probe: Probe) -> list[VectorClass]:
    """Every code of a narrow format as a spike, from position to position."""
    space = probe.space
    if space.hi - space.lo >= 1 << EXHAUSTIVE_BITS:
        return []
    values = range(space.lo, space.hi + 1)
    rows = [space.spike(i % space.dim, v) for i, v in enumerate(values)]
    return [VectorClass("every_code", space.codes(np.stack(rows)))]


def _searched_classes(search: Search, level: int) -> list[VectorClass]:
    prefix = "" if level == 1 else "more_"
    steps = {
        "exponents": search.exponents,
        "rounded_up": search.rounded_up_rows,
        "shown_by_random_rows": search.random_rows,
        "shown_by_ties": search.tie_rows,
    }
    classes = [VectorClass(prefix + name, step()) for name, step in steps.items()]
    search.settle()
    steps = {
        "shown_by_exact_rows": search.exact_rows,
        "shown_by_few_levels": search.few_level_rows,
        "shown_by_permuted_rows": search.permuted_rows,
        "shown_by_aimed_rows": search.aimed_rows,
    }
    classes += [VectorClass(prefix + name, step()) for name, step in steps.items()]
    return [c for c in classes if len(c.codes)]


def _count(goals: Goals, classes: list[VectorClass]) -> None:
    for block in _blocks(goals.probe, classes):
        goals.take_all(block)


def _unused_top_bits(probe: Probe, classes: list[VectorClass]) -> list[str]:
    """Signals whose values in these rows would all fit one bit less than they are given."""
    ports = [p for p in probe.datapath.signals() if p.level != "channel"]
    least, most = ({p.name: 0 for p in ports} for _ in range(2))
    for block in _blocks(probe, classes):
        trace = probe.trace(block)
        for name in least:
            least[name] = min(least[name], int(trace[name].min()))
            most[name] = max(most[name], int(trace[name].max()))
    return [
        p.name
        for p in ports
        if bits_signed(least[p.name], most[p.name]) < bits_signed(p.interval.lo, p.interval.hi)
    ]


def _blocks(probe: Probe, classes: list[VectorClass]) -> list[np.ndarray]:
    """All rows, in blocks that fit the memory."""
    codes = np.concatenate([c.codes for c in classes])
    block = max(1, BLOCK_ELEMENTS // probe.space.dim)
    return [codes[start : start + block] for start in range(0, len(codes), block)]
