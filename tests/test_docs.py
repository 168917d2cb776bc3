"""The documents are true: their code runs, their links lead somewhere, the README is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from approxnorm.methods.function import RSQRT_METHODS
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text("utf-8")):
        if not link.startswith("http"):
            assert (document.parent / link).exists(), link


def test_readme_names_presets_that_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for name in re.findall(r"(?:preset\(\"|show |run )([a-z0-9-]+\d[a-z0-9-]*)", text):
        assert name in preset_names()
