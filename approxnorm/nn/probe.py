"""What a module computes, found out by running it: RMSNorm over the last axis, or something else.

A clone of the module, with random weights of its own, gets random rows at many scales and in
several leading shapes, in eval mode and some in training. It is an RMSNorm if every element of what
comes out is

    w * x / sqrt(mean(x**2) + eps)          or, with adds_one,          (1 + w) * x / ...

within float error. eps is measured on rows far below it. The module itself is not run, and the
random numbers of others are left as they are.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from approxnorm.nn.obstacles import FLOATS, plain_dtype, weight_of

EPS_NAMES = ("eps", "variance_epsilon", "epsilon", "norm_eps", "layer_norm_epsilon")

_FLOAT32_ERROR = 1e-5  # sums of up to a million squares included
_NARROW_ERROR = 4.0  # of the dtype's epsilon: naive code rounds four times
_TINY = 2.0**-60  # its square is still a normal float32
_NO_EPS = 1e-18  # F.normalize, say, has a limit there that no activations reach
_SAME_EPS = 1e-3
_PEAK = _LARGE_WEIGHT = 2.0**20  # far beyond any clamp that one might set


@dataclass(frozen=True)
class Norm:
    """An RMSNorm over the last axis: rows of ``dim``; weight w, or 1 + w with ``adds_one``."""

    dim: int
    eps: float
    adds_one: bool = False


def probe(module: nn.Module) -> Norm | str:
    """The RMSNorm that a module without obstacle computes, or why it is none."""
    with _quiet(weight_of(module).device):
        clone = _Clone(module)
        try:
            adds_one = clone.adds_one()
            if isinstance(adds_one, str):
                return adds_one
            eps = _as_written(clone.eps(adds_one), module)
            norm = Norm(clone.dim, eps, adds_one)
            return clone.difference(norm) or norm
        except Exception as error:
            return _raised(error)


def verify(module: nn.Module, norm: Norm) -> str | None:
    """Why a module without obstacle does not compute ``norm``, or None if it does."""
    with _quiet(weight_of(module).device):
        try:
            return _Clone(module).difference(norm)
        except Exception as error:
            return _raised(error)


def _raised(error: Exception) -> str:
    line = (str(error).strip() or "no message").splitlines()[0]
    return f"running it on random rows raised {type(error).__name__}: {line}"


class _Clone:
    """A module's code with a weight that can be changed, run on rows in float64 terms."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._own = weight_of(module).detach()
        self.dim = self._own.numel()
        self._random = torch.Generator().manual_seed(self.dim)
        self._bases: dict[tuple[int, ...], Tensor] = {}
        # Where a weight of -1 cancels 1 + w, rounding would look like another function.
        size = self._uniform((self.dim,), 0.25, 0.75)
        self._weight = torch.where(self._uniform((self.dim,), -1, 1) < 0, -size, 2 * size)
        narrow = self._own.dtype not in (torch.float64, torch.float32)
        self._wide = torch.float32 if narrow else self._own.dtype
        self._dtypes = [self._wide, self._own.dtype] if narrow else [self._wide]

    def adds_one(self) -> bool | str:
        """Whether 1 is added to the weight; a reason if neither fits ordinary rows."""
        got, x, w = self._run_in_any_shape([8.0, 32.0, 128.0])  # far above most eps
        if isinstance(got, str):
            return got
        for adds_one in (False, True):
            if _agree(got, x, w, Norm(self.dim, 0.0, adds_one), slack=0.05):
                return adds_one
        if _is_layernorm(got, x, w):
            return "it subtracts the mean, as LayerNorm does"
        return (
            "on random rows it computes neither weight * x / rms nor (1 + weight) * x / rms over"
            " the last axis"
        )

    def eps(self, adds_one: bool) -> float:
        """eps as rows far below it show it; ``difference`` tells whether that makes sense."""
        got, x, w = self._run_in_any_shape([_TINY])
        if isinstance(got, str):
            return 0.0
        square = x.square().mean(-1, keepdim=True)
        found = float(((x * (w + adds_one) / got).square() - square).median())
        return found if found > _NO_EPS else 0.0

    def _run_in_any_shape(self, scales: list[float]) -> tuple[Tensor | str, Tensor, Tensor]:
        """The first run that does not raise: some want a batch, heads and rows."""
        for leading in self._leading_shapes():
            try:
                return self._run(self._rows(leading, scales), self._weight, self._wide)
            except Exception as error:
                raised = error
        raise raised

    def difference(self, norm: Norm) -> str | None:
        """Why the module is not ``norm``: at every scale, near eps, in its dtype, as it stands."""
        if norm.dim != self.dim:
            return f"its weight has {self.dim} elements, not {norm.dim}"
        for dtype in self._dtypes:
            reason = self._differs(norm, dtype)
            if reason:
                return reason
        return None

    def _differs(self, norm: Norm, dtype: torch.dtype) -> str | None:
        raised: Exception | None = None
        ran = False
        for leading in self._leading_shapes():
            try:
                reason = self._differs_in_shape(norm, leading, dtype)
            except Exception as error:  # some want a batch, heads and rows
                raised = error
            else:
                if reason:
                    return reason
                ran = True
        if not ran and raised is not None:
            raise raised
        return None

    def _differs_in_shape(
        self, norm: Norm, leading: tuple[int, ...], dtype: torch.dtype
    ) -> str | None:
        for weight in (self._weight, self._own):
            for scales in self._scales(norm.eps, dtype):
                got, x, w = self._run(self._rows(leading, scales), weight, dtype)
                if isinstance(got, str):
                    return got
                if not _agree(got, x, w, norm, _tolerance(dtype), torch.finfo(dtype).tiny):
                    return _where(norm, leading, dtype)
        if dtype is not self._wide:
            return None
        return self._limits(norm, leading) or self._training(norm, leading)

    def _training(self, norm: Norm, leading: tuple[int, ...]) -> str | None:
        """Why it is another function in training: it drops elements, or adds noise, say."""
        run = self._run(self._rows(leading, [1.0]), self._weight, self._wide, training=True)
        got, x, w = run
        if isinstance(got, Tensor) and _agree(got, x, w, norm, _tolerance(self._wide)):
            return None
        return "in training it computes something else, which would be lost"

    def _limits(self, norm: Norm, leading: tuple[int, ...]) -> str | None:
        """Why large results differ: those of rows with one large element, by large weights."""
        rows = self._rows(leading, [1.0])
        rows[..., -1] *= _PEAK
        got, x, w = self._run(rows, self._weight * _LARGE_WEIGHT, self._wide)
        if isinstance(got, str):
            return got
        if _agree(got, x, w, norm, _tolerance(self._wide)):
            return None
        return _where(norm, leading, self._wide) + " where results are large"

    def _leading_shapes(self) -> list[tuple[int, ...]]:
        """Sizes that are not the row's: a weight then cannot lie along another axis unseen."""
        a, b, c = [n for n in (2, 3, 5, 7) if n != self.dim][:3]
        return [(c,), (a, b), (a, b, a)]  # at least as many rows as scales

    def _scales(self, eps: float, dtype: torch.dtype) -> Iterator[list[float]]:
        """Magnitudes of rows, those of one run together: rows must not see each other."""
        narrow = dtype in (torch.float16, torch.bfloat16)
        yield [1.0, 2.0**-4, 2.0**4] if narrow else [1.0, 2.0**-10, 2.0**10]
        # Squares stay normal numbers of the dtype.
        least = 2.0**-6 if dtype == torch.float16 else _TINY
        root = math.sqrt(eps) if eps else 2.0**-30
        near = (2.0**-12, 2.0**-3, 1.0, 4.0, 2.0**7) if eps else (1.0, 2.0**30)
        yield [max(root * factor, least) for factor in near]

    def _rows(self, leading: tuple[int, ...], scales: list[float]) -> Tensor:
        """Rows with a mean of their own, no element near 0, each at the next of the scales."""
        if leading not in self._bases:
            shape = (*leading, self.dim)
            size = self._uniform(shape, 0.5, 2.0)
            self._bases[leading] = torch.where(self._uniform(shape, 0, 1) < 0.3, -size, size)
        each = torch.arange(math.prod(leading)).reshape(*leading, 1) % len(scales)
        return self._bases[leading] * torch.tensor(scales, dtype=torch.float64)[each]

    def _uniform(self, shape: tuple[int, ...], low: float, high: float) -> Tensor:
        values = torch.rand(shape, generator=self._random, dtype=torch.float64)
        return low + (high - low) * values

    def _run(
        self, rows: Tensor, weight: Tensor, dtype: torch.dtype, *, training: bool = False
    ) -> tuple[Tensor | str, Tensor, Tensor]:
        """What the module makes of rows in a dtype, and the rows and weight that it saw: float64.

        A sentence in the result's place if it is no tensor of the rows' shape.
        """
        x, w = rows.to(self._own.device, dtype), weight.to(self._own.device, dtype)
        seen = (x.to("cpu", torch.float64), w.to("cpu", torch.float64))
        got = _cloned(self._module, w).train(training)(x)
        if not isinstance(got, Tensor):
            return f"it returns a {type(got).__name__}; a norm returns one tensor", *seen
        if got.shape != x.shape:
            return f"it makes {tuple(got.shape)} of {tuple(x.shape)}; a norm keeps shapes", *seen
        return got.detach().to("cpu", torch.float64), *seen


