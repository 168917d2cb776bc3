"""Calibration: its rules, that it does not depend on how data arrives, and what it says."""

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from approxnorm import ApproxNormError, EpsWarning, RMSNorm, RMSNormSpec, preset, preset_names
from approxnorm.calibrate import (
    MAX_SAMPLE_ROWS,
    Calibration,
    Calibrator,
    calibrate,
    calibrate_array,
)
from approxnorm.reference import rmsnorm_float64

OPEN: dict[str, Any] = {
    "norm": "rmsnorm",
    "eps": 1e-5,
    "x": {"bits": 16},
    "gamma": {"bits": 12},
    "y": {"bits": 14, "rounding": "RND_CONV", "overflow": "SAT"},
    "statistic": {"method": "full"},
    "rsqrt": {"method": "linear", "segments": 4, "bits": 9},
    "normalize": {"method": "multiply"},
}
DIM = 40


def activations(rows: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, DIM)) * np.exp2(rng.integers(-2, 3, (rows, 1)))
    x[:, 5] *= 20
    return x.astype(np.float32), 1 + 0.3 * rng.standard_normal(DIM)


def run(x: np.ndarray, gamma: np.ndarray, /, **changes: Any) -> Calibration:
    with warnings.catch_warnings():
        warnings.simplefilter("error", EpsWarning)
        return calibrate_array(RMSNormSpec(**OPEN | changes), x, gamma)


def scales(done: Calibration) -> dict[str, float]:
    return {n: float(getattr(done.spec, n).to_format(n).scale) for n in ("x", "gamma", "y")}


# --- scales ---------------------------------------------------------------------------------------


def test_pow2_is_the_smallest_power_of_two_that_holds_the_data() -> None:
    x, gamma = activations()
    done = run(x, gamma)
    assert done.spec.missing() == []
    assert done.spec.dim == DIM
    y = rmsnorm_float64(x, gamma, 1e-5)
    for name, values, largest in (("x", x, 32767), ("gamma", gamma, 2047), ("y", y, 8191)):
        scale, peak = scales(done)[name], np.abs(values).max()
        assert math.log2(scale) == int(math.log2(scale))
        assert peak <= scale * largest
        assert peak > scale / 2 * largest


def test_absmax_maps_the_largest_magnitude_to_the_largest_code() -> None:
    x, gamma = activations()
    rule = {"calibrate": "absmax"}
    done = run(x, gamma, **{n: OPEN[n] | rule for n in ("x", "gamma", "y")})
    assert scales(done)["x"] == np.float32(np.abs(x).max() / 32767)
    model = RMSNorm(done.spec, gamma)
    assert np.abs(model.quantize(x).astype(int)).max() == 32767
    assert np.abs(model.gamma).max() == 2047
    y = rmsnorm_float64(x, gamma, 1e-5)
    assert scales(done)["y"] == np.float32(np.abs(y).max() / 8191)


@pytest.mark.parametrize("peak", [1.0, 0.5, 127.0, 128.0, 127.00001, 1e-20, 3e38])
def test_pow2_at_its_edges(peak: float) -> None:
    x = np.zeros((2, DIM), np.float32)
    x[1, 3] = -peak
    done = run(x, np.ones(DIM), x={"bits": 8}, eps=0)
    scale = scales(done)["x"]
    assert np.abs(x).max() <= scale * 127
    assert np.abs(x).max() > scale / 2 * 127


def test_unsigned_formats_use_all_their_codes() -> None:
    x, gamma = activations()
    done = run(np.abs(x), gamma, x={"bits": 10, "signed": False, "calibrate": "absmax"})
    assert RMSNorm(done.spec, gamma).quantize(np.abs(x)).max() == 1023


