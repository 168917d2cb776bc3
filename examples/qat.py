"""Quantisation-aware training: a small transformer whose RMSNorms are a hardware's.

Needs `pip install approxnorm[torch]`. The model predicts the next character of Python's own help
(pydoc_data.topics, which comes with Python). For each seed and spec, three models of equal steps:

  fp32         nn.RMSNorm throughout
  replaced     that model, its norms replaced and calibrated, not trained any more
  trained      norms replaced after the first part of the training, the rest done with them

Prints a table of accuracies on text that no model has seen; docs/qat.md has one of a full run.
"""

from __future__ import annotations

import argparse
import copy
import pydoc_data.topics
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu

from approxnorm import RMSNormSpec
from approxnorm.nn import calibrate, replace_norms
from approxnorm.rmsnorm import EpsWarning
from approxnorm.spec import load_spec

CONTEXT = 64  # characters that the model sees
BATCH = 32
RATE = 3e-3


# --- text -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """Characters as numbers: ``train`` and ``test``, of which the latter is the last tenth."""

    train: Tensor
    test: Tensor
    characters: int

    @classmethod
    def help_topics(cls) -> Corpus:
        """Python's help; its paragraphs once each, as many topics repeat those of others."""
        whole = "\n\n".join(pydoc_data.topics.topics.values())
        text = "\n\n".join(dict.fromkeys(whole.split("\n\n")))
        numbers = {c: i for i, c in enumerate(sorted(set(text)))}
        ids = torch.tensor([numbers[c] for c in text])
        cut = len(ids) * 9 // 10
        return cls(ids[:cut], ids[cut:], len(numbers))

    def batches(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Random windows of the training text without end, and what follows each character."""
        while True:
            starts = torch.randint(len(self.train) - CONTEXT, (BATCH,), generator=generator)
            windows = self.train[starts[:, None] + torch.arange(CONTEXT + 1)]
            yield windows[:, :-1], windows[:, 1:]


# --- model ------------------------------------------------------------------------------------


class Block(nn.Module):
    """Causal attention and an MLP, each after an RMSNorm, on a residual."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(dim, eps=1e-5)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp_norm = nn.RMSNorm(dim, eps=1e-5)
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, length, dim), to the same."""
        batch, length, dim = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, dim))
        down: Tensor = self.down(silu(self.up(self.mlp_norm(x))))
        return x + down


class CharacterModel(nn.Module):
    """Numbers of characters (batch, length) to logits of the next (batch, length, characters)."""

    def __init__(self, characters: int, dim: int = 64, layers: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, dim)
        self.positions = nn.Embedding(CONTEXT, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(layers)))
        self.norm = nn.RMSNorm(dim, eps=1e-5)
        self.head = nn.Linear(dim, characters, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.positions.weight[: ids.shape[1]]
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


@torch.no_grad()
def accuracy(model: nn.Module, corpus: Corpus) -> float:
    """The share of the test text's characters that the model predicts, in percent."""
    model.eval()
    windows = (len(corpus.test) - 1) // CONTEXT
    inputs = corpus.test[: windows * CONTEXT].view(windows, CONTEXT)
    wanted = corpus.test[1 : windows * CONTEXT + 1].view(windows, CONTEXT)
    right = 0
    for some, next_ in zip(inputs.split(128), wanted.split(128), strict=True):
        right += int((model(some).argmax(-1) == next_).sum())
    return 100 * right / wanted.numel()


# --- training ---------------------------------------------------------------------------------


