"""``approxnorm export``: hardware and models of a spec for other tools."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from approxnorm.cli.export_onnx import onnx
from approxnorm.cli.export_qonnx import qonnx
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
    from approxnorm.cli.rows_model import RowsModel
    from approxnorm.hls_ref.project import Project


class Constant(StrEnum):
    """Where the constant goes that holds a layer's scales."""

    TABLE = "table"
    GAMMA = "gamma"
    MULTIPLIER = "multiplier"


export = typer.Typer(no_args_is_help=True, help="Write a spec for other tools: HLS, ONNX, QONNX.")


@export.command()
def hls(
    spec: SpecArgument,
    out: OutFolderOption,
    dim: DimOption = None,
    gamma: GammaOption = None,
    input: InputOption = None,
    layer: LayerOption = None,
    rows: RowsOption = None,
    level: LevelOption = 1,
    seed: SeedOption = 0,
    lanes: Annotated[
        int,
        typer.Option(
            parser=integer_in(1, 4096), metavar="N", help="Elements in a beat of the streams."
        ),
    ] = 8,
    top: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The top function, its namespace and files: a name in C."
        ),
    ] = None,
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
    runtime: Annotated[
        bool,
        typer.Option(
            "--runtime", help="One kernel for every layer of FILE; their numbers are ports."
        ),
    ] = False,
    max_dim: Annotated[
        int | None,
        typer.Option(
            parser=integer_in(1),
            metavar="N",
            help="With --runtime: the longest row, if not FILE's.",
        ),
    ] = None,
    constant: Annotated[
        Constant | None, typer.Option(help="In place of the spec's normalize.constant.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write a Vitis HLS project: C++ kernel, tables, test bench, golden vectors, scripts.

    `make` in DIR runs its C simulation with g++, run_hls.tcl the stages of Vitis HLS. Open scales
    are calibrated on --input, whose first rows the bench then replays too; without it they are
    nominal, with a warning. With --runtime one kernel serves all layers of --input: gamma, eps,
    shifts, step and row length are registers and a stream.
    """
    from approxnorm.cli.rows_model import choose_layers, choose_model
    from approxnorm.hls_ref.csim import check_ap_types_variable
    from approxnorm.hls_ref.project import CLOCK_NS, PART, TOP, write_ports_project, write_project

    _check_max_dim(max_dim, runtime)
    check_ap_types_variable()
    options: dict[str, Any] = {
        "level": level,
        "seed": seed,
        "lanes": lanes,
        "tb_data": tb_data,
        "residual": residual,
        "top": TOP if top is None else top,
        "part": PART if part is None else part,
        "clock_ns": CLOCK_NS if clock is None else clock,
    }
    place = None if constant is None else constant.value
    if runtime:
        chosen = choose_layers(spec, dim, gamma, input, layer, rows, place)
        models = {name: c.model for name, c in chosen.items()}
        names = {name: _input_name(name, c) for name, c in chosen.items()}
        codes = {name: c.codes for name, c in chosen.items() if c.codes is not None} or None
        with waiting("writing the project"):
            made = write_ports_project(
                models, out, max_dim=max_dim, names=names, x_codes=codes, **options
            )
        done = _describe_ports(made, chosen)
    else:
        one = choose_model(spec, dim, gamma, input, layer, rows, place)
        with waiting("writing the project"):
            made = write_project(one.model, out, x_codes=one.codes, **options)
        done = _describe(made, one)
    if json:
        print_json(done)
    else:
        _print(done)


export.command()(onnx)
export.command()(qonnx)


def _check_max_dim(max_dim: int | None, runtime: bool) -> None:
    from approxnorm.errors import ApproxNormError

    if max_dim is not None and not runtime:
        raise ApproxNormError(f"--max-dim is {max_dim}, but --runtime is not given; give both")


def _describe(made: Project, chosen: RowsModel) -> dict[str, Any]:
    (layer,) = _layers(made, {"": chosen})
    del layer["name"], layer["input_name"]
    return {"out": str(made.folder), **layer, **_shared(made)}


def _describe_ports(made: Project, chosen: dict[str, RowsModel]) -> dict[str, Any]:
    return {
        "out": str(made.folder),
        "digest": made.digest,
        "max_dim": made.dim,
        **_shared(made),
        "layers": _layers(made, chosen),
    }


def _input_name(name: str, chosen: RowsModel) -> str:
    """What a layer is called in its file; ``name``, where there is none."""
    return name if chosen.layer is None else chosen.layer.name


def _layers(made: Project, chosen: dict[str, RowsModel]) -> list[dict[str, Any]]:
    layers = []
    for name, replayed in made.layers.items():
        own = replayed.own_vectors
        layers.append(
            {
                "name": name,
                "input_name": _input_name(name, chosen[name]),
                "digest": replayed.vectors.digest,
                "scales": chosen[name].scales,
                "notes": chosen[name].notes,
                "dim": replayed.vectors.dim,
                "rows": replayed.vectors.rows,
                "input_rows": 0 if own is None else own.rows,
            }
        )
    return layers


def _shared(made: Project) -> dict[str, Any]:
    return {
        "top": made.top,
        "lanes": made.lanes,
        "passes": made.passes,
        "part": made.part,
        "clock_ns": made.clock_ns,
        "level": made.vectors.manifest.level,
        "ap_types": made.has_ap_types,
        "files": list(made.files),
    }


def _names(layer: dict[str, Any]) -> str:
    """A layer's folder, and its name in the file if that is another."""
    name, own = layer["name"], layer["input_name"]
    return str(name) if own == name else f"{name} ({own})"


def _print(done: dict[str, Any]) -> None:
    layers, several = done.get("layers", [done]), "layers" in done
    for layer in layers:
        for note in layer["notes"]:
            print_line(f"{layer['name']}: {note}" if several else note)
    print_line(f"digest  {done['digest']}")
    row = f"rows of up to {done['max_dim']}" if several else f"a row of {done['dim']}"
    print_line(f"kernel  {done['lanes']} lanes, {done['passes']} passes over {row}")
    if several:
        print_line(f"layers  {len(layers)}: {', '.join(map(_names, layers))}")
    rows, own_rows = (sum(layer[key] for layer in layers) for key in ("rows", "input_rows"))
    own = f", and {own_rows} of the input" if own_rows else ""
    print_line(f"vectors {rows} rows of level {done['level']}{own}")
    print_line(f"wrote   {done['out']}: {len(done['files'])} files")
    if done["ap_types"]:
        print_line(f"next    make -C {done['out']}")
    else:
        print_line(
            "ap_int.h was not found, so it is not part of the project; next:"
            f" make -C {done['out']} AP_TYPES=FOLDER"
        )