@pytest.mark.parametrize("zero_point", [0, 1, 40, 128, 250, 255])
@pytest.mark.parametrize("rule", ["pow2", "absmax"])
def test_a_zero_point_has_codes_for_both_sides(zero_point: int, rule: str) -> None:
    """The scale is the least with which both ends of the data have a code."""
    x, gamma = activations()
    x = np.where(x < 0, x / 8, x)
    if zero_point in (0, 255):  # codes on one side only
        x = np.abs(x) if zero_point == 0 else -np.abs(x)
    form = {"bits": 8, "signed": False, "zero_point": zero_point, "calibrate": rule}
    done = run(x, gamma, x=form, eps=1.0)
    scale = scales(done)["x"]
    above, below = max(0.0, float(x.max())), max(0.0, -float(x.min()))
    low, high = -scale * zero_point, scale * (255 - zero_point)
    assert low * (1 + 1e-6) <= -below
    assert above <= high * (1 + 1e-6)
    smaller = scale * (0.5 if rule == "pow2" else 0.999)
    assert -below < -smaller * zero_point or above > smaller * (255 - zero_point)


def test_gemma_is_calibrated_with_one_plus_gamma() -> None:
    x, gamma = activations()
    done = run(x, gamma - 1, normalize={"method": "multiply", "order": "gemma"})
    plain = run(x, gamma)
    assert scales(done)["y"] == scales(plain)["y"]
    assert scales(done)["gamma"] < scales(plain)["gamma"]


@pytest.mark.parametrize("rule", ["pow2", "absmax"])
def test_a_folded_constant_counts_in_gamma(rule: str) -> None:
    """No code saturates, and with half the scale some would."""
    for dim in range(20, 44, 3):
        rng = np.random.default_rng(dim)
        x, gamma = rng.standard_normal((9, dim)).astype(np.float32), rng.uniform(-1, 1, dim)
        form = {"bits": 8, "calibrate": rule}
        done = run(x, gamma, gamma=form, normalize={"method": "multiply", "constant": "gamma"})
        model = RMSNorm(done.spec, gamma)
        assert 63 <= np.abs(model.gamma).max() <= 127
        assert np.all(np.abs(model.gamma_real() - gamma) <= scales(done)["gamma"] * 0.5001)


def test_the_log_domain_leaves_gamma_codes_alone() -> None:
    """There the constant goes into gamma's logarithms, not into its codes."""
    x, gamma = activations()
    normalize = {"method": "log", "constant": "gamma"}
    form = {"bits": 8, "calibrate": "absmax"}
    done = run(x, gamma, gamma=form, normalize=normalize, rsqrt={"method": "log2"})
    assert np.abs(RMSNorm(done.spec, gamma).gamma).max() == 127


@pytest.mark.parametrize("rule", ["pow2", "absmax"])
def test_headroom_leaves_bits_free(rule: str) -> None:
    x, gamma = activations()
    form = {"bits": 16, "calibrate": rule}
    plain, free = run(x, gamma, x=form), run(x, gamma, x=form | {"headroom": 2})
    assert scales(free)["x"] == 4 * scales(plain)["x"]
    assert free.spec.x.headroom == 0  # it has had its effect: specs that mean the same are equal
    assert "2^2" in free.notes[0]
    fixed = RMSNormSpec(**OPEN | {"x": {"bits": 16, "scale": 0.5, "headroom": 2}})
    assert fixed.x.headroom == 0


@pytest.mark.parametrize(("form", "most"), [({"bits": 8}, 6), ({"bits": 8, "signed": False}, 7)])
def test_headroom_leaves_a_bit_for_the_values(form: dict[str, Any], most: int) -> None:
    RMSNormSpec(**OPEN | {"x": form | {"headroom": most}})
    with pytest.raises(ApproxNormError, match=f"headroom is {most + 1}; .* at most {most}"):
        RMSNormSpec(**OPEN | {"x": form | {"headroom": most + 1}})


def test_a_scale_past_float32_is_refused() -> None:
    x, gamma = activations()
    huge = np.abs(x) / np.abs(x).max() * 3e38
    with pytest.raises(ApproxNormError, match=r"x: max\|x\| = 3e\+38, .* allowed: at most 2\^127"):
        run(huge, gamma, x={"bits": 8, "zero_point": 126})


