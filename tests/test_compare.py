"""What users' hardware wrote, against golden vectors: formats, differences, hints and refusals."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from norm_specs import BASE

from approxnorm import ApproxNormError, RMSNorm, RMSNormSpec
from approxnorm.cli import main
from approxnorm.conformance import Comparison, compare
from approxnorm.vectors import VectorSet, write_vectors
from approxnorm.vectors.text import to_beats, to_hex

LANES = 4
DIM = 10  # the last beat of a row is partly padding
BEATS = 3

pytestmark = pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")


def make(folder: Path, **changes: Any) -> VectorSet:
    spec = RMSNormSpec(**BASE | {"dim": DIM} | changes)
    model = RMSNorm(spec, np.linspace(-1, 1.5, spec.dim or 0))
    return write_vectors(model, folder, level=0, lanes=LANES)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> VectorSet:
    return make(tmp_path_factory.mktemp("vectors") / "v")


@pytest.fixture
def y(vectors: VectorSet) -> np.ndarray:
    return vectors.array("y").astype(np.int64)


def compared(vectors: VectorSet, path: Path, content: bytes | np.ndarray, **kw: Any) -> Comparison:
    """Write content to a file of the user's and compare it."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    return compare(vectors.folder, path, **kw)


def hex_of(y: np.ndarray, width: int = 14) -> bytes:
    return to_hex(y, width)


def rows_of(y: np.ndarray, form: Callable[[Any], str] = str) -> bytes:
    return "".join(" ".join(form(v) for v in row) + "\n" for row in y.tolist()).encode()


def test_the_vectors_themselves_are_equal(vectors: VectorSet) -> None:
    result = compare(vectors.folder, vectors.folder)
    names = [e.name for e in vectors.manifest.signals]
    assert result.equal and result.line() is None and result.not_compared == ()
    assert [r.signal for r in result.signals] == sorted(
        [*names, "x", "y"], key=names.index
    )  # x and y as words and as beats
    assert {r.file for r in result.signals} >= {"y.hex", "y_beats.hex", "mantissa.hex"}
    assert sum(r.words for r in result.signals if r.signal == "y") == 2 * vectors.rows * DIM


# As tools write them: each must be read as the same codes.
STYLES: dict[str, Callable[[bytes], bytes]] = {
    "upper case": bytes.upper,
    "no final newline": bytes.rstrip,
    "carriage returns": lambda t: t.replace(b"\n", b"\r\n"),
    "prefix 0x": lambda t: b"".join(b"0x" + line + b"\n" for line in t.split()),
    "prefix 16'h": lambda t: b"".join(b"14'h" + line + b"\n" for line in t.split()),
    "underscores": lambda t: b"".join(w[:2] + b"_" + w[2:] + b"\n" for w in t.split()),
    "writememh of Icarus": lambda t: b"// 0x00000000\n" + t,
    "writememh of others": lambda t: b"/* memory\n data */\n@00000000\n" + t,
    "addresses": lambda t: b"".join(b"@%x %s\n" % (i, w) for i, w in enumerate(t.split())),
    "blank lines": lambda t: b"\n\n" + t.replace(b"\n", b"\n\n"),
    "a row a line": lambda t: b" ".join(t.split()),
    "comments": lambda t: t.replace(b"\n", b" // y\n"),
    "leading zeros left out": lambda t: b"\n".join(w.lstrip(b"0") or b"0" for w in t.split()),
    "zeros above": lambda t: b"\n".join(b"0000" + w for w in t.split()),
    "sign copied above": lambda t: b"\n".join(
        (b"ffff" + bytes([b"cdef"[w[0] - ord("0")]]) + w[1:] if w[0] >= ord("2") else w)
        for w in t.split()
    ),
}


@pytest.mark.parametrize("style", STYLES)
def test_hex_of_many_styles_is_read(
    vectors: VectorSet, y: np.ndarray, tmp_path: Path, style: str
) -> None:
    assert y.min() < 0  # so that signs are seen
    assert compared(vectors, tmp_path / "y.hex", STYLES[style](hex_of(y))).equal
    wrong = y.copy()
    wrong[3, 7] ^= 1
    result = compared(vectors, tmp_path / "y.mem", STYLES[style](hex_of(wrong)))
    (found,) = result.signals
    assert (found.mismatches, found.words, found.file) == (1, y.size, "y.mem")
    assert result.line() == (
        f"MISMATCH file=y.mem class={vectors.manifest.classes[1].name} row=3 lane=3 element=7"
        f" signal=y got={wrong[3, 7]} want={y[3, 7]} digest={vectors.digest}"
    )


