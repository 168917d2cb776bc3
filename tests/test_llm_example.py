"""examples/llm_perplexity.py on a small random Llama and tokens made of letters: no download."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from approxnorm import preset
from approxnorm.nn import QuantRMSNorm

ROOT = Path(__file__).resolve().parents[1]
VOCABULARY = 97


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = ROOT / "examples" / "llm_perplexity.py"
    found = importlib.util.spec_from_file_location("llm_perplexity", path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["llm_perplexity"] = module  # where dataclasses look for the module's names
    found.loader.exec_module(module)
    return module


def letters(text: str) -> Any:
    return SimpleNamespace(input_ids=[ord(letter) % VOCABULARY for letter in text])


@pytest.fixture
def judge(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A judge of a small model, and short sequences."""
    monkeypatch.setattr(example, "TOKENS", 24)
    monkeypatch.setattr(example, "PIECE", 8)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64}
    more: dict[str, Any] = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "initializer_range": 0.3,
    }
    config = LlamaConfig(**sizes, **more)
    made = example.Judge.__new__(example.Judge)
    made.model, made._tokenizer = LlamaForCausalLM(config).eval(), letters
    return made


def options(example: ModuleType, out: Path, *more: str) -> Any:
    words = ["--specs", "int16-accurate,int8-linear", "--sequences", "2", "--out", str(out)]
    return example.parse([*words, *more])


def test_every_norm_is_measured_against_the_float_model(
    example: ModuleType, judge: Any, tmp_path: Path
) -> None:
    rows = example.measure(options(example, tmp_path / "r.json"), judge)
    assert [(r.name, r.text, r.sequence) for r in rows] == [
        (name, text, i)
        for name in ("int16-accurate", "int8-linear")
        for text in ("licence", "topics")
        for i in range(2)
    ]
    ids = torch.tensor(letters(example.licence_text()).input_ids[24:48])
    with torch.no_grad():
        logits = judge.model(input_ids=ids[None]).logits[0]
    truth = torch.nn.functional.cross_entropy(logits[:-1].double(), ids[1:]).item()
    assert math.isclose(rows[1].nll_float, truth, rel_tol=1e-6)
    assert all(0 < row.kl < 1 and row.nll != row.nll_float for row in rows)
    fine, coarse = (sum(r.kl for r in rows[at : at + 4]) for at in (0, 4))
    assert fine * 10 < coarse


def test_the_copy_has_integer_norms_and_the_models_own_weights(
    example: ModuleType, judge: Any
) -> None:
    pieces = judge.sequences(example.calibration_text(), 4, 8, "calibration")
    twin = judge.with_spec(preset("int16-accurate"), pieces)
    norms = [m for m in twin.modules() if isinstance(m, QuantRMSNorm)]
    assert len(norms) == 5 and all(norm.is_calibrated for norm in norms)
    assert not any(isinstance(m, QuantRMSNorm) for m in judge.model.modules())
    assert twin.model.norm.weight is judge.model.model.norm.weight