@pytest.mark.parametrize("rule", ["pow2", "absmax"])
def test_headroom_is_free_in_every_channel(rule: str) -> None:
    """A channel's factor and the scale together leave the bits free, in x and in y."""
    x, gamma = activations()
    form = {"bits": 12, "calibrate": rule}
    changes = {"channel_shifts": {"max_shift": 3}, "y_channel_shifts": {"max_shift": 3}}
    modes = {"rounding": "RND", "overflow": "SAT"}
    plain = run(x, gamma, x=form, y=form | modes, **changes)
    form |= {"headroom": 2}
    free = run(x, gamma, x=form, y=form | modes, **changes)
    for name, field in (("x", "channel_shifts"), ("y", "y_channel_shifts")):
        assert scales(free)[name] == 4 * scales(plain)[name]
        shifts = [getattr(done.spec, field).shifts for done in (free, plain)]
        assert shifts[0] == shifts[1]  # so that each channel's reach is 4 times as far


# --- channel factors ------------------------------------------------------------------------------


def test_channel_factors_serve_the_outlier_channels() -> None:
    x, gamma = activations()
    done = run(x, gamma, x={"bits": 8}, channel_shifts={"max_shift": 4})
    assert done.spec.channel_shifts is not None
    shifts = done.spec.channel_shifts.shifts
    assert shifts is not None
    scale, peaks = scales(done)["x"], np.abs(x).max(axis=0)
    for peak, shift in zip(peaks, shifts, strict=True):
        assert peak <= scale * 127 * 2**shift
        assert shift == 0 or peak > scale * 127 * 2 ** (shift - 1)
    assert shifts[5] == max(shifts) == 4
    plain = run(x, gamma, x={"bits": 8})
    assert scale == scales(plain)["x"] / 16
    model = RMSNorm(done.spec, gamma)
    assert np.abs(model.quantize(x).astype(int)).max() <= 127
    error = np.abs(model.dequantize_x(model.quantize(x)) - x)
    assert np.all(error <= scale * np.exp2(np.array(shifts)) / 2)


def test_given_factors_are_kept_and_their_scale_follows() -> None:
    x, gamma = activations()
    shifts = [4 if i == 5 else 0 for i in range(DIM)]
    done = run(x, gamma, x={"bits": 8}, channel_shifts={"shifts": shifts})
    assert done.spec.channel_shifts is not None
    assert done.spec.channel_shifts.shifts == tuple(shifts)
    need = (np.abs(x).max(axis=0) / np.exp2(shifts)).max()
    assert scales(done)["x"] * 127 / 2 < need <= scales(done)["x"] * 127


def test_a_given_scale_bounds_the_factors() -> None:
    x, gamma = activations()
    fixed = {"bits": 8, "scale": float(2.0 ** np.ceil(np.log2(np.abs(x).max() / 127)))}
    done = run(x, gamma, x=fixed, channel_shifts={"max_shift": 4})
    assert done.spec.channel_shifts is not None
    assert set(done.spec.channel_shifts.shifts or ()) == {0}
    tiny = run(x, gamma, x={"bits": 8, "scale": 1e-6}, channel_shifts={"max_shift": 4})
    assert tiny.spec.channel_shifts is not None
    assert set(tiny.spec.channel_shifts.shifts or ()) == {4}  # the most there is; it saturates


def test_channels_of_zeros_have_no_factor() -> None:
    x, gamma = activations()
    x[:, 7] = 0
    done = run(x, gamma, x={"bits": 8}, channel_shifts={})
    assert done.spec.channel_shifts is not None
    assert done.spec.channel_shifts.shifts is not None
    assert done.spec.channel_shifts.shifts[7] == 0


