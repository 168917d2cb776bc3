"""The spec: its fixed shape, files and back, presets, and a sentence for every bad input."""

import codecs
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_pins import PINS, with_chosen
from random_specs import random_spec

from approxnorm import (
    ApproxNormError,
    RMSNorm,
    RMSNormSpec,
    assemble,
    load_spec,
    preset,
    preset_names,
)
from approxnorm.methods.function import RSQRT_METHODS
from approxnorm.methods.normalizers import NORMALIZERS
from approxnorm.methods.statistics import STATISTICS
from approxnorm.spec.load import MAX_FILE_BYTES
from approxnorm.spec.rmsnorm_spec import MAX_DIM, digest

# The shape of the file format that is fixed.
FIXED_SHAPE = """\
norm = "rmsnorm"
dim = 576
eps = 1e-5
x = "ap_fixed<16,8>"                     # or { bits = 16, signed = true, scale = 0.0031 }, or { bits = 16, signed = true } and calibrated
gamma = "ap_fixed<8,2>"
y = "ap_fixed<8,4,RND_CONV,SAT>"
[statistic]
method = "full"
[rsqrt]
method = "linear"
segments = 8                             # an octave; [1,4) has two
bits = 11                                # coefficient fraction bits; frac_bits (of m), out_bits (mantissa) derived if absent
[normalize]
method = "multiply"
"""  # noqa: E501

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


def make(**changes: Any) -> RMSNormSpec:
    """BASE with changes; None takes a field away."""
    fields = {k: v for k, v in (BASE | changes).items() if v is not None}
    return RMSNormSpec(**fields)


# --- the fixed shape ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x",
    [
        '"ap_fixed<16,8>"',
        "{ bits = 16, signed = true, scale = 0.0031 }",
        "{ bits = 16, signed = true }",
    ],
)
def test_the_fixed_shape_loads(tmp_path: Path, x: str) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(FIXED_SHAPE.replace('"ap_fixed<16,8>"', x, 1))
    spec = load_spec(path)
    assert spec.dim == 576
    assert spec.eps == 1e-5
    assert spec.missing() == ([] if x != "{ bits = 16, signed = true }" else ["x.scale"])
    filled = spec.to_dict() | {"x": {"bits": 16, "signed": True, "scale": 0.0031}}
    model = RMSNorm(RMSNormSpec(**filled), np.ones(576))
    assert model(np.zeros((1, 576), int)).tolist() == [[0] * 576]


def test_absent_numbers_are_derived_and_printed() -> None:
    resolved = assemble(RMSNormSpec(**tomllib.loads(FIXED_SHAPE))).spec
    text = resolved.to_json()
    for name in ("frac_bits", "out_bits", "eps_guard", "constant", "bias", "order", "rounding"):
        assert f'"{name}"' in text
    assert resolved.to_dict()["x"] == "ap_fixed<16,8,RND_CONV,SAT>"
    assert resolved.to_dict()["gamma"] == "ap_fixed<8,2,RND_CONV,SAT>"
    assert assemble(resolved).spec == resolved


# --- there and back -------------------------------------------------------------------------------


def every_spec() -> dict[str, RMSNormSpec]:
    """All presets, open and filled, and random specs of every kind."""
    specs = {name: preset(name) for name in preset_names()}
    specs |= {f"{n} filled": with_chosen(preset(n), pin["chosen"]) for n, pin in PINS.items()}
    specs |= {f"random {seed}": RMSNormSpec(**random_spec(seed)) for seed in range(60)}
    odd = 'quote " backslash \\ tab \t del \x7f nul \x00 snow \u2603 face \U0001f600'
    return specs | {"odd text": make(description=odd)}


@pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")
@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_files_hold_the_whole_spec(tmp_path: Path, suffix: str) -> None:
    for name, spec in every_spec().items():
        path = tmp_path / f"spec.{suffix}"
        path.write_text(spec.to_toml() if suffix == "toml" else spec.to_json(), "utf-8")
        again = load_spec(path)
        assert again == spec, name
        assert again.to_dict() == spec.to_dict()
        if not spec.missing():
            assert assemble(again).digest() == assemble(spec).digest()


def test_plain_data_is_plain() -> None:
    for spec in every_spec().values():
        data = spec.to_dict()
        assert json.loads(json.dumps(data)) == data
        assert None not in data.values()
        assert RMSNormSpec(**data) == spec


