"""Putting a finished folder in its place: whole, or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from approxnorm.errors import ApproxNormError
from approxnorm.vectors.manifest import NAME, read_manifest
from approxnorm.vectors.read import foreign_files


def write_folder(out: Path, fill: Callable[[Path], None]) -> None:
    """Call ``fill`` with a new folder beside ``out``, then rename it to ``out``.

    An empty folder or a previous set of vectors at ``out`` is replaced; on any failure what was
    there stays. Raises ApproxNormError if anything else is there, or ``out`` cannot be written.
    """
    check_replaceable(out)
    beside = out.parent / f".{out.name}.{secrets.token_hex(4)}.tmp"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside.mkdir()
        fill(beside)
        _exchange(beside, out)
    except OSError as error:
        raise ApproxNormError(
            f"{out} cannot be written: {error.strerror or error}; give a folder that may be"
            " written to"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)  # after the rename there is nothing left


def check_replaceable(out: Path) -> None:
    """Refuse to put vectors where something lies that is not a previous set of vectors."""
    if out.is_symlink():
        raise ApproxNormError(f"{out} is a symbolic link; give the folder itself")
    if not out.exists():
        return
    if not out.is_dir():
        raise ApproxNormError(f"{out} is a file; allowed: a new or empty folder")
    entries = list(out.iterdir())
    if not entries:
        return
    if not (out / NAME).is_file():
        raise ApproxNormError(
            f"{out} is not empty and holds no {NAME}; allowed: a new or empty folder, or a"
            " previous set of vectors"
        )
    foreign = foreign_files(out, read_manifest(out))
    hidden = [p.name for p in entries if p.name.startswith(".")]
    for name in (*foreign, *hidden):
        raise ApproxNormError(
            f"{out / name} is no part of the vectors there and would be lost; move it, or give"
            " another folder"
        )


def _exchange(new: Path, out: Path) -> None:
    """Rename new to out; what was at out is kept until that has worked, then removed."""
    if not out.exists():
        os.replace(new, out)
        return
    old = out.parent / f".{out.name}.{secrets.token_hex(4)}.old"
    os.replace(out, old)
    try:
        os.replace(new, out)
    except OSError:
        os.replace(old, out)
        raise
    shutil.rmtree(old, ignore_errors=True)
