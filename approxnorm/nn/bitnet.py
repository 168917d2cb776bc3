"""A BitNet-style block: ternary weights, and a norm with the hardware's arithmetic before each.

BitNet b1.58 (Ma et al., The Era of 1-bit LLMs: All Large Language Models are in 1.58 Bits,
arXiv:2402.17764) has ternary weights and 8-bit activations with a scale of each token. One more
RMSNorm before every linear layer lets float models be fine-tuned to them (Steinmetz et al., An
Extra RMSNorm is All You Need for Fine Tuning to 1.58 Bits, arXiv:2505.08823). Here that norm is a
QuantRMSNorm; the rest is put together from Brevitas' parts.
"""

from __future__ import annotations

from typing import Any

import brevitas.nn as qnn
import torch
from brevitas.core.function_wrapper import TensorClampSte
from brevitas.core.stats import AbsAve, AbsMax
from brevitas.inject.enum import (
    RestrictValueType,
    ScalingImplType,
    ScalingPerOutputType,
    StatsOp,
)
from brevitas.nn.mixin import ActQuantType, WeightQuantType
from brevitas.proxy.runtime_quant import DynamicActQuantProxyFromInjector
from brevitas.quant.base import NarrowIntQuant
from brevitas.quant.solver import ActQuantSolver, WeightQuantSolver
from brevitas.quant_tensor import QuantTensor
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention, silu

from approxnorm.errors import ApproxNormError
from approxnorm.nn.quant_rmsnorm import QuantRMSNorm
from approxnorm.spec import RMSNormSpec

_LEAST_SCALE = 1e-5  # the epsilon of BitNet's scales


