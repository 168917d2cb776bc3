"""Norms of a model replaced by quantised ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms import Norm
from approxnorm.export.norms.wiring import opset_of
from approxnorm.export.onnx import DOMAIN, DOMAIN_VERSION, MIN_OPSET, OP_TYPE, Parts, float_parts
from approxnorm.export.onnx.names import MIN_IR
from approxnorm.export.rewrite.graph import names_in, sum_nodes, swap_nodes
from approxnorm.model import RMSNorm


@dataclass(frozen=True)
class Replaced:
    """A norm, the NumPy model of what took its place, and where that is in the new graph.

    function: the name of the function that its node calls. codes: the value with y's codes; x and
    y have the names that they had before.
    """

    norm: Norm
    model: RMSNorm
    function: str
    codes: str


def replace_norms(
    model: onnx.ModelProto, pairs: Sequence[tuple[Norm, RMSNorm]]
) -> tuple[onnx.ModelProto, list[Replaced]]:
    """A copy of a model with the quantised form of each RMSNorm in its norm's place.

    Norms whose function bodies are equal share one function. The IR version goes up to 8, the
    first with functions, if it is below. Nothing else changes. Raises ApproxNormError for a norm
    that cannot be written in the model's opset, or if our domain is taken.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    insertion = Insertion(result)
    gone: set[int] = set()
    put: dict[int, list[onnx.NodeProto]] = {}
    replaced = []
    for norm, made in pairs:
        prefix = insertion.free_prefix(norm.name)
        parts = float_parts(made, opset=insertion.opset, x=norm.x, y=norm.y, prefix=prefix)
        node = insertion.add(parts)
        gone.update(norm.nodes)
        put[norm.place] = [*sum_nodes(norm, prefix), *parts.nodes]
        replaced.append(Replaced(norm, made, node.op_type, node.output[0]))
    swap_nodes(result, gone, put)
    return result, replaced


class Insertion:
    """A model into which norms are put: it imports our domain, in an IR version with functions.

    opset: of the default domain. Raises ApproxNormError if our domain is taken.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        import_domain(model, DOMAIN, DOMAIN_VERSION)
        model.ir_version = max(model.ir_version, MIN_IR)
        self.opset = opset_of(model) or MIN_OPSET
        self._model, self._names, self._functions = model, names_in(model), _Functions(model)

    def free_prefix(self, name: str) -> str:
        """What no name of the model begins with; of two norms of one name, each has its own."""
        prefix, number = f"{name}/{OP_TYPE}/", 1
        while any(taken.startswith(prefix) for taken in self._names):
            number += 1
            prefix = f"{name}/{OP_TYPE}_{number}/"
        self._names.add(prefix)
        return prefix

    def add(self, parts: Parts) -> onnx.NodeProto:
        """Add the initializers and, unless there is its like, the function of a norm.

        Returns the norm's node, among parts.nodes, which now calls the function by its name.
        """
        (node,) = [node for node in parts.nodes if node.domain == DOMAIN]
        node.op_type = self._functions.name_of(parts.function)
        self._model.graph.initializer.extend(parts.initializers)
        return node


class _Functions:
    """The functions of our domain in a model: one for each body."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        ours = [f for f in model.functions if f.domain == DOMAIN]
        self._names = {_body(f): f.name for f in ours}
        self._taken = {f.name for f in ours}

    def name_of(self, function: onnx.FunctionProto) -> str:
        """The name of the function with this one's body, which is added if there is none yet."""
        body = _body(function)
        if body not in self._names:
            named = self._model.functions.add()
            named.CopyFrom(function)
            named.name = self._names[body] = self._free()
            self._taken.add(named.name)
        return self._names[body]

    def _free(self) -> str:
        name, number = OP_TYPE, 1
        while name in self._taken:
            number += 1
            name = f"{OP_TYPE}_{number}"
        return name


def _body(function: onnx.FunctionProto) -> bytes:
    """All of a function but its name."""
    unnamed = onnx.FunctionProto()
    unnamed.CopyFrom(function)
    unnamed.ClearField("name")
    return unnamed.SerializeToString(deterministic=True)


def import_domain(model: onnx.ModelProto, domain: str, version: int) -> None:
    """Let a model import a domain; ApproxNormError if it imports another version of it."""
    versions = [entry.version for entry in model.opset_import if entry.domain == domain]
    if not versions:
        model.opset_import.append(helper.make_opsetid(domain, version))
    elif versions != [version]:
        raise ApproxNormError(
            f"the model has version {versions[0]} of the domain {domain}; allowed:"
            f" {version}, so convert the original model"
        )
