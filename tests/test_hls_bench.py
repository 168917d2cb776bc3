"""The C++ test bench, with a driver that answers from a table: what it finds and refuses."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from approxnorm import RMSNorm, RMSNormSpec
from approxnorm.hls_ref.csim import find_compiler
from approxnorm.vectors import VectorSet, read_vectors, write_vectors
from approxnorm.vectors.signals import ports_of
from approxnorm.vectors.text import to_hex

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "hls_ref" / "bench"
STREAM = ROOT / "hls_ref" / "csim_include"
FAKE = Path(__file__).parent / "fake_hls"
WARNINGS = ["-std=c++14", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
SANITIZED = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
DIM, LANES = 5, 2
SPEC = RMSNormSpec(
    norm="rmsnorm",
    dim=DIM,
    eps=2.0**-10,
    x="ap_fixed<8,4,RND_CONV,SAT>",
    gamma="ap_fixed<6,2,RND_CONV,SAT>",
    y="ap_fixed<8,4,RND_CONV,SAT>",
    statistic={"method": "full"},
    rsqrt={"method": "linear", "segments": 4, "bits": 9},
    normalize={"method": "multiply", "constant": "table", "order": "fused"},
)
GAMMAS = ([16, -16, 9, 31, 0], [1, 2, 3, 4, 5])  # one layer each
ROWS = (23, 7)  # rows of input of each layer


def model(layer: int) -> RMSNorm:
    return RMSNorm(SPEC, np.array(GAMMAS[layer]))


def signal_ids() -> dict[str, int]:
    return {p.name: i for i, p in enumerate(ports_of(model(0)))}


X, Y = signal_ids()["x"], signal_ids()["y"]


@dataclass
class Bench:
    """Compiled benches and the vectors that they were made for."""

    folder: Path
    programs: dict[str, Path] = field(default_factory=dict)

    @property
    def vectors(self) -> Path:
        return self.folder / "vectors"

    def run(
        self, *arguments: object, kind: str = "trace", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        given = {f"FAKE_{k.upper()}": v for k, v in environment.items()}
        return subprocess.run(
            [self.programs[kind], *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**os.environ, "FAKE_CODES": str(self.folder / "codes"), **given},
        )


def _write_config(folder: Path) -> None:
    levels = {"element": "e", "row": "r", "channel": "c"}
    signals = "".join(
        f"    {{\"{p.name}\", '{levels[p.level]}', {p.interval.width},"
        f" {str(p.interval.signed).lower()}}},\n"
        for p in ports_of(model(0))
    )
    digests = ", ".join(f'"{model(i).digest}"' for i in (0, 1))
    (folder / "fake_config.hpp").write_text(
        f"const Signal SIGNALS[] = {{\n{signals}}};\n"
        f"const int SIGNAL_COUNT = {len(signal_ids())}, X = {X}, Y = {Y};\n"
        f"const char *const DIGESTS[] = {{{digests}}};\n"
        f"const int ROWS[] = {{{ROWS[0]}, {ROWS[1]}}};\n"
        f"const int DIM = {DIM}, LANES = {LANES};\n"
    )


def _write_codes(folder: Path, sets: list[VectorSet]) -> None:
    folder.mkdir()
    for name, number in signal_ids().items():
        codes = [s.array(name).astype(np.int64).tobytes() for s in sets]
        (folder / f"{number}.bin").write_bytes(b"".join(codes))


def _write_sets(folder: Path) -> None:
    """vectors of layer 0 with residual/vectors, and layers/ of both."""
    _write_config(folder)
    names = ("layers/first", "layers/second")
    (folder / "layers").mkdir()
    for layer, name in enumerate(names):
        rows = np.random.default_rng(layer).integers(-128, 128, (ROWS[layer], DIM))
        write_vectors(model(layer), folder / name, x_codes=rows, lanes=3)
    shutil.copytree(folder / names[0], folder / "vectors")
    _write_codes(folder / "codes", [read_vectors(folder / name) for name in names])
    write_residual(folder / "vectors", folder / "residual" / "vectors")


def write_residual(vectors: Path, out: Path) -> None:
    """Two addends of the vectors' x, neither of which saturates."""
    found = read_vectors(vectors)
    x = found.array("x").astype(np.int64)
    a = x // 2
    manifest: dict[str, Any] = {
        "format": "approxnorm-residual",
        "format_version": 1,
        "digest": found.digest,
        "x_sha256": found.signal("x").sha256,
    }
    out.mkdir(parents=True)
    for name, codes in {"a": a, "b": x - a}.items():
        data = to_hex(codes, 8)
        (out / f"{name}.hex").write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        manifest[name] = {"file": f"{name}.hex", "sha256": sha256}
    (out / "manifest.json").write_text(json.dumps(manifest))