def test_a_scale_is_a_float32_however_it_is_written() -> None:
    near = float(np.float32(0.0031))
    first, second = (make(x={"bits": 8, "scale": s}) for s in (0.0031, near))
    assert first == second
    assert first.to_dict()["x"]["scale"] == 0.0031
    assert make(x={"bits": 8, "scale": 0.25}).x.to_format("x") == make(
        x="ap_fixed<8,6>"
    ).x.to_format("x")


def test_eps_is_the_decimal_that_was_written() -> None:
    assert make(eps=1e-5).eps_fraction * 100_000 == 1
    assert make(eps=0.1).eps_fraction * 10 == 1
    assert make(eps=1).eps_fraction == 1


def test_specs_are_frozen() -> None:
    spec = make()
    for part, name in ((spec, "eps"), (spec.x, "bits"), (spec.rsqrt, "bits")):
        with pytest.raises(Exception, match="frozen"):
            setattr(part, name, 3)
    assert hash(spec) == hash(make())


def test_replace_validates() -> None:
    spec = make()
    assert spec.replace(eps=1e-6).eps == 1e-6
    assert spec.replace(dim=None).with_dim(7).dim == 7
    assert spec.with_dim(24) == spec
    with pytest.raises(ApproxNormError, match="dim is 24 in the spec, but rows have 25 elements"):
        spec.with_dim(25)
    with pytest.raises(ApproxNormError, match="eps is -1"):
        spec.replace(eps=-1)


def test_digests_are_of_canonical_json() -> None:
    assert digest({"b": 1, "a": [1, 2]}) == digest({"a": [1, np.int64(2)], "b": 1})
    assert digest({"a": np.arange(3)}) == digest({"a": [0, 1, 2]})
    with pytest.raises(TypeError):
        digest({"a": object()})


def test_every_method_loads_with_its_defaults_or_says_what_it_needs() -> None:
    for registry, field in (
        (STATISTICS, "statistic"),
        (RSQRT_METHODS, "rsqrt"),
        (NORMALIZERS, "normalize"),
    ):
        for name in registry.names():
            part = getattr(make(**{field: {"method": name}}), field)
            assert part.method == name
            assert part.summary


# --- presets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names())
def test_presets_fit_any_row(name: str) -> None:
    spec = load_spec(name)
    assert spec == preset(name)
    assert spec.dim is None
    assert spec.description
    assert spec.with_dim(5).dim == 5
    assert "x.scale" in spec.missing()


def test_a_misspelt_preset_is_told_the_nearest() -> None:
    for load in (preset, load_spec):
        with pytest.raises(ApproxNormError, match="'int8-liner'; did you mean 'int8-linear'"):
            load("int8-liner")
    for nothing in ("", "..", "spec.yaml", "/etc/hostname"):
        with pytest.raises(ApproxNormError, match=r"allowed: a \.toml or \.json file, or a p"):
            load_spec(nothing)


# --- bad fields -----------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")
ST, RS, NO = "statistic", "rsqrt", "normalize"

