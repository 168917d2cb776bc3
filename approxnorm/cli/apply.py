"""``approxnorm apply``: codes out for codes or real values in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from approxnorm.cli.options import JsonOption, SpecArgument
from approxnorm.cli.output import print_json, print_line
from approxnorm.errors import ApproxNormError

if TYPE_CHECKING:
    from approxnorm.inputs import Layer
    from approxnorm.model import RMSNorm


def apply(
    spec: SpecArgument,
    input: Annotated[
        Path,
        typer.Option(
            "--input", "-i", metavar="X.npy", help="Rows: integers are codes, floats are quantised."
        ),
    ],
    gamma: Annotated[
        Path,
        typer.Option(metavar="G.npy", help="gamma: integers are codes, floats are quantised."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="Y.npy", help="The output codes.")],
    trace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write every named signal there as well.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run the model on a file: output codes, and every signal if asked for.

    Open scales are calibrated on X if that holds floats.
    """
    done = apply_file(spec, input, gamma, out, trace)
    if json:
        print_json(done)
    else:
        _print(done)


def apply_file(
    source: str, x_path: Path, gamma_path: Path, out: Path, trace: Path | None
) -> dict[str, Any]:
    """Write Y.npy, and the trace folder if asked for; returns what ``apply --json`` prints."""
    from approxnorm.cli.npy_files import require_npy, write_outputs
    from approxnorm.inputs import open_activations
    from approxnorm.inputs.npy import open_npy
    from approxnorm.spec import load_spec

    spec = load_spec(source)
    require_npy(x_path, "--input")
    require_npy(out, "--out")
    _keep_apart(out, trace, {"--input": x_path, "--gamma": gamma_path})
    (layer,) = open_activations(x_path)
    shape = open_npy(x_path).shape
    model, notes = _model(spec, layer, gamma_path)
    signals = write_outputs(model, layer, shape, out, trace)
    return {
        "out": str(out),
        "shape": list(shape),
        "x": "codes" if layer.is_codes else "real, quantised",
        "x_format": str(model.assembly.x_format),
        "gamma_format": str(model.assembly.context.gamma),
        "y_format": str(model.assembly.context.y),
        "notes": notes,
        "digest": model.digest,
        "trace": None if trace is None else {"folder": str(trace), "signals": signals},
        "spec": model.spec.to_dict(),
    }


def _keep_apart(out: Path, trace: Path | None, inputs: dict[str, Path]) -> None:
    """Refuse outputs that would take the place of an input or of each other."""
    for option, path in inputs.items():
        if path.resolve() == out.resolve():
            raise ApproxNormError(
                f"--out is {str(out)!r}, which is {option} too; give another file"
            )
        if trace is not None and path.resolve().is_relative_to(trace.resolve()):
            raise ApproxNormError(
                f"--trace is {str(trace)!r}, where {option} lies; give another folder"
            )
    if trace is not None and out.resolve().is_relative_to(trace.resolve()):
        raise ApproxNormError(f"--out is {str(out)!r}, in the folder of --trace; give another file")


def _model(spec: Any, layer: Layer, gamma_path: Path) -> tuple[RMSNorm, list[str]]:
    from approxnorm.cli.models import model_of_codes, model_of_layer, read_gamma
    from approxnorm.layer_model import with_gamma

    gamma = read_gamma(gamma_path)
    assert gamma is not None
    is_closed = not [name for name in spec.missing() if name != "dim"]
    if layer.is_codes or is_closed:
        return model_of_codes(spec, layer, gamma), []
    layer, _ = with_gamma(layer, gamma)
    return model_of_layer(spec, layer)


def _print(done: dict[str, Any]) -> None:
    for note in done["notes"]:
        print_line(f"calibrated  {note}")
    print_line(f"x           {done['x']}, {done['x_format']}")
    print_line(f"gamma       {done['gamma_format']}")
    print_line(f"y           {done['y_format']}")
    print_line(f"digest      {done['digest']}")
    if done["trace"] is not None:
        traced = done["trace"]
        print_line(f"trace       {len(traced['signals'])} signals in {traced['folder']}")
    shape = " x ".join(map(str, done["shape"]))
    print_line(f"wrote       {done['out']}, {shape} codes")
