"""Export to ONNX: a QuantRMSNorm becomes the ApproxRMSNorm node, with its function and its edges.

A tracer records operators one by one, so a layer writes one placeholder, and the finished file gets
the norm's parts in its place: by Brevitas' managers, whose list of model transforms has ours, or by
`export_onnx`. What a layer computes is taken before the trace, during which parameters have no
values. Nothing here needs onnx before a model is exported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import torch
from brevitas import config
from brevitas.quant_tensor import IntQuantTensor, QuantTensor
from torch import Tensor, nn

from approxnorm.errors import ApproxNormError
from approxnorm.model import RMSNorm

if TYPE_CHECKING:
    import onnx

_TARGETS = ("brevitas", "StdQCDQONNX")  # Brevitas' names of its QONNX and its QCDQ export
_PROXIES = ("input_quant", "weight_quant", "output_quant")
_INLINE_BYTES = 1 << 30  # of parameters; a model with more has them in a file of external data


@dataclass(frozen=True)
class _Prepared:
    """A layer as it is before a trace.

    by_brevitas: for an export by Brevitas' managers. on_grid: it takes the codes of a QuantTensor,
    which a trace sees as floats. keeps_float32: it returns one, whose value is float32 in a module
    of any dtype.
    """

    model: RMSNorm
    by_brevitas: bool
    on_grid: bool
    keeps_float32: bool


# A tracer wraps modules in others that share their __dict__, so that is where it is found again.
_HELD = "_prepared_for_export"
_layers_held: WeakSet[nn.Module] = WeakSet()


def exported(layer: Any, x: Tensor | QuantTensor) -> Tensor | IntQuantTensor | None:
    """What a layer's forward returns while it is traced for ONNX; None in every other forward.

    In the forward that Brevitas' managers run before they trace, the layer is prepared. x: (...,
    dim). Raises ApproxNormError, with the layer's name, if it is traced without, or cannot be
    exported.
    """
    if torch.onnx.is_in_onnx_export():
        return _traced(layer, x)
    if config._ONGOING_EXPORT in _TARGETS:
        _join_managers()
        _prepare(layer, x)
    return None


def export_onnx(
    model: nn.Module,
    args: Tensor | tuple[Any, ...],
    path: str | Path,
    *,
    opset_version: int = 21,
    **options: Any,
) -> None:
    """Write a float model with QuantRMSNorm layers as ONNX, by torch.onnx.export (dynamo).

    args, options: as torch.onnx.export takes them (dynamic_shapes, input_names, ...). Each layer is
    what it is in eval mode; `convert`'s files have the same form. The file is written whole or not
    at all. Models with other quantised layers are for Brevitas' managers.

    Raises ApproxNormError if there is no such layer, or another quantised one, or if a layer cannot
    be exported.
    """
    from approxnorm.export.rewrite import load_model, save_model
    from approxnorm.export.rewrite.out_file import check_out
    from approxnorm.export.rewrite.placeholders import replace_placeholders

    path = Path(path)
    check_out(path, ".onnx", {}, called="path")
    layers = _layers(model)
    _require_alone(model, layers)
    for layer in layers:
        _prepare(layer)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    options = {"external_data": size > _INLINE_BYTES, "optimize": True, **options, "dynamo": True}
    with TemporaryDirectory(prefix="approxnorm-") as folder, _in_eval(model), torch.no_grad():
        traced = Path(folder) / path.name
        try:
            torch.onnx.export(
                model, cast(Any, args), traced, opset_version=opset_version, **options
            )
        finally:
            models = _taken()
        finished = load_model(traced)
        replace_placeholders(finished, models)
        save_model(finished, traced, path)


def _traced(layer: Any, x: Tensor | QuantTensor) -> Tensor | IntQuantTensor:
    """The placeholder of a layer, at x."""
    prepared: _Prepared | None = layer.__dict__.get(_HELD)
    if prepared is None or (prepared.by_brevitas and config._ONGOING_EXPORT is None):
        raise ApproxNormError(
            f"{_title(layer)} was not prepared for this export; use"
            " approxnorm.nn.export_onnx, or brevitas.export's export_onnx_qcdq or export_qonnx, in"
            " place of torch.onnx.export"
        )
    real = cast(Tensor, x.value if isinstance(x, QuantTensor) else x)
    rows = real[None] if real.dim() == 1 else real  # the node wants an axis of rows
    y = _placeholder(_cast(rows, torch.float32), prepared, layer.layer_name)
    y = y[0] if real.dim() == 1 else y
    if layer.return_quant_tensor:  # TorchScript's managers leave it on
        return _quant_tensor(y, prepared.model)
    return y if prepared.keeps_float32 else _cast(y, real.dtype)


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The older exporter writes a Cast for every `to`."""
    return x if x.dtype == dtype else x.to(dtype)


