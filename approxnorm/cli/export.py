"""``approxnorm export``: hardware and models of a spec for other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from approxnorm.cli.options import (
    DimOption,
    GammaOption,
    InputOption,
    JsonOption,
    LayerOption,
    LevelOption,
    OutFolderOption,
    RowsOption,
    SeedOption,
    SpecArgument,
)
from approxnorm.cli.output import print_json, print_line, waiting
from approxnorm.cli.usage import integer_in

if TYPE_CHECKING:
    from approxnorm.hls_ref.project import Project

export = typer.Typer(no_args_is_help=True, help="Write hardware of a spec: a project for HLS.")


@export.command()
def hls(
    spec: SpecArgument,
    out: OutFolderOption,
    dim: DimOption = None,
    gamma: GammaOption = None,
    input: InputOption = None,
    layer: LayerOption = None,
    rows: RowsOption = 64,
    level: LevelOption = 1,
    seed: SeedOption = 0,
    lanes: Annotated[
        int,
        typer.Option(
            parser=integer_in(1, 4096), metavar="N", help="Elements in a beat of the streams."
        ),
    ] = 8,
    part: Annotated[
        str | None, typer.Option(metavar="NAME", help="The FPGA, as Vivado names it.")
    ] = None,
    clock: Annotated[
        float | None, typer.Option(metavar="NS", help="Clock period in nanoseconds.")
    ] = None,
    residual: Annotated[
        bool, typer.Option("--residual", help="The kernel adds a residual before the norm.")
    ] = False,
    tb_data: Annotated[
        bool, typer.Option("--tb-data", help="Also write the rows as hls4ml's tb_data/*.dat.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write a Vitis HLS project: C++ kernel, tables, test bench, golden vectors, scripts.

    `make` in DIR runs its C simulation with g++, run_hls.tcl the stages of Vitis HLS. Open scales
    are calibrated on --input, whose first rows the bench then replays too; without it they are
    nominal, with a warning.
    """
    from approxnorm.cli.rows_model import choose_model
    from approxnorm.hls_ref.project import CLOCK_NS, PART, write_project

    chosen = choose_model(spec, dim, gamma, input, layer, rows)
    with waiting("writing the project"):
        made = write_project(
            chosen.model,
            out,
            level=level,
            seed=seed,
            lanes=lanes,
            x_codes=chosen.codes,
            tb_data=tb_data,
            residual=residual,
            part=PART if part is None else part,
            clock_ns=CLOCK_NS if clock is None else clock,
        )
    done = _describe(made, chosen.scales, chosen.notes)
    if json:
        print_json(done)
    else:
        _print(done)


def _describe(made: Project, scales: str, notes: list[str]) -> dict[str, Any]:
    return {
        "out": str(made.folder),
        "digest": made.digest,
        "scales": scales,
        "notes": notes,
        "dim": made.vectors.dim,
        "lanes": made.lanes,
        "passes": made.passes,
        "part": made.part,
        "clock_ns": made.clock_ns,
        "level": made.vectors.manifest.level,
        "rows": made.vectors.rows,
        "input_rows": 0 if made.own_vectors is None else made.own_vectors.rows,
        "ap_types": made.has_ap_types,
        "files": list(made.files),
    }


def _print(done: dict[str, Any]) -> None:
    for note in done["notes"]:
        print_line(note)
    print_line(f"digest  {done['digest']}")
    print_line(
        f"kernel  {done['lanes']} lanes, {done['passes']} passes over a row of {done['dim']}"
    )
    own = f", and {done['input_rows']} of the input" if done["input_rows"] else ""
    print_line(f"vectors {done['rows']} rows of level {done['level']}{own}")
    print_line(f"wrote   {done['out']}: {len(done['files'])} files")
    if done["ap_types"]:
        print_line(f"next    make -C {done['out']}")
    else:
        print_line(
            "ap_int.h was not found, so it is not part of the project; next:"
            f" make -C {done['out']} AP_TYPES=FOLDER"
        )
