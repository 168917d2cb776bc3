"""``approxnorm compare``: what a user's RTL or board wrote, against golden vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from approxnorm.cli.check import DIFFERENT, exactly
from approxnorm.cli.options import JsonOption
from approxnorm.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from approxnorm.conformance import Comparison


def compare(
    vectors: Annotated[Path, typer.Argument(metavar="VECTORS", help="A folder of golden vectors.")],
    got: Annotated[
        Path,
        typer.Argument(metavar="GOT", help="A file, or a folder of files named after signals."),
    ],
    signal: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What a single file holds; absent: its name, or y."),
    ] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Numbers in .dat files are real values, not codes.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Compare what your own hardware wrote with golden vectors, every word of every file.

    Exit status 0: all equal; 1: a word differs; 2: a file cannot be compared.
    """
    from approxnorm.conformance import compare as compare_files

    result = compare_files(vectors, got, signal=signal, real=real)
    if json:
        print_json({"vectors": str(vectors), "got": str(got)} | result.to_dict())
    else:
        _print(result)
    return 0 if result.equal else DIFFERENT


def _print(result: Comparison) -> None:
    print_table(
        "Files against the vectors",
        ("signal", "file", "words", "mismatches"),
        [(r.signal, r.file, exactly(r.words), exactly(r.mismatches)) for r in result.signals],
        left=2,
    )
    line = result.line()
    if line is not None:
        print_line(line)
    for found in result.signals:
        if found.hint is not None:
            print_line(f"Hint: {found.hint}")
    if result.not_compared:
        print_line(f"Not compared, as no file holds them: {', '.join(result.not_compared)}")
    print_line(f"digest  {result.digest}")
    without_y = "; y was not compared" if "y" in result.not_compared else ""
    print_line(("all words are equal" if result.equal else "NOT EQUAL") + without_y)
