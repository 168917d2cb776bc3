"""Placeholders that an exporter wrote, replaced by the norms that they stand for.

A program that traces a layer cannot write its parts: it sees one operator at a time, and has no
functions. It writes one operator of our domain, ``QuantRMSNorm`` from float32 x (..., dim) to
float32 y, with the attributes below; no runtime has it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import helper

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms.wiring import inner_graphs
from approxnorm.export.onnx import DOMAIN, OP_TYPE, Parts, float_parts
from approxnorm.export.rewrite.graph import swap_nodes
from approxnorm.export.rewrite.replace import Insertion
from approxnorm.model import RMSNorm

PLACEHOLDER = "QuantRMSNorm"
# model: its digest. layer: its name, or "". on_grid: 1 if x was made from codes, else 0.
MODEL, LAYER, ON_GRID = "digest", "layer", "on_grid"

# Of a placeholder's metadata, what says where in the program it was; the rest is about its trace.
_SCOPES = "pkg.torch.onnx.name_scopes"
_KEPT = {"namespace", _SCOPES, "pkg.torch.onnx.class_hierarchy"}

# float_parts, or what takes and gives the same.
MakeParts = Callable[..., Parts]


@dataclass(frozen=True)
class Placed:
    """A norm that took a placeholder's place: its node in the graph, from x's codes to y's."""

    layer: str
    model: RMSNorm
    node: onnx.NodeProto
    y: str


def replace_placeholders(
    model: onnx.ModelProto, models: Mapping[str, RMSNorm], make: MakeParts = float_parts
) -> list[Placed]:
    """Put the norms in the placeholders' places, in the model itself; they keep x and y.

    models: by digest. make: writes a norm's parts. Nothing else in the model changes. Raises
    ApproxNormError for a placeholder inside of another node's graph or of a function, for one whose
    digest is not among the models, and as `make` does.
    """
    _require_main_graph(model)
    places = [i for i, node in enumerate(model.graph.node) if _is_ours(node)]
    if not places:
        return []
    insertion = Insertion(model)
    put: dict[int, list[onnx.NodeProto]] = {}
    placed = []
    for place in places:
        node = model.graph.node[place]
        given, layer = _attributes(node), _layer(node)
        made = _model(models, given.get(MODEL, b"").decode(), layer)
        prefix = insertion.free_prefix(layer)
        parts = make(
            made,
            opset=insertion.opset,
            x=node.input[0],
            y=node.output[0],
            prefix=prefix,
            on_grid=bool(given.get(ON_GRID)),
        )
        ours = insertion.add(parts)
        ours.metadata_props.extend(entry for entry in node.metadata_props if entry.key in _KEPT)
        put[place] = parts.nodes
        placed.append((layer, made, ours.name, node.output[0]))
    swap_nodes(model, set(places), put)
    named = {node.name: node for node in model.graph.node if node.domain == DOMAIN}
    return [Placed(layer, made, named[name], y) for layer, made, name, y in placed]


def _is_ours(node: onnx.NodeProto) -> bool:
    return node.domain == DOMAIN and node.op_type == PLACEHOLDER


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def _layer(node: onnx.NodeProto) -> str:
    """The name of the layer that wrote a placeholder: its own, or where the exporter saw it."""
    own: bytes = _attributes(node).get(LAYER, b"")
    if own:
        return own.decode()
    scopes = {entry.key: entry.value for entry in node.metadata_props}.get(_SCOPES)
    if scopes is not None:
        name = [name for name in ast.literal_eval(scopes)[:-1] if name][-1:]  # the last: the node
        if name:
            return str(name[0])
    return node.name.removesuffix(f"/{PLACEHOLDER}").strip("/") or OP_TYPE


def _model(models: Mapping[str, RMSNorm], digest: str, layer: str) -> RMSNorm:
    if digest not in models:
        raise ApproxNormError(
            f"the exported layer {layer} has the digest {digest!r}, which no layer of this"
            " program had when it was traced; export the model again"
        )
    return models[digest]


def _require_main_graph(model: onnx.ModelProto) -> None:
    """Refuse placeholders where they cannot be replaced."""
    functions = [node for function in model.functions for node in function.node]
    for node in (*_inner_nodes(model.graph.node), *functions, *_inner_nodes(functions)):
        if _is_ours(node):
            raise ApproxNormError(
                f"the layer {_layer(node)} is inside of a branch, a loop or a function of the"
                " exported graph; allowed: the main graph, so export without control flow around it"
            )


def _inner_nodes(nodes: list[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Every node of the graphs inside of nodes."""
    for node in nodes:
        for graph in inner_graphs(node):
            yield from graph.node
            yield from _inner_nodes(graph.node)
