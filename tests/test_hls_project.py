"""The project that `approxnorm export hls` writes: complete, alone, the same bytes every time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hls_projects import everything, make, model_of

from approxnorm import RMSNormSpec
from approxnorm.cli import main
from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref import csim
from approxnorm.hls_ref.project import Project, ap_types, write_project
from approxnorm.hls_ref.project.tables import named, table_files, to_coe, to_mem
from approxnorm.inputs import default_activations
from approxnorm.residual import add_residual
from approxnorm.tables.table import Table
from approxnorm.vectors import read_vectors, write_vectors
from approxnorm.vectors.text import from_hex

OWN_ROWS = np.arange(36).reshape(3, 12) * 40 - 700


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One project with everything that can be asked for, which no test changes."""
    out = tmp_path_factory.mktemp("project") / "hls"
    return write_project(model_of(), out, level=0, lanes=5, x_codes=OWN_ROWS, tb_data=True)


def copy_of(project: Project, tmp_path: Path) -> Path:
    return Path(shutil.copytree(project.folder, tmp_path / "hls"))


# --- what is in it -------------------------------------------------------------------------------


def test_every_file_is_listed_with_its_sha256(project: Project) -> None:
    listing = json.loads((project.folder / "project.json").read_text("ascii"))
    found = everything(project.folder)
    del found["project.json"]
    hashed = {path: hashlib.sha256(data).hexdigest() for path, data in found.items()}
    assert listing["files"] == hashed == project.files
    assert list(hashed)  # and there are some
    assert listing["digest"] == project.digest
    assert RMSNormSpec(**listing["spec"]) == model_of().spec


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "Makefile",
        "run_hls.tcl",
        "kernel/approx_rmsnorm.cpp",
        "kernel/approx_rmsnorm.hpp",
        "kernel/datapath.hpp",
        "tb/approx_rmsnorm_tb.cpp",
        "tb/driver.hpp",
        "csim/hls_stream.h",
        "csim/ap_types/ap_int.h",
        "csim/ap_types/etc/ap_private.h",
        "tables/rsqrt_c0.mem",
        "tables/rsqrt_c0.coe",
        "tables/tables.c",
        "vectors/manifest.json",
        "tb_data/tb_input_features.dat",
    ],
)
def test_project_has(project: Project, path: str) -> None:
    assert path in project.files


def test_no_field_of_a_template_is_left(project: Project) -> None:
    for name in ("README.md", "Makefile", "run_hls.tcl"):
        text = (project.folder / name).read_text("utf-8")
        assert not re.search(r"@[a-z_]+@", text), name
        assert text.endswith("\n")


def test_same_arguments_same_bytes(project: Project, tmp_path: Path) -> None:
    out = tmp_path / "other"
    write_project(model_of(), out, level=0, lanes=5, x_codes=OWN_ROWS, tb_data=True)
    assert everything(project.folder) == everything(out)


def test_vectors_are_golden_vectors_of_the_model(project: Project) -> None:
    vectors = read_vectors(project.folder / "vectors")
    assert vectors.digest == project.digest == model_of().digest
    assert project.vectors.folder == project.folder / "vectors"
    assert vectors.manifest.lanes == 5


def test_own_rows_are_replayed_after_the_generated_ones(tmp_path: Path) -> None:
    made = write_project(model_of(), tmp_path / "hls", level=0, x_codes=OWN_ROWS, tb_data=True)
    assert made.own_vectors is not None
    assert made.own_vectors.folder == made.folder / "vectors-input"
    np.testing.assert_array_equal(read_vectors(made.own_vectors.folder).array("x"), OWN_ROWS)
    assert read_vectors(made.folder / "vectors").manifest.level == 0
    assert "VECTORS  ?= vectors vectors-input\n" in (made.folder / "Makefile").read_text("utf-8")
    assert "{vectors vectors-input}" in (made.folder / "run_hls.tcl").read_text("utf-8")
    given = numbers(made.folder / "tb_data" / "tb_input_codes.dat", int)
    np.testing.assert_array_equal(given, OWN_ROWS)


