"""Building the mutants, running them on golden vectors, and asking why the rest survive."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref import csim
from approxnorm.hls_ref.emit import Kernel, kernel_files
from approxnorm.hls_ref.mutation.arithmetic import arithmetic_mutants, entry_mutants
from approxnorm.hls_ref.mutation.mutants import EntryMutant, Expression, Mutant
from approxnorm.hls_ref.mutation.report import Fate, MutationReport
from approxnorm.hls_ref.mutation.sources import sources_with
from approxnorm.hls_ref.mutation.wiring import shared_expressions, wiring_mutants
from approxnorm.model import RMSNorm
from approxnorm.vectors import plan
from approxnorm.vectors.changes import Change, table_change
from approxnorm.vectors.equivalence import Prover
from approxnorm.vectors.probe import Probe

UNUSED = "no y depends on the table"

# (step, fraction of it done)
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Result:
    """What the runner says of one mutant."""

    outputs: int
    signals: int
    end: str

    @property
    def by_y(self) -> bool:
        return self.end != "ran" or self.outputs > 0

    @property
    def by_trace(self) -> bool:
        return self.end != "ran" or self.signals > 0


def mutate(
    model: RMSNorm,
    *,
    level: int = 1,
    seed: int = 0,
    lanes: int = 8,
    progress: Progress | None = None,
) -> MutationReport:
    """Run every mutant of the model's kernel against its golden vectors of a level.

    Raises ApproxNormError if there is no C++ compiler, or no ap_int.h.
    """
    report = progress or (lambda step, done: None)
    csim.require_tools()
    datapath = model.assembly.require_datapath()
    # Mistakes are put into its lines, which must be whole.
    kernel = Kernel({"": model}, datapath, model.dim, lanes, wrap=False)
    files = kernel_files(kernel)
    report("vectors", 0.0)
    codes = np.concatenate([c.codes for c in plan(model, level, seed, lanes=lanes).classes])
    mutants: list[Mutant | Expression] = [
        *arithmetic_mutants(kernel),
        *wiring_mutants(kernel, files[f"kernel/{kernel.top}.cpp"]),
        *shared_expressions(kernel),
    ]
    entries = list(entry_mutants(kernel))
    report("compile and run", 0.0)
    results = run_mutants(kernel, files, mutants, entries, codes)
    fates = _fates(model, mutants, entries, results, report)
    return MutationReport(model.digest, len(codes), fates)


def run_mutants(
    kernel: Kernel,
    files: dict[str, str],
    mutants: Sequence[Mutant | Expression],
    entries: Sequence[EntryMutant],
    codes: np.ndarray,
) -> list[Result]:
    """What each mutant does: the kernel itself first, then mutants, then entries."""
    numbered = dict(enumerate(mutants, start=1))
    with tempfile.TemporaryDirectory(prefix="approxnorm-") as name:
        root = Path(name)
        csim.write_sources(root, sources_with(kernel, files, numbered))
        csim.compile_program(
            root / "mutants",
            [root / f"kernel/{kernel.top}.cpp", csim.HERE / "include" / "mutation_runner.cpp"],
            [root / "kernel", root / "tb"],
            ["-O1", "-DAPPROX_TRACE"],
        )
        arguments = _write_rows(root, kernel, codes)
        lines = "".join(f"{e.table} {e.entry} {e.delta}\n" for e in entries)
        (root / "entries.txt").write_text(lines, "ascii")
        done = subprocess.run(
            [str(root / "mutants"), *arguments, str(len(mutants)), str(root / "entries.txt")],
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise ApproxNormError(f"the mutants' C simulation failed: {done.stderr.strip()}")
    return _parse(done.stdout, 1 + len(mutants) + len(entries))


def _write_rows(root: Path, kernel: Kernel, codes: np.ndarray) -> list[str]:
    """The files that the runner reads; returns its first arguments."""
    _, trace = kernel.first(codes, trace=True)
    codes.astype(np.int64).tofile(root / "x.bin")
    with open(root / "expected.bin", "wb") as file:
        for port in kernel.datapath.signals():
            if port.level != "channel":
                file.write(np.ascontiguousarray(trace[port.name], np.int64).tobytes())
    return [str(len(codes)), str(root / "x.bin"), str(root / "expected.bin")]


def _parse(text: str, count: int) -> list[Result]:
    results = []
    for number, line in enumerate(text.splitlines()):
        name, outputs, signals, end = line.split()
        if int(name) != number:
            raise AssertionError(f"mutant {number} has no line")
        results.append(Result(int(outputs), int(signals), end))
    if len(results) != count:
        raise AssertionError(f"{count} mutants, {len(results)} lines")
    if results[0].by_y or results[0].by_trace:
        raise AssertionError("the kernel itself differs from the model")
    return results[1:]


def _fates(
    model: RMSNorm,
    mutants: Sequence[Mutant | Expression],
    entries: Sequence[EntryMutant],
    results: Sequence[Result],
    report: Progress,
) -> list[Fate]:
    probe = Probe(model)
    prover = Prover(probe)
    fates = []
    every: list[Mutant | Expression | EntryMutant] = [*mutants, *entries]
    for i, (mutant, result) in enumerate(zip(every, results, strict=True)):
        report("proofs", i / len(every))
        why = "" if result.by_y else _why(prover, mutant)
        fates.append(Fate(mutant.name, _kind(mutant), result.by_y, result.by_trace, why))
    return fates


def _kind(mutant: Mutant | Expression | EntryMutant) -> str:
    if isinstance(mutant, EntryMutant):
        return "table"
    return "arithmetic" if isinstance(mutant, Mutant) and mutant.change else "wiring"


def _why(prover: Prover, mutant: Mutant | Expression | EntryMutant) -> str:
    """Why a mutant that no row shows cannot be shown by any; "" if that is not known."""
    if isinstance(mutant, EntryMutant):
        change = entry_change(prover.probe, mutant)
        return UNUSED if change is None else prover.reason(change) or ""
    if mutant.harmless or isinstance(mutant, Expression) or mutant.change is None:
        return mutant.harmless
    return prover.reason(mutant.change) or ""


def entry_change(probe: Probe, mutant: EntryMutant) -> Change | None:
    """The same in the datapath; None for a table that y does not depend on."""
    table = probe.datapath.tables()[mutant.table]
    site = next((s for s in probe.sites if s.table == table), None)
    if site is None:
        return None
    return table_change(probe, site, mutant.entry, mutant.delta)
