"""``approxnorm vectors``: golden vectors for a test bench."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from approxnorm.cli.options import (
    DimOption,
    GammaOption,
    InputOption,
    JsonOption,
    LanesOption,
    LayerOption,
    LevelOption,
    OutFolderOption,
    RowsOption,
    SeedOption,
    SpecArgument,
)
from approxnorm.cli.output import print_json, print_line, print_table, waiting

if TYPE_CHECKING:
    from approxnorm.vectors import VectorSet


def vectors(
    spec: SpecArgument,
    out: OutFolderOption,
    level: LevelOption = 1,
    seed: SeedOption = 0,
    lanes: LanesOption = 8,
    input: InputOption = None,
    layer: LayerOption = None,
    rows: RowsOption = None,
    gamma: GammaOption = None,
    dim: DimOption = None,
    json: JsonOption = False,
) -> None:
    """Write golden vectors: generated ones or, with --input, the first rows of FILE.

    Open scales are calibrated on FILE; without it they are nominal, with a warning.
    Same arguments, same bytes, on any machine.
    """
    from approxnorm.cli.rows_model import choose_model
    from approxnorm.vectors import write_vectors

    chosen = choose_model(spec, dim, gamma, input, layer, rows)
    with waiting("making golden vectors"):
        made = write_vectors(
            chosen.model, out, level=level, seed=seed, lanes=lanes, x_codes=chosen.codes
        )
    done = _describe(made, chosen.scales, chosen.notes)
    if json:
        print_json(done)
    else:
        _print(done)


def _describe(made: VectorSet, scales: str, notes: list[str]) -> dict[str, Any]:
    manifest = made.manifest
    return {
        "out": str(made.folder),
        "digest": made.digest,
        "scales": scales,
        "notes": notes,
        "level": manifest.level,
        "seed": manifest.seed,
        "lanes": manifest.lanes,
        "rows": made.rows,
        "dim": made.dim,
        "classes": [{"name": c.name, "rows": c.count} for c in manifest.classes],
        "signals": [s.name for s in manifest.signals],
        "coverage": manifest.coverage,
    }


def _print(done: dict[str, Any]) -> None:
    for note in done["notes"]:
        print_line(note)
    classes = [(c["name"], c["rows"]) for c in done["classes"]]
    print_table("Rows", ("class", "rows"), classes)
    _print_coverage(done["coverage"])
    print_line(f"digest  {done['digest']}")
    print_line(
        f"wrote   {done['out']}: {done['rows']} rows of {done['dim']},"
        f" {len(done['signals'])} signals, {done['lanes']} lanes"
    )


def _print_coverage(coverage: dict[str, Any]) -> None:
    rows = [(f"entries of {t['table']}", t["reached"], t["entries"]) for t in coverage["tables"]]
    rows += [
        (f"values of {s['signal']}", s["reached"], s["values"]) for s in coverage["row_signals"]
    ]
    if "changes" in coverage:  # not for a user's own rows
        changes = coverage["changes"]
        rows.append(("changes of the datapath that y shows", changes["seen"], changes["tried"]))
    print_table("Reached", ("what", "reached", "of"), rows)
