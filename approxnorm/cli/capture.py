"""``approxnorm capture``: what goes into the norms of an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from approxnorm.cli.options import JsonOption
from approxnorm.cli.output import print_json, print_line, print_table, step_bar

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="The float model.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Take these norms only: names, or patterns with *, ?, [...]."
    ),
]
SkipOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Leave these norms alone.")
]

LISTED = 8  # names in a line


def capture(
    model: ModelArgument,
    inputs: Annotated[
        Path,
        typer.Option(
            "--inputs",
            "-i",
            metavar="FILE.npz",
            help="An array for each input of the model; NAME.0, NAME.1, ... for several runs.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="ACTS.npz", help="The activations.")],
    only: OnlyOption = None,
    skip: SkipOption = None,
    json: JsonOption = False,
) -> None:
    """Run an ONNX model and write what goes into its RMSNorms, for `run`, `error` and others.

    The file holds NAME.x, NAME.gamma and NAME.eps of each norm, in the order of the graph.
    """
    from approxnorm.export.rewrite import capture as write_activations

    with step_bar() as progress:
        done = write_activations(
            model, inputs, out, only=only or (), skip=skip or (), progress=progress
        ).to_dict()
    if json:
        print_json(done)
        return
    columns = ("norm", "form", "rows", "dim", "eps")
    rows = [[n["name"], n["kind"], n["rows"], n["dim"], n["eps"]] for n in done["norms"]]
    print_table(f"Norms of {model}", columns, rows, left=2)
    print_left_alone(done)
    print_line(f"wrote   {out}: {counted(len(rows), 'norm')}, {counted(done['runs'], 'run')}")


def print_left_alone(done: dict[str, Any]) -> None:
    """What a report says of the norms that were not taken, and why."""
    if done["unrecognised"]:
        rows = [[u["name"], u["kind"], u["reason"]] for u in done["unrecognised"]]
        print_table("Not recognised, hence left alone", ("norm", "form", "why"), rows, left=3)
    skipped = done["skipped"]
    if skipped:
        names = ", ".join(skipped) if len(skipped) <= LISTED else "--json lists them"
        print_line(f"skipped {counted(len(skipped), 'norm')}: {names}")
    if done["layernorms"]:
        print_line(f"left alone: {counted(done['layernorms'], 'LayerNorm')}")


def counted(count: int, what: str) -> str:
    """A count and its noun."""
    return f"{count} {what}" + ("" if count == 1 else "s")
