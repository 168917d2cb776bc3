"""Perplexity of SmolLM2-135M with every RMSNorm computed in integers, from a list of specs.

    python examples/llm_perplexity.py --specs outlier4-12bit,int16-accurate --sequences 3

Needs what benchmarks/onnx_smollm2.py needs, and brevitas. Each norm runs as its spec's hardware
does; all else stays float32. Scales and steps are calibrated on text of Python's own files, which
is none of the text that is measured: licences, and Python's help topics. Each finished sequence is
stored in the results file at once, and a second run goes on from there. docs/llm.md has results.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import importlib.metadata
import json
import math
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.output import write_atomically
from approxnorm.spec import RMSNormSpec, load_spec
from approxnorm.version import __version__

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = Path(sysconfig.get_path("stdlib"))
CALIBRATION = ("email/architecture.rst", "statistics.py", "argparse.py")  # of the library
GPL = Path("/usr/share/common-licenses/GPL-3")  # Debian's; elsewhere torch's copy serves
GPL_TITLE = "                    GNU GENERAL PUBLIC LICENSE\n                       Version 3"
TOKENS = 1024  # of a sequence that is measured
PIECE = 128  # tokens of a sequence for calibration: many first tokens, as a sink depends on it
DEFAULT_SPECS = "outlier4-12bit-channels"


@dataclass(frozen=True)
class Measured:
    """What one spec does on one sequence; spec, calibration and ids are SHA-256.

    nll_float, nll: mean negative log-likelihood of a token, in nats, in the float32 model and with
    the spec. kl: mean Kullback-Leibler divergence of the next token's distribution, from the float
    one to the spec's, in nats.
    """

    name: str
    spec: str
    calibration: str
    version: str
    text: str
    sequence: int
    ids: str
    nll_float: float
    nll: float
    kl: float

    @property
    def key(self) -> tuple[str, ...]:
        """What the numbers depend on: with the same key nothing is measured again."""
        return (self.spec, self.calibration, self.version, self.ids)


@dataclass(frozen=True)
class Summary:
    """A spec on one text: perplexities, their change in %, and KL's mean, spread and largest."""

    sequences: int
    ppl_float: float
    ppl: float
    change: float
    kl: float
    kl_std: float
    kl_max: float


def summarise(rows: Sequence[Measured]) -> Summary:
    """Perplexity is exp of the mean over all tokens; sequences are of one length."""
    before = math.exp(float(np.mean([row.nll_float for row in rows])))
    after = math.exp(float(np.mean([row.nll for row in rows])))
    kl = np.array([row.kl for row in rows])
    spread = float(kl.std(ddof=1)) if len(kl) > 1 else 0.0
    change = 100 * (after / before - 1)
    return Summary(len(rows), before, after, change, float(kl.mean()), spread, float(kl.max()))


# --- texts ----------------------------------------------------------------------------------------


def licence_text() -> str:
    """The Apache licence 2.0 (this project's), the GPL 3, and, if it is there, Python's licence."""
    python = LIBRARY / "LICENSE.txt"
    last = python.read_text("utf-8") if python.is_file() else ""
    return (ROOT / "LICENSE").read_text("utf-8") + gpl_text() + last


def gpl_text() -> str:
    """The GPL 3: Debian's file, or the same text among the licences of torch's wheel."""
    if GPL.is_file():
        return GPL.read_text("utf-8")
    for file in importlib.metadata.files("torch") or []:
        if file.name == "LICENSE":
            _, title, rest = file.read_text("utf-8").partition(GPL_TITLE)
            if title:
                return title + rest.rstrip("\n") + "\n"
    raise SystemExit(f"the GPL is neither at {GPL} nor in torch's wheel; choose --texts topics")


def topics_text() -> str:
    """Python's help topics, as ``help('topics')`` knows them, in alphabetical order."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


def calibration_text() -> str:
    """A page of documentation and two modules of Python's library."""
    return "".join((LIBRARY / name).read_text("utf-8") for name in CALIBRATION)


TEXTS: dict[str, Callable[[], str]] = {"licence": licence_text, "topics": topics_text}


def cut(ids: Sequence[int], count: int, length: int, what: str) -> np.ndarray:
    """The first ``count`` sequences of ``length`` tokens: int64 (count, length).

    Raises SystemExit if the text is too short.
    """
    if len(ids) < count * length:
        raise SystemExit(
            f"{what} has {len(ids)} tokens; allowed: at most {len(ids) // length} sequences of"
            f" {length}, not {count}"
        )
    return np.array(ids[: count * length], np.int64).reshape(count, length)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def spec_sha(spec: RMSNormSpec) -> str:
    """Of what counts in an open spec: all but its description."""
    fields = {k: v for k, v in spec.to_dict().items() if k != "description"}
    return sha(json.dumps(fields, sort_keys=True).encode("ascii"))


# --- results --------------------------------------------------------------------------------------


def read_results(path: Path) -> list[Measured]:
    """What is stored; nothing if there is no file. SystemExit if it is not such a file."""
    if not path.exists():
        return []
    try:
        return [Measured(**row) for row in json.loads(path.read_text("utf-8"))["measured"]]
    except (ValueError, TypeError, KeyError):
        raise SystemExit(
            f"{path} holds no results of this program; give --out another file"
        ) from None


