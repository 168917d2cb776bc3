"""The fused residual add: exact sums, addends that make them, and the kernel's own."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exact_integers import limit_exact
from hls_cases import rows, with_gamma
from hls_kernels import Command, Kernels, assert_equal, top_name
from norm_specs import BASE

from approxnorm import RMSNorm, RMSNormSpec
from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref.emit import emit_kernel
from approxnorm.residual import add_residual, split

FORMATS: dict[str, dict[str, Any]] = {
    "signed": {"bits": 4, "signed": True, "scale": 0.5},
    "unsigned": {"bits": 4, "signed": False, "scale": 0.3},
    "zero_low": {"bits": 4, "signed": True, "scale": 0.5, "zero_point": -8},
    "zero_high": {"bits": 4, "signed": True, "scale": 0.5, "zero_point": 7},
    "zero_inside": {"bits": 4, "signed": False, "scale": 0.5, "zero_point": 5},
    "narrow": {"bits": 2, "signed": False, "scale": 0.5},
    "wide": {"bits": 32, "signed": True, "scale": 2.0**-24},
    "wrap": {"bits": 4, "signed": True, "scale": 0.5, "overflow": "WRAP"},
    "symmetric": {"bits": 4, "signed": True, "scale": 0.5, "overflow": "SAT_SYM"},
    "to_zero": {"bits": 4, "signed": True, "scale": 0.5, "overflow": "SAT_ZERO"},
}


def model_with(name: str) -> RMSNorm:
    wide = {"row_exponent": {"bits": 10}} if name == "wide" else {}
    return with_gamma(RMSNormSpec(**{**BASE, "x": FORMATS[name], **wide}), 1)


@pytest.mark.parametrize("name", FORMATS)
def test_sums_are_exact_and_limited(name: str) -> None:
    model = model_with(name)
    form = model.assembly.x_format
    every = range(form.lo, form.hi + 1) if form.width <= 4 else (form.lo, -9, -1, 0, 3, form.hi)
    pairs = list(product(every, every))
    pairs += [(form.zero_point, form.zero_point)] * (-len(pairs) % model.dim)
    a, b = (np.array(v).reshape(-1, model.dim) for v in zip(*pairs, strict=True))
    limits = (form.lo, form.hi, form.overflow.name)
    wanted = [limit_exact(p + q - form.zero_point, *limits) for p, q in pairs]
    assert add_residual(model, a, b).ravel().tolist() == wanted


@pytest.mark.parametrize("name", FORMATS)
def test_split_adds_up(name: str) -> None:
    model = model_with(name)
    form = model.assembly.x_format
    x = rows(model)
    if name == "symmetric":  # no sum is the lowest code
        x = np.maximum(x, -form.hi)
    a, b = split(model, x, seed=3)
    assert np.array_equal(add_residual(model, a, b), x)
    for part in (a, b):
        assert part.min() >= form.lo and part.max() <= form.hi
    again, other = split(model, x, seed=3), split(model, x, seed=4)
    assert np.array_equal(again[0], a) and np.array_equal(again[1], b)
    assert not np.array_equal(other[0], a)


def test_split_reaches_past_the_limits() -> None:
    model = model_with("signed")
    form = model.assembly.x_format
    x = np.stack([np.full(model.dim, v) for v in (form.lo, form.hi)])
    found = [split(model, x, seed=s) for s in range(10)]
    sums = np.concatenate([a.astype(int) + b for a, b in found])
    assert sums.min() < form.lo and sums.max() > form.hi


def test_what_is_no_pair_of_rows_is_refused() -> None:
    model = model_with("signed")
    with pytest.raises(ApproxNormError, match=r"^a has shape \(2, 12\) and b \(1, 12\)"):
        add_residual(model, np.zeros((2, 12), int), np.zeros((1, 12), int))
    with pytest.raises(ApproxNormError, match=r"^b holds the code 8; its format allows -8 to 7"):
        add_residual(model, np.zeros((1, 12), int), np.full((1, 12), 8))


def test_kernel_adds_and_tells_the_sums(tmp_path: Path) -> None:
    """Any two codes: the sums are the model's, and y is that of the sums."""
    names = ("signed", "unsigned", "zero_inside", "wide", "wrap", "to_zero")
    models = [model_with(name) for name in names]
    sources = [
        emit_kernel(model, 5, top=top_name(i), residual=True) for i, model in enumerate(models)
    ]
    kernels = Kernels(tmp_path, sources)
    for i, (name, model) in enumerate(zip(names, models, strict=True)):
        form = model.assembly.x_format
        rng = np.random.default_rng(i)
        a, b = rng.integers(form.lo, form.hi + 1, (2, 40, model.dim))
        a[:4], b[:4] = (np.array([[form.lo], [form.hi], [form.lo], [form.hi]]) for _ in range(2))
        b[2:4] = b[3], b[2]
        x = add_residual(model, a, b)
        (answer,) = kernels.run(i, Command(model, a, b))
        assert answer.sum is not None
        assert np.array_equal(answer.sum, x), name
        assert_equal(Command(model, x), answer, name)


def test_symmetric_sums_never_give_the_lowest_code_that_vectors_hold() -> None:
    spec = RMSNormSpec(**{**BASE, "x": "ap_fixed<8,4,RND,SAT_SYM>"})
    model = RMSNorm(spec, np.ones(spec.dim or 0))
    with pytest.raises(ApproxNormError, match="no sum is its code -128, which the rows hold"):
        split(model, np.full((1, model.dim), -128))
