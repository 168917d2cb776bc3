"""The inputs of a model's norms as an activation file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from approxnorm.export.norms import Findings
from approxnorm.export.rewrite.feeds import Feeds
from approxnorm.export.rewrite.opening import open_model
from approxnorm.export.rewrite.out_file import check_out, working_folder
from approxnorm.export.rewrite.rows import NormRows, collect_rows
from approxnorm.export.rewrite.select import select_norms
from approxnorm.output import write_atomically

# (step, fraction of it done)
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Captured:
    """What `capture` found and wrote. runs: of the model. skipped: names of norms left out."""

    out: Path
    runs: int
    norms: list[dict[str, Any]]
    skipped: list[str]
    findings: Findings

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "out": str(self.out),
            "runs": self.runs,
            "norms": self.norms,
            **left_alone(self.findings, self.skipped),
        }


def capture(
    model_path: str | Path,
    inputs_path: str | Path,
    out: str | Path,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    progress: Progress | None = None,
) -> Captured:
    """Run a model and write what goes into each of its RMSNorms to an .npz that `run` reads.

    inputs_path: see ``approxnorm.export.rewrite.feeds``. The file has NAME.x (rows, dim) float32,
    NAME.gamma (dim,) and NAME.eps of each norm; gamma is the effective one, 1 + w where the model
    has it so. only, skip: names or patterns of norms. The file appears whole or not at all.

    Raises ApproxNormError for bad input, and if there is no norm to take.
    """
    path, feeds_path, target = Path(model_path), Path(inputs_path), Path(out)
    check_out(target, ".npz", {"the model": path, "--inputs": feeds_path})
    report = progress or (lambda step, done: None)
    model, findings = open_model(path)
    norms, skipped = select_norms(findings, only, skip, path)
    feeds = Feeds(feeds_path, model)
    with working_folder(target) as folder:
        taken = collect_rows(model, path, norms, feeds, folder, lambda d: report("run", d))
        report("write", 0.0)
        write_atomically(target, lambda file: _write(file, taken))
    entries = [
        {"name": t.norm.name, "kind": t.norm.kind, "rows": t.rows}
        | {"dim": t.norm.dim, "eps": t.norm.eps}
        for t in taken
    ]
    return Captured(target, feeds.runs, entries, skipped, findings)


def left_alone(findings: Findings, skipped: list[str]) -> dict[str, Any]:
    """What a report says of the norms that were not taken."""
    unrecognised = [
        {"name": u.name, "kind": u.kind, "reason": u.reason} for u in findings.unrecognised
    ]
    layernorms = findings.layernorms
    return {"skipped": skipped, "unrecognised": unrecognised, "layernorms": layernorms}


def _write(file: IO[bytes], taken: list[NormRows]) -> None:
    arrays: dict[str, Any] = {}
    for each in taken:
        arrays[f"{each.norm.name}.x"] = each.mapped()
        arrays[f"{each.norm.name}.gamma"] = each.norm.gamma
        arrays[f"{each.norm.name}.eps"] = np.float64(each.norm.eps)
    np.savez(file, **arrays)
