"""Look-up tables as ROMs: constant C++ arrays."""

from __future__ import annotations

from collections.abc import Sequence

from approxnorm.hls_ref.emit.names import bare, identifier
from approxnorm.tables.table import Table

PER_LINE = 12


def entry_type(table: Table) -> str:
    """The type of an entry as it is read."""
    return f"ap_{'' if table.signed else 'u'}int<{table.width}>"


def table_text(table: Table) -> str:
    """A table's array with what there is to know of it."""
    told = [
        f"// {table.name}: {len(table.entries)} entries of {table.width} bits,"
        f" {table.frac_bits} of them fraction bits; address {table.index_rule}.",
        *(f"// Error of the stage that reads it: {table.bound}." for _ in range(bool(table.bound))),
        *(f"// Entries: {table.origin}." for _ in range(bool(table.origin))),
    ]
    head = f"static const {entry_type(table)} {identifier(table.name)}[{len(table.entries)}] = {{\n"
    return "\n".join(told) + "\n" + head + numbers(table.entries) + "};\n"


def numbers(values: Sequence[int], indent: str = "    ") -> str:
    """Integers as lines of an initialiser."""
    lines = [values[i : i + PER_LINE] for i in range(0, len(values), PER_LINE)]
    return "".join(f"{indent}{', '.join(map(bare, line))},\n" for line in lines)
