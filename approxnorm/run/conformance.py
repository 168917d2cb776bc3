"""What the main job compares: backends on each layer's golden vectors and own rows.

The backend onnx is here the layer's written file in ONNX Runtime. With it comes "onnx-float", the
file with floats, on the layer's own rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from approxnorm.conformance import check_classes, open_backends
from approxnorm.conformance.backends import Backend
from approxnorm.model import RMSNorm
from approxnorm.run.folders import ONNX, ONNX_FLOAT
from approxnorm.run.onnx_files import check_float_file, open_codes_file
from approxnorm.vectors import VectorClass, VectorSet

FLOAT_FILE = "onnx-float"
Opening = Future[dict[str, Backend]]
_COUNTS = ("rows", "codes", "mismatches")


@contextmanager
def opening(
    model: RMSNorm, names: Sequence[str], folder: Path, lanes: int
) -> Iterator[Opening | None]:
    """The backends, made ready in the background: a compiler takes seconds that others can use.

    folder: the layer's, with its ONNX files. None if no backend is named.
    """
    if not names:
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(_open, model, names, folder, lanes)


def _open(model: RMSNorm, names: Sequence[str], folder: Path, lanes: int) -> dict[str, Backend]:
    registered = [name for name in names if name != "onnx"]
    opened = open_backends(registered, model, lanes) if registered else {}
    if "onnx" in names:
        opened["onnx"] = open_codes_file(model, folder / ONNX)
    return {name: opened[name] for name in names}


def check_layer(
    model: RMSNorm,
    opened: Opening | None,
    sets: Sequence[VectorSet],
    own: np.ndarray,
    folder: Path,
    lanes: int,
) -> dict[str, Any]:
    """Compare backends on the rows of golden vectors; what report.json has of it, if wanted.

    own: real rows (n, dim) of the layer, for the ONNX file with floats.
    """
    if opened is None:
        return {}
    backends = opened.result()
    classes = [c for vectors in sets for c in _classes(vectors)]
    results = check_classes(model, backends, classes, lanes=lanes).backends
    if "onnx" in backends:
        results[FLOAT_FILE] = check_float_file(model, folder / ONNX_FLOAT, own, lanes)
    return {"conformance": {"backends": {n: r.named_dict(n) for n, r in results.items()}}}


def _classes(vectors: VectorSet) -> list[VectorClass]:
    x = vectors.array("x").astype("int64")
    return [
        VectorClass(entry.name, x[entry.first : entry.first + entry.count])
        for entry in vectors.manifest.classes
    ]


def of_all(layers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All layers' comparisons in sum, for each backend."""
    total = {}
    for name in layers[0]["conformance"]["backends"]:
        found = [layer["conformance"]["backends"][name] for layer in layers]
        total[name] = {key: sum(counts[key] for counts in found) for key in _COUNTS}
    return {"backends": total}


def differences(results: dict[str, Any]) -> list[str]:
    """For each layer and backend that differs, its name and the first difference in one line."""
    return [
        f"layer {layer['name']}: {found['line']}"
        for layer in results["layers"]
        for found in (layer.get("conformance") or {"backends": {}})["backends"].values()
        if found["line"] is not None
    ]