def test_factors_of_y() -> None:
    x, gamma = activations()
    x *= np.exp2(np.arange(DIM) % 6).astype(np.float32)
    form = {"bits": 8, "rounding": "RND_CONV", "overflow": "SAT"}
    plain = run(x, gamma, y=form)
    done = run(x, gamma, y=form, y_channel_shifts={"max_shift": 3})
    assert done.spec.y_channel_shifts is not None
    shifts = np.array(done.spec.y_channel_shifts.shifts)
    assert set(shifts) == {0, 1, 2, 3}
    assert scales(done)["y"] == scales(plain)["y"] / 8
    peaks = np.abs(rmsnorm_float64(x, gamma, done.spec.eps)).max(axis=0)
    assert np.all(peaks <= scales(done)["y"] * 127 * np.exp2(shifts))
    small = shifts > 0
    assert np.all(peaks[small] > scales(done)["y"] * 127 * np.exp2(shifts[small] - 1))
    left = np.abs(gamma / np.exp2(shifts)).max() / 2047
    assert left <= scales(done)["gamma"] < 2 * left  # gamma without the factors
    errors = []
    for each in (plain, done):
        model = RMSNorm(each.spec, gamma)
        y = model.dequantize(model(model.quantize(x)))
        errors.append(np.abs(y - rmsnorm_float64(x, gamma, done.spec.eps)).mean())
    assert errors[1] < errors[0] / 2


def test_with_a_row_exponent_factors_of_x_are_relative_to_the_row() -> None:
    x, gamma = activations()
    x *= np.exp2(np.arange(DIM) % 6).astype(np.float32)
    x[0] *= 1000  # one loud row says nothing about the channels
    fields = {"x": {"bits": 24}, "row_exponent": {"bits": 8}}
    done = run(x, gamma, **fields, channel_shifts={"max_shift": 4})
    assert done.spec.channel_shifts is not None
    shifts = np.array(done.spec.channel_shifts.shifts)
    relative = np.abs(x / np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True)))
    peaks = relative.max(axis=0)
    wanted = np.clip(4 + np.rint(np.log2(peaks / peaks.max())), 0, 4)
    np.testing.assert_array_equal(shifts, wanted)
    assert len(set(shifts)) > 1
    errors = []
    for each in (run(x, gamma, **fields), done):
        model = RMSNorm(each.spec, gamma)
        aligned = model(model.quantize(x), trace=True)[1]
        lsb = float(model.assembly.x_format.scale)
        real = aligned[model.assembly.row.x.name] * lsb
        error = real * np.exp2(aligned["row_shift"].astype(float))[:, None] - x
        errors.append(np.abs(error[1:]).mean())
    assert errors[1] < errors[0] / 2


# --- what is fixed stays --------------------------------------------------------------------------


def test_fixed_numbers_are_left_alone() -> None:
    x, gamma = activations()
    fixed = {
        "x": "ap_fixed<16,9,RND_CONV,SAT>",
        "gamma": {"bits": 12, "scale": 0.3},
        "y": "ap_fixed<14,7,TRN,WRAP>",
        "dim": DIM,
    }
    spec = RMSNormSpec(**OPEN | fixed)

    def untouched() -> Iterable[np.ndarray]:
        raise AssertionError("a spec with nothing open needs no data")

    done = calibrate(spec, untouched, gamma)
    assert done.spec == spec
    assert done.notes == []
    for name in ("x", "gamma", "y"):
        partly = run(x, gamma, **{name: fixed[name]})
        assert getattr(partly.spec, name) == getattr(spec, name)
        assert not any(note.startswith(f"{name}:") for note in partly.notes)


def test_fields_of_the_statistic_are_kept_or_chosen() -> None:
    x, gamma = activations()
    fixed = run(x, gamma, statistic={"method": "low_bit", "step_exponent": 3, "bias": 1.25})
    assert fixed.spec.to_dict()["statistic"]["step_exponent"] == 3
    assert fixed.spec.statistic.bias == 1.25
    chosen = run(x, gamma, statistic={"method": "low_bit", "bias": "calibrate"})
    assert chosen.spec.statistic.missing() == []


# --- how data arrives -----------------------------------------------------------------------------