def test_a_stopped_run_goes_on(
    example: ModuleType, judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = example.measure(options(example, tmp_path / "whole.json", "--texts", "topics"), judge)
    compared = example.compared
    calls: list[str] = []

    def until(limit: int) -> Any:
        def one(*arguments: Any) -> Any:
            if len(calls) == limit:
                raise KeyboardInterrupt
            calls.append(arguments[2])
            return compared(*arguments)

        return one

    asked = options(example, tmp_path / "r.json", "--texts", "topics")
    monkeypatch.setattr(example, "compared", until(3))
    with pytest.raises(KeyboardInterrupt):
        example.measure(asked, judge)
    assert example.read_results(asked.out) == whole[:3]
    monkeypatch.setattr(example, "compared", until(-1))
    assert example.measure(asked, judge) == whole
    assert len(calls) == len(whole)  # none of them twice
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_what_was_measured_with_other_numbers_is_measured_again(
    example: ModuleType, judge: Any, tmp_path: Path
) -> None:
    def keys(*more: str) -> set[Any]:
        return {r.key for r in example.measure(options(example, tmp_path / "r.json", *more), judge)}

    assert not keys() & keys("--calibration", "5")
    assert len(example.read_results(tmp_path / "r.json")) == 16
    assert keys("--specs", "int8-linear") < keys()
    assert len(example.read_results(tmp_path / "r.json")) == 16


def test_a_spec_counts_by_its_fields_not_by_its_description(example: ModuleType) -> None:
    spec = preset("int8-linear")
    assert example.spec_sha(spec.replace(description="another")) == example.spec_sha(spec)
    assert example.spec_sha(spec.replace(eps=1e-6)) != example.spec_sha(spec)


def measured(example: ModuleType, name: str, sequence: int, nll: float, kl: float) -> Any:
    return example.Measured(name, "s", "c", "0", "topics", sequence, "i", math.log(8), nll, kl)


def test_the_table(example: ModuleType) -> None:
    rows = [
        measured(example, "one", 0, math.log(4), 1e-3),
        measured(example, "one", 1, math.log(16.16), 3e-3),
        measured(example, "two", 0, math.log(8), 5e-4),
    ]
    s = example.summarise(rows[:2])
    assert math.isclose(s.ppl_float, 8) and math.isclose(s.ppl, math.sqrt(4 * 16.16))
    assert math.isclose(s.kl_std, math.sqrt(2) * 1e-3) and s.kl_max == 3e-3
    assert example.table(rows).splitlines()[2:] == [
        "| one | topics | 2 | 8.000 | 8.040 | +0.50 % | 2.0e-03 | 1.4e-03 | 3.0e-03 |",
        "| two | topics | 1 | 8.000 | 8.000 | +0.00 % | 5.0e-04 | 0.0e+00 | 5.0e-04 |",
    ]


def test_divergence_and_likelihood(example: ModuleType) -> None:
    before = torch.tensor([[0.5, 0.5], [0.25, 0.75]]).log()
    after = torch.tensor([[0.25, 0.75], [0.25, 0.75]]).log()
    first = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert math.isclose(example.divergence(before, after), first / 2, rel_tol=1e-6)
    assert example.divergence(before, before) == 0
    nll = example.negative_log_likelihood(after, np.array([1, 0]))
    assert math.isclose(nll, math.log(4), rel_tol=1e-6)


def test_texts(example: ModuleType) -> None:
    texts = {name: make() for name, make in example.TEXTS.items()}
    assert "Apache License" in texts["licence"] and example.GPL_TITLE in texts["licence"]
    calibration = example.calibration_text()
    pieces = [calibration[at : at + 400] for at in range(0, len(calibration) - 400, 400)]
    assert len(pieces) > 100 and not any(p in t for p in pieces for t in texts.values())


def test_the_gpl_is_found_among_torchs_licences(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(example, "GPL", tmp_path / "none")
    other, own = tmp_path / "a" / "LICENSE", tmp_path / "b" / "LICENSE"
    for file, text in ((other, "MIT\n"), (own, f"All here:\n\n{example.GPL_TITLE}, 29 June 2007")):
        file.parent.mkdir()
        file.write_text(text, "utf-8")
    monkeypatch.setattr(example.importlib.metadata, "files", lambda name: [other, own])
    assert example.gpl_text() == f"{example.GPL_TITLE}, 29 June 2007\n"
    monkeypatch.setattr(example.importlib.metadata, "files", lambda name: [other])
    with pytest.raises(SystemExit, match="--texts topics"):
        example.gpl_text()


def test_bad_input_is_told(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="a text has 5 tokens; allowed: at most 2 sequences of 2"):
        example.cut(range(5), 3, 2, "a text")
    assert example.cut(range(5), 2, 2, "a text").tolist() == [[0, 1], [2, 3]]
    for content in ("{", "[]", json.dumps({"measured": [{"name": 1}]})):
        (tmp_path / "other.json").write_text(content, "utf-8")
        with pytest.raises(SystemExit, match=r"other\.json holds no results"):
            example.read_results(tmp_path / "other.json")
    for words in (["--texts", "novel"], ["--sequences", "0"], ["--calibration", "0"]):
        with pytest.raises(SystemExit):
            example.parse(words)
        assert "--texts allows licence, topics" in capsys.readouterr().err
