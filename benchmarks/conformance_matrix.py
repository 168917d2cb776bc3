"""Every preset, and every legal combination of rsqrt, statistic and normalize method, as C++.

Compares every output code and every named signal with the model, on ten million output codes by
default; the exit status is 1 if any differs. A combination is taken in one of its forms (of a
table's size, a step, a place of the constant), with --every-form in all of them. It takes minutes,
or with every form an hour; --every 10 takes each tenth kernel.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from hls_cases import NORMALIZE, RSQRT, build, preset_model, rows, statistics
from hls_kernels import Answer, Command, static_kernels

from approxnorm import RMSNorm
from approxnorm.errors import ApproxNormError
from approxnorm.spec.load import preset_names

DIM = 64
BATCH = 12  # kernels in one compilation
LANES = (8, 5, 16, 3)
COLUMNS = ("kernels", "codes", "bad", "signals", "bad signals")
WIDTH = 17  # of a column

Case = tuple[str, RMSNorm]


def cases(every_form: bool) -> Iterator[Case]:
    """(line of the table, model) of the presets, then of the combinations."""
    for name in preset_names():
        yield f"preset {name}", preset_model(name, DIM)
    taken: set[tuple[str, ...]] = set()
    for rsqrt in RSQRT:
        for normalize in NORMALIZE:
            line = f"{named(rsqrt)}, {named(normalize)}"
            for seed, statistic in enumerate(statistics(DIM)):
                methods = (line, named(statistic))
                if methods in taken and not every_form:
                    continue
                try:
                    model = build(DIM, rsqrt, statistic, normalize, seed)
                except ApproxNormError:
                    break  # these two do not go together, with no statistic
                taken.add(methods)
                yield line, model


def named(fields: dict[str, object]) -> str:
    """The method, and the order of the multiplications."""
    return " ".join(str(v) for k, v in fields.items() if k in ("method", "order"))


def codes_of(model: RMSNorm, count: int, seed: int) -> np.ndarray:
    """Rows that reach the corners, then random ones of every loudness."""
    form, corners = model.assembly.x_format, rows(model, seed)
    rng = np.random.default_rng(seed)
    more = max(count - len(corners), 0)
    loudness = 2.0 ** rng.uniform(-1, form.width, (more, 1))
    random = np.rint(rng.standard_normal((more, model.dim)) * loudness) + form.zero_point
    return np.concatenate([corners, np.clip(random, form.lo, form.hi).astype(np.int64)])


def differing(command: Command, answer: Answer) -> tuple[int, int]:
    """Output codes that differ, and codes of signals that do, or that were never told."""
    y, trace = command.model(command.x, trace=True)
    signals = sum(
        int(np.count_nonzero(got != trace[name].astype(np.int64)))
        for name, got in answer.signals.items()
    )
    return int(np.count_nonzero(answer.y != y)), signals + answer.differing + answer.missing


def run_batch(batch: list[Case], row_count: int, number: int) -> list[tuple[str, Counter[str]]]:
    found = []
    models = [(model, LANES[i % len(LANES)]) for i, (_, model) in enumerate(batch)]
    with tempfile.TemporaryDirectory() as folder:
        kernels = static_kernels(Path(folder), models)
        for i, (line, model) in enumerate(batch):
            command = Command(model, codes_of(model, row_count, number * BATCH + i))
            (answer,) = kernels.run(i, command)
            bad, bad_signals = differing(command, answer)
            signals = sum(v.size for v in answer.signals.values())
            counts = {"kernels": 1, "codes": answer.y.size, "bad": bad}
            found.append((line, Counter(counts | {"signals": signals, "bad signals": bad_signals})))
    print(f"batch {number} is done", file=sys.stderr, flush=True)
    return found


def table(results: Iterable[tuple[str, Counter[str]]], columns: Iterable[str] = COLUMNS) -> int:
    """Print a line for each kind; returns how much differs: what columns named bad... count."""
    lines: dict[str, Counter[str]] = {}
    for line, counts in results:
        lines.setdefault(line, Counter()).update(counts)
    print(f"{'':42}" + "".join(f"{name:>{WIDTH}}" for name in columns))
    total: Counter[str] = Counter()
    for line, counts in lines.items():
        print(f"{line:42}" + "".join(f"{counts[name]:>{WIDTH},}" for name in columns))
        total.update(counts)
    print(f"{'total':42}" + "".join(f"{total[name]:>{WIDTH},}" for name in columns))
    return sum(total[name] for name in columns if name.startswith("bad"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=int, default=10_000_000, help="output codes in total")
    parser.add_argument("--every-form", action="store_true", help="each method in all its forms")
    parser.add_argument("--every", type=int, default=1, help="take each n-th kernel")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at the same time")
    given = parser.parse_args()
    every = list(cases(given.every_form))[:: given.every]
    row_count = -(-given.codes // (len(every) * DIM))
    batches = [every[i : i + BATCH] for i in range(0, len(every), BATCH)]
    with ThreadPoolExecutor(given.jobs) as pool:
        done = pool.map(run_batch, batches, [row_count] * len(batches), range(len(batches)))
        return 1 if table(found for batch in done for found in batch) else 0


if __name__ == "__main__":
    sys.exit(main())
