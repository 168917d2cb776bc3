"""What the main job compares: backends on each layer's golden vectors and own rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from approxnorm.conformance import check_classes, open_backends
from approxnorm.conformance.backends import Backend
from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref.csim import require_tools
from approxnorm.model import RMSNorm
from approxnorm.vectors import VectorClass, VectorSet

BACKENDS = ("numpy", "cpp")
Opening = Future[dict[str, Backend]]
_COUNTS = ("rows", "codes", "mismatches")


def missing_tools() -> str | None:
    """What C simulation lacks on this machine and how to get it; None if it can run."""
    try:
        require_tools()
    except ApproxNormError as error:
        return str(error)
    return None


@contextmanager
def opening(model: RMSNorm, lanes: int, *, wanted: bool) -> Iterator[Opening | None]:
    """The backends, made ready in the background: a compiler takes seconds that others can use."""
    if not wanted:
        yield None
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(open_backends, BACKENDS, model, lanes)


def check_layer(
    model: RMSNorm, backends: Opening | None, sets: Sequence[VectorSet], lanes: int
) -> dict[str, Any]:
    """Compare backends on the rows of golden vectors; what report.json has of it, if wanted."""
    if backends is None:
        return {}
    classes = [c for vectors in sets for c in _classes(vectors)]
    result = check_classes(model, backends.result(), classes, lanes=lanes)
    return {"conformance": {"backends": result.backends_dict()}}


def _classes(vectors: VectorSet) -> list[VectorClass]:
    x = vectors.array("x").astype("int64")
    return [
        VectorClass(entry.name, x[entry.first : entry.first + entry.count])
        for entry in vectors.manifest.classes
    ]


def of_all(layers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All layers' comparisons in sum, for each backend."""
    total = {}
    for name in BACKENDS:
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
