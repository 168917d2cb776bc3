"""What a mutant is: a kernel with one mistake."""

from __future__ import annotations

from dataclasses import dataclass

from approxnorm.vectors.changes import Change


@dataclass(frozen=True)
class Mutant:
    """One mistake in the kernel's text.

    file: where it is. function: the function that it is in. text: that function's text with the
    mistake. change: the same mistake in the datapath, if it is one of the arithmetic.
    harmless: why no row can show it, if that is clear from the kernel itself.
    """

    name: str
    file: str
    function: str
    text: str
    change: Change | None = None
    harmless: str = ""


@dataclass(frozen=True)
class Expression:
    """A mistake in an expression that many functions share: ``old`` becomes ``new``.

    before: what stands before it, where it alone would not say which is meant.
    """

    name: str
    file: str
    old: str
    new: str
    harmless: str = ""
    before: str = ""


@dataclass(frozen=True)
class EntryMutant:
    """One entry of a table made larger by ``delta``."""

    table: int
    entry: int
    delta: int
    name: str
