"""A variety of small specs and of rows that go to their limits: shared by the metrics' tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from approxnorm import RMSNorm, RMSNormSpec

BASE: dict[str, Any] = dict(
    norm="rmsnorm",
    dim=12,
    eps=1e-3,
    x="ap_fixed<12,6>",
    gamma="ap_fixed<8,3>",
    y="ap_fixed<14,5,RND_CONV,SAT>",
    statistic=dict(method="full"),
    rsqrt=dict(method="linear", segments=4, bits=9),
    normalize=dict(method="multiply"),
)
_LOG2 = dict(method="log2", index_bits=5)
_WIDE_X = dict(bits=18, signed=True, scale=2.0**-10)

VARIANTS: dict[str, dict[str, Any]] = {
    "linear": {},
    "eps_large": dict(eps=3.0),
    "eps_coarse": dict(eps=0.3, eps_guard=0, x="ap_fixed<8,6>"),
    "eps_zero": dict(eps=0.0),
    "multiplier": dict(normalize=dict(method="multiply", constant="multiplier", constant_bits=6)),
    "gamma": dict(normalize=dict(method="multiply", constant="gamma")),
    "gemma": dict(normalize=dict(method="multiply", order="gemma")),
    "llama": dict(
        normalize=dict(method="multiply", order="llama", intermediate="ap_fixed<11,4,RND,SAT>")
    ),
    "onnx_trn": dict(
        normalize=dict(method="multiply", order="onnx", intermediate="ap_fixed<11,4,TRN,WRAP>")
    ),
    "direct": dict(rsqrt=dict(method="direct", index_bits=4, bits=10)),
    "power_of_two": dict(
        rsqrt=dict(method="power_of_two"),
        normalize=dict(method="multiply", constant="multiplier"),
    ),
    "y_trn": dict(y="ap_fixed<14,5,TRN,SAT>"),
    "y_trn_zero_sym": dict(y="ap_fixed<10,3,TRN_ZERO,SAT_SYM>"),
    "y_narrow": dict(y="ap_fixed<9,2,RND,SAT>"),
    "y_unsigned": dict(y="ap_ufixed<9,3,RND_INF,SAT>"),
    "y_wrap_that_fits": dict(y="ap_fixed<14,7,RND_ZERO,WRAP>", gamma="ap_fixed<8,2>"),
    "zero_points": dict(
        x=dict(bits=10, signed=False, scale=0.037, zero_point=300),
        y=dict(
            bits=10,
            signed=False,
            scale=0.011,
            zero_point=500,
            rounding="RND_MIN_INF",
            overflow="SAT",
        ),
    ),
    "channel_shifts": dict(channel_shifts=dict(max_shift=4, shifts=[0, 3, 4, 1] * 3)),
    "row_exponent_channels": dict(
        x=_WIDE_X,
        row_exponent=dict(bits=7),
        channel_shifts=dict(max_shift=4, shifts=[0, 3, 4, 1] * 3),
        y_channel_shifts=dict(max_shift=3, shifts=[3, 0, 1, 2] * 3),
    ),
    "row_exponent": dict(x=_WIDE_X, row_exponent=dict(bits=8)),
    "row_exponent_eps": dict(x=_WIDE_X, row_exponent=dict(bits=10), eps=2.0),
    "row_exponent_outliers": dict(
        x=_WIDE_X,
        row_exponent=dict(bits=10),
        statistic=dict(method="outlier_exact", step_exponent=4, bits=3),
    ),
    "outliers_dynamic": dict(
        x=_WIDE_X,
        row_exponent=dict(bits=10),
        statistic=dict(method="outlier_exact", step="dynamic", step_offset=-1, bits=3),
    ),
    "outliers_top": dict(
        statistic=dict(
            method="outlier_exact", step="dynamic", step_offset=-1, bits=2, outliers="top", top=2
        )
    ),
    "low_bit": dict(statistic=dict(method="low_bit", step_exponent=5, bias=1.0625)),
    "prefix": dict(statistic=dict(method="prefix", count=5)),
    "mean_abs": dict(statistic=dict(method="mean_abs")),
    "leading_one": dict(statistic=dict(method="leading_one", bits=2)),
    "log": dict(rsqrt=_LOG2, normalize=dict(method="log", log_bits=7)),
    "log_gamma": dict(
        rsqrt=_LOG2,
        normalize=dict(method="log", log_bits=5, constant="gamma", half_rounding="TRN"),
    ),
    "log_adder": dict(
        rsqrt=_LOG2,
        normalize=dict(
            method="log", log_bits=6, constant="multiplier", log_index_bits=4, antilog_index_bits=3
        ),
    ),
    "log_correction": dict(
        rsqrt=_LOG2,
        normalize=dict(
            method="log",
            log_bits=7,
            constant="gamma",
            log_index_bits=4,
            antilog_index_bits=3,
            form="correction",
        ),
    ),
    "mitchell": dict(
        rsqrt=dict(method="log2", index_bits=0),
        normalize=dict(
            method="log", log_bits=8, log_index_bits=0, antilog_index_bits=0, constant="gamma"
        ),
    ),
    "log_power_of_two": dict(
        rsqrt=dict(method="power_of_two"),
        normalize=dict(method="log", log_bits=6, constant="gamma"),
        statistic=dict(method="power_of_two"),
    ),
}


def build(variant: str, seed: int = 0) -> RMSNorm:
    """The model of a variant, with gamma codes that reach both ends of their format."""
    spec = RMSNormSpec(**{**BASE, **VARIANTS[variant]})
    assert spec.dim is not None
    form = spec.gamma.to_format("gamma")
    gamma = np.random.default_rng(seed).integers(form.lo, form.hi + 1, spec.dim)
    gamma[:4] = form.hi, form.lo, 0, 1
    if spec.normalize.constant == "gamma":  # the top code must be left by the folded constant
        gamma = gamma // 2
    return RMSNorm(spec, gamma)


def rows(model: RMSNorm, count: int, seed: int = 0) -> np.ndarray:
    """Input codes (n, dim): spikes of every size, constant and tiny rows, then random ones of
    every loudness, half of them with outliers."""
    rng = np.random.default_rng(seed)
    form = model.assembly.x_format
    lo, hi, zero = form.lo, form.hi, form.zero_point
    shaped = []
    for magnitude in {m for b in range(form.width) for m in (1 << b, (1 << b) - 1, 3 << b)}:
        for channel in (0, 1, int(rng.integers(model.dim))):
            spike = np.zeros(model.dim, np.int64)
            spike[channel] = magnitude if rng.integers(2) else -magnitude
            shaped += [spike, spike + rng.integers(-1, 2, model.dim)]
        shaped += [np.full(model.dim, magnitude), magnitude * (-1) ** np.arange(model.dim)]
    loudness = 2.0 ** rng.uniform(-1, form.width, count)
    random = rng.standard_normal((count, model.dim)) * loudness[:, None]
    random[::2, int(rng.integers(model.dim))] *= 50
    codes = np.concatenate([np.array(shaped), np.rint(np.clip(random, -1e9, 1e9))])
    return np.clip(codes.astype(np.int64) + zero, lo, hi)
