"""Writing a project: everything that simulation and synthesis need, in one folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from approxnorm.hls_ref import emit
from approxnorm.hls_ref.project import ap_types, former
from approxnorm.hls_ref.project.arguments import (
    CLOCK_NS,
    PART,
    TOP,
    checked_clock,
    checked_layers,
    checked_max_dim,
    checked_names,
    checked_part,
    checked_top,
    given_vectors,
    relative_path,
)
from approxnorm.hls_ref.project.contents import Plan, check_top, fill
from approxnorm.model import RMSNorm
from approxnorm.output import check_replaceable, staged_folder
from approxnorm.vectors import VectorSet, write_vectors
from approxnorm.vectors.generate import check_numbers

VECTORS, OWN_VECTORS = "vectors", "vectors-input"


@dataclass(frozen=True)
class Replayed:
    """The golden vectors of a layer that the bench replays.

    own_vectors: those of the user's own rows, which it replays after the others, or None.
    """

    vectors: VectorSet
    own_vectors: VectorSet | None


@dataclass(frozen=True)
class Project:
    """A project that was written.

    digest: of the model; with run-time ports, of what its layers share. dim: elements of a row, or
    of the longest. layers: vectors by the layer's name; a kernel of constants has one, "".
    files: SHA-256 of every file by its path, in order; project.json and provenance aside.
    """

    folder: Path
    digest: str
    dim: int
    top: str
    lanes: int
    passes: int
    part: str
    clock_ns: float
    layers: dict[str, Replayed]
    files: dict[str, str]

    @property
    def vectors(self) -> VectorSet:
        """The first layer's: a kernel of constants has no other."""
        return next(iter(self.layers.values())).vectors

    @property
    def own_vectors(self) -> VectorSet | None:
        """Those of the user's own rows, of the first layer."""
        return next(iter(self.layers.values())).own_vectors

    @property
    def has_ap_types(self) -> bool:
        """Whether Xilinx's headers were found and are part of it, so that `make` needs no more."""
        return f"{ap_types.FOLDER}/ap_int.h" in self.files


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
    top: str = TOP,
    part: str = PART,
    clock_ns: float = CLOCK_NS,
) -> Project:
    """Write the HLS project of a model; the same arguments give the same bytes.

    level, seed: of the golden vectors, see ``approxnorm.vectors.plan``. x_codes: the user's own
    input codes (..., dim), replayed as well, and what tb_data then holds. vectors: a set of this
    model that is there already and stays where it is: the project names it relative to itself, in
    place of one of its own. lanes: elements a beat of the streams. tb_data: also hls4ml's text
    files. residual: the kernel adds a residual before the norm; the bench then splits x in two.
    top: the function's name, and with it that of its namespace, its files and the IP; each kernel
    of a design needs its own. part, clock_ns: what run_hls.tcl sets, the clock's period in
    nanoseconds.

    The folder is written beside ``out`` and renamed. An empty folder or a former project is
    replaced, unless a file in it was edited or is no part of it. Raises ApproxNormError then, for
    arguments that are not allowed, and for the rsqrt method "exact", which has no hardware.
    """
    out = Path(out)
    top, part, clock_ns = checked_top(top), checked_part(part), checked_clock(clock_ns)
    seed, lanes = check_numbers(seed, lanes)
    check_replaceable(out, former.check_former)
    given = None if vectors is None else given_vectors(Path(vectors), model)
    datapath = model.assembly.require_datapath()
    first = VECTORS if given is None else relative_path(given.folder, out)
    plan = Plan(
        kernel=emit.Kernel({"": model}, datapath, model.dim, lanes, top, has_residual=residual),
        part=part,
        clock_ns=clock_ns,
        tb_data=tb_data,
        level=level,
        seed=seed,
        vector_paths=(first,) if x_codes is None else (first, OWN_VECTORS),
    )
    return _write(out, plan, given, None if x_codes is None else {"": x_codes})


def write_ports_project(
    models: Mapping[str, RMSNorm],
    out: str | Path,
    *,
    level: int = 1,
    seed: int = 0,
    lanes: int = 8,
    max_dim: int | None = None,
    names: Mapping[str, str] | None = None,
    x_codes: Mapping[str, np.ndarray] | None = None,
    tb_data: bool = False,
    residual: bool = False,
    top: str = TOP,
    part: str = PART,
    clock_ns: float = CLOCK_NS,
) -> Project:
    """Write the project of one kernel for several layers, whose numbers are run-time ports.

    models: by the layers' names, which become names of folders and files: letters, digits and
    ``._-``. max_dim: the longest row; absent, the longest of the layers. names: what the layers are
    called where they come from, by those names; README and registers say so. x_codes: input codes
    (..., dim) of every layer, or of none. All else is as for ``write_project``, which errors too
    are; further ones are those of ``approxnorm.hls_ref.emit.emit_ports_kernel``.
    """
    out = Path(out)
    checked_layers(models, x_codes)
    top, part, clock_ns = checked_top(top), checked_part(part), checked_clock(clock_ns)
    seed, lanes = check_numbers(seed, lanes)
    max_dim, names = checked_max_dim(max_dim), checked_names(models, names)
    check_replaceable(out, former.check_former)
    plan = Plan(
        kernel=emit.ports_kernel(models, lanes, max_dim=max_dim, top=top, residual=residual),
        part=part,
        clock_ns=clock_ns,
        tb_data=tb_data,
        level=level,
        seed=seed,
        vector_paths=(VECTORS,) if x_codes is None else (VECTORS, OWN_VECTORS),
        names=names,
    )
    return _write(out, plan, None, x_codes)


def _write(
    out: Path, plan: Plan, given: VectorSet | None, x_codes: Mapping[str, np.ndarray] | None
) -> Project:
    check_top(plan.kernel)
    with staged_folder(out, former.check_former) as folder:
        sets = {
            name: _write_vectors(folder, plan, name, given, x_codes) for name in plan.kernel.layers
        }
        files = fill(folder, plan, sets)
    layers = {}
    for name, (first, *own) in sets.items():
        vectors = given or VectorSet(out / VECTORS / name, first.manifest)
        own_vectors = VectorSet(out / OWN_VECTORS / name, own[0].manifest) if own else None
        layers[name] = Replayed(vectors, own_vectors)
    return Project(
        folder=out,
        digest=plan.kernel.digest,
        dim=plan.kernel.dim,
        top=plan.kernel.top,
        lanes=plan.kernel.lanes,
        passes=len(plan.kernel.passes),
        part=plan.part,
        clock_ns=plan.clock_ns,
        layers=layers,
        files=files,
    )


def _write_vectors(
    folder: Path,
    plan: Plan,
    name: str,
    given: VectorSet | None,
    x_codes: Mapping[str, np.ndarray] | None,
) -> list[VectorSet]:
    """A layer's sets of vectors, one for each of the plan's paths."""
    model, lanes = plan.kernel.layers[name], plan.kernel.lanes
    sets = [
        given
        or write_vectors(
            model, folder / VECTORS / name, level=plan.level, seed=plan.seed, lanes=lanes
        )
    ]
    if x_codes is not None:
        own = folder / OWN_VECTORS / name
        sets.append(write_vectors(model, own, lanes=lanes, x_codes=x_codes[name]))
    return sets
