"""One program with every mutant in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from approxnorm.hls_ref.emit import Kernel
from approxnorm.hls_ref.emit.names import identifier
from approxnorm.hls_ref.mutation.mutants import Expression, Mutant
from approxnorm.hls_ref.mutation.variants import SWITCH, with_expression, with_variants

Numbered = Mapping[int, Mutant | Expression]


def sources_with(kernel: Kernel, files: Mapping[str, str], mutants: Numbered) -> dict[str, str]:
    """The kernel's files with all mutants, each switched on by its number."""
    texts = dict(files)
    for (file, function), group in _by_function(mutants).items():
        texts[file] = with_variants(texts[file], function, group)
    for number, mutant in mutants.items():
        if isinstance(mutant, Expression):
            texts[mutant.file] = with_expression(
                texts[mutant.file], mutant.before, mutant.old, mutant.new, number
            )
    operations = "kernel/approx/ops.hpp"
    texts[operations] = f"extern int {SWITCH};\n{texts[operations]}"
    texts["kernel/tables.hpp"] = texts["kernel/tables.hpp"].replace("static const ", "static ")
    texts[f"kernel/{kernel.top}.cpp"] += _change_entry(kernel)
    return texts


def _by_function(mutants: Numbered) -> dict[tuple[str, str], dict[int, str]]:
    groups: dict[tuple[str, str], dict[int, str]] = {}
    for number, mutant in mutants.items():
        if isinstance(mutant, Mutant):
            groups.setdefault((mutant.file, mutant.function), {})[number] = mutant.text
    return groups


def _change_entry(kernel: Kernel) -> str:
    """The function by which the runner changes a table's entry."""
    cases: Sequence[str] = [
        f"    if (table == {i})\n"
        f"        {kernel.top}_kernel::rom::{identifier(t.name)}[entry] += delta;\n"
        for i, t in enumerate(kernel.datapath.tables())
    ]
    return (
        "\nvoid approx_change_entry(int table, int entry, int delta) {\n"
        "    (void)table, (void)entry, (void)delta;\n" + "".join(cases) + "}\n"
    )
