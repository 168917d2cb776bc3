"""What keeps a module from being replaced by a layer with one weight, before it is ever run."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def obstacle(module: nn.Module, *, takes_more: bool = False) -> str | None:
    """Why a module cannot be probed or replaced whatever it computes, or None if it can.

    In its place comes a layer with one parameter, ``weight``, that is called with one tensor.
    takes_more: its forward may have further parameters, which callers do not use.
    """
    if parametrize.is_parametrized(module):
        return "its weight is parametrized"
    found = [name for name, _ in module.named_parameters()]
    if not found:
        return "it has no weight"
    if found != ["weight"]:
        return f"its parameters are {', '.join(found)}; allowed: one, called weight"
    reason = _weight_obstacle(weight_of(module)) or _state_obstacle(module)
    return reason or (None if takes_more else _call_obstacle(module))


def weight_of(module: nn.Module) -> nn.Parameter:
    """The one parameter of a module without obstacle."""
    weight = module.weight
    assert isinstance(weight, nn.Parameter)
    return weight


def _weight_obstacle(weight: Tensor) -> str | None:
    if nn.parameter.is_lazy(weight):
        return "its weight has no shape yet; run the model once"
    if weight.ndim != 1 or not weight.numel():
        shape = tuple(weight.shape)
        return f"its weight has shape {shape}; allowed: one number for each of the last axis"
    if weight.is_meta:
        return "its weight is on the meta device and has no values yet"
    if weight.dtype not in FLOATS:
        allowed = ", ".join(plain_dtype(dtype) for dtype in FLOATS)
        return f"its weight is {plain_dtype(weight.dtype)}; allowed: {allowed}"
    if not torch.isfinite(weight.detach()).all():
        return "its weight holds NaN or infinity"
    return None


def _state_obstacle(module: nn.Module) -> str | None:
    buffers = [name for name, _ in module.named_buffers() if _is_saved(module, name)]
    if buffers:
        return f"its buffers ({', '.join(buffers)}) would be missing in the state_dict"
    if "forward" in vars(module):
        return "its forward was replaced on this one module, which would be lost"
    if any(getattr(module, name, None) for name in _HOOKS):
        return "it has hooks, which would be lost; remove them, replace, and add them again"
    if isinstance(module, torch.jit.ScriptModule):
        return "it is TorchScript"
    return None


def _is_saved(module: nn.Module, name: str) -> bool:
    path, _, last = name.rpartition(".")
    return last not in module.get_submodule(path)._non_persistent_buffers_set


def _call_obstacle(module: nn.Module) -> str | None:
    try:
        names = list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):  # no signature: running it will tell
        return None
    if len(names) == 1:
        return None
    return f"its forward takes {', '.join(names) or 'nothing'}; a norm takes one tensor"


def plain_dtype(dtype: torch.dtype) -> str:
    """bfloat16, not torch.bfloat16."""
    return str(dtype).removeprefix("torch.")
