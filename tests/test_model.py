"""The NumPy model: every code and every named signal against the oracle, and its interface."""

import hashlib
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest
from exact_integers import OVERFLOWS, ROUNDINGS, limit_exact, round_exact
from golden_pins import PINS, pinned_model, pinned_rows, sha256, signals
from oracle import Oracle
from random_specs import corner_rows, random_spec

from approxnorm import (
    ApproxNormError,
    EpsWarning,
    GammaWarning,
    RMSNorm,
    RMSNormSpec,
    preset,
    preset_names,
)
from approxnorm.backends.numpy_backend import BLOCK_ELEMENTS
from approxnorm.calibrate import calibrate_array
from approxnorm.methods.function import RSQRT_METHODS
from approxnorm.methods.statistics import STATISTICS
from approxnorm.program.datapath import Datapath

RANDOM_SPECS = 400
BATCH = 20

BASE: dict[str, Any] = {
    "norm": "rmsnorm",
    "dim": 24,
    "eps": 1e-5,
    "x": "ap_fixed<8,4>",
    "gamma": "ap_fixed<8,2>",
    "y": "ap_fixed<8,4,RND_CONV,SAT>",
    "statistic": {"method": "full"},
    "rsqrt": {"method": "linear", "segments": 4, "bits": 9},
    "normalize": {"method": "multiply"},
}


def build(gamma: Any = None, /, **changes: Any) -> RMSNorm:
    """A small model; gamma's codes count up unless given."""
    spec = RMSNormSpec(**BASE | changes)
    assert spec.dim is not None
    return RMSNorm(spec, np.arange(spec.dim) - 5 if gamma is None else gamma)


def codes_of(model: RMSNorm, rows: int, seed: int = 0) -> np.ndarray:
    form = model.assembly.x_format
    rng = np.random.default_rng(seed)
    return rng.integers(form.lo, form.hi + 1, (rows, model.dim))


def assert_equals_oracle(model: RMSNorm, fields: dict[str, Any], codes: np.ndarray) -> None:
    """Every code of every named signal, and no row signal that the oracle does not know."""
    oracle = Oracle(fields, model)
    y, trace = model(codes, trace=True)
    assert np.array_equal(model(codes), y)
    assert np.array_equal(trace["y"], y)
    for i, row in enumerate(codes):
        want = oracle.row(row.tolist())
        for name in want.keys() & trace.keys():
            by_channel = name.startswith("gamma_")
            got = trace[name] if by_channel else trace[name][i]
            assert np.array_equal(got, want[name]), f"row {i}, signal {name}"
        unknown = {n for n in trace.keys() - want.keys() if not n.startswith("rsqrt_")}
        assert unknown <= {"gamma", "channel_shift"}
    if "gamma" in trace:
        assert np.array_equal(trace["gamma"], model.gamma)


