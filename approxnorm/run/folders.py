"""Folder names of layers, and which folder a run may replace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from approxnorm.output import listed_by

MAX_NAME = 80
RESULTS, REPORT = "report.json", "report.html"


def _names(report: Any) -> set[str]:
    return {REPORT, *(layer["folder"] for layer in report["layers"])}


check_former_run = listed_by(RESULTS, _names)


def folder_names(names: Sequence[str]) -> list[str]:
    """A folder name for each layer name: letters, digits, '.', '_' and '-', all different.

    Layer names come from files, so they may hold slashes or dots that lead elsewhere, and may
    differ in case only, which some file systems do not tell apart.
    """
    taken = {RESULTS, REPORT}
    result = []
    for name in names:
        base = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:MAX_NAME].strip(".") or "layer"
        candidate, n = base, 2
        while candidate.lower() in taken:
            candidate, n = f"{base}-{n}", n + 1
        taken.add(candidate.lower())
        result.append(candidate)
    return result
