"""Graphs of norms with a node or two changed at random: what is still found must still be one.

Most changed graphs are no norms any more. In the others, the norm as it is described, put in for
the nodes that it names, must give what the graph gives.
"""

import random

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_graphs import PARAMETERS, graph, replaced, rows, run
from test_onnx_norms import CASTS, INVERSE_PRODUCTS, INVERSES, MEAN, SCALINGS, STATISTICS

from approxnorm.export.norms import find_norms

BODIES = [
    *(f"{MEAN} {scaling}" for scaling in SCALINGS),
    *(f"{statistic} {INVERSES[0]} {INVERSE_PRODUCTS[0]}" for statistic in STATISTICS),
    *CASTS.values(),
]
FLOATS = [name for name, value in PARAMETERS.items() if value.dtype == np.float32]
AXES = ["last", "third", "second", "all_but_first"]
LIKE = [
    ["Add", "Mul", "Sub", "Div", "Max"],
    ["Sqrt", "Reciprocal", "Neg", "Abs", "Exp"],
    ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceSumSquare"],
]
CHANGES = 150


def changed(rng: random.Random) -> onnx.ModelProto:
    """One of the graphs with one or two nodes of another kind, or with another input."""
    model = graph(rng.choice(BODIES))
    for _ in range(rng.choice([1, 1, 2])):
        place = rng.randrange(len(model.graph.node))
        node = model.graph.node[place]
        kinds = [kinds for kinds in LIKE if node.op_type in kinds]
        if kinds and rng.random() < 0.3:
            node.op_type = rng.choice(kinds[0])
            continue
        index = rng.randrange(len(node.input))
        before = [name for each in model.graph.node[:place] for name in each.output]
        axes = node.input[index] in AXES
        node.input[index] = rng.choice(AXES if axes else ["x", *FLOATS, *before])
    add_parameters(model)
    return model


def add_parameters(model: onnx.ModelProto) -> None:
    """Parameters that are read since the change."""
    there = {tensor.name for tensor in model.graph.initializer}
    read = {name for node in model.graph.node for name in node.input}
    for name in sorted((read & PARAMETERS.keys()) - there):
        model.graph.initializer.append(numpy_helper.from_array(PARAMETERS[name], name))


def outputs(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray] | None:
    """The outputs; None if the change made a graph that does not run."""
    try:
        return run(model, {"x": x})
    except Exception as error:  # ONNX Runtime's own classes have no common base
        assert type(error).__module__.startswith("onnxruntime")
        return None


@pytest.mark.parametrize("seed", range(4))
def test_what_is_found_in_a_changed_graph_is_a_norm(seed: int) -> None:
    rng = random.Random(seed)
    x = rows(3, 4, seed=seed) + np.float32(0.01)
    compared = 0
    for _ in range(CHANGES):
        model = changed(rng)
        findings = find_norms(model)
        if not findings.norms or (wanted := outputs(model, x)) is None:
            continue
        (got,), (same,) = run(replaced(model, findings), {"x": x}), wanted
        largest = np.max(np.abs(same), where=np.isfinite(same), initial=0)
        np.testing.assert_allclose(got, same, rtol=1e-4, atol=1e-5 * largest)
        compared += 1
    assert compared > CHANGES / 10
