"""QuantRMSNorm: a Brevitas layer whose output is, bit for bit, that of the hardware."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from brevitas.core.quant import RescalingIntQuant
from brevitas.nn.mixin import ActQuantType, QuantWeightMixin, WeightQuantType
from brevitas.nn.quant_layer import QuantInputOutputLayer
from brevitas.proxy.parameter_quant import WeightQuantProxyFromInjectorBase
from brevitas.proxy.runtime_quant import DynamicActQuantProxyFromInjector
from brevitas.quant_tensor import IntQuantTensor, QuantTensor
from torch import Tensor, nn

from approxnorm.backends.torch_backend import TorchBackend
from approxnorm.errors import ApproxNormError
from approxnorm.formats import Overflow, Rounding
from approxnorm.layer_model import warnings_of
from approxnorm.methods.format_field import FormatSpec
from approxnorm.methods.normalizers import root_float
from approxnorm.model import RMSNorm
from approxnorm.nn.checks import (
    check_bits,
    check_codes,
    check_format,
    check_rows,
    in_float32,
)
from approxnorm.nn.functions import FloatRMSNorm, HardwareRMSNorm, Replace
from approxnorm.nn.layer_formats import (
    SLOTS,
    as_quantised,
    format_spec,
    parameter_codes,
    quantizer_numbers,
    require_known_keywords,
    row_length,
    shape_of,
    with_scale,
)
from approxnorm.nn.quantizers import (
    FormatQuant,
    SpecActQuant,
    SpecWeightQuant,
)
from approxnorm.rmsnorm import Assembly, SpecWarning, assemble
from approxnorm.spec import RMSNormSpec, preset

_BREVITAS_MODES = {
    "ROUND": Rounding.RND_CONV,
    "FLOOR": Rounding.TRN,
    "ROUND_TO_ZERO": Rounding.TRN_ZERO,
}
_KEPT = 8  # datapaths; a learned scale leaves old ones behind


@dataclass(frozen=True)
class _Datapath:
    """A spec made ready; gain, and over factors: what the weight is before it becomes codes."""

    assembly: Assembly
    backend: TorchBackend
    gain: float
    factors: Tensor | None

    @classmethod
    def of(cls, spec: RMSNormSpec, device: torch.device) -> _Datapath:
        assembly = assemble(spec)
        gain = root_float(assembly.spec.normalize.gamma_gain_squared(assembly.context))
        factors = spec.y_factors
        held = None if factors is None else torch.from_numpy(factors).to(device, torch.float32)
        return cls(assembly, TorchBackend(assembly.require_datapath(), device), gain, held)


class QuantRMSNorm(QuantWeightMixin, QuantInputOutputLayer, nn.Module):
    """RMSNorm over the last axis, computed as a spec's hardware computes it.

    Forward: x (..., dim) is quantised by ``input_quant``, the weight by ``weight_quant``; the
    spec's integer datapath runs on their codes and gives those of y, whose format is
    ``output_quant``'s. The returned ``IntQuantTensor`` has float32 value and scale, and its
    ``int()`` equals ``layer.model()(codes)`` in train and in eval mode. Backward: straight through
    the roundings, with the true gradient of RMSNorm.

    normalized_shape: dim, the length of a row. spec: a preset's name or a spec; the layer puts in
    dim and, if given, eps. input_quant, weight_quant, output_quant: by default what the spec says;
    any Brevitas quantiser to integers with one scale and zero point 0 may take their place; then
    its width, sign and scale take the spec's. With input_quant=None a QuantTensor is expected.
    learn_scales: the default quantisers' scales are parameters. Keywords such as
    ``input_bit_width`` change single numbers, as in all Brevitas layers.

    Where a quantiser is switched off (``disable_quant``, as Brevitas' calibration_mode does) or
    ``calibrating`` is True, the layer is the float RMSNorm. Works inside ``torch.compile`` with a
    graph break. Raises ApproxNormError that names the layer: for an open spec (calibrate first),
    rows of another length, a QuantTensor of another format, NaN.
    """

    input_quant: Any  # Brevitas' mixins make them
    weight_quant: Any
    output_quant: Any

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        spec: RMSNormSpec | str = "int8-linear",
        *,
        eps: float | None = None,
        input_quant: ActQuantType | None = SpecActQuant,
        weight_quant: WeightQuantType | None = SpecWeightQuant,
        output_quant: ActQuantType | None = SpecActQuant,
        return_quant_tensor: bool = True,
        learn_scales: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **kwargs: Any,
    ) -> None:
        nn.Module.__init__(self)
        self.layer_name = ""
        self.calibrating = False
        dim = row_length(normalized_shape)
        spec = preset(spec) if isinstance(spec, str) else spec
        self._spec = spec.with_dim(dim).replace(**({} if eps is None else {"eps": float(eps)}))
        start = torch.zeros if spec.normalize.adds_one else torch.ones
        self.weight = nn.Parameter(start(dim, device=device, dtype=dtype))
        if self.weight.is_meta:  # scales and spec are tensors too, and would be lost
            raise ApproxNormError(
                f"{self._title}: device is meta, which holds no values; allowed: a device that does"
                " (load the float model, then approxnorm.nn.replace_norms)"
            )
        quantizers = {"x": input_quant, "gamma": weight_quant, "y": output_quant}
        require_known_keywords(kwargs, quantizers)
        kwargs = quantizer_numbers(self._spec, quantizers, learn_scales) | kwargs
        QuantInputOutputLayer.__init__(
            self,
            input_quant,
            output_quant,
            tie_input_output_quant=False,
            return_quant_tensor=return_quant_tensor,
            **kwargs,
        )
        QuantWeightMixin.__init__(self, weight_quant, **kwargs)
        self._require_kinds()
        self.register_buffer("spec_json", torch.zeros(0, dtype=torch.uint8))
        self._datapaths: dict[Any, _Datapath] = {}
        self._warned = False
        self._take(self._spec)
        self.register_load_state_dict_post_hook(_after_load)

    # --- what Brevitas asks of a layer ------------------------------------------------------------

    @property
    def channelwise_separable(self) -> bool:
        return False

    @property
    def output_channel_dim(self) -> int:
        return 0

    @property
    def requires_export_handler(self) -> bool:  # the base's reads a proxy that is not there
        return False

    # --- the spec, and what it is at this moment --------------------------------------------------

    @property
    def dim(self) -> int:
        """The length of a row."""
        assert self._spec.dim is not None
        return self._spec.dim

    @property
    def spec(self) -> RMSNormSpec:
        """The spec with dim, eps and the quantisers' scales of this moment; it may be open."""
        return self._resolved(self._formats())

    def _formats(self) -> dict[str, FormatSpec | float]:
        """What the quantisers have, those of Brevitas in eval mode; without what has none."""
        forms = self._own_formats()
        foreign = {n: self._foreign_format(n) for n in SLOTS if n not in forms}
        return forms | {n: form for n, form in foreign.items() if form is not None}

    def _own_formats(self) -> dict[str, FormatSpec | float]:
        """Of x, gamma and y those that are our quantisers', by their scales; open ones are NaN."""
        quantizers = {name: self._format_quant(name) for name in SLOTS}
        scales = {n: float(q.scale().detach()) for n, q in quantizers.items() if q is not None}
        for name, scale in scales.items():
            given = getattr(self._spec, name).scale is not None
            if math.isinf(scale) or (given and math.isnan(scale)):
                raise ApproxNormError(
                    f"{self._title}: the learned scale of {name} is {scale}; allowed: finite"
                    " numbers (lower the learning rate, and load the last good state_dict)"
                )
        return dict(scales)

    def _resolved(self, forms: dict[str, FormatSpec | float]) -> RMSNormSpec:
        """The spec with formats, or scales that take the place of its own."""
        changes: dict[str, FormatSpec] = {}
        for name, form in forms.items():
            if isinstance(form, FormatSpec):
                changes[name] = form
            elif form == form:
                changes[name] = getattr(self._spec, name).with_scale(form)
        return self._spec.replace(**changes)

    @property
    def is_calibrated(self) -> bool:
        """Whether nothing is open."""
        return not self.spec.missing()

    def set_spec(self, spec: RMSNormSpec) -> None:
        """Take the scales, steps and factors of a spec of the same dim and formats.

        Raises ApproxNormError, and changes nothing, if the spec is of another dim, or of another
        width, sign, zero point or mode of x, gamma or y.
        """
        spec = spec.with_dim(self.dim)
        for name in SLOTS:
            quantizer = self._format_quant(name)
            theirs = shape_of(getattr(spec, name))
            if quantizer is not None and theirs != shape_of(format_spec(quantizer.form)):
                raise ApproxNormError(
                    f"{self._title}: the spec's {name} is {theirs}; allowed: the layer's,"
                    f" {shape_of(format_spec(quantizer.form))}"
                )
        self._take(spec)

    def model(self, x: IntQuantTensor | None = None) -> RMSNorm:
        """The NumPy model with the scales and the weight of this moment.

        x: a layer without input_quant takes x's format from this tensor, as forward does, and else
        from its spec. Raises ApproxNormError, with the layer's name, if the layer is not
        calibrated.
        """
        with torch.no_grad():
            forms = self._formats()
            if x is not None and "x" not in forms:
                forms["x"] = self._brevitas_format("x", x)
            datapath = self._datapath(forms)
            ours = self._format_quant("gamma") is not None
            gamma = self._spec_gamma(datapath) if ours else self._foreign_gamma()
            return RMSNorm.of(datapath.assembly, parameter_codes(gamma))

    # --- forward ----------------------------------------------------------------------------------

    def forward(self, x: Tensor | QuantTensor) -> Tensor | IntQuantTensor:
        """x: (..., dim), real or an IntQuantTensor of the spec's x format.

        Returns an IntQuantTensor, or with return_quant_tensor=False its value in x's dtype.
        """
        from approxnorm.nn.export import exported

        made = exported(self, x)
        return self._forward(x) if made is None else made

    @torch.compiler.disable
    def _forward(self, x: Tensor | QuantTensor) -> Tensor | IntQuantTensor:
        check_rows(self._title, x, self.dim, self._spec.x.overflow is Overflow.WRAP)
        real = x.value if isinstance(x, QuantTensor) else x
        with torch.autocast(real.device.type, enabled=False):
            if self.calibrating:
                return self._float(real.to(torch.float32), self._true_weight()).to(real.dtype)
            if self.weight_quant.disable_quant:
                return self._observed(in_float32(self._title, x, self._spec.x)).to(real.dtype)
            quant_x = self._quant_input(in_float32(self._title, x, self._spec.x))
            if not isinstance(quant_x, QuantTensor):
                self._require_quant_input()
                return self._float(quant_x, self._true_weight()).to(real.dtype)
            y = self._quantised(quant_x)
        if isinstance(y, QuantTensor) and self.return_quant_tensor:
            return y
        return (y.value if isinstance(y, QuantTensor) else y).to(real.dtype)

    def _observed(self, x: Tensor | QuantTensor) -> Tensor:
        """The float norm, while quantisers of Brevitas gather statistics (calibration_mode)."""
        seen = x if self._format_quant("x") is not None else self.input_quant(x)
        y = self._float(seen.value if isinstance(seen, QuantTensor) else seen, self._true_weight())
        if self._format_quant("y") is None:
            self.output_quant(y)
        return y

    def _quant_input(self, x: Tensor | IntQuantTensor) -> Tensor | IntQuantTensor:
        """x by input_quant; a QuantTensor of that very format as it is: it holds codes already."""
        ours = self._format_quant("x")
        if (
            ours is not None
            and isinstance(x, IntQuantTensor)
            and not self.input_quant.disable_quant
        ):
            same = torch.equal(x.scale.detach(), ours.channel_scale().detach())
            if same and float(x.zero_point) == ours.form.zero_point:
                return x
        quantised: Tensor | IntQuantTensor = self.input_quant(x)
        return quantised

    def _quantised(self, x: IntQuantTensor) -> Tensor | IntQuantTensor:
        check_format(self._title, x, self._spec.x)
        # A quantiser of Brevitas may take its scale from the data, so it comes before the datapath.
        forms, gamma, fake = self._own_formats(), None, None
        if "x" not in forms:
            forms["x"] = self._brevitas_format("x", x)
        if "gamma" not in forms:
            gamma = self._foreign_gamma()
            forms["gamma"] = self._brevitas_format("gamma", gamma)
        if "y" not in forms:
            fake = self.output_quant(self._float(x.value, self._true_weight()))
            if not isinstance(fake, QuantTensor):
                return fake
            forms["y"] = self._brevitas_format("y", fake)
        datapath = self._datapath(forms)
        gamma = self._spec_gamma(datapath) if gamma is None else gamma
        codes = self._codes(
            x, RMSNorm.of(datapath.assembly, parameter_codes(gamma)), datapath.backend
        )
        if fake is not None:
            value = codes.to(torch.float32) * fake.scale.to(torch.float32)
            return fake.set(value=Replace.apply(fake.value, value.detach()))
        return self._output(x, gamma, codes, datapath)

    def _output(
        self, x: IntQuantTensor, gamma: IntQuantTensor, codes: Tensor, datapath: _Datapath
    ) -> Tensor | IntQuantTensor:
        """y by our quantiser."""
        quantizer = self._format_quant("y")
        weight = self._weight_of(gamma, datapath)
        if quantizer is None or not self.output_quant.is_quant_enabled:
            return self._float(x.value, weight)
        form, scale = quantizer.form, quantizer.channel_scale()
        centered = codes - form.zero_point if form.zero_point else codes
        value = HardwareRMSNorm.apply(x.value, weight, scale, centered, form, self._spec.eps)
        ends = quantizer.zero_point, quantizer.bit_width, form.signed
        return IntQuantTensor(value, scale, *ends, self.training)

    def _weight_of(self, gamma: IntQuantTensor, datapath: _Datapath) -> Tensor:
        """The real weight that gamma's codes stand for."""
        weight = gamma.value if datapath.gain == 1 else gamma.value / datapath.gain
        if datapath.factors is not None:
            weight = weight * datapath.factors
        return weight + 1.0 if self._spec.normalize.adds_one else weight

    @torch.no_grad()
    def _codes(self, x: IntQuantTensor, model: RMSNorm, backend: TorchBackend) -> Tensor:
        """y's codes, of x's shape: the one place where the datapath runs."""
        inputs = {n: torch.from_numpy(v.astype(np.int64)) for n, v in model.channel_inputs.items()}
        codes = (x.value / x.scale).round_()
        if float(x.zero_point):
            codes += x.zero_point
        check_codes(self._title, codes, model.assembly.x_format)
        inputs["x"] = codes.reshape(-1, self.dim).to(torch.int32)
        return backend.run(inputs).reshape(x.value.shape)

    def _float(self, x: Tensor, weight: Tensor) -> Tensor:
        y: Tensor = FloatRMSNorm.apply(x.to(torch.float32), weight, self._spec.eps)
        return y

    def _true_weight(self) -> Tensor:
        return self.weight.to(torch.float32) + (1.0 if self._spec.normalize.adds_one else 0.0)

    # --- quantisers -------------------------------------------------------------------------------

    def _tensor_quant(self, name: str) -> Any:
        """What the proxy of x, gamma or y quantises with; None without quantiser."""
        proxy = getattr(self, SLOTS[name], None)
        fused = getattr(proxy, "fused_activation_quant_proxy", None)
        holder = fused if fused is not None else proxy
        return getattr(holder, "tensor_quant", None)

    def _format_quant(self, name: str) -> FormatQuant | None:
        """The tensor_quant of x, gamma or y, if it is ours."""
        held = self._tensor_quant(name)
        return held if isinstance(held, FormatQuant) else None

    def _foreign_format(self, name: str) -> FormatSpec | None:
        """The format that a Brevitas quantiser has in eval mode; None without one."""
        proxy = getattr(self, SLOTS[name])
        if not proxy.is_quant_enabled:
            return None
        with torch.no_grad():
            ends = [proxy.scale(), proxy.zero_point(), proxy.bit_width()]
        empty = torch.zeros(0)
        return self._brevitas_format(name, IntQuantTensor(empty, *ends, proxy.is_signed, False))

    def _brevitas_format(self, name: str, tensor: IntQuantTensor) -> FormatSpec:
        """The format of x, gamma or y that a Brevitas quantiser has made."""
        scale, zero = tensor.scale.detach(), tensor.zero_point.detach()
        if scale.numel() != 1 or zero.numel() != 1 or float(zero) != 0:
            raise ApproxNormError(
                f"{self._title}: {SLOTS[name]} has a scale of shape {tuple(scale.shape)} and"
                f" the zero point {float(zero.flatten()[0]):g}; allowed: one scale and zero point 0"
                f" (for others give the spec's {name}, and leave {SLOTS[name]} out)"
            )
        number = float(scale)
        ours: FormatSpec = getattr(self._spec, name)
        form = with_scale(ours, int(tensor.bit_width), bool(tensor.signed), number)
        form = form.model_copy(update={"zero_point": 0})
        check_bits(self._title, name, form.to_format(name), number)
        return form.model_copy(update=self._modes()) if name == "x" else form

    def _modes(self) -> dict[str, Any]:
        """How a quantiser of Brevitas that makes x's codes rounds and limits; none: unknown."""
        if not self.input_quant.is_quant_enabled:
            return {}
        mode = str(self.input_quant.rounding_mode).rpartition(".")[2].upper()
        if mode not in _BREVITAS_MODES:
            raise ApproxNormError(
                f"{self._title}: input_quant rounds by {mode}; allowed:"
                f" {', '.join(_BREVITAS_MODES)}"
            )
        narrow = bool(self.input_quant.is_narrow_range)
        overflow = Overflow.SAT_SYM if narrow else Overflow.SAT
        return {"rounding": _BREVITAS_MODES[mode], "overflow": overflow, "zero_point": 0}

    def _spec_gamma(self, datapath: _Datapath) -> IntQuantTensor:
        """The weight, times the part of the constant that is folded into it, by our quantiser."""
        self._require_finite_weight()
        weight = self.weight.to(torch.float32)
        if datapath.gain != 1:
            weight = (self.weight.to(torch.float64) * datapath.gain).to(torch.float32)
        return self._quant_gamma(weight if datapath.factors is None else weight / datapath.factors)

    def _require_finite_weight(self) -> None:
        if not bool(torch.isfinite(self.weight).all()):
            raise ApproxNormError(
                f"{self._title}: its weight holds NaN or infinity; allowed: finite numbers (lower"
                " the learning rate, and load the last good state_dict)"
            )

    def _foreign_gamma(self) -> IntQuantTensor:
        self._require_finite_weight()
        if self._spec.normalize.scales_gamma:
            raise ApproxNormError(
                f'{self._title}: normalize.constant is "gamma", which scales gamma before it is'
                ' quantised; allowed with a weight_quant of Brevitas: "table" or "multiplier"'
            )
        return self._quant_gamma(self.weight.to(torch.float32))

    def _quant_gamma(self, weight: Tensor) -> IntQuantTensor:
        quant = self.weight_quant(weight)
        if not isinstance(quant, IntQuantTensor):
            raise ApproxNormError(
                f"{self._title}: weight_quant gives no IntQuantTensor; allowed: a quantiser of"
                " gamma to integers"
            )
        return quant

    # --- assemblies -------------------------------------------------------------------------------

    def _datapath(self, forms: dict[str, FormatSpec | float]) -> _Datapath:
        """The datapath of these formats; made again only when a number of it changed."""
        device = self.weight.device
        key = (
            *sorted((n, f if isinstance(f, float) else str(f)) for n, f in forms.items()),
            device,
        )
        if key not in self._datapaths:
            spec = self._complete(self._resolved(forms))
            try:
                with warnings_of(self._title) if not self._warned else warnings.catch_warnings():
                    if self._warned:  # scales that move would give the same warning in every step
                        warnings.simplefilter("ignore", SpecWarning)
                    made = _Datapath.of(spec, device)
                self._warned = True
            except ApproxNormError as error:
                raise ApproxNormError(f"{self._title}: {error}") from None
            while len(self._datapaths) >= _KEPT:
                del self._datapaths[next(iter(self._datapaths))]
            self._datapaths[key] = made
        return self._datapaths[key]

    def _complete(self, spec: RMSNormSpec) -> RMSNormSpec:
        missing = spec.missing()
        if missing:
            raise ApproxNormError(
                f"{self._title} is not calibrated: {missing[0]} is open; run"
                " approxnorm.nn.calibrate(model, batches), or give a spec with every scale"
            )
        return spec

    def _take(self, spec: RMSNormSpec) -> None:
        """Make a spec the layer's: its numbers, and the scales of our quantisers."""
        for name in SLOTS:
            quantizer = self._format_quant(name)
            scale = getattr(spec, name).scale
            if quantizer is not None:
                quantizer.set_scale(scale)
                self._set_factors(name, quantizer, spec)
                check_bits(self._title, name, quantizer.form, scale)
                written = as_quantised(getattr(spec, name), quantizer.form)
                spec = spec.replace(**{name: written})
        self._require_own_quantizers(spec)
        self._spec = spec
        self._warned = False
        self._datapaths.clear()
        text = json.dumps(spec.to_dict()).encode()
        self.spec_json = torch.tensor(list(text), dtype=torch.uint8, device=self.weight.device)

    def _require_kinds(self) -> None:
        """Each slot has a quantiser of its kind, to integers, with a scale that is known before."""
        for name, slot in SLOTS.items():
            proxy, held = getattr(self, slot), self._tensor_quant(name)
            weights = isinstance(proxy, WeightQuantProxyFromInjectorBase)
            what = "" if weights == (name == "gamma") else "no quantiser of its kind"
            if isinstance(proxy, DynamicActQuantProxyFromInjector):
                what = "a quantiser whose scale depends on the data"
            elif held is not None and not isinstance(held, FormatQuant | RescalingIntQuant):
                what = f"a quantiser by {type(held).__name__}"
            if what:
                raise ApproxNormError(
                    f"{self._title}: {slot} is {what}; allowed: the default, or a quantiser of"
                    f" {'weights' if name == 'gamma' else 'activations'} to integers with one scale"
                )

    def _require_own_quantizers(self, spec: RMSNormSpec) -> None:
        """A quantiser of Brevitas knows of no factors."""
        factors = {"x": ("channel_shifts", "x"), "y": ("y_channel_shifts", "gamma y")}
        for field, slots in factors.values():
            foreign = [s for s in slots.split() if self._format_quant(s) is None]
            if getattr(spec, field) is not None and foreign:
                raise ApproxNormError(
                    f"{self._title}: the spec has {field}, which {SLOTS[foreign[0]]} does not"
                    f" know; allowed with a quantiser of one's own: a spec without {field}"
                )

    # --- checks -----------------------------------------------------------------------------------

    @property
    def _title(self) -> str:
        return f"layer {self.layer_name}" if self.layer_name else "this QuantRMSNorm"

    def _require_quant_input(self) -> None:
        if not self.input_quant.is_quant_enabled and not self.input_quant.disable_quant:
            raise ApproxNormError(
                f"{self._title}: x is no QuantTensor and the layer has no input_quant; allowed: a"
                " QuantTensor of the spec's format, or an input_quant"
            )

    # --- state ------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """A new weight makes Brevitas build gamma's quantiser anew; it keeps its scale."""
        if name == "weight" and (param is None or tuple(param.shape) != (self.dim,)):
            shape = None if param is None else tuple(param.shape)
            raise ApproxNormError(
                f"{self._title}: the new weight has shape {shape}; allowed: ({self.dim},)"
            )
        super().register_parameter(name, param)
        if name == "weight" and "spec_json" in self._buffers:
            quantizer = self._format_quant("gamma")
            if quantizer is not None:
                quantizer.to(self.weight.device)
                self._fill("gamma", quantizer)

    def _fill(self, name: str, quantizer: FormatQuant) -> None:
        """The scale of the spec, if the quantiser's is open; and the factors of channels."""
        if quantizer.is_open:
            quantizer.set_scale(getattr(self._spec, name).scale)
        self._set_factors(name, quantizer, self._spec)

    def _set_factors(self, name: str, quantizer: FormatQuant, spec: RMSNormSpec) -> None:
        shifts = {"x": spec.channel_shifts, "y": spec.y_channel_shifts}.get(name)
        quantizer.set_factors(None if shifts is None else shifts.shifts)

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled; datapaths are made again."""
        return {**self.__dict__, "_datapaths": {}}

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: list[str],
        unexpected: list[str],
        errors: list[str],
    ) -> None:
        """A float model's checkpoint has the weight alone, and leaves the calibration as it is."""
        self._spec = self.spec  # Brevitas makes quantisers anew when it loads: theirs is kept here
        key = f"{prefix}spec_json"
        text = state_dict.get(key)
        rest = {k: v for k, v in state_dict.items() if k != key}
        super()._load_from_state_dict(rest, prefix, metadata, strict, missing, unexpected, errors)
        missing[:] = [each for each in missing if each != key]
        if text is None:
            return
        try:
            spec = _spec_of(text).with_dim(self.dim)
            if not spec.missing():  # it may hold what each field allows, and make no datapath
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SpecWarning)
                    assemble(spec)
            self.set_spec(spec)
        except ApproxNormError as error:
            errors.append(f"{key}: {error}")

    def extra_repr(self) -> str:
        spec = self._spec  # not self.spec: torch.export prints modules whose scales have no values
        methods = f"statistic={spec.statistic.method}, rsqrt={spec.rsqrt.method}"
        return f"{self.dim}, eps={spec.eps}, {methods}"


def _spec_of(text: Tensor) -> RMSNormSpec:
    """The spec that a state_dict holds as JSON in UTF-8."""
    try:
        fields = json.loads(bytes(text.tolist()))
    except (ValueError, TypeError, RecursionError):
        fields = None
    if isinstance(fields, dict):
        return RMSNormSpec(**fields)
    raise ApproxNormError(
        f"holds no spec ({text.numel()} numbers of {text.dtype}); allowed: what the state_dict of a"
        " QuantRMSNorm has there, or nothing (then the layer keeps its own spec)"
    )


def _after_load(layer: QuantRMSNorm, incompatible: Any) -> None:
    """Give quantisers that Brevitas has made anew what they had, unless they were loaded too."""
    for name in SLOTS:
        quantizer = layer._format_quant(name)
        if quantizer is not None:
            layer._fill(name, quantizer)
            quantizer.to(layer.weight.device)
