"""The NumPy model of an ApproxRMSNorm node, from what the node carries."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx.parameters import parameters
from approxnorm.model import RMSNorm
from approxnorm.rmsnorm import SpecWarning
from approxnorm.spec import RMSNormSpec
from approxnorm.version import __version__

# What the node must carry: the model's digest, gamma's codes (dim,), the resolved spec as JSON.
ATTRIBUTES: dict[str, type] = {"digest": bytes, "gamma": list, "spec": bytes}
_KEPT = 256  # models; those of a large network fit


def title(node: NodeProto) -> str:
    """What messages call a node."""
    return f"node {node.name or node.output[0]} ({node.op_type})"


def model_of_node(node: NodeProto) -> RMSNorm:
    """The model that the node's attributes describe; its digest is the node's.

    Raises ApproxNormError that names the node: for an attribute that is missing; a spec or gamma
    that makes no model; another digest, where something was edited or another version makes other
    tables; outputs beside y.
    """
    digest, gamma, spec = (_attribute(node, name) for name in ATTRIBUTES)
    if len(node.output) != 1:
        raise ApproxNormError(
            f"{title(node)} has {len(node.output)} outputs; the NumPy model gives y alone: export"
            " it without signals"
        )
    try:
        model = _model(spec, tuple(gamma))
    except (ApproxNormError, ValueError, TypeError) as error:
        raise ApproxNormError(
            f"{title(node)}: its attributes spec and gamma make no model ({error}); export it again"
        ) from error
    named = digest.decode("utf-8", "replace")
    if model.digest != named:
        raise ApproxNormError(
            f"{title(node)}: its attribute digest is {named}, but its spec and gamma make a model"
            f" whose digest is {model.digest} in approxnorm {__version__}; export it"
            " again, or use the version that wrote it"
        )
    return model


def check_parameters(node: NodeProto, model: RMSNorm, given: Sequence[np.ndarray]) -> None:
    """Refuse values of the inputs after x that are not the model's, in whatever dtype they are.

    Raises ApproxNormError that names the node and the input.
    """
    due = _parameters(model)
    check_input_count(node, model)
    for (name, value), found in zip(due.items(), given, strict=True):
        if not np.array_equal(value, found):
            raise ApproxNormError(
                f"{title(node)}: its input {name} is not what its spec and gamma make, and the"
                " NumPy model would not see the change; export the changed spec again, or run the"
                " node's body"
            )


def check_input_count(node: NodeProto, model: RMSNorm) -> None:
    """Refuse a node with more or fewer inputs than the model's; ApproxNormError names it."""
    due = _parameters(model)
    if len(node.input) != 1 + len(due):
        raise ApproxNormError(
            f"{title(node)} has {len(node.input)} inputs; its spec asks for {1 + len(due)}: x,"
            f" {', '.join(due)}"
        )


def _attribute(node: NodeProto, name: str) -> Any:
    for attribute in node.attribute:
        if attribute.name == name and not attribute.ref_attr_name:
            value: Any = helper.get_attribute_value(attribute)
            if isinstance(value, ATTRIBUTES[name]):
                return value
    raise ApproxNormError(
        f"{title(node)} has no attribute {name} with a value; export it again with this version"
    )


@lru_cache(maxsize=_KEPT)
def _model(spec: bytes, gamma: tuple[int, ...]) -> RMSNorm:
    data = json.loads(spec)
    with warnings.catch_warnings():  # about the spec; given when the file was made
        warnings.simplefilter("ignore", SpecWarning)
        return RMSNorm(RMSNormSpec(**data), np.array(gamma, np.int64))


@lru_cache(maxsize=_KEPT)
def _parameters(model: RMSNorm) -> dict[str, np.ndarray]:
    return parameters(model)