def test_decimals_arrays_and_beats_are_read(
    vectors: VectorSet, y: np.ndarray, tmp_path: Path
) -> None:
    scale = 2.0**-9
    contents: dict[str, Any] = {
        "y.dat": rows_of(y),
        "a.dat": rows_of(y).replace(b" ", b", "),
        "b.dat": rows_of(y * scale, "{:.17g}".format),
        "c.dat": rows_of(y * scale, "{:e}".format),
        "y.npy": y,
        "flat.npy": y.reshape(-1).astype(np.int16),
        "leading.npy": y.reshape(1, -1, DIM).astype(">i4"),
        "fortran.npy": np.asfortranarray(y),
        "y_beats.hex": to_beats(y, 14, LANES),
        "out_beats.hex": to_beats(y, 14, LANES).upper().rstrip(),
    }
    for name, content in contents.items():
        if name == "c.dat":  # six digits: not every code's value is written
            with pytest.raises(ApproxNormError, match="no multiple of y's scale"):
                compared(vectors, tmp_path / name, content)
        else:
            assert compared(vectors, tmp_path / name, content).equal, name


def test_padding_lanes_are_not_compared(vectors: VectorSet, y: np.ndarray, tmp_path: Path) -> None:
    padded = np.full((len(y), BEATS * LANES), 77)
    padded[:, :DIM] = y
    text = to_beats(padded, 14, LANES)
    assert compared(vectors, tmp_path / "y_beats.hex", text).equal
    padded[2, DIM - 1] ^= 4
    result = compared(vectors, tmp_path / "y_beats.hex", to_beats(padded, 14, LANES))
    assert result.signals[0].mismatches == 1
    first = result.signals[0].first
    assert first is not None and (first.row, first.element, first.lane) == (2, 9, 1)


def test_unknown_digits_are_mismatches(vectors: VectorSet, y: np.ndarray, tmp_path: Path) -> None:
    words = hex_of(y).split()
    words[5], words[12] = b"0x1Z", b"xxxx"
    result = compared(vectors, tmp_path / "y.hex", b"\n".join(words))
    assert result.signals[0].mismatches == 2
    first = result.signals[0].first
    assert first is not None and (first.row, first.element, first.got) == (0, 5, "x")
    beats = to_beats(y, 14, LANES).split()
    beats[1] = b"x" + beats[1][1:]  # its highest lane alone
    result = compared(vectors, tmp_path / "y_beats.hex", b"\n".join(beats))
    first = result.signals[0].first
    assert result.signals[0].mismatches == 1
    assert first is not None and (first.element, first.got) == (7, "x")
    numbers = rows_of(y).split()
    numbers[11] = b"X"
    result = compared(vectors, tmp_path / "y.dat", b"\n".join(numbers))
    first = result.signals[0].first
    assert first is not None and (first.row, first.element, first.got) == (1, 1, "x")


def test_the_first_signal_of_the_first_row_is_named(vectors: VectorSet, tmp_path: Path) -> None:
    got = tmp_path / "got"
    got.mkdir()
    mantissa, y, root = (vectors.array(n).astype(np.int64) for n in ("mantissa", "y", "sum"))
    mantissa[4] += 1
    y[4, 2] += 1
    root[6] += 1
    np.save(got / "mantissa.npy", mantissa)
    np.save(got / "y.npy", y)
    np.save(got / "sum.npy", root)
    (got / "run.log").write_text("done", "utf-8")
    result = compare(vectors.folder, got)
    assert [(r.signal, r.mismatches) for r in result.signals] == [
        ("sum", 1),
        ("mantissa", 1),
        ("y", 1),
    ]
    assert "x" in result.not_compared and "gamma" in result.not_compared
    assert not {"sum", "mantissa", "y"} & set(result.not_compared)
    line = result.line()
    assert line is not None
    assert "row=4 lane=- element=- signal=mantissa" in line
    gamma = vectors.array("gamma").astype(np.int64)
    gamma[5] -= 1
    np.save(got / "gamma.npy", gamma)
    line = compare(vectors.folder, got).line()
    assert line is not None
    assert line.startswith("MISMATCH file=gamma.npy class=- row=- lane=1 element=5 signal=gamma")


