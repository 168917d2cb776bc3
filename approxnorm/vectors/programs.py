"""Single programs taken out of a datapath: run alone, cut, compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from approxnorm.backends.numpy_backend import Arrays, NumpyBackend
from approxnorm.program.datapath import Datapath, MapStage, Port
from approxnorm.program.signal import Node, Program
from approxnorm.vectors.changes import widened_nodes


def last_program(datapath: Datapath) -> Program:
    """The program of a datapath's last stage."""
    last = datapath.stages[-1]
    assert isinstance(last, MapStage)
    return last.program


def changed_nodes(plain: Program, changed: Program) -> list[int]:
    """The indices of the nodes that differ; all of them if there are not as many nodes."""
    if len(plain.nodes) != len(changed.nodes):
        return list(range(len(plain.nodes)))
    pairs = zip(plain.nodes, changed.nodes, strict=True)
    return [i for i, (a, b) in enumerate(pairs) if a != b]


def run_alone(program: Program, inputs: Arrays) -> Arrays:
    """A program's outputs for flat arrays of its inputs, computed in int64."""
    program = widened_nodes(program)
    ports = {n.name: Port(n.name, "element", n.interval) for n in program.nodes if n.name}
    named = tuple(ports[n] for n in program.inputs)
    alone = Datapath(1, named, (MapStage("element", program),), ports, program.output_names[0])
    traced = NumpyBackend(alone).run_traced({n: v[:, None] for n, v in inputs.items()})
    return {n: traced[n][:, 0].astype(np.int64) for n in program.output_names}


def cut_at(program: Program, name: str) -> Program:
    """The program with a named signal as an input, the first; what only led to it is dropped."""
    place = next(i for i, n in enumerate(program.nodes) if n.name == name)
    needed = set(program.outputs) | {place}
    for i in range(len(program.nodes) - 1, -1, -1):
        if i in needed and i != place:
            needed.update(program.nodes[i].args)
    rest = sorted(needed - {place})
    inputs = [place] + [i for i in rest if program.nodes[i].op == "input"]
    order = inputs + [i for i in rest if i not in inputs]
    where = {old: new for new, old in enumerate(order)}
    nodes = [Node("input", (), {}, program.nodes[place].interval, name)]
    for i in order[1:]:
        node = program.nodes[i]
        nodes.append(replace(node, args=tuple(where[a] for a in node.args)))
    outputs = tuple(where[i] for i in program.outputs)
    names = tuple(program.nodes[i].name or "" for i in inputs)
    return Program(program.name, tuple(nodes), names, outputs)


def frontier(program: Program, name: str, values: np.ndarray) -> Arrays:
    """All that depends on one input alone where it meets others, or leaves: for its values (n,).

    The rest of the program knows nothing else of that input.
    """
    nodes = program.nodes
    sources = sources_of(nodes)
    own = {i for i, s in enumerate(sources) if s == {name}}
    met = {a for n, s in zip(nodes, sources, strict=True) if s - {name} for a in n.args}
    found = sorted((own & met) | (own & set(program.outputs)))
    if not found:
        return {}
    named = tuple(
        replace(n, name=f"frontier_{i}") if i in found and n.name is None else n
        for i, n in enumerate(nodes)
    )
    shown = Program(program.name, named, program.inputs, tuple(found))
    inputs = {n: np.zeros(len(values), np.int64) for n in program.inputs}
    return run_alone(shown, {**inputs, name: values.astype(np.int64)})


def sources_of(nodes: tuple[Node, ...]) -> list[set[str]]:
    """The inputs that each node depends on."""
    found: list[set[str]] = []
    for node in nodes:
        own = {node.name or ""} if node.op == "input" else set()
        found.append(own.union(*(found[a] for a in node.args)))
    return found


def users(program: Program, index: int) -> list[int]:
    """The nodes that read a node."""
    return [i for i, n in enumerate(program.nodes) if index in n.args]


def index_of(program: Program, name: str) -> int:
    """The index of a named node."""
    return next(i for i, n in enumerate(program.nodes) if n.name == name)


def rises(program: Program) -> bool:
    """Whether a program's output never falls when its one input, >= 0, rises. False: not known."""
    nodes = program.nodes
    known = {"input", "const", "add", "mul", "max", "lead"}
    return (
        len(program.inputs) == len(program.outputs) == 1
        and nodes[0].interval.lo >= 0
        and all(n.op in known for n in nodes)
        and all(nodes[a].interval.lo >= 0 for n in nodes if n.op in ("mul", "lead") for a in n.args)
    )


def largest_inputs(program: Program, most: int, outputs: np.ndarray) -> np.ndarray:
    """For each output (n,) the largest input up to ``most`` of a rising program that gives no more
    than it; 0 if there is none."""
    low, high = np.zeros(len(outputs), np.int64), np.full(len(outputs), most)
    while (low < high).any():
        middle = (low + high + 1) >> 1
        below = run_alone(program, {program.inputs[0]: middle})[program.output_names[0]] <= outputs
        low, high = np.where(below, middle, low), np.where(below, high, middle - 1)
    return low
