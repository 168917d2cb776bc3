"""Every rsqrt method: what it costs, how far it is off, and that both ways to run it agree."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.errors import ApproxNormError
from approxnorm.formats import Rounding
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.methods.rsqrt.fisr import Fisr
from approxnorm.methods.rsqrt.log2 import Log2
from approxnorm.methods.rsqrt.newton import Newton
from approxnorm.tables.error import measure
from approxnorm.tables.target import RSQRT, Target

ROOT = Path(__file__).parent.parent


def make(name: str, **fields: Any) -> FunctionMethod:
    return RSQRT_METHODS.get(name)(**fields).resolved()


def rom(index_bits: int = 2, bits: int = 8) -> dict[str, Any]:
    entries = make("direct", index_bits=index_bits, bits=bits).tables()[0].entries
    return {"entries": entries, "index_bits": index_bits, "bits": bits, "width": bits}


# --- figures ----------------------------------------------------------------------------------

# method, fields, table bits, max_rel to 5 digits, and what must be reached: bits and error
REQUIRED = [
    ("direct", {"bits": 16}, 7680, "9.7934e-04", 8192, 9.8e-4),
    ("bipartite", {}, 1664, "8.5886e-04", 1792, 9.3e-4),
    ("bipartite", {"base_bits": 4}, 1376, "8.5886e-04", 1792, 9.3e-4),
    (
        "bipartite",
        {"split": [4, 3, 4], "bits": 14, "offset_bits": 15},
        4864,
        "2.1480e-04",
        4864,
        2.31e-4,
    ),
    (
        "bipartite",
        {"split": [4, 3, 4], "bits": 15, "base_bits": 4},
        4352,
        "2.1480e-04",
        4864,
        2.31e-4,
    ),
    ("linear", {"frac_bits": 16, "out_bits": 18}, 272, "8.3867e-04", 288, 8.7e-4),
    (
        "linear",
        {"bits": 12, "slope_bits": 11, "frac_bits": 16, "out_bits": 18},
        288,
        "7.8337e-04",
        288,
        8.7e-4,
    ),
    ("linear", {"segments": 16, "bits": 13, "out_bits": 18}, 640, "2.3840e-04", 672, 2.4e-4),
    (
        "linear",
        {"segments": 16, "bits": 14, "slope_bits": 13, "frac_bits": 17, "out_bits": 18},
        672,
        "2.0939e-04",
        672,
        2.4e-4,
    ),
    ("powering", {}, 256, "2.3629e-04", 256, 2.5e-4),
    (
        "powering",
        {"bits": 14, "frac_bits": 16, "shared_octave": True},
        136,
        "2.2968e-04",
        256,
        2.5e-4,
    ),
    ("quadratic", {}, 264, "1.2600e-04", 268, 1.3e-4),
    (
        "quadratic",
        {"segments": 8, "bits": 17, "slope_bits": 16, "square_bits": 14},
        560,
        "2.1939e-05",
        632,
        2.4e-5,
    ),
    ("newton", {}, 512, "6.5695e-05", 512, 7e-5),
]


@pytest.mark.parametrize(("name", "fields", "table_bits", "max_rel", "bits", "limit"), REQUIRED)
def test_required_error_within_required_table_bits(
    name: str, fields: dict[str, Any], table_bits: int, max_rel: str, bits: int, limit: float
) -> None:
    method = make(name, **fields)
    error = method.error().max_error
    assert method.table_bits() == table_bits <= bits
    assert f"{error:.4e}" == max_rel
    assert error <= limit


def test_powering_has_one_multiplier() -> None:
    assert make("powering").multipliers() == 1
    assert make("powering", shared_octave=True).multipliers() == 1


# SHA-256 of the tables of each method's defaults: any changed entry fails here.
DIGESTS = {
    "bipartite": "aa92b65ce83a35496a9a832c72c029a321f929589890de35303f55fec088363e",
    "direct": "3c9fe284c80fe1fb03153425b545826afd3b3880923fb10789d6e63549db4e5b",
    "linear": "07dc0fcb223c0e7b1d4caf82f49cbfd73f1bd80343b7d22ec6361058d5502c3d",
    "log2": "73a8125018cf21023cd7f5b8d89717f28e9785fa0a1a55def377d61b68367534",
    "multipartite": "96ef62a70d9086fac02fd16906bd2a28a98be3bff46ce6db93e651b8c62bb992",
    "newton": "a2d4f0bcde468977ad9436399bb3b975e9f5e7e91e00ab1d5d16205d6a6a378f",
    "powering": "84b82f3d3c3a02e2a657ec3cff5ba665ab916d895361ed5852cead70c67663ba",
    "quadratic": "3e214950dd8a942357f4481582d9c90de096ae4a30bc83228753c74f54825efb",
}


def table_digest(method: FunctionMethod) -> str:
    text = repr([(t.name, t.frac_bits, t.entries) for t in method.tables()])
    return hashlib.sha256(text.encode()).hexdigest()


def test_default_tables_have_not_changed() -> None:
    found = {name: make(name) for name in RSQRT_METHODS.names() if name not in NO_DEFAULT}
    digests = {name: table_digest(m) for name, m in found.items() if m.tables()}
    assert digests == DIGESTS


NO_DEFAULT = ("exact", "file")


def test_documented_table_is_what_the_benchmark_prints() -> None:
    path = ROOT / "benchmarks" / "rsqrt_table.py"
    spec = importlib.util.spec_from_file_location("rsqrt_table", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.table() in (ROOT / "docs" / "rsqrt-methods.md").read_text("utf-8")


# --- both ways to run a stage -----------------------------------------------------------------

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("direct", {}),
    ("direct", {"entries": "midpoint", "frac_bits": 11}),
    ("direct", {"index_bits": 0, "bits": 4}),
    ("linear", {}),
    ("linear", {"segments": 1, "bits": 6, "slope_bits": 4}),
    ("quadratic", {"frac_bits": 14}),
    ("quadratic", {"segments": 1, "bits": 6, "frac_bits": 6, "cut_bits": 2}),
    ("bipartite", {}),
    ("bipartite", {"split": (0, 1, 1), "frac_bits": 5}),
    ("bipartite", {"base_bits": 2, "out_bits": 9}),
    ("multipartite", {}),
    ("multipartite", {"base_bits": 3, "offsets": ((3, 2), (2, 1), (0, 1))}),
    ("powering", {}),
    ("powering", {"shared_octave": True, "operand_bits": 7}),
    ("powering", {"correction_index_bits": 0, "segments": 2, "bits": 6}),
    ("newton", {}),
    ("newton", {"steps": 2, "seed_index_bits": 3, "seed_bits": 6, "frac_bits": 14}),
    ("newton", {"seed_index_bits": 3, "seed_offsets": ((2, 2),), "recenter": False}),
    ("fisr", {}),
    ("fisr", {"steps": 0}),
    ("fisr", {"steps": 2, "recenter": True, "frac_bits": 13}),
    ("log2", {}),
    ("log2", {"index_bits": 0}),
    ("log2", {"index_bits": 3, "form": "correction", "entries": "left"}),
    ("log2", {"index_bits": 3, "form": "correction"}),
    ("log2", {"index_bits": 5, "antilog_index_bits": 0, "entries": "midpoint"}),
    ("power_of_two", {"frac_bits": 3, "out_bits": 7}),
    ("isqrt_divide", {}),
    ("isqrt_divide", {"rounding": "RND", "frac_bits": 9}),
    ("file", rom()),
]


def check_both_ways(method: FunctionMethod, target: Target = RSQRT) -> None:
    """The traced program in NumPy's plan equals the function on arrays, at every argument."""
    shape = (target.octaves, 1 << method.f)
    octave = np.broadcast_to(np.arange(target.octaves)[:, None], shape)
    frac = np.broadcast_to(np.arange(1 << method.f)[None, :], shape)
    direct = np.broadcast_to(method.build(target)(octave, frac), shape)
    datapath = method.datapath(target, dim=shape[1])
    traced = NumpyBackend(datapath).run({"octave": octave, "frac": frac})
    assert np.array_equal(direct, traced)
    interval = datapath.ports[datapath.output].interval
    assert interval.lo <= direct.min() and direct.max() <= interval.hi