def reversed_lanes(y: np.ndarray) -> bytes:
    padded = np.zeros((len(y), BEATS * LANES), np.int64)
    padded[:, :DIM] = y
    turned = padded.reshape(-1, LANES)[:, ::-1].reshape(len(y), -1)
    return to_beats(turned, 14, LANES)


def late(y: np.ndarray, step: int) -> np.ndarray:
    flat = y.reshape(-1)
    return np.concatenate([np.full(step, 99), flat[:-step]]).reshape(y.shape)


def late_beats(y: np.ndarray) -> bytes:
    beats = to_beats(y, 14, LANES).split()
    return b"\n".join([b"xx", *beats[:-1]])


HINTS: dict[str, tuple[str, Callable[[np.ndarray], Any], str]] = {
    "unsigned": ("y.dat", lambda y: rows_of(y & 0x3FFF), "14 bits were read as two's complement"),
    "reversed": ("y_beats.hex", reversed_lanes, "the 4 lanes of each beat were in reverse"),
    "row late": ("y.hex", lambda y: hex_of(late(y, DIM)), "it were not one row late"),
    "row early": ("y.npy", lambda y: np.roll(y, -1, axis=0), "it were not one row early"),
    "beat late": ("y_beats.hex", late_beats, "it were not one beat late"),
    "element late": ("y.npy", lambda y: late(y, 1), "it were not one element late"),
    "element early": ("y.npy", lambda y: np.roll(y, -1), "it were not one element early"),
    "transposed": ("y.npy", lambda y: y.T.reshape(-1), "it were written row after row"),
    "offset": ("y.npy", lambda y: y - 3, "3 were added to every code (is it the zero point?)"),
}


@pytest.mark.parametrize("case", HINTS)
def test_frequent_mistakes_get_a_hint(
    vectors: VectorSet, y: np.ndarray, tmp_path: Path, case: str
) -> None:
    name, make_wrong, text = HINTS[case]
    (found,) = compared(vectors, tmp_path / name, make_wrong(y)).signals
    assert found.mismatches > 0
    assert found.hint is not None and found.hint.startswith("y would match if ")
    assert text in found.hint


def test_one_wrong_code_gets_no_hint(vectors: VectorSet, y: np.ndarray, tmp_path: Path) -> None:
    y[1, 1] += 1
    for name, content in (("y.npy", y), ("y_beats.hex", to_beats(y, 14, LANES))):
        assert compared(vectors, tmp_path / name, content).signals[0].hint is None


def test_lanes_in_reverse_are_seen_in_words_too(tmp_path: Path) -> None:
    vectors = make(tmp_path / "v", dim=8)
    y = vectors.array("y").astype(np.int64)
    turned = y.reshape(-1, LANES)[:, ::-1].reshape(y.shape)
    (found,) = compared(vectors, tmp_path / "y.npy", turned).signals
    assert found.hint is not None and "the 4 lanes of each beat were in reverse" in found.hint