def realistic(dim: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Real rows with outlier channels and one row of zeros; and gamma."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, dim)) * np.exp2(rng.integers(-3, 4, (rows, 1)))
    x[:, dim // 3] *= 40
    x[rows // 2] = 0
    return x.astype(np.float32), 1 + 0.3 * rng.standard_normal(dim)


# --- against the oracle ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")
@pytest.mark.parametrize("dim", [24, 37, 64, 576])
@pytest.mark.parametrize("name", preset_names())
def test_presets_equal_the_oracle(name: str, dim: int) -> None:
    x, gamma = realistic(dim, 6, seed=dim)
    spec = calibrate_array(preset(name), x, gamma).spec
    model = RMSNorm(spec, gamma)
    form = model.assembly.x_format
    corners = corner_rows(form.lo, form.hi, form.zero_point, dim, seed=dim)
    few = corners if dim < 64 else corners[::6]
    assert_equals_oracle(model, spec.to_dict(), np.concatenate([model.quantize(x), few]))
    oracle = Oracle(spec.to_dict(), model)
    assert [oracle.gamma_code(g, i) for i, g in enumerate(gamma)] == model.gamma.tolist()
    assert oracle.guard == model.spec.eps_guard


def random_model(seed: int) -> tuple[RMSNorm, dict[str, Any]]:
    fields = random_spec(seed)
    spec = RMSNormSpec(**fields)
    form = spec.gamma.to_format("gamma")
    gamma = np.random.default_rng(seed).integers(form.lo, form.hi + 1, fields["dim"])
    gamma[0] = form.zero_point
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EpsWarning)
        return RMSNorm(spec, gamma), fields


@pytest.mark.parametrize("first", range(0, RANDOM_SPECS, BATCH))
def test_random_specs_equal_the_oracle(first: int) -> None:
    for seed in range(first, first + BATCH):
        model, fields = random_model(seed)
        form = model.assembly.x_format
        rows = corner_rows(form.lo, form.hi, form.zero_point, model.dim, seed)
        try:
            assert_equals_oracle(model, fields, rows)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {fields}: {error}") from error


def test_the_random_specs_reach_everything() -> None:
    """A method, order, mode or place that no random spec has would go untested unnoticed."""
    drawn = [random_spec(seed) for seed in range(RANDOM_SPECS)]
    rsqrt = {f["rsqrt"]["method"] for f in drawn}
    assert rsqrt == set(RSQRT_METHODS.names()) - {"exact"}
    assert {f["statistic"]["method"] for f in drawn} == set(STATISTICS.names())
    normalize = {(f["normalize"]["method"], f["normalize"]["constant"]) for f in drawn}
    assert normalize == {(m, c) for m in ("multiply", "log") for c in _PLACES}
    assert {f["normalize"].get("order") for f in drawn} == {None, "fused", "llama", "onnx", "gemma"}
    assert {f["y"]["rounding"] for f in drawn} == set(ROUNDINGS)
    assert {f["y"]["overflow"] for f in drawn} == set(OVERFLOWS)
    logs = [f["normalize"] for f in drawn if f["normalize"]["method"] == "log"]
    assert {n.get("form") for n in logs} == {None, "correction"}
    assert {f["statistic"].get("squarer") for f in drawn} == {None, "multiply", "table"}
    for field in ("row_exponent", "channel_shifts", "eps_guard"):
        assert {field in f for f in drawn} == {True, False}
    accumulators = {f["statistic"]["accumulator"]["overflow"] for f in drawn if _narrow(f)}
    assert accumulators == set(OVERFLOWS)
    for name in ("x", "gamma", "y"):
        assert {f[name]["signed"] for f in drawn} == {True, False}
        assert {bool(f[name].get("zero_point")) for f in drawn} == {True, False}


_PLACES = ("table", "gamma", "multiplier")


def _narrow(fields: dict[str, Any]) -> bool:
    return "accumulator" in fields["statistic"]


# --- the exact yardstick --------------------------------------------------------------------------


def rounded_root(square: Fraction, negative: bool, rounding: str) -> int:
    """sqrt(square), with a sign, rounded: only where it lies between two codes matters."""
    floor = isqrt(square.numerator // square.denominator)
    half = Fraction(2 * floor + 1, 2)
    if floor * floor == square:
        near = Fraction(floor)
    elif half * half == square:
        near = half
    else:
        near = floor + (Fraction(1, 4) if square < half * half else Fraction(3, 4))
    return round_exact(-near if negative else near, rounding)


def exact_codes(fields: dict[str, Any], model: RMSNorm, row: np.ndarray) -> list[int]:
    """The correctly rounded codes of a row, from the statistic of the oracle."""
    stand_in = fields | {"rsqrt": BASE["rsqrt"]}
    oracle = Oracle(stand_in, RMSNorm(RMSNormSpec(**stand_in), model.gamma))
    signals = oracle.row(row.tolist())
    x = next(signals[n] for n in ("x_row", "x_scaled", "x_centered", "x") if n in signals)
    total = signals["operand"] + oracle.eps_real / 4 ** signals.get("row_shift", 0)
    if total == 0:
        return [oracle.y.zero] * len(x)
    one = 1 / oracle.gamma.scale if oracle.order == "gemma" else 0
    folded = oracle.c2 if oracle.place == "gamma" else Fraction(1)
    limits = (oracle.y.lo - oracle.y.zero, oracle.y.hi - oracle.y.zero)
    result = []
    for v, w in zip(x, oracle.weights, strict=True):
        product = v * (w + int(one))
        square = product * product * oracle.gain / total / folded
        code = rounded_root(square, product < 0, oracle.y.rounding)
        result.append(oracle.y.zero + limit_exact(code, *limits, oracle.y.overflow))
    return result


EXACT_VARIANTS: list[dict[str, Any]] = [
    {},
    {"eps": 0},
    {"eps": 7.5, "x": {"bits": 9, "signed": False, "scale": 0.037, "zero_point": 200}},
    {"row_exponent": {"bits": 5}, "x": "ap_fixed<20,12>"},
    {"channel_shifts": {"shifts": [0, 1, 4] * 8}},
    {"statistic": {"method": "outlier_exact", "bits": 2, "step_exponent": 3, "bias": 1.031}},
    {"statistic": {"method": "prefix", "count": 6}},
    {"normalize": {"method": "multiply", "order": "gemma", "constant": "multiplier"}},
    {"normalize": {"method": "multiply", "constant": "gamma"}},
]


@pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")
@pytest.mark.parametrize("variant", range(len(EXACT_VARIANTS)))
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_exact_is_correctly_rounded(variant: int, rounding: str) -> None:
    overflow = OVERFLOWS[(variant + ROUNDINGS.index(rounding)) % len(OVERFLOWS)]
    fields = BASE | {"normalize": {"method": "multiply", "constant": "multiplier"}}
    fields = fields | EXACT_VARIANTS[variant] | {"y": f"ap_fixed<7,3,{rounding},{overflow}>"}
    fields = fields | {"rsqrt": {"method": "exact"}}
    model = RMSNorm(RMSNormSpec(**fields), np.arange(24) * 3 - 40)
    form = model.assembly.x_format
    rows = corner_rows(form.lo, form.hi, form.zero_point, 24, seed=variant)
    got = model(rows)
    for i, row in enumerate(rows):
        assert got[i].tolist() == exact_codes(fields, model, row), f"row {i}"


def test_exact_rounds_ties_of_y() -> None:
    """Rows of one value have y = gamma: every half LSB of y is met."""
    gamma = np.arange(-16, 17)  # LSBs of 1/8; y has LSBs of 1/4
    for rounding in ROUNDINGS:
        model = build(
            gamma,
            dim=33,
            eps=0,
            gamma="ap_fixed<8,5>",
            y=f"ap_fixed<8,6,{rounding},SAT>",
            rsqrt={"method": "exact"},
            normalize={"method": "multiply", "constant": "multiplier"},
        )
        want = [round_exact(Fraction(int(g), 2), rounding) for g in gamma]
        assert model(np.full(33, 77)).tolist() == want, rounding


def test_exact_has_no_hardware() -> None:
    model = build(rsqrt={"method": "exact"}, normalize={"method": "multiply", "constant": "gamma"})
    with pytest.raises(ApproxNormError, match=r'"exact" is the yardstick'):
        model.assembly.require_datapath()
    y, trace = model(codes_of(model, 3), trace=True)
    front = [p.name for p in model.assembly.front.signals()]
    assert list(trace) == [*front, "y"] and model.assembly.row.operand.name in trace
    assert np.array_equal(trace["y"], y)


# --- long rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "width"), [(131_071, 31), (131_072, 32)])
def test_rows_of_all_minimum_are_exact(dim: int, width: int) -> None:
    model = build(np.full(dim, 64), dim=dim)  # gamma is 1
    y, trace = model(np.full((2, dim), -128, np.int8), trace=True)
    assert trace["sum"].tolist() == [dim * 16384] * 2
    ports = {p.name: p for p in model.assembly.require_datapath().signals()}
    assert ports["sum"].interval.width == width
    assert np.all(y == -16)  # -1.0


def test_an_accumulator_of_31_bits_holds_131071_but_not_131072() -> None:
    statistic = {"method": "full", "accumulator": {"bits": 31}}
    build(np.zeros(131_071, int), dim=131_071, statistic=statistic)
    with pytest.raises(ApproxNormError, match=r"accumulator\.bits is 31; the sum needs 32 bits"):
        build(np.zeros(131_072, int), dim=131_072, statistic=statistic)


# --- shapes, layouts and types --------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 1, 3), (0,), (3, 0), (0, 2)])
def test_any_leading_shape(shape: tuple[int, ...]) -> None:
    model = build()
    codes = codes_of(model, 6)[: int(np.prod(shape))].reshape(*shape, 24)
    y, trace = model(codes, trace=True)
    assert y.shape == codes.shape
    assert y.dtype == model(codes).dtype == np.int8
    flat = [model(row) for row in codes.reshape(-1, 24)]
    assert np.array_equal(y.reshape(-1, 24), np.array(flat).reshape(-1, 24))
    for port in model.assembly.require_datapath().signals():
        want = {"element": codes.shape, "row": shape, "channel": (24,)}[port.level]
        assert trace[port.name].shape == want, port.name


@pytest.mark.parametrize(
    "view",
    [
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: np.repeat(a, 3, axis=0)[::3],
        lambda a: a[::-1][::-1],
        lambda a: np.ascontiguousarray(a[:, ::-1])[:, ::-1],
        lambda a: np.ascontiguousarray(a.T).T,
        lambda a: np.broadcast_to(a[:, None, :], (len(a), 1, 24))[:, 0],
    ],
)
@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_any_memory_layout(view: Callable[[np.ndarray], np.ndarray], dtype: Any) -> None:
    model = build()
    codes = codes_of(model, 7).astype(dtype)
    assert np.array_equal(model(view(codes)), model(codes))
    assert np.array_equal(view(codes), codes)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_any_integer_type(dtype: str) -> None:
    model = build()
    codes = codes_of(model, 4) & 63
    assert np.array_equal(model(codes.astype(dtype)), model(codes))
    assert np.array_equal(model(codes.astype(dtype).astype(f">{dtype[0]}8")), model(codes))
    assert np.array_equal(model(codes.tolist()), model(codes))  # type: ignore[arg-type]


def test_input_is_read_only_and_kept() -> None:
    model = build()
    codes = codes_of(model, 4).astype(np.int8)
    before = codes.copy()
    codes.flags.writeable = False
    y = model(codes)
    assert np.array_equal(codes, before)
    want = y.copy()
    y[:] = 0
    assert np.array_equal(model(codes), want)


def test_block_boundaries_change_nothing() -> None:
    dim = 4096
    rows = 2 * max(1, BLOCK_ELEMENTS // dim) + 1
    model = build(np.arange(dim) % 100, dim=dim)
    codes = codes_of(model, rows)
    y, trace = model(codes, trace=True)
    assert np.array_equal(model(codes), y)
    for i in (0, rows // 2 - 1, rows // 2, rows // 2 + 1, rows - 1):
        single, signals = model(codes[i], trace=True)
        assert np.array_equal(single, y[i])
        assert np.array_equal(signals["sum"], trace["sum"][i])


def test_trace_holds_every_signal_in_its_interval() -> None:
    model = build(row_exponent={"bits": 6}, channel_shifts={"shifts": [0, 2, 4] * 8})
    _, trace = model(codes_of(model, 9), trace=True)
    ports = model.assembly.require_datapath().signals()
    assert [p.name for p in ports if p.name not in trace] == []
    assert trace.keys() == {p.name for p in ports}
    for port in ports:
        values = trace[port.name]
        assert port.interval.lo <= values.min()
        assert values.max() <= port.interval.hi


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros((2, 23), int), r"x has shape \(2, 23\); allowed: rows of dim = 24"),
        (np.zeros((24, 2), int), "x has shape"),
        (np.int8(3), r"x has shape \(\)"),
        (np.zeros((0,), int), "x has shape"),
        (np.zeros(24), "x has dtype float64; allowed: integer codes"),
        (np.zeros(24, np.float32), "x has dtype float32"),
        (np.zeros(24, bool), "x has dtype bool"),
        (np.zeros(24, object), "x has dtype object"),
        (np.zeros(24, complex), "x has dtype complex"),
        (np.full(24, 128), "x holds the code 128; its format allows -128 to 127"),
        (np.full(24, -129), "x holds the code -129"),
        (np.full(24, 200, np.uint8), "x holds the code 200"),
        (np.full(24, 2**63 + 5, np.uint64), "x holds the code 9223372036854775813"),
    ],
)
def test_bad_input(x: Any, words: str) -> None:
    with pytest.raises(ApproxNormError, match=words):
        build()(x)


@pytest.mark.parametrize("bad", [-9, 8])
def test_codes_outside_narrow_formats_are_refused(bad: int) -> None:
    """A format narrower than its storage type: the type alone does not guard it."""
    model = build(x="ap_fixed<4,2>")
    codes = np.zeros((2, 24), np.int8)
    model(codes)
    codes[1, 7] = bad
    with pytest.raises(ApproxNormError, match=f"code {bad}; its format allows -8 to 7"):
        model(codes)


# --- gamma ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gamma", "words"),
    [
        (np.zeros(23), r"gamma has shape \(23,\); allowed: \(24,\)"),
        (np.zeros((1, 24)), "gamma has shape"),
        (np.full(24, 128), "gamma holds the code 128; its format allows -128 to 127"),
        (np.full(24, np.nan), "gamma must be finite"),
        (np.full(24, np.inf), "gamma must be finite"),
        (np.zeros(24, bool), "gamma must be finite real numbers, or integer codes"),
        (["a"] * 24, "gamma must be"),
    ],
)
def test_bad_gamma(gamma: Any, words: str) -> None:
    with pytest.raises(ApproxNormError, match=words):
        RMSNorm(RMSNormSpec(**BASE), gamma)


def test_real_gamma_is_quantised_and_told() -> None:
    gamma = np.linspace(-1.9, 1.9, 24)
    model = build(gamma)
    assert model.gamma.dtype == np.int64
    assert np.array_equal(model.gamma, np.rint(gamma * 64))
    assert np.array_equal(model.gamma_real(), model.gamma / 64)
    with pytest.warns(GammaWarning, match=r"^4 of gamma's 24 values are beyond ap_fixed<8,2,"):
        folded = build(gamma, normalize={"method": "multiply", "constant": "gamma"})
    assert not np.array_equal(folded.gamma, model.gamma)
    clipped = np.abs(folded.gamma) >= 127
    assert np.all(clipped | (np.abs(folded.gamma_real() - gamma) <= 1 / 128))


def test_a_model_can_be_pickled() -> None:
    model = build(normalize={"method": "multiply", "constant": "multiplier"})
    again = pickle.loads(pickle.dumps(model))
    assert again.digest == model.digest
    assert np.array_equal(again(codes_of(model, 3)), model(codes_of(model, 3)))


def test_what_is_no_row_of_reals_is_not_quantised() -> None:
    model = build()
    for bad in (np.ones((2, model.dim + 1)), np.float64(1), ["1"] * model.dim, [1j] * model.dim):
        with pytest.raises(ApproxNormError, match=r"allowed: real numbers in rows of dim"):
            model.quantize(bad)
    with pytest.raises(ApproxNormError, match="y has dtype float64; allowed: integer codes"):
        model.dequantize([1.7])
    with pytest.raises(ApproxNormError, match="spec is a str; allowed: an RMSNormSpec"):
        RMSNorm("int8-linear", np.ones(3))  # type: ignore[arg-type]


# --- quantising -----------------------------------------------------------------------------------


def test_quantise_like_the_oracle() -> None:
    fields = BASE | {"x": {"bits": 6, "signed": True, "scale": 0.3, "zero_point": 3}}
    model = build(x=fields["x"])
    rng = np.random.default_rng(5)
    real = np.concatenate([rng.standard_normal(500) * 6, np.arange(-24, 24) * 0.15])
    real = real[: 24 * (real.size // 24)].astype(np.float32).reshape(-1, 24)
    codes = model.quantize(real)
    form = Oracle(fields, model).x
    assert codes.dtype == np.int8
    assert codes.tolist() == [[form.quantized(v) for v in row] for row in real]
    assert np.array_equal(model.quantize(model.dequantize_x(codes)), codes)


def test_quantise_at_the_ends() -> None:
    model = build()
    row = np.zeros(24, np.float32)
    row[:6] = [np.inf, -np.inf, 3e38, -3e38, 1e-45, -0.0]
    assert model.quantize(row).tolist() == [127, -128, 127, -128] + [0] * 20
    row[3] = np.nan
    with pytest.raises(ApproxNormError, match="NaN"):
        model.quantize(row)


def test_channel_factors_in_and_out() -> None:
    shifts = [0, 1, 2, 3] * 6
    model = build(channel_shifts={"max_shift": 3, "shifts": shifts})
    x = np.linspace(-60, 60, 24, dtype=np.float32)
    want = np.clip(np.rint(x / np.exp2(shifts) * 16), -128, 127)
    assert np.array_equal(model.quantize(x), want)
    assert np.array_equal(model.dequantize_x(model.quantize(x)), want * np.exp2(shifts) / 16)


def test_output_codes_to_reals() -> None:
    y = {"bits": 8, "signed": False, "scale": 0.25, "zero_point": 100}
    model = build(y=y | {"rounding": "RND", "overflow": "SAT"})
    assert model.dequantize(np.array([100, 0, 255])).tolist() == [0, -25, 38.75]


# --- zero rows ------------------------------------------------------------------------------------

ZERO_ROWS: list[dict[str, Any]] = [
    {},
    {"eps": 0},
    {"y": {"bits": 8, "signed": False, "scale": 0.05, "zero_point": 77}},
    {"x": {"bits": 8, "signed": False, "scale": 0.05, "zero_point": 200}, "eps": 0},
    {"rsqrt": {"method": "log2"}, "normalize": {"method": "log"}, "eps": 0},
    {"rsqrt": {"method": "exact"}, "normalize": {"method": "multiply", "constant": "multiplier"}},
    {"row_exponent": {"bits": 4}, "eps": 0},
]


@pytest.mark.parametrize("variant", range(len(ZERO_ROWS)))
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_zero_rows_give_zeros(variant: int, rounding: str) -> None:
    changes = dict(ZERO_ROWS[variant])
    y = changes.get("y", {"bits": 8, "signed": True, "scale": 0.125})
    model = build(**changes | {"y": y | {"rounding": rounding, "overflow": "SAT"}})
    rows = np.full((2, 24), model.assembly.x_format.zero_point)
    rows[1, 3] += 1
    out = model(rows)
    zero = model.assembly.context.y.zero_point
    assert np.all(out[0] == zero)
    untouched = np.delete(out[1], 3)
    assert np.all(untouched == zero)


# --- digests and pins -----------------------------------------------------------------------------

DIGESTS = {
    "linear": ({}, "99b4fafa4cb16eedfb6ab76902a13522c2c5719e61b5569488df1aed62ebf35e"),
    "log": (
        {
            "dim": 24,
            "x": {"bits": 12, "signed": False, "scale": 0.0031, "zero_point": 2000},
            "row_exponent": {"bits": 8},
            "statistic": {"method": "low_bit", "bits": 3, "step_exponent": 4, "bias": 0.97},
            "rsqrt": {"method": "log2", "index_bits": 4},
            "normalize": {"method": "log", "log_bits": 5},
        },
        "36ac2745101e1b6d2dbb85b833e1ccf72edfdf673551a11727ddd5aca7201fb6",
    ),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_digests_are_pinned(name: str) -> None:
    changes, want = DIGESTS[name]
    assert build(**changes).digest == want


@pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")
@pytest.mark.parametrize("name", preset_names())
def test_presets_are_pinned(name: str) -> None:
    """Any changed rounding, width or table entry of a preset fails here.

    After a wanted change run ``python tests/golden_pins.py``, and say in the change log which
    output bits changed.
    """
    model = pinned_model(name)
    codes = pinned_rows(model)
    pin = PINS[name]
    assert sha256(codes) == pin["x_sha256"]
    assert model.digest == pin["digest"]
    assert signals(model) == pin["signals"]
    assert sha256(model(codes)) == pin["y_sha256"]


def test_the_preset_without_multipliers_has_none_and_small_tables() -> None:
    datapath = pinned_model("log-12bit-channels").assembly.require_datapath()
    assert set(datapath.count_multipliers().values()) <= {0}
    assert {len(table.entries) for table in datapath.tables()} == {64}


def test_every_preset_is_pinned() -> None:
    assert sorted(PINS) == preset_names()


CHANGES: dict[str, dict[str, Any]] = {
    "dim": {"dim": 25},
    "eps": {"eps": 2e-5},
    "eps_guard": {"eps_guard": 6},
    "x.scale": {"x": "ap_fixed<8,5>"},
    "x.bits": {"x": "ap_fixed<9,5>"},
    "x.signed": {"x": "ap_ufixed<8,4>"},
    "x.rounding": {"x": "ap_fixed<8,4,TRN>"},
    "x.overflow": {"x": "ap_fixed<8,4,RND_CONV,WRAP>"},
    "x.zero_point": {"x": {"bits": 8, "signed": True, "scale": 0.0625, "zero_point": 1}},
    "gamma": {"gamma": "ap_fixed<8,3>"},
    "y.rounding": {"y": "ap_fixed<8,4,RND,SAT>"},
    "y.overflow": {"y": "ap_fixed<8,4,RND_CONV,SAT_SYM>"},
    "row_exponent": {"row_exponent": {"bits": 8}},
    "channel_shifts": {"channel_shifts": {"shifts": [0] * 24}},
    "statistic": {"statistic": {"method": "leading_one"}},
    "statistic.bias": {"statistic": {"method": "full", "bias": 1.0001}},
    "accumulator": {"statistic": {"method": "full", "accumulator": {"bits": 40}}},
    "rsqrt": {"rsqrt": {"method": "direct"}},
    "rsqrt.bits": {"rsqrt": {"method": "linear", "segments": 4, "bits": 10}},
    "rsqrt.rounding": {"rsqrt": BASE["rsqrt"] | {"rounding": "TRN"}},
    "rsqrt.frac_bits": {"rsqrt": BASE["rsqrt"] | {"frac_bits": 12}},
    "constant": {"normalize": {"method": "multiply", "constant": "multiplier"}},
    "order": {"normalize": {"method": "multiply", "order": "gemma"}},
}


def test_digest_changes_with_every_field() -> None:
    digests = {"base": build(np.arange(24)).digest}
    for name, change in CHANGES.items():
        model = build(np.arange(change.get("dim", 24)), **change)
        digests[name] = model.digest
    assert len(set(digests.values())) == len(digests)


def test_digest_changes_with_gamma_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    gamma = np.arange(24)
    base = build(gamma)
    assert base.digest == build(gamma.astype(np.int8)).digest
    assert base.digest == build(gamma / 64).digest
    for i in range(24):
        changed = gamma.copy()
        changed[i] += 1
        assert build(changed).digest != base.digest
    tables = base.assembly.require_datapath().tables()
    for table in tables:
        for i in range(len(table.entries)):
            entries = tuple(e + (k == i) for k, e in enumerate(table.entries))
            edited = [replace(t, entries=entries) if t is table else t for t in tables]
            monkeypatch.setattr(Datapath, "tables", lambda self, t=edited: t)
            assert build(gamma).digest != base.digest


def test_digest_leaves_the_description_out() -> None:
    assert build(description="other words").digest == build().digest


@pytest.mark.parametrize("first", range(0, 60, BATCH))
def test_a_resolved_spec_is_the_same_model(first: int) -> None:
    for seed in range(first, first + BATCH):
        model, _ = random_model(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EpsWarning)
            again = RMSNorm(RMSNormSpec(**model.spec.to_dict()), model.gamma)
        assert again.spec == model.spec
        assert again.digest == model.digest


def test_open_specs_are_no_models() -> None:
    with pytest.raises(ApproxNormError, match=r"x\.scale is open; give it in the spec, or calib"):
        build(x={"bits": 8})
    with pytest.raises(ApproxNormError, match=r"statistic\.step_exponent is open"):
        build(statistic={"method": "low_bit"})
    fields = {k: v for k, v in BASE.items() if k != "dim"}
    with pytest.raises(ApproxNormError, match="dim is open"):
        RMSNorm(RMSNormSpec(**fields), np.zeros(24))


def test_sha256_is_of_codes_as_int64() -> None:
    assert (
        sha256(np.array([1, -2], np.int8))
        == hashlib.sha256(
            (1).to_bytes(8, "little") + (-2).to_bytes(8, "little", signed=True)
        ).hexdigest()
    )
