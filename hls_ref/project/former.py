"""project.json: what a project holds, and whether a folder may be replaced by a new one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from approxnorm.errors import ApproxNormError
from approxnorm.output import foreign
from approxnorm.vectors.manifest import PROVENANCE, require_regular
from approxnorm.vectors.text import sha256_of

NAME = "project.json"
FORMAT, FORMAT_VERSION = "approxnorm-hls-project", 1
MAX_BYTES = 16 << 20
# What `make` leaves behind, and `make clean` removes.
BUILT = ("build/inputs", "build/bench", "build/bench_trace", "build/bench_sanitize")


def listed_files(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder by its path, provenance (versions) aside."""
    return {
        path: sha256_of(folder / path) for path in sorted(_files(folder)) if not _is_unlisted(path)
    }


def check_former(out: Path) -> None:
    """Raise ApproxNormError unless all that is in ``out`` is a project just as it was written.

    What ``make`` built there may go. A file that is no part of it, or was edited since, is
    somebody's work and stays.
    """
    listed = _listed(out)
    for path in sorted(_files(out)):
        if _is_unlisted(path):
            continue
        if path not in listed:
            raise foreign(out / path)
        require_regular(out / path)
        if sha256_of(out / path) != listed[path]:
            raise ApproxNormError(
                f"{out / path} was edited since it was written and would be lost; move it, or"
                " give another folder"
            )


def _is_unlisted(path: str) -> bool:
    return path in (NAME, *BUILT) or Path(path).name == PROVENANCE


def _listed(out: Path) -> dict[str, Any]:
    try:
        require_regular(out / NAME)
        if (out / NAME).stat().st_size > MAX_BYTES:
            raise ValueError(NAME)
        project = json.loads((out / NAME).read_bytes())
        if project["format"] != FORMAT:
            raise ValueError(NAME)
        return dict(project["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ApproxNormError(
            f"{out} is not empty and holds no {NAME} of a former result; allowed: a new or empty"
            " folder, or a former result"
        ) from None


def _files(folder: Path) -> Iterator[str]:
    """Paths of all that is no folder itself, links to folders too, with / between."""
    for current, folders, names in os.walk(folder):
        here = Path(current)
        links = [name for name in folders if (here / name).is_symlink()]
        for name in (*names, *links):
            yield (here / name).relative_to(folder).as_posix()