# --- README and scripts --------------------------------------------------------------------------


def test_readme_has_the_numbers_of_this_kernel(project: Project) -> None:
    text = (project.folder / "README.md").read_text("utf-8")
    assert project.digest in text
    assert "B    = ceil(dim / lanes) = ceil(12 / 5) = 3" in text
    assert f"P    = {project.passes} passes over the row" in text
    assert "= 6 + sum of D and R" in text
    assert "holds 2 elements; its other 3 lanes are" in text
    assert "rows of this call, 0 to 2147483647, as an `int`: below 1 no row is read" in text
    for port in model_of().assembly.require_datapath().signals():
        assert f"| `{port.name}` | {port.level} | `{port.interval.type_name}` |" in text


def test_readme_of_one_element_has_no_false_plural(tmp_path: Path) -> None:
    model = model_of(dim=1)
    made = write_project(model, tmp_path / "hls", level=0, x_codes=np.array([[3]]))
    text = (made.folder / "README.md").read_text("utf-8")
    assert "| row | 1 element, 8 a beat: 1 beat |" in text
    assert "A row takes 1 beat. The last one holds 1 element; its other 7 lanes are" in text
    assert "golden vectors: 1 row of your own data" in text
    assert not re.search(r"\b1 (\w+s|passes) ", re.sub(r"[|`].*", "", text))


def test_readme_says_how_often_each_table_is_read(tmp_path: Path) -> None:
    made = write_project(model_of("log"), tmp_path / "log", level=0, lanes=5)
    text = (made.folder / "README.md").read_text("utf-8")
    reads = {
        name: line.split(" | ")[6]
        for name, _ in named(model_of("log").assembly.require_datapath().tables())
        for line in text.splitlines()
        if line.startswith(f"| `{name}` |") and line.count(" | ") == 8
    }
    assert reads == {
        "rsqrt_log2_table": "1 a row",
        "log2_table": "5 a beat, pass 1",
        "exp2_table": "5 a beat, pass 1",
    }
    assert "A ROM has two ports" in text


def test_passes_follow_the_reductions(tmp_path: Path) -> None:
    assert write_project(model_of(), tmp_path / "a", level=0).passes == 2
    exponent = model_of(x=dict(bits=18, signed=True, scale=2.0**-10), row_exponent=dict(bits=12))
    assert write_project(exponent, tmp_path / "b", level=0).passes == 3


def test_part_and_clock_are_in_the_script(tmp_path: Path) -> None:
    write_project(model_of(), tmp_path / "hls", level=0, part="xc7z020clg400-1", clock_ns=6.25)
    text = (tmp_path / "hls" / "run_hls.tcl").read_text("utf-8")
    assert "{xc7z020clg400-1}" in text
    assert "{6.25}" in text
    for bracket in ("{}", "[]"):
        assert text.count(bracket[0]) == text.count(bracket[1])


# --- tables --------------------------------------------------------------------------------------

TABLES = [
    Table("short", (0, 1, 3), 1, "a[1:0]"),
    Table("signed_edge", (-(1 << 31), (1 << 31) - 1, -1, 0), 4, "a[1:0]", "exact", "x*/ y /*"),
    Table("wide", (1 << 31, -(1 << 40), 5), 0, "ä|b", "", "line\nbreak"),
    Table("one_bit", (1,) * 9, 0, "none"),
    Table("short", (7, -8), 0, "b"),
]


def real_tables() -> list[Table]:
    models = [model_of("linear"), model_of("direct")]
    return [t for m in models for t in m.assembly.require_datapath().tables()]