@dataclass
class Training:
    """Steps of AdamW; ``calibration``: batches on which hardware norms are calibrated anew."""

    model: nn.Module
    batches: Iterator[tuple[Tensor, Tensor]]
    calibration: Sequence[Tensor] = ()
    every: int = 50

    def run(self, steps: int, first_rate: float, last_rate: float) -> None:
        """The rate goes along a line; scales follow the model as its activations change."""
        optimizer = torch.optim.AdamW(self.model.parameters())
        for step in range(steps):
            if step % self.every == 0:
                self._calibrate()
                self.model.train()
            rate = first_rate + (last_rate - first_rate) * step / steps
            for group in optimizer.param_groups:
                group["lr"] = rate
            self._step(optimizer)
        self._calibrate()

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        inputs, wanted = next(self.batches)
        loss = cross_entropy(self.model(inputs).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        optimizer.step()

    def _calibrate(self) -> None:
        if self.calibration:
            calibrate(self.model, self.calibration, again=True, progress=False)


# --- experiment -------------------------------------------------------------------------------


@dataclass
class Result:
    """Accuracies in percent, one for each seed."""

    fp32: list[float] = field(default_factory=list)
    replaced: dict[str, list[float]] = field(default_factory=dict)
    trained: dict[str, list[float]] = field(default_factory=dict)

    @property
    def spread(self) -> float:
        """How far apart fp32's seeds are, in points."""
        return max(self.fp32) - min(self.fp32)

    def gap(self, accuracies: Sequence[float]) -> float:
        """The mean's distance from fp32's mean, in points."""
        return _mean(accuracies) - _mean(self.fp32)

    def within_spread(self, accuracies: Sequence[float]) -> bool:
        """Whether the mean is at most fp32's seed-to-seed spread away from fp32's mean."""
        return abs(self.gap(accuracies)) <= self.spread

    def table(self) -> str:
        """Markdown."""
        lines = [
            f"| norm | {' | '.join(f'seed {i}' for i in range(len(self.fp32)))} | mean | gap to"
            " fp32 | within fp32's spread |",
            "| --- |" + " ---: |" * (len(self.fp32) + 2) + " --- |",
            _row("fp32", self.fp32, "", f"(spread {self.spread:.2f})"),
        ]
        for name, replaced in self.replaced.items():
            for state, each in (("replaced", replaced), ("trained", self.trained[name])):
                verdict = "yes" if self.within_spread(each) else "no"
                lines.append(_row(f"{name}, {state}", each, f"{self.gap(each):+.2f}", verdict))
        return "\n".join(lines)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _row(name: str, accuracies: Sequence[float], gap: str, verdict: str) -> str:
    cells = [f"{a:.2f}" for a in [*accuracies, _mean(accuracies)]]
    return f"| {' | '.join([name, *cells, gap, verdict])} |"


def run(
    corpus: Corpus, specs: dict[str, RMSNormSpec], seeds: int, steps: int, dim: int, layers: int
) -> Result:
    """Every spec for every seed; steps: of each model, two fifths of them at the full rate."""
    result = Result(replaced={n: [] for n in specs}, trained={n: [] for n in specs})
    first = steps * 2 // 5
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = CharacterModel(corpus.characters, dim, layers)
        Training(model, corpus.batches(_generator(seed))).run(first, RATE, RATE)
        halfway = copy.deepcopy(model)
        # Both go on with the same batches.
        Training(model, corpus.batches(_generator(seed, 1))).run(steps - first, RATE, 0)
        result.fp32.append(accuracy(model, corpus))
        _say(seed, "fp32", result.fp32)

        batches = corpus.batches(_generator(seed, 2))
        calibration = [next(batches)[0] for _ in range(4)]
        for name, spec in specs.items():
            replaced, trained = copy.deepcopy(model), copy.deepcopy(halfway)
            replace_norms(replaced, spec)
            calibrate(replaced, calibration, progress=False)
            result.replaced[name].append(accuracy(replaced, corpus))
            _say(seed, f"{name}, replaced", result.replaced[name])

            replace_norms(trained, spec)
            batches = corpus.batches(_generator(seed, 1))
            Training(trained, batches, calibration).run(steps - first, RATE, 0)
            result.trained[name].append(accuracy(trained, corpus))
            _say(seed, f"{name}, trained", result.trained[name])
    return result


def _generator(seed: int, use: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(1000 * use + seed)


def _say(seed: int, what: str, accuracies: Sequence[float]) -> None:
    print(f"seed {seed}: {what}: {accuracies[-1]:.2f} %", flush=True)


# --- command line -----------------------------------------------------------------------------

SPECS = ["int8-linear", "published-prmsnorm"]


def main(arguments: Sequence[str] | None = None) -> Result:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=600, help="of each model")
    parser.add_argument("--specs", nargs="+", default=SPECS, help="presets or files")
    parser.add_argument("--quick", action="store_true", help="a model of one layer, 60 steps")
    options = parser.parse_args(arguments)
    if options.quick:
        options.steps = 60
    if options.seeds < 1 or options.steps < 2:
        parser.error("--seeds must be at least 1, --steps at least 2")
    specs = {Path(name).stem: load_spec(name) for name in options.specs}
    warnings.simplefilter("ignore", EpsWarning)  # no row of this model is so small that eps counts
    dim, layers = (32, 1) if options.quick else (128, 2)
    result = run(Corpus.help_topics(), specs, options.seeds, options.steps, dim, layers)
    print(f"\n{result.table()}")
    return result


if __name__ == "__main__":
    main()
