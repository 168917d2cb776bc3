"""What a model is run on: an .npz with an array for each input, and for each run if there are many.

An array that has an input's name is that input in every run. Arrays NAME.0, NAME.1, ... are the
input NAME in one run after the other.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from approxnorm.errors import ApproxNormError
from approxnorm.inputs.layers import require_file
from approxnorm.inputs.npy import damage_is_an_error

Feed = dict[str, np.ndarray]

_INTEGERS = [f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
_TYPES = ["FLOAT", "DOUBLE", "FLOAT16", "BOOL", *_INTEGERS]
_LISTED = 12  # names in a message


@dataclass(frozen=True)
class Input:
    """An input of a model. dims: sizes, or None where they are free; None if not even the rank
    is known. optional: it has a default."""

    name: str
    dtype: np.dtype[Any]
    dims: tuple[int | None, ...] | None
    optional: bool


class Feeds:
    """The runs of an .npz, read one at a time; every array has been checked against the model.

    Raises ApproxNormError, which names file, array and input, for a file that is missing or
    damaged, an input without an array, an array of no input, and a wrong type or shape.
    """

    def __init__(self, path: Path, model: onnx.ModelProto) -> None:
        self.path = path
        self._inputs = {i.name: i for i in _inputs(model)}
        self._keys = self._sorted(_keys(path))
        self.runs = self._count()
        for _ in self:  # once for the errors
            pass

    def __iter__(self) -> Iterator[Feed]:
        """The feed of each run, in the types that the model wants."""
        with _opened(self.path) as stored:
            for run in range(self.runs):
                yield {name: self._array(stored, name, run) for name in self._keys}

    def _sorted(self, keys: list[str]) -> dict[str, dict[int | None, str]]:
        """Keys by input and run; run None: all."""
        found: dict[str, dict[int | None, str]] = {}
        unknown = []
        for key in keys:
            meaning = self._meaning(key)
            if meaning is None:
                unknown.append(key)
            else:
                found.setdefault(meaning[0], {})[meaning[1]] = key
        missing = [n for n, i in self._inputs.items() if n not in found and not i.optional]
        self._require_inputs(keys, missing, unknown)
        for name, runs in found.items():
            if None in runs and len(runs) > 1:
                numbered = _listed(key for run, key in runs.items() if run is not None)
                raise ApproxNormError(
                    f"{self.path} holds {name!r} and {numbered}; allowed: one array for all runs,"
                    " or one for each"
                )
        return found

    def _require_inputs(self, keys: list[str], missing: list[str], unknown: list[str]) -> None:
        lacks = f"has no array for the model's input {missing[0]!r}" if missing else ""
        if unknown:
            lacks = f"{lacks}; it holds" if lacks else "holds"
            raise ApproxNormError(
                f"{self.path} {lacks} {unknown[0]!r}, which is no input of the model; allowed:"
                f" {_listed(self._inputs)}, and with .0, .1, ... behind the name for several runs"
            )
        if missing:
            raise ApproxNormError(
                f"{self.path} {lacks}; it holds {_listed(keys)}, and the model's inputs are"
                f" {_listed(self._inputs)}"
            )

    def _meaning(self, key: str) -> tuple[str, int | None] | None:
        """A key's input and run; None if it is of no input."""
        if key in self._inputs:
            return key, None
        name, _, number = key.rpartition(".")
        is_number = number.isascii() and number.isdigit() and number == str(int(number))
        if name in self._inputs and is_number:
            return name, int(number)
        return None

    def _count(self) -> int:
        numbered = {
            n: max(r for r in runs if r is not None)
            for n, runs in self._keys.items()
            if None not in runs
        }
        last = max(numbered.values(), default=0)
        for name in numbered:
            first_gap = next(run for run in count() if run not in self._keys[name])
            if first_gap <= last:
                raise ApproxNormError(
                    f"{self.path} has no {f'{name}.{first_gap}'!r}, but runs up to {last}; number"
                    " the arrays of each input from 0 on without a gap"
                )
        return last + 1

    def _array(self, stored: Any, name: str, run: int) -> np.ndarray:
        keys = self._keys[name]
        key = keys.get(run) or keys[None]
        where = f"{self.path}: {key!r}"
        try:
            array = stored[key]
        except MemoryError:
            raise ApproxNormError(
                f"{where} does not fit the memory; give it in several runs"
            ) from None
        wanted = self._inputs[name]
        _check_shape(array.shape, wanted, where)
        return _converted(array, wanted.dtype, where)


