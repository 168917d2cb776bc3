"""``approxnorm check``: backends against the model, every code of every row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from approxnorm.cli.options import (
    DimOption,
    GammaOption,
    InputOption,
    JsonOption,
    LanesOption,
    LayerOption,
    LevelOption,
    SeedOption,
    SpecArgument,
)
from approxnorm.cli.output import print_json, print_line, print_table, step_bar
from approxnorm.cli.usage import integer_in

if TYPE_CHECKING:
    from approxnorm.conformance import CheckResult

DIFFERENT = 1  # the exit status of a comparison that found a difference


def check(
    spec: SpecArgument,
    backends: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Which backends, separated by commas.")
    ] = "numpy,cpp",
    rows: Annotated[
        int,
        typer.Option(
            parser=integer_in(0),
            metavar="N",
            help="Further random rows, and at most as many of FILE's own.",
        ),
    ] = 512,
    level: LevelOption = 1,
    seed: SeedOption = 0,
    lanes: LanesOption = 8,
    signals: Annotated[
        bool, typer.Option("--signals", help="Compare every named signal too, not y alone.")
    ] = False,
    input: InputOption = None,
    layer: LayerOption = None,
    gamma: GammaOption = None,
    dim: DimOption = None,
    json: JsonOption = False,
) -> int:
    """Run each backend on golden vectors and random rows; compare every code with the model's.

    Exit status 0: all equal; 1: a code differs. A backend that is asked for and cannot run here is
    an error, never skipped. The model is chosen as `vectors` chooses it.
    """
    from approxnorm.cli.rows_model import choose_model, own_rows
    from approxnorm.conformance import check as compare_backends
    from approxnorm.conformance.backends import check_names

    names = check_names(name.strip() for name in backends.split(","))
    chosen = choose_model(spec, dim, gamma, input, layer, None)
    own = own_rows(chosen, max(rows, 1))
    with step_bar() as progress:
        result = compare_backends(
            chosen.model,
            names,
            rows=rows,
            level=level,
            seed=seed,
            lanes=lanes,
            signals=signals,
            own=own,
            progress=progress,
        )
    if json:
        numbers: dict[str, Any] = {"level": level, "seed": seed}
        origin = {"scales": chosen.scales, "notes": chosen.notes}
        print_json({"spec_name": spec} | origin | numbers | result.to_dict())
    else:
        for note in chosen.notes:
            print_line(note)
        _print(result, signals)
    return 0 if result.equal else DIFFERENT


def exactly(value: int | None) -> str:
    """All digits of a count: one in ten millions matters here."""
    return "-" if value is None else str(value)


def _print(result: CheckResult, signals: bool) -> None:
    columns = ["backend", "rows", "codes", "mismatches"]
    columns += ["signal codes", "signal mismatches"] if signals else []
    table = []
    for name, found in result.backends.items():
        counts: list[int | None] = [found.rows, found.codes, found.mismatches]
        counts += [found.signal_codes, found.signal_mismatches] if signals else []
        table.append([name, *map(exactly, counts)])
    print_table("Backends against the model", columns, table)
    for line in result.lines():
        print_line(line)
    print_line(f"digest  {result.digest}")
    print_line("all codes are equal" if result.equal else "NOT EQUAL")
