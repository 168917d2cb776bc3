"""Writing a project: everything that simulation and synthesis need, in one folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref import csim, emit
from approxnorm.hls_ref.emit.schedule import Pass, passes_of
from approxnorm.hls_ref.project import ap_types, former
from approxnorm.hls_ref.project.arguments import (
    CLOCK_NS,
    PART,
    checked_clock,
    checked_part,
    given_vectors,
    relative_path,
)
from approxnorm.hls_ref.project.readme import readme_values
from approxnorm.hls_ref.project.residual import FOLDER as RESIDUAL
from approxnorm.hls_ref.project.residual import write_residual
from approxnorm.hls_ref.project.tables import table_files
from approxnorm.hls_ref.project.tb_data import FOLDER as TB_DATA
from approxnorm.hls_ref.project.tb_data import write_tb_data
from approxnorm.hls_ref.project.templates import filled
from approxnorm.model import RMSNorm
from approxnorm.output import check_replaceable, staged_folder
from approxnorm.vectors import VectorSet, write_vectors
from approxnorm.vectors.generate import check_numbers

TOP = "approx_rmsnorm"
VECTORS, OWN_VECTORS = "vectors", "vectors-input"
TEMPLATES = ("README.md", "Makefile", "run_hls.tcl")
# The bench knows driver.hpp only, so that it is the same for every kernel; this defines it.
_DRIVER = ("tb/bench_config.cpp", b'#include "bench_config.hpp"\n')
_INCLUDED = (("bench", "tb"), ("csim_include", "csim"))  # folders here and in the project


@dataclass(frozen=True)
class Project:
    """A project that was written.

    vectors: the golden vectors that its bench replays. own_vectors: those of the user's own rows,
    which it replays after them, or None.
    files: SHA-256 of every file by its path, in order; project.json and provenance aside.
    """

    folder: Path
    digest: str
    lanes: int
    passes: int
    part: str
    clock_ns: float
    vectors: VectorSet
    own_vectors: VectorSet | None
    files: dict[str, str]

    @property
    def has_ap_types(self) -> bool:
        """Whether Xilinx's headers were found and are part of it, so that `make` needs no more."""
        return f"{ap_types.FOLDER}/ap_int.h" in self.files


@dataclass(frozen=True)
class _Plan:
    """What is written, all of it checked."""

    model: RMSNorm
    lanes: int
    part: str
    clock_ns: float
    residual: bool
    tb_data: bool
    seed: int
    sources: Mapping[str, str]
    vector_paths: tuple[str, ...]  # of the sets of vectors, from the project

    @property
    def passes(self) -> list[Pass]:
        return passes_of(self.model.assembly.require_datapath())


def write_project(
    model: RMSNorm,
    out: str | Path,
    *,
    level: int = 1,
    seed: int = 0,
    lanes: int = 8,
    x_codes: np.ndarray | None = None,
    vectors: str | Path | None = None,
    tb_data: bool = False,
    residual: bool = False,
    part: str = PART,
    clock_ns: float = CLOCK_NS,
) -> Project:
    """Write the HLS project of a model; the same arguments give the same bytes.

    level, seed: of the golden vectors, see ``approxnorm.vectors.plan``. x_codes: the user's own
    input codes (..., dim), replayed as well, and what tb_data then holds. vectors: a set of this
    model that is there already and stays where it is: the project names it relative to itself, in
    place of one of its own. lanes: elements a beat of the streams. tb_data: also hls4ml's text
    files. residual: the kernel adds a residual before the norm; the bench then splits x in two.
    part, clock_ns: what run_hls.tcl sets, the clock's period in nanoseconds.

    The folder is written beside ``out`` and renamed. An empty folder or a former project is
    replaced, unless a file in it was edited or is no part of it. Raises ApproxNormError then, for
    arguments that are not allowed, and for the rsqrt method "exact", which has no hardware.
    """
    out = Path(out)
    part, clock_ns = checked_part(part), checked_clock(clock_ns)
    seed, lanes = check_numbers(seed, lanes)
    check_replaceable(out, former.check_former)
    given = None if vectors is None else given_vectors(Path(vectors), model)
    plan = _Plan(
        model=model,
        lanes=lanes,
        part=part,
        clock_ns=clock_ns,
        residual=residual,
        tb_data=tb_data,
        seed=seed,
        sources=emit.emit_kernel(model, lanes=lanes, residual=residual),
        vector_paths=_vector_paths(given, out, x_codes is not None),
    )
    with staged_folder(out, former.check_former) as folder:
        sets = [
            given or write_vectors(model, folder / VECTORS, level=level, seed=seed, lanes=lanes)
        ]
        if x_codes is not None:
            sets.append(write_vectors(model, folder / OWN_VECTORS, lanes=lanes, x_codes=x_codes))
        files = _fill(folder, plan, sets)
    manifests = [used.manifest for used in sets]
    return Project(
        folder=out,
        digest=model.digest,
        lanes=lanes,
        passes=len(plan.passes),
        part=part,
        clock_ns=clock_ns,
        vectors=given or VectorSet(out / VECTORS, manifests[0]),
        own_vectors=None if x_codes is None else VectorSet(out / OWN_VECTORS, manifests[1]),
        files=files,
    )


