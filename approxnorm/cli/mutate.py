"""``approxnorm mutate``: how many wrong kernels golden vectors tell from the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from approxnorm.hls_ref.mutation import MutationReport

SURVIVORS = 1  # the exit status where a mutant is neither killed nor equivalent


def mutate(
    spec: SpecArgument,
    level: LevelOption = 1,
    seed: SeedOption = 0,
    lanes: LanesOption = 8,
    input: InputOption = None,
    layer: LayerOption = None,
    gamma: GammaOption = None,
    dim: DimOption = None,
    json: JsonOption = False,
) -> int:
    """Make one mistake after another in the C++ kernel, and see which the golden vectors show.

    A mutant is killed if y differs; a second column counts those that any named signal shows.
    Exit status 0: all others are proven equivalent; 1: some survived. Needs a C++ compiler.
    """
    from approxnorm.cli.rows_model import choose_model
    from approxnorm.hls_ref.mutation import mutate as run_mutants

    chosen = choose_model(spec, dim, gamma, input, layer, None)
    with step_bar() as progress:
        report = run_mutants(chosen.model, level=level, seed=seed, lanes=lanes, progress=progress)
    if json:
        origin = {"spec_name": spec, "scales": chosen.scales, "notes": chosen.notes}
        print_json(origin | {"level": level, "seed": seed, "lanes": lanes} | report.to_dict())
    else:
        for note in chosen.notes:
            print_line(note)
        _print(report)
    return SURVIVORS if report.survived else 0


def _print(report: MutationReport) -> None:
    from approxnorm.hls_ref.mutation.report import NOT_PROVEN

    columns = ("kind", "mutants", "killed by y", "by any signal", "equivalent", "survived")
    everything = [*report.kinds(), ("all", *report.counts())]
    print_table(f"Mutants against {report.rows} rows", columns, everything)
    for title, fates in (("Equivalent", report.equivalent), ("Survived", report.survived)):
        reasons: dict[str, list[str]] = {}
        for fate in fates:
            reasons.setdefault(fate.reason, []).append(fate.name)
        if reasons:
            print_line(title, bold=True)
        for reason, names in reasons.items():
            print_line(reason or NOT_PROVEN, indent=1)
            for name in names:
                print_line(name, indent=4)
    print_line(f"digest  {report.digest}")
