"""The documents are true: their code runs, their links lead somewhere, the README is short."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_pins import pinned_model, pinned_rows
from random_specs import random_spec

from approxnorm import RMSNormSpec
from approxnorm.rmsnorm import Assembly, assemble
from approxnorm.spec import load_spec, preset_names

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text("utf-8"), re.S | re.M)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code, layers = blocks(ROOT / "README.md", "python")
    exec(compile(code, "README.md", "exec", dont_inherit=True), {})
    exec(compile(layers, "README.md", "exec", dont_inherit=True), {})
    printed = capsys.readouterr().out
    decibels = re.search(r"([\d.]+) dB against fp32", printed)
    assert decibels is not None and float(decibels[1]) > 40


def test_onnx_examples_run() -> None:
    names: dict[str, Any] = {}
    found = blocks(ROOT / "docs" / "onnx.md", "python")
    assert len(found) == 2
    for code in found:
        exec(compile(code, "onnx.md", "exec", dont_inherit=True), names)


def test_brevitas_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    found = blocks(ROOT / "docs" / "brevitas.md", "python")
    assert len(found) == 6
    for code in found:
        exec(compile(code, "brevitas.md", "exec", dont_inherit=True), names)
    layers = [m for m in names["model"].modules() if type(m).__name__ == "QuantRMSNorm"]
    assert len(layers) == 5 and all(layer.is_calibrated for layer in layers)
    assert names["worst"]["sqnr_db"] > 30


def test_readme_spec_loads(tmp_path: Path) -> None:
    (text,) = blocks(ROOT / "README.md", "toml")
    path = tmp_path / "spec.toml"
    path.write_text(text, "utf-8")
    assert load_spec(path).dim == 576


# --- the guide to a new method: its files, dropped into a copy of the package -------------------

SPEC = """
norm = "rmsnorm"
dim = 64
eps = 1e-5
x = "ap_fixed<12,4>"
gamma = "ap_fixed<8,2>"
y = "ap_fixed<12,5,RND_CONV,SAT>"
[statistic]
method = "peak"
bias = "calibrate"
[rsqrt]
method = "two_lines"
[normalize]
method = "multiply"
constant = "multiplier"
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and, in their places, the two files of the guide."""
    folder = tmp_path_factory.mktemp("site")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "approxnorm", folder / "approxnorm", ignore=ignored)
    methods = folder / "approxnorm" / "methods"
    two_lines, peak = blocks(ROOT / "docs" / "adding-a-method.md", "python")
    (methods / "rsqrt" / "two_lines.py").write_text(two_lines, "utf-8")
    (methods / "statistic" / "peak.py").write_text(peak, "utf-8")
    return folder


def command(folder: Path, *arguments: str) -> Any:
    """What the command line of the package in ``folder`` prints with --json."""
    code = "import sys; from approxnorm.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_rsqrt_method_of_the_guide_works_from_the_command_line(extended: Path) -> None:
    found = command(extended, "rsqrt", "two_lines", "bits=12")
    # A single line over an octave cannot be better than about 1 %; this one is near that.
    assert 0.01 < found["max_rel"] < 0.03
    assert found["table_bits"] == 0


def test_statistic_of_the_guide_works_from_the_command_line(extended: Path) -> None:
    (extended / "spec.toml").write_text(SPEC, "utf-8")
    rng = np.random.default_rng(1)
    np.save(extended / "x.npy", rng.standard_normal((200, 64)).astype(np.float32))
    (layer,) = command(extended, "error", "spec.toml", "--input", "x.npy")["layers"]
    assert layer["spec"]["statistic"]["method"] == "peak"
    # The largest of 64 normal numbers is about 2.4 standard deviations, give or take a fifth.
    assert 1 / 2.8**2 < layer["spec"]["statistic"]["bias"] < 1 / 2.1**2
    assert 10 < layer["against_exact"]["sqnr_db"] < 20
    assert "statistic's own" in layer["bound"]["text"]


def named_signals(assembly: Assembly) -> set[tuple[str, str]]:
    """(name, level); the k largest of a row count as one name."""
    signals = (assembly.datapath or assembly.front).signals()
    return {(re.sub(r"_\d+$", "_i", port.name), port.level) for port in signals}


@pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")
def test_datapath_lists_every_named_signal_and_no_other() -> None:
    specs = [pinned_model(name).assembly.spec for name in preset_names()]
    specs += [RMSNormSpec(**random_spec(seed)) for seed in range(200)]
    found = set().union(*(named_signals(assemble(spec)) for spec in specs))
    text = (ROOT / "docs" / "datapath.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (element|channel|row) \|", text, re.M)
    assert len(rows) == len(set(rows))
    assert set(rows) == found


@pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")
@pytest.mark.parametrize("name", preset_names())
def test_trace_has_the_listed_signals(name: str) -> None:
    model = pinned_model(name)
    _, trace = model(pinned_rows(model)[:2], trace=True)
    listed = {port.name for port in (model.assembly.datapath or model.assembly.front).signals()}
    assert set(trace) == listed | {"y"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", document.read_text("utf-8")):
        if link.startswith("http"):
            continue
        target = document.parent / link if link else document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), f"{link}#{anchor}"


def anchors(document: Path) -> set[str]:
    """What headings are called in links: lower case, hyphens for spaces, no other signs."""
    headings = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_readme_names_presets_that_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for name in re.findall(r"(?:preset\(\"|show |run )([a-z0-9-]+\d[a-z0-9-]*)", text):
        assert name in preset_names()