def _inputs(model: onnx.ModelProto) -> Iterator[Input]:
    defaults = {t.name for t in model.graph.initializer}
    defaults |= {t.values.name for t in model.graph.sparse_initializer}
    for value in model.graph.input:
        kind = value.type.WhichOneof("value")
        type_ = value.type.tensor_type
        name = TensorProto.DataType.Name(type_.elem_type) if kind == "tensor_type" else str(kind)
        if name not in _TYPES:
            raise ApproxNormError(
                f"the model's input {value.name!r} is {name}; allowed: tensors of"
                f" {', '.join(_TYPES)}"
            )
        dims = None
        if type_.HasField("shape"):
            dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in type_.shape.dim)
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(type_.elem_type))
        yield Input(value.name, dtype, dims, value.name in defaults)


def _keys(path: Path) -> list[str]:
    if path.suffix.lower() != ".npz":
        raise ApproxNormError(f"{path} has the suffix {path.suffix!r}; it must be an .npz file")
    require_file(path)
    with _opened(path) as stored:
        keys = list(stored.files)
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ApproxNormError(f"{path} holds the key {twice!r} more than once; keep one of them")
    return keys


@contextmanager
def _opened(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    # NumPy leaves a file open that it opened itself and cannot read.
    with damage_is_an_error(str(path)), open(path, "rb") as stream:
        if not zipfile.is_zipfile(stream):
            raise ApproxNormError(
                f"{path} is damaged or not an .npz archive; write it with numpy.savez"
            )
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as stored:
            yield stored


def _check_shape(shape: tuple[int, ...], wanted: Input, where: str) -> None:
    if wanted.dims is None:
        return
    fits = len(shape) == len(wanted.dims) and all(
        dim is None or dim == size for dim, size in zip(wanted.dims, shape, strict=True)
    )
    if not fits:
        dims = ", ".join("any" if d is None else str(d) for d in wanted.dims)
        raise ApproxNormError(
            f"{where} has shape {shape}; the model's input {wanted.name!r} wants ({dims})"
        )


def _converted(array: np.ndarray, dtype: np.dtype[Any], where: str) -> np.ndarray:
    """The array in the model's type: float64 is rounded to float32, all else must be exact."""
    kinds = array.dtype.kind + dtype.kind
    result = None
    if kinds == "ff" and (dtype.itemsize >= array.dtype.itemsize or dtype == np.float32):
        with np.errstate(over="ignore"):
            result = array.astype(dtype)
        if not np.array_equal(np.isfinite(result), np.isfinite(array)):
            raise ApproxNormError(f"{where} holds a number beyond {dtype}; rescale it")
    elif array.dtype.kind in "iub" and dtype.kind in "iub":
        result = array.astype(dtype)
        if not np.array_equal(result.astype(array.dtype), array) or _sign_lost(array, result):
            raise ApproxNormError(
                f"{where} has dtype {array.dtype} and holds a number that {dtype}, which the model"
                " wants, does not have"
            )
    if result is None:
        raise ApproxNormError(
            f"{where} has dtype {array.dtype}; the model wants {dtype}, so convert it"
        )
    return np.ascontiguousarray(result)


def _sign_lost(array: np.ndarray, result: np.ndarray) -> bool:
    """int64 -1 becomes uint64 2**64 - 1 and comes back as -1."""
    return bool(((array < 0) != (result < 0)).any()) if array.dtype.kind != "b" else False


def _listed(names: Any) -> str:
    names = list(names)
    shown = ", ".join(repr(n) for n in names[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return shown + more or "nothing"
