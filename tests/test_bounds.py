"""The proven bound against exact integers: never exceeded, and not silly."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from norm_specs import BASE, VARIANTS, build, rows

from approxnorm import RMSNorm, RMSNormSpec
from approxnorm.methods.function import RSQRT_METHODS
from approxnorm.metrics import bound
from approxnorm.metrics.bounds import is_exact_sum
from approxnorm.metrics.stage_error import least_operand
from approxnorm.metrics.upward import ceil_to, exp2_up, measured_up, sqrt_down, sqrt_up

EXACT = dict(rsqrt=dict(method="exact"), normalize=dict(method="multiply", constant="multiplier"))
BITS = 60  # fraction bits, in LSBs, of the exact values that outputs are held against


def exact_error(model: RMSNorm, codes: np.ndarray) -> Fraction:
    """max |y - exact| in LSBs over rows of codes, by integer roots; exact to 2**-BITS."""
    y, trace = model(codes, trace=True)
    form = model.assembly.context.y
    weights = gamma_in_lsbs(model)
    worst = 0
    lo = -form.hi if form.overflow == "SAT_SYM" else form.lo
    low, high = ((v - form.zero_point) << BITS for v in (lo, form.hi))
    for i in range(len(codes)):
        x, square = row_and_square(model, codes[i], trace, i)
        for got, v, w in zip(y[i], x, weights, strict=True):
            exact = 0
            if v and w and square:
                ratio = v * v * w * w / square
                exact = isqrt((ratio.numerator << (2 * BITS)) // ratio.denominator)
                exact = exact if (v > 0) == (w > 0) else -exact
            exact = min(max(exact, low), high)
            worst = max(worst, abs(((int(got) - form.zero_point) << BITS) - exact))
    return Fraction(worst, 1 << BITS)


def gamma_in_lsbs(model: RMSNorm) -> list[Fraction]:
    """Each channel's weight squared away from its constant: signed, in LSBs of y per unit."""
    context, normalize = model.assembly.context, model.spec.normalize
    one = int(normalize.adds_one)
    form = context.gamma
    return [(form.scale * (int(g) - form.zero_point) + one) / context.y.scale for g in model.gamma]


def row_and_square(
    model: RMSNorm, codes: np.ndarray, trace: dict[str, np.ndarray], i: int
) -> tuple[list[Fraction], Fraction]:
    """Real x of a row, and the mean square plus eps that the bound is about (with the constant
    that is folded into gamma on it)."""
    form = model.assembly.x_format
    shifts = model.spec.channel_shifts.shifts if model.spec.channel_shifts else (0,) * model.dim
    factor = Fraction(1)
    if is_exact_sum(model):
        x = [
            form.scale * (int(c) - form.zero_point) * 2**s
            for c, s in zip(codes, shifts, strict=True)
        ]
        square = sum((v * v for v in x), Fraction(0)) / model.dim
    else:
        factor = Fraction(2) ** int(trace["row_shift"][i] if "row_shift" in trace else 0)
        x = [form.scale * factor * int(v) for v in trace[model.assembly.row.x.name][i]]
        operand = int(trace[model.assembly.row.operand.name][i])
        unit = model.assembly.context.operand_squared_unit
        square = unit * (form.scale * factor) ** 2 * operand
        if operand == 0 and not trace["total"][i]:
            return [Fraction(0)] * model.dim, Fraction(0)  # left out, as the bound says
    folded = model.spec.normalize.gamma_gain_squared(model.assembly.context)
    return x, (square + model.spec.eps_fraction) * folded


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_bound_is_never_exceeded(variant):
    model = build(variant)
    limit = bound(model)
    assert limit.lsb is not None, limit.text
    assert exact_error(model, rows(model, 250)) <= limit.lsb


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_holds_for_random_specs(seed):
    rng = np.random.default_rng(seed)
    width = int(rng.integers(6, 16))
    spec = RMSNormSpec(
        **BASE
        | dict(
            dim=int(rng.integers(1, 20)),
            eps=float(10.0 ** rng.uniform(-7, 1)),
            x=dict(bits=width, signed=True, scale=float(2.0 ** rng.uniform(-12, -4))),
            gamma=dict(bits=int(rng.integers(3, 10)), signed=True, scale=0.013),
            y=dict(
                bits=int(rng.integers(4, 18)),
                signed=True,
                scale=float(2.0 ** rng.uniform(-12, -3)),
                rounding=["RND_CONV", "TRN", "RND", "TRN_ZERO"][seed % 4],
                overflow="SAT",
            ),
            rsqrt=dict(
                method="linear",
                segments=int(2 ** rng.integers(0, 4)),
                bits=int(rng.integers(5, 12)),
            ),
        )
    )
    form = spec.gamma.to_format("gamma")
    model = RMSNorm(spec, rng.integers(form.lo, form.hi + 1, spec.dim))
    limit = bound(model).lsb
    assert limit is not None
    assert exact_error(model, rows(model, 120, seed)) <= limit


