"""Formats: rounding and limiting against exact fractions, quantising reals, reading and writing."""

import struct
from fractions import Fraction

import numpy as np
import pytest
from exact_integers import OVERFLOWS, ROUNDINGS, limit_exact, round_exact, round_shift_exact
from hypothesis import given
from hypothesis import strategies as st

from approxnorm.errors import ApproxNormError
from approxnorm.formats import (
    MAX_WIDTH,
    Format,
    Overflow,
    Rounding,
    float32_fraction,
    limit,
    lowest,
    parse_fixed,
    shift_left_limited,
    shift_right,
)
from approxnorm.program import ops

roundings = st.sampled_from(list(Rounding))
overflows = st.sampled_from(list(Overflow))

# 0.5 1.5 2.5 -0.5 -1.5 -2.5, as g++ with Xilinx's headers has them.
HALVES = {
    "RND": [1, 2, 3, 0, -1, -2],
    "RND_ZERO": [0, 1, 2, 0, -1, -2],
    "RND_MIN_INF": [0, 1, 2, -1, -2, -3],
    "RND_INF": [1, 2, 3, -1, -2, -3],
    "RND_CONV": [0, 2, 2, 0, -2, -2],
    "TRN": [0, 1, 2, -1, -2, -3],
    "TRN_ZERO": [0, 1, 2, 0, -1, -2],
}