BAD: list[tuple[dict[str, Any], str]] = [
    # keys
    ({"foo": 1}, "unknown key 'foo'; allowed: spec_version, norm"),
    ({"epz": 1}, "unknown key 'epz'; did you mean 'eps'?"),
    ({"statistics": {}}, "unknown key 'statistics'; did you mean 'statistic'?"),
    ({RS: {"method": "linear", "segmnts": 8}}, "rsqrt: unknown key 'segmnts'; did you mean 'segme"),
    ({"x": {"bits": 8, "scael": 1.0}}, "x: unknown key 'scael'; did you mean 'scale'?"),
    ({ST: {"method": "full", "acumulator": {}}}, "statistic: unknown key 'acumulator'; did you"),
    ({"row_exponent": {"bit": 8}}, "row_exponent: unknown key 'bit'; did you mean 'bits'?"),
    ({"x": None}, "x is missing; give it"),
    ({"norm": None}, "norm is missing"),
    ({"norm": "layernorm"}, "norm is 'layernorm'; allowed: 'rmsnorm'"),
    ({"spec_version": 2}, "spec_version is 2; allowed: 1"),
    ({"spec_version": True}, "spec_version: found True; allowed: the number 1"),
    ({"description": 5}, "description is 5; allowed: string"),
    # dim
    ({"dim": 0}, "dim is 0; allowed: greater than or equal to 1"),
    ({"dim": -3}, "dim is -3"),
    ({"dim": MAX_DIM + 1}, "dim is 1048577; allowed: less than or equal to 1048576"),
    ({"dim": 10**30}, "dim is 1000000000"),
    ({"dim": 2.0}, "dim is 2.0; allowed: integer"),
    ({"dim": True}, "dim is True; allowed: integer"),
    ({"dim": "24"}, "dim is '24'; allowed: integer"),
    # eps
    ({"eps": NAN}, "eps is nan; allowed: a finite number"),
    ({"eps": INF}, "eps is inf; allowed: a finite number"),
    ({"eps": -1e-5}, "eps is -1e-05; allowed: greater than or equal to 0"),
    ({"eps": "1e-5"}, "eps is '1e-5'; allowed: number"),
    ({"eps": True}, "eps is True; allowed: number"),
    ({"eps": 10**5000}, "eps is a number of 16610 bits; allowed: number"),
    ({"eps_guard": 3}, "eps_guard is 3; allowed: even numbers"),
    ({"eps_guard": 32}, "eps_guard is 32; allowed: less than or equal to 30"),
    ({"eps_guard": 10**30}, "eps_guard is 1000"),
    ({"eps_guard": 2.0}, "eps_guard is 2.0; allowed: integer"),
    # formats
    ({"x": "ap_fixed<1,1>"}, "x.bits is 1; allowed: greater than or equal to 2"),
    ({"x": "ap_fixed<33,4>"}, "x.bits is 33; allowed: less than or equal to 32"),
    ({"gamma": "ap_fixed<0,0>"}, "gamma: width is 0; allowed"),
    ({"y": "ap_fixed<999999999,4,RND,SAT>"}, "y: width is 999999999"),
    ({"x": "ap_fixed<99999999999999999999,4>"}, "x: found 'ap_fixed<9999"),
    ({"x": "ap_fixed<8,99999>"}, "x: 'ap_fixed<8,99999>' has -99991 fraction bits; allowed: -100"),
    ({"x": "ap_fixed<8>"}, "x: found 'ap_fixed<8>'; allowed: ap_fixed<W,I>"),
    ({"x": "fixed"}, "x: found 'fixed'; allowed: ap_fixed<W,I>"),
    ({"x": "ap_fixed<8,4,RNDX>"}, "x: found mode 'RNDX'; allowed: TRN, TRN_ZERO"),
    ({"x": "ap_fixed<8,4,RND,SATX>"}, "x: found mode 'SATX'; allowed: WRAP, SAT"),
    ({"x": 8}, "x: found 8; allowed: a text such as"),
    ({"x": [8, 4]}, "x: found [8, 4]; allowed: a text such as"),
    ({"x": {}}, "x.bits is missing"),
    ({"x": {"bits": True}}, "x.bits is True; allowed: integer"),
    ({"x": {"bits": 8.0}}, "x.bits is 8.0; allowed: integer"),
    ({"x": {"bits": 8, "signed": 1}}, "x.signed is 1; allowed: boolean"),
    ({"x": {"bits": 8, "scale": 0}}, "x.scale is 0; allowed: greater than 0"),
    ({"x": {"bits": 8, "scale": -1.0}}, "x.scale is -1.0; allowed: greater than 0"),
    ({"x": {"bits": 8, "scale": NAN}}, "x.scale is nan"),
    (
        {"x": {"bits": 8, "scale": INF}},
        "x.scale: scale is inf; allowed: a positive, finite float32",
    ),
    ({"x": {"bits": 8, "scale": 1e300}}, "x.scale: scale is 1e+300; allowed"),
    ({"x": {"bits": 8, "scale": 1e-300}}, "x.scale: scale is 1e-300; allowed"),
    ({"x": {"bits": 8, "scale": "1"}}, "x.scale is '1'; allowed: number"),
    ({"x": {"bits": 8, "scale": True}}, "x.scale is True; allowed: number"),
    ({"x": {"bits": 8, "zero_point": 128}}, "x: zero_point is 128; it must be a code, -128 to 127"),
    ({"x": {"bits": 8, "zero_point": 1, "overflow": "SAT_SYM"}}, "x: SAT_SYM needs zero_point 0"),
    ({"x": {"bits": 8, "rounding": "AP_RND"}}, "x.rounding is 'AP_RND'; allowed: 'TRN', "),
    ({"x": {"bits": 8, "calibrate": "minmax"}}, "x.calibrate is 'minmax'; allowed: 'pow2' or 'ab"),
    ({"y": "ap_fixed<8,4>"}, "y must name its rounding and overflow"),
    ({"y": "ap_fixed<8,4,RND>"}, "y must name its rounding and overflow"),
    ({"y": {"bits": 8, "overflow": "SAT"}}, "y must name its rounding and overflow"),
    # row exponent and channel factors
    ({"row_exponent": {"bits": 1}}, "row_exponent.bits is 1; allowed: greater than or equal to 2"),
    ({"row_exponent": {"bits": 27}}, "row_exponent.bits is 27; allowed: less than or equal to 26"),
    ({"row_exponent": 16}, "row_exponent is 16; allowed: a table of its fields"),
    (
        {"channel_shifts": {"shifts": [1, 2]}},
        "channel_shifts.shifts has 2 numbers; allowed: dim, 24",
    ),
    ({"channel_shifts": {"shifts": [5] * 24}}, "shifts hold 5; allowed: 0 to max_shift, 4"),
    ({"channel_shifts": {"shifts": [-1] * 24}}, "shifts hold -1; allowed: 0 to max_shift"),
    (
        {"channel_shifts": {"shifts": [1.5] * 24}},
        "channel_shifts.shifts.0 is 1.5; allowed: integer",
    ),
    ({"channel_shifts": {"shifts": [True] * 24}}, "channel_shifts.shifts.0 is True; allowed: int"),
    ({"channel_shifts": {"shifts": "abc"}}, "channel_shifts.shifts is 'abc'; allowed: a list"),
    ({"channel_shifts": {"max_shift": 16}}, "channel_shifts.max_shift is 16; allowed: less"),
    # methods
    ({RS: {"method": "liner"}}, "rsqrt.method is 'liner'; allowed: bipartite, direct"),
    ({RS: {"method": 5}}, "rsqrt.method is 5; allowed: bipartite"),
    ({RS: {"segments": 8}}, "rsqrt: found {'segments': 8}; allowed: a table with method = one of"),
    ({RS: "linear"}, "rsqrt: found 'linear'; allowed: a table with method"),
    ({RS: ["x" * 999]}, "xxx...; allowed: a table with method"),
    ({RS: {"method": "linear", "segments": "8"}}, "rsqrt.segments is '8'; allowed: integer"),
    ({RS: {"method": "linear", "segments": 1 << 40}}, "rsqrt.segments is 1099511627776; allowed"),
    ({RS: {"method": "linear", "bits": 999}}, "rsqrt.bits is 999; allowed: less"),
    ({RS: {"method": "linear", "frac_bits": 25}}, "rsqrt.frac_bits is 25; allowed: less"),
    ({ST: {"method": "ful"}}, "statistic.method is 'ful'; allowed: full, leading_one"),
    ({ST: {"method": "full", "bias": 0}}, "statistic.bias: found 0; allowed: a number from"),
    ({ST: {"method": "full", "bias": -1.0}}, "statistic.bias: found -1.0; allowed"),
    ({ST: {"method": "full", "bias": NAN}}, "statistic.bias: found nan; allowed"),
    ({ST: {"method": "full", "bias": INF}}, "statistic.bias: found inf; allowed"),
    ({ST: {"method": "full", "bias": True}}, "statistic.bias: found True; allowed"),
    ({ST: {"method": "full", "bias": "auto"}}, "statistic.bias: found 'auto'; allowed: a number"),
    ({ST: {"method": "full", "accumulator": 10}}, "statistic.accumulator is 10; allowed: a table"),
    ({ST: {"method": "full", "accumulator": {"bits": 63}}}, "statistic.accumulator.bits is 63; a"),
    ({ST: {"method": "mean_abs", "ratio": INF}}, "statistic.ratio is inf; allowed: less"),
    (
        {ST: {"method": "low_bit", "bits": 7}},
        "statistic.bits is 7; allowed: less than or equal to 6",
    ),
    (
        {ST: {"method": "low_bit", "rounding": "RND_CONV"}},
        "statistic.rounding: found RND_CONV; all",
    ),
    ({ST: {"method": "low_bit", "step": "some"}}, "statistic.step is 'some'; allowed: 'static' or"),
    ({ST: {"method": "outlier_exact", "top": 9}}, "statistic.top is 9; allowed: less than or equ"),
    ({ST: {"method": "prefix", "fraction": NAN}}, "statistic.fraction is nan; allowed"),
    ({ST: {"method": "strided", "stride": 0}}, "statistic.stride is 0; allowed: greater"),
    (
        {NO: {"method": "multiply", "order": "Llama"}},
        "normalize.order is 'Llama'; allowed: 'fused'",
    ),
    ({NO: {"method": "multiply", "constant": "rom"}}, "normalize.constant is 'rom'; allowed: 'tab"),
]

