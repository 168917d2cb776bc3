"""docs/cli.md: every example runs, prints what the page shows, and has the shape that it gives."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import write_block

from approxnorm.cli import main
from approxnorm.inputs import default_activations

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "cli.md").read_text("utf-8")
FENCE = re.compile(r"^```(?P<kind>\S+)(?P<rest>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)
BLOCKS = [(m["kind"], m["rest"].strip(), m["body"]) for m in FENCE.finditer(PAGE)]
LAYERS = {"attn": "layers_10_input_layernorm", "mlp": "layers_20_post_attention_layernorm"}
COMMANDS = {"presets", "show", "rsqrt", "apply", "error", "vectors", "check", "compare", "run"}
COMMANDS |= {"mutate", "capture", "convert", "export", "schema"}


def console_examples() -> list[tuple[str, list[str]]]:
    """(command, lines that it must print in that order) for each `$` line."""
    found: list[tuple[str, list[str]]] = []
    for kind, _, body in BLOCKS:
        if kind == "console":
            for line in body.splitlines():
                if line.startswith("$ approxnorm "):
                    found.append((line.removeprefix("$ approxnorm "), []))
                else:
                    found[-1][1].append(line)
    return found


def name_of(parameter: Any) -> str:
    return str(parameter).split()[0][:12]


SHAPES = [(rest, body) for kind, rest, body in BLOCKS if kind == "json-shape"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the page speaks of, in the current folder."""
    monkeypatch.chdir(tmp_path)
    with np.load(default_activations(), allow_pickle=False) as data:
        acts = {
            f"{ours}.{part}": data[f"{theirs}.{part}"][..., :16, :]
            if part == "x"
            else data[f"{theirs}.{part}"]
            for ours, theirs in LAYERS.items()
            for part in ("x", "gamma", "eps")
        }
    np.savez("acts.npz", **acts)
    np.save("X.npy", acts["attn.x"].reshape(2, 8, 576))
    np.save("G.npy", acts["attn.gamma"])
    (spec,) = [body for kind, _, body in BLOCKS if kind == "toml"]
    (tmp_path / "my.toml").write_text(spec, "utf-8")
    write_block(tmp_path)
    return tmp_path


def test_every_command_has_both_kinds_of_example() -> None:
    shaped = {rest.split()[0] for rest, _ in SHAPES}
    shown = {command.split()[0] for command, _ in console_examples()}
    assert shaped == COMMANDS
    assert shown == COMMANDS - {"schema"}


@pytest.fixture
def compared(request: pytest.FixtureRequest, folder: Path) -> None:
    """For `compare`: the vectors of the page, and what a simulation wrote for them."""
    if request.getfixturevalue("command").startswith("compare"):
        assert main(shlex.split("vectors my.toml --gamma G.npy --level 0 --out golden")) == 0
        (folder / "rtl").mkdir()
        (folder / "rtl" / "y.hex").write_bytes(Path("golden/y.hex").read_bytes().upper())


@pytest.mark.parametrize(("command", "expected"), console_examples(), ids=name_of)
def test_example_prints_what_the_page_shows(
    command: str, expected: list[str], compared: None, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(shlex.split(command)) == 0
    printed = iter([line.rstrip() for line in capsys.readouterr().out.splitlines()])
    skipping = False
    for line in expected:
        if line == "...":
            skipping = True
        elif skipping:
            assert line in printed, f"{line!r} does not follow"  # consumes up to it
            skipping = False
        else:
            assert next(printed) == line


@pytest.mark.parametrize(("command", "shape"), SHAPES, ids=name_of)
def test_json_has_the_shape_that_the_page_gives(
    command: str, shape: str, compared: None, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(shlex.split(command)) == 0
    check_shape(json.loads(shape), json.loads(capsys.readouterr().out), "$")


def check_shape(shape: Any, actual: Any, where: str) -> None:
    """The same keys and kinds; a key "..." stands for any further ones. Lists show one item."""
    if isinstance(shape, dict):
        assert isinstance(actual, dict), where
        named = set(shape) - {"..."}
        assert named <= set(actual) if "..." in shape else named == set(actual), where
        for key in named:
            check_shape(shape[key], actual[key], f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(actual, list), where
        if shape and isinstance(shape[0], dict):
            assert actual, where
            check_shape(shape[0], actual[0], f"{where}[0]")
    elif shape is not None:  # null: there is such a key, and it may be null
        assert isinstance(actual, bool) == isinstance(shape, bool), where
        assert isinstance(actual, str if isinstance(shape, str) else int | float), where
