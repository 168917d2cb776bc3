"""The mutation table of docs/mutation.md: every preset's kernel, mistake after mistake.

    python benchmarks/mutation_table.py [--dim 37] [PRESET ...]

Level-1 vectors, nominal scales, 8 lanes. Needs a C++ compiler and ap_int.h. Half a minute each.
"""

from __future__ import annotations

import argparse

from approxnorm import RMSNorm, preset
from approxnorm.cli.nominal import nominal, nominal_gamma
from approxnorm.hls_ref.mutation import MutationReport, mutate
from approxnorm.spec import preset_names

COLUMNS = ("preset", "rows", "mutants", "killed by y", "by any signal", "equivalent", "survived")


def of_preset(name: str, dim: int) -> MutationReport:
    """The report of a preset for rows of dim elements."""
    spec, _ = nominal(preset(name).with_dim(dim))
    gamma, _ = nominal_gamma(spec)
    return mutate(RMSNorm(spec, gamma))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="*", default=preset_names())
    parser.add_argument("--dim", type=int, default=37)
    given = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---|" + "---:|" * (len(COLUMNS) - 1))
    survivors = []
    for name in given.presets:
        report = of_preset(name, given.dim)
        counts = " | ".join(str(n) for n in report.counts())
        print(f"| {name} | {report.rows} | {counts} |", flush=True)
        survivors += [f"{name}: {fate.name}" for fate in report.survived]
    print("\n".join(["", *survivors] if survivors else ["", "No mutant survives."]))


if __name__ == "__main__":
    main()
