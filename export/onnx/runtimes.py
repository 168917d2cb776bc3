"""The norm run as ONNX: by ONNX Runtime, and by the reference evaluator of the onnx package.

Both run the node's body of standard operators; neither knows this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from approxnorm.backends.numpy_backend import Arrays
from approxnorm.export.onnx.model import onnx_model
from approxnorm.export.onnx.names import DEFAULT_OPSET
from approxnorm.model import RMSNorm

Level = Literal["DISABLE_ALL", "BASIC", "EXTENDED", "ALL"]
LEVELS: tuple[Level, ...] = ("DISABLE_ALL", "BASIC", "EXTENDED", "ALL")
_ERRORS_ONLY = 3


def cpu_session(model: onnx.ModelProto | str, level: Level = "ALL") -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime on the CPU; model: a ModelProto, or a file's path."""
    options = onnxruntime.SessionOptions()
    name = f"ORT_{level}" if level == "DISABLE_ALL" else f"ORT_ENABLE_{level}"
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    options.log_severity_level = _ERRORS_ONLY
    source = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


class _OnnxBackend:
    """What both have in common: one model for y, and one that shows every named signal."""

    def __init__(self, model: RMSNorm, lanes: int = 8, *, opset: int = DEFAULT_OPSET) -> None:
        self.model, self._opset = model, opset
        self._runner = self._open(self._build(()))

    def run(self, codes: np.ndarray) -> np.ndarray:
        """Output codes (rows, dim) of input codes (rows, dim)."""
        y: np.ndarray = self._answer(self._runner, codes)[0]
        return y

    def trace(self, codes: np.ndarray) -> Arrays:
        """Every named element signal (rows, dim) and row signal (rows,)."""
        values = self._answer(self._tracer, codes)[1:]
        ports = self.model.assembly.require_datapath().ports
        pairs = zip(self._signals, values, strict=True)
        return {n: v if ports[n].level == "element" else v[:, 0] for n, v in pairs}

    @cached_property
    def _signals(self) -> tuple[str, ...]:
        datapath = self.model.assembly.require_datapath()
        inputs = {p.name for p in datapath.inputs} | {datapath.output}
        return tuple(
            p.name for p in datapath.signals() if p.level != "channel" and p.name not in inputs
        )

    @cached_property
    def _tracer(self) -> Any:
        return self._open(self._build(self._signals))

    def _build(self, signals: tuple[str, ...]) -> onnx.ModelProto:
        return onnx_model(self.model, opset=self._opset, leading=("rows",), signals=signals)

    def _answer(self, runner: Any, codes: np.ndarray) -> Sequence[np.ndarray]:
        answers: Sequence[np.ndarray] = runner.run(None, {"x": codes.astype(self.model.x_dtype)})
        return answers

    def _open(self, model: onnx.ModelProto) -> Any:
        raise NotImplementedError


class OrtBackend(_OnnxBackend):
    """ONNX Runtime on the CPU. level: of its graph optimisations."""

    def __init__(
        self,
        model: RMSNorm,
        lanes: int = 8,
        *,
        opset: int = DEFAULT_OPSET,
        level: Level = "ALL",
    ) -> None:
        self._level: Level = level
        super().__init__(model, lanes, opset=opset)

    def _open(self, model: onnx.ModelProto) -> onnxruntime.InferenceSession:
        return cpu_session(model, self._level)


class ReferenceBackend(_OnnxBackend):
    """The onnx package's ReferenceEvaluator: every operator in NumPy, as the standard says."""

    def _open(self, model: onnx.ModelProto) -> ReferenceEvaluator:
        return ReferenceEvaluator(model)
