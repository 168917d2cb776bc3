"""Random legal specs, and rows of codes that reach the corners: the same for the same seed."""

import random
from typing import Any

import numpy as np
from exact_integers import OVERFLOWS, ROUNDINGS

from approxnorm import RMSNorm, RMSNormSpec
from approxnorm.errors import ApproxNormError
from approxnorm.methods.function import RSQRT_METHODS

Fields = dict[str, Any]

_NOT_DRAWN = {"exact"}  # it has no datapath

_STATISTICS = (
    *("full", "prefix", "strided", "low_bit", "outlier_exact"),
    *("sole", "leading_one", "power_of_two", "mean_abs"),
)

# Small variants of each rsqrt method. A method that is not listed is drawn with its defaults.
_RSQRT: dict[str, list[Fields]] = {
    "direct": [
        {"index_bits": 4, "bits": 9},
        {"index_bits": 3, "bits": 12, "frac_bits": 7, "entries": "left"},
        {"index_bits": 0, "bits": 4, "entries": "midpoint"},
    ],
    "linear": [{"segments": 4, "bits": 9}, {"segments": 2, "bits": 7, "rounding": "RND_CONV"}],
    "quadratic": [{"segments": 2, "bits": 10, "frac_bits": 9, "out_bits": 12}],
    "log2": [
        {"index_bits": 4},
        {"index_bits": 0},
        {"index_bits": 3, "form": "correction"},
        {"index_bits": 5, "frac_bits": 7, "log_bits": 6},
    ],
    "power_of_two": [{}, {"out_bits": 4, "frac_bits": 3}],
    "file": [
        {"index_bits": 1, "bits": 7, "width": 8, "entries": [121, 99, 255, 0]},
        {"index_bits": 0, "bits": 5, "width": 7, "signed": True, "entries": [31, -20]},
    ],
}


def _format(rng: random.Random, bits: tuple[int, int], *, zero: bool, modes: bool) -> Fields:
    width, signed = rng.randint(*bits), rng.random() < 0.8
    form: Fields = {"bits": width, "signed": signed}
    form["scale"] = 2.0 ** rng.randint(-width, 2)
    if rng.random() < 0.5:
        form["scale"] = float(np.float32(form["scale"] * rng.uniform(0.51, 1.99)))
    if modes:
        form["rounding"], form["overflow"] = rng.choice(ROUNDINGS), rng.choice(OVERFLOWS)
    if zero and rng.random() < 0.4 and form.get("overflow") != "SAT_SYM":
        low = -(1 << (width - 1)) if signed else 0
        form["zero_point"] = rng.randint(low, low + (1 << width) - 1)
    return form


def _statistic(rng: random.Random, dim: int) -> Fields:
    method = rng.choice([*_STATISTICS, "low_bit", "outlier_exact"])  # these have more forms
    st: Fields = {"method": method}
    if rng.random() < 0.4:
        st["bias"] = round(rng.uniform(0.6, 1.6), 3)
    if method == "prefix":
        st |= {"count": rng.randint(1, dim)} if rng.random() < 0.5 else {"fraction": 0.3}
    elif method == "strided":
        st |= {"start": rng.randint(0, dim - 1), "stride": rng.randint(1, 4)}
        if rng.random() < 0.5:
            st["count"] = rng.randint(1, len(range(st["start"], dim, st["stride"])))
    elif method in ("low_bit", "outlier_exact"):
        st |= _low_bits(rng, method)
    elif method == "sole":
        st["input_shift"] = rng.randint(0, 6)
    elif method == "leading_one":
        st |= {"bits": rng.randint(0, 4), "rounding": rng.choice(["RND", "TRN"])}
        if st["bits"]:
            st["squarer"] = rng.choice(["multiply", "table"])
    elif method == "power_of_two":
        st["rounding"] = rng.choice(["RND", "TRN"])
    if rng.random() < 0.15:
        st["accumulator"] = {"bits": rng.randint(1, 12), "overflow": rng.choice(OVERFLOWS)}
    return st


def _low_bits(rng: random.Random, method: str) -> Fields:
    st: Fields = {"bits": rng.randint(1, 6), "rounding": rng.choice(["RND", "TRN"])}
    if rng.random() < 0.5:
        st |= {"step": "dynamic", "step_offset": rng.randint(-4, 3)}
    else:
        st["step_exponent"] = rng.randint(0, 9)
    if method == "outlier_exact" and rng.random() < 0.5:
        st |= {"outliers": "top", "top": rng.randint(1, 8)}
    return st


def _rsqrt(rng: random.Random) -> Fields:
    names = [n for n in RSQRT_METHODS.names() if n not in _NOT_DRAWN]
    name = rng.choice(names)
    return {"method": name, **rng.choice(_RSQRT.get(name, [{}]))}


def _constant(rng: random.Random, folds: bool, places: list[str]) -> Fields:
    place = rng.choice([p for p in places if folds or p != "table"])
    fields: Fields = {"constant": place}
    if place == "multiplier" and rng.random() < 0.5:
        fields["constant_bits"] = rng.randint(1, 12)
    return fields