def _placeholder(x: Tensor, prepared: _Prepared, name: str) -> Tensor:
    from approxnorm.export.rewrite.placeholders import DOMAIN, LAYER, MODEL, ON_GRID, PLACEHOLDER

    operator, digest = f"{DOMAIN}::{PLACEHOLDER}", prepared.model.digest
    if torch.jit.is_tracing():
        y: Tensor = _TorchScript.apply(x, operator, digest, name, int(prepared.on_grid))
        return y
    attrs: dict[str, Any] = {MODEL: digest, LAYER: name, ON_GRID: int(prepared.on_grid)}
    return torch.onnx.ops.symbolic(
        operator, (x,), attrs, dtype=torch.float32, shape=x.shape, version=1
    )


class _TorchScript(torch.autograd.Function):
    """The placeholder for the older exporter."""

    @staticmethod
    def symbolic(graph: Any, x: Any, operator: str, digest: str, layer: str, on_grid: int) -> Any:
        """Attributes are named as the other exporter's, with their types at the end."""
        y = graph.op(operator, x, digest_s=digest, layer_s=layer, on_grid_i=on_grid)
        y.setType(x.type())
        return y

    @staticmethod
    def forward(ctx: Any, x: Tensor, *attributes: Any) -> Tensor:
        """What the shape is; no value of a trace is used."""
        return x.clone()


def _quant_tensor(value: Tensor, model: RMSNorm) -> IntQuantTensor:
    form, factors = model.assembly.context.y, model.spec.y_factors
    scale = torch.tensor(float(form.scale))
    if factors is not None:
        scale = scale * torch.from_numpy(factors).to(torch.float32)
    numbers = (float(form.zero_point), float(form.width))
    return IntQuantTensor(value, scale, *(torch.tensor(n) for n in numbers), form.signed, False)


def _prepare(layer: Any, x: Tensor | QuantTensor | None = None) -> None:
    """Take what a layer computes. x: its input, in the forward of Brevitas' managers."""
    import approxnorm.export.rewrite.placeholders  # noqa: F401  (an error before the trace)

    _mute(layer)
    _require_quantised(layer)
    on_grid = not layer.input_quant.is_quant_enabled
    model = layer.model(x) if on_grid and isinstance(x, QuantTensor) else layer.model()
    layer.__dict__[_HELD] = _Prepared(
        model, x is not None, on_grid, bool(layer.return_quant_tensor)
    )
    _layers_held.add(layer)


def _require_quantised(layer: Any) -> None:
    """Refuse a layer that is the float RMSNorm at the moment."""
    off = [n for n in _PROXIES if getattr(layer, n).disable_quant]
    off += ["output_quant"] * (not layer.output_quant.is_quant_enabled)
    if layer.calibrating or off:
        what = "calibrating is True" if layer.calibrating else f"its {off[0]} is off"
        raise ApproxNormError(
            f"{_title(layer)} computes in floats, as {what}; allowed in an export: a calibrated"
            " layer whose quantisers are all on"
        )


def _title(layer: Any) -> str:
    return f"the layer {layer.layer_name or type(layer).__name__}"