@pytest.mark.parametrize(("name", "fields"), VARIANTS)
def test_traced_program_equals_function_on_arrays(name: str, fields: dict[str, Any]) -> None:
    check_both_ways(make(name, **fields))


def test_every_method_is_run_both_ways() -> None:
    assert {name for name, _ in VARIANTS} | {"exact"} == set(RSQRT_METHODS.names())


@pytest.mark.parametrize("target", ["reciprocal", "log2", "exp2"])
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("direct", {}),
        ("linear", {}),
        ("quadratic", {"bits": 12}),
        ("bipartite", {}),
        ("multipartite", {"base_bits": 3}),
    ],
)
def test_other_functions(name: str, fields: dict[str, Any], target: str) -> None:
    method = make(name, **fields)
    function = Target(target)  # type: ignore[arg-type]
    check_both_ways(method, function)
    assert method.error(function).max_error < {"quadratic": 6e-4}.get(name, 3e-3)


@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("name", ["linear", "quadratic", "powering", "newton"])
def test_every_rounding_mode(name: str, rounding: Rounding) -> None:
    method = make(name, rounding=rounding.value, frac_bits=11, out_bits=10)
    check_both_ways(method)
    assert method.error().max_error < 5e-3


@pytest.mark.parametrize(
    ("name", "fields", "limit"),
    [
        ("direct", {}, 9.9e-4),
        ("linear", {}, 8.8e-4),
        ("quadratic", {}, 1.3e-4),
        ("bipartite", {}, 8.6e-4),
        ("multipartite", {}, 8.2e-4),
        ("powering", {}, 2.4e-4),
        ("powering", {"shared_octave": True}, 2.3e-4),
        ("log2", {}, 4e-3),
    ],
)
def test_a_constant_is_folded_into_the_entries(
    name: str, fields: dict[str, Any], limit: float
) -> None:
    method = make(name, **fields)
    assert method.folds_constant
    assert method.error(Target("rsqrt", Fraction(277, 100))).max_error < limit