def _vector_paths(given: VectorSet | None, out: Path, has_own: bool) -> tuple[str, ...]:
    first = VECTORS if given is None else relative_path(given.folder, out)
    return (first, OWN_VECTORS) if has_own else (first,)


def _fill(folder: Path, plan: _Plan, sets: Sequence[VectorSet]) -> dict[str, str]:
    """Write all but the vectors into a folder; returns the SHA-256 of every file by its path."""
    for path, data in _contents(plan, sets).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    if plan.residual:
        for path, used in zip(plan.vector_paths, sets, strict=True):
            target = folder / RESIDUAL / Path(path).name
            target.mkdir(parents=True)
            write_residual(target, plan.model, used, plan.seed)
    if plan.tb_data:
        (folder / TB_DATA).mkdir()
        write_tb_data(folder / TB_DATA, plan.model, sets[-1])
    files = former.listed_files(folder)
    listing = {
        "format": former.FORMAT,
        "format_version": former.FORMAT_VERSION,
        "top": TOP,
        "digest": plan.model.digest,
        "dim": plan.model.dim,
        "lanes": plan.lanes,
        "residual": plan.residual,
        "part": plan.part,
        "clock_ns": plan.clock_ns,
        "vectors": list(plan.vector_paths),
        "spec": plan.model.spec.to_dict(),
        "files": files,
    }
    text = json.dumps(listing, indent=1, allow_nan=False) + "\n"
    (folder / former.NAME).write_bytes(text.encode("ascii"))
    return files


def _contents(plan: _Plan, sets: Sequence[VectorSet]) -> dict[str, bytes]:
    """Every file but the vectors and tb_data, by its path in the project."""
    files = {path: text.encode("utf-8") for path, text in plan.sources.items()}
    files[_DRIVER[0]] = _DRIVER[1]
    for folder, target in _INCLUDED:
        files |= _package_files(folder, target)
    headers = _ap_types()
    files |= headers
    files |= table_files(plan.model.assembly.require_datapath().tables())
    values = _values(plan, sets, bool(headers))
    return files | {name: filled(name, values) for name in TEMPLATES}


def _package_files(folder: str, target: str) -> dict[str, bytes]:
    """The C++ files of a folder of this package."""
    source = resources.files("approxnorm.hls_ref") / folder
    return {
        f"{target}/{entry.name}": entry.read_bytes()
        for entry in source.iterdir()
        if entry.name.endswith((".h", ".hpp", ".cpp"))
    }


def _ap_types() -> dict[str, bytes]:
    """Xilinx's headers, if they are on this machine."""
    try:
        return ap_types.ap_type_files(csim.find_ap_types())
    except ApproxNormError:
        return {}


def _values(plan: _Plan, sets: Sequence[VectorSet], has_headers: bool) -> dict[str, object]:
    """What the templates' fields stand for."""
    note = "part of this project" if has_headers else "not part of this project, name their folder"
    of_kernel = readme_values(
        plan.model,
        plan.lanes,
        plan.passes,
        [(path, used.rows) for path, used in zip(plan.vector_paths, sets, strict=True)],
        residual=plan.residual,
        tb_data=plan.tb_data,
        ap_types=has_headers,
    )
    return of_kernel | {
        "top": TOP,
        "part": plan.part,
        "clock_ns": f"{plan.clock_ns:g}",
        "vectors": " ".join(plan.vector_paths),
        "ap_types_note": note,
        "residual": int(plan.residual),
        "residual_argument": f" {RESIDUAL}/$$(basename $$set)" if plan.residual else "",
    }
