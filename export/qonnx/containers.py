"""How codes lie in QONNX's arrays: in integers, or in float32 that holds integers."""

from __future__ import annotations

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format


def datatype_name(form: Format) -> str:
    """The QONNX datatype of a format's codes: INT8, UINT4, ..."""
    return f"{'INT' if form.signed else 'UINT'}{form.width}"


def fitting_name(lo: int, hi: int) -> str:
    """The narrowest QONNX datatype that holds the integers from lo to hi."""
    if lo >= 0:
        return f"UINT{max(hi.bit_length(), 1)}"
    return f"INT{max((-lo - 1).bit_length(), hi.bit_length()) + 1}"


def real_name(form: Format) -> str:
    """The QONNX datatype of a format's reals: FIXED<w,i> where there is one, else FLOAT32.

    QONNX has signed fixed point with at least one fraction bit only.
    """
    if form.signed and form.is_fixed_point and (form.frac_bits or 0) > 0:
        return f"FIXED<{form.width},{form.width - (form.frac_bits or 0)}>"
    return "FLOAT32"


def from_container(where: str, values: np.ndarray) -> np.ndarray:
    """The integers that an array holds; ApproxNormError where it does not hold any exactly."""
    values = np.asarray(values)
    if values.dtype.kind in "iu":
        return values
    if values.dtype.kind != "f":
        raise ApproxNormError(f"{where} has dtype {values.dtype}; allowed: integers or float32")
    if not (np.isfinite(values) & (values == np.rint(values))).all():
        bad = values[~(np.isfinite(values) & (values == np.rint(values)))][0]
        raise ApproxNormError(f"{where} holds {bad}; allowed: codes, which are integers")
    check_container(where, values, values.dtype)
    return values.astype(np.int64)


def check_container(where: str, codes: np.ndarray, dtype: np.dtype) -> None:
    """Refuse codes that an array of the dtype would not hold; ApproxNormError names the first."""
    lo, hi = _limits(dtype)
    outside = (codes < lo) | (codes > hi)
    if outside.any():
        raise ApproxNormError(
            f"{where} holds the code {int(codes[outside][0])}; {dtype} holds every integer from"
            f" {lo} to {hi} only: use integer tensors, or narrower formats"
        )


def _limits(dtype: np.dtype) -> tuple[int, int]:
    if dtype.kind == "f":
        exact = 1 << (np.finfo(dtype).nmant + 1)
        return -exact, exact
    info = np.iinfo(dtype)
    return info.min, info.max
