"""Each statistic against its definition, and its calibration against a search by hand."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from approxnorm import ApproxNormError, RMSNorm, RMSNormSpec
from approxnorm.formats import Rounding
from approxnorm.methods.statistics import (
    BIAS_BITS,
    STATISTICS,
    Statistic,
    calibrate_statistic,
    observe,
)
from approxnorm.program import Interval

INT8 = Interval(-128, 127)
INT16 = Interval(-32768, 32767)


def statistic(method: str, **fields: Any) -> Statistic:
    return STATISTICS.get(method)(method=method, **fields)


def mean_squares(
    method: str, rows: Any, interval: Interval = INT16, **fields: Any
) -> list[Fraction]:
    """What a statistic sees of each row, exactly, with its bias."""
    rows = np.atleast_2d(np.asarray(rows))
    resolved = statistic(method, **fields).resolved(rows.shape[1])
    observed = observe(resolved, rows, interval)
    bias = resolved.bias_fraction
    return [Fraction(float(m)) * bias for m in observed.mean_square]


def signals(method: str, rows: Any, **fields: Any) -> dict[str, Any]:
    rows = np.atleast_2d(np.asarray(rows))
    resolved = statistic(method, **fields).resolved(rows.shape[1])
    observed = observe(resolved, rows, INT16)
    return {n: v.tolist() for n, v in observed.signals.items()}


# --- definitions ----------------------------------------------------------------------------------


def test_full_is_the_mean_square() -> None:
    assert mean_squares("full", [[3, -4], [0, 0], [-32768, 32767]]) == [
        Fraction(25, 2),
        0,
        Fraction(32768**2 + 32767**2, 2),
    ]


def test_prefix_sees_the_first_elements_only() -> None:
    row = [1, 2, 3, 100, 200, 300, 400, 500]
    assert mean_squares("prefix", row, count=2) == [Fraction(5, 2)]
    assert mean_squares("prefix", row, fraction=0.25) == [Fraction(5, 2)]
    assert mean_squares("prefix", row, fraction=0.01) == [1]  # at least one element


def test_strided_sees_every_nth_element() -> None:
    row = [1, 20, 3, 20, 5, 20, 7]
    assert mean_squares("strided", row) == [Fraction(1 + 9 + 25 + 49, 4)]
    assert mean_squares("strided", row, start=2, stride=2, count=2) == [17]
    assert mean_squares("strided", row, start=1, stride=3) == [Fraction(400 + 25, 2)]


@pytest.mark.parametrize(
    ("method", "fields", "words"),
    [
        ("prefix", {"count": 9}, "count is 9; a row of 8 has 8 elements"),
        ("prefix", {}, "count or fraction"),
        ("prefix", {"count": 2, "fraction": 0.5}, "count or fraction"),
        ("strided", {"start": 8}, "start is 8; allowed: 0 to 7"),
        ("strided", {"stride": 3, "count": 4}, "count is 4; .* 3 elements .* stride 3"),
    ],
)
def test_subsets_must_lie_in_the_row(method: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ApproxNormError, match=words):
        mean_squares(method, np.zeros((1, 8), int), **fields)


def test_low_bit_rounds_and_clips() -> None:
    row = [0, 7, 8, 23, 24, -24, 999, -1000]
    found = signals("low_bit", row, bits=2, step_exponent=4)
    assert found["low_code"] == [[0, 0, 1, 1, 2, 2, 3, 3]]
    found = signals("low_bit", row, bits=2, step_exponent=4, rounding=Rounding.TRN)
    assert found["low_code"] == [[0, 0, 0, 1, 1, 1, 3, 3]]
    assert mean_squares("low_bit", row, bits=2, step_exponent=4) == [
        Fraction((1 + 1 + 4 + 4 + 9 + 9) * 16**2, 8)
    ]


def test_outlier_exact_squares_outliers_exactly() -> None:
    # 3 bits, step 4: the outliers are |x| >= 4 * 7.5 = 30
    row = [0, 1, 2, -29, 30, -31, 1000, 5]
    found = signals("outlier_exact", row, bits=3, step_exponent=2)
    assert found["outlier"] == [[0, 0, 0, 0, 30, 31, 1000, 0]]
    assert found["low_code"] == [[0, 0, 1, 7, 0, 0, 0, 1]]
    want = (1 + 49 + 1) * 16 + 30**2 + 31**2 + 1000**2
    assert found["exact_sum"] == [want]
    assert mean_squares("outlier_exact", row, bits=3, step_exponent=2) == [Fraction(want, 8)]


def test_outlier_threshold_of_step_1_is_a_half() -> None:
    found = signals("outlier_exact", [3, 4, -3, -4], bits=2, step_exponent=0)  # 3.5
    assert found["is_low"] == [[1, 0, 1, 0]]


def test_outlier_exact_top_replaces_the_largest() -> None:
    row = [100, 1, -200, 3, 50, 200, 0, 7]
    fields = {"bits": 2, "step_exponent": 3, "outliers": "top", "top": 3}
    found = signals("outlier_exact", row, **fields)
    assert [found[f"largest_{i}"] for i in range(3)] == [[200], [200], [100]]
    low = [0, 0, 9, 0, 0 + 1]  # 1, 3, 50, 0, 7 at step 8: 0, 0, 3 (clipped), 0, 1
    assert found["exact_sum"] == [100**2 + 2 * 200**2 + 64 * sum(low)]


@pytest.mark.parametrize("top", [1, 2, 4, 8])
def test_top_does_not_depend_on_the_order_of_a_row(top: int) -> None:
    rng = np.random.default_rng(top)
    row = rng.choice([-90, 90, 91, 5, 6, 7], 40)  # many ties
    fields = {"bits": 3, "step_exponent": 3, "outliers": "top", "top": top}
    rows = np.stack([rng.permutation(row) * rng.choice([-1, 1], 40) for _ in range(20)])
    assert len(set(signals("outlier_exact", rows, **fields)["exact_sum"])) == 1


def test_top_beyond_the_row_squares_all_exactly() -> None:
    rows = np.array([[-5, 9, 100]])
    fields = {"bits": 1, "step_exponent": 6, "outliers": "top", "top": 8}
    assert mean_squares("outlier_exact", rows, **fields) == mean_squares("full", rows)


@pytest.mark.parametrize("offset", [-3, -1, 0, 2])
def test_dynamic_step_follows_the_mean_magnitude(offset: int) -> None:
    """2**(floor(log2 mean|x|) + offset), at least 1; the mean is known to 8 bits."""
    rng = np.random.default_rng(1)
    rows = rng.integers(-1000, 1001, (300, 12)) >> rng.integers(0, 11, (300, 1))
    rows[:3] = [[0] * 12, [1] + [0] * 11, [-32768] * 12]
    steps = signals("low_bit", rows, step="dynamic", step_offset=offset)["step"]
    for row, step in zip(rows.tolist(), steps, strict=True):
        mean = Fraction(sum(map(abs, row)), 12)
        near = {_floor_log2(mean * f) for f in (1 - Fraction(1, 256), 1, 1 + Fraction(1, 256))}
        assert step in {max(0, n + offset) for n in near}


def _floor_log2(value: Fraction) -> int:
    if value == 0:
        return -99
    floor = value.numerator.bit_length() - value.denominator.bit_length()
    return floor if Fraction(2) ** floor <= value else floor - 1


def test_dynamic_step_rescales_the_sum() -> None:
    rows = np.array([[8] * 4, [64] * 4, [-1, 1, 1, 1]])
    for method in ("low_bit", "outlier_exact"):
        fields = {"step": "dynamic", "step_offset": -1, "bits": 4}
        assert mean_squares(method, rows, **fields) == [64, 4096, 1]


def test_sole_compresses_as_the_paper_says() -> None:
    """DynamicCompress: u >= 64 keeps round(u / 16), smaller ones round(u / 4), at most 15."""
    magnitude = np.arange(256)
    found = signals("sole", magnitude, input_shift=0)
    for u, code, square in zip(magnitude, found["compressed"][0], found["square"][0], strict=True):
        unit = 16 if u >= 64 else 4
        assert code == min(15, math.floor(u / unit + 0.5))
        assert square == code**2 * (16 if unit == 16 else 1)
    assert np.array_equal(found["square"], signals("sole", -magnitude, input_shift=0)["square"])


def test_sole_on_uniform_bytes_errs_as_recomputed() -> None:
    """-0.42 % on E(x**2) and -0.21 % on the RMS, recomputed from the paper's definition."""
    (seen,) = mean_squares("sole", np.arange(256), input_shift=0)
    (true,) = mean_squares("full", np.arange(256))
    assert round(float(seen / true - 1) * 100, 2) == -0.42
    assert round((math.sqrt(seen / true) - 1) * 100, 2) == -0.21


