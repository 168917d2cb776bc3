"""Several kernels in one program, for comparing them with the model: one compilation costs less
than many, as ap_int's templates are made once."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from approxnorm import RMSNorm
from approxnorm.hls_ref import csim
from approxnorm.hls_ref.emit import emit_kernel

RUNNER = Path(__file__).with_name("hls_runner.hpp")
TRACED = ("-O0", "-DAPPROX_TRACE")

HEAD = """\
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <ap_fixed.h>
#include <ap_int.h>
#include <hls_stream.h>
#include "0/kernel/approx/ops.hpp"
static bool get_codes(std::vector<long long> &codes, std::FILE *in) {
    return codes.empty() ||
           std::fread(codes.data(), sizeof(long long), codes.size(), in) == codes.size();
}
static void put_codes(const std::vector<long long> &codes, std::FILE *out) {
    if (!codes.empty() &&
        std::fwrite(codes.data(), sizeof(long long), codes.size(), out) != codes.size())
        std::exit(3);
}
"""
MAIN = """\
int main(int, char **argv) {
    std::FILE *in = std::fopen(argv[2], "rb"), *out = std::fopen(argv[3], "wb");
    static int (*const RUN[])(std::FILE *, std::FILE *) = {@runs};
    const int status = RUN[std::atoi(argv[1])](in, out);
    return std::fclose(out) ? 4 : status;
}
"""


@dataclass(frozen=True)
class Command:
    """Rows of a layer: x codes (rows, dim), and the residual's if the kernel adds one.

    kind: 0, or what the kernel's own RUN_KIND makes of it.
    """

    model: RMSNorm
    x: np.ndarray
    residual: np.ndarray | None = None
    layer: int = 0
    kind: int = 0


@dataclass
class Answer:
    """y and sums (rows, dim); signals by name; reports that contradict, or that are missing."""

    y: np.ndarray
    sum: np.ndarray | None
    signals: dict[str, np.ndarray] = field(default_factory=dict)
    differing: int = 0
    missing: int = 0


class Kernels:
    """Kernels compiled into one program. sources: of each, with ``top`` as ``top_name`` says."""

    def __init__(
        self,
        folder: Path,
        sources: Sequence[Mapping[str, str]],
        flags: Sequence[str] = TRACED,
        before_runner: str = "",
    ) -> None:
        self._folder = folder
        includes = [folder, folder / "0" / "tb"]
        text = HEAD
        for i, files in enumerate(sources):
            csim.write_sources(folder / str(i), files)
            includes.append(folder / str(i) / "kernel")
            text += _part(i, before_runner)
        runs = ", ".join(f"kernel_{i}::run" for i in range(len(sources)))
        (folder / "all.cpp").write_text(text + MAIN.replace("@runs", runs), "utf-8")
        csim.compile_program(folder / "all", [folder / "all.cpp"], includes, flags)

    def run(self, kernel: int, *commands: Command) -> list[Answer]:
        """The answers of one process; AssertionError if it fails."""
        given, got = self._folder / "in", self._folder / "out"
        with given.open("wb") as file:
            for c in commands:
                np.array([c.layer, len(c.x), c.kind], np.int64).tofile(file)
                for codes in (c.x, c.residual):
                    if codes is not None:
                        codes.astype(np.int64).tofile(file)
        command = [self._folder / "all", str(kernel), given, got]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        with got.open("rb") as file:
            answers = [_answer(file, c) for c in commands]
            assert not file.read()
        return answers


def top_name(kernel: int) -> str:
    """How the top function of a kernel in a program must be called."""
    return f"kernel_{kernel}_top"


def _part(i: int, before_runner: str) -> str:
    return (
        f"namespace kernel_{i} {{\n"
        "#undef APPROX_DRIVER_HPP\n"  # each kernel has a driver of its own
        f'#include "{i}/kernel/{top_name(i)}.cpp"\n'
        f'#include "{i}/tb/bench_config.hpp"\n'
        f'{before_runner}#include "{RUNNER}"\n}}\n'
    )


def _answer(file: BinaryIO, command: Command) -> Answer:
    def take(*shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        values = np.fromfile(file, np.int64, count)
        assert values.size == count, "the program's answer is too short"
        return values.reshape(shape)

    rows, dim = command.x.shape
    answer = Answer(take(rows, dim), None if command.residual is None else take(rows, dim))
    for port in command.model.assembly.require_datapath().signals():
        if port.level != "channel":
            shape = (rows, dim) if port.level == "element" else (rows,)
            answer.signals[port.name] = take(*shape)
    answer.differing, answer.missing = (int(v) for v in take(2))
    return answer


def static_kernels(
    folder: Path, models: Sequence[tuple[RMSNorm, int]], flags: Sequence[str] = TRACED
) -> Kernels:
    """Kernels of (model, lanes), each with its numbers baked in."""
    sources = [emit_kernel(m, lanes, top=top_name(i)) for i, (m, lanes) in enumerate(models)]
    return Kernels(folder, sources, flags)


def assert_equal(command: Command, answer: Answer, about: object = "") -> None:
    """Every output code and every signal is the model's, and all were reported."""
    y, trace = command.model(command.x, trace=True)
    for name, got in {**answer.signals, "y": answer.y}.items():
        wanted = (y if name == "y" else trace[name]).astype(np.int64)
        bad = np.argwhere(got != wanted)
        assert not bad.size, (
            f"{about}: {name}{bad[0].tolist()} is {got[tuple(bad[0])]}, not {wanted[tuple(bad[0])]}"
        )
    assert (answer.differing, answer.missing) == (0, 0), about
