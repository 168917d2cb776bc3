"""Norms, and modules that are not quite norms, as code bases have them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Weighted(nn.Module):
    """One weight, which is not all ones."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, dim))
        self.variance_epsilon = eps


class LlamaNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        normal = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * normal.to(x.dtype)


class GemmaNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        normal = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (normal * (1.0 + self.weight.float())).type_as(x)


class NaiveNorm(Weighted):
    """All in the dtype of x."""

    def forward(self, x: Tensor) -> Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.variance_epsilon) * self.weight


class UnnamedEps(nn.Module):
    """eps is a number in the code: only running it tells."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 3e-7)


class Heads(LlamaNorm):
    """Takes (batch, heads, rows, dim) alone."""

    def forward(self, x: Tensor) -> Tensor:
        batch, heads, rows, dim = x.shape
        return super().forward(x.reshape(batch * heads * rows, dim)).reshape(x.shape)


class UnitNorm(Weighted):
    """L2 with sqrt(dim): the same as RMSNorm without eps."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x, dim=-1) * self.weight.numel() ** 0.5 * self.weight


# --- not RMSNorm ----------------------------------------------------------------------------------


class L2Norm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x, dim=-1) * self.weight


class ScaleNorm(Weighted):
    """A scale for each channel, no norm."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


class CentredNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, x.shape[-1:], self.weight, None, 1e-5)


class BiasedNorm(LlamaNorm):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.bias


class ShiftedNorm(LlamaNorm):
    """A constant is added; it has no parameter."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1e-2


class OuterEpsNorm(Weighted):
    """eps outside the root, as in the first code of RMSNorm."""

    def forward(self, x: Tensor) -> Tensor:
        root = x.square().mean(-1, keepdim=True).sqrt()
        return x / (root + self.variance_epsilon) * self.weight


class LimitedNorm(Weighted):
    """A limit in eps's place."""

    def forward(self, x: Tensor) -> Tensor:
        square = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(square.clamp(min=self.variance_epsilon)) * self.weight


class ClampedNorm(LlamaNorm):
    """Its result is limited where ordinary rows never get."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).clamp(-50000, 50000)


class DroppingNorm(LlamaNorm):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), 0.1, self.training)


class PartialNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        part = x[..., : x.shape[-1] // 2]
        return x * torch.rsqrt(part.square().mean(-1, keepdim=True) + 1e-5) * self.weight


class GroupedNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        groups = x.reshape(*x.shape[:-1], 2, -1)
        normal = groups * torch.rsqrt(groups.square().mean(-1, keepdim=True) + 1e-5)
        return normal.reshape(x.shape) * self.weight


class BatchwiseNorm(Weighted):
    """The mean square is that of all but the first axis."""

    def forward(self, x: Tensor) -> Tensor:
        axes = tuple(range(1, x.ndim))
        return x * torch.rsqrt(x.square().mean(axes, keepdim=True) + 1e-5) * self.weight


class ChannelsFirstNorm(Weighted):
    """Over axis 1; what else is, goes with the last one."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-5) * self.weight


class ImageNorm(Weighted):
    """(batch, dim, height, width), the weight along axis 1."""

    def forward(self, x: Tensor) -> Tensor:
        normal = x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-5)
        return normal * self.weight[:, None, None]


class GatedNorm(LlamaNorm):
    """As in Qwen3-Next and Mamba2: a second input, needed or not."""

    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        gated = x if gate is None else x * nn.functional.silu(gate)
        return super().forward(gated)


class ResidualNorm(LlamaNorm):
    def forward(self, x: Tensor, *more: Any) -> Any:
        return super().forward(x), x


class PairNorm(LlamaNorm):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x), x


class WeightFirstNorm(Weighted):
    """The weight multiplies before the mean square is taken."""

    def forward(self, x: Tensor) -> Tensor:
        scaled = x * self.weight
        return scaled * torch.rsqrt(scaled.square().mean(-1, keepdim=True) + 1e-5)


class AbsoluteNorm(Weighted):
    """The weight's magnitude counts."""

    def forward(self, x: Tensor) -> Tensor:
        normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
        return normal * self.weight.abs()


class FrozenNorm(LlamaNorm):
    """What it multiplies by was taken from the weight when it was made."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.taken = self.weight.detach().clone()

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.taken


class StatefulNorm(LlamaNorm):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        assert isinstance(self.steps, Tensor)
        self.steps += 1
        return super().forward(x)


class BrokenNorm(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("needs a GPU\nand more")


class RenamedNorm(nn.Module):
    """A norm whose weight has another name."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.scale


class LayerScale(Weighted):
    """No norm, and not called one."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight
