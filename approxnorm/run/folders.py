"""Folder names of layers, and which folder a run may replace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from approxnorm.hls_ref.project import former
from approxnorm.output import foreign, listed_by

MAX_NAME = 80
RESULTS, REPORT = "report.json", "report.html"
SPEC, ERRORS = "spec.json", "errors.json"
VECTORS, OWN_VECTORS, PROJECT = "vectors", "vectors-input", "hls"
ONNX, ONNX_FLOAT = "norm.onnx", "norm.float.onnx"  # on codes; on float32
LAYER_CONTENT = {SPEC, ERRORS, VECTORS, OWN_VECTORS, PROJECT, ONNX, ONNX_FLOAT}


def _names(report: Any) -> set[str]:
    return {REPORT, *(layer["folder"] for layer in report["layers"])}


_check_top = listed_by(RESULTS, _names)


def check_former_run(out: Path) -> None:
    """Raise ApproxNormError unless all that is in ``out`` is of a former run.

    A layer's HLS project is looked into: people work in it.
    """
    _check_top(out)
    for layer in sorted(p for p in out.iterdir() if p.is_dir()):
        for entry in sorted(layer.iterdir()):
            if entry.name not in LAYER_CONTENT:
                raise foreign(entry)
            if entry.name == PROJECT:
                former.check_former(entry)


def folder_names(names: Sequence[str], taken: Iterable[str] = (RESULTS, REPORT)) -> list[str]:
    """A folder name for each layer name: letters, digits, '.', '_' and '-', all different.

    Layer names come from files, so they may hold slashes or dots that lead elsewhere, may begin
    with a dash as options do, and may differ in case only, which some file systems do not tell
    apart. taken: what else the folder will hold, in lower case.
    """
    taken = set(taken)
    result = []
    for name in names:
        base = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:MAX_NAME].strip(".") or "layer"
        base = re.sub(r"^-", "_", base)
        candidate, n = base, 2
        while candidate.lower() in taken:
            candidate, n = f"{base}-{n}", n + 1
        taken.add(candidate.lower())
        result.append(candidate)
    return result
