"""What may be asked for: part, clock and vectors that are there already."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref import emit
from approxnorm.hls_ref.emit.names import identifier
from approxnorm.hls_ref.project.ap_types import HEADERS
from approxnorm.methods.base import shown
from approxnorm.model import RMSNorm
from approxnorm.spec.rmsnorm_spec import MAX_DIM
from approxnorm.vectors import VectorSet
from approxnorm.vectors.manifest import read_manifest

TOP = emit.TOP
PART = "xczu7ev-ffvc1156-2-e"  # of the ZCU104 and ZCU106 boards
CLOCK_NS = 5.0
MIN_CLOCK_NS, MAX_CLOCK_NS = 0.1, 1000.0
MAX_TOP = 64
_TOP = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_TOP - 1}}}")
_PART = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
_LAYER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
TAKEN = ("manifest.json",)  # no layer's name: by it the bench knows a single set of vectors
_PLAIN_PATH = re.compile(r"[A-Za-z0-9./_+-]+")


def checked_part(part: str) -> str:
    """A part's name, which becomes a word of a Tcl script."""
    if not isinstance(part, str) or not _PART.fullmatch(part):
        raise ApproxNormError(
            f"part is {shown(part)}; allowed: a name as Vivado has it, like {PART}"
        )
    return part


def checked_clock(clock_ns: float) -> float:
    """A clock's period in nanoseconds, as a float."""
    is_number = isinstance(clock_ns, int | float) and not isinstance(clock_ns, bool)
    if not is_number or not MIN_CLOCK_NS <= clock_ns <= MAX_CLOCK_NS:
        raise ApproxNormError(
            f"clock_ns is {shown(clock_ns)}; allowed: a period of {MIN_CLOCK_NS:g} to"
            f" {MAX_CLOCK_NS:g} nanoseconds"
        )
    return float(clock_ns)


def checked_top(top: str) -> str:
    """The name of a top function, of its namespace and files, and of the IP.

    ``check_free`` says whether the project's own sources use it for something else.
    """
    if not isinstance(top, str) or not _TOP.fullmatch(top) or "__" in top:
        raise ApproxNormError(
            f"top is {shown(top)}; allowed: a name in C, a letter and then letters, digits and"
            f" single underscores, at most {MAX_TOP}"
        )
    return top


def check_free(top: str, files: Mapping[str, bytes]) -> None:
    """Raise ApproxNormError if C++ files, written for the default top, use a name themselves.

    As a word of a program, or as a file's name, whatever the case: some file systems do not tell
    them apart.
    """
    if top == TOP:
        return
    stems = {PurePosixPath(path).stem.lower() for path in (*files, *HEADERS)}
    text = "\n".join(data.decode("utf-8") for data in files.values())
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    is_word = identifier(top) != top or re.search(rf"\b({top}|{top}_kernel)\b", text)
    if is_word or top.lower() in stems:
        raise ApproxNormError(
            f"top is {top!r}, which C++ or the project's own sources use; allowed: another name"
        )


def checked_layers(models: Mapping[str, RMSNorm], x_codes: Mapping[str, np.ndarray] | None) -> None:
    """Names of layers become folders; a bench wants vectors of every layer."""
    if not models:
        raise ApproxNormError("models holds no layer; allowed: one or more")
    taken = set(TAKEN)
    for name in models:
        if not isinstance(name, str) or not _LAYER.fullmatch(name) or name.lower() in taken:
            raise ApproxNormError(
                f"models has a layer {shown(name)}, which becomes a folder; allowed: letters,"
                " digits and ._- with no dot or dash first, none twice whatever its case, not"
                f" {', '.join(TAKEN)}"
            )
        taken.add(name.lower())
    if x_codes is not None and set(x_codes) != set(models):
        raise ApproxNormError(
            f"x_codes has the layers {', '.join(map(shown, x_codes)) or 'none'}; allowed: those of"
            f" models, {', '.join(models)}"
        )


def checked_names(models: Mapping[str, RMSNorm], names: Mapping[str, str] | None) -> dict[str, str]:
    """What the layers are called where they come from, by the names of ``models``."""
    if names is None:
        return {name: name for name in models}
    if set(names) != set(models):
        raise ApproxNormError(
            f"names has the layers {', '.join(map(shown, names)) or 'none'}; allowed: those of"
            f" models, {', '.join(models)}"
        )
    return {name: names[name] for name in models}


def checked_max_dim(max_dim: int | None) -> int | None:
    """The longest row of a kernel with run-time ports, or None for that of its layers."""
    if max_dim is None:
        return None
    try:
        number = -1 if isinstance(max_dim, bool) else operator.index(max_dim)
    except TypeError:
        number = -1
    if not 1 <= number <= MAX_DIM:
        raise ApproxNormError(
            f"max_dim is {shown(max_dim)}; allowed: an integer from 1 to {MAX_DIM}"
        )
    return number


def given_vectors(folder: Path, model: RMSNorm) -> VectorSet:
    """A set of vectors that a project may name; the bench itself checks every byte of it."""
    manifest = read_manifest(folder)
    if manifest.digest != model.digest:
        raise ApproxNormError(
            f"vectors: {folder} has the digest {manifest.digest}; allowed: {model.digest}, the"
            " model's own; write the vectors again"
        )
    return VectorSet(folder, manifest)


def relative_path(folder: Path, out: Path) -> str:
    """A folder as seen from the project; it becomes a word of a Makefile and of a Tcl script."""
    path = Path(os.path.relpath(folder, out)).as_posix()
    if not _PLAIN_PATH.fullmatch(path):
        raise ApproxNormError(
            f"vectors: {path!r}, as seen from the project, holds other characters than letters,"
            " digits and ./_+-; move one of the folders"
        )
    return path
