"""Programs in which one node's value was replaced: where, and for which inputs it is another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from approxnorm.program.signal import Program
from approxnorm.vectors.programs import run_alone, sources_of


def replaced_node(own: Program, changed: Program) -> tuple[int, int] | None:
    """The node of ``own`` that ``changed`` replaces by nodes of its own, and the one it reads then.

    None if the programs are not of that kind.
    """
    added = len(changed.nodes) - len(own.nodes)
    if added <= 0 or own.inputs != changed.inputs:
        return None
    for place in range(len(own.nodes)):
        if _follows(own, changed, place, added):
            return place, place + added
    return None


def _follows(own: Program, changed: Program, place: int, added: int) -> bool:
    """Whether ``changed`` is ``own`` with nodes added after ``place``, read in its stead."""

    def moved(index: int) -> int:
        return index + added if index >= place else index

    for i, node in enumerate(own.nodes):
        other = changed.nodes[i if i <= place else i + added]
        args = node.args if i <= place else tuple(map(moved, node.args))
        if (node.op, args, dict(node.attrs)) != (other.op, other.args, dict(other.attrs)):
            return False
    return tuple(map(moved, own.outputs)) == changed.outputs


def differing_values(
    own: Program, changed: Program, name: str, values: np.ndarray
) -> np.ndarray | None:
    """Values (n,) of an input for which the replaced node has another value.

    None if the node depends on more than that input.
    """
    places = replaced_node(own, changed)
    if places is None:
        return None
    one, other = (_alone(p, i, name, values) for p, i in zip((own, changed), places, strict=True))
    if one is None or other is None:
        return None
    differing: np.ndarray = values[one != other]
    return differing


def _alone(program: Program, index: int, name: str, values: np.ndarray) -> np.ndarray | None:
    if sources_of(program.nodes)[index] != {name}:
        return None
    nodes = list(program.nodes)
    nodes[index] = replace(nodes[index], name="replaced")
    shown = Program(program.name, tuple(nodes), program.inputs, (index,))
    inputs = {n: np.zeros(len(values), np.int64) for n in program.inputs}
    return run_alone(shown, {**inputs, name: values.astype(np.int64)})["replaced"]
