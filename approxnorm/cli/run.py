"""``approxnorm run``: the main job, on every layer of an activation file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from approxnorm.cli.check import DIFFERENT, exactly
from approxnorm.cli.options import (
    GammaOption,
    JsonOption,
    LanesOption,
    LevelOption,
    OutFolderOption,
    SeedOption,
    SpecArgument,
)
from approxnorm.cli.output import print_json, print_line, print_table, progress_bar

if TYPE_CHECKING:
    from approxnorm.run.job import Options


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
    hls: Annotated[
        bool | None,
        typer.Option(
            "--hls/--no-hls",
            help="Write an HLS project of each layer; absent: if its C simulation can run here.",
        ),
    ] = None,
    onnx: Annotated[
        bool | None,
        typer.Option(
            "--onnx/--no-onnx",
            help="Write ONNX files of each layer; absent: if the package onnx is here.",
        ),
    ] = None,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Compare NumPy, C simulation and ONNX Runtime with the model; absent: those that"
            " can run here.",
        ),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Calibrate, measure, write and check everything: specs, errors, vectors, HLS, ONNX, report.

    DIR appears whole at the end or not at all; a former result there is replaced.
    A layer's gamma is --gamma if given, else the file's, else ones. Exit status 1, after all is
    written: a backend's code differs.
    """
    from approxnorm.cli.layer_tables import warn_of_overflow
    from approxnorm.cli.models import read_gamma
    from approxnorm.hls_ref.csim import check_ap_types_variable
    from approxnorm.inputs import default_activations
    from approxnorm.run import run_job
    from approxnorm.run.conformance import differences
    from approxnorm.run.job import Options
    from approxnorm.run.tools import choose
    from approxnorm.spec import load_spec

    check_ap_types_variable()
    chosen = choose(hls, onnx, check)
    options = Options(level, seed, lanes, chosen.hls, chosen.onnx, chosen.backends)
    with progress_bar() as report:
        results = run_job(
            load_spec(spec),
            spec_name=spec,
            input_path=default_activations() if input is None else input,
            out=out,
            gamma=read_gamma(gamma),
            options=options,
            progress=report,
        )
    warn_of_overflow(results["layers"])
    if json:
        print_json(results | {"left_out": chosen.left_out})
    else:
        _print(results, out, options)
        for line in chosen.left_out:
            print_line(f"Left out, by default: {line}")
    return DIFFERENT if differences(results) else 0


def _print(results: dict[str, Any], out: Path, options: Options) -> None:
    from approxnorm.cli.layer_tables import print_layers
    from approxnorm.run.conformance import differences

    print_line(f"{results['spec_name']} on {results['input']}", bold=True)
    print_layers(results["layers"])
    if "conformance" in results:
        backends = results["conformance"]["backends"]
        counts = ("rows", "codes", "mismatches")
        rows = [(n, *(exactly(c[key]) for key in counts)) for n, c in backends.items()]
        print_table("Backends against the model", ("backend", *counts), rows)
    for line in differences(results):
        print_line(line)
    print_line(f"Report              {out / 'report.html'}")
    print_line(f"Results as JSON     {out / 'report.json'}")
    print_line(f"Each layer in       {out}/LAYER: spec.json, errors.json,")
    print_line("                    golden vectors in vectors/ and vectors-input/")
    if options.onnx:
        print_line("                    norm.onnx (codes to codes), norm.float.onnx (float32)")
    if options.hls:
        print_line("                    HLS project in hls/: make -C LAYER/hls runs its bench")
