"""Every operation, preset and random spec on torch tensors against the NumPy model's values."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hls_cases import preset_model
from op_programs import (
    ONE,
    TWO,
    Programs,
    any_sizes,
    described,
    every_mode,
    numbers_alone,
    products_of_narrow_values,
    two_values,
    unlimited,
)
from random_specs import spec_model

from approxnorm import RMSNorm
from approxnorm.backends.numpy_backend import NumpyBackend
from approxnorm.backends.torch_backend import BLOCK_ELEMENTS, TorchBackend
from approxnorm.cli import main
from approxnorm.conformance.torch_runner import TorchRunner
from approxnorm.errors import ApproxNormError
from approxnorm.program.datapath import Datapath
from approxnorm.spec import preset_names
from approxnorm.vectors import plan


def check(datapath: Datapath, inputs: dict[str, np.ndarray]) -> None:
    """Every named signal, computed node by node, and the output by way of tables."""
    wanted = NumpyBackend(datapath).run_traced(inputs)
    tensors = {name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in inputs.items()}
    backend = TorchBackend(datapath)
    got = backend.run_traced(tensors)
    assert set(got) == set(wanted) - set(inputs)
    got["of the fast path"], wanted["of the fast path"] = (
        backend.run(tensors),
        wanted[datapath.output],
    )
    for name, value in got.items():
        wrong = np.argwhere(value.numpy() != wanted[name])
        where = next(iter(datapath.programs())).program
        assert not len(wrong), (
            f"{name} of {described(where)} at {[v[tuple(wrong[0])] for v in inputs.values()]}:"
            f" {value.numpy()[tuple(wrong[0])]}, not {wanted[name][tuple(wrong[0])]}"
        )


def check_all(programs: Programs) -> None:
    """Each program on all its samples."""
    for datapath, columns in zip(programs.datapaths, programs.samples, strict=True):
        check(datapath, {f"i{n}": c[None, :] for n, c in enumerate(columns)})


@pytest.mark.parametrize("op", sorted(TWO))
def test_of_two_values(op: str) -> None:
    programs = two_values(TWO[op], len(op))
    if op == "mul":
        products_of_narrow_values(programs)
    check_all(programs)


@pytest.mark.parametrize("kind", sorted(ONE))
def test_of_other_values(kind: str) -> None:
    make, operations = ONE[kind]
    programs = make()
    assert operations <= {node.op for program in programs.traced for node in program.nodes}
    check_all(programs)


@pytest.mark.parametrize("make", [every_mode, any_sizes])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_shifts(make: Callable[[int], Programs], seed: int) -> None:
    check_all(make(seed))


@pytest.mark.parametrize("make", [unlimited, numbers_alone])
def test_of_constants_and_without_limits(make: Callable[[], Programs]) -> None:
    check_all(make())


# --- whole datapaths ------------------------------------------------------------------------------


def check_model(model: RMSNorm, codes: np.ndarray) -> None:
    """y, and every signal that there is."""
    want, traced = model(codes, trace=True)
    runner = TorchRunner(model)
    assert np.count_nonzero(runner.run(codes) != want) == 0
    shown = runner.trace(codes)
    assert set(shown) == set(traced) - {"x", *model.channel_inputs}
    for signal, value in shown.items():
        assert np.count_nonzero(value != traced[signal]) == 0, signal


@pytest.mark.parametrize("name", preset_names())
def test_presets(name: str) -> None:
    model = preset_model(name, 37)
    check_model(model, np.concatenate([c.codes for c in plan(model, 1, 0).classes]))


@pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.SpecWarning")
def test_random_specs() -> None:
    compared = 0
    for seed in range(4000, 4120):
        made = spec_model(seed)
        if made is not None:
            check_model(*made)
            compared += 1
    assert compared >= 80


def test_more_rows_than_a_block_holds() -> None:
    model = preset_model("int8-linear", 4096)
    codes = np.random.default_rng(0).integers(-128, 128, (600, 4096), dtype=np.int8)
    assert codes.size > 2 * BLOCK_ELEMENTS
    assert np.array_equal(TorchRunner(model).run(codes), model(codes))


def test_no_rows() -> None:
    model = preset_model("outlier4-12bit", 8)
    assert TorchRunner(model).run(np.zeros((0, 8), np.int32)).shape == (0, 8)


def test_an_entry_that_differs_is_seen() -> None:
    """The comparison fails where a table is another one."""
    model, other = (preset_model(n, 37) for n in ("int8-linear", "published-prmsnorm"))
    codes = np.random.default_rng(0).integers(-128, 128, (8, 37), dtype=np.int8)
    assert (TorchRunner(other).run(codes) != model(codes)).any()


def test_the_yardstick_has_no_datapath() -> None:
    spec = preset_model("int8-linear", 8).spec
    exact = RMSNorm(spec.replace(rsqrt={"method": "exact"}), np.ones(8))
    with pytest.raises(ApproxNormError, match="yardstick"):
        TorchRunner(exact)


def test_check_compares_it(capsys: pytest.CaptureFixture[str]) -> None:
    """By its name, like every other backend, its signals too."""
    status = main(
        ["check", "outlier4-12bit", "--dim", "24", "--level", "0", "--backends", "torch", "--json"]
    )
    told = json.loads(capsys.readouterr().out)
    assert status == 0
    assert told["backends"]["torch"]["mismatches"] == 0
    assert told["backends"]["torch"]["codes"] > 1000
