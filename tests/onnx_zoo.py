"""Real models, exported by torch: a forecaster with its own weights, and small transformers.

The transformers are of the library's own classes, with two layers and random weights, also in their
norms. Nothing is downloaded.
"""

import io
import logging
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx_ir

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from fracast import FracastModel
from onnx_graphs import largest_difference, replaced, run
from onnxscript.rewriter.ort_fusions import optimize_for_ort
from torch import nn

from approxnorm.export.norms import Norm, find_norms

OPSETS = (18, 20, 23)
TOKENS = 64
SMALL: dict[str, Any] = {
    "vocab_size": TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "use_cache": False,
    "attn_implementation": "eager",
}
SMALL_T5: dict[str, Any] = {
    "vocab_size": TOKENS,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "use_cache": False,
    "decoder_start_token_id": 0,
    "attn_implementation": "eager",
}
# transformers' names of configuration and model.
FAMILIES = {
    "Llama": ("LlamaConfig", "LlamaForCausalLM"),
    "Mistral": ("MistralConfig", "MistralForCausalLM"),
    "Qwen3": ("Qwen3Config", "Qwen3ForCausalLM"),
    "Gemma": ("GemmaConfig", "GemmaForCausalLM"),
    "Gemma2": ("Gemma2Config", "Gemma2ForCausalLM"),
    "Gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
    "T5": ("T5Config", "T5ForConditionalGeneration"),
}
MODELS = ("fracast", *FAMILIES)

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class TorchNorm:
    """An RMSNorm of a torch model, and how often it was applied in one run."""

    gamma: np.ndarray
    eps: float
    calls: int


@dataclass(frozen=True)
class Exported:
    """A torch model as ONNX, with its inputs and the norms that it had in torch."""

    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]
    norms: dict[str, TorchNorm]


