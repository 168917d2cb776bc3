"""The steps of a search by patterns: roots of mean squares, and what is multiplied by them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx_ir as ir
from onnxscript.rewriter.pattern import Pattern

from approxnorm.export.norms import patterns

Graph = ir.Graph | ir.Function
Number = Callable[[ir.Value], float | None]


@dataclass(frozen=True, eq=False)
class Root:
    """√(Σx²/D + eps), or one over it."""

    value: ir.Value
    inverse: bool
    x: ir.Value
    reduction: ir.Node
    eps: ir.Value | None
    count: ir.Value | None
    """What a sum is divided by."""
    share: ir.Value | None
    """What a sum is multiplied by."""


@dataclass(frozen=True, eq=False)
class Product:
    """gamma · x / root."""

    node: ir.Node
    root: Root
    gamma: ir.Value | None
    plain: ir.Value | None
    """Where gamma is multiplied last: the value without gamma."""


def find_roots(model: ir.Model, graph: Graph, number: Number) -> dict[ir.Value, Root]:
    """All roots in one graph; `number` gives the value of a constant with one element."""
    roots: dict[ir.Value, Root] = {}
    for node in graph:
        if node.domain != "" or node.op_type not in ("Sqrt", "Pow", "Reciprocal", "Div"):
            continue
        for inverse, forms in ((False, patterns.ROOTS), (True, patterns.INVERSE_ROOTS)):
            found = first_match(model, graph, node, forms, number)
            if found is not None:
                roots[node.outputs[0]] = Root(
                    value=node.outputs[0],
                    inverse=inverse,
                    x=found["x"],
                    reduction=producer(found["reduced"]),
                    eps=found.get("eps"),
                    count=found.get("count"),
                    share=found.get("share"),
                )
    return roots


def producer(value: ir.Value) -> ir.Node:
    """The node that writes a value which a pattern says is written by one."""
    node = value.producer()
    assert node is not None, f"{value.name} is written by no node"
    return node


def first_match(
    model: ir.Model, graph: Graph, node: ir.Node, forms: list[Pattern], number: Number
) -> dict[str, ir.Value] | None:
    """The variables of the first pattern that ends in the node, its numbers as they must be."""
    for form in forms:
        match = form.match(model, graph, node, check_nodes_are_removable=False)
        if match and all(
            number(match.bindings[name]) == wanted
            for name, wanted in patterns.CONSTANTS.items()
            if match.bindings.get(name) is not None
        ):
            return dict(match.bindings)
    return None


def find_products(
    model: ir.Model,
    graph: Graph,
    roots: dict[ir.Value, Root],
    absorbs: Callable[[Product], bool],
) -> list[Product]:
    """Every x / root, each with its gamma if there is one, in the order of the graph.

    `absorbs` says of a product with gamma last whether it is one, or a product without gamma that
    something else is multiplied by.
    """
    products: list[Product] = []
    taken: set[ir.Node] = set()
    for node in reversed(list(graph)):
        if node in taken or node.domain != "" or node.op_type not in ("Mul", "Div"):
            continue
        for product in readings(model, graph, node, roots):
            if product.plain is None or absorbs(product):
                products.append(product)
                if product.plain is not None:
                    taken.add(producer(product.plain))
                break
    return products[::-1]


def readings(
    model: ir.Model, graph: Graph, node: ir.Node, roots: dict[ir.Value, Root]
) -> Iterator[Product]:
    """What a Mul or Div may be, the largest first."""
    for inverse, forms in ((True, patterns.INVERSE_PRODUCTS), (False, patterns.PRODUCTS)):
        for form in forms:
            match = form.match(model, graph, node, check_nodes_are_removable=False)
            if not match:
                continue
            found = match.bindings
            root = roots.get(found["root"])
            if root is not None and root.inverse == inverse and root.x is found["x"]:
                yield Product(node, root, found.get("gamma"), found.get("plain"))


def is_centred(x: ir.Value) -> bool:
    """Whether x is something less its own mean: what is normalised then is a LayerNorm."""
    node = x.producer()
    if node is None or node.domain != "" or node.op_type not in ("Sub", "Add"):
        return False
    first, second = node.inputs
    if node.op_type == "Add" and negated(first) is not None:
        first, second = second, first
    subtrahend = second if node.op_type == "Sub" else negated(second)
    return subtrahend is not None and is_mean_of(subtrahend, first)


def negated(value: ir.Value | None) -> ir.Value | None:
    """v of the value −v, else None."""
    node = value.producer() if value is not None else None
    return node.inputs[0] if node is not None and node.op_type == "Neg" else None


def is_mean_of(value: ir.Value, of: ir.Value | None) -> bool:
    """Whether a value is the mean of another, over whatever axes, by whatever few nodes."""
    for _ in range(4):
        node = value.producer()
        if node is None or not node.inputs or node.inputs[0] is None:
            return False
        if node.op_type in ("ReduceMean", "ReduceSum", "GlobalAveragePool"):
            return node.inputs[0] is of
        if node.op_type not in ("Div", "Mul", "Unsqueeze", "Expand", "Reshape", "Squeeze"):
            return False
        computed = [each for each in node.inputs if each is not None and each.producer()]
        value = computed[0] if node.op_type == "Mul" and computed else node.inputs[0]
    return False