# --- single methods ---------------------------------------------------------------------------


def test_left_entries_are_the_published_lod_table() -> None:
    (table,) = make("direct", entries="left").tables()
    exact = [(1 << 15) / math.sqrt((1 + i / 256) * o) for o in (1, 2) for i in range(256)]
    assert table.entries == tuple(math.floor(v + 0.5) for v in exact)
    assert (len(table.entries), table.width) == (512, 16)


def test_fisr_seed_is_the_float_trick() -> None:
    method = make("fisr", steps=0, frac_bits=23, out_bits=25)
    frac = np.random.Generator(np.random.PCG64(1)).integers(0, 1 << 23, 4000)
    for octave in (0, 1):
        m = ((1 << 23) + frac).astype(np.float32) * np.float32(2.0 ** (octave - 23))
        bits = np.uint32(0x5F3759DF) - (m.view(np.uint32) >> np.uint32(1))
        want = bits.view(np.float32).astype(np.float64) * 2.0**25
        assert np.array_equal(method.build()(np.int64(octave), frac), want)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"steps": 0, "frac_bits": 20, "out_bits": 22}, 3.44e-2),
        ({"frac_bits": 20, "out_bits": 22}, 1.75e-3),
        ({"frac_bits": 20, "out_bits": 22, "magic": 0x5F375A86}, 1.75e-3),
        ({"steps": 2, "frac_bits": 20, "out_bits": 24}, 4.67e-6),
    ],
)
def test_fisr_errors_are_the_known_ones(fields: dict[str, Any], expected: float) -> None:
    assert make("fisr", **fields).error().max_error == pytest.approx(expected, rel=0.01)


def test_recentring_halves_the_error_of_a_step() -> None:
    one_sided = make("fisr", frac_bits=18, out_bits=22).error()
    centred = make("fisr", frac_bits=18, out_bits=22, recenter=True).error()
    assert 0.5 <= centred.max_error / one_sided.max_error < 0.53


def test_isqrt_divide_is_integer_root_and_division() -> None:
    method = make("isqrt_divide", root_bits=7, frac_bits=8, out_bits=10)
    for octave in (0, 1):
        for frac in range(1 << 8):
            m = ((1 << 8) + frac) << octave
            want = (1 << 17) // math.isqrt(m << 6)
            assert int(method.build()(np.int64(octave), np.int64(frac))) == want


def test_power_of_two_rounds_the_half_logarithm() -> None:
    method = make("power_of_two")
    assert [int(method.build()(o, 0)) for o in (0, 1)] == [2, 1]
    assert [int(method.build_log2(4)(o, 0)) for o in (0, 1)] == [0, 32]  # type: ignore[attr-defined]


