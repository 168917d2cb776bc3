"""``approxnorm run``: the main job, on every layer of an activation file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Compare NumPy and C simulation with the model; absent: if that can run here.",
        ),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Calibrate, measure, write and check everything: specs, errors, vectors, HLS, report.

    DIR appears whole at the end or not at all; a former result there is replaced.
    A layer's gamma is --gamma if given, else the file's, else ones. Exit status 1, after all is
    written: a backend's code differs.
    """
    from approxnorm.cli.layer_tables import warn_of_overflow
    from approxnorm.cli.models import read_gamma
    from approxnorm.hls_ref.csim import check_ap_types_variable
    from approxnorm.inputs import default_activations
    from approxnorm.run import run_job
    from approxnorm.run.conformance import differences, missing_tools
    from approxnorm.run.job import Options
    from approxnorm.spec import load_spec

    check_ap_types_variable()
    missing = missing_tools()
    options = Options(
        level=level,
        seed=seed,
        lanes=lanes,
        hls=missing is None if hls is None else hls,
        check=missing is None if check is None else check,
    )
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
    by_default = missing is not None and None in (hls, check)
    left_out = f"{_left_out(hls, check)}; {missing}" if by_default else None
    if json:
        print_json(results | {"left_out": left_out})
    else:
        _print(results, out, options.hls)
        if left_out is not None:
            print_line(f"Left out, by default: {left_out}")
    return DIFFERENT if differences(results) else 0


def _left_out(hls: bool | None, check: bool | None) -> str:
    """What was not asked for either way, hence not done where it cannot be."""
    parts = {"HLS projects (--hls)": hls, "the check of backends (--check)": check}
    return " and ".join(name for name, asked in parts.items() if asked is None)


def _print(results: dict[str, Any], out: Path, hls: bool) -> None:
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
    if hls:
        print_line("                    HLS project in hls/: make -C LAYER/hls runs its bench")
