"""Reductions over the row: sums that stay exact in their carrier, the largest, the k largest."""

from __future__ import annotations

import numpy as np

from approxnorm.export.onnx.body import Body, Value
from approxnorm.export.onnx.carriers import FLOAT32_EXACT, Carrier, carrier_for, magnitude
from approxnorm.program import Interval
from approxnorm.program.datapath import ReduceStage

# ONNX Runtime sums short rows fastest: first so many neighbours, then their sums.
_GROUP = 16


def sum_of(
    body: Body, value: Value, stage: ReduceStage, dim: int, term: Interval, squared: bool
) -> Value:
    """The sum of a subset of a row, or of its squares; term: the interval of what is summed."""
    total = Interval(term.lo * stage.count, term.hi * stage.count)
    if value.level != "element":  # the same in the whole row
        carrier = carrier_for([total], 0, Carrier.F64)
        value = body.cast(value, carrier)
        value = body.call("Mul", value, value) if squared else value
        if value.level != "channel":
            return body.call("Mul", value, body.const(stage.count, carrier))
        return _reduce(body, "ReduceSum", _subset(body, value, stage, dim))
    value = _subset(body, value, stage, dim)
    operator = "ReduceSumSquare" if squared else "ReduceSum"
    group = _group(stage.count, term)
    if value.carrier is Carrier.F32 and group > 1:
        value, operator = _in_groups(body, operator, value, stage.count, group), "ReduceSum"
    carrier = carrier_for([total, term], 0, Carrier.F64)
    if value.carrier is Carrier.F32 and magnitude(total) <= FLOAT32_EXACT:
        carrier = Carrier.F32
    return _reduce(body, operator, body.cast(value, carrier))


def _in_groups(body: Body, operator: str, value: Value, count: int, group: int) -> Value:
    """Sums of neighbours (..., count / group)."""
    leading = body.leading_shape(value.name)
    shape = body.node("Concat", [leading, body.tensor(np.array([count // group, group]))], axis=0)
    grouped = body.node("Reshape", [value.name, shape])
    return Value(body.reduce(operator, grouped, keep=False), value.carrier, "element")


def max_of(body: Body, value: Value, stage: ReduceStage, dim: int) -> Value:
    if value.level in ("row", "const"):
        return value
    return _reduce(body, "ReduceMax", _subset(body, value, stage, dim))


def top_of(body: Body, value: Value, stage: ReduceStage, dim: int) -> list[Value]:
    """The largest values, largest first; 0 where the row has fewer."""
    wanted = len(stage.outputs)
    zero = body.const(0, value.carrier)
    if value.level in ("row", "const"):
        return [value if i < stage.count else zero for i in range(wanted)]
    found = min(wanted, stage.count)
    subset = _subset(body, value, stage, dim)
    largest, places = body.reserve("v_largest"), body.reserve("v_places")
    body.add("TopK", [subset.name, body.tensor(np.array([found]))], [largest, places], axis=-1)
    columns = [Value(body.slice(largest, i, i + 1, 1), value.carrier, "row") for i in range(found)]
    return columns + [zero] * (wanted - found)


def _group(count: int, term: Interval) -> int:
    """How many neighbours to sum first: they divide the row, and float32 holds their sum."""
    exact = FLOAT32_EXACT // max(1, magnitude(term))
    divisors = [g for g in range(2, min(4 * _GROUP, exact) + 1) if count % g == 0]
    return min(divisors, key=lambda g: abs(g - _GROUP), default=1)


def _subset(body: Body, value: Value, stage: ReduceStage, dim: int) -> Value:
    if (stage.start, stage.count, stage.stride) == (0, dim, 1):
        return value
    name = body.slice(value.name, stage.start, stage.stop, stage.stride)
    return Value(name, value.carrier, value.level)


def _reduce(body: Body, operator: str, value: Value) -> Value:
    return Value(body.reduce(operator, value.name), value.carrier, "row")
