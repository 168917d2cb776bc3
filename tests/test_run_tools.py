"""What a run does by itself, by what the machine has; what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from approxnorm import ApproxNormError
from approxnorm.run import tools
from approxnorm.run.tools import Choice, choose, require

FOUND = {"csim": None, "onnx": None, "runtime": None}
HLS, FILES = "HLS projects (--hls)", "ONNX files (--onnx)"
CPP, ORT = "the check of cpp (--check)", "the check of onnx (--check)"


@pytest.mark.parametrize(
    ("missing", "asked", "expected"),
    [
        ((), (None, None, None), Choice(True, True, ("numpy", "cpp", "onnx"), ())),
        ((), (False, False, False), Choice(False, False, (), ())),
        ((), (None, False, True), Choice(True, False, ("numpy", "cpp"), ())),
        (
            ("csim",),
            (None, None, None),
            Choice(False, True, ("numpy", "onnx"), (f"{HLS} and {CPP}; no csim",)),
        ),
        (
            ("csim",),
            (True, None, None),
            Choice(True, True, ("numpy", "onnx"), (f"{CPP}; no csim",)),
        ),
        (("csim",), (None, None, False), Choice(False, True, (), (f"{HLS}; no csim",))),
        (("csim",), (False, None, True), Choice(False, True, ("numpy", "cpp", "onnx"), ())),
        (
            ("onnx", "runtime"),
            (None, None, None),
            Choice(True, False, ("numpy", "cpp"), (f"{FILES} and {ORT}; no onnx",)),
        ),
        (("onnx",), (None, None, False), Choice(True, False, (), (f"{FILES}; no onnx",))),
        (("onnx",), (None, False, None), Choice(True, False, ("numpy", "cpp"), ())),
        (("onnx",), (None, None, True), Choice(True, True, ("numpy", "cpp", "onnx"), ())),
        (
            ("runtime",),
            (None, None, None),
            Choice(True, True, ("numpy", "cpp"), (f"{ORT}; no runtime",)),
        ),
        (("runtime",), (None, False, None), Choice(True, False, ("numpy", "cpp"), ())),
        (
            ("csim", "onnx", "runtime"),
            (None, None, None),
            Choice(
                False,
                False,
                ("numpy",),
                (f"{HLS} and {CPP}; no csim", f"{FILES} and {ORT}; no onnx"),
            ),
        ),
    ],
)
def test_what_is_not_asked_for_is_what_can_be_done(
    monkeypatch: pytest.MonkeyPatch,
    missing: tuple[str, ...],
    asked: tuple[bool | None, bool | None, bool | None],
    expected: Choice,
) -> None:
    for name in FOUND:
        told = f"no {name}" if name in missing else None
        monkeypatch.setattr(tools, f"missing_{name}", lambda told=told: told)
    assert choose(*asked) == expected


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """As if these were not installed."""
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)


def test_missing_packages_are_told_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tools.missing_onnx() is None and tools.missing_runtime() is None
    without(monkeypatch, "onnx", "onnxruntime")
    for told, name in ((tools.missing_onnx(), "onnx"), (tools.missing_runtime(), "onnxruntime")):
        assert told is not None
        assert f"the package {name}, which cannot be imported" in told
        assert told.endswith("pip install 'approxnorm[onnx]'")


def test_what_was_asked_for_and_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApproxNormError, match="compares the ONNX files that the run writes"):
        require(onnx=False, backends=("onnx",))
    without(monkeypatch, "onnxruntime")
    require(onnx=True, backends=("numpy",))
    with pytest.raises(ApproxNormError, match=r"ONNX Runtime needs .* leave ONNX out \(--no-onnx"):
        require(onnx=True, backends=("onnx",))
    without(monkeypatch, "onnx")
    require(onnx=False, backends=("numpy",))
    with pytest.raises(ApproxNormError, match=r"ONNX files need .* leave ONNX out \(--no-onnx"):
        require(onnx=True, backends=())


WITHOUT_ONNX = """
import sys
for name in ("onnx", "onnxruntime", "onnxscript", "onnx_ir", "qonnx", "torch"):
    sys.modules[name] = None  # importing it is an ImportError
from approxnorm.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run_without_onnx(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    np.save(folder / "x.npy", np.linspace(-1, 1, 48, dtype=np.float32).reshape(2, 24))
    command = ["run", "int16-accurate", "--input", "x.npy", "--out", "r", "--level", "0"]
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_ONNX, *command, "--no-hls", *options],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def layer_files(folder: Path) -> set[str]:
    return {p.name for p in (folder / "r" / "x").iterdir()}


def test_run_works_without_onnx_and_says_so(tmp_path: Path) -> None:
    done = run_without_onnx(tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Left out")]
    assert f"{FILES} and {ORT}; ONNX files need the package onnx" in line
    assert layer_files(tmp_path) == {"errors.json", "spec.json", "vectors", "vectors-input"}


@pytest.mark.parametrize("option", ["--onnx", "--check"])
def test_run_refuses_onnx_that_is_asked_for_and_missing(tmp_path: Path, option: str) -> None:
    done = run_without_onnx(tmp_path, option)
    assert done.returncode == 2
    assert "ONNX files need the package onnx" in done.stderr
    assert "pip install 'approxnorm[onnx]'" in done.stderr
    assert not (tmp_path / "r").exists()


def test_a_layer_without_anything_optional(tmp_path: Path) -> None:
    done: Any = run_without_onnx(tmp_path, "--no-onnx", "--no-check", "--json")
    assert done.returncode == 0, done.stderr
    assert '"left_out": []' in done.stdout