def _cloned(module: nn.Module, weight: Tensor) -> nn.Module:
    """A module of the same class and state that shares no tensor with it.

    Not deepcopy, which follows every reference (to the whole model, say) and refuses some.
    """
    clone = copy.copy(module)
    state = vars(clone)
    own = nn.Parameter(weight.clone(), requires_grad=False)
    state["_parameters"] = {name: own if name == "weight" else None for name in module._parameters}
    state["_buffers"] = {n: None if b is None else b.clone() for n, b in module._buffers.items()}
    state["_modules"] = copy.deepcopy(module._modules)
    return clone


@contextmanager
def _quiet(device: torch.device) -> Iterator[None]:
    """Without gradients, autocast, warnings and effects on random numbers."""
    devices = [device] if device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=devices),
        torch.no_grad(),
        torch.autocast(device.type, enabled=False),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def _agree(got: Tensor, x: Tensor, w: Tensor, norm: Norm, slack: float, tiny: float = 0.0) -> bool:
    """Whether every element is the norm's, within ``tiny`` + ``slack`` * |x| / rms * (|w| + 1)."""
    normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + norm.eps)
    error = (got - normal * (w + norm.adds_one)).abs()
    return bool((error <= tiny + slack * normal.abs() * (w.abs() + norm.adds_one)).all())