# The yardstick has no stage, and a ROM needs its file.
@pytest.mark.parametrize("method", sorted(set(RSQRT_METHODS.names()) - {"exact", "file"}))
def test_the_bound_holds_for_every_rsqrt_method(method):
    changes = dict(
        rsqrt=dict(method=method), normalize=dict(method="multiply", constant="multiplier")
    )
    model = RMSNorm(RMSNormSpec(**BASE | changes), np.linspace(-4, 3.9, 12))
    limit = bound(model).lsb
    assert limit is not None
    assert limit / 4 < exact_error(model, rows(model, 150)) <= limit


def test_the_exact_yardstick_is_bounded_by_its_rounding():
    model = RMSNorm(RMSNormSpec(**BASE | EXACT), np.full(12, 1.5))
    limit = bound(model)
    assert limit.lsb == Fraction(1, 2) and list(limit.parts) == ["output_rounding"]


def test_the_bound_is_close_to_the_worst_that_happens():
    """A linear root, 16 bits everywhere, spikes of all sizes. The worst root and the worst eps do
    not meet in one row."""
    spec = RMSNormSpec(
        **BASE
        | dict(
            x="ap_fixed<16,8>",
            gamma="ap_fixed<12,4>",
            y="ap_fixed<16,6,RND_CONV,SAT>",
            eps=1e-5,
            rsqrt=dict(method="linear", segments=8, bits=11),
        )
    )
    gamma = np.full(12, 7.99)
    model = RMSNorm(spec, gamma)
    spikes = np.zeros((4000, 12), np.int64)
    spikes[:, 3] = np.linspace(16, 32767, 4000)
    limit = bound(model).lsb
    assert limit is not None
    assert limit * Fraction(3, 4) < exact_error(model, spikes) <= limit


def test_row_exponent_comes_within_a_factor_of_the_worst_that_happens():
    """One peak and many elements that all round the same way."""
    spec = RMSNormSpec(
        **BASE
        | dict(
            dim=64,
            x=dict(bits=16, signed=True, scale=2.0**-10),
            row_exponent=dict(bits=6),
            gamma="ap_fixed<10,3>",
            y="ap_fixed<16,6,RND_CONV,SAT>",
            rsqrt=dict(method="direct", index_bits=10, bits=18),
        )
    )
    model = RMSNorm(spec, np.full(64, 3.9))
    codes = np.full((1, 64), (1 << 9) + (1 << 8) - 1)
    codes[0, 0] = 16 << 9
    limit = bound(model)
    assert limit.lsb is not None
    assert limit.lsb / 2 < exact_error(model, codes) <= limit.lsb


def test_parts_add_up_and_are_plain_data():
    limit = bound(build("llama"))
    assert set(limit.parts) == {"output_rounding", "eps", "rsqrt", "normalize"}
    assert limit.lsb == sum(limit.parts.values())
    assert limit.parts["output_rounding"] == Fraction(1, 2)
    plain = limit.to_dict()
    assert plain["lsb"] == float(limit.lsb) and plain["text"].startswith("at most ")
    assert "input codes" in plain["text"]
    assert bound(build("y_trn")).parts["output_rounding"] == 1


