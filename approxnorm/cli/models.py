"""From a command's arguments to a model: spec, gamma and the layers of an activation file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.inputs import Layer, load_array, open_activations
from approxnorm.layer_model import calibrated_model
from approxnorm.model import RMSNorm
from approxnorm.spec import RMSNormSpec


def read_gamma(path: Path | None) -> np.ndarray | None:
    """gamma from a .npy file: integers are codes, floats real; ApproxNormError if not a vector."""
    if path is None:
        return None
    gamma = load_array(path, what="gamma")
    if gamma.ndim != 1 or gamma.size == 0:
        raise ApproxNormError(
            f"gamma: {path} has shape {gamma.shape}; allowed: (dim,), one number a channel"
        )
    return gamma


def check_layer_option(name: str | None, path: Path | None) -> None:
    """Refuse --layer without the --input that it picks from: it would be ignored."""
    if name is not None and path is None:
        raise ApproxNormError(f"--layer is {name!r}, but --input is not given; give both")


def check_input_options(path: Path | None, layer: str | None, rows: int | None) -> None:
    """The same of --layer and --rows."""
    check_layer_option(layer, path)
    if rows is not None and path is None:
        raise ApproxNormError(f"--rows is {rows}, but --input is not given; give both")


def pick_layer(path: Path, name: str | None) -> Layer:
    """The layer of that name, or the only one; ApproxNormError that lists the names if unclear."""
    layers = {layer.name: layer for layer in open_activations(path)}
    if name is None and len(layers) == 1:
        return next(iter(layers.values()))
    if name not in layers:
        asked = "no --layer was given" if name is None else f"--layer is {name!r}"
        raise ApproxNormError(f"{path}: {asked}; allowed: {', '.join(layers)}")
    return layers[name]


def model_of_layer(
    spec: RMSNormSpec, layer: Layer, progress: Any = None
) -> tuple[RMSNorm, list[str]]:
    """A layer's model and what was chosen for it: calibrated, unless the layer holds codes.

    ``layer.gamma`` must be there. The file's eps takes the place of the spec's.
    """
    notes = []
    if layer.eps is not None and layer.eps != spec.eps:
        notes.append(f"eps: {layer.eps:.6g} from the file in place of the spec's {spec.eps:.6g}")
    if not layer.is_codes:
        model, calibration = calibrated_model(spec, layer, progress)
        return model, notes + calibration.notes
    if layer.eps is not None:
        spec = spec.replace(eps=layer.eps)
    return model_of_codes(spec, layer, layer.gamma), notes


def model_of_codes(spec: RMSNormSpec, layer: Layer, gamma: Any) -> RMSNorm:
    """The model for a layer that holds codes, on which nothing can be calibrated."""
    require_closed(spec, f"{layer.source}: layer {layer.name} holds codes")
    return RMSNorm(_with_dim(spec, layer.dim, str(layer.source)), gamma)


def model_of_spec(spec: RMSNormSpec, gamma: np.ndarray | None) -> RMSNorm:
    """The model of a spec with nothing open, with gamma or ones."""
    return RMSNorm(spec, np.ones(spec.dim or 0) if gamma is None else gamma)


def spec_of_dim(spec: RMSNormSpec, dim: int | None, gamma: np.ndarray | None) -> RMSNormSpec:
    """The spec with --dim or gamma's length as its dim, where it is open."""
    if dim is not None:
        spec = _with_dim(spec, dim, "--dim")
    if gamma is not None:
        spec = _with_dim(spec, len(gamma), "gamma")
    return spec


def require_closed(spec: RMSNormSpec, why: str) -> None:
    """ApproxNormError if anything but dim is open."""
    missing = [name for name in spec.missing() if name != "dim"]
    if missing:
        raise ApproxNormError(
            f"{missing[0]} is open in the spec, and {why}; give it in the spec, or calibrate on"
            " real activations (--input FILE)"
        )


def _with_dim(spec: RMSNormSpec, dim: int, source: str) -> RMSNormSpec:
    if spec.dim not in (None, dim):
        raise ApproxNormError(
            f"{source} is for rows of {dim} elements; the spec's dim is {spec.dim}"
        )
    return spec.with_dim(dim)
