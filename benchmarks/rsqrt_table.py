"""Measure every rsqrt method over all of [1, 4) and print the table as markdown.

    python benchmarks/rsqrt_table.py

Errors are relative, found exhaustively in exact integers, and include the truncation of the
argument (both ends of each cell) and every rounding of the datapath. Table bits are entries times
stored columns: columns that are the same in all entries are wired, not stored.
"""

from __future__ import annotations

from typing import Any

from approxnorm.methods.function import RSQRT_METHODS

ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("power_of_two", {}),
    ("log2", {"index_bits": 0}),
    ("log2", {"index_bits": 4}),
    ("log2", {}),
    ("log2", {"index_bits": 8}),
    ("direct", {"entries": "left"}),
    ("direct", {}),
    ("direct", {"bits": 16}),
    ("bipartite", {}),
    ("bipartite", {"base_bits": 4}),
    ("bipartite", {"split": (4, 3, 4), "bits": 14, "offset_bits": 15}),
    ("bipartite", {"split": (4, 3, 4), "bits": 15, "base_bits": 4}),
    ("multipartite", {}),
    ("multipartite", {"base_bits": 3}),
    ("multipartite", {"index_bits": 6, "offsets": ((4, 3), (3, 3)), "bits": 15, "base_bits": 4}),
    ("linear", {}),
    ("linear", {"out_bits": 18, "frac_bits": 16}),
    ("linear", {"bits": 12, "slope_bits": 11, "out_bits": 18, "frac_bits": 16}),
    ("linear", {"segments": 16, "bits": 13, "out_bits": 18}),
    ("linear", {"segments": 16, "bits": 14, "slope_bits": 13, "out_bits": 18, "frac_bits": 17}),
    ("powering", {"bits": 12, "frac_bits": 16, "out_bits": 18, "correction_index_bits": 0}),
    ("powering", {}),
    ("powering", {"bits": 14, "frac_bits": 16, "shared_octave": True}),
    ("powering", {"segments": 16, "bits": 16}),
    ("powering", {"segments": 16, "bits": 16, "shared_octave": True}),
    ("quadratic", {}),
    ("quadratic", {"segments": 8, "bits": 17, "slope_bits": 16, "square_bits": 14}),
    ("newton", {"recenter": False}),
    ("newton", {}),
    ("newton", {"frac_bits": 18, "out_bits": 20}),
    ("newton", {"seed_index_bits": 4, "seed_bits": 10, "seed_offsets": ((2, 2),)}),
    ("newton", {"seed_index_bits": 3, "seed_bits": 6, "steps": 2, "frac_bits": 20}),
    ("fisr", {"steps": 0}),
    ("fisr", {}),
    ("fisr", {"recenter": True}),
    ("fisr", {"steps": 2, "frac_bits": 20}),
    ("isqrt_divide", {}),
    ("isqrt_divide", {"root_bits": 16}),
)
HEADER = ("method", "fields", "table bits", "max_rel", "mean_rel", "multipliers")


def row(name: str, fields: dict[str, Any]) -> tuple[str, ...]:
    """The cells of one line."""
    method = RSQRT_METHODS.get(name)(**fields).resolved()
    error = method.error()
    given = ", ".join(f"{k} = {_value(v)}" for k, v in fields.items()) or "defaults"
    return (
        f"`{name}`",
        given,
        f"{method.table_bits():,}",
        f"{error.max_error:.2e}",
        f"{error.mean_error:+.1e}",
        str(method.multipliers()),
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).replace("(", "[").replace(",)", ")").replace(")", "]")


def table() -> str:
    """The whole table as markdown."""
    lines = [HEADER, ("---",) * len(HEADER), *(row(*r) for r in ROWS)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