@pytest.mark.parametrize("log_bits", [3, 6, 10])
@pytest.mark.parametrize("form", ["constant", "correction"])
@pytest.mark.parametrize("index_bits", [0, 1, 4, 8])
def test_log2_codes_stay_below_two_and_rise(form: str, index_bits: int, log_bits: int) -> None:
    method = make("log2", index_bits=index_bits, form=form, frac_bits=10)
    frac = np.arange(1 << 10)
    codes = np.stack([method.build_log2(log_bits)(np.int64(o), frac) for o in (0, 1)])  # type: ignore[attr-defined]
    exact = np.arange(2)[:, None] + np.log2(1 + frac / 1024)
    # Mitchell is off by 0.0861; a constant by half of a cell's rise, at most log2(1 + 2**-n).
    bound = 0.0861 if index_bits == 0 else 0.51 * math.log2(1 + 2.0**-index_bits)
    assert codes.min() >= 0 and codes.max() < 2 << log_bits
    assert np.abs(codes / 2**log_bits - exact).max() < bound + 1.5 * 2.0**-log_bits
    if form == "constant":
        assert np.all(np.diff(codes.ravel()) >= 0)


def test_mitchell_alone_needs_no_table() -> None:
    method = make("log2", index_bits=0, frac_bits=14, out_bits=18)
    assert method.tables() == [] and method.multipliers() == 0
    assert method.error().max_error == pytest.approx(0.0888, rel=0.01)


LARGE: list[tuple[str, dict[str, Any]]] = [
    ("direct", {"frac_bits": 24}),
    ("newton", {"frac_bits": 22}),
    ("log2", {"frac_bits": 20}),
    ("log2", {"form": "correction", "index_bits": 3, "frac_bits": 19}),
]


@pytest.mark.parametrize(("name", "fields"), VARIANTS + LARGE, ids=str)
def test_tables_state_the_error_of_their_stage(name: str, fields: dict[str, Any]) -> None:
    """Newton's table serves the seed, the log2 table the logarithm; all others the whole."""
    method = make(name, **fields)
    whole = method.error().text(RSQRT)
    for table in method.tables():
        if isinstance(method, Newton):
            assert table.bound == method.seed().error().text(RSQRT)
        elif table.name == "rsqrt_log2_table":
            assert isinstance(method, Log2) and method.log_bits is not None
            log2 = method.build_log2(method.log_bits)
            error = measure(log2, Target("log2"), method.f, method.log_bits)
            assert table.bound == error.text(Target("log2"))
        else:
            assert table.bound == whole


def test_tables_with_a_constant_state_the_error_too() -> None:
    target = Target("rsqrt", Fraction(277, 100))
    for name in RSQRT_METHODS.names():
        if name != "exact" and RSQRT_METHODS.get(name).folds_constant:
            method = make(name)
            assert method.error(target).text(target) in {t.bound for t in method.tables(target)}


def test_table_names_are_unique_within_a_stage() -> None:
    for name, fields in VARIANTS:
        names = [t.name for t in make(name, **fields).tables()]
        assert len(set(names)) == len(names)


def test_resolving_twice_changes_nothing() -> None:
    for name, fields in VARIANTS:
        method = make(name, **fields)
        assert method.resolved() == method
        assert type(method)(**method.model_dump(mode="json")) == method