@pytest.mark.parametrize("table", [*TABLES, *real_tables()], ids=lambda t: t.name)
def test_mem_and_coe_read_back(table: Table) -> None:
    memory = to_mem(table)
    codes = from_hex(memory, table.width, table.signed, "mem")
    assert tuple(codes.tolist()) == table.entries
    statements = re.sub(r";[^\n]*", ";", to_coe(table).decode("ascii")).split(";")
    radix, words = [s.strip() for s in statements if s.strip()]
    assert radix == "memory_initialization_radix=16"
    name, values = words.split("=")
    assert name == "memory_initialization_vector"
    assert [v.strip() for v in values.split(",")] == memory.decode("ascii").split()


def test_c_arrays_read_back_through_a_compiler(tmp_path: Path) -> None:
    tables = [*TABLES, *real_tables()[:2]]
    for path, data in table_files(tables).items():
        (tmp_path / Path(path).name).write_bytes(data)
    prints = "".join(
        f'    for (int i = 0; i < {len(t.entries)}; i++) printf("{name} %lld\\n",'
        f" (long long)approx_{name}[i]);\n"
        for name, t in named(tables)
    )
    source = f'#include <cstdio>\n#include "tables.h"\nint main() {{\n{prints}    return 0;\n}}\n'
    (tmp_path / "main.cpp").write_text(source, "ascii")
    flags = ["-Wall", "-Wextra", "-Werror", "-o", "main"]
    build = ["g++", *flags, "main.cpp", "-x", "c++", "-include", "tables.h", "tables.c"]
    subprocess.run(build, cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    expected = [f"{name} {entry}" for name, t in named(tables) for entry in t.entries]
    assert printed.splitlines() == expected


def test_tables_of_one_name_have_files_of_their_own() -> None:
    files = table_files(TABLES)
    assert {"tables/short.mem", "tables/short_2.mem"} <= set(files)
    assert files["tables/short_2.mem"] == b"7\n8\n"


# --- tb_data -------------------------------------------------------------------------------------


def numbers(path: Path, kind: Callable[[str], Any]) -> np.ndarray:
    return np.array(
        [[kind(word) for word in line.split(" ")] for line in path.read_text("ascii").splitlines()]
    )


@pytest.mark.parametrize("variant", ["linear", "zero_points", "channel_shifts"])
def test_tb_data_gives_the_codes_back(variant: str, tmp_path: Path) -> None:
    model = model_of(variant)
    made = write_project(model, tmp_path / "hls", level=0, tb_data=True)
    folder = made.folder / "tb_data"
    x, y = made.vectors.array("x"), made.vectors.array("y")
    np.testing.assert_array_equal(numbers(folder / "tb_input_codes.dat", int), x)
    np.testing.assert_array_equal(numbers(folder / "tb_output_codes.dat", int), y)
    features = numbers(folder / "tb_input_features.dat", float)
    np.testing.assert_array_equal(features, model.dequantize_x(x))
    form = model.assembly.context.y
    outputs = numbers(folder / "tb_output_predictions.dat", float)
    nearest = np.rint(outputs / float(form.scale)).astype(np.int64) + form.zero_point
    np.testing.assert_array_equal(nearest, y)


# --- it runs, alone ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moved(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project elsewhere: nothing in it may hang on where it was written."""
    return copy_of(project, tmp_path_factory.mktemp("moved"))


@pytest.mark.parametrize("target", ["csim", "trace", "sanitize"])
def test_make_compares_everything_without_a_warning(moved: Path, target: str) -> None:
    done = make(moved, target, "CXXFLAGS=-O0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^PASS.* vectors=(\S+)$", done.stdout, re.M) == ["vectors", "vectors-input"]
    assert done.stderr == ""


def test_kernel_with_a_residual_is_replayed_with_both_addends(tmp_path: Path) -> None:
    model = model_of()
    made = write_project(
        model, tmp_path / "hls", level=0, seed=3, lanes=5, x_codes=OWN_ROWS, residual=True
    )
    x = read_vectors(made.folder / "vectors-input").signal("x")
    for name in ("vectors", "vectors-input"):
        folder = made.folder / "residual" / name
        addends = [
            from_hex((folder / f"{n}.hex").read_bytes(), x.width, x.signed, n).reshape(-1, 12)
            for n in "ab"
        ]
        codes = read_vectors(made.folder / name).array("x")
        np.testing.assert_array_equal(add_residual(model, *addends), codes)
        assert (addends[0] != codes).any()
    done = make(made.folder, "trace", "CXXFLAGS=-O0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASS") == 2
    printed = [line for line in done.stdout.splitlines() if line.startswith("build/")]
    assert printed == [
        f"build/bench_trace {name} residual/{name}" for name in ("vectors", "vectors-input")
    ]
    for command in (*printed, "build/bench_trace vectors", "build/bench_trace"):
        run = subprocess.run(command.split(), cwd=made.folder, capture_output=True, text=True)
        assert (run.returncode, run.stdout.count("PASS")) == (0, 1), run.stdout
    readme = (made.folder / "README.md").read_text("utf-8")
    assert "`residual_in`" in readme
    assert "`sum_out`" in readme


def test_make_fails_on_a_wrong_kernel(project: Project, tmp_path: Path) -> None:
    folder = copy_of(project, tmp_path)
    header = folder / "kernel" / "tables.hpp"
    table = model_of().assembly.require_datapath().tables()[0]
    entry = str(table.entries[0])
    text = header.read_text("utf-8")
    assert text.count(entry) >= 1
    header.write_text(re.sub(rf"\b{entry}\b", str(table.entries[0] - 1), text), "utf-8")
    done = make(folder, "csim", "CXXFLAGS=-O0")
    assert done.returncode != 0
    assert "MISMATCH" in done.stdout
    assert f"digest={project.digest}" in done.stdout


# A compiler that leaves a line in `compiled` and a bench that passes.
COMPILER = """#!/bin/sh
echo "$@" >> compiled
while test "$1" != -o; do shift; done
printf '#!/bin/sh\\n' > "$2"; chmod +x "$2"
"""


def edit_with_an_old_time(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"#\n")
    os.utime(path, (0, 0))


@pytest.fixture
def built(project: Project, tmp_path: Path) -> Path:
    """A copy that a stand-in for the compiler has built once."""
    folder = copy_of(project, tmp_path)
    (folder / "cxx").write_text(COMPILER, "ascii")
    (folder / "cxx").chmod(0o755)
    assert (make(folder, "CXX=./cxx").returncode, compiled(folder)) == (0, 1)
    assert (make(folder, "CXX=./cxx").returncode, compiled(folder)) == (0, 1)
    return folder


def compiled(folder: Path) -> int:
    return (folder / "compiled").read_text("ascii").count("\n")


@pytest.mark.parametrize(
    "path",
    [
        "Makefile",
        "kernel/tables.hpp",
        "kernel/approx/ops.hpp",
        "kernel/approx_rmsnorm.cpp",
        "tb/compare.hpp",
        "tb/bench_config.cpp",
        "csim/hls_stream.h",
        "csim/ap_types/etc/ap_private.h",
    ],
)
def test_make_builds_anew_when_a_file_is_another(path: str, built: Path) -> None:
    edit_with_an_old_time(built / path)
    assert (make(built, "CXX=./cxx").returncode, compiled(built)) == (0, 2)
    assert (make(built, "CXX=./cxx").returncode, compiled(built)) == (0, 2)


@pytest.mark.parametrize("flag", ["CXXFLAGS=-O1 -DNAME='\"n\"'", "AP_TYPES=csim/../csim/ap_types"])
def test_make_builds_anew_when_a_flag_is_another(flag: str, built: Path) -> None:
    assert (make(built, "CXX=./cxx", flag).returncode, compiled(built)) == (0, 2)
    assert (make(built, "CXX=./cxx", flag).returncode, compiled(built)) == (0, 2)


def test_make_fails_when_a_file_is_missing(built: Path) -> None:
    for path in json.loads((built / "project.json").read_text("ascii"))["files"]:
        if path.startswith(("kernel/", "tb/", "csim/hls")):
            kept = (built / path).rename(built / "kept")
            done = make(built, "CXX=./cxx")
            assert done.returncode != 0, path
            assert path in done.stderr
            kept.rename(built / path)


def test_make_fails_without_vectors(built: Path) -> None:
    done = make(built, "CXX=./cxx", "VECTORS= ")
    assert done.returncode != 0
    assert "VECTORS is empty, so that nothing would be compared" in done.stderr


def test_make_clean_leaves_the_project(project: Project, tmp_path: Path) -> None:
    folder = copy_of(project, tmp_path)
    (folder / "build").mkdir()
    (folder / "build" / "bench").write_text("built")
    assert make(folder, "clean").returncode == 0
    assert everything(folder) == everything(project.folder)


def test_make_says_where_headers_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        raise ApproxNormError("no headers")

    monkeypatch.setattr(csim, "find_ap_types", absent)
    made = write_project(model_of(), tmp_path / "hls", level=0)
    assert not made.has_ap_types
    assert not (made.folder / "csim" / "ap_types").exists()
    assert "AP_TYPES=FOLDER" in (made.folder / "README.md").read_text("utf-8")
    done = make(made.folder)
    assert done.returncode != 0
    assert "ap_int.h is not in csim/ap_types: say make AP_TYPES=FOLDER" in done.stderr


def test_only_headers_with_their_notice_are_copied(tmp_path: Path) -> None:
    found = csim.find_ap_types()
    files = ap_types.ap_type_files(found)
    assert set(files) == {f"csim/ap_types/{name}" for name in ap_types.HEADERS}
    (tmp_path / "etc").mkdir()
    for name in ap_types.HEADERS:
        (tmp_path / name).write_bytes((found / name).read_bytes())
    assert ap_types.ap_type_files(tmp_path) == files
    (tmp_path / "ap_int.h").write_text("// all rights reserved\n")
    assert ap_types.ap_type_files(tmp_path) == {}
    (tmp_path / "ap_int.h").unlink()
    assert ap_types.ap_type_files(tmp_path) == {}


# --- the name of the top function ---------------------------------------------------------------


def test_two_kernels_of_other_names_go_into_one_program(tmp_path: Path) -> None:
    """No file, symbol or guard that both have, but for `approx::`, which is the same text."""
    sources, headers = [], ""
    for name in ("norm_a", "norm_b"):
        made = write_project(model_of(), tmp_path / name, level=0, lanes=5, top=name)
        assert made.top == json.loads((made.folder / "project.json").read_text("ascii"))["top"]
        assert "approx_rmsnorm" not in (made.folder / "run_hls.tcl").read_text("utf-8")
        assert f"set_top {name}\n" in (made.folder / "run_hls.tcl").read_text("utf-8")
        assert f"| `{name}` in `kernel/{name}.hpp` |" in (made.folder / "README.md").read_text()
        kernel = {p.name: p.read_text("utf-8") for p in (made.folder / "kernel").glob("*.?pp")}
        assert not any("approx_rmsnorm" in text.lower() for text in kernel.values())
        sources += [made.folder / "kernel" / f"{name}.cpp", made.folder / "tables" / "tables.c"]
        headers += f'#include "{name}/kernel/{name}.hpp"\n#include "{name}/tables/tables.h"\n'
    uses = "(void)norm_a, (void)norm_b;\n    return norm_a_rsqrt_c0[0] != norm_b_rsqrt_c0[0];"
    (tmp_path / "main.cpp").write_text(f"{headers}int main() {{\n    {uses}\n}}\n", "ascii")
    includes = ["-isystem", "norm_a/csim", "-isystem", "norm_a/csim/ap_types"]
    for i, source in enumerate(sources):
        command = ["g++", "-c", *includes, str(source), "-o", f"{i}.o"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    command = ["g++", *includes, "main.cpp", *(f"{i}.o" for i in range(4)), "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_make_finds_the_kernel_by_its_name(tmp_path: Path) -> None:
    made = write_project(model_of(), tmp_path / "hls", level=0, top="Norm_2")
    done = make(made.folder, "CXXFLAGS=-O0")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert f"digest={model_of().digest}" in done.stdout


@pytest.mark.parametrize(
    "top",
    [
        *("", "2norm", "a-b", "a b", "_norm", "a__b", "norm\n", "n" * 65, "ä", "x} ; exit", 3),
        *("main", "int", "goto", "driver", "std", "x_t", "all_rows", "normalize", "t1", "params"),
        *("Tables", "files", "ap_int", "hls_stream", "approx", "APPROX_RMSNORM_TB"),
    ],
)
def test_names_that_the_top_function_cannot_have_are_refused(top: Any, tmp_path: Path) -> None:
    with pytest.raises(ApproxNormError, match=r"^top is .*; allowed: ") as caught:
        write_project(model_of(), tmp_path / "hls", level=0, top=top)
    assert repr(top)[:40] in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# --- vectors that are there already --------------------------------------------------------------


def test_vectors_beside_the_project_stay_there(tmp_path: Path) -> None:
    model = model_of()
    write_vectors(model, tmp_path / "vectors", level=0)
    made = write_project(model, tmp_path / "hls", vectors=tmp_path / "vectors")
    assert not (made.folder / "vectors").exists()
    assert made.vectors.folder == tmp_path / "vectors"
    assert "VECTORS  ?= ../vectors\n" in (made.folder / "Makefile").read_text("utf-8")
    assert "{../vectors}" in (made.folder / "run_hls.tcl").read_text("utf-8")


def test_vectors_of_another_model_are_refused(tmp_path: Path) -> None:
    write_vectors(model_of("eps_zero"), tmp_path / "vectors", level=0)
    with pytest.raises(ApproxNormError, match=r"allowed: [0-9a-f]{64}, the model's own"):
        write_project(model_of(), tmp_path / "hls", vectors=tmp_path / "vectors")
    assert not (tmp_path / "hls").exists()


def test_vectors_at_a_path_that_make_cannot_name_are_refused(tmp_path: Path) -> None:
    write_vectors(model_of(), tmp_path / "my vectors", level=0)
    with pytest.raises(ApproxNormError, match=r"'\.\./my vectors', as seen from the project"):
        write_project(model_of(), tmp_path / "hls", vectors=tmp_path / "my vectors")


# --- what may be replaced ------------------------------------------------------------------------


def test_former_project_is_replaced(project: Project, tmp_path: Path) -> None:
    folder = copy_of(project, tmp_path)
    (folder / "build").mkdir()
    for name in ("bench", "inputs"):
        (folder / "build" / name).write_text("built")
    write_project(model_of("direct"), folder, level=0)
    assert json.loads((folder / "project.json").read_text())["digest"] == model_of("direct").digest
    assert not (folder / "build").exists()
    assert not (folder / "tb_data").exists()


def add_file(folder: Path) -> str:
    (folder / "kernel" / "mine.cpp").write_text("work")
    return "kernel/mine.cpp is no part of the former result there and would be lost"


def add_result(folder: Path) -> str:
    (folder / "vitis" / "solution").mkdir(parents=True)
    (folder / "vitis" / "solution" / "report.rpt").write_text("an hour of synthesis")
    return "vitis/solution/report.rpt is no part of the former result"


def edit_kernel(folder: Path) -> str:
    with (folder / "kernel" / "approx_rmsnorm.cpp").open("a") as file:
        file.write("// work\n")
    return "kernel/approx_rmsnorm.cpp was edited since it was written and would be lost"


def link_folder(folder: Path) -> str:
    (folder / "more").symlink_to(folder.parent)
    return "more is no part of the former result"


def link_file(folder: Path) -> str:
    target = (folder / "README.md").rename(folder.parent / "README.md")
    (folder / "README.md").symlink_to(target)
    return "README.md is a symbolic link"


def lose_listing(folder: Path) -> str:
    (folder / "project.json").unlink()
    return "holds no project.json of a former result"


def spoil_listing(folder: Path) -> str:
    (folder / "project.json").write_text("[" * 100_000)
    return "holds no project.json of a former result"


def another_listing(folder: Path) -> str:
    (folder / "project.json").write_text('{"format": "mine", "files": {}}')
    return "holds no project.json of a former result"


@pytest.mark.parametrize(
    "change",
    [
        add_file,
        add_result,
        edit_kernel,
        link_folder,
        link_file,
        lose_listing,
        spoil_listing,
        another_listing,
    ],
    ids=lambda f: f.__name__,
)
def test_somebodys_work_is_never_lost(
    change: Callable[[Path], str], project: Project, tmp_path: Path
) -> None:
    folder = copy_of(project, tmp_path)
    message = change(folder)
    before = everything(folder)
    with pytest.raises(ApproxNormError, match=re.escape(message)):
        write_project(model_of(), folder, level=0)
    assert everything(folder) == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(part="xc7 z020"), "part is 'xc7 z020'; allowed: a name as Vivado has it"),
        (dict(part="x}; exec rm"), "part is"),
        (dict(part=""), "part is ''"),
        (dict(clock_ns=0), "clock_ns is 0; allowed: a period of 0.1 to 1000 nanoseconds"),
        (dict(clock_ns=float("nan")), "clock_ns is nan"),
        (dict(clock_ns=True), "clock_ns is True"),
        (dict(lanes=0), "lanes is 0; allowed"),
        (dict(level=3), "level is 3; allowed"),
    ],
)
def test_arguments_are_refused_in_a_sentence(
    arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ApproxNormError, match=re.escape(message)):
        write_project(model_of(), tmp_path / "hls", **{"level": 0, **arguments})
    assert list(tmp_path.iterdir()) == []