def compile_cpp(source: Path, program: Path, *options: str) -> None:
    command = [*find_compiler(), *WARNINGS, *options, str(source), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:3000]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Two builds: with trace and sanitizers, and optimised without. Workers share them."""
    sources = sorted([*BENCH.iterdir(), *FAKE.iterdir(), Path(__file__)])
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()[:16]
    folder = tmp_path_factory.getbasetemp().parent / f"hls_bench_{digest}"
    kinds = {"trace": ["-DAPPROX_TRACE", *SANITIZED], "plain": ["-O2"]}
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            half = folder.with_suffix(".half")
            half.mkdir()
            _write_sets(half)
            for kind, options in kinds.items():
                includes = [f"-I{FAKE}", f"-I{half}"]
                compile_cpp(BENCH / "approx_rmsnorm_tb.cpp", half / kind, *includes, *options)
            half.rename(folder)
    return Bench(folder, {kind: folder / kind for kind in kinds})


@pytest.fixture
def vectors(bench: Bench, tmp_path: Path) -> Path:
    """A copy of the vectors that a test may damage."""
    shutil.copytree(bench.vectors, tmp_path / "vectors")
    return tmp_path / "vectors"


def first_mismatch(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The fields of the one line that says where codes first differ."""
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("MISMATCH ")]
    assert len(lines) == 1, done.stdout
    return dict(part.split("=", 1) for part in lines[0].split()[1:])


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.splitlines()[-1]


# --- what passes ---


@pytest.mark.parametrize("kind", ["trace", "plain"])
def test_equal_codes_pass(bench: Bench, kind: str) -> None:
    done = bench.run(bench.vectors, kind=kind)
    assert (done.returncode, done.stderr) == (0, "")
    traced = [p for p in ports_of(model(0)) if p.level != "channel" and p.name not in ("x", "y")]
    signals = len(traced) if kind == "trace" else 0
    assert len(traced) > 5
    assert done.stdout == (
        f"PASS: rows={ROWS[0]} codes={ROWS[0] * DIM} signals={signals}"
        f" digest={model(0).digest} vectors={bench.vectors}\n"
    )


def test_the_default_folder_is_vectors(bench: Bench) -> None:
    done = bench.run(kind="plain")
    assert done.returncode == 0
    assert done.stdout.endswith(" vectors=vectors\n")


def test_generated_vectors_pass_once_the_driver_answers_them(bench: Bench, tmp_path: Path) -> None:
    # Level 0 has several classes; the table of the driver is written anew for its rows.
    write_vectors(model(0), tmp_path / "set", level=0, lanes=4)
    found = read_vectors(tmp_path / "set")
    _write_codes(tmp_path / "codes", [found])
    codes = str(tmp_path / "codes")
    done = bench.run(tmp_path / "set", codes=codes)
    assert done.returncode == 0, done.stdout
    assert f"PASS: rows={found.rows} " in done.stdout
    last = found.manifest.classes[-1]
    change = f"{Y},{last.first},0,1"
    wrong = first_mismatch(bench.run(tmp_path / "set", codes=codes, change=change))
    assert (wrong["class"], wrong["row"]) == (last.name, str(last.first))


# --- differences ---


