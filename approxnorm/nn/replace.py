"""Swap the RMSNorms of a model for layers with the hardware's arithmetic, in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from approxnorm.errors import ApproxNormError
from approxnorm.nn.obstacles import weight_of
from approxnorm.nn.places import Left, Patterns, Place, find_norms, texts
from approxnorm.nn.probe import Norm
from approxnorm.nn.quant_rmsnorm import QuantRMSNorm
from approxnorm.spec import RMSNormSpec, load_spec


@dataclass(frozen=True)
class Replaced:
    """A norm that was replaced.

    name: in the model; aliases: its other names, if it is used in several places. kind: the class
    that was there. eps: the norm's own, which the layer's spec has too. adds_one: whether the
    weight is 1 + w. layer: what stands in its place.
    """

    name: str
    aliases: tuple[str, ...]
    kind: str
    dim: int
    eps: float
    adds_one: bool
    layer: QuantRMSNorm


@dataclass(frozen=True)
class Replacement:
    """What ``replace_norms`` did, in the order of the model; printed, a line for each."""

    replaced: list[Replaced]
    left: list[Left]

    def __str__(self) -> str:
        taken = [
            f"{r.name}: {r.kind}({r.dim}), eps {r.eps:g}{', 1 + weight' if r.adds_one else ''}"
            for r in self.replaced
        ]
        left = [f"{one.name}: {one.kind} is left: {one.reason}" for one in self.left]
        return "\n".join([*taken, *left])


def replace_norms(
    model: nn.Module,
    spec: RMSNormSpec | str,
    *,
    per_layer: Mapping[str, RMSNormSpec | str] | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    return_quant_tensor: bool = False,
    **layer_kwargs: Any,
) -> Replacement:
    """Replace every RMSNorm of a model by a QuantRMSNorm, in place.

    Norms are found by what they compute (``approxnorm.nn.register_norm`` tells of those that
    cannot be). A layer keeps its norm's name and weight, the Parameter itself, hence the
    model's state_dict, optimizers and tied weights; and its eps, dtype, device and mode. One
    module in several places stays one. Where the weight is 1 + w, normalize.order becomes "gemma"
    (and "fused" where it is w).

    spec: a preset's name, a spec file, or a spec; usually open, for ``approxnorm.nn.calibrate``.
    per_layer: specs for some, by name or by pattern with *, ? and [...]: the first that matches
    a norm counts. only, skip: which norms are taken, likewise; only empty: all.
    return_quant_tensor, layer_kwargs: for each layer; without the former, layers give plain
    tensors of their input's dtype, which any module takes.

    Raises ApproxNormError, and leaves the model as it is, if it has no RMSNorm or is one itself,
    a pattern matches no norm, or a spec does not fit its norm.
    """
    if not isinstance(model, nn.Module):
        raise ApproxNormError(f"model is a {type(model).__name__}; allowed: a torch.nn.Module")
    patterns = Patterns(texts("only", only), texts("skip", skip), dict(per_layer or {}))
    specs = {pattern: _loaded(one) for pattern, one in patterns.per_layer.items()}
    default = _loaded(spec)
    found = find_norms(model)
    places, left = patterns.select(found)
    layers = []
    for place in places:
        pattern = patterns.first(place)
        chosen = default if pattern is None else specs[pattern]
        options = {"return_quant_tensor": return_quant_tensor, **layer_kwargs}
        layers.append(_layer(place, chosen, options))
    for place, layer in zip(places, layers, strict=True):
        for parent, attribute in place.slots:
            parent._modules[attribute] = layer
    return Replacement([_entry(p, q) for p, q in zip(places, layers, strict=True)], left)


def _loaded(spec: RMSNormSpec | str) -> RMSNormSpec:
    return spec if isinstance(spec, RMSNormSpec) else load_spec(spec)


def _layer(place: Place, spec: RMSNormSpec, options: dict[str, Any]) -> QuantRMSNorm:
    norm, weight = place.norm, weight_of(place.module)
    try:
        spec = _in_order(spec.with_dim(norm.dim), norm)
        where = {"device": weight.device, "dtype": weight.dtype}
        layer = QuantRMSNorm(norm.dim, spec, **{"eps": norm.eps, **where, **options})
    except ApproxNormError as error:
        raise ApproxNormError(f"norm {place.name}: {error}") from None
    layer.weight = weight
    layer.layer_name = place.name
    layer.train(place.module.training)
    return layer


def _in_order(spec: RMSNormSpec, norm: Norm) -> RMSNormSpec:
    """The spec with or without the addition of 1, as the norm has it."""
    normalize = spec.normalize
    if norm.adds_one and spec.gamma.scale is None:  # 1 must be a code
        spec = spec.replace(gamma=spec.gamma.model_copy(update={"calibrate": "pow2"}))
    if normalize.adds_one == norm.adds_one:
        return spec
    order = getattr(normalize, "order", None)
    if order not in ("fused", "gemma"):
        found = f'order is "{order}"' if order else f'method is "{normalize.method}"'
        raise ApproxNormError(
            f"it multiplies by 1 + weight, and normalize.{found}, which cannot; allowed: method"
            ' "multiply" with order "fused" or "gemma", which per_layer can give; or skip it'
        )
    changes = {"order": "gemma" if norm.adds_one else "fused"}
    return spec.replace(normalize=normalize.model_copy(update=changes))


def _entry(place: Place, layer: QuantRMSNorm) -> Replaced:
    norm = place.norm
    aliases = tuple(place.names[1:])
    return Replaced(place.name, aliases, place.kind, norm.dim, norm.eps, norm.adds_one, layer)
