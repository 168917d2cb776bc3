"""The NumPy model's speed against float32 NumPy RMSNorm, int8 to int8, in one run.

python benchmarks/model_speed.py [--rows 4096] [--dim 2048] [--repeat 9] [--preset int8-linear]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from approxnorm import RMSNorm, preset
from approxnorm.calibrate import calibrate_array


def rmsnorm_float32(x: np.ndarray, gamma: np.ndarray, eps: np.float32) -> np.ndarray:
    """The plain float32 RMSNorm that the model is compared with."""
    mean_square = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1])
    return x * (np.float32(1) / np.sqrt(mean_square + eps))[:, None] * gamma


def best_times(functions: list[Callable[[], object]], repeat: int) -> list[float]:
    """The least time in ms of each function; they take turns, so that load hits all alike."""
    best = [float("inf")] * len(functions)
    for _ in range(repeat):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], (time.perf_counter() - start) * 1e3)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--preset", default="int8-linear")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((args.rows, args.dim)).astype(np.float32)
    gamma = (1 + 0.2 * rng.standard_normal(args.dim)).astype(np.float32)
    spec = calibrate_array(preset(args.preset), x, gamma).spec
    model = RMSNorm(spec, gamma)
    codes = model.quantize(x)
    ours, plain = best_times(
        [lambda: model(codes), lambda: rmsnorm_float32(x, gamma, np.float32(1e-5))], args.repeat
    )
    print(f"{args.preset}, {args.rows} x {args.dim}, {codes.dtype} to {model(codes).dtype}")
    print(f"model {ours:.1f} ms, float32 NumPy {plain:.1f} ms, ratio {ours / plain:.2f}")


if __name__ == "__main__":
    main()
