"""The error meter against its definitions, and a layer's errors with their split."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from norm_specs import BASE, VARIANTS, build, rows

from approxnorm import ApproxNormError, RMSNorm, RMSNormSpec, preset
from approxnorm.metrics import ERROR_KEYS, ErrorMeter, LayerErrors, bound
from approxnorm.metrics.chain import CAUSES, final_rounding, steps
from approxnorm.metrics.histogram import BINS, Histogram
from approxnorm.reference import rmsnorm_float64, rmsnorm_fp32

PAIR = ("against_exact", "against_fp32")


def meter(got: list[float], exact: list[float], lsb: float = 1.0) -> dict[str, float | None]:
    m = ErrorMeter(lsb)
    m.add(np.array(got), np.array(exact))
    return m.result()


def test_every_figure_by_hand():
    result = meter([1.0, -2.0, 0.5, 0.0], [1.25, -2.0, 0.25, 0.125], lsb=0.25)
    assert result["max_abs_lsb"] == 1.0
    assert result["mean_abs_lsb"] == (1 + 0 + 1 + 0.5) / 4
    assert result["bias_lsb"] == (-1 + 0 + 1 - 0.5) / 4
    assert result["rms_lsb"] == math.sqrt((1 + 1 + 0.25) / 4)
    signal = 1.25**2 + 4 + 0.25**2 + 0.125**2
    assert result["sqnr_db"] == pytest.approx(10 * math.log10(signal / (2.25 * 0.0625)), rel=1e-14)
    norms = math.sqrt(signal * (1 + 4 + 0.25))
    assert result["cosine"] == pytest.approx((1.25 + 4 + 0.125) / norms, rel=1e-14)
    assert result["max_rel"] == 1.0  # 0.125 lies below one LSB and does not count
    assert tuple(result) == ERROR_KEYS


def test_undefined_figures_are_none():
    assert set(meter([], []).values()) == {None}
    same = meter([3.0], [3.0])
    assert same["sqnr_db"] is None and same["cosine"] == 1.0 and same["max_rel"] == 0.0
    silent = meter([0.5], [0.0])
    assert silent["sqnr_db"] is None and silent["cosine"] is None and silent["max_rel"] is None
    assert json.loads(json.dumps(silent))["cosine"] is None


def test_blocks_give_what_the_whole_gives():
    rng = np.random.default_rng(3)
    exact = rng.standard_normal(100_000) * 10.0 ** rng.uniform(-3, 3, 100_000)
    got = exact + rng.standard_normal(100_000)
    whole, parts = ErrorMeter(0.125), ErrorMeter(0.125)
    whole.add(got, exact)
    for i in range(0, 100_000, 777):
        parts.add(got[i : i + 777], exact[i : i + 777])
    for key, value in whole.result().items():
        assert parts.result()[key] == pytest.approx(value, rel=1e-13), key
    truth = sum(Fraction(float(g)) - Fraction(float(e)) for g, e in zip(got, exact, strict=True))
    assert parts.result()["bias_lsb"] == pytest.approx(float(truth * 8 / 100_000), rel=1e-12)


def test_small_blocks_are_not_lost_beside_a_large_one():
    m = ErrorMeter(1.0)
    m.add(np.array([1e16]), np.array([0.0]))
    for _ in range(1000):
        m.add(np.array([1.0]), np.array([0.0]))
    assert m.result()["bias_lsb"] == (10**16 + 1000) / 1001


def test_histogram_bins():
    h = Histogram()
    h.add(np.array([-100.0, -8.0, -7.76, -7.75, -0.25, -0.0, 0.24, 7.75, 8.0, 1e30]))
    result = h.result()
    edges, counts = result["edges_lsb"], result["counts"]
    assert len(edges) == BINS + 1 and edges[0] == -8 and edges[-1] == 8
    assert sum(counts) == 10 and counts[0] == 3 and counts[1] == 1 and counts[-1] == 3
    assert counts[edges.index(-0.25)] == 1 and counts[edges.index(0.0)] == 2


def real_rows(model: RMSNorm, seed: int = 0) -> np.ndarray:
    """Real rows between codes, some of which saturate."""
    rng = np.random.default_rng(seed)
    x = model.dequantize_x(rows(model, 40, seed))
    return (x * rng.uniform(0.9, 1.1, x.shape)).astype(np.float32)


def layer(model: RMSNorm) -> tuple[LayerErrors, np.ndarray]:
    """A LayerErrors whose real gamma lies between gamma's codes."""
    rng = np.random.default_rng(1)
    step = float(model.assembly.context.gamma.scale)
    gamma = model.gamma_real() + rng.uniform(-0.5, 0.5, model.dim) * step
    return LayerErrors(model, gamma), gamma


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_causes_add_up_to_the_whole_error(variant):
    model = build(variant).without_y_factors()
    x = real_rows(model)
    codes = model.quantize(x)
    weight = model.gamma_real() + 0.01 + model.spec.normalize.adds_one
    y, trace = model(codes, trace=True)
    for source in (x, None):
        names, values = zip(*steps(model, trace, weight, 1e-3, source, codes), strict=True)
        real = model.dequantize_x(codes) if source is None else x.astype(np.float64)
        reference = rmsnorm_float64(real, weight, 1e-3)
        assert np.abs(values[0] - reference).max() <= 1e-12 * np.abs(reference).max()
        assert (values[-1] == model.dequantize(y)).all()
        assert list(names[1:]) == [c for c in CAUSES if c in names]
        rounding = np.abs(values[-1] - values[-2])
        form = model.assembly.context.y
        low, high = output_range(model)
        inside = (y < high) & (y > low)
        if form.overflow != "WRAP":
            assert rounding[inside].max() <= float(form.scale) * (1 + 1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_causes_that_there_are(variant):
    model = build(variant)
    errors, _ = layer(model)
    errors.add(real_rows(model))
    result = errors.result()
    expected = {"input_quantization", "statistic", "rsqrt", "gamma", "output_rounding"}
    intermediate = getattr(model.spec.normalize, "intermediate", None)
    if model.spec.normalize.method == "log" or intermediate is not None:
        expected |= {"normalize"}
    assert set(result["split"]) == expected
    if model.spec.statistic.method == "full":
        assert result["split"]["statistic"]["max_abs_lsb"] == 0.0
    assert ("x_row" in result) == (model.spec.row_exponent is not None)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_error_against_exact_keeps_the_proven_bound(variant):
    model = build(variant)
    codes = rows(model, 60)
    errors, _ = layer(model)
    errors.add_codes(codes)
    got = errors.result()["against_exact"]["max_abs_lsb"]
    model = model.without_y_factors()
    if model.spec.statistic.method == "full":
        limit = bound(model).lsb
        assert limit is not None and got <= float(limit) * (1 + 1e-9)
    exact = np.clip(
        rmsnorm_float64(
            model.dequantize_x(codes),
            model.gamma_real() + model.spec.normalize.adds_one,
            model.spec.eps,
        ),
        *model.dequantize(np.array(output_range(model))),
    )
    scale = float(model.assembly.context.y.scale)
    assert got == np.abs(model.dequantize(model(codes)) - exact).max() / scale


def output_range(model: RMSNorm) -> tuple[int, int]:
    form = model.assembly.context.y
    return (-form.hi if form.overflow == "SAT_SYM" else form.lo), form.hi


def test_fp32_is_on_the_real_input_with_the_real_gamma():
    model = build("linear")
    x = real_rows(model)
    errors, gamma = layer(model)
    errors.add(x)
    exact = rmsnorm_fp32(x, gamma.astype(np.float32), model.spec.eps).astype(np.float64)
    low, high = model.dequantize(np.array(output_range(model)))
    error = model.dequantize(model(model.quantize(x))) - np.clip(exact, low, high)
    expected = np.abs(error).max() / float(model.assembly.context.y.scale)
    assert errors.result()["against_fp32"]["max_abs_lsb"] == expected
    other = LayerErrors(model, gamma, order="onnx")
    other.add(x)
    assert other.result()["against_fp32"] != errors.result()["against_fp32"]


def test_gemma_adds_one_to_gamma_in_both_references():
    model = build("gemma")
    errors, _ = layer(model)
    errors.add(real_rows(model))
    result = errors.result()
    assert min(result[key]["sqnr_db"] for key in PAIR) > 30


def test_blocks_and_one_array_agree():
    model = build("row_exponent_outliers")
    x = real_rows(model)
    (whole, gamma), parts = layer(model), layer(model)[0]
    whole.add(x)
    for i in range(0, len(x), 7):
        parts.add(x[i : i + 7])
    parts.add(x[:0])
    a, b = whole.result(), parts.result()
    for key in ("rows", "codes", "histogram", "x", "x_row", "y"):
        assert a[key] == b[key], key
    for one, other in [(a[k], b[k]) for k in PAIR] + [
        (a["split"][c], b["split"][c]) for c in a["split"]
    ]:
        for key in ERROR_KEYS:
            assert one[key] == pytest.approx(other[key], rel=1e-9, abs=1e-9), key
    assert a["rows"] == len(x) and a["codes"] == x.size and gamma.shape == (model.dim,)


def test_codes_only():
    model = build("linear")
    errors, _ = layer(model)
    codes = rows(model, 20)
    errors.add_codes(codes)
    result = errors.result()
    assert result["against_fp32"] is None
    assert set(result["split"]) == {"statistic", "rsqrt", "gamma", "output_rounding"}
    assert result["x"]["saturated"] == np.count_nonzero((codes == 2047) | (codes == -2048))
    shifted, _ = layer(build("row_exponent"))
    shifted.add_codes(rows(build("row_exponent"), 20))
    assert shifted.result()["split"]["input_quantization"]["max_abs_lsb"] > 1


def test_the_exact_yardstick_has_no_rsqrt_share():
    exact = dict(
        rsqrt=dict(method="exact"), normalize=dict(method="multiply", constant="multiplier")
    )
    changes = exact | dict(statistic=dict(method="low_bit", step_exponent=4))
    model = RMSNorm(RMSNormSpec(**BASE | VARIANTS["channel_shifts"] | changes), np.full(12, 1.25))
    errors = LayerErrors(model, np.full(12, 1.25))
    x = real_rows(model)[:40]
    errors.add(x)
    result = errors.result()
    assert set(result["split"]) == {"input_quantization", "statistic", "gamma", "output_rounding"}
    assert result["split"]["gamma"]["max_abs_lsb"] == 0
    assert result["split"]["statistic"]["max_abs_lsb"] > 1
    inside = RMSNorm(RMSNormSpec(**BASE | exact), np.full(12, 1.25))
    errors = LayerErrors(inside, np.full(12, 1.25))
    errors.add(x)
    assert errors.result()["split"]["output_rounding"]["max_abs_lsb"] <= 0.5 + 1e-9


def test_counts_of_zeros_and_saturation():
    model = RMSNorm(
        RMSNormSpec(**BASE | dict(dim=4, x="ap_fixed<4,4>", y="ap_fixed<4,2,RND,SAT>")), np.ones(4)
    )
    errors = LayerErrors(model, np.ones(4))
    errors.add(np.array([[0, 0.4, -0.5, 0.2], [7.4, 7.6, -8.5, -8.6], [0, 0, 0, 3], [1, 1, 1, 1]]))
    result = errors.result()
    assert result["x"] == {
        "format": "ap_fixed<4,4,RND_CONV,SAT>",
        "codes": 16,
        "zero_codes": 7,
        "zero_rows": 1,
        "saturated": 2,  # 7.6 and -8.6; -8.5 goes to the even -8
    }
    # In row 2, 3 / sqrt(9 / 4) = 2 lies past 1.75.
    assert result["y"]["saturated"] == 1 and result["y"]["zero_rows"] == 1


def test_counts_under_each_overflow_mode():
    for overflow, name in (("SAT_ZERO", "zero"), ("WRAP", "wrap"), ("SAT_SYM", "sym")):
        spec = RMSNormSpec(**BASE | dict(dim=4, eps=0.1, y=f"ap_fixed<4,2,RND,{overflow}>"))
        model = RMSNorm(spec, np.ones(4))
        errors = LayerErrors(model, np.ones(4))
        errors.add(np.array([[0, 0, 0, -5.0], [0, 0, 5.0, 0], [1, 1, 1, 1]]))
        # -1.98 rounds to -2, which is a code of all but SAT_SYM; 1.98 to 2, which is none.
        result = errors.result()["y"]
        assert result["saturated"] == {"zero": 1, "wrap": 1, "sym": 2}[name], name


def test_counts_of_a_row_exponent():
    spec = RMSNormSpec(
        **BASE | dict(dim=4, x=dict(bits=10, signed=True, scale=1.0), row_exponent=dict(bits=4))
    )
    model = RMSNorm(spec, np.ones(4))
    errors = LayerErrors(model, np.ones(4))
    errors.add(np.array([[500, -500, 30, 31], [480, 479, -512, 0], [7, -8, 1, 0]]))
    result = errors.result()
    # Shifts 6, 7 and 1. 500 / 64 rounds to 8, past 7; 30 and 31 become 0.
    assert result["x_row"]["codes"] == 12
    assert result["x_row"]["zero_codes"] == 4
    assert result["x_row"]["saturated"] == 1


def test_final_rounding_of_each_variant():
    for variant in VARIANTS:
        model = build(variant)
        datapath = model.assembly.datapath
        assert datapath is not None
        rounding = final_rounding(datapath)
        codes = rows(model, 10)
        y, trace = model(codes, trace=True)
        form = model.assembly.context.y
        rounded = rounding.rounded(trace)
        if form.overflow == "SAT":
            lo, hi = form.lo - form.zero_point, form.hi - form.zero_point
            assert (np.clip(rounded, lo, hi) + form.zero_point == y).all()
        assert np.abs(rounding.unrounded(trace) - rounded).max() <= 1
        assert rounding.mode is form.rounding


def test_memory_is_bounded_by_the_block(monkeypatch):
    model = build("linear")
    seen, run = [], RMSNorm.__call__

    def counted(self, codes, *, trace=False):
        seen.append(len(codes))
        return run(self, codes, trace=trace)

    monkeypatch.setattr(RMSNorm, "__call__", counted)
    monkeypatch.setattr("approxnorm.metrics.layer_errors.BLOCK_ELEMENTS", 120)
    errors, _ = layer(model)
    errors.add_codes(rows(model, 60)[:55])
    assert seen == [10, 10, 10, 10, 10, 5]


def test_bad_input():
    model = build("linear")
    with pytest.raises(ApproxNormError, match=r"gamma_real has shape \(3,\); allowed: \(12,\)"):
        LayerErrors(model, np.ones(3))
    with pytest.raises(ApproxNormError, match="gamma_real holds NaN or infinity"):
        LayerErrors(model, np.full(12, np.inf))
    errors, _ = layer(model)
    with pytest.raises(ApproxNormError, match=r"a block has shape \(2, 3\); allowed: rows of dim"):
        errors.add(np.ones((2, 3)))
    with pytest.raises(ApproxNormError, match="x holds NaN or infinity"):
        errors.add(np.full((1, 12), np.nan))
    with pytest.raises(ApproxNormError, match="codes were fed after real activations"):
        errors.add_codes(np.ones((1, 12), np.int64))


def test_nothing_fed_gives_no_figures():
    result = LayerErrors(build("linear"), np.ones(12)).result()
    assert result["rows"] == 0 and result["split"] == {}
    assert set(result["against_exact"].values()) == {None}


def test_an_accumulator_that_overflows_is_reported():
    spec = (
        preset("int8-linear")
        .with_dim(16)
        .replace(
            x="ap_fixed<8,4>",
            gamma="ap_fixed<8,2>",
            y="ap_fixed<8,4,RND_CONV,SAT>",
            statistic={"method": "full", "accumulator": {"bits": 10, "overflow": "SAT"}},
        )
    )
    model = RMSNorm(spec, np.ones(16))
    errors = LayerErrors(model, np.ones(16))
    errors.add_codes(np.array([[7] * 16, [8] * 16, [100] * 16]))
    expected = {"bits": 10, "bits_needed": (16 * 100 * 100).bit_length(), "overflowed_rows": 2}
    assert errors.result()["accumulator"] == expected
    plain = LayerErrors(
        RMSNorm(spec.replace(statistic={"method": "full"}), np.ones(16)), np.ones(16)
    )
    assert "accumulator" not in plain.result()
