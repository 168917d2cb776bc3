"""One program of a datapath as ONNX nodes, made as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from approxnorm.backends.tabulate import Cone, cone_values
from approxnorm.export.onnx import powers
from approxnorm.export.onnx.body import Body, Level, Value
from approxnorm.export.onnx.carriers import Carrier, carrier_for
from approxnorm.formats import Rounding
from approxnorm.program import Interval, Node, Program
from approxnorm.tables.table import Table

# Roundings that are one operator; the others add one half, for which there must be room.
_PLAIN_ROUNDINGS = (Rounding.RND_CONV, Rounding.TRN)


class ProgramEmitter:
    """Values of a program's nodes. Each is made once, in the carrier that its intervals ask for.

    levels: of each node. cones: nodes that are looked up in a table of their one input's codes.
    inputs: the values of the program's inputs by name. tables: the function's table inputs.
    emitters: of the operations, by name. dim: elements of a row.
    """

    def __init__(
        self,
        body: Body,
        dim: int,
        program: Program,
        levels: list[Level],
        cones: Mapping[int, Cone],
        inputs: Callable[[str], Value],
        tables: Callable[[Table], str],
        emitters: Mapping[str, Callable[[ProgramEmitter, Node, Carrier], Value]],
    ) -> None:
        self.body, self.dim, self.program = body, dim, program
        self._levels, self._cones = levels, cones
        self._inputs, self._tables, self._emitters = inputs, tables, emitters
        self._values: dict[int, Value] = {}
        self._leads: dict[int, Value] = {}

    def interval(self, index: int) -> Interval:
        return self.program.nodes[index].interval

    def level_of(self, index: int) -> Level:
        return self._levels[index]

    def level(self, node: Node) -> Level:
        kinds = {self._levels[a] for a in node.args} - {"const"}
        return "const" if not kinds else kinds.pop() if len(kinds) == 1 else "element"

    def value(self, index: int, carrier: Carrier | None = None) -> Value:
        """A node's value, in the carrier that is asked for."""
        node = self.program.nodes[index]
        if node.op == "const":
            chosen = carrier or carrier_for([node.interval])
            return self.body.const(node.attrs["value"], chosen)
        if index not in self._values:
            self._values[index] = self._make(index, node)
        value = self._values[index]
        return value if carrier is None else self.body.cast(value, carrier)

    def has(self, index: int) -> bool:
        """Whether a node's value has been made already."""
        return index in self._values

    def named(self, name: str) -> Value:
        return self.value(self.index_of(name))

    def index_of(self, name: str) -> int:
        return next(i for i, n in enumerate(self.program.nodes) if n.name == name)

    def carrier(self, node: Node) -> Carrier:
        """What a node is computed in: it holds arguments, result, and what rounding needs."""
        numbers = {"round_shift": node.args[:1], "select": node.args[1:], "lookup": ()}
        args = numbers.get(node.op, node.args)
        room = 0
        if node.op == "round_shift" and node.attrs["rounding"] not in _PLAIN_ROUNDINGS:
            room = 2
        intervals = [node.interval, *(self.interval(a) for a in args)]
        return carrier_for(intervals, room, self._least(self.level(node)))

    def carrier_of(self, interval: Interval, level: Level) -> Carrier:
        return carrier_for([interval], 0, self._least(level))

    def scaled(self, index: int, factor: Value, carrier: Carrier) -> Value:
        """A value times a power of two; a product of a row's number takes it in there.

        So the power costs no pass over the elements. Both are exact.
        """
        node = self.program.nodes[index]
        if (
            node.op == "mul"
            and index not in self._values
            and factor.level in ("row", "const")
            and self._levels[index] == "element"
        ):
            for a, b in (node.args, node.args[::-1]):
                if self._levels[a] in ("row", "const") and self._levels[b] == "element":
                    row = self.value(a, Carrier.F64)
                    small = self.body.call("Mul", row, self.body.cast(factor, Carrier.F64))
                    other = self.value(b, carrier)
                    return self.body.call("Mul", other, self.body.cast(small, carrier))
        return self.body.call("Mul", self.value(index, carrier), self.body.cast(factor, carrier))

    def table(self, table: Table, carrier: Carrier) -> Value:
        """A table of the function's inputs in a carrier."""
        stored = Value(self._tables(table), Carrier.STORED, "const")
        return self.body.cast(stored, carrier)

    def leading_one(self, index: int) -> Value:
        """The position of the leading one of a node's value, which others may ask for as well."""
        if index not in self._leads:
            node = self.program.nodes[index]
            carrier = self.carrier_of(node.interval, self._levels[index])
            value = self.value(index, carrier)
            count = _powers_reached if value.level == "row" else _lead
            self._leads[index] = count(self.body, value, node.interval)
        return self._leads[index]

    def _least(self, level: Level) -> Carrier:
        """Numbers of rows are few: float64 saves them changes of carrier."""
        return Carrier.F64 if level == "row" else Carrier.F32

    def _make(self, index: int, node: Node) -> Value:
        if node.op == "input":
            return self._inputs(node.name or "")
        if index in self._cones:
            value = self._from_table(self._cones[index])
        else:
            value = self._emitters[node.op](self, node, self.carrier(node))
        if node.name is not None:
            self.body.named(value, node.name)
        return value

    def _from_table(self, cone: Cone) -> Value:
        """A function of one narrow input, computed beforehand for each of its codes."""
        domain = self.interval(cone.source)
        entries = cone_values(self.program, cone)
        carrier = carrier_for([Interval(int(entries.min()), int(entries.max()))])
        index = self.value(cone.source)
        if domain.lo:
            index = self.body.call("Sub", index, self.body.const(domain.lo, index.carrier))
        table = Value(self.body.tensor(entries.astype(carrier.dtype)), carrier, "const")
        index = self.body.cast(index, Carrier.I64)
        return powers.gather(self.body, table, len(entries), index)


