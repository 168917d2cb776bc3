"""RMSNorms that are written out in standard operators."""

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from approxnorm.export.norms import facts
from approxnorm.export.norms.facts import Model, NotReplaceableError
from approxnorm.export.norms.found import Norm
from approxnorm.export.norms.search import Product, Root
from approxnorm.export.norms.view import name_of


def is_gamma(model: Model, product: Product) -> bool:
    """Whether what a norm is multiplied by last is its gamma: a row, and nobody reads the rest.

    A constant that differs between rows is no gamma; neither is something computed at run time,
    unless it is the same for all rows.
    """
    gamma, plain = product.gamma, product.plain
    assert gamma is not None and plain is not None
    if not model.view.read_once(plain):
        return False
    if model.is_constant(gamma) and gamma.shape is None:
        return facts.is_row(model.constant(gamma, "gamma").shape)
    if model.is_constant(gamma) or gamma.shape is None:
        return gamma.shape is None or facts.is_row(gamma.shape)
    rows = product.root.x.shape
    if rows is not None and all(each == 1 for each in list(rows)[:-1]):
        return len(gamma.shape) < len(rows)  # with one row only, other things look like a gamma
    return facts.is_row(gamma.shape)


def describe(model: Model, product: Product, name: str) -> Norm:
    """The norm, or NotReplaceableError."""
    root, x, y = product.root, name_of(product.root.x), name_of(product.node.outputs[0])
    facts.check_last_axis(reduced_axes(model, root.reduction), root.x)
    place = model.place(product.node)
    nodes = model.wiring.between(x, place, model.constants)
    between = [each for node in nodes for each in model.wiring.nodes[node].output if each != y]
    facts.check_float32(model, [x, y], between)
    for constant in constants_read(model, nodes):
        facts.check_no_axis_added(repr(constant), model.constants.value(constant), root.x)
    eps = facts.constant_eps(model, root.eps)
    if product.gamma is None:
        gamma = facts.ones(root.x)
    else:
        gamma = facts.gamma_row(model.constant(product.gamma, "gamma"), root.x)
    check_count(model, root, gamma.size)
    return Norm(
        name=name,
        kind="decomposed",
        x=x,
        y=y,
        gamma=gamma,
        eps=eps,
        nodes=model.wiring.removable(nodes, place),
        place=place,
    )


def constants_read(model: Model, nodes: Iterable[int]) -> list[str]:
    """The constants that nodes read, by name."""
    read = {each for node in nodes for each in model.wiring.nodes[node].input}
    return sorted(each for each in read if each in model.constants)


def reduced_axes(model: Model, reduction: ir.Node) -> list[int] | None:
    """The axes of a reduction that keeps them; None for all."""
    if "keepdims" in reduction.attributes and not reduction.attributes["keepdims"].as_int():
        raise NotReplaceableError("its mean does not keep the axis that it is taken over")
    if "axes" in reduction.attributes:
        return [int(axis) for axis in reduction.attributes["axes"].as_ints()]
    if len(reduction.inputs) < 2 or reduction.inputs[1] is None:
        return None
    axes = model.constant(reduction.inputs[1], "the axis that it is taken over")
    return [int(axis) for axis in np.atleast_1d(axes)] or None


def check_count(model: Model, root: Root, dim: int) -> None:
    """A sum must be divided by the row's elements, or multiplied by one over them."""
    if root.reduction.op_type == "ReduceMean":
        return
    given = root.count if root.count is not None else root.share
    number = model.number(given) if given is not None else None
    if number is None:
        raise NotReplaceableError("the number that its sum is divided by is computed at run time")
    wanted = dim if root.count is not None else 1 / dim
    if not np.isclose(number, wanted, rtol=1e-6, atol=0):
        raise NotReplaceableError(f"its sum is divided by another number than {dim}, its elements")
