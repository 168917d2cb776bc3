"""What may be replaced by new golden vectors: a former set, with nothing else in its folder."""

from __future__ import annotations

from pathlib import Path

from approxnorm.errors import ApproxNormError
from approxnorm.output import foreign
from approxnorm.vectors.manifest import NAME, read_manifest
from approxnorm.vectors.read import foreign_files


def check_former(out: Path) -> None:
    """Raise ApproxNormError unless all that is in ``out`` belongs to a set of vectors."""
    if not (out / NAME).is_file():
        raise ApproxNormError(
            f"{out} is not empty and holds no {NAME}; allowed: a new or empty folder, or a"
            " previous set of vectors"
        )
    hidden = [p.name for p in out.iterdir() if p.name.startswith(".")]
    for name in (*foreign_files(out, read_manifest(out)), *hidden):
        raise foreign(out / name)