class Forecaster(nn.Module):
    """fracast's encoder and head; some of its norms are applied several times."""

    def __init__(self) -> None:
        super().__init__()
        model = FracastModel.from_pretrained()
        self.core, self.head = model.core, model.head

    def forward(self, values: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """Quantiles of the forecast; values and valid: (batch, 1, 2048)."""
        hidden = self.core(values, valid, valid.to(torch.float32))
        series, mask = values[:, 0], valid[:, 0]
        return self.head.forward_horizon(hidden, last_obs=series[:, -1:], ctx=series, ctx_mask=mask)


class Logits(nn.Module):
    """A language model with nothing but its logits as output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, decoder_ids: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of the tokens; of an encoder and decoder, the decoder's."""
        if decoder_ids is None:
            return self.model(input_ids=ids).logits
        return self.model(input_ids=ids, decoder_input_ids=decoder_ids).logits


def torch_model(name: str) -> tuple[nn.Module, Inputs]:
    """One of MODELS, and inputs for it."""
    torch.manual_seed(0)
    if name == "fracast":
        time = torch.arange(2048, dtype=torch.float32)
        wave = 0.5 + 0.4 * torch.sin(time / 7) + 0.05 * torch.rand(2048)
        return Forecaster().eval(), (wave.reshape(1, 1, -1), torch.ones(1, 1, 2048).bool())
    config, model = (getattr(transformers, each) for each in FAMILIES[name])
    module = Logits(model(config(**(SMALL_T5 if name == "T5" else SMALL)))).eval()
    for _, norm in norm_modules(module):
        nn.init.uniform_(norm.weight, -0.5, 0.5)
        if not is_one_added(norm):
            norm.weight.data += 1
    ids = torch.randint(1, TOKENS, (2, 6))
    return module, (ids, ids.flip(1)) if name == "T5" else (ids,)


def norm_modules(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every RMSNorm of a model, by the name of its class: T5 calls it a LayerNorm."""
    for name, each in module.named_modules():
        if type(each).__name__.endswith(("RMSNorm", "T5LayerNorm")):
            yield name, each


def is_one_added(norm: nn.Module) -> bool:
    """Whether gamma is 1 + weight."""
    return type(norm).__name__.startswith("Gemma")


def torch_norms(module: nn.Module, inputs: Inputs) -> dict[str, TorchNorm]:
    """The norms of a model by name, from a run."""
    calls: Counter[str] = Counter()
    modules = dict(norm_modules(module))
    hooks = [
        norm.register_forward_hook(lambda *_, name=name: calls.update([name]))
        for name, norm in modules.items()
    ]
    with torch.no_grad():
        module(*inputs)
    for hook in hooks:
        hook.remove()
    return {name: torch_norm(norm, calls[name]) for name, norm in modules.items()}


def torch_norm(norm: nn.Module, calls: int) -> TorchNorm:
    """What a norm computes with."""
    weight = norm.weight.detach().numpy()
    eps = norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps
    if eps is None:  # nn.RMSNorm's default
        eps = float(np.finfo(np.float32).eps)
    return TorchNorm(1 + weight if is_one_added(norm) else weight, eps, calls)


@contextmanager
def quiet() -> Iterator[None]:
    """What torch's exporter says of itself and of other libraries is not told."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def export(
    name: str, opset: int, *, dynamic: bool = False, dtype: torch.dtype = torch.float32
) -> Exported:
    """One of MODELS by torch's exporter; dynamic: of any batch and sequence length."""
    module, inputs = torch_model(name)
    norms = torch_norms(module, inputs)
    module.to(dtype)
    size = torch.export.Dim.DYNAMIC
    with quiet():
        program = torch.onnx.export(
            module,
            inputs,
            dynamo=True,
            opset_version=opset,
            verbose=False,
            dynamic_shapes=tuple({0: size, 1: size} for _ in inputs) if dynamic else None,
        )
    assert program is not None
    if dynamic:
        # One sequence: at opset 23 torch writes a RotaryEmbedding that takes no more.
        inputs = tuple(value[:1, :5] for value in inputs)
    return exported(program.model_proto, opset, inputs, norms)


def export_by_torchscript(name: str, opset: int) -> Exported:
    """One of MODELS by torch's older exporter."""
    module, inputs = torch_model(name)
    norms = torch_norms(module, inputs)
    file = io.BytesIO()
    with quiet():
        torch.onnx.export(module, inputs, file, dynamo=False, opset_version=opset)
    return exported(onnx.load_from_string(file.getvalue()), opset, inputs, norms)


def fused(original: Exported) -> Exported:
    """The same after onnxscript's fusions for ONNX Runtime."""
    optimised = optimize_for_ort(onnx_ir.serde.deserialize_model(original.model))
    model = optimised[0] if isinstance(optimised, tuple) else optimised
    return replace(original, model=onnx_ir.serde.serialize_model(model))


def exported(
    model: onnx.ModelProto, opset: int, inputs: Inputs, norms: dict[str, TorchNorm]
) -> Exported:
    """A model of the opset that was asked for, with its inputs by name."""
    (version,) = (each.version for each in model.opset_import if each.domain == "")
    assert version == opset
    names = [value.name for value in model.graph.input]
    arrays = [value.numpy() for value in inputs]
    return Exported(model, dict(zip(names, arrays, strict=True)), norms)


def assert_norms_of_torch(exported: Exported, norms: tuple[Norm, ...]) -> None:
    """Each call of each norm is there, under its module's name, with its own gamma and eps."""
    found: Counter[str] = Counter()
    for norm in norms:
        # A norm that is called again has a number behind its name.
        name = norm.name if norm.name in exported.norms else norm.name.rpartition("_")[0]
        found[name] += 1
        np.testing.assert_array_equal(norm.gamma, exported.norms[name].gamma)
        assert norm.eps == float(str(np.float32(exported.norms[name].eps)))
    assert found == {name: norm.calls for name, norm in exported.norms.items()}


def all_norms(exported: Exported) -> tuple[Norm, ...]:
    """What is found in a model where everything must be, and where each norm is what it says."""
    before = exported.model.SerializeToString()
    findings = find_norms(exported.model)
    assert exported.model.SerializeToString() == before
    assert findings.unrecognised == ()
    assert findings.layernorms == 0
    new = run(replaced(exported.model, findings), exported.inputs)
    assert largest_difference(new, run(exported.model, exported.inputs)) < 1e-5
    return findings.norms
