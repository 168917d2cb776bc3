"""The backends that ``approxnorm check`` knows: one entry each, imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.methods.base import shown
from approxnorm.model import RMSNorm

# Name: "module:Class". The class is called as ``Class(model, lanes=lanes)``; it raises
# ApproxNormError, with the remedy, where something that it needs is missing.
BACKENDS: dict[str, str] = {
    "numpy": "approxnorm.conformance.numpy_runner:NumpyRunner",
    "cpp": "approxnorm.hls_ref.csim:CppBackend",
    "onnx": "approxnorm.export.onnx.runtimes:OrtBackend",
    "onnx-reference": "approxnorm.export.onnx.runtimes:ReferenceBackend",
    "qonnx": "approxnorm.export.qonnx.backend:QonnxBackend",
    "torch": "approxnorm.conformance.torch_runner:TorchRunner",
}


class Backend(Protocol):
    """What runs a model's rows elsewhere."""

    def run(self, codes: np.ndarray) -> np.ndarray:
        """y's codes (rows, dim), integers of any dtype, of x's codes (rows, dim)."""
        ...


@runtime_checkable
class TracingBackend(Protocol):
    """A backend that can also show its named signals."""

    def trace(self, codes: np.ndarray) -> dict[str, np.ndarray]:
        """Signals by name: element signals (rows, dim), row signals (rows,); any may be absent."""
        ...


def check_names(names: Iterable[str]) -> list[str]:
    """The names; ApproxNormError for none, one that is not registered, and one named twice."""
    listed = list(names)
    allowed = ", ".join(BACKENDS)
    if not listed:
        raise ApproxNormError(f"backends is empty; allowed: one or more of {allowed}")
    for name in listed:
        if name not in BACKENDS:
            raise ApproxNormError(f"backends names {shown(name)}; allowed: {allowed}")
        if listed.count(name) > 1:
            raise ApproxNormError(f"backends names {name} twice; name it once")
    return listed


def open_backends(names: Iterable[str], model: RMSNorm, lanes: int = 8) -> dict[str, Backend]:
    """Registered backends by their names, made ready for a model.

    Raises ApproxNormError for a name that is not registered, and if what a backend needs is
    missing: one that was asked for is never skipped.
    """
    return {name: _open(name, model, lanes) for name in check_names(names)}


def _open(name: str, model: RMSNorm, lanes: int) -> Backend:
    module_name, _, class_name = BACKENDS[name].partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ApproxNormError(
            f"backend {name} cannot be loaded ({error}); install what is missing"
            f"{_remedy(module_name)}, or leave it out of the backends"
        ) from error
    backend: Backend = getattr(module, class_name)(model, lanes=lanes)
    return backend


def _remedy(module_name: str) -> str:
    """The extra that brings what a backend's module imports."""
    extra = "onnx" if ".export." in module_name else "torch" if "torch" in module_name else ""
    return f" (pip install 'approxnorm[{extra}]')" if extra else ""