@pytest.mark.parametrize("kind", ["trace", "plain"])
@pytest.mark.parametrize(("row", "element"), [(0, 0), (12, 3), (ROWS[0] - 1, DIM - 1)])
def test_a_wrong_y_is_found_wherever_it_is(bench: Bench, kind: str, row: int, element: int) -> None:
    done = bench.run(bench.vectors, kind=kind, change=f"{Y},{row},{element},-1")
    want = int(read_vectors(bench.vectors).array("y")[row, element])
    assert first_mismatch(done) == {
        "vectors": str(bench.vectors),
        "class": "input",
        "row": str(row),
        "lane": str(element % LANES),
        "element": str(element),
        "signal": "y",
        "got": str(want - 1),
        "want": str(want),
        "digest": model(0).digest,
    }
    assert last_line(done).startswith(f"FAIL: 1 of {ROWS[0] * DIM} output codes differ")


@pytest.mark.parametrize("variable", ["change", "again"])
def test_every_traced_signal_is_compared_at_every_report(bench: Bench, variable: str) -> None:
    compared = 0
    found = read_vectors(bench.vectors)
    for port in ports_of(model(0)):
        if port.level == "channel" or (port.name == "y" and variable == "change"):
            continue
        row, index = 7, DIM - 2 if port.level == "element" else 0
        number = signal_ids()[port.name]
        done = bench.run(bench.vectors, **{variable: f"{number},{row},{index},1"})
        wrong = first_mismatch(done)
        codes = found.array(port.name)
        want = int(codes[row, index] if port.level == "element" else codes[row])
        assert (wrong["signal"], wrong["row"]) == (port.name, str(row))
        assert (wrong["got"], wrong["want"]) == (str(want + 1), str(want))
        place = (str(index % LANES), str(index)) if port.level == "element" else ("-", "-")
        assert (wrong["lane"], wrong["element"]) == place
        count = {"change": 2, "again": 1}[variable]
        assert f"FAIL: 0 of {ROWS[0] * DIM} output codes differ; {count} of " in done.stdout
        compared += 1
    assert compared > 7


def test_the_first_difference_is_by_row_then_in_order_of_computation(bench: Bench) -> None:
    row_signal = next(i for i, p in enumerate(ports_of(model(0))) if p.level == "row")
    both = {"change": f"{Y},4,0,1", "again": f"{row_signal},4,0,1"}
    assert first_mismatch(bench.run(bench.vectors, **both))["signal"] != "y"
    later = {"change": f"{Y},4,0,1", "again": f"{row_signal},5,0,1"}
    assert first_mismatch(bench.run(bench.vectors, **later))["signal"] == "y"


def test_a_signal_that_is_never_reported_is_a_difference(bench: Bench) -> None:
    for port in ports_of(model(0)):
        if port.level == "channel" or port.name in ("x", "y"):
            continue
        number = signal_ids()[port.name]
        done = bench.run(bench.vectors, silent=f"{number},3,0")
        wrong = first_mismatch(done)
        assert (wrong["signal"], wrong["row"], wrong["got"]) == (port.name, "3", "none")
        assert last_line(done).endswith(" 1 were never reported")


def test_a_y_that_is_never_written_is_a_difference(bench: Bench) -> None:
    wrong = first_mismatch(bench.run(bench.vectors, unwritten="1"))
    assert (wrong["row"], wrong["element"]) == (str(ROWS[0] - 1), str(DIM - 1))


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"extra": "row"}, f"traced more than the {ROWS[0]} rows"),
        ({"extra": f"{Y},{DIM}"}, f"traced element {DIM} of y"),
        ({"extra": f"{Y},-1"}, "traced element -1 of y"),
        ({"extra": "-1,0"}, "signal number -1"),
        ({"extra": "999,0"}, "signal number 999"),
        ({"extra": f"{signal_ids()['gamma']},0"}, "no element or row signal"),
        ({"early": "1"}, "before its first row"),
    ],
)
def test_reports_that_cannot_be_are_errors(
    bench: Bench, environment: dict[str, str], said: str
) -> None:
    done = bench.run(bench.vectors, **environment)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("ERROR ")
    assert said in done.stdout