def _powers_reached(body: Body, value: Value, span: Interval) -> Value:
    """For numbers of rows: how many of 2, 4, 8, ... are not larger, all compared at once."""
    sure = max(span.lo.bit_length() - 1, 0)
    powers_of_two = [1 << k for k in range(sure + 1, span.hi.bit_length())]
    if not powers_of_two:
        return body.const(sure, Carrier.F64)
    table = Value(body.tensor(np.array(powers_of_two, value.carrier.dtype)), value.carrier, "row")
    reached = body.cast(
        body.call("GreaterOrEqual", value, table, carrier=Carrier.BOOL), Carrier.F64
    )
    count = Value(body.reduce("ReduceSum", reached.name), Carrier.F64, "row")
    return body.call("Add", count, body.const(sure, Carrier.F64)) if sure else count


def _lead(body: Body, value: Value, span: Interval) -> Value:
    """By halving: is the value 2**32 or more, then 2**16, and so on; 0 has position 0."""
    result: Value | None = None
    most = max(span.hi.bit_length() - 1, 0)
    if value.carrier is Carrier.I64:
        value, result = _upper_half(body, value)
        most = 31
    step = 1 << max(most.bit_length() - 1, 0)
    while most and step:
        limit = body.const(1 << step, value.carrier)
        large = body.call("GreaterOrEqual", value, limit, carrier=Carrier.BOOL)
        count = body.cast(large, value.carrier)
        found = body.call("Mul", count, body.const(step, value.carrier))
        result = found if result is None else body.call("Add", result, found)
        step //= 2
        if step:
            value = _shrunk(body, value, count, step * 2)
    return body.const(0, value.carrier) if result is None else result


def _shrunk(body: Body, value: Value, count: Value, step: int) -> Value:
    """value * 2**-step where count is 1; its fraction does no harm to what is compared."""
    factor = body.call("Mul", count, body.const(2.0**-step - 1, value.carrier))
    return body.call("Mul", value, body.call("Add", factor, body.const(1, value.carrier)))


def _upper_half(body: Body, value: Value) -> tuple[Value, Value]:
    """An int64 as a float64 below 2^32 that has its leading one, and 32 if that is further up."""
    limit = body.const(1 << 32, Carrier.I64)
    large = body.call("GreaterOrEqual", value, limit, carrier=Carrier.BOOL)
    upper = powers.floor_divide(body, value, limit)
    kept = body.call("Where", large, upper, value, carrier=Carrier.I64)
    count = body.cast(large, Carrier.F64)
    return (
        body.cast(kept, Carrier.F64),
        body.call("Mul", count, body.const(32, Carrier.F64)),
    )
