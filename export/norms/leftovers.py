"""What has a mean of squares under a root and something divided by it, in no form that is known."""

from collections.abc import Iterator

import onnx_ir as ir

from approxnorm.export.norms.facts import Model
from approxnorm.export.norms.search import Root, is_centred

REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2")
ALONG = ("Clip", "Expand", "Pow", "Reciprocal", "Reshape", "Sqrt", "Squeeze", "Unsqueeze")
WITH_ANOTHER = ("Add", "Div", "Max", "Mul")


def leftovers(
    model: Model, roots: dict[ir.Value, Root], claimed: set[ir.Node]
) -> Iterator[tuple[ir.Node, str]]:
    """Reductions that are in no norm (those are claimed), each with the reason."""
    for node in model.view.graph:
        x = squared(model, node)
        if x is None or node in claimed or is_centred(x):
            continue
        if any(root.reduction is node and scales(model, root.value) for root in roots.values()):
            yield node, "what its root scales is not what was squared"
            continue
        passed = way_to(model, node, x)
        if passed is not None:
            yield node, reason(node, passed)


def squared(model: Model, node: ir.Node) -> ir.Value | None:
    """What a reduction adds the squares of; None if it is no such reduction."""
    if node.domain != "" or node.op_type not in REDUCTIONS:
        return None
    x = node.inputs[0]
    if node.op_type in ("ReduceSumSquare", "ReduceL2") or x is None:
        return x
    square = x.producer()
    if square is None or square.op_type not in ("Mul", "Pow"):
        return None
    first, second = square.inputs
    if first is None or second is None:
        return None
    is_square = first is second if square.op_type == "Mul" else model.number(second) == 2
    return first if is_square else None


def scales(model: Model, root: ir.Value) -> bool:
    """Whether a value that is computed at run time is multiplied or divided by the root."""
    for user, index in root.uses():
        if user.op_type == "Mul" or (user.op_type == "Div" and index == 1):
            other = user.inputs[1 - index]
            if other is not None and not model.is_constant(other):
                return True
    return False


def way_to(model: Model, reduction: ir.Node, x: ir.Value) -> list[str] | None:
    """The operators from a reduction, by a root, to where x meets it again; None if it does not."""
    waiting: list[tuple[ir.Value, list[str]]] = [(reduction.outputs[0], [])]
    while waiting:
        value, passed = waiting.pop()
        rooted = reduction.op_type == "ReduceL2" or "Sqrt" in passed or "Pow" in passed
        for user, index in value.uses():
            if user.domain != "" or len(passed) > 8:
                continue
            other = user.inputs[1 - index] if user.op_type in WITH_ANOTHER else None
            if rooted and user.op_type in ("Mul", "Div") and is_or_scales(other, x):
                return passed
            if other is not None and not model.is_constant(other):
                continue
            if other is not None or is_along(model, user, index):
                waiting.append((user.outputs[0], [*passed, user.op_type]))
    return None


def is_along(model: Model, node: ir.Node, index: int) -> bool:
    """Whether a node keeps what its first input says of a row: its size, or the root of it."""
    if index != 0 or node.op_type not in ALONG:
        return False
    power = node.inputs[1] if node.op_type == "Pow" else None
    return power is None or model.number(power) in (0.5, -0.5)


def is_or_scales(value: ir.Value | None, x: ir.Value) -> bool:
    """Whether a value is x, or x times something."""
    node = value.producer() if value is not None else None
    return value is x or (node is not None and node.op_type == "Mul" and x in node.inputs)


def reason(reduction: ir.Node, passed: list[str]) -> str:
    """Why the way from a reduction to its x is none of an RMSNorm that can be replaced."""
    if reduction.op_type == "ReduceL2":
        return "it divides by an L2 norm, without eps under the root"
    if "Max" in passed or "Clip" in passed:
        return "a lower bound stands where eps would be added"
    root = passed.index("Sqrt") if "Sqrt" in passed else passed.index("Pow")
    if "Add" in passed[root:]:
        return "eps is added outside of the root"
    return "its nodes are in no form that is known"
