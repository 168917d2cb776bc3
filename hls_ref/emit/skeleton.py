"""The hand-written parts of the kernel, as they lie beside the emitter."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_INCLUDE = Path(__file__).resolve().parent.parent / "include"


@cache
def skeleton(name: str) -> str:
    """The text of a hand-written file."""
    return (_INCLUDE / name).read_text("utf-8")
