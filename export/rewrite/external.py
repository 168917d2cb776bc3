"""Tensors whose data lies in files beside the model: checked before anything is read."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms import ReadTensor

# Bits of an element where several share a byte.
_PACKED = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}


@dataclass(frozen=True)
class Place:
    """Where a tensor's data lie: a file of the model's folder, and the bytes in it."""

    location: str
    file: Path
    offset: int
    size: int


def tensors(message: Any) -> Iterator[TensorProto]:
    """Every tensor in a model or a part of it: in graphs, subgraphs, attributes and functions."""
    if isinstance(message, TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from tensors(inner)


def external_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Those of a model whose data are not in it."""
    return (t for t in tensors(model) if t.data_location == TensorProto.EXTERNAL)


def check_external(model: onnx.ModelProto, path: Path) -> None:
    """Raise ApproxNormError unless all external data lie in the model's folder, whole."""
    for tensor in external_tensors(model):
        place_of(tensor, path)


def locations(model: onnx.ModelProto, path: Path) -> list[str]:
    """The files of external data, as the model names them, each once."""
    return list(dict.fromkeys(place_of(t, path).location for t in external_tensors(model)))


def reader(path: Path) -> ReadTensor:
    """What reads the contents of a tensor of the model at ``path``, wherever they lie."""

    def read(tensor: TensorProto) -> np.ndarray:
        if tensor.data_location != TensorProto.EXTERNAL:
            return numpy_helper.to_array(tensor)
        place = place_of(tensor, path)
        with open(place.file, "rb") as stream:
            stream.seek(place.offset)
            data = stream.read(place.size)
        inside = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data)
        return numpy_helper.to_array(inside)

    return read


def place_of(tensor: TensorProto, path: Path) -> Place:
    """Where an external tensor of the model at ``path`` lies.

    Raises ApproxNormError, which names model, tensor and file, for a path that leaves the model's
    folder, a file that is not there, and data that do not fit in it.
    """
    where = f"{path}: the external data of tensor {tensor.name!r}"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    file = _file(location, path.parent, where)
    size = _bytes(tensor, where)
    offset = _number(entries, "offset", 0, where)
    length = _number(entries, "length", size, where)
    if length != size:
        raise ApproxNormError(
            f"{where} are {length} bytes, but its shape and type ask for {size}; export the model"
            " again"
        )
    there = file.stat().st_size
    if offset + size > there:
        raise ApproxNormError(
            f"{where} are {size} bytes from byte {offset} of {location}, which has {there}; the"
            " file is truncated, so copy or export it again"
        )
    return Place(location, file, offset, size)


def _file(location: str, folder: Path, where: str) -> Path:
    if not location or "\0" in location:
        raise ApproxNormError(f"{where} name no file; export the model again")
    for kind in (PurePosixPath, PureWindowsPath):  # the same files refused on every system
        parts = kind(location)
        if parts.anchor or ".." in parts.parts:
            raise ApproxNormError(
                f"{where} lie in {location!r}; allowed: a file in the model's own folder, without"
                " '..', so move it there and export the model again"
            )
    file = folder / location
    if not os.path.realpath(file).startswith(os.path.join(os.path.realpath(folder), "")):
        raise ApproxNormError(
            f"{where} lie in {location!r}, a link that leaves the model's folder; allowed: a file"
            " in that folder, so copy it there"
        )
    if not file.is_file():
        what = "is no regular file" if file.exists() else "does not exist"
        raise ApproxNormError(f"{where} lie in {file}, which {what}; put it there")
    return file


def _bytes(tensor: TensorProto, where: str) -> int:
    """The size of the data by shape and type."""
    try:
        name = TensorProto.DataType.Name(tensor.data_type)
        bits = _PACKED.get(name) or helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * 8
    except (ValueError, KeyError, TypeError):
        name, bits = str(tensor.data_type), 0
    if not bits or name == "STRING" or any(d < 0 for d in tensor.dims):
        raise ApproxNormError(
            f"{where} have type {name} and shape {list(tensor.dims)}; allowed: numbers, and sizes"
            " from 0 on"
        )
    return (math.prod(tensor.dims) * bits + 7) // 8


def _number(entries: dict[str, str], key: str, default: int, where: str) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdigit()):
        raise ApproxNormError(
            f"{where} have {key} {text!r}; allowed: an integer from 0 on, so export the model again"
        )
    return int(text)
