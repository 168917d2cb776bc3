"""The kernel in C++ against the model: every output code, and every named signal."""

import re
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from hls_cases import (
    NORMALIZE,
    RSQRT,
    covering_models,
    preset_model,
    preset_models,
    random_models,
    rows,
    statistics,
)
from hls_kernels import Command, assert_equal, static_kernels
from norm_specs import build as build_variant

from approxnorm import RMSNorm
from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref import csim
from approxnorm.hls_ref.emit import emit_kernel
from approxnorm.methods.function import RSQRT_METHODS
from approxnorm.methods.normalizers import NORMALIZERS
from approxnorm.methods.statistics import STATISTICS

BATCH = 6  # kernels in one compilation
LANES = (8, 4, 5, 16, 1, 3, 40)  # some divide dim, some do not, some are more than dim

VARIANTS = ("zero_points", "channel_shifts", "row_exponent_outliers", "y_unsigned", "log_adder")
VARIANTS += ("mitchell", "log_correction", "y_trn_zero_sym", "onnx_trn")


def variant_models() -> Iterator[tuple[str, RMSNorm]]:
    for name in VARIANTS:
        yield name, build_variant(name)


SOURCES: dict[str, tuple[Callable[[], Iterator[tuple[str, RMSNorm]]], int]] = {
    "presets": (preset_models, 21),
    "covering": (covering_models, 17),
    "variants": (variant_models, 9),
    "random": (lambda: random_models(range(12)), 12),
}
BATCHES = [
    (name, start) for name, (_, count) in SOURCES.items() for start in range(0, count, BATCH)
]


def cases(source: str) -> list[tuple[str, RMSNorm, int]]:
    models, count = SOURCES[source]
    found = [(n, m, lanes) for (n, m), lanes in zip(models(), cycle(LANES), strict=False)]
    assert len(found) == count
    return found


@pytest.mark.parametrize(("source", "start"), BATCHES)
def test_kernel_is_the_model(source: str, start: int, tmp_path: Path) -> None:
    batch = cases(source)[start : start + BATCH]
    kernels = static_kernels(tmp_path, [(model, lanes) for _, model, lanes in batch])
    for i, (name, model, lanes) in enumerate(batch):
        command = Command(model, rows(model, i))
        (answer,) = kernels.run(i, command)
        assert_equal(command, answer, f"{name}, {lanes} lanes")


def test_every_method_in_every_form_is_covered() -> None:
    names = " ".join(name for name, _ in covering_models())
    for fields in (*RSQRT, *NORMALIZE, *statistics(37)):
        fields.pop("start", None)  # follows dim
        inside = str(fields)[1:-1]
        assert inside in names, inside
    forms = {
        "rsqrt": (RSQRT, set(RSQRT_METHODS.names()) - {"exact"}),
        "statistic": (statistics(37), set(STATISTICS.names())),
        "normalize": (NORMALIZE, set(NORMALIZERS.names())),
    }
    for listed, methods in forms.values():
        assert {fields["method"] for fields in listed} == methods


# --- the same bits, whatever the compiler does --------------------------------------------------


def makefile_flags(name: str) -> list[str]:
    """What the exported Makefile compiles with."""
    text = (csim.HERE / "project" / "templates" / "Makefile.in").read_text()
    lines = re.findall(rf"^{name} +[:+]= (.*)$", text, re.MULTILINE)
    return [flag for line in lines for flag in line.split() if flag.startswith(("-W", "-f"))]


CHOSEN = ("outlier4-top4", "log-16bit")


def test_flags_are_found() -> None:
    assert "-Wall" in makefile_flags("FLAGS")
    assert any(flag.startswith("-fsanitize") for flag in makefile_flags("SANITIZE"))


@pytest.mark.parametrize(
    "flags",
    [
        ("-O3",),
        ("-O2", "-DAPPROX_TRACE", *makefile_flags("FLAGS"), "-Werror"),
        ("-Og", "-DAPPROX_TRACE", *makefile_flags("SANITIZE")),
    ],
    ids=["O3", "warnings", "sanitizers"],
)
def test_same_bits_without_a_complaint(flags: tuple[str, ...], tmp_path: Path) -> None:
    """-O0 is what the other tests compare the model with."""
    models = [(preset_model(name, 37), 8) for name in CHOSEN]
    kernels = static_kernels(tmp_path, models, flags)
    for i, (model, _) in enumerate(models):
        command = Command(model, rows(model))
        (answer,) = kernels.run(i, command)
        if "-DAPPROX_TRACE" in flags:
            assert_equal(command, answer)
        else:
            assert np.array_equal(answer.y, model(command.x))


# --- one row after another ----------------------------------------------------------------------


def test_rows_leave_nothing_behind(tmp_path: Path) -> None:
    """A row gives the same whatever came before it; no rows give none."""
    model = preset_model("outlier4-top4", 13)
    kernels = static_kernels(tmp_path, [(model, 4)])
    x = rows(model)
    commands = [Command(model, part) for part in (x, x[:0], x[::-1], x[-1:], x[:1])]
    for command, answer in zip(commands, kernels.run(0, *commands), strict=True):
        assert_equal(command, answer)


@pytest.mark.parametrize("lanes", [0, -1, 43, 4096])
def test_lanes_that_make_no_beat_are_refused(lanes: int) -> None:
    with pytest.raises(
        ApproxNormError, match=f"^lanes is {lanes}; allowed: 1 to 42, as a beat has"
    ):
        emit_kernel(preset_model("outlier4-16bit", 37), lanes)


def test_a_wrong_code_is_found(tmp_path: Path) -> None:
    model = preset_model("int8-linear", 5)
    command = Command(model, rows(model))
    (answer,) = static_kernels(tmp_path, [(model, 2)]).run(0, command)
    assert_equal(command, answer)
    changed = next(n for n, v in answer.signals.items() if v.ndim == 1)
    answer.signals[changed][3] += 1
    with pytest.raises(AssertionError, match=rf"{changed}\[3\] is"):
        assert_equal(command, answer)
