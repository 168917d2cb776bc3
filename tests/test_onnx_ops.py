"""Every operation as ONNX against its own value: of elements and of rows, in two runtimes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
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

from approxnorm.backends.numpy_backend import NumpyBackend, storage_dtype
from approxnorm.export.onnx.function import datapath_function, table_dtype
from approxnorm.export.onnx.names import DOMAIN
from approxnorm.export.onnx.runtimes import cpu_session
from approxnorm.program import ops
from approxnorm.program.datapath import Datapath, DatapathBuilder

OPSETS = (13, 17, 18, 21, 22)
ATTRIBUTES = {"digest": "", "gamma": [0], "spec": ""}  # the body reads none


def as_rows(programs: Programs, index: int) -> Datapath:
    """The same program once a row, on rows of one element."""
    function, spans = programs.functions[index]
    builder = DatapathBuilder(1)
    inputs = [builder.input(f"i{n}", "element", *span) for n, span in enumerate(spans)]
    rows = [builder.max(f"r{n}", port) for n, port in enumerate(inputs)]
    builder.row("program", function, *rows)
    return builder.finish(builder.element("again", lambda a: ops.named("same", a), inputs[0]))


def model_of(datapath: Datapath, signals: tuple[str, ...], opset: int) -> onnx.ModelProto:
    function = datapath_function(datapath, "Tried", opset, signals)
    tables = [
        numpy_helper.from_array(np.array(t.entries, table_dtype(t)), t.name)
        for t in datapath.tables()
    ]
    node = helper.make_node(
        "Tried", list(function.input), list(function.output), domain=DOMAIN, **ATTRIBUTES
    )
    ports = [(p.name, p) for p in datapath.inputs]
    out = [datapath.ports[n] for n in (datapath.output, *signals)]
    ends = [
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(storage_dtype(port.interval)), None
            )
            for name, port in named
        ]
        for named in (ports, zip(function.output, out, strict=True))
    ]
    graph = helper.make_graph([node], "tried", *ends, tables)
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)],
        functions=[function],
        ir_version=8,
    )


def runtimes(model: onnx.ModelProto, index: int) -> Iterator[tuple[str, Any]]:
    level = ("DISABLE_ALL", "BASIC", "ALL")[index % 3]
    yield level, cpu_session(model, level)  # type: ignore[arg-type]
    yield "reference", ReferenceEvaluator(model)


def check(datapath: Datapath, inputs: dict[str, np.ndarray], index: int) -> None:
    """Every named signal, and the output, in both runtimes."""
    wanted = NumpyBackend(datapath).run_traced(inputs)
    given = {p.name for p in datapath.inputs} | {datapath.output}
    signals = tuple(p.name for p in datapath.signals() if p.name not in given)
    model = model_of(datapath, signals, OPSETS[index % len(OPSETS)])
    names = (datapath.output, *signals)
    fed = {p.name: inputs[p.name].astype(storage_dtype(p.interval)) for p in datapath.inputs}
    for runtime, runner in runtimes(model, index):
        for name, got in zip(names, runner.run(None, fed), strict=True):
            want = wanted[name].reshape(got.shape)
            wrong = np.argwhere(got != want)
            where = next(iter(datapath.programs())).program
            assert not len(wrong), (
                f"{runtime}: {name} of {described(where)} at"
                f" {[v.reshape(got.shape)[tuple(wrong[0])] for v in fed.values()]}:"
                f" {got[tuple(wrong[0])]}, not {want[tuple(wrong[0])]}"
            )


def check_all(programs: Programs) -> None:
    """Each program on all its samples: as elements of one row, and as a row each."""
    for i, (datapath, columns) in enumerate(zip(programs.datapaths, programs.samples, strict=True)):
        check(datapath, {f"i{n}": c[None, :] for n, c in enumerate(columns)}, i)
        check(as_rows(programs, i), {f"i{n}": c[:, None] for n, c in enumerate(columns)}, i)


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
