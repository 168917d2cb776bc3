"""Changes to a graph: nodes in place of a norm, and nothing left that only the norm read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from approxnorm.export.norms import Norm
from approxnorm.export.norms.wiring import inner_graphs, read_names


def with_nodes(model: onnx.ModelProto, put: Mapping[int, Sequence[onnx.NodeProto]]) -> None:
    """Put nodes before the node at each of these positions of the main graph."""
    nodes = list(model.graph.node)
    _set_nodes(model, [n for i, node in enumerate(nodes) for n in [*put.get(i, ()), node]])


def swap_nodes(
    model: onnx.ModelProto, gone: set[int], put: Mapping[int, Sequence[onnx.NodeProto]]
) -> None:
    """Take nodes out of the main graph, put others where some of them were, and tidy up.

    gone, put: by position. What only the gone nodes read (nodes, initializers) goes too, and so do
    the value_info and quantization_annotation of values that are no longer written. All else
    stays as it is, and in its order. The names of the new nodes' values are the caller's.
    """
    former = list(model.graph.node)
    kept = [n for i, n in enumerate(former) for n in [*put.get(i, ()), *_unless(i in gone, n)]]
    dead = _dead(model, [former[i] for i in gone], kept)
    _set_nodes(model, [n for n in kept if not any(o in dead for o in n.output if o)])
    _drop_values(model, dead | {o for i in gone for o in former[i].output if o})


def _unless(skip: bool, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    return [] if skip else [node]


def _set_nodes(model: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> None:
    copies = []
    for node in nodes:  # they live in the list that is emptied next
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copies.append(copy)
    del model.graph.node[:]
    model.graph.node.extend(copies)


def _dead(
    model: onnx.ModelProto, gone: Iterable[onnx.NodeProto], kept: Sequence[onnx.NodeProto]
) -> set[str]:
    """The values that only the gone nodes read, and those that only led to such values."""
    readers = Counter(name for node in kept for name in read_names(node))
    outputs = {output.name for output in model.graph.output}
    writers = {name: node for node in kept for name in node.output if name}
    interface = {value.name for value in model.graph.input}
    dead: set[str] = set()
    asked = [name for node in gone for name in read_names(node)]
    while asked:
        name = asked.pop()
        writer = writers.get(name)
        values = {name} if writer is None else {o for o in writer.output if o}
        used = any(readers[v] or v in outputs or v in interface for v in values)
        if used or values <= dead:
            continue
        dead |= values
        if writer is not None:
            for read in read_names(writer):
                readers[read] -= 1
                asked.append(read)
    return dead


def _drop_values(model: onnx.ModelProto, gone: set[str]) -> None:
    """Take away what is said of values that nothing writes any more."""
    graph = model.graph
    gone = gone - {o for node in graph.node for o in node.output}
    _keep(graph.initializer, lambda t: t.name not in gone)
    _keep(graph.sparse_initializer, lambda t: t.values.name not in gone)
    _keep(graph.value_info, lambda v: v.name not in gone)
    _keep(graph.quantization_annotation, lambda q: q.tensor_name not in gone)


def _keep(repeated: Any, wanted: Any) -> None:
    for i in reversed(range(len(repeated))):
        if not wanted(repeated[i]):
            del repeated[i]


def sum_nodes(norm: Norm, prefix: str) -> list[onnx.NodeProto]:
    """The Adds that write a norm's x from its addends; none, if x is there without the norm."""
    nodes = []
    total = norm.addends[0] if norm.addends else ""
    for i, addend in enumerate(norm.addends[1:], start=1):
        is_last = i == len(norm.addends) - 1
        result = norm.x if is_last else f"{prefix}sum_{i}"
        nodes.append(helper.make_node("Add", [total, addend], [result], f"{prefix}add_{i}"))
        total = result
    return nodes


def names_in(model: onnx.ModelProto) -> set[str]:
    """Every name of a value or node in a model's graphs."""
    return set(_names(model.graph))


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    for values in (graph.input, graph.output, graph.value_info, graph.initializer):
        yield from (value.name for value in values)
    yield from (t.values.name for t in graph.sparse_initializer)
    for node in graph.node:
        yield from (node.name, *node.input, *node.output)
        for inner in inner_graphs(node):
            yield from _names(inner)
