"""``approxnorm vectors``: golden vectors for a test bench."""

from __future__ import annotations

import warnings
from pathlib import Path
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
    import numpy as np

    from approxnorm.model import RMSNorm
    from approxnorm.vectors import VectorSet


NOMINAL = "scales are nominal, not calibrated: give --input for vectors of your own layer"


def vectors(
    spec: SpecArgument,
    out: OutFolderOption,
    level: LevelOption = 1,
    seed: SeedOption = 0,
    lanes: LanesOption = 8,
    input: InputOption = None,
    layer: LayerOption = None,
    rows: RowsOption = 64,
    gamma: GammaOption = None,
    dim: DimOption = None,
    json: JsonOption = False,
) -> None:
    """Write golden vectors: generated ones or, with --input, the first rows of FILE.

    Open scales are calibrated on FILE; without it they are nominal, with a warning.
    Same arguments, same bytes, on any machine.
    """
    from approxnorm.cli.models import check_layer_option
    from approxnorm.vectors import write_vectors

    check_layer_option(layer, input)
    if input is None:
        model, scales, notes = _model(spec, dim, gamma)
        codes = None
    else:
        model, codes, notes = _of_input(spec, dim, gamma, input, layer, rows)
        scales = "input"
    with waiting("making golden vectors"):
        made = write_vectors(model, out, level=level, seed=seed, lanes=lanes, x_codes=codes)
    done = _describe(made, scales, notes)
    if json:
        print_json(done)
    else:
        _print(done)


def _model(source: str, dim: int | None, gamma_path: Path | None) -> tuple[RMSNorm, str, list[str]]:
    """A model without data; whether its scales are "spec" or "nominal"; and what was chosen."""
    from approxnorm.cli.models import model_of_spec, read_gamma, spec_of_dim
    from approxnorm.cli.nominal import nominal, nominal_gamma
    from approxnorm.errors import ApproxNormError
    from approxnorm.spec import load_spec

    gamma = read_gamma(gamma_path)
    spec = spec_of_dim(load_spec(source), dim, gamma)
    if spec.dim is None:
        raise ApproxNormError(
            "dim is open in the spec; give --dim N, --gamma G.npy, or --input FILE to calibrate on"
        )
    spec, notes = nominal(spec)
    scales = "nominal" if notes else "spec"
    if notes:
        warnings.warn(NOMINAL, stacklevel=1)
    if gamma is None and notes:
        gamma, note = nominal_gamma(spec)
        notes.append(note)
    elif gamma is None:
        notes = ["gamma: none was given; ones are used"]
    return model_of_spec(spec, gamma), scales, notes


def _of_input(
    source: str,
    dim: int | None,
    gamma_path: Path | None,
    path: Path,
    name: str | None,
    rows: int,
) -> tuple[RMSNorm, np.ndarray, list[str]]:
    """The layer's model, the codes of its first rows, and what was chosen."""
    from approxnorm.cli.models import model_of_layer, pick_layer, read_gamma, spec_of_dim
    from approxnorm.run.job import first_rows, with_gamma
    from approxnorm.spec import load_spec

    spec = spec_of_dim(load_spec(source), dim, None)
    layer, notes = with_gamma(pick_layer(path, name), read_gamma(gamma_path))
    model, more = model_of_layer(spec, layer)
    taken = first_rows(layer, rows)
    return model, taken if layer.is_codes else model.quantize(taken), notes + more


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
