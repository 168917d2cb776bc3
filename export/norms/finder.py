"""The search for RMSNorms in a model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import onnx
import onnx_ir as ir

from approxnorm.export.norms import decomposed, operators
from approxnorm.export.norms.constants import Constants, read_loaded
from approxnorm.export.norms.facts import Model, NotReplaceableError
from approxnorm.export.norms.found import Findings, Kind, Norm, ReadTensor, Unrecognised
from approxnorm.export.norms.inner import Inner, in_bodies, in_functions
from approxnorm.export.norms.leftovers import leftovers, scales
from approxnorm.export.norms.names import Names
from approxnorm.export.norms.search import Root, find_products, find_roots, is_centred
from approxnorm.export.norms.view import View
from approxnorm.export.norms.wiring import Wiring


@dataclass(frozen=True)
class Candidate:
    """What may be a norm; its name depends on those before it."""

    place: int
    """Where it is in the main graph."""
    node: ir.Node
    """The last node, which its name comes from."""
    kind: Kind
    gamma: ir.Value | None
    describe: Callable[[str], Norm]
    """Called with its name; raises NotReplaceableError."""


def find_norms(model: onnx.ModelProto, read: ReadTensor = read_loaded) -> Findings:
    """All RMSNorms of a model whose nodes are in order, and what looks like one.

    `read` is called with initializers that are a norm's gamma, eps or another of its constants, and
    gives their contents: needed where external data is not loaded. The model is never changed.

    Norms in the bodies of If, Loop and Scan nodes and in model-local functions are unrecognised.
    """
    constants = Constants(model, read)
    prepared = Model(constants, View(model, constants), Wiring(model))
    candidates, layernorms = all_candidates(prepared)
    norms: list[Norm] = []
    unrecognised: list[Unrecognised] = []
    names = Names()
    for each in sorted(candidates, key=lambda candidate: candidate.place):
        name = names.give(each.node, prepared.parameters(each.gamma))
        try:
            norms.append(each.describe(name))
        except NotReplaceableError as reason:
            unrecognised.append(Unrecognised(name, each.kind, str(reason)))
    return Findings(tuple(norms), tuple(unrecognised), layernorms)


def all_candidates(model: Model) -> tuple[list[Candidate], int]:
    """Everything that may be a norm, and how many LayerNorms there are."""
    found, layernorms = single_nodes(model)
    roots = find_roots(model.view.model, model.view.graph, model.number)
    written_out, reductions, centred = products(model, roots)
    found += written_out
    found += [
        refused(model, node, "decomposed", reason)
        for node, reason in leftovers(model, roots, reductions)
    ]
    found += [refused(model, *each) for each in inner_norms(model)]
    return found, layernorms + centred


def single_nodes(model: Model) -> tuple[list[Candidate], int]:
    """Norms that are one node, and how many LayerNorms are: also an RMSNorm of centred rows."""
    found: list[Candidate] = []
    layernorms = 0
    for node in model.view.graph:
        kind = operators.kind_of(node)
        if kind is None:
            layernorms += operators.is_layernorm(node)
        elif operators.is_centred_input(node, kind):
            layernorms += 1
        else:
            gamma = operators.gamma_of(node, kind)
            describe = partial(operators.describe, model, node, kind)
            found.append(Candidate(model.place(node), node, kind, gamma, describe))
    return found, layernorms


def products(
    model: Model, roots: dict[ir.Value, Root]
) -> tuple[list[Candidate], set[ir.Node], int]:
    """Norms written out; the reductions in them or in LayerNorms; and how many LayerNorms are."""
    graph, is_gamma = model.view.graph, partial(decomposed.is_gamma, model)
    found: list[Candidate] = []
    reductions: set[ir.Node] = set()
    centred = {
        root.reduction
        for root in roots.values()
        if is_centred(root.x) and scales(model, root.value)
    }
    for product in find_products(model.view.model, graph, roots, is_gamma):
        reductions.add(product.root.reduction)
        if is_centred(product.root.x):
            centred.add(product.root.reduction)
            continue
        describe = partial(decomposed.describe, model, product)
        place = model.place(product.node)
        found.append(Candidate(place, product.node, "decomposed", product.gamma, describe))
    return found, reductions, len(centred)


def inner_norms(model: Model) -> Iterator[Inner]:
    """What is outside of the main graph."""
    for node in tuple(model.view.graph):
        yield from in_bodies(model.view.model, node)
    yield from in_functions(model.view.model)


def refused(model: Model, node: ir.Node, kind: Kind, reason: str) -> Candidate:
    """What is known not to be replaceable."""

    def describe(name: str) -> Norm:
        raise NotReplaceableError(reason)

    return Candidate(model.place(node), node, kind, None, describe)
