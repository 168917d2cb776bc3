"""Formats and round-shift against g++ with Xilinx's own ap_fixed, code for code."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from exact_integers import OVERFLOWS, ROUNDINGS, limit_exact, round_shift_exact

from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.formats import Format, Overflow, Rounding
from approxnorm.program import ops
from approxnorm.program.datapath import DatapathBuilder

SOURCE = Path(__file__).with_name("ap_fixed_oracle.cpp")

# The order of the 28 cases that ap_fixed_oracle.cpp makes of one shape.
ORACLE_ROUNDINGS = ("TRN", "TRN_ZERO", "RND", "RND_ZERO", "RND_MIN_INF", "RND_INF", "RND_CONV")
ORACLE_OVERFLOWS = ("WRAP", "SAT", "SAT_ZERO", "SAT_SYM")
MODES = [(q, o) for q in ORACLE_ROUNDINGS for o in ORACLE_OVERFLOWS]


@dataclass(frozen=True)
class Fixed:
    """ap_fixed<width, integer>, or ap_ufixed."""

    width: int
    integer: int
    signed: bool

    def __str__(self) -> str:
        return f"{'s' if self.signed else 'u'}{self.width}.{self.integer}"

    @property
    def frac_bits(self) -> int:
        return self.width - self.integer

    @property
    def limits(self) -> tuple[int, int]:
        if self.signed:
            return -(2 ** (self.width - 1)), 2 ** (self.width - 1) - 1
        return 0, 2**self.width - 1

    def format(self, rounding: str, overflow: str) -> Format:
        scale = Fraction(2) ** -self.frac_bits
        return Format(self.width, self.signed, scale, 0, Rounding(rounding), Overflow(overflow))


Shape = tuple[Fixed, Fixed]


def _shapes(
    pairs: list[tuple[tuple[int, int], tuple[int, int]]], signs: list[tuple[bool, bool]]
) -> list[Shape]:
    return [(Fixed(*a, s), Fixed(*b, t)) for a, b in pairs for s, t in signs]


BOTH_SIGNS = [(s, t) for s in (True, False) for t in (True, False)]
SMALL = _shapes(
    [
        ((6, 3), (4, 2)),  # one bit dropped on either side
        ((8, 4), (3, 3)),  # all fraction bits dropped
        ((6, 2), (1, 1)),  # a target of one bit
        ((5, 5), (2, 4)),  # I > W: the target counts in fours
        ((6, -1), (4, -2)),  # I < 0: no bit near the point
        ((4, 2), (7, 3)),  # a narrower source, shifted left, always fits but for the sign
        ((5, 7), (4, 4)),  # shifted left, out of the target
        ((8, 1), (2, -3)),  # the target sees the lowest bits only
        ((3, 3), (4, 9)),  # shifted past the width: the rounded limit
    ],
    BOTH_SIGNS,
)
WIDE = _shapes(
    [
        ((60, 30), (48, 20)),
        ((60, 20), (32, 16)),
        ((48, 24), (60, 16)),
        ((54, 50), (40, 40)),
    ],
    [(True, True), (False, False)],
)
FLOAT_TARGETS = [Fixed(8, 4, True), Fixed(3, 5, False), Fixed(40, 12, True)]


def _headers() -> Path:
    spec = importlib.util.find_spec("hls4ml")  # found, not imported: it wants TensorFlow and more
    if spec is None or spec.origin is None:
        pytest.fail(
            "Xilinx's ap_fixed headers are missing: pip install --no-deps hls4ml==1.3.0",
            pytrace=False,
        )
    return Path(spec.origin).parent / "templates" / "vivado" / "ap_types"


def _compiler() -> str:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.fail("g++ is missing: install it (on Debian: apt-get install g++)", pytrace=False)
    return compiler


def _shape_lines() -> str:
    def fields(f: Fixed) -> str:
        return f"{f.width}, {f.integer}, {str(f.signed).lower()}"

    lines = [f"SHAPE({fields(a)}, {fields(b)})\n" for a, b in SMALL + WIDE]
    return "".join(lines + [f"FLOAT({fields(f)})\n" for f in FLOAT_TARGETS])


def _compile(folder: Path) -> Path:
    """The oracle's program in ``folder``; several processes may ask, and one compiles."""
    program = folder / "oracle"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            (folder / "shapes.inc").write_text(_shape_lines())
            # NDEBUG: on a shift past the width, the headers read a bit there, which an assertion
            # of theirs refuses, and then do not use it.
            command = [_compiler(), "-std=c++14", "-O0", "-w", "-DNDEBUG"]
            command += [f"-I{folder}", f"-I{_headers()}", str(SOURCE), "-o", str(folder / "half")]
            built = subprocess.run(command, capture_output=True, text=True)
            if built.returncode:
                pytest.fail(f"g++ cannot build {SOURCE.name}:\n{built.stderr[:2000]}", False)
            os.replace(folder / "half", program)
    return program


