"""What is installed, what an import costs, and which way the dependencies point."""

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Folder in the repository, and the name it is installed by.
FOLDERS = {
    "approxnorm": "approxnorm",
    "export": "approxnorm.export",
    "hls_ref": "approxnorm.hls_ref",
}

# Innermost first: a part may import what stands in an earlier row and itself, nothing else.
# `approxnorm` alone is the package's own __init__, the public face of all that stands before it.
LAYERS = [
    ["errors", "version"],
    ["formats", "output"],
    ["tables"],
    ["program"],
    ["backends"],
    ["methods"],
    ["spec"],
    ["rmsnorm"],
    ["yardstick"],
    ["model"],
    ["residual"],
    ["inputs", "reference"],
    ["calibrate", "metrics"],
    ["layer_model"],
    ["vectors", "report"],
    ["export", "hls_ref"],
    ["nn", "conformance"],
    ["run"],
    ["approxnorm"],
    ["cli"],
    ["__main__"],
]
RANK = {part: rank for rank, row in enumerate(LAYERS) for part in row}

HEAVY = ["torch", "onnx", "onnxruntime", "onnxscript", "onnx_ir", "qonnx", "numba"]
HEAVY += ["matplotlib", "typer", "rich", "safetensors", "jinja2"]


def run(*arguments: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run this Python with the arguments; path, if given, is where it finds packages first."""
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )


def source_files(folder: str) -> Iterator[Path]:
    """Every file of a source folder that is meant to be installed, relative to it."""
    for file in sorted((ROOT / folder).rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file.relative_to(ROOT / folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy of the source without the network."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ["pyproject.toml", "setup.py", "README.md", "LICENSE"]:
        shutil.copy(ROOT / name, copy)
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    build = f"import setuptools.build_meta as b; b.build_wheel({str(out)!r})"
    done = run("-c", build, cwd=copy)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel unpacked in it, as site-packages would have it."""
    folder = tmp_path_factory.mktemp("site")
    wheel.extractall(folder)
    return folder


def test_wheel_holds_every_source_file_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    expected = {
        (Path(*name.split(".")) / file).as_posix()
        for folder, name in FOLDERS.items()
        for file in source_files(folder)
    }
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "approxnorm/__init__.py",
        "approxnorm/py.typed",
        "approxnorm/cli/__init__.py",
        "approxnorm/data/*.npz",
        "approxnorm/spec/presets/*.toml",
        "approxnorm/report/templates/*.html",
        "approxnorm/export/__init__.py",
        "approxnorm/hls_ref/__init__.py",
        "approxnorm-*.dist-info/licenses/LICENSE",
        "approxnorm-*.dist-info/entry_points.txt",
    ],
)
def test_wheel_has(wheel: zipfile.ZipFile, pattern: str) -> None:
    assert any(Path(name).match(pattern) for name in wheel.namelist())


def test_command_is_the_one_of_the_command_line(wheel: zipfile.ZipFile) -> None:
    name = next(n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    assert "approxnorm = approxnorm.cli:main" in wheel.read(name).decode().splitlines()


def test_both_outer_folders_import_from_the_wheel(installed: Path) -> None:
    code = "from approxnorm import export, hls_ref; print(export.__file__, hls_ref.__file__)"
    done = run("-c", code, cwd=installed, path=installed)
    assert done.returncode == 0, done.stderr
    expected = [str(installed / "approxnorm" / f / "__init__.py") for f in ["export", "hls_ref"]]
    assert done.stdout.split() == expected


@pytest.mark.parametrize("folder", ["export", "hls_ref"])
def test_outer_folder_refuses_its_plain_name(folder: str) -> None:
    done = run("-c", f"import {folder}", cwd=ROOT)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f"imported as approxnorm.{folder}, not as {folder}: install the package" in last


def test_import_needs_numpy_and_pydantic_only(installed: Path) -> None:
    code = "import sys, approxnorm; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = run("-W", "error", "-c", code, cwd=installed, path=installed)
    assert done.returncode == 0, done.stderr
    assert set(HEAVY) & set(done.stdout.split()) == set()


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for folder, name in FOLDERS.items():
        for file in source_files(folder):
            if file.suffix == ".py":
                inner = [part for part in file.with_suffix("").parts if part != "__init__"]
                found[".".join([name, *inner])] = ROOT / folder / file
    return found


def part_of(module: str) -> str:
    """`approxnorm.tables.minimax` belongs to `tables`; `approxnorm` itself to `approxnorm`."""
    return module.split(".")[min(1, module.count("."))]


def imported(module: str, file: Path, known: dict[str, Path]) -> Iterator[str]:
    """Modules of the package that a module imports anywhere, inside its functions too."""
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            up = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            inner = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in known else base for name in inner]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "approxnorm")


def test_every_part_has_a_layer() -> None:
    assert {part_of(module) for module in modules()} - set(RANK) == set()


def test_dependencies_point_inward() -> None:
    known = modules()
    wrong = [
        f"{module} imports {target}"
        for module, file in known.items()
        for target in imported(module, file, known)
        if part_of(target) != part_of(module) and RANK[part_of(target)] >= RANK[part_of(module)]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("import approxnorm.cli", "approxnorm.model", ["approxnorm.cli"]),
        (
            "from approxnorm import cli, __version__",
            "approxnorm.model",
            ["approxnorm.cli", "approxnorm"],
        ),
        ("from .cli import main", "approxnorm.model", ["approxnorm.cli"]),
        ("def f():\n    from .. import cli", "approxnorm.spec.toml", ["approxnorm.cli"]),
        ("import numpy.random\nfrom numpy import array", "approxnorm.model", []),
    ],
)
def test_imports_are_seen(source: str, name: str, expected: list[str], tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(source, encoding="utf-8")
    assert list(imported(name, file, {"approxnorm.cli": file})) == expected
