"""The place of a result, looked at before long work."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from approxnorm.errors import ApproxNormError


def check_out(out: Path, suffix: str, inputs: Mapping[str, Path], called: str = "--out") -> None:
    """Refuse a file that cannot be written, or would take the place of an input.

    inputs: by what messages call them; called: what they call ``out``. Raises ApproxNormError.
    """
    shown = f"{called} is {str(out)!r}"
    if out.suffix.lower() != suffix:
        raise ApproxNormError(f"{shown}; it must be a file with the suffix {suffix}")
    for what, path in inputs.items():
        if path.resolve() == out.resolve():
            raise ApproxNormError(f"{shown}, which is {what} too; give another file")
    if out.is_dir():
        raise ApproxNormError(f"{shown}, a folder; give a file")
    if not out.parent.is_dir():
        raise ApproxNormError(f"{shown}, but there is no folder {out.parent}; make it first")


@contextmanager
def working_folder(out: Path) -> Iterator[Path]:
    """A folder beside the result, where there is room for it, that goes at the end."""
    with tempfile.TemporaryDirectory(".tmp", f".{out.name}.", out.parent) as folder:
        yield Path(folder)
