"""ONNX Runtime on a model in memory, and the values inside it as further outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from approxnorm.errors import ApproxNormError
from approxnorm.export.rewrite.feeds import Feed
from approxnorm.export.rewrite.model_file import serialized

_FIRST = 8  # groups of values asked for at first, before their size is known
_MAX_BYTES = 1 << 30  # of values held at once, if one group is not larger

_FATAL = 4  # what ONNX Runtime prints by itself: nothing that it raises as well
_DATA_FOLDER = "session.model_external_initializers_file_folder_path"


class Session:
    """A model on ONNX Runtime's CPU provider, at its default optimisation level.

    path: where the model was read from; its folder has the external data. what: its name in
    messages, if it was changed since. Raises ApproxNormError if ONNX Runtime does not take the
    model, or fails in a run.
    """

    def __init__(self, model: onnx.ModelProto, path: Path, what: str | None = None) -> None:
        self._what = what or str(path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL
        options.add_session_config_entry(_DATA_FOLDER, str(path.parent))
        try:
            self._session = onnxruntime.InferenceSession(
                serialized(model, path), options, providers=["CPUExecutionProvider"]
            )
        except ApproxNormError:
            raise
        except Exception as error:  # its classes have no common base but Exception
            raise ApproxNormError(
                f"{self._what} is refused by ONNX Runtime {onnxruntime.__version__}:"
                f" {_reason(error)}"
            ) from None

    def run(self, feed: Feed, names: Sequence[str]) -> list[Any]:
        """The values of these names in one run."""
        try:
            return list(self._session.run(list(names), feed))
        except Exception as error:
            raise ApproxNormError(
                f"{self._what} cannot be run by ONNX Runtime: {_reason(error)}; are its inputs"
                " those that the model was made for?"
            ) from None

    def run_groups(
        self, feed: Feed, groups: Sequence[Sequence[str]]
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        """The values of each group of names: (its index, its values).

        The model runs as often as it takes to hold no more than some of them in memory.
        """
        done, count = 0, _FIRST
        while done < len(groups):
            part = groups[done : done + count]
            values = self.run(feed, [name for group in part for name in group])
            size = max(1, sum(v.nbytes for v in values) // len(part))
            for i, group in enumerate(part):
                taken, values = values[: len(group)], values[len(group) :]
                yield done + i, taken
            done, count = done + len(part), max(1, _MAX_BYTES // size)


def tapped(model: onnx.ModelProto, values: Sequence[str]) -> onnx.ModelProto:
    """A copy of a model with these values as further outputs of its graph."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    outputs = {output.name for output in copy.graph.output}
    for name in dict.fromkeys(values):
        if name not in outputs:  # ONNX Runtime infers the type
            copy.graph.output.append(onnx.ValueInfoProto(name=name))
    return copy


def _reason(error: Exception) -> str:
    """The first line of ONNX Runtime's message, without its codes."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(" : ", 3)[-1].strip().rstrip(".")
