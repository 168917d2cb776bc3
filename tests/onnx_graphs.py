"""Small ONNX graphs written by hand, and what finding norms in them must mean."""

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import helper, numpy_helper

from approxnorm.export.norms import Findings, Norm

DIM = 8
GAMMA = np.array([0.5, -1.25, 2.0, 0.75, 1.5, -0.25, 3.0, 1.0], np.float32)
EPS = 1e-5
# Parameters that every graph may read.
PARAMETERS: dict[str, np.ndarray] = {
    "w": GAMMA,
    "w_less_one": GAMMA - 1,
    "w_half": GAMMA.astype(np.float16),
    "w_double": GAMMA.astype(np.float64),
    "w_row": GAMMA.reshape(1, DIM),
    "w_box": GAMMA.reshape(1, 1, DIM),
    "w_rows": np.arange(4 * DIM, dtype=np.float32).reshape(4, DIM) / 8,
    "scalar": np.float32(0.125).reshape(()),
    "eps": np.float32(EPS).reshape(()),
    "eps_double": np.float64(EPS).reshape(()),
    "eps_row": np.full(DIM, EPS, np.float32),
    "eps_box": np.full((1, 1, 1), EPS, np.float32),
    "one_box": np.ones((1, 1, 1), np.float32),
    "two_box": np.full((1, 1, 1), 2, np.float32),
    "zero": np.float32(0).reshape(()),
    "one": np.float32(1).reshape(()),
    "two": np.float32(2).reshape(()),
    "two_int": np.int64(2).reshape(()),
    "three": np.float32(3).reshape(()),
    "half": np.float32(0.5).reshape(()),
    "minus_half": np.float32(-0.5).reshape(()),
    "dim": np.float32(DIM).reshape(()),
    "share": np.float32(1 / DIM).reshape(()),
    "last": np.array([-1]),
    "third": np.array([2]),
    "second": np.array([1]),
    "all_but_first": np.array([1, 2]),
    "first_axis": np.array([0]),
}


def graph(
    body: str,
    *,
    inputs: str = f"float[b, 4, {DIM}] x",
    outputs: str = f"float[b, 4, {DIM}] y",
    opset: int = 18,
    functions: str = "",
) -> onnx.ModelProto:
    """A model of the nodes, in ONNX's textual form; they read inputs and PARAMETERS."""
    domains = f'"" : {opset}, "com.microsoft" : 1' + (', "local" : 1' if functions else "")
    text = f"<ir_version: 8, opset_import: [{domains}]>\ngraph ({inputs}) => ({outputs}) {{{body}}}"
    model = onnx.parser.parse_model(f"{text}\n{functions}")
    read = {name for node in model.graph.node for name in every_name(node)}
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in PARAMETERS.items() if name in read
    )
    return model


def every_name(node: onnx.NodeProto) -> set[str]:
    """What a node reads, also inside of it."""
    names = set(node.input)
    for attribute in node.attribute:
        for inner in attribute.g.node:
            names |= every_name(inner)
    return names


def replaced(model: onnx.ModelProto, findings: Findings) -> onnx.ModelProto:
    """The model with each norm as one node of ONNX Runtime, put in as Norm says."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    gone = {place for norm in findings.norms for place in norm.nodes}
    nodes: list[onnx.NodeProto] = []
    for place, node in enumerate(model.graph.node):
        for norm in findings.norms:
            if norm.place == place:
                nodes += replacement(norm)
        if place not in gone:
            nodes.append(node)
    assert_in_order(model, nodes)
    del new.graph.node[:]
    new.graph.node.extend(nodes)
    for norm in findings.norms:
        new.graph.initializer.append(numpy_helper.from_array(norm.gamma, f"gamma of {norm.name}"))
    return new


def assert_in_order(model: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> None:
    """Every value that a node reads is written before, and each once."""
    written = {value.name for value in model.graph.input}
    written |= {tensor.name for tensor in model.graph.initializer}
    for node in nodes:
        missing = {name for name in node.input if name} - written
        assert all(name.startswith("gamma of ") for name in missing)
        outputs = {name for name in node.output if name}
        assert not outputs & written
        written |= outputs


def replacement(norm: Norm) -> list[onnx.NodeProto]:
    """The sum, if the norm had it inside, and the norm."""
    nodes = []
    total = norm.addends[0] if norm.addends else norm.x
    for index, addend in enumerate(norm.addends[1:], start=1):
        name = norm.x if index == len(norm.addends) - 1 else f"{norm.x} partly"
        nodes.append(helper.make_node("Add", [total, addend], [name]))
        total = name
    inputs = [norm.x, f"gamma of {norm.name}"]
    attributes = {"axis": -1, "epsilon": norm.eps, "stash_type": 1}
    nodes.append(helper.make_node("SimplifiedLayerNormalization", inputs, [norm.y], **attributes))
    return nodes


def run(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs, by ONNX Runtime without any of its own replacements."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session: Any = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def largest_difference(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """How far two runs are apart, in units of the largest value of each output."""
    assert [value.shape for value in a] == [value.shape for value in b]
    return max(
        float(np.max(np.abs(one - other)) / max(1.0, float(np.max(np.abs(other)))))
        for one, other in zip(a, b, strict=True)
    )


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    """Rows of very different sizes, one of them zero."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((*shape, DIM)) * 10 ** rng.uniform(-3, 2, (*shape, 1))
    x.reshape(-1, DIM)[0] = 0
    return x.astype(np.float32)