# --- refusals ---------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("direct", {"frac_bits": 5}, r"rsqrt\.frac_bits is 5; .* at least 8"),
    ("direct", {"out_bits": 12}, r"rsqrt\.out_bits is 12; .*15"),
    ("linear", {"segments": 6}, r"rsqrt\.segments is 6; allowed: a power of two"),
    ("linear", {"slope_bits": 12}, r"rsqrt\.slope_bits is 12; .* 11"),
    ("quadratic", {"segments": 4, "frac_bits": 2}, r"rsqrt\.frac_bits is 2; .* at least 3"),
    ("quadratic", {"cut_bits": 20}, r"rsqrt\.cut_bits is 20; .* 16"),
    ("quadratic", {"square_bits": 16}, r"rsqrt\.square_bits is 16; .* 15"),
    ("bipartite", {"split": (3, 0, 3)}, r"rsqrt\.split is \[3, 0, 3\]"),
    ("bipartite", {"base_bits": 6}, r"rsqrt\.base_bits is 6; .* below index_bits, 6"),
    ("bipartite", {"offset_bits": 11}, r"rsqrt\.offset_bits is 11; .* 12"),
    ("multipartite", {"offsets": ((6, 2),)}, r"rsqrt\.offsets has \(6, 2\)"),
    ("multipartite", {"offsets": ()}, r"rsqrt\.offsets is \(\); allowed: 1 to 4 pairs"),
    ("multipartite", {"frac_bits": 9}, r"rsqrt\.frac_bits is 9; .* at least 10"),
    ("powering", {"operand_bits": 14}, r"rsqrt\.operand_bits is 14; .* 13"),
    ("powering", {"correction_bits": 20}, r"rsqrt\.correction_bits is 20; .* 9 to 15"),
    ("powering", {"correction_index_bits": 0, "correction_bits": 12}, "leave one of them out"),
    ("powering", {"frac_bits": 7}, r"rsqrt\.frac_bits is 7; .* at least 8"),
    ("newton", {"frac_bits": 4}, r"rsqrt\.frac_bits is 4; .* at least 5"),
    ("fisr", {"magic": 0x5F400000}, r"rsqrt\.magic is 0x5f400000; 0x5ec00000 to 0x5f3fffff"),
    ("fisr", {"frac_bits": 0}, r"rsqrt\.frac_bits is 0"),
    ("log2", {"antilog_index_bits": 12}, r"rsqrt\.antilog_index_bits is 12; .* 9 fraction bits"),
    ("power_of_two", {"out_bits": 0}, r"rsqrt\.out_bits is 0; .* at least 1"),
    ("isqrt_divide", {"rounding": "RND_CONV"}, r"rsqrt\.rounding is RND_CONV; .* TRN and RND"),
    ("file", {}, r"rsqrt\.path is None .* has not been read"),
    ("file", rom() | {"index_bits": 3}, r"rsqrt\.entries: 8 words found; .* needs 16"),
    ("file", rom() | {"width": 4}, r"rsqrt\.entries has .*; width = 4 allows 0 to 15"),
    ("file", rom() | {"out_bits": 7}, r"rsqrt\.out_bits is 7; .* 8"),
]


@pytest.mark.parametrize(("name", "fields", "message"), REFUSED)
def test_refused_with_one_sentence(name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ApproxNormError, match=message) as caught:
        make(name, **fields)
    assert "\n" not in str(caught.value)


def test_exact_has_no_stage() -> None:
    with pytest.raises(ApproxNormError, match="yardstick"):
        make("exact").build()


def test_mitchell_antilog_folds_no_constant() -> None:
    with pytest.raises(ApproxNormError, match=r"set normalize\.constant"):
        make("log2", index_bits=0).build(Target("rsqrt", Fraction(2)))


@pytest.mark.parametrize("name", ["powering", "newton", "fisr", "isqrt_divide", "power_of_two"])
def test_a_function_that_a_method_lacks_is_refused(name: str) -> None:
    with pytest.raises(ApproxNormError, match=f"'{name}' does not approximate exp2; allowed"):
        make(name).build(Target("exp2"))


def test_fisr_magic_range_gives_codes_in_range() -> None:
    for magic in (0x5EC00000, 0x5F3FFFFF):
        method = Fisr(magic=magic, steps=0, frac_bits=9).resolved()
        check_both_ways(method)


# --- the user's own ROM -----------------------------------------------------------------------

WORDS = (255, 227, 206, 190, 181, 160, 146, 134)
MEMH = "// rsqrt\n@0\nff e3 ce /* two\nlines */ be\n@4\nB5\na0\n9_2\n86\n"
COE = """; a comment
memory_initialization_radix=16;
memory_initialization_vector=
ff, e3, ce, be,
b5, a0, 92, 86;
"""


def write(folder: Path, name: str) -> None:
    decimal = "# value\n" + "\n".join(str(w) for w in WORDS)
    texts = {"r.mem": MEMH, "r.hex": MEMH, "r.coe": COE, "r.txt": decimal}
    if name == "r.npy":
        np.save(folder / name, np.array(WORDS, np.uint8))
    else:
        (folder / name).write_text(texts[name])


def file_method(path: str, **fields: Any) -> Any:
    given: dict[str, Any] = {"path": path, "index_bits": 2, "bits": 8, "width": 8} | fields
    return RSQRT_METHODS.get("file")(**given)


@pytest.mark.parametrize("name", ["r.mem", "r.hex", "r.coe", "r.txt", "r.npy"])
def test_rom_formats(name: str, tmp_path: Path) -> None:
    write(tmp_path, name)
    method = file_method(name).loaded(tmp_path).resolved()
    assert method.entries == WORDS
    assert method.sha256 == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    assert method.tables()[0].entries == WORDS
    check_both_ways(method)


