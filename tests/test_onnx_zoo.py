"""Finding RMSNorms in models that torch exported; benchmarks/onnx_zoo.py has every combination."""

from collections import Counter

import numpy as np
import pytest
from onnx_graphs import largest_difference, replaced, run
from onnx_zoo import Exported, export

from approxnorm.export.norms import Norm, find_norms

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


def assert_norms_of_torch(exported: Exported, norms: tuple[Norm, ...]) -> None:
    """Each call of each norm is there, under its module's name, with its own gamma and eps."""
    found: Counter[str] = Counter()
    for norm in norms:
        # A norm that is called again has a number behind its name.
        name = norm.name if norm.name in exported.norms else norm.name.rpartition("_")[0]
        found[name] += 1
        np.testing.assert_array_equal(norm.gamma, exported.norms[name].gamma)
        assert norm.eps == float(str(np.float32(exported.norms[name].eps)))
    assert found == {name: norm.calls for name, norm in exported.norms.items()}


@pytest.mark.parametrize(("name", "opset", "dynamic"), CASES)
def test_every_norm_is_found(name: str, opset: int, dynamic: bool) -> None:
    exported = export(name, opset, dynamic=dynamic)
    before = exported.model.SerializeToString()
    findings = find_norms(exported.model)
    assert exported.model.SerializeToString() == before
    assert findings.unrecognised == ()
    assert findings.layernorms == 0
    assert_norms_of_torch(exported, findings.norms)
    assert {norm.kind for norm in findings.norms} == {
        "RMSNormalization" if opset >= 23 else "decomposed"
    }
    new = run(replaced(exported.model, findings), exported.inputs)
    assert largest_difference(new, run(exported.model, exported.inputs)) < 1e-5
