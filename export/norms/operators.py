"""RMSNorms that are one node: ONNX's operator and ONNX Runtime's own ones."""

import numpy as np
import onnx_ir as ir

from approxnorm.export.norms import facts
from approxnorm.export.norms.facts import Model, NotReplaceableError
from approxnorm.export.norms.found import Kind, Norm
from approxnorm.export.norms.search import is_centred
from approxnorm.export.norms.view import name_of

CONTRIB = "com.microsoft"

KINDS: dict[tuple[str, str], Kind] = {
    ("", "RMSNormalization"): "RMSNormalization",
    ("", "SimplifiedLayerNormalization"): "SimplifiedLayerNormalization",
    (CONTRIB, "SimplifiedLayerNormalization"): "SimplifiedLayerNormalization",
    (CONTRIB, "SkipSimplifiedLayerNormalization"): "SkipSimplifiedLayerNormalization",
}
LAYERNORMS = {
    ("", "LayerNormalization"),
    (CONTRIB, "LayerNormalization"),
    (CONTRIB, "SkipLayerNormalization"),
    (CONTRIB, "EmbedLayerNormalization"),
}
# Where the attribute is missing (the operators' definitions).
DEFAULT_EPS: dict[Kind, float] = {
    "RMSNormalization": 1e-5,
    "SimplifiedLayerNormalization": 1e-5,
    "SkipSimplifiedLayerNormalization": 1e-12,
}
EXACT_ENOUGH = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def kind_of(node: ir.Node) -> Kind | None:
    """Which operator a node is, if it is one of them and has what it must have."""
    kind = KINDS.get((node.domain, node.op_type))
    if kind is None or len(node.inputs) < (3 if is_skip(kind) else 2):
        return None
    return kind if None not in node.inputs[: 3 if is_skip(kind) else 2] else None


def is_layernorm(node: ir.Node) -> bool:
    """Whether a node is a LayerNorm."""
    return (node.domain, node.op_type) in LAYERNORMS


def is_skip(kind: Kind) -> bool:
    """Whether the operator adds before it normalises."""
    return kind == "SkipSimplifiedLayerNormalization"


def is_centred_input(node: ir.Node, kind: Kind) -> bool:
    """Whether what is normalised has mean 0 already, which makes it a LayerNorm."""
    x = node.inputs[0]
    return x is not None and not is_skip(kind) and is_centred(x)


def gamma_of(node: ir.Node, kind: Kind) -> ir.Value:
    """The input that holds gamma."""
    gamma = node.inputs[2 if is_skip(kind) else 1]
    assert gamma is not None, f"{kind} without gamma"
    return gamma


def describe(model: Model, node: ir.Node, kind: Kind, name: str) -> Norm:
    """The norm, or NotReplaceableError."""
    skip, x, y = is_skip(kind), node.inputs[0], node.outputs[0]
    assert x is not None, f"{kind} without input"
    check_outputs(model, node, {0, 3} if skip else {0})
    check_attributes(node, x)
    place = model.place(node)
    read = list(model.wiring.nodes[place].input)  # as it stands: the view looks through Casts
    addends = tuple(each for each in read[:2] + read[3:4] if each) if skip else ()
    facts.check_float32(model, [*(addends or read[:1]), name_of(y)])
    return Norm(
        name=name,
        kind=kind,
        x=summed(model, node) if skip else read[0],
        y=name_of(y),
        gamma=facts.gamma_row(model.constant(gamma_of(node, kind), "gamma"), x),
        eps=facts.positive(stored_eps(node, kind)),
        nodes=(place,),
        place=place,
        addends=addends,
    )


def check_outputs(model: Model, node: ir.Node, allowed: set[int]) -> None:
    """Nobody may read the statistics that the node gives as well."""
    for index, output in enumerate(node.outputs):
        read = output.name in model.wiring.readers or output.name in model.wiring.outputs
        if index not in allowed and output.name and read:
            raise NotReplaceableError(f"its statistic {output.name!r} is read as well")


def check_attributes(node: ir.Node, x: ir.Value) -> None:
    """The last axis, and statistics that are not computed in 16 bits."""
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
    rank = len(x.shape) if x.shape is not None else None
    axes = list(range(axis, rank or 0)) if axis >= 0 and rank else [*range(axis, 0)] or [axis]
    facts.check_last_axis(axes, x)
    if "stash_type" in node.attributes:
        stash = ir.DataType(node.attributes["stash_type"].as_int())
        if stash not in EXACT_ENOUGH:
            raise NotReplaceableError(f"its statistic is in {stash.name.lower()}, not in float32")


def stored_eps(node: ir.Node, kind: Kind) -> float:
    """The attribute, which is stored as float32."""
    if "epsilon" not in node.attributes:
        return DEFAULT_EPS[kind]
    return facts.shortest(np.float32(node.attributes["epsilon"].as_float()))


def summed(model: Model, node: ir.Node) -> str:
    """The name of the sum: the node's fourth output, or a name that is not there yet."""
    if len(node.outputs) > 3 and node.outputs[3].name:
        return str(node.outputs[3].name)
    return unused(f"{node.outputs[0].name}_sum", model.wiring.names)


def unused(name: str, names: set[str]) -> str:
    """The name, or the first with a number that is not taken; takes it."""
    number, free = 1, name
    while free in names:
        number += 1
        free = f"{name}_{number}"
    names.add(free)
    return free
