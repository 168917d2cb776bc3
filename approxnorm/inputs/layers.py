"""Norm layers in an activation file: which keys belong together, and what each must look like."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.inputs.npy import open_npy
from approxnorm.inputs.npz import open_npz
from approxnorm.inputs.stored import Stored
from approxnorm.inputs.tensors import open_safetensors

FIELDS = ("x", "gamma", "eps")
SUFFIXES = (".npz", ".npy", ".safetensors")
# float64 holds every integer up to here exactly.
_EXACT_INTEGER = 1 << 53

Group = dict[str, Stored]


@dataclass(frozen=True, eq=False)
class Layer:
    """One norm's activations, opened lazily: gamma and eps are read, x is streamed by blocks().

    name: the layer's name in the file, or the file's stem.
    dim: channels, the last axis of x. rows: the product of its leading axes (may be 0).
    gamma: float32 or float64 (dim,), as stored (narrower floats are widened to float32, integers
    to float64); None if the file has none.
    eps: the shortest decimal of the stored value, finite and not negative; None if the file has
    none.
    is_codes: whether x is stored as integers, that is, holds codes and not real values.
    source: the file, as it was given.
    """

    name: str
    dim: int
    rows: int
    gamma: np.ndarray | None
    eps: float | None
    is_codes: bool
    source: Path
    _x: Stored = field(repr=False)

    def blocks(self, max_elements: int = 1 << 20) -> Iterator[np.ndarray]:
        """Return an iterator over the rows in order, as fresh C-contiguous (r, dim) blocks.

        Blocks are int64 if is_codes, else float32. All but the last have
        max(1, max_elements // dim) rows; 0 rows give no block. Each call starts anew.

        Raises ApproxNormError if max_elements < 1 and, while streaming, at the block with the
        first NaN, infinity, value beyond float32 or code beyond int64 (it names file, layer and
        row, counted over the flattened leading axes), or when the file is found to be damaged.
        """
        if max_elements < 1:
            raise ApproxNormError(f"max_elements is {max_elements}; it must be at least 1")
        return self._x.blocks(max(1, max_elements // self.dim))


def open_activations(path: str | Path) -> list[Layer]:
    """Open an activation file and return its layers in the order of the file.

    `.npz` and `.safetensors` hold NAME.x, and may hold NAME.gamma and NAME.eps, for any number of
    layers (NAME may have dots); a `.safetensors` with one tensor of any other name is one layer of
    that name; `.npy` is one layer named by the file's stem. x has one axis (one row) or more.

    Raises ApproxNormError, naming file and layer, for a missing, foreign or damaged file, a key
    that belongs to no layer, and an x, gamma or eps of the wrong shape, dtype or value.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ApproxNormError(
            f"{path} has the suffix {path.suffix!r}; activations must be in one of "
            f"{', '.join(SUFFIXES)}"
        )
    require_file(path)
    if suffix == ".npy":
        groups = {path.stem: {"x": open_npy(path)}}
    elif suffix == ".npz":
        groups = _group(path, open_npz(path))
    else:
        groups = _group_tensors(path, open_safetensors(path))
    if not groups:
        raise ApproxNormError(f"{path} holds no arrays; it must hold NAME.x for each layer")
    return [_layer(path, name, group) for name, group in groups.items()]


def require_file(path: Path) -> None:
    """Raise ApproxNormError unless path is an existing regular file."""
    # os.path, because Path's methods raise for a name that is too long or has a null character.
    if not os.path.isfile(path):
        what = "is not a regular file" if os.path.exists(path) else "does not exist"
        raise ApproxNormError(f"{path} {what}; give the path of a file that can be read")


def _group_tensors(path: Path, tensors: list[tuple[str, Stored]]) -> dict[str, Group]:
    if len(tensors) == 1 and _split(tensors[0][0]) is None:
        key, tensor = tensors[0]
        return {key: {"x": tensor}}
    return _group(path, tensors)


def _group(path: Path, arrays: list[tuple[str, Stored]]) -> dict[str, Group]:
    """Sort keys into layers, by first appearance. Unknown keys are errors: they may be typos."""
    groups: dict[str, Group] = {}
    for key, array in arrays:
        parts = _split(key)
        if parts is None:
            raise ApproxNormError(
                f"{path} holds the key {key!r}; allowed are NAME.x, NAME.gamma and NAME.eps, "
                f"so rename or remove it"
            )
        name, part = parts
        group = groups.setdefault(name, {})
        if part in group:
            raise ApproxNormError(f"{path} holds the key {key!r} more than once; keep one of them")
        group[part] = array
    return groups


def _split(key: str) -> tuple[str, str] | None:
    """Split NAME.x, NAME.gamma or NAME.eps at the last dot; None if key has no such form."""
    name, _, part = key.rpartition(".")
    return (name, part) if name and part in FIELDS else None


def _layer(path: Path, name: str, group: Group) -> Layer:
    where = f"{path}: layer {name!r}"
    if "x" not in group:
        raise ApproxNormError(
            f"{where} has {' and '.join(sorted(group))} but no x; add {name + '.x'!r} or remove it"
        )
    x = group["x"]
    if not x.shape or x.dim == 0:
        raise ApproxNormError(
            f"{where} has x of shape {x.shape}; it must have a last axis of at least one channel"
        )
    gamma = _gamma(where, group["gamma"], x.dim) if "gamma" in group else None
    eps = _eps(where, group["eps"]) if "eps" in group else None
    return Layer(name, x.dim, x.rows, gamma, eps, x.is_integer, path, x)


def _gamma(where: str, stored: Stored, dim: int) -> np.ndarray:
    if stored.shape != (dim,):
        found = f"{stored.dim} values" if len(stored.shape) == 1 else f"shape {stored.shape}"
        raise ApproxNormError(
            f"{where} has gamma of {found}; its x has {dim} channels, so gamma must have "
            f"shape ({dim},)"
        )
    gamma = stored.whole()
    if gamma.dtype.kind == "f":
        return gamma if gamma.itemsize == 8 else gamma.astype(np.float32, copy=False)
    if gamma.max() > _EXACT_INTEGER or gamma.min() < -_EXACT_INTEGER:
        raise ApproxNormError(f"{where} has integers in gamma beyond 2^53; store it as float64")
    return gamma.astype(np.float64)


def _eps(where: str, stored: Stored) -> float:
    if stored.shape not in ((), (1,)):
        raise ApproxNormError(f"{where} has eps of shape {stored.shape}; it must be one number")
    # The shortest decimal of the stored type: a float32 1e-5 was meant as 1e-5, not 9.99999974e-6.
    eps = float(str(stored.whole().reshape(-1)[0]))
    if eps < 0:
        raise ApproxNormError(f"{where} has eps = {eps}; it must be 0 or positive")
    return eps
