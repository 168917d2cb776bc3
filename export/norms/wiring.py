"""Who writes and who reads each value of a model's main graph."""

from collections.abc import Container, Iterator

import onnx

STANDARD = ("", "ai.onnx")  # the default domain has two names


def opset_of(model: onnx.ModelProto) -> int | None:
    """The model's opset of the default domain; None if it names none."""
    versions = {entry.version for entry in model.opset_import if entry.domain in STANDARD}
    return max(versions, default=None)


class Wiring:
    """Positions, in `model.graph.node`, of the nodes that write and read values."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.nodes = model.graph.node
        self.outputs = {value.name for value in model.graph.output}
        self.writer: dict[str, int] = {}
        self.readers: dict[str, set[int]] = {}
        for place, node in enumerate(self.nodes):
            self.writer |= {name: place for name in node.output if name}
            for name in read_names(node):
                self.readers.setdefault(name, set()).add(place)
        self.names = {*self.writer, *self.readers, *(value.name for value in model.graph.input)}
        self.names |= self.outputs | {tensor.name for tensor in model.graph.initializer}

    def between(self, start: str, place: int, constants: Container[object]) -> list[int]:
        """Positions, ascending, of the nodes on the way from the value `start` to the node `place`.

        What computes constants is not on the way.
        """
        found: set[int] = set()
        waiting = [place]
        while waiting:
            here = waiting.pop()
            if here in found:
                continue
            found.add(here)
            read = {name for name in self.nodes[here].input if name and name not in constants}
            waiting += [self.writer[name] for name in read - {start} if name in self.writer]
        return sorted(found)

    def removable(self, nodes: list[int], place: int) -> tuple[int, ...]:
        """Those of the nodes that nobody needs once something else writes what `place` writes."""
        gone: set[int] = set()
        for here in sorted(nodes, reverse=True):
            if here == place or all(self._is_free(name, gone) for name in self.nodes[here].output):
                gone.add(here)
        return tuple(sorted(gone))

    def _is_free(self, name: str, gone: set[int]) -> bool:
        return name not in self.outputs and self.readers.get(name, set()) <= gone


def read_names(node: onnx.NodeProto) -> Iterator[str]:
    """The values that a node reads, also in graphs inside of it (If, Loop, Scan)."""
    yield from (name for name in node.input if name)
    for inner in inner_graphs(node):
        for each in inner.node:
            yield from read_names(each)
        yield from (value.name for value in inner.output)


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that are attributes of a node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs
