"""Single arrays: read whole, written atomically; and the file that ships with the package."""

from importlib import resources
from pathlib import Path

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.inputs.layers import require_file
from approxnorm.inputs.npy import open_npy
from approxnorm.inputs.stored import check_dtype
from approxnorm.output import write_atomically

DEFAULT_FILE = "smollm2_norm_inputs.npz"


def load_array(path: str | Path, *, what: str) -> np.ndarray:
    """Return a small .npy file's array: stored shape and dtype, native byte order, C order.

    `what` names it in messages ("gamma"). Raises ApproxNormError if the file is missing, damaged
    or no .npy, or the values are not finite real numbers.
    """
    path = Path(path)
    if path.suffix.lower() != ".npy":
        raise ApproxNormError(
            f"{what}: {path} has the suffix {path.suffix!r}; it must be a .npy file"
        )
    try:
        require_file(path)
        return open_npy(path).whole()
    except ApproxNormError as error:
        raise ApproxNormError(f"{what}: {error}") from error


def save_array(path: str | Path, array: np.ndarray) -> None:
    """Write array to a .npy file: the whole of it or, on any failure, nothing.

    Raises ApproxNormError if the suffix is not .npy, the dtype is not a real number, or the
    folder cannot be written to.
    """
    path = Path(path)
    if path.suffix.lower() != ".npy":
        raise ApproxNormError(f"{path} has the suffix {path.suffix!r}; it must be a .npy file")
    check_dtype(str(path), array.dtype)
    write_atomically(path, lambda out: np.lib.format.write_array(out, array, allow_pickle=False))


def default_activations() -> Path:
    """Return the path of the activations that ship with the package (see data/README.md).

    Raises ApproxNormError if the installation lacks the file.
    """
    path = Path(str(resources.files("approxnorm").joinpath("data", DEFAULT_FILE)))
    if not path.is_file():
        raise ApproxNormError(f"{path} is missing; reinstall approxnorm")
    return path
