"""Lines of emitted C++ no longer than a page."""

from __future__ import annotations

import re

WIDTH = 100
_BREAK = re.compile(r"(?<=, )|(?<= = )|(?<=\()(?=[\w(])")


def wrapped(text: str) -> str:
    """Code with its long lines broken after commas, equals signs and opening brackets."""
    return "".join(_wrapped_line(line) for line in text.splitlines(keepends=True))


def _wrapped_line(line: str) -> str:
    bare = line.rstrip("\n")
    if len(bare) <= WIDTH or bare.lstrip().startswith(("//", "#", '"')):
        return line
    indent = " " * (len(bare) - len(bare.lstrip()) + 4)
    pieces, room = [], WIDTH
    while len(bare) > room:
        place = _break(bare, room, WIDTH - len(indent))
        if place is None:
            break
        pieces.append(bare[:place].rstrip())
        bare, room = bare[place:], WIDTH - len(indent)
    return f"\n{indent}".join([*pieces, bare]) + "\n"


def _break(text: str, room: int, next_room: int) -> int | None:
    """Where to break a line: within as few brackets as can be, and so that the rest fits."""
    comment = text.find("  // ")
    last = room if comment < 0 else min(room, comment)
    places = {m.start(): _depth(text[: m.start()]) for m in _BREAK.finditer(text)}
    near = {p: depth for p, depth in places.items() if 0 < p <= last}
    shallow = [p for p, depth in near.items() if depth == min(near.values())]
    fitting = [p for p in shallow if len(text) - p <= next_room]
    return fitting[0] if fitting else max(shallow, default=None)


def _depth(text: str) -> int:
    """Open brackets, a template's counted too; comparisons stand between spaces."""
    words = text.replace(" < ", "   ").replace(" > ", "   ").replace(" >> ", "    ")
    words = words.replace(" << ", "    ")
    opened = words.count("(") + words.count("<") + words.count("[")
    return opened - words.count(")") - words.count(">") - words.count("]")
