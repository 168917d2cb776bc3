"""Finding RMSNorms in models that torch exported; benchmarks/onnx_zoo.py has every combination."""

from collections import Counter

import pytest
import torch
from onnx_zoo import all_norms, assert_norms_of_torch, export, export_by_torchscript, fused

from approxnorm.export.norms import find_norms

CASES = [
    ("fracast", 18, False),
    ("fracast", 20, False),
    ("fracast", 23, False),
    ("Llama", 18, False),
    ("Llama", 20, True),
    ("Mistral", 23, False),
    ("Qwen3", 20, False),
    ("Qwen3", 23, False),
    ("Gemma", 18, False),
    ("Gemma", 23, False),
    ("Gemma2", 20, False),
    ("Gemma3", 18, False),
    ("T5", 18, False),
    ("T5", 23, False),
]


@pytest.mark.parametrize(("name", "opset", "dynamic"), CASES)
def test_every_norm_is_found(name: str, opset: int, dynamic: bool) -> None:
    exported = export(name, opset, dynamic=dynamic)
    norms = all_norms(exported)
    assert_norms_of_torch(exported, norms)
    kind = "RMSNormalization" if opset >= 23 else "decomposed"
    assert {norm.kind for norm in norms} == {kind}


def test_the_older_exporter() -> None:
    exported = export_by_torchscript("T5", 13)
    assert_norms_of_torch(exported, all_norms(exported))


@pytest.mark.parametrize("name", ["Llama", "Gemma"])
def test_fused_norms_with_their_residual_sums(name: str) -> None:
    exported = fused(export(name, 18))
    norms = all_norms(exported)
    assert Counter(norm.kind for norm in norms) == {
        "SimplifiedLayerNormalization": 1,
        "SkipSimplifiedLayerNormalization": 4,
    }
    wanted = [norm.gamma.tobytes() for norm in exported.norms.values()]
    assert sorted(norm.gamma.tobytes() for norm in norms) == sorted(wanted)


@pytest.mark.parametrize(("name", "opset"), [("Llama", 18), ("Gemma", 20), ("Llama", 23)])
def test_norms_in_half_precision_are_listed(name: str, opset: int) -> None:
    exported = export(name, opset, dtype=torch.float16)
    findings = find_norms(exported.model)
    assert findings.norms == ()
    assert {each.name for each in findings.unrecognised} == exported.norms.keys()
    assert {each.reason for each in findings.unrecognised} == {"it is in float16, not in float32"}
