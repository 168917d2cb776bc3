"""Every preset, and every legal combination of rsqrt, statistic and normalize method, as ONNX.

Runs the golden vectors of level 1 through ONNX Runtime at three levels of its graph optimisations
and through the onnx package's reference evaluator, and compares every output code and every named
signal with the model. The exit status is 1 if any differs. It takes ten minutes;
--every 10 takes each tenth kernel, --every-form each method in all its forms.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import onnx
import onnxruntime
from conformance_matrix import DIM, Case, cases, table

from approxnorm import RMSNorm
from approxnorm.conformance import CheckResult, check_classes
from approxnorm.conformance.backends import Backend
from approxnorm.export.onnx.runtimes import Level, OrtBackend, ReferenceBackend
from approxnorm.vectors import generate

LEVELS: tuple[Level, ...] = ("DISABLE_ALL", "BASIC", "ALL")
REFERENCE = "reference"
RUNNERS = (*LEVELS, REFERENCE)
COLUMNS = ("kernels", "codes", "signals", *(f"bad {name}" for name in RUNNERS))


def backends(model: RMSNorm) -> dict[str, Backend]:
    """What runs a model, by the names of the columns."""
    runtime: dict[str, Backend] = {level: OrtBackend(model, level=level) for level in LEVELS}
    return runtime | {REFERENCE: ReferenceBackend(model)}


def compare(case: Case, vector_level: int) -> tuple[str, Counter[str], list[str]]:
    """(line of the table, counts, first differences) of one model; counts are of one runner."""
    line, model = case
    classes = generate(model, vector_level, 0)
    result = check_classes(model, backends(model), classes, signals=True)
    counts = {f"bad {name}": differing(result, name) for name in RUNNERS}
    one = result.backends[REFERENCE]
    sizes = {"kernels": 1, "codes": one.codes, "signals": one.signal_codes or 0}
    return line, Counter(sizes | counts), result.lines()


def differing(result: CheckResult, name: str) -> int:
    """Codes of y and of signals that differ; y counts in both."""
    found = result.backends[name]
    return found.mismatches + (found.signal_mismatches or 0)


def told(
    results: Iterable[tuple[str, Counter[str], list[str]]], count: int
) -> Iterator[tuple[str, Counter[str]]]:
    """What the table takes; differences and progress go to stderr."""
    for i, (line, counts, differences) in enumerate(results, 1):
        for text in differences:
            print(f"{line}: {text}", file=sys.stderr)
        if i % 20 == 0 or i == count:
            print(f"{i} of {count} kernels", file=sys.stderr, flush=True)
        yield line, counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", type=int, default=1, help="of the golden vectors")
    parser.add_argument("--every-form", action="store_true", help="each method in all its forms")
    parser.add_argument("--every", type=int, default=1, help="take each n-th kernel")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    given = parser.parse_args()
    every = list(cases(given.every_form))[:: given.every]
    versions = f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}"
    print(f"rows of {DIM}, golden vectors of level {given.level}, {versions}")
    # Not forked: ONNX Runtime's threads would not be there in the child.
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        done = pool.map(compare, every, [given.level] * len(every))
        return 1 if table(told(done, len(every)), COLUMNS) else 0


if __name__ == "__main__":
    sys.exit(main())
