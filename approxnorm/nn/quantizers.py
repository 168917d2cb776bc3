"""Brevitas quantisers that follow a spec's formats: any rounding, overflow mode and zero point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import torch
from brevitas.core.function_wrapper.misc import Identity
from brevitas.inject import ExtendedInjector
from brevitas.proxy import ActQuantProxyFromInjector, WeightQuantProxyFromInjector
from torch import Tensor, nn

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format, Overflow, Rounding
from approxnorm.nn.functions import FakeQuantize

# An IntQuantTensor's float32 value gives back codes less their zero point up to 2**CODE_BITS, or
# under a power-of-two scale up to 2**EXACT_BITS.
CODE_BITS = 21
EXACT_BITS = 24
_LEAST_SCALE = 2.0**-100
_LEARNED = {"const": False, "parameter": True}
_POWER_OF_TWO = {"fp": False, "power_of_two": True}


class FormatQuant(nn.Module):
    """The ``tensor_quant`` of a format: real values to the real values of its codes.

    bit_width, signed, zero_point, rounding, overflow: as a spec has them. scaling_impl_type:
    "const" (calibrated, then fixed) or "parameter" (learned as well). restrict_scaling_type: "fp"
    or "power_of_two", whose parameter is the logarithm. The scale is open (NaN) until ``set_scale``
    is called, and stays float32 whatever the module is cast to.

    Raises ApproxNormError for numbers that make no format.
    """

    bit_width: Tensor
    zero_point: Tensor
    held: Tensor
    factors: Tensor | None

    def __init__(
        self,
        bit_width: int,
        signed: bool,
        zero_point: int = 0,
        rounding: str = "RND_CONV",
        overflow: str = "SAT",
        scaling_impl_type: Any = "const",
        restrict_scaling_type: Any = "fp",
    ) -> None:
        super().__init__()
        if int(bit_width) != bit_width or not 2 <= bit_width <= 32:
            raise ApproxNormError(f"bit_width is {bit_width}; allowed: 2 to 32")
        self.form = Format(
            width=int(bit_width),
            signed=bool(signed),
            scale=Fraction(1),
            zero_point=int(zero_point),
            rounding=Rounding(rounding),
            overflow=Overflow(overflow),
        )
        self.learned = _choice("scaling_impl_type", scaling_impl_type, _LEARNED)
        self.power_of_two = _choice("restrict_scaling_type", restrict_scaling_type, _POWER_OF_TWO)
        self.input_view_impl = Identity()  # what Brevitas' proxies ask the quantiser for
        self.register_buffer("bit_width", torch.tensor(float(self.form.width)), persistent=False)
        self.register_buffer(
            "zero_point", torch.tensor(float(self.form.zero_point)), persistent=False
        )
        self.register_buffer("factors", None, persistent=False)
        open_ = torch.tensor(float("nan"))
        if self.learned:
            self.held = nn.Parameter(open_)
        else:
            self.register_buffer("held", open_)

    @property
    def int_quant(self) -> FormatQuant:
        """Where Brevitas' proxies look for ``input_view_impl``."""
        return self

    @property
    def is_open(self) -> bool:
        """Whether the scale has not been set."""
        return bool(torch.isnan(self.held))

    def set_scale(self, scale: float | None) -> None:
        """Take a float32 scale; None leaves it open.

        Raises ApproxNormError for a scale that is no power of two where one is asked for.
        """
        number = torch.tensor(float("nan") if scale is None else scale, dtype=torch.float32)
        if self.power_of_two and scale is not None:
            mantissa, exponent = torch.frexp(number)
            if mantissa != 0.5:
                raise ApproxNormError(
                    f"the scale is {scale}; allowed with restrict_scaling_type"
                    ' "power_of_two": powers of two'
                )
            number = exponent.to(torch.float32) - 1
        with torch.no_grad():
            self.held.copy_(number)

    def set_factors(self, shifts: Sequence[int] | None) -> None:
        """Channel i counts in 2**shifts[i] LSBs; None: all alike."""
        self.factors = None
        if shifts is not None:
            amounts = torch.tensor(shifts, device=self.held.device)
            self.factors = torch.ldexp(torch.ones_like(amounts, dtype=torch.float32), amounts)

    def scale(self) -> Tensor:
        """The scale of one LSB, float32 and of no axes, with its gradient."""
        if not self.power_of_two:  # a step of the optimiser may pass 0; a scale does not
            return self.held.abs().clamp(min=_LEAST_SCALE) if self.learned else self.held
        exponent = self.held + (self.held.round() - self.held).detach()  # straight through
        return torch.exp2(exponent)

    def channel_scale(self) -> Tensor:
        """What a code stands for: the scale, or (dim,) where channels have factors."""
        return self.scale() if self.factors is None else self.scale() * self.factors

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """value, scale, zero point and bit width, all float32; per channel, scale is (dim,)."""
        scale = self.channel_scale()
        if x.dim() == 0:  # Brevitas asks for the scale alone
            return x, scale, self.zero_point, self.bit_width
        value = FakeQuantize.apply(x.to(torch.float32), scale, self.form)
        return value, scale, self.zero_point, self.bit_width

    def current_format(self) -> Format:
        """The format with the scale as it is now; it must not be open."""
        return replace(self.form, scale=Fraction(float(self.scale().detach())))

    def extra_repr(self) -> str:
        if torch.compiler.is_exporting() or torch.onnx.is_in_onnx_export():
            scale = "scale"  # without a value: torch.export prints modules
        else:
            scale = "open scale" if self.is_open else str(self.current_format())
        form = self.form
        return f"{form.width} bits, {scale}, {'learned' if self.learned else 'fixed'}"

    def _apply(self, fn: Any, recurse: bool = True) -> FormatQuant:
        """Moves with the module, but stays float32: a scale is a float32 number."""
        kept = {n: t.detach().clone() for n, t in self._tensors().items()}
        super()._apply(fn, recurse)
        for name, tensor in self._tensors().items():
            if tensor.dtype != torch.float32:
                tensor.data = kept[name].to(tensor.device)
        return self

    def _tensors(self) -> dict[str, Tensor]:
        return dict(self.named_parameters()) | dict(self.named_buffers())

    @property
    def _key(self) -> str:
        """What a state_dict calls the number that is held."""
        return "log2_scale" if self.power_of_two else "scale"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}{self._key}"] = destination.pop(f"{prefix}held")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """A scale or its logarithm, whichever this holds; a float model's checkpoint has neither
        and leaves this one as it is."""
        scale = state_dict.get(f"{prefix}scale")
        logarithm = state_dict.get(f"{prefix}log2_scale")
        if scale is None and logarithm is None:
            return
        if self.power_of_two:
            held = torch.log2(scale.abs()) if logarithm is None else logarithm
        else:
            held = torch.exp2(logarithm.round()) if scale is None else scale
            held = held if self.learned else held.abs().clamp(min=_LEAST_SCALE)
        ours = {f"{prefix}scale", f"{prefix}log2_scale"}
        rest = {k: v for k, v in state_dict.items() if k not in ours}
        super()._load_from_state_dict(rest | {f"{prefix}held": held}, prefix, *args)


def _choice(name: str, given: Any, choices: dict[str, bool]) -> bool:
    text = str(getattr(given, "value", given)).lower()
    if text not in choices:
        raise ApproxNormError(f"{name} is {text}; allowed: {' or '.join(choices)}")
    return choices[text]


class SpecActQuant(ExtendedInjector):
    """x or y as a spec has it; the layer fills in its numbers."""

    proxy_class = ActQuantProxyFromInjector
    tensor_quant = FormatQuant
    narrow_range = False


class SpecWeightQuant(ExtendedInjector):
    """gamma as a spec has it; the layer fills in its numbers."""

    proxy_class = WeightQuantProxyFromInjector
    tensor_quant = FormatQuant
    narrow_range = False
