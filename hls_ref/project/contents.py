"""The files of a project: all but the golden vectors, and how they are listed."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref import csim, emit
from approxnorm.hls_ref.project import ap_types, former
from approxnorm.hls_ref.project.arguments import check_free
from approxnorm.hls_ref.project.readme import readme_values
from approxnorm.hls_ref.project.readme_ports import ports_values
from approxnorm.hls_ref.project.registers import register_files
from approxnorm.hls_ref.project.residual import FOLDER as RESIDUAL
from approxnorm.hls_ref.project.residual import write_residual
from approxnorm.hls_ref.project.tables import c_prefix, table_files
from approxnorm.hls_ref.project.tb_data import FOLDER as TB_DATA
from approxnorm.hls_ref.project.tb_data import write_tb_data
from approxnorm.hls_ref.project.templates import filled
from approxnorm.vectors import VectorSet

TEMPLATES = ("README.md", "Makefile", "run_hls.tcl")
# The bench knows driver.hpp only, so that it is the same for every kernel; this defines it.
_DRIVER = ("tb/bench_config.cpp", b'#include "bench_config.hpp"\n')
_RESIDUAL_NOTE = f"\n# The addends of the vectors in PATH/NAME are in {RESIDUAL}/NAME."
_INCLUDED = (("bench", "tb"), ("csim_include", "csim"))  # folders here and in the project


@dataclass(frozen=True)
class Plan:
    """What is written, all of it checked.

    vector_paths: the sets of vectors, or of folders of them, as seen from the project. names: of
    layers where they come from, by those of the kernel, if it has run-time ports.
    """

    kernel: emit.Kernel
    part: str
    clock_ns: float
    tb_data: bool
    level: int
    seed: int
    vector_paths: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)


# By layer, in the order of the kernel: its vectors, one set for each of vector_paths.
Sets = Mapping[str, Sequence[VectorSet]]


def check_top(kernel: emit.Kernel) -> None:
    """Raise ApproxNormError if the top function's name has another use in the sources."""
    check_free(kernel.top, _sources(replace(kernel, top=emit.TOP)))


def fill(folder: Path, plan: Plan, sets: Sets) -> dict[str, str]:
    """Write all but the vectors into a folder; returns the SHA-256 of every file by its path."""
    for path, data in _contents(plan, sets).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    for name, model in plan.kernel.layers.items():
        if plan.kernel.has_residual:
            for path, used in zip(plan.vector_paths, sets[name], strict=True):
                target = folder / RESIDUAL / Path(path).name / name
                target.mkdir(parents=True)
                write_residual(target, model, used, plan.seed)
        if plan.tb_data:
            (folder / TB_DATA / name).mkdir(parents=True)
            write_tb_data(folder / TB_DATA / name, model, sets[name][-1])
    files = former.listed_files(folder)
    text = json.dumps(_listing(plan, files), indent=1, allow_nan=False) + "\n"
    (folder / former.NAME).write_bytes(text.encode("ascii"))
    return files


def _listing(plan: Plan, files: dict[str, str]) -> dict[str, object]:
    """What project.json holds."""
    kernel = plan.kernel
    layers = {
        name: {
            "input_name": plan.names.get(name, name),
            "digest": m.digest,
            "dim": m.dim,
            "spec": m.spec.to_dict(),
        }
        for name, m in kernel.layers.items()
    }
    return {
        "format": former.FORMAT,
        "format_version": former.FORMAT_VERSION,
        "top": kernel.top,
        "digest": kernel.digest,
        "runtime": kernel.ports,
        "dim": kernel.dim,
        "lanes": kernel.lanes,
        "residual": kernel.has_residual,
        "part": plan.part,
        "clock_ns": plan.clock_ns,
        "vectors": list(plan.vector_paths),
        **({"layers": layers} if kernel.ports else {"spec": kernel.first.spec.to_dict()}),
        "files": files,
    }


def _contents(plan: Plan, sets: Sets) -> dict[str, bytes]:
    """Every file but the vectors and tb_data, by its path in the project."""
    kernel = plan.kernel
    headers = _ap_types()
    files = _sources(kernel) | headers
    files |= table_files(kernel.datapath.tables(), c_prefix(kernel.top))
    if plan.kernel.ports:
        files |= register_files(plan.kernel, plan.names)
    values = _values(plan, sets, bool(headers)) | _compiled(files)
    return files | {name: filled(name, values) for name in TEMPLATES}


def _sources(kernel: emit.Kernel) -> dict[str, bytes]:
    """The kernel and its bench by path, all that is compiled but Xilinx's headers."""
    files = {path: text.encode("utf-8") for path, text in emit.kernel_files(kernel).items()}
    files[_DRIVER[0]] = _DRIVER[1]
    for folder, target in _INCLUDED:
        files |= _package_files(folder, target)
    return files


def _compiled(files: Iterable[str]) -> dict[str, object]:
    """The Makefile's lists of what a bench is made of; Xilinx's headers may be elsewhere."""
    own = [
        path
        for path in sorted(files)
        if path.startswith(("kernel/", "tb/", "csim/")) and not path.startswith(ap_types.FOLDER)
    ]
    sources = [path for path in own if path.endswith(".cpp")]
    headers = [path for path in own if not path.endswith(".cpp")]
    return {"sources": _list(sources), "headers": _list(headers)}


def _list(words: Sequence[str]) -> str:
    """Words of a Makefile's variable, in lines that go on."""
    lines = textwrap.wrap(" ".join(words), 84, break_long_words=False, break_on_hyphens=False)
    return " \\\n           ".join(lines)


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


def _values(plan: Plan, sets: Sets, has_headers: bool) -> dict[str, object]:
    """What the templates' fields stand for."""
    note = "part of this project" if has_headers else "not part of this project, name their folder"
    kernel = plan.kernel
    rows = [
        (path, sum(of_layer[i].rows for of_layer in sets.values()))
        for i, path in enumerate(plan.vector_paths)
    ]
    values = readme_values(kernel, rows, tb_data=plan.tb_data, ap_types=has_headers)
    if kernel.ports:
        values |= ports_values(kernel, plan.names)
    return values | {
        "top": kernel.top,
        "part": plan.part,
        "clock_ns": f"{plan.clock_ns:g}",
        "vectors": " ".join(plan.vector_paths),
        "ap_types_note": note,
        "residual": int(kernel.has_residual),
        "residual_note": _RESIDUAL_NOTE if kernel.has_residual else "",
        "residual_argument": f' "{RESIDUAL}/$$(basename "$$set")"' if kernel.has_residual else "",
    }