def test_the_text_says_what_an_estimate_leaves_out():
    text = bound(build("row_exponent_outliers")).text
    assert "the aligned row" in text and "statistic's error is not in it" in text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (dict(y="ap_fixed<9,2,RND,WRAP>"), "y overflows with WRAP"),
        (dict(y="ap_fixed<9,2,RND,SAT_ZERO>"), "y overflows with SAT_ZERO"),
        (
            dict(
                normalize=dict(
                    method="multiply", order="llama", intermediate="ap_fixed<8,2,RND,SAT>"
                )
            ),
            "normalize.intermediate is ap_fixed<8,2,RND,SAT>, which may overflow",
        ),
        (
            dict(
                statistic=dict(method="low_bit", step_exponent=3),
                normalize=dict(
                    method="multiply", order="llama", intermediate="ap_fixed<11,4,RND,SAT>"
                ),
            ),
            "may saturate",
        ),
        (
            dict(
                rsqrt=dict(method="power_of_two", frac_bits=22),
                normalize=dict(method="multiply", constant="multiplier"),
            ),
            "rsqrt.frac_bits is 22",
        ),
    ],
)
def test_no_bound_gives_the_reason(changes, reason):
    spec = RMSNormSpec(**BASE | changes)
    limit = bound(RMSNorm(spec, np.full(12, 100)))
    assert limit.lsb is None and limit.parts == {} and reason in limit.text
    assert limit.to_dict()["lsb"] is None


def test_an_estimate_that_wraps_has_no_bound_though_y_is_wide():
    spec = RMSNormSpec(
        **BASE | dict(y="ap_fixed<20,11,RND,WRAP>", statistic={"method": "mean_abs"})
    )
    assert bound(RMSNorm(spec, np.full(12, 100))).lsb is None


def test_is_exact_sum():
    assert is_exact_sum(build("linear"))
    assert not is_exact_sum(build("prefix"))
    whole = RMSNormSpec(**BASE | dict(statistic=dict(method="prefix", count=12)))
    assert is_exact_sum(RMSNorm(whole, np.full(12, 100)))
    biased = RMSNormSpec(**BASE | dict(statistic=dict(method="full", bias=1.5)))
    assert not is_exact_sum(RMSNorm(biased, np.full(12, 100)))
    narrow = dict(method="full", accumulator=dict(bits=20, overflow="SAT"))
    assert not is_exact_sum(RMSNorm(RMSNormSpec(**BASE | dict(statistic=narrow)), np.full(12, 100)))


@pytest.mark.parametrize(
    "variant", ["row_exponent_outliers", "outliers_dynamic", "outliers_top", "low_bit", "mean_abs"]
)
def test_least_operand_is_a_lower_bound(variant):
    model = build(variant)
    row = model.assembly.row
    codes = rows(model, 400)
    _, trace = model(codes, trace=True)
    peaks = np.abs(trace[row.x.name].astype(np.int64)).max(axis=1)
    operands = trace[row.operand.name].astype(np.int64)
    for peak in (1, 7, 40, 256):
        least = least_operand(model.spec.statistic, row.x.interval, peak)
        assert operands[peaks >= peak].min() >= least
    if variant != "low_bit":
        assert least >= 256**2 // 4


def test_roots_and_powers_are_rounded_upward():
    for value in (
        Fraction(2),
        Fraction(1, 3),
        Fraction(10**40, 7),
        Fraction(1, 10**40),
        Fraction(9),
    ):
        low, high = sqrt_down(value), sqrt_up(value)
        assert low**2 <= value < high**2 and high / low - 1 < Fraction(1, 2**80)
    assert sqrt_up(Fraction(0)) == 0
    for exponent in (Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 2)):
        power = exp2_up(exponent)
        assert power**6 > 2 ** (6 * exponent) and power**6 < 2 ** (6 * exponent) * (1 + 1e-8)
    assert measured_up(0.25) > Fraction(1, 4)
    assert ceil_to(Fraction(1, 3), 4) == Fraction(6, 16) and ceil_to(Fraction(1, 2), 4) == 0.5