def test_exact_yardstick_has_no_project(tmp_path: Path) -> None:
    model = model_of(rsqrt=dict(method="exact"))
    with pytest.raises(ApproxNormError, match="yardstick"):
        write_project(model, tmp_path / "hls")
    assert list(tmp_path.iterdir()) == []


# --- the command ---------------------------------------------------------------------------------


def test_command_writes_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "export hls int8-linear --dim 20 --out hls --level 0 --lanes 3 --clock 4 --json"
    command += " --top norm_1"
    assert main(command.split()) == 0
    done = json.loads(capsys.readouterr().out)
    listing = json.loads(Path("hls/project.json").read_text("ascii"))
    assert done["digest"] == listing["digest"]
    assert (done["lanes"], done["clock_ns"], done["scales"]) == (3, 4.0, "nominal")
    assert (done["top"], listing["top"]) == ("norm_1", "norm_1")
    assert "kernel/norm_1.cpp" in done["files"]
    assert done["files"] == list(listing["files"])


def test_command_names_a_bad_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "export hls int8-linear --dim 20 --out hls --part a.b"
    assert main(command.split()) == 2
    assert "part is 'a.b'; allowed: a name as Vivado has it" in capsys.readouterr().err
    assert not Path("hls").exists()


PAGE = Path(__file__).resolve().parent.parent / "docs" / "from-spec-to-vitis.md"


def without_counts(line: str) -> str:
    """A line without its numbers of rows and files, which hang on the level."""
    return re.sub(r"\b\d+ (rows of level \d|files$)", "", line)


def test_page_shows_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(default_activations(), "acts.npz")
    _, page = PAGE.read_text("utf-8").split("    $ approxnorm export hls ", 1)
    example = page.split("\n\n", 1)[0].replace("\\\n", " ")
    command, *shown = example.splitlines()
    assert main(["export", "hls", *command.split(), "--level", "0"]) == 0
    printed = capsys.readouterr().out.splitlines()
    expected = [line.removeprefix("    ") for line in shown]
    assert [without_counts(p) for p in printed] == [without_counts(e) for e in expected]
