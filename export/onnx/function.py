"""A datapath as a model-local function: a body of standard ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from approxnorm.backends.numpy_backend import storage_dtype
from approxnorm.backends.tabulate import Cone, find_cones
from approxnorm.export.onnx import reductions
from approxnorm.export.onnx.body import Body, Value
from approxnorm.export.onnx.carriers import Carrier, carrier_for
from approxnorm.export.onnx.emitter import ProgramEmitter
from approxnorm.export.onnx.names import DOMAIN
from approxnorm.export.onnx.operations import EMITTERS
from approxnorm.export.onnx.rounding import quantized
from approxnorm.program import Interval
from approxnorm.program.datapath import Datapath, MapStage, ReduceStage, node_levels
from approxnorm.tables.table import Table

ATTRIBUTES = ["digest", "gamma", "spec"]

# In passes over all elements of float32, as ONNX Runtime's CPU kernels take them.
_COSTS = {"round_shift": 3, "select": 3, "less": 2, "equal": 2, "lead": 25, "mantissa": 30}
_COSTS |= {"lookup": 12, "isqrt": 20, "idiv": 5, "bits": 4, "shr": 2, "assume": 0}
_LOOKUP_COST = 20
_MAX_TABULATED = 1 << 16


def datapath_function(
    datapath: Datapath, name: str, opset: int, signals: tuple[str, ...] = ()
) -> onnx.FunctionProto:
    """The function of a datapath: codes of x (..., dim), then its other inputs, give y's codes.

    Inputs after x are the channel inputs and the tables, in the datapath's order. signals: named
    signals that are outputs as well, (..., dim) or (..., 1), in their storage types.
    """
    return _DatapathEmitter(datapath, opset).function(name, signals)


class _DatapathEmitter:
    def __init__(self, datapath: Datapath, opset: int) -> None:
        self._datapath, self._body = datapath, Body(opset)
        self._tables = {t: self._body.reserve(t.name) for t in datapath.tables()}
        for port in datapath.inputs:
            self._body.reserve(port.name)
        self._body.reserve(datapath.output)  # for the codes; the signal itself is another value
        self._x = datapath.inputs[0].name
        self._ports: dict[str, Value] = {p.name: self._input(p.name) for p in datapath.inputs}
        self._makers = _makers(datapath)
        self._programs: dict[int, ProgramEmitter] = {}

    def function(self, name: str, signals: tuple[str, ...]) -> onnx.FunctionProto:
        others = [p.name for p in self._datapath.inputs[1:]]
        made = [self._stored(s, self._body.reserve(f"signal_{s}")) for s in signals]
        self._output()
        return helper.make_function(
            DOMAIN,
            name,
            [self._datapath.inputs[0].name, *others, *self._tables.values()],
            [self._datapath.output, *made],
            self._body.finished(),
            [helper.make_opsetid("", self._body.opset)],
            attributes=ATTRIBUTES,
        )

    def _output(self) -> None:
        """y in its storage type."""
        name = self._datapath.output
        emitter = self._program(self._makers[name])
        node = emitter.program.nodes[emitter.index_of(name)]
        dtype = storage_dtype(self._datapath.ports[name].interval)
        made = quantized(emitter, node, dtype)
        if made is None:
            made = self._body.cast_to(self._element(emitter.named(name)).name, dtype)
        self._body.rename(made, name)

    def _element(self, value: Value) -> Value:
        """A value that is the same for whole rows or columns, over all elements."""
        if value.level == "element":
            return value
        shape = self._body.node("Shape", [self._x])
        return Value(self._body.node("Expand", [value.name, shape]), value.carrier, "element")

    def _row(self, value: Value) -> Value:
        """A constant, once for each row."""
        if value.level == "row":
            return value
        leading = self._body.leading_shape(self._x)
        shape = self._body.node("Concat", [leading, self._body.tensor(np.array([1]))], axis=0)
        return Value(self._body.node("Expand", [value.name, shape]), value.carrier, "row")

    def _stored(self, name: str, output: str) -> str:
        """A named signal as an output of its own, in its storage type."""
        port = self._datapath.ports[name]
        value = self._port(name)
        value = self._element(value) if port.level == "element" else self._row(value)
        dtype = helper.np_dtype_to_tensor_dtype(storage_dtype(port.interval))
        self._body.add("Cast", [value.name], [output], to=dtype)
        return output

    def _input(self, name: str) -> Value:
        port = self._datapath.ports[name]
        first = name == self._datapath.inputs[0].name
        stored = Value(self._x if first else name, Carrier.STORED, port.level)
        return self._body.cast(stored, carrier_for([port.interval]))

    def _port(self, name: str) -> Value:
        if name not in self._ports:
            stage = self._datapath.stages[self._makers[name]]
            if isinstance(stage, ReduceStage):
                self._reduce(stage)
            else:
                self._ports[name] = self._program(self._makers[name]).named(name)
        return self._ports[name]

    def _program(self, index: int) -> ProgramEmitter:
        if index not in self._programs:
            stage = self._datapath.stages[index]
            assert isinstance(stage, MapStage)
            self._programs[index] = ProgramEmitter(
                self._body,
                self._datapath.dim,
                stage.program,
                node_levels(stage.program, self._datapath.ports),
                _cones(stage, self._datapath),
                self._port,
                self._tables.__getitem__,
                EMITTERS,
            )
        return self._programs[index]

    def _reduce(self, stage: ReduceStage) -> None:
        body, dim = self._body, self._datapath.dim
        if stage.kind == "sum":
            root = self._square_root(stage)
            source = self._port(stage.source) if root is None else root
            term = self._datapath.ports[stage.source].interval
            values = [reductions.sum_of(body, source, stage, dim, term, root is not None)]
        elif stage.kind == "max":
            values = [reductions.max_of(body, self._port(stage.source), stage, dim)]
        else:
            values = reductions.top_of(body, self._port(stage.source), stage, dim)
        for name, value in zip(stage.outputs, values, strict=True):
            body.named(value, name)
            self._ports[name] = value

    def _square_root(self, stage: ReduceStage) -> Value | None:
        """What is squared to be summed, if nothing else reads the square."""
        if stage.source not in self._makers or self._readers(stage.source) != 1:
            return None
        index = self._makers[stage.source]
        if not isinstance(self._datapath.stages[index], MapStage):
            return None
        emitter = self._program(index)
        place = emitter.index_of(stage.source)
        node = emitter.program.nodes[place]
        if node.op != "mul" or node.args[0] != node.args[1] or emitter.has(place):
            return None
        carrier = emitter.carrier(node)
        return emitter.value(node.args[0], carrier) if carrier.is_float else None

    def _readers(self, name: str) -> int:
        stages = self._datapath.stages
        sources = [s.source for s in stages if isinstance(s, ReduceStage)]
        inputs = [n for s in stages if isinstance(s, MapStage) for n in s.program.inputs]
        return (sources + inputs).count(name)


def _makers(datapath: Datapath) -> dict[str, int]:
    """The stage that makes each signal."""
    makers: dict[str, int] = {}
    for i, stage in enumerate(datapath.stages):
        if isinstance(stage, ReduceStage):
            names = list(stage.outputs)
        else:
            names = [n.name or "" for n in stage.program.named_nodes()]
        makers |= dict.fromkeys(names, i)
    return makers


def _cones(stage: MapStage, datapath: Datapath) -> Mapping[int, Cone]:
    """Parts of an element program that a table of at most 2**16 codes replaces at a gain."""
    ports = [datapath.ports[name] for name in stage.program.inputs]
    narrow = {
        i: p.interval
        for i, p in enumerate(ports)
        if p.level == "element" and p.interval.hi - p.interval.lo < _MAX_TABULATED
    }
    cones = find_cones(stage.program, narrow, _COSTS, _LOOKUP_COST)
    return {c.node: c for c in cones}


def table_dtype(table: Table) -> np.dtype:
    """The type in which a table is stored in the file."""
    return storage_dtype(Interval(min(table.entries), max(table.entries)))
