"""examples/qat.py, tiny: three models of equal steps, and what its table says of them."""

from __future__ import annotations

import copy
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from brevitas.quant_tensor import IntQuantTensor

from approxnorm.nn import QuantRMSNorm, calibrate, replace_norms
from approxnorm.spec import load_spec

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def qat() -> ModuleType:
    spec = importlib.util.spec_from_file_location("qat_example", EXAMPLES / "qat.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_tiny_run(
    qat: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[bool] = []  # of every step of training, whether the norms were a hardware's
    step = qat.Training._step

    def counted(training: Any, optimizer: torch.optim.Optimizer) -> None:
        steps.append(bool(training.calibration))
        step(training, optimizer)

    monkeypatch.setattr(qat.Training, "_step", counted)
    files = [str(EXAMPLES / f"{name}.toml") for name in ("statistic-1bit", "root-shift")]
    result = qat.main(["--quick", "--seeds", "2", "--specs", "int8-linear", *files])
    assert (steps.count(False), steps.count(True)) == (2 * (24 + 36), 2 * 3 * 36)
    names = ["int8-linear", "statistic-1bit", "root-shift"]
    assert list(result.replaced) == list(result.trained) == names
    commonest = 100 * float(torch.bincount(qat.Corpus.help_topics().test).max())
    commonest /= len(qat.Corpus.help_topics().test)
    for accuracies in (result.fp32, *result.replaced.values(), *result.trained.values()):
        assert len(accuracies) == 2 and min(accuracies) > commonest + 2
    printed = capsys.readouterr().out
    assert printed.endswith(f"{result.table()}\n") and len(result.table().splitlines()) == 9


def test_table_says_what_lies_within_the_spread(qat: ModuleType) -> None:
    result = qat.Result([60.0, 60.5, 61.0], {"a": [59.4, 59.5, 59.3]}, {"a": [60.0, 60.1, 60.2]})
    assert result.spread == 1.0 and not result.within_spread(result.replaced["a"])
    lines = result.table().splitlines()
    assert lines[2] == "| fp32 | 60.00 | 60.50 | 61.00 | 60.50 |  | (spread 1.00) |"
    assert lines[3] == "| a, replaced | 59.40 | 59.50 | 59.30 | 59.40 | -1.10 | no |"
    assert lines[4] == "| a, trained | 60.00 | 60.10 | 60.20 | 60.10 | -0.40 | yes |"


def test_corpus_keeps_the_test_text_apart(qat: ModuleType) -> None:
    corpus = qat.Corpus.help_topics()
    assert len(corpus.train) > 8 * len(corpus.test) > 200_000
    inputs, wanted = next(corpus.batches(torch.Generator().manual_seed(0)))
    assert inputs.shape == wanted.shape == (qat.BATCH, qat.CONTEXT)
    assert torch.equal(inputs[:, 1:], wanted[:, :-1])


def test_training_follows_the_activations_and_keeps_the_bits(qat: ModuleType) -> None:
    """What is trained has new scales, and every norm still equals its NumPy model."""
    corpus = qat.Corpus.help_topics()
    torch.manual_seed(0)
    model = qat.CharacterModel(corpus.characters, 32, 1)
    replace_norms(model, load_spec(EXAMPLES / "statistic-1bit.toml"))
    batches = corpus.batches(torch.Generator().manual_seed(0))
    calibration = [next(batches)[0][:4]]
    calibrate(model, calibration, progress=False)
    before = copy.deepcopy(model.state_dict())
    qat.Training(model, batches, calibration).run(4, 1e-2, 0)
    norms = {n: m for n, m in model.named_modules() if isinstance(m, QuantRMSNorm)}
    assert len(norms) == 3
    seen: dict[str, tuple[torch.Tensor, IntQuantTensor]] = {}
    for name, norm in norms.items():
        norm.return_quant_tensor = True
        assert not torch.equal(before[f"{name}.weight"], norm.weight)
        norm.register_forward_hook(lambda m, x, y, name=name: seen.update({name: (x[0], y)}))
    model.blocks[0](torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0)))
    assert set(seen) == {"blocks.0.attention_norm", "blocks.0.mlp_norm"}
    for name, (x, y) in seen.items():
        numpy_model = norms[name].model()
        want = numpy_model(numpy_model.quantize(x.detach().numpy()))
        np.testing.assert_array_equal(y.int().detach().numpy(), want)


def test_wrong_numbers_are_told(qat: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        qat.main(["--seeds", "0"])
    assert "--seeds must be at least 1" in capsys.readouterr().err


def test_code_of_its_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/qat.md").read_text(), re.S | re.M)
    exec(compile(code, "qat.md", "exec", dont_inherit=True), {})
    assert "[-1,  0,  1]" in capsys.readouterr().out
