"""One training step of QuantRMSNorm against torch's nn.RMSNorm: forward and backward, 256 x 2048.

Both take turns in one run, so that what else the machine does hits both alike; the ratio is that of
the medians. The layer's codes are compared with the NumPy model's before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Annotated

import numpy as np
import torch
import typer
from torch import nn

from approxnorm.nn import QuantRMSNorm, calibrate

PRESETS = ("int8-linear", "int8-lowbit4", "int16-accurate", "outlier4-12bit", "int8-log")
PRESETS += ("outlier4-12bit-channels", "log-12bit-channels", "int8-channels")
ROWS, DIM, WARM_UP = 256, 2048, 10


def main(
    presets: Annotated[list[str] | None, typer.Argument(help="Default: some of all kinds.")] = None,
    turns: Annotated[int, typer.Option(min=1)] = 100,
    learn_scales: Annotated[bool, typer.Option(help="Scales are parameters too.")] = False,
) -> None:
    """Print a line for each preset: milliseconds of both, and their ratio."""
    torch.manual_seed(0)
    x, upstream = torch.randn(ROWS, DIM, requires_grad=True), torch.randn(ROWS, DIM)
    print(f"{'preset':18}{'nn.RMSNorm ms':>14}{'layer ms':>10}{'ratio':>7}")
    for name in presets or PRESETS:
        plain = nn.RMSNorm(DIM, eps=1e-6)
        layer = QuantRMSNorm(DIM, name, return_quant_tensor=False, learn_scales=learn_scales)
        calibrate(layer, [x.detach()], progress=False)
        require_equal(layer, x)
        ours, theirs = step(layer, x, upstream), step(plain, x, upstream)
        times = np.array([(timed(theirs), timed(ours)) for _ in range(turns + WARM_UP)])
        a, b = np.median(times[WARM_UP:], axis=0) * 1e3
        print(f"{name:18}{a:14.2f}{b:10.2f}{b / a:7.2f}")


def step(module: nn.Module, x: torch.Tensor, upstream: torch.Tensor) -> Callable[[], None]:
    """A function that runs forward and backward once, from gradients that are not there yet."""

    def run() -> None:
        x.grad = None
        module.zero_grad(set_to_none=True)
        module(x).backward(upstream)

    return run


def timed(function: Callable[[], None]) -> float:
    """Seconds of one call."""
    start = perf_counter()
    function()
    return perf_counter() - start


def require_equal(layer: QuantRMSNorm, x: torch.Tensor) -> None:
    """Nothing is timed that is not the model's."""
    model = layer.model()
    want = model.dequantize(model(model.quantize(x.detach().numpy()))).astype(np.float32)
    if not np.array_equal(layer(x).detach().numpy(), want):
        raise SystemExit("the layer's values are not the model's")


if __name__ == "__main__":
    typer.run(main)
