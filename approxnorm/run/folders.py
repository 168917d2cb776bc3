"""Output folders: safe names for layers, and a folder that appears whole or not at all."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from approxnorm.errors import ApproxNormError

MAX_NAME = 80


def folder_names(names: Sequence[str]) -> list[str]:
    """A folder name for each layer name: letters, digits, '.', '_' and '-', all different.

    Layer names come from files, so they may hold slashes or dots that lead elsewhere, and may
    differ in case only, which some file systems do not tell apart.
    """
    taken: set[str] = set()
    result = []
    for name in names:
        base = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:MAX_NAME].strip(".") or "layer"
        candidate, n = base, 2
        while candidate.lower() in taken:
            candidate, n = f"{base}-{n}", n + 1
        taken.add(candidate.lower())
        result.append(candidate)
    return result


@contextmanager
def staged_folder(out: Path, marker: str) -> Iterator[Path]:
    """A temporary folder beside ``out`` that takes its place when the block ends well.

    ``out`` may be absent, empty, or a former result, which has the file ``marker``; any other
    folder is left alone. On an error the temporary folder goes and ``out`` stays as it was.
    """
    _check_replaceable(out, marker)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise ApproxNormError(f"{out}: cannot be written ({error.strerror})") from None
    try:
        stage.chmod(0o755)
        yield stage
        former = None
        if out.exists():
            former = Path(tempfile.mkdtemp(prefix=f".{out.name}-old-", dir=out.parent))
            out.rename(former / "old")
        stage.rename(out)
        if former is not None:
            shutil.rmtree(former)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise


def _check_replaceable(out: Path, marker: str) -> None:
    if not out.exists() and not out.is_symlink():
        return
    if out.is_symlink() or not out.is_dir():
        raise ApproxNormError(f"{out} exists and is not a folder; give another folder")
    if any(out.iterdir()) and not (out / marker).is_file():
        raise ApproxNormError(
            f"{out} is not empty and holds no {marker} of an earlier run; give another folder"
        )
