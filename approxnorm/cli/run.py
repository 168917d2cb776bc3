"""``approxnorm run``: the main job, on every layer of an activation file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from approxnorm.cli.options import (
    GammaOption,
    JsonOption,
    LanesOption,
    LevelOption,
    OutFolderOption,
    SeedOption,
    SpecArgument,
)
from approxnorm.cli.output import print_json, print_line, progress_bar


def run(
    spec: SpecArgument,
    out: OutFolderOption,
    input: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            metavar="FILE",
            help="Activations: .npz, .npy or .safetensors; absent, those that ship with this.",
        ),
    ] = None,
    gamma: GammaOption = None,
    level: LevelOption = 1,
    seed: SeedOption = 0,
    lanes: LanesOption = 8,
    json: JsonOption = False,
) -> None:
    """Calibrate, measure and write everything: resolved specs, errors, vectors, report.

    DIR appears whole at the end or not at all; a former result there is replaced.
    A layer's gamma is --gamma if given, else the file's, else ones.
    """
    from approxnorm.cli.layer_tables import warn_of_overflow
    from approxnorm.cli.models import read_gamma
    from approxnorm.inputs import default_activations
    from approxnorm.run import run_job
    from approxnorm.run.job import Options
    from approxnorm.spec import load_spec

    with progress_bar() as report:
        results = run_job(
            load_spec(spec),
            spec_name=spec,
            input_path=default_activations() if input is None else input,
            out=out,
            gamma=read_gamma(gamma),
            options=Options(level=level, seed=seed, lanes=lanes),
            progress=report,
        )
    warn_of_overflow(results["layers"])
    if json:
        print_json(results)
    else:
        _print(results, out)


def _print(results: dict[str, Any], out: Path) -> None:
    from approxnorm.cli.layer_tables import print_layers

    print_line(f"{results['spec_name']} on {results['input']}", bold=True)
    print_layers(results["layers"])
    print_line(f"Report              {out / 'report.html'}")
    print_line(f"Results as JSON     {out / 'report.json'}")
    print_line(f"Each layer in       {out}/LAYER: spec.json, errors.json,")
    print_line("                    golden vectors in vectors/ and vectors-input/")
