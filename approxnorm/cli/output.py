"""What commands print: tables and lines for people, JSON for scripts."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

Report = Callable[[str, int, int, float], None]

PIPED_WIDTH = 400
EXACT_DIGITS = 7  # longer integers are abbreviated in tables


def stdout_console() -> Console:
    """A console on stdout that prints text as it is: names may hold [brackets] and :colons:."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def print_json(data: Any) -> None:
    """One JSON document; numbers that are not finite become null."""
    text = json.dumps(_finite(data), indent=2, allow_nan=False)
    sys.stdout.write(text + "\n")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def print_line(text: str = "", *, bold: bool = False, indent: int = 0) -> None:
    """A line of text: wrapped on a terminal, left whole where it is piped."""
    from rich.padding import Padding
    from rich.text import Text

    console, styled = stdout_console(), Text(text, style="bold" if bold else "")
    if console.is_terminal and text:
        console.print(Padding(styled, (0, 0, 0, indent), expand=False))
    else:
        styled.pad_left(indent)
        console.print(styled, soft_wrap=True)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, left: int = 1
) -> None:
    """A table and an empty line; the first ``left`` columns hold text, the others numbers.

    On a terminal, text is folded if it must be. Piped, the table is as wide as it needs.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for i, name in enumerate(columns):
        if i < left:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, str) else number(cell) for cell in row))
    console = stdout_console()
    print_line(title, bold=True)
    console.print(table, crop=False)
    print_line()


def print_tables(tables: Iterable[Mapping[str, Any]]) -> None:
    """Look-up tables as ``Table.summary`` gives them; below, each one's bound and origin."""
    fields = ("name", "index_rule", "entries", "width", "stored_width", "bits")
    listed = list(tables)
    print_table(
        "Tables",
        ("name", "index", "entries", "width", "stored", "bits"),
        [[table[field] for field in fields] for table in listed],
        left=2,
    )
    for table in listed:
        said = [table[key] for key in ("bound", "origin") if table[key]]
        if said:
            print_line(f"{table['name']}: {said[0]}", indent=1)
        for text in said[1:]:
            print_line(text, indent=4)
    if listed:
        print_line()


def number(value: float | int | None) -> str:
    """A number for a table: three digits of a float; "-" for one that is undefined or infinite."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return integer(value)
    return "0" if value == 0 else f"{value:.3g}"


def integer(value: int) -> str:
    """Exact up to seven digits; larger ones as 2^k or 2^k-1 where that is exact, else about."""
    if abs(value) < 10**EXACT_DIGITS:
        return str(value)
    sign, size = ("-" if value < 0 else ""), abs(value)
    if size & (size - 1) == 0:
        return f"{sign}2^{size.bit_length() - 1}"
    if size & (size + 1) == 0:
        return f"{sign}(2^{size.bit_length()}-1)" if sign else f"2^{size.bit_length()}-1"
    return f"~{sign}{size:.3e}"


@contextmanager
def progress_bar() -> Iterator[Report]:
    """Yield ``report(step, index, layers, done)``; the bar is on stderr, if that is a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = _stderr_console()
    if not console.is_terminal:
        yield lambda step, index, layers, done: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[step]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, step="")

        def report(step: str, index: int, layers: int, done: float) -> None:
            text = f"layer {index + 1} of {layers}"
            bar.update(task, description=text, step=step, completed=done)

        yield report


@contextmanager
def step_bar() -> Iterator[Callable[[str, float], None]]:
    """The same for a job of one part: ``report(step, done)``."""
    with progress_bar() as report:
        yield lambda step, done: report(step, 0, 1, done)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A spinner on stderr, if that is a terminal."""
    console = _stderr_console()
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


def _stderr_console() -> Console:
    from rich.console import Console

    return Console(stderr=True, markup=False, highlight=False, emoji=False)
