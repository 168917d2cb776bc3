"""Files and folders that appear whole, or not at all: written beside, then renamed."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from approxnorm.errors import ApproxNormError

# Raises ApproxNormError if a folder that is not empty is no former result.
CheckFormer = Callable[[Path], None]


def write_atomically(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Call write with a new file beside path, then rename it to path; remove it on failure.

    A symbolic link at path is replaced, not followed. Raises ApproxNormError if the operating
    system refuses; what else write raises passes through.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        # Opened by hand and not by tempfile, so that the umask sets the permissions.
        with open(beside, "xb") as out:
            write(out)
        os.replace(beside, path)
    except OSError as error:
        raise _refused(path, error, "path in a folder that exists and") from error
    finally:
        with suppress(OSError):  # after the rename there is nothing left to remove
            beside.unlink()


@contextmanager
def staged_folder(out: Path, check_former: CheckFormer) -> Iterator[Path]:
    """A new folder beside ``out`` that takes its place when the block ends well.

    ``out`` may be absent, empty, or a former result that ``check_former`` accepts. On any failure
    what was there stays, and the new folder goes. Raises ApproxNormError if something else is
    there, or the operating system refuses.
    """
    out = Path(os.path.abspath(out))
    check_replaceable(out, check_former)
    beside = out.parent / f".{out.name}.{secrets.token_hex(4)}.tmp"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside.mkdir()
        yield beside
        _exchange(beside, out)
    except OSError as error:
        raise _refused(out, error, "folder that") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)  # after the rename there is nothing left


def check_replaceable(out: Path, check_former: CheckFormer) -> None:
    """Refuse an output folder that may not be replaced; call it before long work."""
    if out.is_symlink():
        raise ApproxNormError(f"{out} is a symbolic link; give the folder itself")
    if Path.cwd().is_relative_to(out.resolve()):
        raise ApproxNormError(f"{out} is, or holds, the current folder; give another folder")
    if not out.exists():
        return
    if not out.is_dir():
        raise ApproxNormError(f"{out} is a file; allowed: a new or empty folder")
    if any(out.iterdir()):
        check_former(out)


def listed_by(marker: str, names: Callable[[Any], set[str]]) -> CheckFormer:
    """A check that the JSON file ``marker`` is there, and its ``names`` are all else there is."""

    def check(out: Path) -> None:
        try:
            known = {marker} | names(json.loads((out / marker).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            raise ApproxNormError(
                f"{out} is not empty and holds no {marker} of a former result; allowed: a new or"
                " empty folder, or a former result"
            ) from None
        for entry in sorted(p.name for p in out.iterdir()):
            if entry not in known:
                raise foreign(out / entry)

    return check


def foreign(path: Path) -> ApproxNormError:
    """The error for something that would be lost if its folder were replaced."""
    return ApproxNormError(
        f"{path} is no part of the former result there and would be lost; move it, or give another"
        " folder"
    )


def _refused(path: Path, error: OSError, kind: str) -> ApproxNormError:
    reason = error.strerror or error
    return ApproxNormError(f"{path} cannot be written: {reason}; give a {kind} may be written to")


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
