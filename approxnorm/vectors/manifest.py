"""manifest.json: what a folder of golden vectors holds. The format is in docs/vectors.md."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from approxnorm.errors import ApproxNormError
from approxnorm.methods.base import shown
from approxnorm.program.datapath import Level
from approxnorm.vectors.text import hex_digits

NAME = "manifest.json"
MAX_BYTES = 64 << 20
MAX_LANES = 4096  # a beat of more is no stream that hardware has
MAX_SEED = (1 << 64) - 1
PROVENANCE = "provenance.json"  # versions; the one file without a SHA-256

# Each is written once: as the type of the manifest's field, whose one value it is.
FormatName = Literal["approxnorm-vectors"]
FormatVersion = Literal[1]
LaneOrder = Literal["lane 0 in the low bits"]
FORMAT: FormatName = get_args(FormatName)[0]
FORMAT_VERSION: FormatVersion = get_args(FormatVersion)[0]
LANE_ORDER: LaneOrder = get_args(LaneOrder)[0]

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.]*$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def shape_of(level: Level, rows: int, dim: int) -> tuple[int, ...]:
    """The shape of a signal's array: a value per element, per row or per channel."""
    shapes: dict[Level, tuple[int, ...]] = {
        "element": (rows, dim),
        "row": (rows,),
        "channel": (dim,),
    }
    return shapes[level]


class SignalEntry(_Part):
    """A signal's file: ``words`` codes of ``width`` bits, in [lo, hi]."""

    name: FileName
    level: Level
    type: str
    width: int = Field(ge=1, le=64)
    signed: bool
    lo: int
    hi: int
    format: str | None = None
    file: FileName
    words: int = Field(ge=0)
    sha256: Sha256


class BeatEntry(_Part):
    """A file of stream beats, ``width`` = lanes times the signal's width."""

    signal: FileName
    width: int = Field(ge=1)
    file: FileName
    words: int = Field(ge=0)
    sha256: Sha256


class ClassEntry(_Part):
    """A class of rows: ``count`` of them from row ``first`` on."""

    name: str
    first: int = Field(ge=0)
    count: int = Field(ge=0)


class Padding(_Part):
    """A row of a stream is ``beats_per_row`` beats; lanes past its end hold ``value``."""

    beats_per_row: int = Field(ge=1)
    value: Literal[0]


class ArchiveEntry(_Part):
    file: FileName
    sha256: Sha256


class Manifest(_Part):
    """All that is known of a set. Built from a file by ``read_manifest``."""

    format: FormatName
    format_version: FormatVersion
    digest: Sha256
    level: Literal[0, 1, 2, "input"]
    seed: int = Field(ge=0, le=MAX_SEED)
    rows: int = Field(ge=0)
    dim: int = Field(ge=1)
    lanes: int = Field(ge=1, le=MAX_LANES)
    lane_order: LaneOrder
    padding: Padding
    classes: tuple[ClassEntry, ...] = Field(strict=False)
    signals: tuple[SignalEntry, ...] = Field(strict=False)
    beats: tuple[BeatEntry, ...] = Field(strict=False)
    archive: ArchiveEntry
    coverage: dict[str, Any]
    spec: dict[str, Any]

    def to_json(self) -> str:
        """JSON text with a final newline: the same text for the same set."""
        data = self.model_dump(mode="json", exclude_none=True)
        return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"

    def shape(self, entry: SignalEntry) -> tuple[int, ...]:
        """(rows, dim) of an element signal, (rows,) of a row signal, (dim,) of a channel's."""
        return shape_of(entry.level, self.rows, self.dim)

    def files(self) -> dict[str, str]:
        """SHA-256 of each file by its name."""
        entries: list[SignalEntry | BeatEntry] = [*self.signals, *self.beats]
        listed = {e.file: e.sha256 for e in entries}
        return listed | {self.archive.file: self.archive.sha256}

    def sizes(self) -> dict[str, int]:
        """Bytes of each text file by its name."""
        entries: list[SignalEntry | BeatEntry] = [*self.signals, *self.beats]
        return {e.file: e.words * (hex_digits(e.width) + 1) for e in entries}


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder.

    Raises ApproxNormError if it is missing, damaged, of another kind, too large, or no regular
    file: a link is not followed and a pipe not waited for.
    """
    path = folder / NAME
    data = _read(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ApproxNormError(f"{path} is no manifest of approxnorm's golden vectors")
    version = data.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise ApproxNormError(
            f"{path} has format_version {shown(version)}; allowed: {FORMAT_VERSION};"
            " write the vectors again"
        )
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        raise ApproxNormError(
            f"{path}: {_complaint(error.errors()[0])}; write the vectors again"
        ) from None


def _read(path: Path) -> Any:
    """What a JSON file holds, if it is a file at all."""
    try:
        require_regular(path)
        if path.stat().st_size > MAX_BYTES:
            raise ApproxNormError(f"{path} is larger than {MAX_BYTES} bytes; not a manifest")
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except FileNotFoundError:
        raise ApproxNormError(
            f"{path} is missing; give a folder that approxnorm vectors wrote"
        ) from None
    except OSError as error:
        raise ApproxNormError(f"{path} cannot be read: {error.strerror or error}") from error
    except ApproxNormError:
        raise
    except (ValueError, RecursionError):
        raise ApproxNormError(f"{path} is not JSON text; write the vectors again") from None


def _no_number(name: str) -> None:
    """NaN and the infinities are none of JSON, though Python's module reads them."""
    raise ValueError(name)


def require_regular(path: Path) -> None:
    """Refuse what is no file itself: ApproxNormError; FileNotFoundError if there is nothing."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise ApproxNormError(f"{path} is a symbolic link; allowed: the file itself")
    if not stat.S_ISREG(mode):
        raise ApproxNormError(f"{path} is no regular file; write the vectors again")


# What a field must be, by pydantic's name of the rule that was broken.
_ALLOWED = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "greater_than_equal": "{ge} or more",
    "int_type": "an integer",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "model_type": "an object",
    "string_type": "text",
    "tuple_type": "a list",
}


def _complaint(detail: ErrorDetails) -> str:
    """One finding of the validation, in this project's words."""
    field = ".".join(str(p) for p in detail["loc"])
    if detail["type"] == "missing":
        return f"{field} is missing"
    if detail["type"] == "extra_forbidden":
        return f"{field} is an unknown key"
    found = f"{field} is {shown(detail['input'])}"
    if detail["type"] == "string_pattern_mismatch":
        is_file = field.endswith(("file", "name", "signal"))
        kind = "a plain name of letters, digits, _ and ." if is_file else "64 digits 0-9, a-f"
        return f"{found}; allowed: {kind}"
    rule = _ALLOWED.get(detail["type"])
    if rule is None:
        return f"{found}, which approxnorm never writes"
    return f"{found}; allowed: {rule.format(**detail.get('ctx', {}))}"
