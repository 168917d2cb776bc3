"""The norm in ONNX Runtime against its own float32 RMSNormalization, in one run.

4096 x 2048 codes in, codes out. Float and integer model take turns, after as many warm-up runs of
each as ONNX Runtime's memory pools need. The last column is what carries the elements' products.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from hls_cases import preset_model

from approxnorm import RMSNorm, RMSNormSpec
from approxnorm.export.onnx import onnx_model
from approxnorm.export.onnx.runtimes import cpu_session
from approxnorm.spec import preset_names

ROWS, DIM = 4096, 2048
WARM_UP = 8


def float_norm() -> onnx.ModelProto:
    """RMSNormalization of opset 23."""
    ends = [helper.make_tensor_value_info(n, 1, ["rows", DIM]) for n in ("x", "y")]
    gamma = numpy_helper.from_array(np.ones(DIM, np.float32), "gamma")
    node = helper.make_node("RMSNormalization", ["x", "gamma"], ["y"], axis=-1)
    graph = helper.make_graph([node], "float", ends[:1], ends[1:], [gamma])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def cases(names: list[str]) -> Iterator[tuple[str, RMSNorm]]:
    for name in names:
        model = preset_model(name, DIM)
        yield name, model
        if name == "int8-linear":
            fields = model.spec.to_dict()
            # A mantissa of 9 bits instead of 13: the product stays below 2**24.
            fields["rsqrt"] = {"method": "linear", "segments": 4, "bits": 9, "out_bits": 8}
            yield f"{name}, out_bits 8", RMSNorm(RMSNormSpec.model_validate(fields), model.gamma)


def codes_of(model: RMSNorm) -> np.ndarray:
    form, rng = model.assembly.x_format, np.random.default_rng(0)
    values = np.rint(rng.standard_normal((ROWS, DIM)) * form.hi / 4) + form.zero_point
    return np.clip(values, form.lo, form.hi).astype(model.x_dtype)


def product_carrier(model: RMSNorm) -> str:
    """float32 where the product is below 2**24, else what holds it or stands in for it."""
    signals = {p.name: p.interval for p in model.assembly.require_datapath().signals()}
    if "product" not in signals:
        return "-"
    product = signals["product"]
    if max(-product.lo, product.hi) <= 1 << 24:
        return "float32"
    body = onnx_model(model).functions[0].node
    split = {"Ceil", "Floor"} <= {n.op_type for n in body}
    return "float32, sticky" if split else "float64"


def timed(runs: int, model: RMSNorm) -> tuple[list[float], list[float], int]:
    """Milliseconds of the float norm and of this one, in turns; codes that differ in 256 rows."""
    x = codes_of(model)
    real = x.astype(np.float32)
    sessions = cpu_session(float_norm()), cpu_session(onnx_model(model, leading=("rows",)))
    for _ in range(WARM_UP):
        sessions[0].run(None, {"x": real})
    for _ in range(WARM_UP):
        (y,) = sessions[1].run(None, {"x": x})
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for session, values, times in zip(sessions, (real, x), found, strict=True):
            start = time.perf_counter()
            session.run(None, {"x": values})
            times.append((time.perf_counter() - start) * 1e3)
    return *found, int(np.count_nonzero(y[:256] != model(x[:256])))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="*", default=preset_names())
    parser.add_argument("--runs", type=int, default=25)
    arguments = parser.parse_args()
    versions = f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}"
    print(f"{versions}, {os.cpu_count()} threads, {ROWS} x {DIM}; ms")
    print(f"{'spec':26}{'float':>8}{'median':>8}{'norm':>8}{'median':>8}{'ratio':>7}  products")
    wrong = 0
    for name, model in cases(arguments.presets):
        plain, own, bad = timed(arguments.runs, model)
        columns = (min(plain), np.median(plain), min(own), np.median(own))
        print(
            f"{name:26}"
            + "".join(f"{v:8.2f}" for v in columns)
            + f"{min(own) / min(plain):7.2f}  {product_carrier(model)}",
            flush=True,
        )
        wrong += bad
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
