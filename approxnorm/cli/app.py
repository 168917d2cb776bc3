"""The Typer application: which commands there are. Their work is imported when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from approxnorm.cli.apply import apply
from approxnorm.cli.capture import capture
from approxnorm.cli.check import check
from approxnorm.cli.compare import compare
from approxnorm.cli.convert import convert
from approxnorm.cli.error import error
from approxnorm.cli.export import export
from approxnorm.cli.mutate import mutate
from approxnorm.cli.output import print_line
from approxnorm.cli.presets import presets
from approxnorm.cli.rsqrt import rsqrt
from approxnorm.cli.run import run
from approxnorm.cli.schema import schema
from approxnorm.cli.show import show
from approxnorm.cli.vectors import vectors

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a bug's traceback is for a bug report: keep it plain
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (presets, show, rsqrt, apply, error, vectors, check, compare, mutate, run):
    app.command()(command)
app.command()(capture)
app.command()(convert)
app.command()(schema)
app.add_typer(export, name="export")


def _print_version(wanted: bool) -> None:
    if wanted:
        from approxnorm import __version__

        print_line(f"approxnorm {__version__}")
        raise typer.Exit()


@app.callback()
def approxnorm(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Bit-accurate models of hardware RMSNorm: one spec, the same output codes everywhere."""