class _Unused(nn.Module):
    """The export handler of a quantiser that is not traced; Brevitas' own refuse some formats."""

    def prepare_for_export(self, module: nn.Module) -> None:
        """Nothing: the norm's edges are its quantisers."""

    def attach_debug_info(self, module: nn.Module) -> None:
        """Nothing either."""


def _mute(layer: Any) -> None:
    """Let a layer's own quantisers have no say in an export by Brevitas; shared ones keep it.

    Brevitas takes the handlers out again after the export. What a quantiser was at the export is
    not kept either: it would be taken for what it is from then on.
    """
    for proxy in (getattr(layer, name) for name in _PROXIES):
        if len(proxy.tracked_module_list) == 1 and config._ONGOING_EXPORT is not None:
            proxy.export_handler = _Unused()
            if hasattr(proxy, "_cached_act"):
                proxy._cached_act, proxy.cache_inference_quant_act = None, False


def _join_managers() -> None:
    """Let Brevitas' managers finish the files that they write; once."""
    from brevitas.export.onnx.manager import ONNXBaseManager
    from brevitas.export.onnx.qonnx.manager import QONNXManager

    # Lists of their own: the classes have those of their bases until they are given some.
    for manager, transform in ((ONNXBaseManager, _finish), (QONNXManager, _finish_qonnx)):
        if transform not in manager.model_transforms:
            others = [t for t in manager.model_transforms if t is not _finish]
            manager.model_transforms = [*others, transform]


def _finish(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, with the norms in their placeholders' places."""
    from approxnorm.export.rewrite.placeholders import replace_placeholders

    replace_placeholders(model, _taken())
    return model


def _finish_qonnx(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with QONNX's Quant at the edges, and its datatypes."""
    from approxnorm.export.qonnx.placed import edge_parts, finish
    from approxnorm.export.rewrite.placeholders import replace_placeholders

    norms = replace_placeholders(model, _taken(), edge_parts)
    return finish(model, norms) if norms else model


def _taken() -> dict[str, RMSNorm]:
    """The prepared models by digest; the layers have to be prepared again for another export."""
    prepared = [layer.__dict__.pop(_HELD) for layer in _layers_held]
    _layers_held.clear()
    return {each.model.digest: each.model for each in prepared}


def _layers(model: nn.Module) -> list[nn.Module]:
    from approxnorm.nn.quant_rmsnorm import QuantRMSNorm

    layers: list[nn.Module] = [m for m in model.modules() if isinstance(m, QuantRMSNorm)]
    if not layers:
        raise ApproxNormError(
            f"the {type(model).__name__} has no QuantRMSNorm; replace its norms first"
            " (approxnorm.nn.replace_norms)"
        )
    return layers


def _require_alone(model: nn.Module, layers: list[nn.Module]) -> None:
    """Refuse quantisers of other layers, which plain tracing takes apart."""
    from brevitas.proxy.quant_proxy import QuantProxyProtocol

    own = {id(getattr(layer, name, None)) for layer in layers for name in _PROXIES}
    for name, module in model.named_modules():
        is_quantiser = isinstance(module, QuantProxyProtocol) and id(module) not in own
        if is_quantiser and getattr(module, "is_quant_enabled", False):
            raise ApproxNormError(
                f"the model has the quantiser {name} of another quantised layer; export it with"
                " brevitas.export's export_onnx_qcdq or export_qonnx"
            )


@contextmanager
def _in_eval(model: nn.Module) -> Iterator[None]:
    """Eval mode, and floats between layers: a trace has no QuantTensors."""
    training = {module: module.training for module in model.modules()}
    flags = {m: m.return_quant_tensor for m in training if hasattr(m, "return_quant_tensor")}
    try:
        model.eval()
        for module in flags:
            cast(Any, module).return_quant_tensor = False
        yield
    finally:
        for module, was in training.items():
            module.training = was
        for module, flag in flags.items():
            cast(Any, module).return_quant_tensor = flag
