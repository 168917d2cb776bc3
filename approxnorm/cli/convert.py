"""``approxnorm convert``: an ONNX model whose RMSNorms are quantised."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from approxnorm.cli.capture import (
    ModelArgument,
    OnlyOption,
    SkipOption,
    counted,
    print_left_alone,
)
from approxnorm.cli.options import JsonOption
from approxnorm.cli.output import print_json, print_line, print_table, step_bar

COUNTS = ("elements", "different")
FIGURES = {"max_abs": "max", "rms_rel": "rms rel", "sqnr_db": "SQNR dB"}


def convert(
    model: ModelArgument,
    spec: Annotated[
        str,
        typer.Option(
            "--spec", "-s", metavar="SPEC", help="A preset's name, or a .toml or .json file."
        ),
    ],
    calibrate: Annotated[
        Path,
        typer.Option(
            "--calibrate",
            "-c",
            metavar="FILE.npz",
            help="An array for each input of the model; NAME.0, NAME.1, ... for several runs.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="OUT.onnx", help="The quantised model.")
    ],
    evaluate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz", help="Inputs that errors are measured on; absent: --calibrate's."
        ),
    ] = None,
    only: OnlyOption = None,
    skip: SkipOption = None,
    json: JsonOption = False,
) -> None:
    """Replace the RMSNorms of an ONNX model by quantised ones that stock ONNX Runtime runs.

    Each norm is calibrated on what goes into it. Before OUT.onnx is written, every code of every
    norm in it is compared with the model's, in ONNX Runtime. All else in the graph stays as it is.
    """
    from approxnorm.export.rewrite import convert as write_converted
    from approxnorm.spec import load_spec

    with step_bar() as progress:
        done = write_converted(
            model,
            load_spec(spec),
            calibrate,
            out,
            evaluate_path=evaluate,
            only=only or (),
            skip=skip or (),
            progress=progress,
        ).to_dict()
    if json:
        print_json({"spec_name": spec, "model": str(model)} | done)
    else:
        print_line(f"{spec} in {model}, opset {done['opset']}", bold=True)
        _print(done)


def _print(done: dict[str, Any]) -> None:
    measured = f"on {done['measured_on']}"
    rows = [[n["name"], n["kind"], n["dim"], *_figures(n)] for n in done["norms"]]
    columns = ("norm", "form", "dim", *FIGURES.values())
    print_table(f"Error of each norm against the float one, {measured}", columns, rows, left=2)
    rows = [[o["name"], *_counts(o), *_figures(o)] for o in done["outputs"]]
    columns = ("output", "elements", "differ", *FIGURES.values())
    print_table(f"Outputs of the model, after against before, {measured}", columns, rows)
    print_left_alone(done)
    version = done["ir_version"]
    if version["after"] != version["before"]:
        print_line(
            f"IR version {version['after']}, before {version['before']}: the first with functions"
        )
    codes = sum(n["codes_checked"] for n in done["norms"])
    print_line(f"checked {codes:,} codes in ONNX Runtime: all equal to the model's")
    for path in done["copied"]:
        print_line(f"copied  {path}, external data")
    norms, functions = len(done["norms"]), len({n["function"] for n in done["norms"]})
    print_line(
        f"wrote   {done['out']}: {counted(norms, 'norm')} in {counted(functions, 'function')}"
    )


def _counts(entry: dict[str, Any]) -> list[str]:
    """In full, where a table would shorten them."""
    return [f"{entry[key]:,}" if entry[key] is not None else "-" for key in COUNTS]


def _figures(entry: dict[str, Any]) -> list[float | None]:
    return [entry[key] for key in FIGURES]
