"""Models of the families that have RMSNorms, small and with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

_VOCABULARY = 61
_SIZES: dict[str, Any] = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


@dataclass(frozen=True)
class SmallModel:
    """A model in eval mode, a batch of what it takes, and what is known of its norms."""

    model: Any
    batch: dict[str, torch.Tensor]
    norms: int
    eps: float
    adds_one: bool


def _decoder(name: str, **more: Any) -> Any:
    config = getattr(transformers, f"{name}Config")(**_SIZES, **more)
    return getattr(transformers, f"{name}ForCausalLM")(config)


def _t5() -> Any:
    config = transformers.T5Config(
        vocab_size=_VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4
    )
    return transformers.T5ForConditionalGeneration(config)


# Norms: two a layer and one at the end; q and k of each layer; T5's decoder has three a layer.
FAMILIES: dict[str, tuple[Callable[[], Any], int, float, bool]] = {
    "gemma": (lambda: _decoder("Gemma"), 5, 1e-6, True),
    "llama": (lambda: _decoder("Llama", rms_norm_eps=1e-5), 5, 1e-5, False),
    "mistral": (lambda: _decoder("Mistral"), 5, 1e-6, False),
    "qwen3": (lambda: _decoder("Qwen3"), 9, 1e-6, False),
    "t5": (_t5, 12, 1e-6, False),
}


def small_model(name: str) -> SmallModel:
    """The same in every run; its norms' weights are not all alike."""
    make, norms, eps, adds_one = FAMILIES[name]
    torch.manual_seed(sorted(FAMILIES).index(name))
    model = make().eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.uniform_(parameter, -0.2, 0.2)
            parameter.data += 0.0 if adds_one else 1.0
    ids = torch.randint(_VOCABULARY, (2, 9))
    batch = {"input_ids": ids} | ({"decoder_input_ids": ids.flip(0)} if name == "t5" else {})
    return SmallModel(model, batch, norms, eps, adds_one)
