"""What must hold of a norm so that it can be replaced; what does not is told as a reason."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from approxnorm.export.norms.constants import Constants
from approxnorm.export.norms.view import View, name_of
from approxnorm.export.norms.wiring import Wiring


class NotReplaceableError(Exception):
    """A norm that is found and cannot be replaced; its message is the reason."""


@dataclass(frozen=True)
class Model:
    """One model, prepared for the search; nothing in it is changed."""

    constants: Constants
    view: View
    wiring: Wiring

    def number(self, value: ir.Value) -> float | None:
        """The value of a constant with one element, else None."""
        if not self.is_constant(value) or (value.shape is not None and size(value.shape) != 1):
            return None
        held = self.constants.value(name_of(value))
        return float(held.reshape(())) if held.size == 1 else None

    def is_constant(self, value: ir.Value) -> bool:
        """Whether a value is the same in every run."""
        return name_of(value) in self.constants

    def constant(self, value: ir.Value, what: str) -> np.ndarray:
        """A value that must be a constant; if it is none, `what` begins the reason."""
        if not self.is_constant(value):
            raise NotReplaceableError(f"{what} is {self.constants.why_not(name_of(value))}")
        return self.constants.value(name_of(value))

    def place(self, node: ir.Node) -> int:
        """Where a node is in the main graph; what is in no graph of it comes last."""
        return self.view.position.get(id(node), len(self.view.position))

    def parameters(self, gamma: ir.Value | None) -> list[str]:
        """The initializers that gamma is computed from; none if it is no constant."""
        if gamma is None or not self.is_constant(gamma):
            return []
        return self.constants.parameters(name_of(gamma))


def size(shape: ir.Shape) -> int | None:
    """How many elements there are; None if it is not known."""
    static = [each for each in shape if isinstance(each, int)]
    return math.prod(static) if len(static) == len(shape) else None


def check_float32(model: Model, names: Iterable[str], between: Iterable[str] = ()) -> None:
    """All values must be float32; those in between may be float64 as well."""
    for name in (*names, *between):
        dtype = model.view.dtype(name)
        if dtype is None and name not in between:
            raise NotReplaceableError("its data type is not known: shape inference stops before it")
        if dtype not in (None, ir.DataType.FLOAT) and not (
            name in between and dtype == ir.DataType.DOUBLE
        ):
            raise NotReplaceableError(f"it is in {dtype.name.lower()}, not in float32")


def check_last_axis(axes: list[int] | None, x: ir.Value) -> None:
    """The axes that a norm is taken over, None for all, must be the last one alone."""
    rank = len(x.shape) if x.shape is not None else None
    if axes is None:
        axes = list(range(rank)) if rank is not None else []
    if len(axes) == 1 and axes[0] >= 0 and rank is None:
        raise NotReplaceableError(f"it is taken over axis {axes[0]} of a value of unknown rank")
    if axes not in ([-1], [(rank or 0) - 1]):
        raise NotReplaceableError(f"it is taken over the axes {axes}, not over the last one")


def last_size(x: ir.Value) -> int | None:
    """The hidden size, if it is static."""
    last = x.shape[-1] if x.shape is not None and len(x.shape) else None
    return last if isinstance(last, int) else None


def is_row(shape: Iterable[object]) -> bool:
    """Whether a tensor differs along its last axis only, and has more than one element."""
    *leading, last = shape if list(shape) else [1]
    return last != 1 and all(each == 1 for each in leading)


def check_no_axis_added(what: str, constant: np.ndarray, x: ir.Value) -> None:
    """A constant with more axes than x would give them to the result, which has those of x."""
    if x.shape is None and constant.ndim > 1:
        raise NotReplaceableError(
            f"{what} has {constant.ndim} axes, and how many there are of what is normalised is not"
            " known"
        )
    if x.shape is not None and constant.ndim > len(x.shape):
        raise NotReplaceableError(f"{what} has more axes than what is normalised")


def gamma_row(gamma: np.ndarray, x: ir.Value) -> np.ndarray:
    """gamma as float32 (dim,), from what a graph multiplies by: a row or one number."""
    check_no_axis_added("gamma", gamma, x)
    hidden = last_size(x)
    if gamma.size == 1:
        if hidden is None:
            raise NotReplaceableError("its hidden size is dynamic")
        gamma = np.broadcast_to(gamma.reshape(()), (hidden,))
    if gamma.ndim > 1 and not is_row(gamma.shape):
        raise NotReplaceableError(f"gamma differs between rows: its shape is {gamma.shape}")
    if hidden is not None and gamma.shape[-1] != hidden:
        raise NotReplaceableError(f"gamma has {gamma.shape[-1]} elements and a row has {hidden}")
    if gamma.dtype != np.float32:
        raise NotReplaceableError(f"gamma is in {gamma.dtype}, not in float32")
    if not np.isfinite(gamma).all():
        raise NotReplaceableError("gamma holds numbers that are not finite")
    return np.ascontiguousarray(gamma.reshape(-1))


def ones(x: ir.Value) -> np.ndarray:
    """The gamma of a norm that has none."""
    return gamma_row(np.ones(1, np.float32), x)


def shortest(stored: np.generic) -> float:
    """The shortest decimal that gives the number that is stored."""
    return float(str(stored))


def positive(eps: float) -> float:
    """eps, which must be a number that can be under a root."""
    if not 0 <= eps < float("inf"):
        raise NotReplaceableError(f"eps is {eps}, not a number from 0 on")
    return eps


def constant_eps(model: Model, eps: ir.Value | None) -> float:
    """eps, which must be one constant number; 0 if there is none."""
    if eps is None:
        return 0.0
    held = model.constant(eps, "eps")
    if held.size != 1:
        raise NotReplaceableError(f"eps is not one number: its shape is {held.shape}")
    return positive(shortest(held.reshape(-1)[0]))
