"""Choose the open scales, steps and factors of a model's QuantRMSNorms on real inputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from approxnorm.calibrate import Calibration, Calibrator
from approxnorm.errors import ApproxNormError
from approxnorm.layer_model import warnings_of
from approxnorm.model import RMSNorm
from approxnorm.nn.feed import feed, quant_norms
from approxnorm.nn.places import joined, matches, texts
from approxnorm.nn.quant_rmsnorm import QuantRMSNorm
from approxnorm.rmsnorm import EpsWarning
from approxnorm.spec import RMSNormSpec

_OPENED = "opened_spec"  # a layer's spec as it was before


def calibrate(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    layers: Sequence[str] | None = None,
    again: bool = False,
    progress: bool = True,
) -> dict[str, Calibration]:
    """Set what is open in a model's QuantRMSNorms, from what goes into them when it runs.

    The model runs once over the batches, as floats, in eval mode and without gradients. What is
    chosen, and by which rules, is that of ``approxnorm.calibrate``: scales, channel factors, and
    the statistic's step and bias. Every row counts: leave padding out of the batches.

    batches: an iterable of what the model takes; a tuple or list is unpacked, a dict (tokenizers'
    BatchEncoding, say) gives keywords. layers: names or patterns with *, ? and [...] of those to
    calibrate; absent: all. A layer with nothing open is left alone; again: those that ``calibrate``
    has set before are calibrated anew. progress: a bar on stderr, if that is a terminal.

    Returns the calibration of each layer that was set, by name; ``notes`` has a sentence for each
    number. Raises ApproxNormError, and changes no layer, if the model has no QuantRMSNorm, there
    are no batches, none reaches a layer, or one brings NaN or infinity to it.
    """
    norms = quant_norms(model)
    chosen = {name: norms[name] for name in _chosen(norms, layers)}
    specs = {name: _open_spec(layer, again) for name, layer in chosen.items()}
    calibrators = {
        name: _calibrator(name, spec, chosen[name])
        for name, spec in specs.items()
        if spec.missing()
    }
    if not calibrators:
        return {}

    def take(name: str, rows: np.ndarray) -> None:
        calibrators[name].see(rows)

    watched = {name: chosen[name] for name in calibrators}
    feed(model, batches, watched, take, what="Calibration", progress=progress)
    found = {name: _finish(name, c, chosen[name]) for name, c in calibrators.items()}
    _set(chosen, found)
    for name in found:
        setattr(chosen[name], _OPENED, specs[name])
    return found


def _chosen(norms: Mapping[str, QuantRMSNorm], layers: Sequence[str] | None) -> list[str]:
    if layers is None:
        return list(norms)
    patterns = texts("layers", layers)
    for pattern in patterns:
        if not any(matches(name, pattern) for name in norms):
            raise ApproxNormError(
                f"layers {pattern!r} matches no QuantRMSNorm; allowed: {joined(list(norms))}"
            )
    return [name for name in norms if any(matches(name, p) for p in patterns)]


def _open_spec(layer: QuantRMSNorm, again: bool) -> RMSNormSpec:
    """The layer's spec; with ``again``, what calibration once filled in is open."""
    opened = getattr(layer, _OPENED, None)
    if not again or not isinstance(opened, RMSNormSpec):
        return layer.spec
    formats = {n: getattr(opened, n) for n in ("x", "gamma", "y")}
    shut = {n: getattr(layer.spec, n) for n, form in formats.items() if form.scale is not None}
    return opened.replace(**shut)


def _calibrator(name: str, spec: RMSNormSpec, layer: QuantRMSNorm) -> Calibrator:
    try:
        return Calibrator(spec, _gamma(layer))
    except ApproxNormError as error:
        raise ApproxNormError(f"layer {name}: {error}") from None


def _gamma(layer: QuantRMSNorm) -> np.ndarray:
    weight: np.ndarray = layer.weight.detach().to("cpu", torch.float64).numpy()
    return weight


def _finish(name: str, calibrator: Calibrator, layer: QuantRMSNorm) -> Calibration:
    """The calibration, tried out: a spec that makes no model is found before any layer is set."""
    try:
        with warnings_of(f"layer {name}"), warnings.catch_warnings():
            warnings.simplefilter("ignore", EpsWarning)  # the layer gives it, once set
            done = calibrator.finish()
            RMSNorm(done.spec, _gamma(layer))
            return done
    except ApproxNormError as error:
        raise ApproxNormError(f"layer {name}: {error}") from None


def _set(layers: Mapping[str, QuantRMSNorm], found: Mapping[str, Calibration]) -> None:
    """Set all of them, or none."""
    before = {name: layers[name].spec for name in found}
    try:
        for name, done in found.items():
            layers[name].set_spec(done.spec)
            layers[name].model()  # warns of what the spec loses
    except BaseException:
        for name, spec in before.items():
            layers[name].set_spec(spec)
        raise