@pytest.mark.parametrize(("sigma", "percent"), [(48, 0.64), (32, 0.97), (16, 2.7), (8, 6), (4, 14)])
def test_sole_on_gaussian_bytes_errs_as_recomputed(sigma: int, percent: float) -> None:
    """The RMS error of |N(0, sigma)| bytes, by the probabilities of the rounded magnitudes."""
    edges = [math.erf((u + 0.5) / sigma / math.sqrt(2)) for u in range(127)]
    chance = np.diff([0.0, *edges, 1.0])
    u = np.arange(128)
    squares = np.array(signals("sole", u, input_shift=0)["square"][0]) * 16.0
    error = math.sqrt((squares @ chance) / (u * u @ chance)) - 1
    assert abs(error * 100 - percent) < 0.06 * percent


def test_sole_shifts_wide_magnitudes_first() -> None:
    found = signals("sole", [1000, -32768, 7, 8], input_shift=4)
    assert found["magnitude"] == [[63, 255, 0, 1]]  # 62.5 rounds up; 2048 is clipped


@pytest.mark.parametrize("bits", range(5))
@pytest.mark.parametrize("rounding", ["RND", "TRN"])
def test_leading_one_keeps_the_first_bits(bits: int, rounding: str) -> None:
    magnitude = np.arange(2049)
    method = "leading_one" if bits else "power_of_two"
    fields = {"bits": bits} if bits else {}
    found = signals(method, -magnitude, rounding=Rounding(rounding), **fields)["square"][0]
    for m, square in zip(magnitude.tolist(), found, strict=True):
        unit = 2 ** max(0, m.bit_length() - 1 - bits)
        kept = (m + unit // 2 if rounding == "RND" else m) // unit * unit
        assert square == kept**2


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("rounding", ["RND", "TRN"])
def test_a_table_of_squares_gives_the_multipliers_sums(bits: int, rounding: str) -> None:
    rows = np.arange(-3000, 3000).reshape(10, 600)
    fields = {"bits": bits, "rounding": Rounding(rounding)}
    multiplied, looked_up = (
        signals("leading_one", rows, squarer=s, **fields)["square"] for s in ("multiply", "table")
    )
    assert looked_up == multiplied


def test_a_power_of_two_needs_no_table_of_squares() -> None:
    with pytest.raises(
        ApproxNormError, match=r'squarer is "table", but .*bits is 0: .* "power_of_'
    ):
        mean_squares("leading_one", [1], bits=0, squarer="table")


def test_leading_one_of_0_bits_is_power_of_two() -> None:
    rows = np.arange(-500, 500).reshape(10, 100)
    assert mean_squares("leading_one", rows, bits=0) == mean_squares("power_of_two", rows)


def test_mean_abs_is_the_ratio_times_the_mean_magnitude() -> None:
    (seen,) = mean_squares("mean_abs", [3, -5, 0, 8], ratio=1.25)
    assert float(seen) == (1.25 * 4) ** 2
    (gaussian,) = mean_squares("mean_abs", [3, -5, 0, 8])
    assert math.isclose(float(gaussian), math.pi / 2 * 16, rel_tol=1e-15)


def test_bias_scales_the_mean_square() -> None:
    (plain,) = mean_squares("full", [3, 4, 5])
    assert mean_squares("full", [3, 4, 5], bias=1.5) == [plain * Fraction(3, 2)]


def test_negative_minimum_counts_in_full() -> None:
    for method, fields in _EVERY.items():
        rows = np.full((1, 16), -32768)
        (seen,) = mean_squares(method, rows, **fields)
        assert seen > 0, method
        if method in ("full", "prefix", "strided", "leading_one", "power_of_two", "outlier_exact"):
            assert seen == 32768**2, method


_EVERY: dict[str, dict[str, Any]] = {
    "full": {},
    "prefix": {"count": 5},
    "strided": {},
    "low_bit": {"step_exponent": 4},
    "outlier_exact": {"step_exponent": 4},
    "sole": {"input_shift": 7},
    "leading_one": {},
    "power_of_two": {},
    "mean_abs": {},
}


def test_every_statistic_is_here() -> None:
    assert sorted(_EVERY) == STATISTICS.names()


@pytest.mark.parametrize("method", sorted(_EVERY))
def test_zero_rows_have_no_energy_and_signs_do_not_matter(method: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(-3000, 3000, (20, 16))
    rows[0] = 0
    fields = _EVERY[method]
    seen = mean_squares(method, rows, **fields)
    assert seen[0] == 0
    assert seen == mean_squares(method, -rows, **fields)


def test_outliers_decide() -> None:
    """A row like a sink token's: one channel a thousand times the others."""
    rng = np.random.default_rng(4)
    row = np.rint(rng.standard_normal(576) * 8).astype(np.int64)
    row[100] = 26_000
    (true,) = mean_squares("full", row)
    low = {"bits": 4, "step_exponent": 2}
    assert abs(mean_squares("outlier_exact", row, **low)[0] / true - 1) < 1e-3
    top = low | {"outliers": "top", "top": 1}
    assert abs(mean_squares("outlier_exact", row, **top)[0] / true - 1) < 1e-3
    assert mean_squares("low_bit", row, **low)[0] / true < 0.01
    assert mean_squares("prefix", row, count=64)[0] / true < 0.01
    assert mean_squares("mean_abs", row)[0] / true < 0.01


# --- accumulators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(_EVERY))
def test_a_narrow_accumulator_needs_a_mode_and_is_told_its_width(method: str) -> None:
    fields = _EVERY[method] | {"accumulator": {"bits": 5}}
    with pytest.raises(ApproxNormError, match=r"accumulator\.bits is 5; the sum needs \d+ bits"):
        mean_squares(method, np.zeros((1, 16), int), **fields)
    wide = _EVERY[method] | {"accumulator": {"bits": 62}}
    rows = np.arange(-8, 8)
    assert mean_squares(method, rows, **wide) == mean_squares(method, rows, **_EVERY[method])


@pytest.mark.parametrize(
    ("overflow", "want"), [("SAT", 255), ("WRAP", 300 % 256), ("SAT_ZERO", 0), ("SAT_SYM", 255)]
)
def test_narrow_accumulators_overflow_as_named(overflow: str, want: int) -> None:
    fields = {"accumulator": {"bits": 8, "overflow": overflow}}
    found = signals("full", [10, 10, 10], **fields)
    assert found["sum"] == [300]
    assert found["accumulated"] == [want]
    assert signals("full", [10, 10, 5], **fields)["accumulated"] == [225]


@pytest.mark.parametrize("overflow", ["SAT", "WRAP", "SAT_ZERO", "SAT_SYM"])
def test_a_narrow_sum_with_top_outliers_stays_at_or_above_zero(overflow: str) -> None:
    # 12 rounds up to 2 steps of 8: the low-bit square is above the true one.
    fields = {"bits": 3, "step_exponent": 3, "outliers": "top", "top": 8}
    fields["accumulator"] = {"bits": 5, "overflow": overflow}
    found = signals("outlier_exact", [[12] * 8, [100] * 8], **fields)
    assert min(found["exact_sum"]) >= 0


# --- calibration ----------------------------------------------------------------------------------


def laplace(rows: int, dim: int, seed: int, *, outliers: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = np.rint(rng.laplace(0, 40, (rows, dim)) * np.exp2(rng.integers(-2, 3, (rows, 1))))
    if outliers:
        codes[:, 3] *= 30
    return np.clip(codes, -32768, 32767).astype(np.int64)


def relative_rms_error(found: Statistic, codes: np.ndarray) -> float:
    """sqrt(mean over rows of (RMS seen / RMS - 1)**2), rows of zeros left out."""
    seen = mean_squares(found.method, codes, **_fields(found))
    errors = [
        (math.sqrt(s / Fraction(int(np.sum(row * row)), len(row))) - 1) ** 2
        for s, row in zip(seen, codes, strict=True)
        if np.any(row)
    ]
    return math.sqrt(sum(errors) / len(errors))


def _fields(found: Statistic) -> dict[str, Any]:
    return {n: getattr(found, n) for n in type(found).model_fields if n != "method"}


Changed = Callable[..., Statistic]

SEARCHES: list[tuple[str, dict[str, Any], str, range]] = [
    ("low_bit", {"bits": 4}, "step_exponent", range(16)),
    ("low_bit", {"bits": 2, "rounding": Rounding.TRN}, "step_exponent", range(16)),
    ("low_bit", {"bits": 4, "step": "dynamic"}, "step_offset", range(-4, 4)),
    ("outlier_exact", {"bits": 4, "max_outliers": 1.0}, "step_exponent", range(16)),
    ("outlier_exact", {"bits": 3, "outliers": "top"}, "step_exponent", range(16)),
    (
        "outlier_exact",
        {"bits": 3, "outliers": "top", "step": "dynamic"},
        "step_offset",
        range(-4, 4),
    ),
    ("sole", {}, "input_shift", range(9)),
]


@pytest.mark.parametrize("bias", [1.0, "calibrate"])
@pytest.mark.parametrize("search", range(len(SEARCHES)))
def test_calibration_finds_the_least_error(search: int, bias: Any) -> None:
    method, fields, field, values = SEARCHES[search]
    codes = laplace(24, 48, seed=search, outliers=method != "low_bit")
    codes[5] = 0
    fields = fields | {"bias": bias}
    found = calibrate_statistic(statistic(method, **fields), codes, INT16)
    assert found.missing() == []
    least = relative_rms_error(found, codes)
    for value in values:
        fixed = statistic(method, **fields | {field: value})
        other = calibrate_statistic(fixed, codes, INT16)
        assert getattr(other, field) == value
        if np.any(mean_squares(method, codes, **_fields(other))):
            assert least <= relative_rms_error(other, codes) * (1 + 1e-9)


@pytest.mark.parametrize("method", sorted(_EVERY))
def test_bias_is_the_least_squares_one(method: str) -> None:
    codes = laplace(24, 48, seed=9, outliers=True)
    fields = _EVERY[method] | {"bias": "calibrate"}
    found = calibrate_statistic(statistic(method, **fields), codes, INT16)
    bias = found.bias
    assert isinstance(bias, float)
    unit = 2.0**-BIAS_BITS
    assert bias / unit == round(bias / unit)
    if method == "full":
        assert bias == 1
    least = relative_rms_error(found, codes)
    for other in (bias - 2 * unit, bias + 2 * unit, bias * 0.9, bias * 1.1, 1.0):
        changed = found.model_copy(update={"bias": other})
        assert least <= relative_rms_error(changed, codes) + 1e-12


@pytest.mark.parametrize("limit", [None, 0.5, 0.1, 0.02, 0.0005])
def test_max_outliers_is_respected(limit: float | None) -> None:
    codes = laplace(40, 64, seed=2, outliers=True)
    fields: dict[str, Any] = {"bits": 3, "max_outliers": limit}
    found = calibrate_statistic(statistic("outlier_exact", **fields), codes, INT16)
    shares, errors = {}, {}
    for step in range(16):
        fixed = statistic("outlier_exact", **fields | {"step_exponent": step})
        outlier = observe(fixed, codes, INT16).signals["outlier"]
        shares[step] = np.count_nonzero(outlier) / outlier.size
        errors[step] = relative_rms_error(fixed, codes)
    most = 0.4 / 8 if limit is None else limit
    chosen = found.step_exponent  # type: ignore[attr-defined]
    assert shares[chosen] <= most
    allowed = [s for s in errors if shares[s] <= most]
    assert errors[chosen] <= min(errors[s] for s in allowed) * (1 + 1e-9)


@pytest.mark.parametrize("bits", range(1, 7))
def test_the_derived_limit_of_outliers_can_always_be_kept(bits: int) -> None:
    """By Markov's inequality, for the coarsest dynamic step and any data."""
    rng = np.random.default_rng(bits)
    spikes = np.zeros((30, 200), np.int64)
    for i, row in enumerate(spikes):
        row[: 1 + i] = 30_000
    for codes in (
        spikes,
        laplace(30, 200, seed=bits, outliers=True),
        rng.integers(0, 2, (30, 200)),
    ):
        fields = {"bits": bits, "step": "dynamic"}
        found = calibrate_statistic(statistic("outlier_exact", **fields), codes, INT16)
        outlier = observe(found, codes, INT16).signals["outlier"]
        assert np.count_nonzero(outlier) / outlier.size <= 0.4 / 2**bits


def test_a_limit_that_no_step_keeps_is_refused() -> None:
    codes = np.zeros((4, 200), np.int64)
    codes[:, 0] = 30_000
    fields = {"bits": 1, "step": "dynamic", "max_outliers": 1e-4}
    with pytest.raises(ApproxNormError, match="max_outliers"):
        calibrate_statistic(statistic("outlier_exact", **fields), codes, INT16)


def test_what_is_given_is_left_alone() -> None:
    codes = laplace(10, 32, seed=0, outliers=True)
    fixed = statistic("low_bit", bits=3, step_exponent=1)
    assert calibrate_statistic(fixed, codes, INT16) == fixed
    half = statistic("low_bit", bits=3, step_exponent=1, bias="calibrate")
    assert calibrate_statistic(half, codes, INT16).step_exponent == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_rows_of_zeros_alone_still_give_numbers(rows: int) -> None:
    for method, given in _EVERY.items():
        fields = {k: v for k, v in given.items() if k in ("count",)} | {"bias": "calibrate"}
        found = calibrate_statistic(
            statistic(method, **fields).resolved(16), np.zeros((rows, 16), np.int64), INT16
        )
        assert found.missing() == [], method
        assert found.bias == 1.0


def test_uncalibrated_statistics_are_refused() -> None:
    fields: dict[str, Any] = {
        "norm": "rmsnorm",
        "dim": 8,
        "eps": 0,
        "x": "ap_fixed<8,4>",
        "gamma": "ap_fixed<8,2>",
        "y": "ap_fixed<8,4,RND,SAT>",
        "rsqrt": {"method": "direct"},
        "normalize": {"method": "multiply"},
    }
    for st, words in (
        ({"method": "low_bit"}, "statistic.step_exponent is open"),
        ({"method": "low_bit", "step": "dynamic"}, "statistic.step_offset is open"),
        ({"method": "sole"}, "statistic.input_shift is open"),
        ({"method": "full", "bias": "calibrate"}, "statistic.bias is open"),
    ):
        with pytest.raises(ApproxNormError, match=words):
            RMSNorm(RMSNormSpec(**fields, statistic=st), np.zeros(8))


def test_more_bits_in_the_statistic_err_less() -> None:
    """ARNorm-style: at 2, 4 and 6 bits the RMS of well-behaved rows errs less and less."""
    rng = np.random.default_rng(8)
    codes = np.rint(rng.standard_normal((40, 256)) * 500).astype(np.int64)
    errors = []
    for bits in (1, 2, 4, 6):
        found = calibrate_statistic(statistic("low_bit", bits=bits, bias="calibrate"), codes, INT16)
        errors.append(relative_rms_error(found, codes))
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 0.005
