"""The safetensors format, read in blocks. The safetensors package is loaded only here."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.inputs.stored import ALLOWED_DTYPES, Stored, file_blocks

_DTYPES = {
    "F16": "<f2",
    "BF16": "<u2",
    "F32": "<f4",
    "F64": "<f8",
    **{f"{sign}{8 * size}": f"<{sign.lower()}{size}" for sign in "IU" for size in (1, 2, 4, 8)},
}


def open_safetensors(path: Path) -> list[tuple[str, Stored]]:
    """Return (key, tensor) of each tensor of a file, unread, in the order of the data.

    Raises ApproxNormError if the package is missing, the file is not valid, or a dtype is not
    a real number that NumPy or a bit shift can give.
    """
    _validate(path)
    # The package cannot hand bfloat16 to NumPy, and slices only along whole axes; so it checks the
    # header (bounds, overlaps, sizes), and the blocks are then read at the offsets that gives.
    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        text = stream.read(length)
    entries = json.loads(text, object_pairs_hook=lambda pairs: _unique(path, pairs))
    entries.pop("__metadata__", None)
    in_order = sorted(entries.items(), key=lambda entry: entry[1]["data_offsets"])
    return [(key, _open_tensor(path, key, entry, 8 + length)) for key, entry in in_order]


def _validate(path: Path) -> None:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ApproxNormError(
            f"{path} needs the safetensors package, which is not installed; "
            f"run pip install 'approxnorm[safetensors]'"
        ) from error
    try:
        with safe_open(path, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise ApproxNormError(
            f"{path} is damaged or not a safetensors file ({error}); write it again"
        ) from error


def _unique(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise ApproxNormError(f"{path} holds the key {key!r} more than once; keep one of them")
    return dict(pairs)


def _open_tensor(path: Path, key: str, entry: dict[str, Any], data_start: int) -> Stored:
    where = f"{path}: {key!r}"
    name = entry["dtype"]
    if name not in _DTYPES:
        raise ApproxNormError(f"{where} has dtype {name}; allowed are {ALLOWED_DTYPES}")
    shape, dtype = tuple(entry["shape"]), np.dtype(_DTYPES[name])
    blocks = file_blocks(path, where, data_start + entry["data_offsets"][0], dtype, shape)
    return Stored(where, shape, dtype, blocks, bf16=name == "BF16")
