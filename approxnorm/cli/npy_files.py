"""The files that ``apply`` writes, in row blocks: the output codes and the traced signals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from approxnorm.cli.npy_stream import NpyStream
from approxnorm.errors import ApproxNormError
from approxnorm.output import listed_by, staged_folder, write_atomically

if TYPE_CHECKING:
    from approxnorm.inputs import Layer
    from approxnorm.model import RMSNorm

MANIFEST = "trace.json"
_FORMER = listed_by(MANIFEST, lambda former: {s["file"] for s in former["signals"]})


def require_npy(path: Path, option: str) -> None:
    """ApproxNormError unless the path ends in .npy."""
    if path.suffix.lower() != ".npy":
        raise ApproxNormError(f"{option} is {str(path)!r}; it must be a .npy file")


def write_outputs(
    model: RMSNorm, layer: Layer, shape: tuple[int, ...], out: Path, trace: Path | None
) -> list[str]:
    """Write the codes of all rows to ``out`` and, if given, each signal to ``trace``/NAME.npy.

    shape: that of the layer's x, which y takes. Returns the signals' names. On an error nothing
    is left behind. ``trace`` may be absent, empty, or a former trace, which it replaces.
    """
    if trace is None:
        write_atomically(out, lambda file: _write_y(model, layer, shape, file))
        return []
    with staged_folder(trace, _FORMER) as folder:
        names: list[str] = []
        write_atomically(
            out, lambda file: names.extend(_write_traced(model, layer, shape, file, folder))
        )
    return names


def _code_blocks(model: RMSNorm, layer: Layer) -> Iterator[np.ndarray]:
    for block in layer.blocks():
        yield block if layer.is_codes else model.quantize(block)


def _write_y(model: RMSNorm, layer: Layer, shape: tuple[int, ...], file: IO[bytes]) -> None:
    empty = np.empty((0, model.dim), np.int64)
    stream = NpyStream(file, shape, model(empty).dtype)
    for codes in _code_blocks(model, layer):
        stream.append(model(codes))
    stream.check_complete()


def _write_traced(
    model: RMSNorm, layer: Layer, shape: tuple[int, ...], file: IO[bytes], folder: Path
) -> list[str]:
    y, signals = model(np.empty((0, model.dim), np.int64), trace=True)
    y_stream = NpyStream(file, shape, y.dtype)
    kinds = {name: _level(value, model.dim) for name, value in signals.items()}
    shapes = {"element": shape, "row": shape[:-1], "channel": (model.dim,)}
    with ExitStack() as stack:
        streams = {}
        for name, kind in kinds.items():
            opened = stack.enter_context(open(folder / f"{name}.npy", "xb"))
            streams[name] = NpyStream(opened, shapes[kind], signals[name].dtype)
            if kind == "channel":
                streams[name].append(signals[name])
        for codes in _code_blocks(model, layer):
            y, block = model(codes, trace=True)
            y_stream.append(y)
            for name, kind in kinds.items():
                if kind != "channel":
                    streams[name].append(block[name])
        for stream in (y_stream, *streams.values()):
            stream.check_complete()
    _write_manifest(model, kinds, folder)
    return list(kinds)


def _level(empty: np.ndarray, dim: int) -> str:
    """The level of a signal from its trace of no rows at all."""
    if empty.shape == (dim,):
        return "channel"
    return "row" if empty.ndim == 1 else "element"


def _write_manifest(model: RMSNorm, kinds: dict[str, str], folder: Path) -> None:
    content: dict[str, Any] = {
        "digest": model.digest,
        "signals": [{"name": n, "level": k, "file": f"{n}.npy"} for n, k in kinds.items()],
        "spec": model.spec.to_dict(),
    }
    (folder / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