def _multiply(rng: random.Random, spec: Fields, folds: bool) -> Fields:
    order = rng.choice(["fused", "fused", "llama", "onnx", "gemma"])
    places = ["table", "gamma", "multiplier"]
    fields: Fields = {"method": "multiply", "order": order}
    fields |= _constant(rng, folds, places[::2] if order == "gemma" else places)
    if order in ("llama", "onnx"):
        middle = _format(rng, (4, 16), zero=False, modes=True)
        middle["scale"] = 2.0 ** rng.randint(-10, 0)
        # intermediate * gamma must be y's scale times a power of two
        spec["y"]["scale"] = spec["gamma"]["scale"] * 2.0 ** rng.randint(-6, 6)
        fields["intermediate"] = middle
    if order == "gemma":
        spec["gamma"]["scale"] = 2.0 ** -rng.randint(0, 8)
    return fields


def _log(rng: random.Random, spec: Fields) -> Fields:
    bits = rng.randint(1, 8)
    fields: Fields = {
        "method": "log",
        "log_bits": bits,
        "half_rounding": rng.choice(ROUNDINGS),
        "constant": rng.choice(["table", "gamma", "multiplier"]),
    }
    if rng.random() < 0.5:
        fields["log_index_bits"] = rng.randint(0, 8)
    if rng.random() < 0.5:
        fields["antilog_index_bits"] = rng.randint(int(fields["constant"] == "table"), bits)
    if rng.random() < 0.5:
        fields["antilog_bits"] = rng.randint(1, 14)
    if fields["constant"] != "table" and rng.random() < 0.4:
        fields["form"] = "correction"
        for name in ("log_index_bits", "antilog_index_bits"):
            if name in fields:
                fields[name] = min(fields[name], bits)
        if "antilog_bits" in fields:
            fields["antilog_bits"] = max(fields["antilog_bits"], bits)
    return fields


def random_spec(seed: int) -> Fields:
    """A legal spec, as a file holds it. Most widths are small, so that corners are frequent."""
    rng = random.Random(seed)
    dim = rng.choice([1, 2, 3, 7, 8, 24, 37])
    wide = rng.random() < 0.25
    spec: Fields = {"norm": "rmsnorm", "dim": dim}
    spec["x"] = _format(rng, (20, 32) if wide else (2, 14), zero=True, modes=False)
    spec["gamma"] = _format(rng, (10, 14) if wide else (2, 10), zero=True, modes=False)
    spec["y"] = _format(rng, (16, 32) if wide else (2, 14), zero=True, modes=True)
    spec["eps"] = rng.choice([0, 1e-12, 1e-6, 1e-5, 0.01, 1.0, 100.0])
    if wide:  # keep eps within the signals' 63 bits
        spec["eps"] = min(spec["eps"], spec["x"]["scale"] ** 2 * 2.0**24)
    if rng.random() < 0.3:
        spec["eps_guard"] = 2 * rng.randint(0, 5)
    if wide or rng.random() < 0.3:
        spec["row_exponent"] = {"bits": rng.randint(8, 14) if wide else rng.randint(2, 10)}
    if rng.random() < 0.2:
        most = rng.randint(1, 5)
        shifts = [rng.randint(0, most) for _ in range(dim)]
        spec["channel_shifts"] = {"max_shift": most, "shifts": shifts}
    spec["statistic"] = _statistic(rng, dim)
    spec["rsqrt"] = _rsqrt(rng)
    method = RSQRT_METHODS.get(spec["rsqrt"]["method"])
    if hasattr(method, "build_log2") and rng.random() < 0.6:
        spec["normalize"] = _log(rng, spec)
    else:
        # Mitchell's antilogarithm has no table to hold a constant.
        folds = method.folds_constant and spec["rsqrt"].get("index_bits") != 0
        spec["normalize"] = _multiply(rng, spec, folds)
    if spec["normalize"].get("order") != "gemma" and rng.random() < 0.15:
        y_shifts = [rng.randint(0, 3) for _ in range(dim)]
        spec["y_channel_shifts"] = {"max_shift": 3, "shifts": y_shifts}
    return spec


def corner_rows(lo: int, hi: int, zero: int, dim: int, seed: int) -> np.ndarray:
    """Rows of codes from lo to hi: extremes, spikes, powers of two, random with outliers."""
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = [np.full(dim, v) for v in (lo, hi, zero, min(zero + 1, hi), max(zero - 1, lo))]
    rows.append(np.where(np.arange(dim) % 2, lo, hi))
    for place in {0, dim // 2, dim - 1}:
        for value in (lo, hi):
            spike = np.full(dim, zero)
            spike[place] = value
            rows.append(spike)
    powers = zero + (1 << rng.integers(0, max(1, (hi - lo).bit_length()), dim))
    rows += [np.clip(powers + d, lo, hi) for d in (-1, 0, 1)]
    rows += list(rng.integers(lo, hi + 1, (4, dim)))
    for spread in (1, 3, 10):
        row = zero + np.rint(rng.standard_normal(dim) * spread).astype(np.int64)
        row[rng.integers(0, dim)] = hi
        rows.append(np.clip(row, lo, hi))
    return np.stack([np.asarray(r, np.int64) for r in rows])


def spec_model(seed: int) -> tuple[RMSNorm, np.ndarray] | None:
    """A model of a random spec, and rows that reach its corners; None if it is not legal."""
    try:
        spec = RMSNormSpec.model_validate(random_spec(seed))
        gamma = np.random.default_rng(seed).normal(size=spec.dim or 1)
        model = RMSNorm(spec, gamma)
        model.assembly.require_datapath()
    except ApproxNormError:
        return None
    form = model.assembly.x_format
    return model, corner_rows(form.lo, form.hi, form.zero_point, model.dim, seed)