class Oracle:
    """The compiled program: codes of a shape in, codes of its target out, in any mode."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def convert(self, shape: Shape, codes: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
        return self._run((SMALL + WIDE).index(shape), codes)

    def from_float(self, target: Fixed, values: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
        bits = values.astype(np.float32).view(np.uint32)
        return self._run(len(SMALL + WIDE) + FLOAT_TARGETS.index(target), bits)

    def _run(self, shape: int, codes: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
        request = b"".join(
            np.array([shape * len(MODES) + i, len(codes)], np.int64).tobytes()
            + codes.astype(np.int64).tobytes()
            for i in range(len(MODES))
        )
        done = subprocess.run([self._program], input=request, capture_output=True)
        assert done.returncode == 0, f"the oracle ended with status {done.returncode}"
        results = np.frombuffer(done.stdout, np.int64).reshape(len(MODES), len(codes))
        return dict(zip(MODES, results, strict=True))


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    content = SOURCE.read_text() + Path(__file__).read_text() + str(_headers()) + _compiler()
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    # The parent folder is the same for every worker of a parallel run.
    return Oracle(_compile(tmp_path_factory.getbasetemp().parent / f"ap_fixed_oracle_{digest}"))


def _all_codes(source: Fixed) -> np.ndarray:
    lo, hi = source.limits
    return np.arange(lo, hi + 1, dtype=np.int64)


def _wide_codes(shape: Shape) -> np.ndarray:
    """Random codes of every magnitude, exact ties in the target and their neighbours."""
    source, target = shape
    lo, hi = source.limits
    rng = np.random.default_rng(20240611)
    raw = rng.integers(lo, hi, 400, endpoint=True) >> rng.integers(0, source.width, 400)
    dropped = max(source.frac_bits - target.frac_bits, 1)
    ties = ((raw >> dropped) << dropped) + (1 << (dropped - 1))
    edges = np.array([lo, lo + 1, hi - 1, hi, 0, 1])
    codes = np.concatenate([raw, ties, ties - 1, ties + 1, edges])
    return codes[(codes >= lo) & (codes <= hi)]


def _round_shift(shape: Shape, codes: np.ndarray, mode: tuple[str, str]) -> np.ndarray:
    source, target = shape
    amount = source.frac_bits - target.frac_bits
    return ops.round_shift(codes, amount, Rounding(mode[0]), target.limits, Overflow(mode[1]))


def _through_backend(shape: Shape, codes: np.ndarray, mode: tuple[str, str]) -> np.ndarray:
    """The same conversion as a traced datapath, hence in narrow integer types."""
    builder = DatapathBuilder(len(codes))
    x = builder.input("x", "element", *shape[0].limits)
    builder_output = builder.element(
        "convert", lambda x: ops.named("y", _round_shift(shape, x, mode)), x
    )
    return NumpyBackend(builder.finish(builder_output)).run({"x": codes[None, :]})[0]


def _check(shape: Shape, codes: np.ndarray, oracle: Oracle) -> None:
    for mode, wanted in oracle.convert(shape, codes).items():
        for found in (_round_shift(shape, codes, mode), _through_backend(shape, codes, mode)):
            wrong = np.flatnonzero(found != wanted)
            if len(wrong):
                i = wrong[0]
                pytest.fail(
                    f"{shape[0]} to {shape[1]} {mode}: {len(wrong)} codes differ, first"
                    f" {codes[i]}: got {found[i]}, ap_fixed has {wanted[i]}"
                )


def test_oracle_modes_are_all_modes() -> None:
    assert set(ORACLE_ROUNDINGS) == set(ROUNDINGS) == set(Rounding.__members__)
    assert set(ORACLE_OVERFLOWS) == set(OVERFLOWS) == set(Overflow.__members__)


@pytest.mark.parametrize("shape", SMALL, ids=lambda s: f"{s[0]}-{s[1]}")
def test_every_code_of_small_formats(shape: Shape, oracle: Oracle) -> None:
    _check(shape, _all_codes(shape[0]), oracle)


@pytest.mark.parametrize("shape", WIDE, ids=lambda s: f"{s[0]}-{s[1]}")
def test_wide_formats(shape: Shape, oracle: Oracle) -> None:
    codes = _wide_codes(shape)
    assert len(codes) > 1000
    _check(shape, codes, oracle)


@pytest.mark.parametrize("shape", SMALL + WIDE, ids=lambda s: f"{s[0]}-{s[1]}")
def test_exact_fractions_agree_with_ap_fixed(shape: Shape, oracle: Oracle) -> None:
    """So that the other tests may lean on fractions alone."""
    codes = _all_codes(shape[0]) if shape in SMALL else _wide_codes(shape)[::7]
    amount = shape[0].frac_bits - shape[1].frac_bits
    for (rounding, overflow), wanted in oracle.convert(shape, codes).items():
        found = [
            round_shift_exact(int(c), amount, rounding, shape[1].limits, overflow) for c in codes
        ]
        assert found == wanted.tolist(), (rounding, overflow)


@pytest.mark.parametrize("target", FLOAT_TARGETS, ids=str)
def test_quantize_is_ap_fixed_of_a_float(target: Fixed, oracle: Oracle) -> None:
    rng = np.random.default_rng(7)
    unit = 2.0**-target.frac_bits
    # Random magnitudes about the format's range, and every half unit near zero.
    spread = rng.standard_normal(2000) * unit * 2.0 ** rng.integers(-3, target.width + 3, 2000)
    halves = np.arange(-70, 71) * unit / 2
    values = np.concatenate([spread, halves, [1e-30, -1e-30, 0.0, -0.0]]).astype(np.float32)
    for (rounding, overflow), wanted in oracle.from_float(target, values).items():
        found = target.format(rounding, overflow).quantize(values)
        assert found.tolist() == wanted.tolist(), (rounding, overflow)


def test_infinity_saturates_as_in_ap_fixed(oracle: Oracle) -> None:
    target, values = FLOAT_TARGETS[0], np.array([np.inf, -np.inf], np.float32)
    wanted = oracle.from_float(target, values)["RND_CONV", "SAT"]
    assert target.format("RND_CONV", "SAT").quantize(values).tolist() == wanted.tolist()
    assert wanted.tolist() == [limit_exact(10**9, *target.limits, "SAT"), target.limits[0]]
