"""Which modules are RMSNorms: those of registered classes, and those that behave like one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from approxnorm.errors import ApproxNormError
from approxnorm.nn.obstacles import obstacle
from approxnorm.nn.probe import Norm, probe, verify

Describe = Callable[[Any], Norm | str]

_REGISTRY: dict[type[nn.Module], tuple[Describe, bool]] = {}


def register_norm(cls: type[nn.Module], describe: Describe, *, verified: bool = True) -> None:
    """Tell ``replace_norms`` what a class of modules computes; a later call takes the place.

    Classes need no entry if one tensor goes in and one parameter, ``weight``, is one-dimensional:
    they are recognised by what they compute. An entry is for those that take more, or that are
    not to be replaced, or whose eps has a rule.

    describe: takes the module; returns its ``Norm``, or a sentence why it is left alone. It counts
    for subclasses too, unless they have an entry of their own.
    verified: whether what it says is checked on random rows; without, it is taken on trust, and
    so is a forward of several inputs, of which the new layer takes the first alone.

    Raises ApproxNormError for what is no class of modules.
    """
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise ApproxNormError(f"register_norm got {cls!r}; allowed: a subclass of torch.nn.Module")
    _REGISTRY[cls] = (describe, verified)


def describe_norm(module: nn.Module) -> Norm | str | None:
    """What a module is: a Norm; or why it, which looks like a norm, is left; or None: no norm."""
    entry = next((_REGISTRY[c] for c in type(module).__mro__ if c in _REGISTRY), None)
    if entry is not None:
        return _registered(module, *entry)
    found = obstacle(module) or probe(module)
    return found if isinstance(found, Norm) or _is_called_norm(module) else None


def _registered(module: nn.Module, describe: Describe, verified: bool) -> Norm | str:
    said = describe(module)
    if not isinstance(said, Norm):
        return said
    hindered = obstacle(module, takes_more=not verified)
    if hindered is None and verified:
        hindered = verify(module, said)
    return said if hindered is None else hindered


def _is_called_norm(module: nn.Module) -> bool:
    """Whether its class calls itself a norm, and it is no block of several modules."""
    single = parametrize.is_parametrized(module) or not list(module.children())
    return single and "norm" in type(module).__name__.lower()


def _describe_torch(module: nn.RMSNorm) -> Norm | str:
    """eps None is the epsilon of the dtype that torch computes in: float32 for narrower ones."""
    if len(module.normalized_shape) != 1:
        axes = len(module.normalized_shape)
        return f"it normalises over the last {axes} axes; only the last one alone is allowed"
    if not module.elementwise_affine:
        return "it has no weight, where a layer with one would take its place"
    wide = torch.float64 if module.weight.dtype == torch.float64 else torch.float32
    eps = torch.finfo(wide).eps if module.eps is None else float(module.eps)
    return Norm(module.normalized_shape[0], eps)


register_norm(nn.RMSNorm, _describe_torch)
