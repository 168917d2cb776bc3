"""Memory contents from a file, as hardware tools write them."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from approxnorm.errors import ApproxNormError

MAX_BYTES = 1 << 24
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_COE = re.compile(
    r"\s*memory_initialization_radix\s*=\s*(\d+)\s*;\s*memory_initialization_vector\s*=\s*(.*?);",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True)
class RomContents:
    """The words of a file as numbers, in address order, and the SHA-256 of its bytes."""

    entries: tuple[int, ...]
    sha256: str


def read_rom(folder: Path, name: str, width: int, signed: bool, field: str) -> RomContents:
    """Read ``name`` from ``folder``; ``field`` is the spec's field that gave the name.

    Words are unsigned or, if ``signed``, two's complement of ``width`` bits (decimal and .npy
    numbers carry their own sign). Raises ApproxNormError: a path outside the folder, a file that
    is missing, foreign or too large, a word that does not fit.
    """
    path = _inside(folder, name, field)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ApproxNormError(
            f"{field} is {name!r}; allowed endings: {', '.join(sorted(_READERS))}"
        )
    data = _bytes(path, name)
    words = reader(data, name)
    if path.suffix.lower() in _RAW and signed:
        words = [_signed(w, width) for w in words]
    _check(words, width, signed, name)
    return RomContents(tuple(words), hashlib.sha256(data).hexdigest())


def _inside(folder: Path, name: str, field: str) -> Path:
    if "\0" in name:
        raise ApproxNormError(f"{field} is {name!r}; allowed: a file's name")
    root = folder.resolve()
    path = (root / name).resolve()
    if Path(name).is_absolute() or not path.is_relative_to(root):
        raise ApproxNormError(
            f"{field} is {name!r}, which lies outside the spec's folder; put the file beside the "
            "spec and give its name"
        )
    return path


def _bytes(path: Path, name: str) -> bytes:
    try:
        if not path.is_file():  # a pipe or a device would never end
            raise FileNotFoundError
        if path.stat().st_size > MAX_BYTES:
            raise ApproxNormError(f"{name}: larger than {MAX_BYTES} bytes; not a table")
        return path.read_bytes()
    except FileNotFoundError:
        raise ApproxNormError(f"{name}: no such file in {path.parent}") from None
    except OSError as error:
        raise ApproxNormError(f"{name}: cannot be read ({error.strerror})") from None


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise ApproxNormError(f"{name}: not a text file of numbers") from None


def _read_memh(data: bytes, name: str) -> list[int]:
    """$readmemh: hexadecimal words, comments, and addresses that must be where we are."""
    words: list[int] = []
    for token in _COMMENTS.sub(" ", _text(data, name)).split():
        if token.startswith("@"):
            address = _number(token[1:], 16, name)
            if address != len(words):
                raise ApproxNormError(
                    f"{name}: address @{token[1:]} where word {len(words):x} follows; only "
                    "contents without gaps, in order, are allowed"
                )
        else:
            words.append(_number(token, 16, name))
    return words


def _read_coe(data: bytes, name: str) -> list[int]:
    text = "\n".join(line.partition(";")[0] + ";" * (";" in line) for line in _lines(data, name))
    match = _COE.match(text)
    if match is None or match[1] not in ("2", "10", "16"):
        raise ApproxNormError(
            f"{name}: not a .coe file with memory_initialization_radix = 2, 10 or 16 and "
            "memory_initialization_vector"
        )
    tokens = re.split(r"[\s,]+", match[2].strip().strip(","))
    return [_number(token, int(match[1]), name) for token in tokens]


def _lines(data: bytes, name: str) -> list[str]:
    """Lines without those that are comments as a whole."""
    return [x for x in _text(data, name).splitlines() if not x.lstrip().startswith(";")]


def _read_decimal(data: bytes, name: str) -> list[int]:
    lines = (line.partition("#")[0] for line in _text(data, name).splitlines())
    return [_number(token, 10, name) for line in lines for token in line.split()]


def _read_npy(data: bytes, name: str) -> list[int]:
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError):
        raise ApproxNormError(f"{name}: not an .npy file of numbers") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim != 1:
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else "an archive"
        raise ApproxNormError(f"{name}: {found} found; a one-dimensional integer array is allowed")
    return [int(v) for v in array]


_READERS: dict[str, Callable[[bytes, str], list[int]]] = {
    ".mem": _read_memh,
    ".hex": _read_memh,
    ".coe": _read_coe,
    ".txt": _read_decimal,
    ".npy": _read_npy,
}
_RAW = (".mem", ".hex", ".coe")  # words are bit patterns


def _number(token: str, radix: int, name: str) -> int:
    try:
        if not re.fullmatch(r"[+-]?[0-9A-Za-z][0-9A-Za-z_]*", token) or "x" in token.lower():
            raise ValueError
        return int(token.replace("_", ""), radix)
    except ValueError:
        kind = {2: "binary", 10: "decimal", 16: "hexadecimal"}[radix]
        raise ApproxNormError(f"{name}: {token[:40]!r} is no {kind} number") from None


def _signed(word: int, width: int) -> int:
    return word - (1 << width) if word >> (width - 1) == 1 else word


def _check(words: list[int], width: int, signed: bool, name: str) -> None:
    low = -(1 << (width - 1)) if signed else 0
    high = (1 << (width - signed)) - 1
    for i, word in enumerate(words):
        if not low <= word <= high:
            raise ApproxNormError(
                f"{name}: word {i} is {word}; width = {width} allows {low} to {high}"
            )