# --- files that are refused ---


def refused(bench: Bench, folder: Path, *said: str, **environment: str) -> None:
    """Both builds end with status 2 and one line that says what is wrong."""
    for kind in ("trace", "plain"):
        done = bench.run(folder, kind=kind, **environment)
        assert (done.returncode, done.stderr) == (2, ""), (kind, done.stdout, done.stderr)
        assert done.stdout.startswith("ERROR ")
        assert done.stdout.count("\n") == 1
        for part in said:
            assert part in done.stdout


def listed_files() -> list[str]:
    names = [f"{p.name}.hex" for p in ports_of(model(0))]
    return [*names, "x_beats.hex", "y_beats.hex", "vectors.npz"]


def _delete(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"0\n")


def _edit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 // 2 * 2] ^= 1
    path.write_bytes(data)


def _link(path: Path) -> None:
    path.rename(path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)


def _fold(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: list[Callable[[Path], None]] = [_delete, _cut, _lengthen, _edit, _link, _fold, _pipe]


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_listed_file_is_checked(
    bench: Bench, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    names = listed_files()
    if damage is not _edit:  # the others are found by looks alone: three kinds of files do
        names = ["x.hex", "y_beats.hex", "vectors.npz"]
    for i, name in enumerate(names):
        folder = tmp_path / str(i) / "vectors"
        shutil.copytree(bench.vectors, folder)
        damage(folder / name)
        refused(bench, folder, str(folder / name))


@pytest.mark.parametrize("damage", [_delete, _cut, _link, _fold, _pipe])
def test_a_damaged_manifest_is_refused(
    bench: Bench, vectors: Path, damage: Callable[[Path], None]
) -> None:
    path = vectors / "manifest.json"
    if damage is _cut:
        path.write_bytes(path.read_bytes()[:-2])
    else:
        damage(path)
    refused(bench, vectors, str(path))


def test_an_unlisted_file_is_refused_and_a_hidden_one_is_not(bench: Bench, vectors: Path) -> None:
    (vectors / ".hidden").write_text("")
    assert bench.run(vectors).returncode == 0
    (vectors / "notes.txt").write_text("")
    refused(bench, vectors, "notes.txt is not listed")


Manifest = dict[str, Any]


def edit_manifest(folder: Path, change: Callable[[Manifest], object]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def signal_entry(manifest: Manifest, name: str) -> Manifest:
    return next(s for s in manifest["signals"] if s["name"] == name)


def setting(*path: Any) -> Callable[[Manifest], None]:
    """A change that puts the last argument at the path that the others are."""
    *way, key, value = path

    def change(manifest: Manifest) -> None:
        place: Any = manifest
        for step in way:
            place = place[step]
        place[key] = value

    return change


def removing(*path: Any) -> Callable[[Manifest], None]:
    *way, key = path

    def change(manifest: Manifest) -> None:
        place: Any = manifest
        for step in way:
            place = place[step]
        del place[key]

    return change


GARBAGE: list[Any] = [None, True, -1, 1.5, 10**30, "text", "x\n\u00e9" * 60, [], [1], {}, {"a": 1}]

EDITS: list[tuple[Callable[[Manifest], object], str]] = [
    (setting("format", "other"), "format is"),
    (setting("format_version", 2), "format_version is 2"),
    (setting("digest", "0" * 64), "0" * 64),
    (setting("digest", "A" * 64), "64 digits"),
    (setting("dim", DIM + 1), "dim is"),
    (setting("rows", 0), "rows is 0"),
    (setting("rows", 10**9), "classes"),
    (setting("rows", ROWS[0] - 1), "classes"),
    (setting("lanes", 4097), "lanes is"),
    (setting("lanes", 4), "beats.0.width"),
    (setting("classes", 0, "first", 1), "classes.0.first is 1"),
    (setting("classes", 0, "count", 10**17), "classes.0.count is"),
    (setting("classes", []), "classes"),
    (setting("signals", []), "signal x of the kernel is missing"),
    (removing("signals", -2), "of the kernel is missing"),
    (removing("signals", 0), "signal x of the kernel is missing"),
    (lambda m: m["signals"].append(m["signals"][0]), "signal x is listed twice"),
    (setting("signals", 0, "name", "other"), "the kernel has no signal other"),
    (setting("signals", 0, "name", "a\nb"), "the kernel has no signal a?b"),
    (setting("signals", 0, "level", "row"), "signals.0.level"),
    (setting("signals", 0, "level", "channel"), "signals.0.level"),
    (setting("signals", 0, "width", 9), "signals.0.width is 9"),
    (setting("signals", 0, "signed", False), "signals.0.signed is false"),
    (setting("signals", 0, "words", 1), "signals.0.words is 1"),
    (setting("signals", 0, "file", "../x.hex"), "signals.0.file"),
    (setting("signals", 0, "file", "y.hex"), "signals.0.file"),
    (setting("signals", 0, "sha256", "0" * 64), "x.hex was edited"),
    (setting("signals", 1, "width", 65), "signals.1.width is 65"),
    (setting("beats", 0, "signal", "gamma"), "beats.0.signal"),
    (setting("beats", 0, "words", 0), "beats.0.words"),
    (setting("beats", 0, "sha256", "0" * 64), "x_beats.hex was edited"),
    (lambda m: m["beats"].append(m["beats"][0]), "listed once"),
    (lambda m: m["beats"].pop(), "y_beats.hex is not listed"),
    (setting("archive", "file", "other.npz"), "archive.file"),
    (setting("archive", "sha256", "0" * 64), "vectors.npz was edited"),
]


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_an_edited_manifest_is_refused(bench: Bench, vectors: Path, number: int) -> None:
    change, said = EDITS[number]
    edit_manifest(vectors, change)
    refused(bench, vectors, said)


FIELDS: list[tuple[Any, ...]] = [
    *[(k,) for k in ("format", "format_version", "digest", "rows", "dim", "lanes")],
    *[(k,) for k in ("classes", "signals", "beats", "archive")],
    *[("classes", 0, k) for k in ("name", "first", "count")],
    *[("signals", 2, k) for k in ("name", "level", "width", "signed", "file", "words")],
    *[("signals", 1, k) for k in ("width", "signed", "sha256")],
    *[("beats", 1, k) for k in ("signal", "width", "file", "words", "sha256")],
    *[("archive", k) for k in ("file", "sha256")],
]


@pytest.mark.parametrize("where", FIELDS)
def test_a_missing_or_odd_field_is_refused(
    bench: Bench, vectors: Path, where: tuple[Any, ...]
) -> None:
    path = vectors / "manifest.json"
    whole = path.read_text()
    edit_manifest(vectors, removing(*where))
    refused(bench, vectors, str(path), f"{where[-1]} is missing")
    for value in GARBAGE:
        any_text = where == ("classes", 0, "name") and isinstance(value, str)
        as_it_is = where == ("signals", 1, "signed") and value is True
        if any_text or as_it_is:
            continue
        path.write_text(whole)
        edit_manifest(vectors, setting(*where, value))
        done = bench.run(vectors)
        assert (done.returncode, done.stderr) == (2, ""), (value, done.stdout)
        assert done.stdout.count("\n") == 1


NO_JSON = [
    b"",
    b"\n",
    b"\0",
    b"{",
    b"[",
    b'"',
    b'"\\',
    b'"\\u12"',
    b'"\\ud800"',
    b'"\\udc00"',
    b'"\\ud800\\u0041"',
    b'"\\x41"',
    b'"\n"',
    b'"\xc3\xa9"',
    b"tru",
    b"nul",
    b"NaN",
    b"Infinity",
    b"-",
    b"+1",
    b"01",
    b"1.",
    b".5",
    b"1e",
    b"[1,]",
    b"[,1]",
    b"[1 2]",
    b'{"a" 1}',
    b'{"a": 1,}',
    b"{1: 1}",
    b'{"a": 1} x',
    b'{"a": 1, "a": 1}',
    b"\xef\xbb\xbf{}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 66 + b"]" * 66,
    bytes(range(256)),
]


@pytest.mark.parametrize("number", range(len(NO_JSON)))
def test_what_is_no_json_is_refused(bench: Bench, vectors: Path, number: int) -> None:
    (vectors / "manifest.json").write_bytes(NO_JSON[number])
    refused(bench, vectors, "is not ASCII JSON text: ")


@pytest.mark.parametrize("text", ["null", "7", "[]", '"text"', "[" * 60 + "]" * 60, "{}"])
def test_json_of_another_shape_is_refused(bench: Bench, vectors: Path, text: str) -> None:
    (vectors / "manifest.json").write_text(text)
    refused(bench, vectors, "manifest.json")


def test_json_that_approxnorm_would_not_write_but_is_json_is_read(
    bench: Bench, vectors: Path
) -> None:
    extra: Manifest = {'\u20ac\U0001f600\t"\\/': [1e5, -0.5, None, True, {}, [], 10**400, "\u0000"]}
    edit_manifest(vectors, lambda m: m.update(coverage=extra, seed=2**64 - 1))
    edit_manifest(vectors, setting("classes", 0, "name", "\n\u00e9\U0001f600"))
    assert bench.run(vectors).returncode == 0
    done = bench.run(vectors, change=f"{Y},0,0,1")
    assert first_mismatch(done)["class"] == "???????"  # bytes of UTF-8, on one line


@pytest.mark.parametrize("length", [0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 128, 200_000])
def test_sha256_of_any_length(bench: Bench, vectors: Path, length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    (vectors / "vectors.npz").write_bytes(data)  # the bench does not look into it
    edit_manifest(vectors, setting("archive", "sha256", hashlib.sha256(data).hexdigest()))
    assert bench.run(vectors).returncode == 0
    if data:
        (vectors / "vectors.npz").write_bytes(data[:-1] + bytes([data[-1] ^ 128]))
        refused(bench, vectors, "vectors.npz was edited")


def put_text(folder: Path, name: str, data: bytes) -> None:
    """A signal's text, with its SHA-256 in the manifest."""
    (folder / f"{name}.hex").write_bytes(data)
    sha256 = hashlib.sha256(data).hexdigest()
    edit_manifest(folder, lambda m: signal_entry(m, name).update(sha256=sha256))


@pytest.mark.parametrize("bad", [b"G", b"A", b" ", b"-", b"\0", b"\n", b"\xff"])
def test_a_digit_that_is_none_is_refused(bench: Bench, vectors: Path, bad: bytes) -> None:
    data = (vectors / "x.hex").read_bytes()
    put_text(vectors, "x", data[:6] + bad + data[7:])
    refused(bench, vectors, "x.hex line 3 is no word; allowed: 2 lower-case hex digits of 8 bits")


def test_a_line_must_end_and_a_word_fit_its_width(bench: Bench, vectors: Path) -> None:
    data = (vectors / "y.hex").read_bytes()
    put_text(vectors, "y", data[:-1] + b" ")
    refused(bench, vectors, f"y.hex line {ROWS[0] * DIM} is no word")
    put_text(vectors, "y", data)
    gamma = (vectors / "gamma.hex").read_bytes()
    put_text(vectors, "gamma", b"4" + gamma[1:])  # bit 6 of a word of 6 bits
    refused(bench, vectors, "gamma.hex line 1 is no word; allowed: 2 lower-case hex digits of 6")


def test_vectors_of_another_gamma_are_refused_by_name(bench: Bench, tmp_path: Path) -> None:
    other = RMSNorm(SPEC, np.arange(DIM) - 2)
    write_vectors(other, tmp_path / "set", x_codes=np.ones((2, DIM), np.int64))
    refused(bench, tmp_path / "set", other.digest, model(0).digest)


def test_vectors_without_rows_are_refused(bench: Bench, tmp_path: Path) -> None:
    write_vectors(model(0), tmp_path / "set", x_codes=np.zeros((0, DIM), np.int64))
    refused(bench, tmp_path / "set", "rows is 0")


def test_a_folder_that_is_none_is_refused(bench: Bench, tmp_path: Path) -> None:
    refused(bench, tmp_path / "absent", "absent is not a folder")
    refused(bench, bench.vectors / "x.hex", "x.hex is not a folder")
    refused(bench, tmp_path, "manifest.json is missing")


def test_too_many_arguments_are_refused(bench: Bench) -> None:
    done = bench.run("a", "b", "c")
    assert (done.returncode, done.stdout.count("\n")) == (2, 1)


# --- several layers ---


def test_each_layer_of_a_folder_is_replayed(bench: Bench) -> None:
    done = bench.run(bench.folder / "layers")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert [line.split("digest=")[1] for line in lines] == [
        f"{model(i).digest} vectors={bench.folder / 'layers' / name}"
        for i, name in enumerate(("first", "second"))
    ]


def test_one_wrong_layer_fails_and_the_others_are_still_replayed(
    bench: Bench, tmp_path: Path
) -> None:
    done = bench.run(bench.folder / "layers", change=f"{Y},0,0,1")
    assert first_mismatch(done)["vectors"] == str(bench.folder / "layers" / "first")
    assert last_line(done).startswith("PASS: ")
    shutil.copytree(bench.folder / "layers", tmp_path / "layers")
    _edit(tmp_path / "layers" / "second" / "x.hex")
    done = bench.run(tmp_path / "layers", change=f"{Y},0,0,1")
    assert done.returncode == 2
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["MISMATCH", "FAIL:", "ERROR"]


@pytest.mark.parametrize("loss", ["manifest", "file", "link"])
def test_a_layer_must_not_get_lost(bench: Bench, tmp_path: Path, loss: str) -> None:
    layers = tmp_path / "layers"
    shutil.copytree(bench.folder / "layers", layers)
    if loss == "manifest":
        (layers / "second" / "manifest.json").unlink()
    elif loss == "file":
        (layers / "notes.txt").write_text("")
    else:
        (layers / "third").symlink_to(layers / "second")
    refused(bench, layers, "manifest.json is missing; give a folder of golden vectors, or one")


def test_copies_of_one_layer_are_not_all_layers(bench: Bench, tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        shutil.copytree(bench.folder / "layers" / "first", tmp_path / "layers" / name)
    done = bench.run(tmp_path / "layers")
    assert (done.returncode, done.stdout.count("PASS: ")) == (2, 3)
    assert f"has no vectors of the layer with the digest {model(1).digest}" in last_line(done)


# --- a residual ---


@pytest.mark.parametrize("kind", ["trace", "plain"])
def test_a_kernel_that_adds_a_residual(bench: Bench, kind: str) -> None:
    done = bench.run(bench.vectors, kind=kind, residual="1")
    assert done.returncode == 0, done.stdout
    folder = bench.folder / "residual" / "vectors"
    given = bench.run(bench.vectors, folder, kind=kind, residual="1")
    assert given.stdout == done.stdout


@pytest.mark.parametrize("vectors", ["vectors", "vectors/", "./vectors", None])
def test_addends_are_where_a_project_has_them(bench: Bench, vectors: str | None) -> None:
    done = bench.run(*([] if vectors is None else [vectors]), kind="plain", residual="1")
    assert (done.returncode, done.stdout.count("PASS: ")) == (0, 1)


def test_addends_that_are_not_there_are_asked_for(bench: Bench) -> None:
    done = bench.run("layers/first", kind="plain", residual="1")
    assert done.returncode == 2
    assert last_line(done) == (
        "ERROR layers/residual/first is not a folder; give that of the addends of layers/first"
        " as the second argument"
    )


def test_a_wrong_sum_is_a_wrong_x(bench: Bench) -> None:
    done = bench.run(bench.vectors, kind="plain", residual="1", change="-1,2,1,5")
    wrong = first_mismatch(done)
    assert (wrong["signal"], wrong["row"], wrong["element"]) == ("x", "2", "1")
    codes = ROWS[0] * DIM
    assert last_line(done) == f"FAIL: 0 of {codes} output codes differ; 1 of {codes} sums differ"


def test_each_layer_has_its_residual(bench: Bench, tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_residual(bench.folder / "layers" / name, tmp_path / "residual" / name)
    layers = bench.folder / "layers"
    done = bench.run(layers, tmp_path / "residual", residual="1")
    assert (done.returncode, done.stdout.count("PASS: ")) == (0, 2)
    shutil.rmtree(tmp_path / "residual" / "second")
    done = bench.run(layers, tmp_path / "residual", residual="1")
    assert (done.returncode, done.stdout.count("PASS: ")) == (2, 1)


RESIDUAL_EDITS: list[tuple[Callable[[Manifest], object], str]] = [
    (setting("format", "approxnorm-vectors"), "format is"),
    (setting("format_version", 2), "format_version is 2"),
    (setting("digest", "0" * 64), "digest is"),
    (setting("x_sha256", "0" * 64), "x_sha256 is"),
    (setting("a", "file", "../vectors/x.hex"), "a.file is"),
    (setting("a", "sha256", "0" * 64), "a.hex was edited"),
    (removing("b"), "b is missing"),
]


@pytest.mark.parametrize("number", range(len(RESIDUAL_EDITS)))
def test_an_edited_residual_manifest_is_refused(bench: Bench, tmp_path: Path, number: int) -> None:
    change, said = RESIDUAL_EDITS[number]
    shutil.copytree(bench.folder / "residual" / "vectors", tmp_path / "residual")
    edit_manifest(tmp_path / "residual", change)
    done = bench.run(bench.vectors, tmp_path / "residual", residual="1")
    assert (done.returncode, done.stderr) == (2, "")
    assert said in done.stdout


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_residual_is_refused(
    bench: Bench, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(bench.folder / "residual" / "vectors", tmp_path / "in" / "residual")
    damage(tmp_path / "in" / "residual" / "b.hex")
    done = bench.run(bench.vectors, tmp_path / "in" / "residual", residual="1")
    assert (done.returncode, done.stderr) == (2, "")
    assert "b.hex" in done.stdout


# --- our hls::stream ---

STREAM_PROGRAM = """
#include <cstring>
#include <hls_stream.h>
static int drain(hls::stream<int> &s) {
    int digits = 0;
    while (!s.empty()) digits = 10 * digits + s.read();
    return digits;
}
int main(int, char **argv) {
    hls::stream<int, 4> deep("deep");
    hls::stream<int> plain;
    int item = 0;
    if (plain.read_nb(item) || !deep.write_nb(1)) return 10;
    deep << 2;
    deep.write(3);
    if (deep.size() != 3 || deep.full()) return 11;
    deep >> item;
    plain.write(item);
    deep.read(item);
    plain.write(item);
    if (drain(plain) != 12 || !deep.read_nb(item) || item != 3) return 12;
    if (std::strcmp(argv[1], "leave") == 0) deep.write(4);
    if (std::strcmp(argv[1], "read") == 0) deep.read();
    return 0;
}
"""


def test_the_stream_of_csim(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(STREAM_PROGRAM)
    compile_cpp(tmp_path / "main.cpp", tmp_path / "main", f"-I{STREAM}", *SANITIZED)

    def run(what: str) -> tuple[int, str]:
        done = subprocess.run([tmp_path / "main", what], capture_output=True, text=True)
        return done.returncode, done.stderr

    assert run("nothing") == (0, "")
    assert run("leave") == (0, "warning: stream deep ends with 1 items that nothing has read\n")
    status, said = run("read")
    assert status < 0  # by a signal
    assert said.startswith("error: stream deep is read while it is empty")
