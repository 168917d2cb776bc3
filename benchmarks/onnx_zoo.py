"""RMSNorms found in real models that torch exported: every model, opset and kind of shapes.

Each call of each norm of the torch model must be found, under its module's name, with its gamma and
eps, and nothing else; the exit status is 1 if not. It takes about three minutes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from onnx_zoo import MODELS, OPSETS, all_norms, assert_norms_of_torch, export

from approxnorm.export.norms import find_norms


def line(name: str, opset: int, dynamic: bool) -> bool:
    """Print what is found in one model; returns whether it is everything."""
    exported = export(name, opset, dynamic=dynamic)
    start = time.perf_counter()
    findings = find_norms(exported.model)
    taken = time.perf_counter() - start
    calls = sum(norm.calls for norm in exported.norms.values())
    shapes = "dynamic" if dynamic else "static"
    counts = f"{len(exported.norms):>9}{calls:>7}{len(findings.norms):>7}"
    print(f"{name:10}{opset:>6}{shapes:>9}{len(exported.model.graph.node):>7}{counts}", end="")
    try:
        assert_norms_of_torch(exported, all_norms(exported))
    except AssertionError as error:
        print(f"  {error}")
        return False
    print(f"{taken * 1000:>7.0f} ms", flush=True)
    return True


def main() -> int:
    """Print a line for each model, opset and kind of shapes."""
    columns = ("opset", 6), ("shapes", 9), ("nodes", 7), ("modules", 9), ("calls", 7), ("found", 7)
    print("model     " + "".join(f"{name:>{width}}" for name, width in columns) + "    search")
    done = [
        line(name, opset, dynamic)
        for name in MODELS
        for opset in OPSETS
        for dynamic in (False, True)
        if not (dynamic and name == "fracast")  # its series has one length
    ]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
