"""Look-up tables as files: $readmemh, Xilinx memory initialisation, and C arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from approxnorm.hls_ref.emit import TOP
from approxnorm.tables.table import Table
from approxnorm.vectors.text import to_hex

FOLDER = "tables"
_INT32 = range(-(1 << 31), 1 << 31)
_PER_LINE = 8


def c_prefix(top: str) -> str:
    """What names in C begin with: those of two kernels with other names do not clash."""
    return "approx_" if top == TOP else f"{top}_"


def table_files(tables: Sequence[Table], prefix: str = c_prefix(TOP)) -> dict[str, bytes]:
    """NAME.mem, NAME.coe, tables.h and tables.c of a datapath's tables, by path in the project.

    prefix: of the names in tables.h.
    Words of .mem and .coe are two's complement of ``Table.width`` bits, in hex of
    ceil(width / 4) digits; entry 0 is first. The C arrays hold the entries as they are.
    """
    files = {}
    for name, table in named(tables):
        files[f"{FOLDER}/{name}.mem"] = to_mem(table)
        files[f"{FOLDER}/{name}.coe"] = to_coe(table)
    files[f"{FOLDER}/tables.h"] = _header(tables, prefix).encode("ascii")
    files[f"{FOLDER}/tables.c"] = _source(tables, prefix).encode("ascii")
    return files


def named(tables: Iterable[Table]) -> list[tuple[str, Table]]:
    """Tables with the names of their files; of two with one name, the later gets a number."""
    taken: dict[str, Table] = {}
    for table in tables:
        name, n = table.name, 2
        while name in taken:
            name, n = f"{table.name}_{n}", n + 1
        taken[name] = table
    return list(taken.items())


def to_mem(table: Table) -> bytes:
    """One word a line, each line with its line feed: what $readmemh reads."""
    return to_hex(table.array(np.dtype(np.int64)), table.width)


def to_coe(table: Table) -> bytes:
    """A Xilinx COE file; what follows a semicolon is a comment there."""
    words = to_mem(table).decode("ascii").split()
    comments = [f"; {line}\n" for line in _facts(table)]
    head = "memory_initialization_radix=16;\nmemory_initialization_vector=\n"
    return ("".join(comments) + head + ",\n".join(words) + ";\n").encode("ascii")


def _facts(table: Table) -> list[str]:
    """What a table is, a line each, in ASCII without the ends of comments."""
    sign = "signed" if table.signed else "unsigned"
    facts = [
        f"{table.name}: {len(table.entries)} entries of {table.width} bits, {sign},"
        f" {table.frac_bits} fraction bits",
        f"index: {table.index_rule}",
        f"bound: {table.bound or 'none stated'}",
        f"origin: {table.origin or 'none stated'}",
    ]
    return [comment_text(fact) for fact in facts]


def comment_text(text: str) -> str:
    """Text for a comment in C: what a user called a file or a layer may be part of it."""
    ascii_text = text.encode("ascii", "backslashreplace").decode("ascii")
    return " ".join(ascii_text.split()).replace("*/", "* /").replace("/*", "/ *")


def _type(table: Table) -> str:
    fits = all(e in _INT32 for e in (min(table.entries), max(table.entries)))
    return "int32_t" if fits else "int64_t"


def _header(tables: Sequence[Table], prefix: str) -> str:
    lines = [
        "/* The datapath's tables, for C programs; an entry is a code: entry / 2^FRAC_BITS. */"
    ]
    guard = f"{prefix}tables_h".upper()
    lines += [f"#ifndef {guard}", f"#define {guard}", "", "#include <stdint.h>", ""]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    for name, table in named(tables):
        upper = f"{prefix}{name}".upper()
        lines += [
            *_comment(table),
            f"#define {upper}_ENTRIES {len(table.entries)}",
            f"#define {upper}_WIDTH {table.width}",
            f"#define {upper}_FRAC_BITS {table.frac_bits}",
            f"extern const {_type(table)} {prefix}{name}[{len(table.entries)}];",
            "",
        ]
    lines += ["#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


def _source(tables: Sequence[Table], prefix: str) -> str:
    lines = ['#include "tables.h"', ""]
    for name, table in named(tables):
        entries = [_literal(e) for e in table.entries]
        lines.append(f"const {_type(table)} {prefix}{name}[{len(entries)}] = {{")
        for i in range(0, len(entries), _PER_LINE):
            lines.append("    " + ", ".join(entries[i : i + _PER_LINE]) + ",")
        lines += ["};", ""]
    return "\n".join(lines)


def _literal(entry: int) -> str:
    """-2^31 has no literal of its own in C: 2147483648 is of another type before it is negated."""
    if entry == _INT32.start:
        return f"({entry + 1} - 1)"
    return f"INT64_C({entry})" if entry not in _INT32 else str(entry)


def _comment(table: Table) -> list[str]:
    first, *others = _facts(table)
    return [f"/* {first}", *(f" * {fact}" for fact in others), " */"]