def float32(values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


def fixed(width: int, integer: int, rounding: str = "RND_CONV", overflow: str = "SAT") -> Format:
    return parse_fixed(f"ap_fixed<{width},{integer},{rounding},{overflow}>")


# --- modes ------------------------------------------------------------------------------------


def test_there_are_seven_roundings_and_four_overflows() -> None:
    assert set(Rounding.__members__) == set(ROUNDINGS) == set(HALVES)
    assert set(Overflow.__members__) == set(OVERFLOWS)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_halves(rounding: str) -> None:
    halves = np.array([1, 3, 5, -1, -3, -5])
    assert shift_right(halves, np.array(1), Rounding(rounding)).tolist() == HALVES[rounding]
    assert fixed(8, 8, rounding).quantize(halves / 2).tolist() == HALVES[rounding]
    assert [round_exact(Fraction(int(h), 2), rounding) for h in halves] == HALVES[rounding]


@pytest.mark.parametrize(
    ("code", "overflow", "wanted"),
    [
        (8, "SAT", 7),
        (8, "WRAP", -8),
        (8, "SAT_ZERO", 0),
        (8, "SAT_SYM", 7),
        (-9, "SAT", -8),
        (-9, "WRAP", 7),
        (-9, "SAT_ZERO", 0),
        (-9, "SAT_SYM", -7),
        (-8, "SAT", -8),
        (-8, "WRAP", -8),
        (-8, "SAT_ZERO", -8),
        (-8, "SAT_SYM", -7),
        (-7, "SAT_SYM", -7),
    ],
)
def test_limits_of_four_bits(code: int, overflow: str, wanted: int) -> None:
    assert limit(np.array([code]), -8, 7, Overflow(overflow)).tolist() == [wanted]
    assert limit_exact(code, -8, 7, overflow) == wanted
    assert fixed(4, 4, overflow=overflow).quantize(np.array([code])).tolist() == [wanted]


def test_rounding_comes_before_overflow() -> None:
    assert fixed(4, 4).quantize(np.array([7.5])).tolist() == [7]
    assert fixed(4, 4, overflow="WRAP").quantize(np.array([7.5])).tolist() == [-8]
    assert fixed(4, 4, "TRN", "WRAP").quantize(np.array([7.5])).tolist() == [7]


def test_lowest_code_of_each_mode() -> None:
    assert [lowest(-8, 7, o) for o in Overflow] == [-8, -8, -8, -7]
    assert [lowest(0, 15, o) for o in Overflow] == [0, 0, 0, 0]
    assert [lowest(-1, 0, o) for o in Overflow] == [-1, -1, -1, -1]


ANY_LIMITS = [(-8, 7), (0, 15), (-1, 0), (0, 0), (-11, 4), (3, 10)]


@pytest.mark.parametrize(
    ("lo", "hi", "overflow"),
    [(*p, o) for p in ANY_LIMITS for o in OVERFLOWS if o != "SAT_SYM" or p in ANY_LIMITS[:4]],
)
def test_limit_of_every_code_about_the_limits(lo: int, hi: int, overflow: str) -> None:
    codes = np.arange(-80, 81)
    wanted = [limit_exact(int(c), lo, hi, overflow) for c in codes]
    for dtype in (np.int16, np.int32, np.int64):
        found = limit(codes.astype(dtype), lo, hi, Overflow(overflow))
        assert found.dtype == dtype
        assert found.tolist() == wanted


# --- shifts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shift_right_stays_in_its_dtype(bits: int, rounding: str) -> None:
    """Every amount past the width too, at the largest magnitudes that are promised."""
    top = 1 << (bits - 2)
    near = [0, 1, 2, 3, 5, top // 2, top // 2 + 1, top - 2, top - 1]
    values = np.array(sorted({*near, *(-v for v in near), -top}), f"int{bits}")
    amounts = np.array([0, 1, 2, 3, bits // 2, bits - 3, bits - 2, bits - 1, bits, bits + 1, 100])
    found = shift_right(values[:, None], amounts.astype(values.dtype), Rounding(rounding))
    assert found.dtype == values.dtype
    wanted = [
        [round_shift_exact(int(v), int(s), rounding, None, "SAT") for s in amounts] for v in values
    ]
    assert found.tolist() == wanted


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("width", [1, 2, 8, 48, 60, 61, 62, 63])
@pytest.mark.parametrize("signed", [True, False])
def test_shift_left_limited(width: int, signed: bool, overflow: str) -> None:
    width -= not signed and width == 63  # a signal has 63 bits with its sign
    lo, hi = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    top = 1 << 62
    near = [0, 1, 2, 3, 5, hi, hi // 2, hi // 2 + 1, hi // 4, hi // 4 + 1, top // 2, top - 1]
    values = np.array(sorted({*near, *(-v for v in near), -top}))
    amounts = np.array([0, 1, 2, 3, 30, 59, 60, 61, 62, 63, 64, 65, 100, 512])
    found = shift_left_limited(values[:, None], amounts, lo, hi, Overflow(overflow))
    wanted = [[limit_exact(int(v) << int(s), lo, hi, overflow) for s in amounts] for v in values]
    assert found.tolist() == wanted


wide_codes = st.builds(
    lambda v, drop: v >> drop, st.integers(-(1 << 59), (1 << 59) - 1), st.integers(0, 59)
)


@given(
    codes=st.lists(wide_codes, min_size=1, max_size=20),
    amount=st.integers(-70, 70),
    width=st.integers(1, 60),
    signed=st.booleans(),
    rounding=roundings,
    overflow=overflows,
)
def test_conversion_between_wide_formats_is_exact(
    codes: list[int],
    amount: int,
    width: int,
    signed: bool,
    rounding: Rounding,
    overflow: Overflow,
) -> None:
    lo, hi = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    found = ops.round_shift(np.array(codes), amount, rounding, (lo, hi), overflow)
    assert found.tolist() == [
        round_shift_exact(c, amount, rounding, (lo, hi), overflow) for c in codes
    ]


# --- quantising -------------------------------------------------------------------------------


def float32_quotient(value: np.float32, scale: np.float32) -> Fraction | float:
    """The correctly rounded float32 quotient, from fractions; infinity as a float."""
    exact = Fraction(float(value)) / Fraction(float(scale))
    if exact == 0:
        return exact
    exponent = -149  # of the last bit of the result
    while abs(exact) >= Fraction(2) ** (exponent + 24):
        exponent += 1
    rounded = round_exact(exact / Fraction(2) ** exponent, "RND_CONV") * Fraction(2) ** exponent
    if abs(rounded) >= Fraction(2) ** 128:
        return float("inf") if rounded > 0 else float("-inf")
    return rounded


def quantize_exact(value: np.float32, form: Format) -> int:
    ratio = float32_quotient(value, np.float32(float(form.scale)))
    lo, hi = form.lo - form.zero_point, form.hi - form.zero_point
    if isinstance(ratio, float):
        rounded = (hi + 1) if ratio > 0 else lo - 1
    else:
        rounded = round_exact(ratio, form.rounding)
    return limit_exact(rounded, lo, hi, form.overflow) + form.zero_point


def float32s(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, width=32)


@st.composite
def formats(draw: st.DrawFn) -> Format:
    """Any format: any scale, zero points included."""
    width, signed = draw(st.integers(1, MAX_WIDTH)), draw(st.booleans())
    powers = st.integers(-100, 100).map(lambda e: 2.0**e)
    scale = draw(powers | float32s(2.0**-40, 2.0**40))
    form = Format(width, signed, Fraction(scale), 0, draw(roundings), draw(overflows))
    if form.overflow is Overflow.SAT_SYM:
        return form
    zero_point = draw(st.just(0) | st.integers(form.lo, form.hi))
    return Format(width, signed, form.scale, zero_point, form.rounding, form.overflow)


@st.composite
def formats_and_values(draw: st.DrawFn) -> tuple[Format, list[float]]:
    """A format and reals about its ties, about its limits, and of any size."""
    form = draw(formats())
    scale = float(form.scale)
    halves = st.integers(-40, 40).map(lambda h: h / 2 * scale)
    limits = st.sampled_from([form.lo, form.hi]).flatmap(
        lambda c: st.integers(-3, 3).map(lambda h: (c - form.zero_point + h / 2) * scale)
    )
    anything = st.floats(width=32, allow_nan=False, allow_infinity=False)
    spread = float32s(-1.0, 1.0).flatmap(lambda m: st.integers(-4, 60).map(lambda e: m * 2.0**e))
    values = draw(
        st.lists(halves | limits | anything | spread.map(lambda v: v * scale), min_size=1)
    )
    with np.errstate(over="ignore"):
        return form, [float(v) for v in np.array(values).astype(np.float32)]


@given(formats_and_values())
def test_quantize_is_the_float32_quotient_rounded_and_limited(
    case: tuple[Format, list[float]],
) -> None:
    form, reals = case
    values = np.array(reals, np.float32)
    quotients = [
        float32_quotient(v, np.float32(float(form.scale))) for v in values if abs(v) < np.inf
    ]
    infinite = len(quotients) < len(values) or any(isinstance(q, float) for q in quotients)
    if infinite and form.overflow is Overflow.WRAP:
        with pytest.raises(ApproxNormError, match="infinity cannot wrap"):
            form.quantize(values)
        return
    found = form.quantize(values)
    assert found.dtype == np.int64
    finite = np.isfinite(values)
    assert found[finite].tolist() == [quantize_exact(v, form) for v in values[finite]]


def test_the_division_is_float32_whatever_the_input_is() -> None:
    """Where float64 and float32 division disagree, float32 is right; so is its rounding of x."""
    scale = np.float32(0.0031)
    form = fixed(16, 16).with_scale(float(scale))
    values = (np.arange(-20000, 20001, dtype=np.float64) / 2 + 1e-7) * float(scale)
    single = values.astype(np.float32)
    wanted = [quantize_exact(v, form) for v in single[::37]]
    assert form.quantize(values)[::37].tolist() == wanted
    assert form.quantize(values).tolist() == form.quantize(single).tolist()
    double = np.rint(single.astype(np.float64) / float(scale)).astype(np.int64)
    assert (form.quantize(single) != np.clip(double, form.lo, form.hi)).any()


def test_quantize_keeps_any_shape_and_reads_integers() -> None:
    form = fixed(8, 4)
    for shape in ((), (0,), (3,), (2, 0, 3), (2, 3, 4)):
        codes = form.quantize(np.full(shape, 1.5))
        assert isinstance(codes, np.ndarray)
        assert codes.shape == shape and codes.dtype == np.int64
        assert (codes == 24).all()
    assert form.quantize(np.array([1, -2], np.int8)).tolist() == [16, -32]
    assert form.quantize(np.arange(12.0).reshape(3, 4)[:, ::2] / 16).tolist() == [
        [0, 2],
        [4, 6],
        [8, 10],
    ]


@pytest.mark.parametrize(
    ("overflow", "wanted"),
    [("SAT", [127, -128]), ("SAT_SYM", [127, -127]), ("SAT_ZERO", [0, 0])],
)
def test_infinity_is_outside_every_format(overflow: str, wanted: list[int]) -> None:
    form = fixed(8, 4, overflow=overflow)
    for rounding in Rounding:
        again = Format(8, True, form.scale, 0, rounding, form.overflow)
        assert again.quantize(np.array([np.inf, -np.inf])).tolist() == wanted
        # Beyond float32, and within float32 but beyond it as a ratio.
        assert again.quantize(np.array([1e300, -1e300])).tolist() == wanted
        assert again.quantize(float32([3e38, -3e38])).tolist() == wanted


def test_saturating_to_zero_gives_the_zero_point() -> None:
    form = Format(8, False, Fraction(1), 100, Rounding.RND, Overflow.SAT_ZERO)
    assert form.quantize(np.array([-101.0, -100.0, 155.0, 156.0])).tolist() == [100, 0, 255, 100]
    assert form.dequantize(np.array([100, 0, 255])).tolist() == [0.0, -100.0, 155.0]


def test_zero_point_and_wrapping() -> None:
    form = Format(4, True, Fraction(1, 2), 3, Rounding.TRN, Overflow.WRAP)
    reals = np.arange(-40, 41) / 4
    wanted = [limit_exact(round_exact(Fraction(v) * 2, "TRN"), -11, 4, "WRAP") + 3 for v in reals]
    assert form.quantize(reals).tolist() == wanted
    assert set(wanted) == set(range(-8, 8))


@pytest.mark.parametrize("width", [1, 8, 47, 48])
def test_huge_values_wrap_exactly(width: int) -> None:
    form = Format(width, True, Fraction(1), 0, Rounding.RND, Overflow.WRAP)
    values = float32([1e38, -1e38, 2.0**100, 2.0**63, -(2.0**63), 2.0**40 + 2.0**20, -3e30])
    wanted = [limit_exact(int(v), form.lo, form.hi, "WRAP") for v in values]
    assert form.quantize(values).tolist() == wanted


def test_infinity_cannot_wrap() -> None:
    for value in (np.inf, -np.inf, 1e300):
        with pytest.raises(ApproxNormError, match="infinity cannot wrap"):
            fixed(8, 4, overflow="WRAP").quantize(np.array([0.0, value]))


@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_nan_is_refused(overflow: str) -> None:
    with pytest.raises(ApproxNormError, match="NaN cannot be quantised"):
        fixed(8, 4, overflow=overflow).quantize(np.array([1.0, np.nan]))


def test_tiny_values_round_by_their_sign() -> None:
    tiny = float32([1e-30, -1e-30, np.nextafter(np.float32(0.5), np.float32(0))])
    wanted = {"TRN": [0, -1, 0]}
    for rounding in ROUNDINGS:
        found = fixed(8, 8, rounding).quantize(tiny)
        assert found.tolist() == wanted.get(rounding, [0, 0, 0])


@given(formats(), st.data())
def test_codes_survive_dequantize_and_quantize(form: Format, data: st.DataObject) -> None:
    """Where float32 holds the real value, that is, up to 24 bits of code and a plain scale."""
    if form.frac_bits is None:
        return
    near = st.integers(
        max(form.lo - form.zero_point, -(1 << 24)), min(form.hi - form.zero_point, 1 << 24)
    )
    codes = np.array(data.draw(st.lists(near, max_size=9)), np.int64) + form.zero_point
    low = lowest(form.lo, form.hi, form.overflow)
    codes = codes[codes >= low]
    assert form.quantize(form.dequantize(codes)).tolist() == codes.tolist()


# --- building ---------------------------------------------------------------------------------


def test_limits_of_codes() -> None:
    assert (fixed(8, 4).lo, fixed(8, 4).hi) == (-128, 127)
    unsigned = parse_fixed("ap_ufixed<8,4>")
    assert (unsigned.lo, unsigned.hi) == (0, 255)
    assert (fixed(1, 1).lo, fixed(1, 1).hi) == (-1, 0)


@pytest.mark.parametrize("width", [-1, 0, MAX_WIDTH + 1, 1000])
def test_impossible_widths(width: int) -> None:
    with pytest.raises(ApproxNormError, match=f"width is {width}; allowed: 1 to {MAX_WIDTH}"):
        Format(width, True, Fraction(1))


@pytest.mark.parametrize(
    ("scale", "found"),
    [
        (Fraction(0), "scale is 0.0; allowed: a positive"),
        (Fraction(-1), "scale is -1.0; allowed: a positive"),
        (Fraction(1, 3), "scale is 0.333.*; allowed: a value that float32 holds"),
        (Fraction(2) ** 128, "scale is 3.4.*e.38; allowed: a positive, finite"),
        (Fraction(2) ** 5000, "scale is inf; allowed: a positive, finite"),
        (Fraction(2) ** -5000, "scale is 0.0; allowed: a positive"),
    ],
)
def test_impossible_scales(scale: Fraction, found: str) -> None:
    with pytest.raises(ApproxNormError, match=found):
        Format(8, True, scale)


def test_impossible_zero_points() -> None:
    for zero_point in (-129, 128):
        with pytest.raises(ApproxNormError, match=f"zero_point is {zero_point}.* -128 to 127"):
            Format(8, True, Fraction(1), zero_point)
    with pytest.raises(ApproxNormError, match="SAT_SYM needs zero_point 0"):
        Format(8, True, Fraction(1), 1, overflow=Overflow.SAT_SYM)


@given(st.floats(1e-38, 1e38))
def test_scales_become_the_nearest_float32(value: float) -> None:
    found = float32_fraction(value)
    assert found == Fraction(struct.unpack("<f", struct.pack("<f", value))[0])
    assert fixed(8, 4).with_scale(value).scale == found


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan"), 1e39, 1e-46])
def test_scales_that_float32_does_not_hold(value: float) -> None:
    with pytest.raises(ApproxNormError, match=r"scale is .*; allowed: a positive, finite float32"):
        float32_fraction(value)


# --- text -------------------------------------------------------------------------------------


@given(formats())
def test_fixed_point_text_round_trips(form: Format) -> None:
    if form.is_fixed_point:
        assert parse_fixed(str(form)) == form
        assert parse_fixed(str(form).replace(",", " , AP_", 3).replace("AP_", "", 1)) == form
    else:
        assert f"scale={np.float32(float(form.scale))!s}" in str(form)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("overflow", OVERFLOWS)
def test_every_mode_is_read_and_written(rounding: str, overflow: str) -> None:
    text = f"ap_ufixed<12,-3,{rounding},{overflow}>"
    form = parse_fixed(f" ap_ufixed < 12 ,-3, AP_{rounding} ,AP_{overflow}> ")
    assert form == Format(12, False, Fraction(1, 2**15), 0, Rounding(rounding), Overflow(overflow))
    assert str(form) == text
    assert parse_fixed(text) == form


def test_modes_not_given() -> None:
    assert str(parse_fixed("ap_fixed<8,4>")) == "ap_fixed<8,4,RND_CONV,SAT>"
    assert str(parse_fixed("ap_fixed<8,12,TRN>")) == "ap_fixed<8,12,TRN,SAT>"


@pytest.mark.parametrize(
    ("width", "integer", "scale"), [(8, 4, "1/16"), (8, 8, "1"), (4, 9, "32"), (4, -2, "1/64")]
)
def test_integer_bits_count_the_sign(width: int, integer: int, scale: str) -> None:
    assert parse_fixed(f"ap_fixed<{width},{integer}>").scale == Fraction(scale)
    assert parse_fixed(f"ap_fixed<{width},{integer}>").frac_bits == width - integer


def test_scaled_formats_print_their_scale() -> None:
    form = Format(8, False, float32_fraction(0.1), 3, Rounding.RND, Overflow.SAT)
    assert str(form) == "uint8 scale=0.1 zero_point=3 RND SAT"
    assert form.frac_bits is None
    assert str(Format(8, True, Fraction(2) ** -120)).startswith("int8 scale=7.52")
    assert str(Format(8, True, Fraction(2), 5)) == "int8 scale=2.0 zero_point=5 RND_CONV SAT"


SYNTAX = r"allowed: ap_fixed<W,I>, ap_fixed<W,I,Q> or ap_fixed<W,I,Q,O> \(ap_ufixed for unsigned\)"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int8",
        "fixed<8,4>",
        "ap_fixed",
        "ap_fixed<>",
        "ap_fixed<8>",
        "ap_fixed<8,>",
        "ap_fixed<8,4",
        "ap_fixed(8,4)",
        "ap_fixed<8.0,4>",
        "ap_fixed<8,4,>",
        "ap_fixed<8,4,,SAT>",
        "ap_fixed<8,4,RND,SAT,1>",
        "ap_fixed<8,4> x",
        "AP_FIXED<8,4>",
        "ap_ifixed<8,4>",
        "ap_fixed<w,i>",
        "ap_fixed<" + "9" * 5000 + ",4>",
    ],
)
def test_bad_texts_are_named(text: str) -> None:
    with pytest.raises(ApproxNormError, match=SYNTAX) as error:
        parse_fixed(text)
    assert f"found {text!r}" in str(error.value)


@pytest.mark.parametrize(
    ("text", "mode", "allowed"),
    [
        ("ap_fixed<8,4,ROUND>", "ROUND", ROUNDINGS),
        ("ap_fixed<8,4,rnd>", "rnd", ROUNDINGS),
        ("ap_fixed<8,4,SAT>", "SAT", ROUNDINGS),
        ("ap_fixed<8,4,AP_AP_RND>", "AP_RND", ROUNDINGS),
        ("ap_fixed<8,4,RND,RND>", "RND", OVERFLOWS),
        ("ap_fixed<8,4,AP_RND,AP_WRAP_SM>", "WRAP_SM", OVERFLOWS),
    ],
)
def test_bad_modes_are_named(text: str, mode: str, allowed: tuple[str, ...]) -> None:
    with pytest.raises(ApproxNormError, match=f"found mode '{mode}'; allowed: ") as error:
        parse_fixed(text)
    assert set(str(error.value).split("allowed: ")[1].split(", ")) == set(allowed)


@pytest.mark.parametrize("text", ["ap_fixed<0,0>", "ap_fixed<-8,4>", "ap_fixed<49,4>"])
def test_bad_widths_are_named(text: str) -> None:
    width = text[len("ap_fixed<") :].split(",")[0]
    with pytest.raises(ApproxNormError, match=f"width is {width}; allowed: 1 to {MAX_WIDTH} bits"):
        parse_fixed(text)


@pytest.mark.parametrize(("text", "bits"), [("ap_fixed<8,200>", -192), ("ap_fixed<8,-93>", 101)])
def test_positions_out_of_reach_are_named(text: str, bits: int) -> None:
    with pytest.raises(ApproxNormError, match=f"has {bits} fraction bits; allowed: -100 to 100"):
        parse_fixed(text)