REFUSED: dict[str, tuple[str, Callable[[np.ndarray], Any], str]] = {
    "short": ("y.hex", lambda y: hex_of(y[:-1]), "rows; allowed: "),
    "cut row": ("y.hex", lambda y: hex_of(y)[:-10], " and 8 of 10"),
    "beats as words": ("y.hex", lambda y: to_beats(y, 14, LANES), "name the file y_beats.hex"),
    "words as beats": ("y_beats.hex", hex_of, "name the file y.hex"),
    "padded words": (
        "y.npy",
        lambda y: np.pad(y, ((0, 0), (0, 2))),
        "leave out the lanes past the end of a row",
    ),
    "empty": ("y.hex", lambda y: b"", "has 0 words, that is 0 rows"),
    "letters": ("y.hex", lambda y: b"hello " + hex_of(y)[5:], "word 1 is 'hello'"),
    "bytes": ("y.hex", lambda y: bytes(range(128, 256)), "allowed: hex digits, x and z"),
    "too wide": ("y.hex", lambda y: b"4000" + hex_of(y)[4:], "word 1 is '4000'; allowed: 14 bits"),
    "signed": (
        "y.hex",
        lambda y: b"c000" + hex_of(y)[4:],
        "4 hex digits, and above these bits nothing but zeros or copies of the sign",
    ),
    "UTF-8": ("y.hex", lambda y: b"\xef\xbb\xbf" + hex_of(y), "the byte order mark of UTF-8"),
    "UTF-16": ("y.hex", lambda y: hex_of(y).decode().encode("utf-16"), "order mark of UTF-16"),
    "numbers in UTF-16": (
        "y.dat",
        lambda y: b"\xfe\xff" + rows_of(y).decode().encode("utf-16-be"),
        "y.dat begins with the byte order mark of UTF-16; write it as plain ASCII",
    ),
    "much too wide": ("y.hex", lambda y: b"0" * 40 + hex_of(y)[4:], "that is 4 hex digits"),
    "beats too wide": (
        "y_beats.hex",
        lambda y: b"f" + to_beats(y, 14, LANES),
        "allowed: 56 bits",
    ),
    "gap": ("y.hex", lambda y: b"@2\n" + hex_of(y), "the address '@2' after 0 words; allowed: @0"),
    "no address": ("y.hex", lambda y: b"@q\n" + hex_of(y), "the address '@q'"),
    "huge": ("y.hex", lambda y: b" " * 10_000_000, "has 10000000 bytes, too many for"),
    "no number": ("y.dat", lambda y: rows_of(y).replace(b"0", b"o"), "; allowed: decimal numbers"),
    "not finite": ("y.dat", lambda y: b"nan " + rows_of(y[1:]) + b"0 " * 9, "is 'nan'"),
    "huge number": ("y.dat", lambda y: b"9" * 5000 + b" 0" * (y.size - 1), "codes of 64 bits"),
    "binary": ("y.dat", lambda y: y.tobytes(), "is no text"),
    "no code": ("y.dat", lambda y: b"0.1 " + b"0 " * (y.size - 1), "number 1 is 0.1, no multiple"),
    "real array": ("y.npy", lambda y: y * 0.5, "dtype float64; allowed: integer codes of y"),
    "turned array": ("y.npy", lambda y: y.T, "allowed: ("),
    "large codes": ("y.npy", lambda y: y.astype(np.uint64), "as signed integers"),
    "objects": ("y.npy", lambda y: y.astype(object), "dtype object; allowed: integer"),
    "no npy": ("y.npy", lambda y: b"codes", "y.npy"),
    "suffix": ("y.vcd", lambda y: b"", "has the suffix '.vcd'; allowed: NAME.hex"),
    "real sum": ("sum.dat", lambda y: b"0.5 " + b"0 " * (len(y) - 1), "is a signal of integers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_compared_is_refused(
    vectors: VectorSet, y: np.ndarray, tmp_path: Path, case: str
) -> None:
    name, content, text = REFUSED[case]
    with pytest.raises(ApproxNormError) as caught:
        compared(vectors, tmp_path / name, content(y))
    assert text in str(caught.value)
    assert name in str(caught.value)


def test_files_that_are_none_are_refused(vectors: VectorSet, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.hex").write_bytes(b"0")
    got = tmp_path / "got"
    got.mkdir()
    with pytest.raises(ApproxNormError, match="holds no file of a signal"):
        compare(vectors.folder, got)
    (got / "y.hex").symlink_to(tmp_path / "elsewhere.hex")
    with pytest.raises(ApproxNormError, match="is a symbolic link; allowed: a file that holds"):
        compare(vectors.folder, got)
    (got / "y.hex").unlink()
    os.mkfifo(got / "y.hex")
    with pytest.raises(ApproxNormError, match="is no regular file; allowed: a file that"):
        compare(vectors.folder, got)
    with pytest.raises(ApproxNormError, match="does not exist"):
        compare(vectors.folder, tmp_path / "absent.hex")
    with pytest.raises(ApproxNormError, match="is a folder, whose files' names say"):
        compare(vectors.folder, vectors.folder, signal="y")


def test_a_folder_without_y_or_with_other_names_is_refused(
    vectors: VectorSet, y: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = tmp_path / "got"
    got.mkdir()
    (got / "x.hex").write_bytes((vectors.folder / "x.hex").read_bytes())
    command = ["compare", str(vectors.folder), str(got)]
    assert main(command) == 2
    assert f"{got} holds no y, only x.hex; add y.hex" in capsys.readouterr().err
    (got / "y.hex").write_bytes(hex_of(y))
    assert main(command) == 0
    assert "Not compared, as no file holds them: gamma, " in capsys.readouterr().out
    for name in ("Y.hex", "sum_.mem", "out.dat", "mantissa_beats.hex", "other.npy"):
        (got / name).write_bytes(hex_of(y))
        assert main(command) == 2
        assert f"{got / name} has a name that is no signal's" in capsys.readouterr().err
        (got / name).unlink()
    (got / "notes.txt").write_text("of the run", "utf-8")
    assert main(command) == 0


def test_a_single_file_that_is_not_y_says_so(
    vectors: VectorSet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(vectors.folder), str(vectors.folder / "sum.hex")]) == 0
    assert "all words are equal; y was not compared\n" in capsys.readouterr().out


def test_signal_says_what_a_file_holds(vectors: VectorSet, tmp_path: Path) -> None:
    words = vectors.array("mantissa").astype(np.int64)
    (tmp_path / "dump.dat").write_bytes(b"\n".join(b"%d" % w for w in words.tolist()))
    assert compare(vectors.folder, tmp_path / "dump.dat", signal="mantissa").equal
    with pytest.raises(ApproxNormError, match="has no signal 'wire'; allowed: x, gamma"):
        compare(vectors.folder, tmp_path / "dump.dat", signal="wire")
    with pytest.raises(ApproxNormError, match=r"dump\.dat has \d+ words"):
        compare(vectors.folder, tmp_path / "dump.dat")  # it would be y
    (tmp_path / "dump_beats.hex").write_bytes(b"0")
    with pytest.raises(ApproxNormError, match="beats are hex words of an element signal"):
        compare(vectors.folder, tmp_path / "dump_beats.hex", signal="mantissa")


def test_real_values_may_look_like_integers(tmp_path: Path) -> None:
    coarse = dict(bits=10, signed=True, scale=2.0, rounding="RND_CONV", overflow="SAT")
    vectors = make(tmp_path / "v", y=coarse | dict(zero_point=3))
    y = (vectors.array("y").astype(np.int64) - 3) * 2
    text = rows_of(y)
    assert not compared(vectors, tmp_path / "y.dat", text).equal
    assert compared(vectors, tmp_path / "y.dat", text, real=True).equal
    with pytest.raises(ApproxNormError, match="--real is given, but"):
        compare(vectors.folder, vectors.folder, real=True)


def test_vectors_without_rows_compare_nothing(vectors: VectorSet, tmp_path: Path) -> None:
    model = RMSNorm(RMSNormSpec(**BASE), np.ones(12))
    write_vectors(model, tmp_path / "v", x_codes=np.zeros((0, 12), np.int64))
    with pytest.raises(ApproxNormError, match="has no rows to compare"):
        compare(tmp_path / "v", tmp_path / "v")


def test_edited_vectors_are_refused(tmp_path: Path) -> None:
    vectors = make(tmp_path / "v")
    text = (vectors.folder / "y.hex").read_bytes()
    (vectors.folder / "y.hex").write_bytes(text.replace(b"0", b"1", 1))
    with pytest.raises(ApproxNormError, match="was edited"):
        compare(vectors.folder, vectors.folder)


def test_command_tells_signal_row_and_hint(
    vectors: VectorSet, y: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["compare", str(vectors.folder)]
    assert main([*options, str(vectors.folder / "y.hex")]) == 0
    assert "all words are equal" in capsys.readouterr().out
    (tmp_path / "y.hex").write_bytes(hex_of(late(y, DIM)))
    assert main([*options, str(tmp_path / "y.hex")]) == 1
    out = capsys.readouterr().out
    assert "MISMATCH file=y.hex class=zero row=0 lane=0 element=0 signal=y got=99 want=0" in out
    assert "Hint: y would match if it were not one row late" in out
    assert main([*options, str(tmp_path / "y.hex"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["first"]["first"]["row"] == 0 and found["digest"] == vectors.digest
    (tmp_path / "y.hex").write_bytes(b"12")
    assert main([*options, str(tmp_path / "y.hex")]) == 2
    assert capsys.readouterr().err.startswith(f"approxnorm: {tmp_path / 'y.hex'} has 1 words")
