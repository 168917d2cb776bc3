"""The speed of C simulation: ns an element and rows a second, with g++ at -O2 and -O3.

python benchmarks/csim_speed.py [--dim 2048] [--rows 64] [--repeat 5] [--lanes 8] [PRESET ...]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from approxnorm import RMSNorm, preset
from approxnorm.cli.nominal import nominal, nominal_gamma
from approxnorm.hls_ref import csim
from approxnorm.hls_ref.emit import emit_kernel

PRESETS = ("int8-linear", "int8-log", "outlier4-16bit", "int16-accurate")

# The kernel through its streams, as the bench drives it; the least time of all repetitions.
TIMER = """\
#include <ctime>
#include <vector>
#include "bench_config.hpp"
int main(int, char **argv) {
    const int rows = std::atoi(argv[1]), repeat = std::atoi(argv[2]), dim = driver::dim(0);
    std::vector<long long> x((size_t)rows * dim), y(x.size());
    const int spread = 1 << (driver::SIGNALS[0].width - 2);
    unsigned long long state = 1;
    for (long long &code : x) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        code = (long long)(state >> 33) % spread;
    }
    double best = 1e300;
    for (int i = 0; i < repeat; i++) {
        const std::clock_t start = std::clock();  // of this process: other load counts less
        driver::run_rows(0, x.data(), 0, rows, y.data(), 0);
        const double taken = (double)(std::clock() - start) / CLOCKS_PER_SEC;
        best = taken < best ? taken : best;
    }
    std::printf("%.9f\\n", best);
}
"""


def seconds(model: RMSNorm, lanes: int, level: str, rows: int, repeat: int) -> float:
    """The least time of a call of the kernel for so many rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = {**emit_kernel(model, lanes), "timer.cpp": TIMER}
        csim.write_sources(folder, sources)
        csim.compile_program(
            folder / "timer",
            [folder / path for path in sources if path.endswith(".cpp")],
            [folder / "kernel", folder / "tb"],
            [level],
        )
        command = [folder / "timer", str(rows), str(repeat)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def model_of(name: str, dim: int) -> RMSNorm:
    spec, _ = nominal(preset(name).with_dim(dim))
    gamma, _ = nominal_gamma(spec)
    return RMSNorm(spec, gamma)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="*", default=PRESETS)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--lanes", type=int, default=8)
    given = parser.parse_args()
    print(f"rows of {given.dim}, {given.lanes} lanes, through the streams")
    for name in given.presets:
        model = model_of(name, given.dim)
        for level in ("-O2", "-O3"):
            taken = seconds(model, given.lanes, level, given.rows, given.repeat)
            elements = given.rows * given.dim
            print(
                f"{name:20} {level}: {taken / elements * 1e9:7.1f} ns an element,"
                f" {given.rows / taken:9.0f} rows a second"
            )


if __name__ == "__main__":
    main()
