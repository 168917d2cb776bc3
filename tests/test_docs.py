"""The documents are true: their code runs, their links lead somewhere, the README is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from golden_pins import pinned_model, pinned_rows
from random_specs import random_spec

from approxnorm import RMSNormSpec
from approxnorm.methods.function import RSQRT_METHODS
from approxnorm.rmsnorm import Assembly, assemble
from approxnorm.spec import load_spec, preset_names

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text("utf-8"), re.S | re.M)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(ROOT / "README.md", "python")
    exec(compile(code, "README.md", "exec", dont_inherit=True), {})
    printed = capsys.readouterr().out
    decibels = re.search(r"([\d.]+) dB against fp32", printed)
    assert decibels is not None and float(decibels[1]) > 40


def test_readme_spec_loads(tmp_path: Path) -> None:
    (text,) = blocks(ROOT / "README.md", "toml")
    path = tmp_path / "spec.toml"
    path.write_text(text, "utf-8")
    assert load_spec(path).dim == 576


def test_method_of_the_guide_works() -> None:
    code = blocks(ROOT / "docs" / "adding-a-method.md", "python")[0]
    scope: dict[str, object] = {"__name__": "two_lines_of_the_guide"}
    exec(compile(code, "adding-a-method.md", "exec", dont_inherit=True), scope)
    try:
        method = RSQRT_METHODS.parse({"method": "two_lines", "bits": 12}).resolved()
        # A single line over an octave cannot be better than about 1 %; this one is near that.
        assert 0.01 < method.error().max_error < 0.03
        assert method.table_bits() == 0
    finally:
        RSQRT_METHODS.remove("two_lines")


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
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text("utf-8")):
        if not link.startswith("http"):
            assert (document.parent / link).exists(), link


def test_readme_names_presets_that_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for name in re.findall(r"(?:preset\(\"|show |run )([a-z0-9-]+\d[a-z0-9-]*)", text):
        assert name in preset_names()
