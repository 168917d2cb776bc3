"""Small ONNX models with norms among other things, written by hand, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Runs a command: its exit status, and what it printed on stdout and stderr.
Cli = Callable[..., tuple[int, str, str]]

DIM, STEPS = 32, 4
EPS = 1e-5


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    """The parameters of ``block_model``, by name."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "block.norm1.weight": 1 + normal(DIM) / 4,
        "block.norm2.weight": normal(DIM) / 4,  # of a (1 + w) norm
        "up": normal(DIM, DIM) / 6,
        "down": normal(DIM, DIM) / 6,
        "block.over_steps.weight": normal(DIM),
        "ln.scale": 1 + normal(DIM) / 8,
        "ln.bias": normal(DIM),
        "two": np.float32(2).reshape(()),
        "one": np.float32(1).reshape(()),
        "eps": np.float32(EPS).reshape(()),
        "last": np.array([-1]),
        "steps": np.array([-2]),
        "unused": normal(3),
    }


def norm_nodes(
    x: str, gamma: str, y: str, name: str, axis: str = "last", opset: int = 18
) -> list[onnx.NodeProto]:
    """An RMSNorm as exporters write it below opset 23; axis: the name of a constant."""
    steps = [
        ("Pow", [x, "two"], "square"),
        ("ReduceMean", [f"{name}.square", axis], "mean"),
        ("Add", [f"{name}.mean", "eps"], "shifted"),
        ("Sqrt", [f"{name}.shifted"], "root"),
        ("Div", [x, f"{name}.root"], "normal"),
    ]
    nodes = [helper.make_node(op, read, [f"{name}.{out}"]) for op, read, out in steps]
    if opset < 18:  # the axes were an attribute
        nodes[1].input.pop()
        nodes[1].attribute.append(helper.make_attribute("axes", [-2 if axis == "steps" else -1]))
    return [*nodes, helper.make_node("Mul", [f"{name}.normal", gamma], [y], name)]


def block_model(opset: int = 21, ir_version: int = 10) -> onnx.ModelProto:
    """Two RMSNorms, block.norm1 and block.norm2, a LayerNorm, and an RMSNorm over another axis.

    x (b, 4, 32) float32 gives hidden of the same shape and the integers best (b, 4). Some values
    have value_info, some nodes metadata; one initializer and one node lead nowhere.
    """
    nodes = [
        *norm_nodes("x", "block.norm1.weight", "n1", "block.norm1", opset=opset),
        helper.make_node("MatMul", ["n1", "up"], ["u"], "block.up"),
        helper.make_node("Add", ["x", "u"], ["h"], "block.add"),
        helper.make_node("Add", ["one", "block.norm2.weight"], ["gamma2"]),
        *norm_nodes("h", "gamma2", "n2", "block.norm2", opset=opset),
        helper.make_node("MatMul", ["n2", "down"], ["d"], "block.down"),
        helper.make_node("LayerNormalization", ["d", "ln.scale", "ln.bias"], ["l"], "block.ln"),
        *norm_nodes("l", "block.over_steps.weight", "hidden", "block.over_steps", "steps", opset),
        helper.make_node("Neg", ["l"], ["nowhere"], "block.unread"),
        helper.make_node("ArgMax", ["hidden"], ["best"], "best", axis=-1, keepdims=0),
    ]
    helper.set_metadata_props(nodes[6], {"namespace": "block/up"})
    floats = ["b", STEPS, DIM]
    known = [helper.make_tensor_value_info(n, TensorProto.FLOAT, floats) for n in ("n1", "h")]
    known.append(helper.make_tensor_value_info("block.norm1.normal", TensorProto.FLOAT, floats))
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, floats)],
        [
            helper.make_tensor_value_info("hidden", TensorProto.FLOAT, floats),
            helper.make_tensor_value_info("best", TensorProto.INT64, ["b", STEPS]),
        ],
        [numpy_helper.from_array(value, name) for name, value in weights().items()],
        value_info=known,
        doc_string="two norms and more",
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=ir_version,
        producer_name="by hand",
    )
    helper.set_model_props(model, {"author": "somebody"})
    return model


def rows(batch: int, seed: int) -> np.ndarray:
    """x for ``block_model``, with rows of different sizes and one channel larger than others."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((batch, STEPS, DIM)) * 2 ** rng.uniform(-2, 2, (batch, STEPS, 1))
    x[..., 5] *= 8
    return x.astype(np.float32)


def write_block(folder: Path, **options: Any) -> onnx.ModelProto:
    """model.onnx, inputs.npz (calibration) and more.npz (evaluation) in a folder."""
    model = block_model(**options)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=rows(8, 1))
    np.savez(folder / "more.npz", **{f"x.{i}": rows(4, 2 + i) for i in range(2)})
    return model