# Fields that only together, or only with a row length, turn out to be impossible.
BAD_TOGETHER: list[tuple[dict[str, Any], str]] = [
    ({RS: {"method": "linear", "segments": 7}}, "rsqrt.segments is 7; allowed: a power of two"),
    ({"x": "ap_fixed<32,16>"}, "lower x.bits (now 32), or add row_exponent.bits = 16"),
    ({"x": {"bits": 8}}, "x.scale is open; give it in the spec, or calibrate the spec on data"),
    ({"gamma": {"bits": 8}}, "gamma.scale is open"),
    ({"dim": None}, "dim is open"),
    ({"channel_shifts": {}}, "channel_shifts.shifts is open"),
    ({ST: {"method": "full", "accumulator": {"bits": 10}}}, "bits is 10; the sum needs 19 bits"),
    ({ST: {"method": "prefix", "count": 25}}, "statistic.count is 25; a row of 24 has 24 elements"),
    ({ST: {"method": "strided", "start": 24}}, "statistic.start is 24; allowed: 0 to 23"),
]


def one_sentence(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    assert "Traceback" not in text
    assert len(text) < 600
    return text


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_fields_are_named(case: int) -> None:
    changes, words = BAD[case]
    with pytest.raises(ApproxNormError) as caught:
        make(**changes)
    assert words in one_sentence(caught.value)


@pytest.mark.parametrize("case", range(len(BAD_TOGETHER)))
def test_bad_combinations_are_named(case: int) -> None:
    changes, words = BAD_TOGETHER[case]
    with pytest.raises(ApproxNormError) as caught:
        assemble(make(**changes))
    assert words in one_sentence(caught.value)


def test_several_faults_are_counted() -> None:
    with pytest.raises(ApproxNormError, match=r"is 0; .*\(and 1 more\)"):
        make(dim=0, eps=-1)


def test_the_widest_x_without_a_row_exponent() -> None:
    assemble(make(x="ap_fixed<26,16>", dim=1000))
    assemble(make(x="ap_fixed<32,16>", row_exponent={"bits": 16}))


@pytest.mark.parametrize(("dim", "bits"), [(131_071, 31), (131_072, 32)])
def test_a_narrow_accumulator_is_told_how_many_bits(dim: int, bits: int) -> None:
    narrow = {"method": "full", "accumulator": {"bits": bits - 1}}
    with pytest.raises(ApproxNormError, match=f"the sum needs {bits} bits for all inputs"):
        assemble(make(dim=dim, statistic=narrow))
    assemble(make(dim=dim, statistic={"method": "full", "accumulator": {"bits": bits}}))


# --- bad files ------------------------------------------------------------------------------------

GOOD = FIXED_SHAPE.encode()
GOOD_JSON = json.dumps(tomllib.loads(FIXED_SHAPE)).encode()

BAD_FILES: dict[str, tuple[str, bytes, str]] = {
    "empty toml": ("toml", b"", "norm is missing; give it (and 7 more)"),
    "empty json": ("json", b"", "not valid JSON"),
    "truncated toml": ("toml", GOOD[: GOOD.index(b'method = "linear"') + 12], "not valid TOML"),
    "cut after a table": ("toml", GOOD[: GOOD.index(b"[normalize]")], "normalize is missing"),
    "truncated json": ("json", GOOD_JSON[:-9], "not valid JSON"),
    "json in a toml": ("toml", GOOD_JSON, "not valid TOML"),
    "toml in a json": ("json", GOOD, "not valid JSON"),
    "json list": ("json", b"[1, 2]", "a spec is a table of fields, found list"),
    "json number": ("json", b"3", "a spec is a table of fields, found int"),
    "json null": ("json", b"null", "a spec is a table of fields, found NoneType"),
    "json NaN": ("json", GOOD_JSON.replace(b"1e-05", b"NaN"), "eps is nan"),
    "json twice": ("json", b'{"eps": 1, "eps": 2}', "key 'eps' comes twice"),
    "toml twice": ("toml", b"eps = 1\neps = 2\n", "not valid TOML"),
    "toml date": ("toml", GOOD.replace(b"1e-5", b"1979-05-27", 1), "eps is datetime.date(1979"),
    "utf-16": ("toml", FIXED_SHAPE.encode("utf-16"), "not valid TOML: 'utf-8' codec can't decode"),
    "latin-1": ("json", '{"norm": "é"}'.encode("latin-1"), "not valid JSON: 'utf-8' codec"),
    "numpy": ("toml", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}", "not valid TOML"),
    "zeros": ("toml", bytes(1000), "not valid TOML"),
    "deep json": ("json", b"[" * 100_000, "not valid JSON"),
    "deep toml": ("toml", b"a = " + b"[" * 100_000, "not valid TOML"),
    "long number": ("json", b'{"eps": ' + b"9" * 6000 + b"}", "not valid JSON"),
    "unknown key": (
        "toml",
        GOOD.replace(b"segments", b"segment", 1),
        "rsqrt: unknown key 'segment'",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_named(tmp_path: Path, name: str) -> None:
    suffix, content, words = BAD_FILES[name]
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ApproxNormError) as caught:
        load_spec(path)
    text = one_sentence(caught.value)
    assert text.startswith(str(path))
    assert words in text


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda p: None, "no such file"),
        (lambda p: p.mkdir(), "no regular file"),
        (lambda p: os.mkfifo(p), "no regular file"),
        (lambda p: p.symlink_to(p.parent / "nowhere"), "no such file"),
        (lambda p: (p / "..").resolve().joinpath(p.name).write_bytes(b"a"), "not valid TOML"),
    ],
)
def test_what_is_no_file_is_named(
    tmp_path: Path, prepare: Callable[[Path], Any], words: str
) -> None:
    path = tmp_path / "bad.toml"
    prepare(path)
    with pytest.raises(ApproxNormError, match=re.escape(str(path)) + ".*" + words):
        load_spec(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.toml"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ApproxNormError, match=f"larger than {MAX_FILE_BYTES} bytes; not a spec"):
        load_spec(path)


@pytest.mark.parametrize(
    "change", [lambda b: codecs.BOM_UTF8 + b, lambda b: b.replace(b"\n", b"\r\n")]
)
def test_editors_leave_marks_that_do_not_matter(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "spec.toml"
    path.write_bytes(change(GOOD))
    assert load_spec(path) == RMSNormSpec(**tomllib.loads(FIXED_SHAPE))


def test_a_rom_is_read_from_the_specs_own_folder(tmp_path: Path) -> None:
    (tmp_path / "rom.txt").write_text("\n".join(map(str, [128, 107, 90, 76])) + "\n")
    rsqrt = '[rsqrt]\nmethod = "file"\npath = "rom.txt"\nindex_bits = 1\nbits = 7\nwidth = 8\n'
    text = re.sub(r"\[rsqrt\][^[]*", rsqrt, FIXED_SHAPE.split("segments")[0])
    text += '[normalize]\nmethod = "multiply"\nconstant = "multiplier"\n'
    (tmp_path / "spec.toml").write_text(text)
    spec = load_spec(tmp_path / "spec.toml")
    assert spec.rsqrt.entries == (128, 107, 90, 76)  # type: ignore[attr-defined]
    alone = RMSNormSpec(**spec.to_dict())
    assert assemble(alone).digest() == assemble(spec).digest()
    (tmp_path / "spec.toml").write_text(text.replace("rom.txt", "gone.txt"))
    with pytest.raises(ApproxNormError, match=r"spec\.toml.*gone\.txt"):
        load_spec(tmp_path / "spec.toml")


def test_the_warning_of_eps_reaches_the_user() -> None:
    """Once, and not as an error of a run without filters."""
    code = (
        "from approxnorm import RMSNorm, RMSNormSpec; import tomllib, sys, numpy\n"
        "fields = tomllib.loads(sys.stdin.read()) | {'eps': 1e-15}\n"
        "RMSNorm(RMSNormSpec(**fields), numpy.ones(576))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=FIXED_SHAPE, capture_output=True, text=True, check=True
    )
    assert run.stderr.count("EpsWarning: eps is 1e-15, below one unit of the statistic") == 1
