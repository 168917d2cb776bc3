"""``approxnorm error``: the error of each layer of an activation file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from approxnorm.cli.options import GammaOption, JsonOption, LayerOption, SpecArgument
from approxnorm.cli.output import print_json, progress_bar

if TYPE_CHECKING:
    from approxnorm.inputs import Layer
    from approxnorm.model import RMSNorm


def error(
    spec: SpecArgument,
    input: Annotated[
        Path,
        typer.Option(
            "--input", "-i", metavar="FILE", help="Activations: .npz, .npy or .safetensors."
        ),
    ],
    layer: LayerOption = None,
    gamma: GammaOption = None,
    json: JsonOption = False,
) -> None:
    """Measure the error on activations, layer by layer, and split it by cause.

    A layer's eps is the file's, else the spec's; its gamma --gamma if given, else the file's,
    else ones.
    """
    from approxnorm.cli.layer_tables import print_layers, warn_of_overflow

    measured = measure_file(spec, input, layer, gamma)
    warn_of_overflow(measured["layers"])
    if json:
        print_json(measured)
    else:
        print_layers(measured["layers"])


def measure_file(
    source: str, path: Path, layer: str | None, gamma_path: Path | None
) -> dict[str, Any]:
    """What ``error --json`` prints."""
    from approxnorm.cli.models import pick_layer, read_gamma
    from approxnorm.inputs import open_activations
    from approxnorm.spec import load_spec

    spec, gamma = load_spec(source), read_gamma(gamma_path)
    layers = open_activations(path) if layer is None else [pick_layer(path, layer)]
    with progress_bar() as report:
        results = [
            _measure(spec, one, gamma, lambda s, d, i=i: report(s, i, len(layers), d))
            for i, one in enumerate(layers)
        ]
    return {"spec_name": source, "input": str(path), "layers": results}


def _measure(spec: Any, layer: Layer, gamma: Any, report: Any) -> dict[str, Any]:
    from approxnorm.cli.models import model_of_layer
    from approxnorm.layer_model import with_gamma
    from approxnorm.metrics import bound

    layer, notes = with_gamma(layer, gamma)
    model, more = model_of_layer(spec, layer, lambda done: report("calibrate", done))
    errors = _errors(model, layer, lambda done: report("measure", done))
    return {
        "name": layer.name,
        "rows": layer.rows,
        "dim": layer.dim,
        "eps": model.spec.eps,
        "digest": model.digest,
        "calibration": notes + more,
        **errors,
        "bound": bound(model).to_dict(),
        "spec": model.spec.to_dict(),
    }


def _errors(model: RMSNorm, layer: Layer, report: Any) -> dict[str, Any]:
    """The layer's rows through the meters; gamma codes are their own reference."""
    import numpy as np

    from approxnorm.metrics import LayerErrors

    assert layer.gamma is not None
    is_code_gamma = layer.gamma.dtype.kind in "iu"
    gamma_real = model.gamma_real() if is_code_gamma else np.asarray(layer.gamma, np.float64)
    errors, done = LayerErrors(model, gamma_real, model.spec.eps), 0
    add = errors.add_codes if layer.is_codes else errors.add
    for block in layer.blocks():
        add(block)
        done += len(block)
        report(done / layer.rows)
    return errors.result()