def _is_layernorm(got: Tensor, x: Tensor, w: Tensor) -> bool:
    centred = x - x.mean(-1, keepdim=True)
    normal = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True))
    size = 0.05 * (w.abs() + 1)
    return any(bool(((got - normal * (w + one)).abs() <= size).all()) for one in (0, 1))


def _tolerance(dtype: torch.dtype) -> float:
    if dtype in (torch.float64, torch.float32):
        return _FLOAT32_ERROR
    return _NARROW_ERROR * torch.finfo(dtype).eps


def _where(norm: Norm, leading: tuple[int, ...], dtype: torch.dtype) -> str:
    shape = (*leading, norm.dim)
    one = "(1 + weight)" if norm.adds_one else "weight"
    return (
        f"on some random rows of shape {shape} and dtype {plain_dtype(dtype)} it does not compute"
        f" {one} * x / sqrt(mean(x^2) + {norm.eps:g}) over the last axis"
    )


def _as_written(measured: float, module: nn.Module) -> float:
    """eps as the module's attribute says, if that is what was measured; else a short decimal."""
    if measured == 0:
        return 0.0
    named = [getattr(module, name, None) for name in EPS_NAMES]
    known = [float(v) for v in named if isinstance(v, int | float) and not isinstance(v, bool)]
    known += [torch.finfo(dtype).eps for dtype in FLOATS]
    near = [v for v in known if abs(v - measured) <= _SAME_EPS * measured]
    return near[0] if near else float(f"{measured:.4g}")