class FixedAbsMean(nn.Module):
    """The mean magnitude of a tensor, without a gradient.

    With that of AbsAve, Brevitas' own, training first learns and then loses it all: every weight is
    pushed by what the scale alone should do.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stats = AbsAve()

    def forward(self, x: Tensor) -> Tensor:
        mean: Tensor = self.stats(x.detach())
        return mean


class AbsMeanTernaryQuant(NarrowIntQuant, WeightQuantSolver):
    """Weights to {-1, 0, 1} times one scale: BitNet b1.58's absmean quantiser.

    scale = max(mean |w|, 1e-5); code = w / scale, rounded half to even, limited to -1..1; float32.
    Backward: straight through, as in BitNet: the weights' gradient is that of their values.
    """

    bit_width = 2
    tensor_clamp_impl = TensorClampSte  # weights past the ends go on learning
    scaling_impl_type = ScalingImplType.STATS
    scaling_stats_op = StatsOp.AVE
    scaling_stats_impl = FixedAbsMean  # in place of AVE's own
    scaling_per_output_type = ScalingPerOutputType.TENSOR
    restrict_scaling_type = RestrictValueType.FP
    scaling_min_val = _LEAST_SCALE


class RowAbsMaxScaling(nn.Module):
    """The scale of each row: max(max |x|, scaling_min_val) / threshold, over the last axis.

    x: (..., dim). Returns (..., 1), of x's dtype, without a gradient. threshold: the largest code.
    """

    def __init__(self, scaling_min_val: float) -> None:
        super().__init__()
        self.scaling_min_val = scaling_min_val
        self.stats = AbsMax(stats_reduce_dim=-1, keepdim=True)

    def forward(self, x: Tensor, threshold: Tensor) -> Tensor:
        largest: Tensor = self.stats(x.detach()).clamp(min=self.scaling_min_val)
        return largest / threshold


class RowAbsMaxInt8Quant(NarrowIntQuant, ActQuantSolver):
    """Activations to int8 codes with a scale for each row: BitNet b1.58's absmax quantiser.

    scale = max(max |x|, 1e-5) / 127 over the row; code = x / scale, rounded half to even, limited
    to -127..127; both divisions are float32's. A row of zeros gives zeros. Backward: straight
    through, as in BitNet.
    """

    proxy_class = DynamicActQuantProxyFromInjector  # no scale outlives its input
    bit_width = 8
    scaling_impl = RowAbsMaxScaling
    restrict_scaling_type = RestrictValueType.FP
    scaling_per_output_type = ScalingPerOutputType.TENSOR  # one for all columns
    scaling_min_val = _LEAST_SCALE


class BitLinear(qnn.QuantLinear):
    """A linear layer with ternary weights, and a QuantRMSNorm on its input.

    x (..., in_features) goes through ``norm``; its y becomes int8 codes, each row with a scale of
    its own (RowAbsMaxInt8Quant); then come the ternary weights (AbsMeanTernaryQuant). Takes the
    place of an nn.Linear, whose weight keeps its key; the norm's weight starts as ones.

    spec: the norm's, a preset's name or a spec; to be calibrated, as in any QuantRMSNorm. Its y
    should be wider than the 8 bits that are taken from it. input_quant=None drops the rows' scales
    and multiplies the norm's own codes (spec "ternary-int8", say). eps, norm_kwargs: for the norm.
    Other keywords: QuantLinear's.

    Inside all is float32; the result is a plain tensor of x's dtype.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        spec: RMSNormSpec | str = "outlier4-12bit",
        *,
        eps: float | None = None,
        bias: bool = False,
        weight_quant: WeightQuantType | None = AbsMeanTernaryQuant,
        input_quant: ActQuantType | None = RowAbsMaxInt8Quant,
        norm_kwargs: dict[str, Any] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **kwargs: Any,
    ) -> None:
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(
            in_features,
            out_features,
            bias,
            weight_quant=weight_quant,
            input_quant=input_quant,
            return_quant_tensor=False,
            **where,
            **kwargs,
        )
        self.norm = QuantRMSNorm(in_features, spec, eps=eps, **where, **(norm_kwargs or {}))

    def forward(self, x: Tensor | QuantTensor) -> Tensor:
        """x: (..., in_features), real or a QuantTensor of the norm's x format."""
        real = x.value if isinstance(x, QuantTensor) else x
        with torch.autocast(real.device.type, enabled=False):
            y: Tensor = super().forward(self.norm(x))
        return y.to(real.dtype)

    def inner_forward_impl(
        self, x: Tensor | QuantTensor, quant_weight: Any, quant_bias: Any
    ) -> Tensor:
        """In float32 whatever the weight's dtype: fewer bits would change the codes of x."""
        bias = None if quant_bias is None else _float32(quant_bias)
        return linear(_float32(x), _float32(quant_weight), bias)


def _float32(x: Tensor | QuantTensor) -> Tensor:
    return (x.value if isinstance(x, QuantTensor) else x).to(torch.float32)


class BitBlock(nn.Module):
    """A transformer block whose linear layers are all BitLinear: attention, then a gated MLP.

    x: (batch, length, dim) to the same shape, on top of residuals that stay float. No bias, no norm
    but those inside the linear layers, causal attention, SiLU gate; positions are the caller's.

    hidden: of the MLP. heads: a divisor of dim. spec, bit_kwargs: for every BitLinear.
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        heads: int,
        spec: RMSNormSpec | str = "outlier4-12bit",
        **bit_kwargs: Any,
    ) -> None:
        super().__init__()
        if heads < 1 or dim % heads:
            raise ApproxNormError(f"heads is {heads}; allowed: a divisor of dim, {dim}")
        self.heads = heads
        self.qkv = BitLinear(dim, 3 * dim, spec, **bit_kwargs)
        self.out = BitLinear(dim, dim, spec, **bit_kwargs)
        self.gate_up = BitLinear(dim, 2 * hidden, spec, **bit_kwargs)
        self.down = BitLinear(hidden, dim, spec, **bit_kwargs)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attention(x)
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        down: Tensor = self.down(silu(gate) * up)
        return x + down

    def _attention(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, dim))
        return out
