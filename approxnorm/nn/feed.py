"""Run a model as floats and take what goes into each of its QuantRMSNorms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from brevitas.quant_tensor import QuantTensor
from torch import Tensor, nn

from approxnorm.errors import ApproxNormError
from approxnorm.nn.places import joined
from approxnorm.nn.quant_rmsnorm import QuantRMSNorm

Take = Callable[[str, np.ndarray], None]


def quant_norms(model: nn.Module) -> dict[str, QuantRMSNorm]:
    """The QuantRMSNorms of a model by name, each once; ApproxNormError if there is none.

    Layers without a layer_name take their name in the model.
    """
    if not isinstance(model, nn.Module):
        raise ApproxNormError(f"model is a {type(model).__name__}; allowed: a torch.nn.Module")
    found = {}
    for path, module in model.named_modules():
        if isinstance(module, QuantRMSNorm):
            module.layer_name = module.layer_name or path
            found[path or module.layer_name or "norm"] = module
    if not found:
        raise ApproxNormError(
            "the model has no QuantRMSNorm; approxnorm.nn.replace_norms puts them in the place of"
            " its norms"
        )
    return found


def feed(
    model: nn.Module,
    batches: Iterable[Any],
    watched: Mapping[str, QuantRMSNorm],
    take: Take,
    *,
    what: str,
    progress: bool,
    all_reached: bool = True,
) -> None:
    """Run the model on each batch, every QuantRMSNorm as a float norm; in eval mode.

    take(name, rows): called with what goes into each watched layer, float32 (rows, dim), in the
    order of the run. what: the progress bar's text. all_reached: every watched layer must be.
    Modes and hooks are as before in the end, whatever happens.

    Raises ApproxNormError for zero batches, for a layer that no batch reaches, and, with the
    layer's name and the batch's number, for what ``take`` refuses.
    """
    seen: set[str] = set()
    count = 0
    with _as_floats(model), ExitStack() as stack, torch.no_grad():
        for name, layer in watched.items():
            hook = partial(_hook, name, take, seen, lambda: count)
            handle = layer.register_forward_pre_hook(hook, with_kwargs=True)
            stack.callback(handle.remove)
        for batch in stack.enter_context(_bar(_iterable(batches), what, progress)):
            _call(model, batch)
            count += 1
    if not count:
        raise ApproxNormError("there are no batches; give at least one of what the model takes")
    missed = [name for name in watched if name not in seen]
    if missed and all_reached:
        raise ApproxNormError(
            f"no batch reaches {joined(missed)}; give batches that do, or name the layers that they"
            " reach (layers=)"
        )


def _hook(
    name: str,
    take: Take,
    seen: set[str],
    count: Callable[[], int],
    layer: QuantRMSNorm,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    given = next(iter([*args, *kwargs.values()]), None)
    x = given.value if isinstance(given, QuantTensor) else given
    if not isinstance(x, Tensor):
        return  # the layer's own error says it
    dim = layer.weight.numel()
    try:
        if x.ndim == 0 or x.shape[-1] != dim:
            raise ApproxNormError(f"x has shape {tuple(x.shape)}; allowed: rows of {dim} elements")
        rows = x.detach().to("cpu", torch.float32).reshape(-1, dim).numpy()
        if len(rows):
            take(name, rows)
            seen.add(name)
    except ApproxNormError as error:
        raise ApproxNormError(f"layer {name}, batch {count()}: {error}") from None


@contextmanager
def _as_floats(model: nn.Module) -> Iterator[None]:
    """Every module in eval mode, every QuantRMSNorm as a float norm, and nothing compiled."""
    modules = list(model.modules())
    modes = [(module, module.training) for module in modules]
    flags = [(m, m.calibrating) for m in modules if isinstance(m, QuantRMSNorm)]
    try:
        model.eval()
        for layer, _ in flags:
            layer.calibrating = True
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        for layer, flag in flags:
            layer.calibrating = flag
        for module, training in modes:
            module.training = training


def _iterable(batches: Iterable[Any]) -> Iterable[Any]:
    if isinstance(batches, Tensor | Mapping | str | bytes) or not isinstance(batches, Iterable):
        raise ApproxNormError(
            f"batches is a {type(batches).__name__}; allowed: an iterable of batches, [x] for"
            " a single one"
        )
    return batches


def _call(model: nn.Module, batch: Any) -> None:
    if isinstance(batch, Mapping):
        model(**batch)
    elif isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        model(*batch)
    else:
        model(batch)


@contextmanager
def _bar(batches: Iterable[Any], what: str, shown: bool) -> Iterator[Iterable[Any]]:
    """The batches; while they are taken, a bar on stderr, if that is a terminal."""
    if not shown or not sys.stderr.isatty():
        yield batches
        return
    from rich.console import Console
    from rich.progress import Progress

    total = len(batches) if isinstance(batches, Sized) else None
    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield bar.track(batches, total=total, description=what)