def store(path: Path, rows: Sequence[Measured]) -> None:
    """Write all rows; a run that is stopped leaves the file as it was before or after."""
    content = json.dumps({"measured": [asdict(row) for row in rows]}, indent=1) + "\n"

    def write(out: IO[bytes]) -> None:
        out.write(content.encode("ascii"))

    write_atomically(path, write)


def table(rows: Sequence[Measured]) -> str:
    """Markdown: a line for each spec and text, in the order of the rows."""
    lines = [
        "| spec | text | sequences | float32 | spec | change | mean KL | spread | largest |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, text in dict.fromkeys((row.name, row.text) for row in rows):
        s = summarise([row for row in rows if (row.name, row.text) == (name, text)])
        lines.append(
            f"| {name} | {text} | {s.sequences} | {s.ppl_float:.3f} | {s.ppl:.3f} |"
            f" {s.change:+.2f} % | {s.kl:.1e} | {s.kl_std:.1e} | {s.kl_max:.1e} |"
        )
    return "\n".join(lines)


# --- the model ------------------------------------------------------------------------------------


class Judge:
    """The float32 model and its tokenizer, and what specs do to it."""

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT / "benchmarks"))
        from onnx_smollm2 import load

        self.model, self._tokenizer = load()

    def sequences(self, text: str, count: int, length: int, what: str) -> np.ndarray:
        """int64 (count, length)."""
        return cut(self._tokenizer(text).input_ids, count, length, what)

    def log_probabilities(self, model: Any, ids: np.ndarray) -> Any:
        """float32 (tokens, vocabulary) of a sequence of token ids."""
        import torch

        with torch.no_grad():
            logits = model(input_ids=torch.from_numpy(ids)[None], use_cache=False).logits[0]
            return torch.log_softmax(logits, -1)

    def with_spec(self, spec: RMSNormSpec, calibration: np.ndarray) -> Any:
        """A copy whose norms are the spec's, calibrated on sequences (n, tokens)."""
        import torch

        from approxnorm.nn import calibrate, replace_norms

        shared = {id(p): p for p in self.model.parameters()}
        model = copy.deepcopy(self.model, shared)
        done = replace_norms(model, spec)
        print(f"{len(done.replaced)} norms replaced, {len(done.left)} left", file=sys.stderr)
        pieces = torch.from_numpy(calibration).split(8)
        calibrate(model, [{"input_ids": piece, "use_cache": False} for piece in pieces])
        return model.eval()


def negative_log_likelihood(log_probabilities: Any, ids: np.ndarray) -> float:
    """The mean over the tokens that have one before them, in nats."""
    targets = np.asarray(ids)[1:]
    picked = log_probabilities[:-1][range(len(targets)), targets]
    return float(-picked.double().mean())


def divergence(before: Any, after: Any) -> float:
    """The mean KL divergence of the rows of two arrays of log-probabilities, in nats."""
    return float((before.exp() * (before - after)).sum(-1).double().mean())


# --- the command ----------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--specs", default=DEFAULT_SPECS, help="presets or files, with commas")
    parser.add_argument("--texts", default=",".join(TEXTS), help="with commas")
    parser.add_argument("--sequences", type=int, default=3, help="of 1024 tokens, of each text")
    parser.add_argument("--calibration", type=int, default=32, help="sequences of 128 tokens")
    parser.add_argument("--out", type=Path, default=Path("llm_perplexity.json"))
    options = parser.parse_args(arguments)
    options.texts = options.texts.split(",")
    unknown = [name for name in options.texts if name not in TEXTS]
    if unknown or options.sequences < 1 or options.calibration < 1:
        parser.error(
            f"--texts allows {', '.join(TEXTS)}; --sequences and --calibration start from 1"
        )
    return options


def measure(options: argparse.Namespace, judge: Judge) -> list[Measured]:
    """Everything that is asked for: what is stored already, and what is measured now."""
    stored = {row.key: row for row in read_results(options.out)}
    pieces = judge.sequences(
        calibration_text(), options.calibration, PIECE, "the text for calibration"
    )
    parts = [
        (text, number, ids)
        for text in options.texts
        for number, ids in enumerate(
            judge.sequences(TEXTS[text](), options.sequences, TOKENS, f"the text {text}")
        )
    ]
    rows = []
    for name in options.specs.split(","):
        spec, model = load_spec(name), None
        for text, number, ids in parts:
            key = (spec_sha(spec), sha(pieces.tobytes()), __version__, sha(ids.tobytes()))
            if key not in stored:
                model = judge.with_spec(spec, pieces) if model is None else model
                stored[key] = compared(judge, model, name, key, text, number, ids)
                store(options.out, list(stored.values()))
            rows.append(stored[key])
    return rows


def compared(
    judge: Judge,
    model: Any,
    name: str,
    key: tuple[str, str, str, str],
    text: str,
    number: int,
    ids: np.ndarray,
) -> Measured:
    """One spec on one sequence."""
    before, after = (judge.log_probabilities(m, ids) for m in (judge.model, model))
    row = Measured(
        name=name,
        spec=key[0],
        calibration=key[1],
        version=key[2],
        text=text,
        sequence=number,
        ids=key[3],
        nll_float=negative_log_likelihood(before, ids),
        nll=negative_log_likelihood(after, ids),
        kl=divergence(before, after),
    )
    print(f"{name} {text} {number}: KL {row.kl:.1e}", file=sys.stderr)
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    try:
        print(table(measure(options, Judge())))
    except ApproxNormError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
