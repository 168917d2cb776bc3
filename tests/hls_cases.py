"""Models of every method, in every form that changes the kernel."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np
from random_specs import corner_rows, random_spec

from approxnorm import RMSNorm, RMSNormSpec, preset
from approxnorm.cli.nominal import nominal, nominal_gamma
from approxnorm.errors import ApproxNormError
from approxnorm.rmsnorm import SpecWarning
from approxnorm.spec.load import preset_names

Fields = dict[str, Any]

RSQRT: list[Fields] = [
    {"method": "bipartite"},
    {"method": "direct", "index_bits": 4, "bits": 9},
    {"method": "direct", "index_bits": 0, "bits": 4, "entries": "midpoint"},
    {"method": "file", "index_bits": 1, "bits": 7, "width": 8, "entries": [121, 99, 255, 0]},
    {"method": "fisr"},
    {"method": "isqrt_divide"},
    {"method": "linear", "segments": 4, "bits": 9},
    {"method": "log2", "index_bits": 5},
    {"method": "log2", "index_bits": 0},
    {"method": "log2", "index_bits": 3, "form": "correction"},
    {"method": "multipartite"},
    {"method": "newton"},
    {"method": "newton", "recenter": False, "steps": 2},
    {"method": "power_of_two"},
    {"method": "powering"},
    {"method": "powering", "shared_octave": True},
    {"method": "quadratic"},
]

NORMALIZE: list[Fields] = [
    *({"method": "log", "log_bits": 6, "constant": c} for c in ("table", "gamma", "multiplier")),
    {
        "method": "log",
        "log_bits": 6,
        "log_index_bits": 3,
        "constant": "gamma",
        "form": "correction",
    },
    *({"method": "multiply", "constant": c} for c in ("table", "gamma", "multiplier")),
    *(
        {"method": "multiply", "order": order, "constant": c}
        for order in ("llama", "onnx")
        for c in ("table", "gamma", "multiplier")
    ),
    *({"method": "multiply", "order": "gemma", "constant": c} for c in ("table", "multiplier")),
]

# The statistics that come without a choice, or with the commonest one: for the full matrix.
PLAIN = ("full", "prefix", "strided", "sole", "leading_one", "power_of_two", "mean_abs")
OVERFLOWS = ("SAT", "WRAP", "SAT_SYM", "SAT_ZERO")


def statistics(dim: int) -> list[Fields]:
    """Every method in all its forms, for rows of dim elements."""
    cut: list[Fields] = [
        {"method": "low_bit", "step_exponent": 5},
        {"method": "low_bit", "step": "dynamic", "step_offset": -1, "rounding": "TRN"},
    ]
    for step in ({"step_exponent": 4}, {"step": "dynamic", "step_offset": -1}):
        cut.append({"method": "outlier_exact", "bits": 3, **step})
        cut.append({"method": "outlier_exact", "bits": 2, "outliers": "top", "top": 3, **step})
    full: list[Fields] = [
        {"method": "full", "accumulator": {"bits": bits, "overflow": overflow}}
        for bits, overflow in zip((9, 12, 7, 14), OVERFLOWS, strict=True)
    ]
    every: list[Fields] = [{"method": name} for name in PLAIN]
    every[1]["fraction"] = 0.3
    every[2] |= {"stride": 3, "start": min(1, dim - 1)}
    every[3]["input_shift"] = 3
    every[4] |= {"bits": 2, "squarer": "table", "bias": 1.0625}
    return every + cut + full


def build(dim: int, rsqrt: Fields, statistic: Fields, normalize: Fields, seed: int = 0) -> RMSNorm:
    """A model whose gamma reaches both ends; ApproxNormError if these do not go together."""
    fields: Fields = {
        "norm": "rmsnorm",
        "dim": dim,
        "eps": 1e-3,
        "x": "ap_fixed<12,6>",
        "gamma": "ap_fixed<8,3>",
        "y": "ap_fixed<14,5,RND_CONV,SAT>",
        "statistic": statistic,
        "rsqrt": rsqrt,
        "normalize": normalize,
    }
    if normalize.get("order") in ("llama", "onnx"):
        fields["normalize"] = {**normalize, "intermediate": "ap_fixed<11,4,RND,SAT>"}
    return with_gamma(RMSNormSpec(**fields), seed)


def with_gamma(spec: RMSNormSpec, seed: int) -> RMSNorm:
    """The model of a spec, with codes of gamma that reach both ends of their format."""
    form = spec.gamma.to_format("gamma")
    assert spec.dim is not None
    gamma = np.random.default_rng(seed).integers(form.lo, form.hi + 1, spec.dim)
    ends = [form.hi, form.lo, form.zero_point][: spec.dim]
    gamma[: len(ends)] = ends
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpecWarning)
        return RMSNorm(spec, gamma)


def rows(model: RMSNorm, seed: int = 0) -> np.ndarray:
    """Input codes (rows, dim) that reach the corners."""
    form = model.assembly.x_format
    return corner_rows(form.lo, form.hi, form.zero_point, model.dim, seed)


def preset_models() -> Iterator[tuple[str, RMSNorm]]:
    """Every preset before calibration, in rows of odd lengths."""
    for name, dim in zip(preset_names(), cycle((37, 64, 35)), strict=False):
        yield name, preset_model(name, dim)


def preset_model(name: str, dim: int) -> RMSNorm:
    spec, _ = nominal(preset(name).with_dim(dim))
    gamma, _ = nominal_gamma(spec)
    return RMSNorm(spec, gamma)


def covering_models() -> Iterator[tuple[str, RMSNorm]]:
    """Each rsqrt method, statistic and normalizer in all its forms at least once."""
    used = [0] * len(NORMALIZE)
    dims, count = cycle((37, 3, 64, 1, 2, 24)), max(len(RSQRT), len(statistics(8)))
    for i, dim in zip(range(count), dims, strict=False):
        rsqrt, statistic = RSQRT[i % len(RSQRT)], statistics(dim)[i % len(statistics(dim))]
        for choice in sorted(range(len(NORMALIZE)), key=lambda n: (used[n], n)):
            try:
                model = build(dim, rsqrt, statistic, NORMALIZE[choice], i)
            except ApproxNormError:
                continue
            used[choice] += 1
            yield f"{rsqrt}, {statistic}, {NORMALIZE[choice]}, dim {dim}", model
            break


def random_models(seeds: range) -> Iterator[tuple[str, RMSNorm]]:
    for seed in seeds:
        yield f"random spec {seed}", with_gamma(RMSNormSpec(**random_spec(seed)), seed)
