"""Norms that are not in a model's main graph: in the bodies of nodes, and in functions."""

from collections.abc import Iterator

import onnx_ir as ir

from approxnorm.export.norms import operators
from approxnorm.export.norms.found import Kind
from approxnorm.export.norms.search import Graph, find_products, find_roots, is_centred
from approxnorm.export.norms.view import look_through

# Which node, what kind of norm it is, and where it is.
Inner = tuple[ir.Node, Kind, str]


def in_bodies(model: ir.Model, node: ir.Node) -> Iterator[Inner]:
    """Norms in the bodies of a node of the main graph, and in those of the nodes inside."""
    for body in bodies(node):
        for each, kind in norms_of(model, body):
            yield each, kind, f"it is inside the body of the {node.op_type} node {node.name!r}"
        for deeper in tuple(body):
            yield from in_bodies(model, deeper)


def in_functions(model: ir.Model) -> Iterator[Inner]:
    """Norms in model-local functions."""
    for function in model.functions.values():
        for each, kind in norms_of(model, function):
            where = f"{function.domain}.{function.name}"
            yield each, kind, f"it is inside the model-local function {where}"


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that are attributes of a node."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def norms_of(model: ir.Model, graph: Graph) -> Iterator[tuple[ir.Node, Kind]]:
    """All that looks like an RMSNorm in one graph."""
    for node in graph:
        kind = operators.kind_of(node)
        if kind is not None and not operators.is_centred_input(node, kind):
            yield node, kind
    look_through(graph, None)
    roots = find_roots(model, graph, number)
    for product in find_products(model, graph, roots, lambda product: True):
        if not is_centred(product.root.x):
            yield product.node, "decomposed"


def number(value: ir.Value) -> float | None:
    """The value of a constant with one element, as far as it is in the file itself."""
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.size != 1 or isinstance(tensor, ir.ExternalTensor):
        return None
    return float(tensor.numpy().reshape(()))
