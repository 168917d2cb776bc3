"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from approxnorm.cli.usage import integer_in

SpecArgument = Annotated[
    str, typer.Argument(metavar="SPEC", help="A preset's name, or a .toml or .json file.")
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")
]
DimOption = Annotated[
    int | None,
    typer.Option(
        parser=integer_in(1), metavar="N", help="Row length, where the spec leaves it open."
    ),
]
InputOption = Annotated[
    Path | None,
    typer.Option(
        "--input",
        "-i",
        metavar="FILE",
        help="Activations (.npz, .npy, .safetensors) to calibrate on.",
    ),
]
LayerOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="The layer of FILE, if it holds several.")
]
GammaOption = Annotated[
    Path | None,
    typer.Option(metavar="G.npy", help="gamma: integers are codes, floats are quantised."),
]
OutFolderOption = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Where to write; made if absent.")
]
LevelOption = Annotated[
    int,
    typer.Option(
        parser=integer_in(0, 2),
        metavar="N",
        help="Golden vectors: 0 corners, 1 and every table entry, 2 more.",
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(parser=integer_in(0), metavar="N", help="Seed of the random golden vectors."),
]
LanesOption = Annotated[
    int,
    typer.Option(parser=integer_in(1, 4096), metavar="N", help="Codes in a line of a beats file."),
]
RowsOption = Annotated[
    int | None,
    typer.Option(
        parser=integer_in(1),
        metavar="N",
        help="With --input: rows of FILE that are taken, at most; absent: 64.",
    ),
]