def test_a_resolved_rom_stands_alone(tmp_path: Path) -> None:
    write(tmp_path, "r.mem")
    method = file_method("r.mem").loaded(tmp_path).resolved()
    again = type(method)(**method.model_dump(mode="json"))
    (tmp_path / "r.mem").unlink()
    assert again.loaded(tmp_path).resolved() == method


def test_a_rom_that_changed_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "r.mem")
    method = file_method("r.mem").loaded(tmp_path)
    (tmp_path / "r.mem").write_text(MEMH.replace("ff", "fe"))
    with pytest.raises(ApproxNormError, match=r"r\.mem: its SHA-256 is .* rsqrt\.sha256"):
        method.loaded(tmp_path)


def test_signed_words_are_twos_complement(tmp_path: Path) -> None:
    (tmp_path / "s.mem").write_text("7f 80 ff 00 01 02 03 04\n")
    method = file_method("s.mem", signed=True).loaded(tmp_path).resolved()
    assert method.entries == (127, -128, -1, 0, 1, 2, 3, 4)
    check_both_ways(method)


BAD_FILES: list[tuple[str, bytes, str]] = [
    ("a.mem", b"ff ee\n", r"a\.mem: 2 words found; .* needs 8"),
    ("b.mem", b"1ff " * 8, r"b\.mem: word 0 is 511; width = 8 allows 0 to 255"),
    ("c.mem", b"zz\n", r"c\.mem: 'zz' is no hexadecimal number"),
    ("d.mem", b"@2 ff\n", r"d\.mem: address @2 where word 0 follows"),
    ("e.mem", b"\xff\xfe\x00", r"e\.mem: not a text file"),
    ("f.txt", b"1.5\n", r"f\.txt: '1\.5' is no decimal number"),
    ("g.txt", b"-1\n" * 8, r"g\.txt: word 0 is -1; width = 8 allows 0 to 255"),
    ("h.npy", b"not numpy", r"h\.npy: not an \.npy file"),
    ("i.coe", b"ff, ee;", r"i\.coe: not a \.coe file"),
    ("j.bin", b"", r"rsqrt\.path is 'j\.bin'; allowed endings"),
]


@pytest.mark.parametrize(("name", "data", "message"), BAD_FILES)
def test_foreign_files_are_refused(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ApproxNormError, match=message) as caught:
        file_method(name).loaded(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "array", [np.zeros(8), np.zeros((2, 4), int), np.array([None] * 8, object)]
)
def test_npy_of_another_kind_is_refused(array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "r.npy", array, allow_pickle=True)
    with pytest.raises(ApproxNormError, match=r"^r\.npy: "):
        file_method("r.npy").loaded(tmp_path)


def test_missing_rom_is_named(tmp_path: Path) -> None:
    with pytest.raises(ApproxNormError, match=r"gone\.mem: no such file"):
        file_method("gone.mem").loaded(tmp_path)


@pytest.mark.parametrize("outside", ["../r.mem", "/etc/hostname.mem", "link.mem"])
def test_a_rom_outside_the_folder_is_not_followed(outside: str, tmp_path: Path) -> None:
    folder = tmp_path / "spec"
    folder.mkdir()
    write(tmp_path, "r.mem")
    (folder / "link.mem").symlink_to(tmp_path / "r.mem")
    with pytest.raises(ApproxNormError, match="outside the spec's folder"):
        file_method(outside).loaded(folder)


@pytest.mark.parametrize("name", ["linear", "quadratic", "powering"])
def test_searched_methods_say_how_fine_their_argument_may_be(name: str) -> None:
    with pytest.raises(ApproxNormError, match=r"frac_bits is 21; .* allowed: at most 20"):
        make(name, frac_bits=21)
    assert make(name, bits=24).frac_bits == 20


def test_newton_names_a_seed_that_is_too_wide() -> None:
    with pytest.raises(ApproxNormError, match=r"seed_offsets and seed_index_bits address \d+ bits"):
        make("newton", seed_offsets=[[16, 16], [4, 11]])


def test_a_rom_is_a_regular_file_of_hexadecimal_words(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mem")
    (tmp_path / "x.mem").write_text("0x1f 10\n", "ascii")
    rom = {"index_bits": 0, "bits": 4, "width": 8}
    for name, message in (
        ("pipe.mem", "no such file"),
        ("a\0.mem", "allowed: a file's name"),
        ("x.mem", "'0x1f' is no hexadecimal number"),
    ):
        with pytest.raises(ApproxNormError, match=message):
            RSQRT_METHODS.parse({"method": "file", "path": name} | rom).loaded(tmp_path)