def cut(x: np.ndarray, sizes: Iterable[int]) -> list[np.ndarray]:
    blocks, start = [], 0
    for size in sizes:
        blocks.append(x[start : start + size])
        start += size
    return [*blocks, x[start:]]


@pytest.mark.parametrize("rows", [1, 7, MAX_SAMPLE_ROWS, MAX_SAMPLE_ROWS + 1, 5000])
def test_blocks_of_any_size_give_the_same(rows: int) -> None:
    rng = np.random.default_rng(rows)
    x = (rng.standard_normal((rows, DIM)) * np.exp2(rng.integers(-3, 4, (rows, 1)))).astype("f4")
    gamma = np.ones(DIM)
    spec = RMSNormSpec(**OPEN | {"statistic": {"method": "low_bit", "bias": "calibrate"}})
    want = calibrate(spec, lambda: [x], gamma)
    for sizes in ([1] * min(rows, 50), [0, 3, 0], [1000, 1, 1500], [rows // 2]):
        done = calibrate(spec, lambda s=sizes: cut(x, s), gamma)  # type: ignore[misc]
        assert done.spec == want.spec
        assert done.notes == want.notes


@pytest.mark.parametrize("statistic", ["full", "low_bit"])
def test_a_calibrator_is_fed_piece_by_piece(statistic: str) -> None:
    x, gamma = activations(30)
    spec = RMSNormSpec(**OPEN | {"statistic": {"method": statistic}})
    fed = Calibrator(spec, gamma)
    assert fed.needs_data
    for block in (x[:7].reshape(7, 1, DIM), x[:0], x[7:]):
        fed.see(block)
    assert fed.rows == 30
    assert fed.finish() == calibrate_array(spec, x, gamma)
    done = Calibrator(fed.finish().spec, gamma)
    assert not done.needs_data
    assert done.finish() == Calibration(fed.finish().spec)
    with pytest.raises(ApproxNormError, match="there are no rows to calibrate on"):
        Calibrator(spec, gamma).finish()


def test_the_sample_is_evenly_spaced() -> None:
    """The first rows must not decide alone: every fourth row of 4 * capacity counts."""
    x = activations(4 * MAX_SAMPLE_ROWS)[0]
    x[2 * MAX_SAMPLE_ROWS :] *= 100
    spec = RMSNormSpec(**OPEN | {"x": "ap_fixed<24,12>", "statistic": {"method": "low_bit"}})
    done, sampled, first = (
        calibrate(spec, lambda d=data: [d], np.ones(DIM))  # type: ignore[misc]
        for data in (x, x[::4], x[:MAX_SAMPLE_ROWS])
    )
    assert f"over {MAX_SAMPLE_ROWS} rows" in done.notes[0]
    assert done.spec.statistic == sampled.spec.statistic
    assert done.spec.statistic != first.spec.statistic


def test_the_same_data_give_the_same_spec() -> None:
    x, gamma = activations()
    statistic = {"method": "outlier_exact", "bias": "calibrate"}
    assert run(x, gamma, statistic=statistic) == run(x.copy(), gamma.copy(), statistic=statistic)


def test_any_leading_shape() -> None:
    x, gamma = activations(30)
    assert run(x.reshape(5, 3, 2, DIM), gamma) == run(x, gamma)
    assert run(x[:1].reshape(DIM), gamma) == run(x[:1], gamma)


# --- corners --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names())
def test_presets_calibrate_on_zeros_and_on_one_row(name: str) -> None:
    gamma = np.ones(DIM)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EpsWarning)
        for x in (np.zeros((3, DIM), np.float32), activations(1)[0]):
            done = calibrate_array(preset(name), x, gamma)
            assert done.spec.missing() == []
            model = RMSNorm(done.spec, gamma)
            y = model.dequantize(model(model.quantize(x)))
            assert np.all(np.isfinite(y))
            if not x.any():
                assert not y.any()
        zero_gamma = calibrate_array(preset(name), x, np.zeros(DIM))
        model = RMSNorm(zero_gamma.spec, np.zeros(DIM))
        assert not np.any(model(model.quantize(x)))


def test_tiny_and_huge_values() -> None:
    for peak in (1e-45, 1e-38, 3e38):
        x = np.full((2, DIM), peak, np.float32)
        done = run(x, np.ones(DIM), eps=0)
        assert done.spec.missing() == []
        assert 0 < scales(done)["x"] < np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_named(bad: float) -> None:
    x, gamma = activations(10)
    x[7, 2] = bad
    spec = RMSNormSpec(**OPEN)
    with pytest.raises(ApproxNormError, match=f"row 7 of x holds {bad}; allowed: finite"):
        calibrate(spec, lambda: cut(x, [3, 2]), gamma)
    with pytest.raises(ApproxNormError, match="gamma must be finite"):
        calibrate_array(spec, activations()[0], np.full(DIM, bad))


def test_data_that_do_not_fit_are_refused() -> None:
    x, gamma = activations()
    spec = RMSNormSpec(**OPEN)
    with pytest.raises(ApproxNormError, match="there are no rows to calibrate on"):
        calibrate(spec, lambda: [], gamma)
    with pytest.raises(ApproxNormError, match="there are no rows"):
        calibrate_array(spec, x[:0], gamma)
    with pytest.raises(ApproxNormError, match="rows have 40 elements, gamma has 39"):
        calibrate_array(spec, x, gamma[1:])
    with pytest.raises(ApproxNormError, match=r"gamma has shape \(1, 40\)"):
        calibrate_array(spec, x, gamma[None])
    with pytest.raises(ApproxNormError, match="dim is 41 in the spec, but rows have 40"):
        calibrate_array(spec.replace(dim=41), x, gamma)


# --- what it says ---------------------------------------------------------------------------------


def test_each_number_has_a_sentence() -> None:
    x = np.zeros((4, DIM), np.float32)
    x[0, 0], x[1, 1] = 12.5, -3
    statistic = {"method": "outlier_exact", "bits": 3, "bias": "calibrate"}
    done = run(
        x,
        np.full(DIM, 1.5),
        statistic=statistic,
        channel_shifts={"max_shift": 2},
        gamma={"bits": 8, "calibrate": "absmax"},
    )
    step = done.spec.to_dict()["statistic"]["step_exponent"]
    bias = done.spec.statistic.bias
    assert done.notes == [
        "x: max|x| = 3.125, scale = 0.00012207"
        " (smallest power of two with max|x| <= scale * 32767)",
        "channel_shifts: 1 of 40 channels have a factor above 1, up to 2^2",
        f"statistic: step_exponent = {step}, bias = {bias} (least error of the RMS over 4 rows)",
        "y: max|y| = 9.48682, scale = 0.00195312"
        " (smallest power of two with max|y| <= scale * 8191)",
        "gamma: max|gamma| = 1.5, scale = 0.011811 (max|gamma| / 127)",
    ]
    zeros = run(x * 0, np.zeros(DIM), x={"bits": 8, "zero_point": 3})
    assert zeros.notes[0] == "x: max|x| = 0, scale = 0.015625 (all values are 0)"
    skewed = run(x, np.ones(DIM), x={"bits": 8, "zero_point": -100, "calibrate": "absmax"}, eps=1)
    assert skewed.notes[0] == (
        "x: max|x| = 12.5, scale = 0.107143 (smallest that holds -3 to 12.5 about zero point -100)"
    )


def test_the_eps_warning_comes_from_the_model_alone() -> None:
    """Calibration builds trial datapaths; the user hears of a lost eps once."""
    x, gamma = activations()
    normalize = {"method": "multiply", "constant": "gamma"}
    done = run(x * 1000, gamma, x={"bits": 8}, eps=1e-12, normalize=normalize)
    with pytest.warns(EpsWarning) as caught:
        RMSNorm(done.spec, gamma)
    assert len(caught) == 1
