"""A row exponent that may be -1: small rows are doubled, which the norm cancels. Is that exact?

Doubled elements must give four times the sum; with eps four times as large as well, the root's
argument is the same two exponents up, and its factor one exponent down; and y must not tell twice
the element with that factor from what it was.
"""

from __future__ import annotations

import numpy as np

from approxnorm.backends.numpy_backend import Arrays
from approxnorm.methods.normalize.log_domain import LogDomain
from approxnorm.methods.normalize.multiply import Multiply
from approxnorm.program.datapath import MapStage, ReduceStage
from approxnorm.program.signal import Program
from approxnorm.vectors.changes import Change
from approxnorm.vectors.factors import classes_of
from approxnorm.vectors.programs import frontier, index_of, run_alone, users
from approxnorm.vectors.reach import Reach
from approxnorm.vectors.row_changes import RowTable


def is_invariant(reach: Reach, table: RowTable, change: Change) -> bool:
    """Whether a change of the row exponent that lets it be -1 changes no y: False if not proven."""
    if reach.bits is None or table.guard is None or not _one_less(reach, change):
        return False
    small = np.arange(-(1 << (reach.bits - 2)) + 1, 1 << (reach.bits - 2), dtype=np.int64)
    return (
        _aligns(reach, small)
        and _sums_alone(reach)
        and bool((reach.spike(2 * small) == 4 * reach.spike(small)).all())
        and _factors_follow(reach, table, int(reach.spike(small).max()))
        and _elements_follow(reach, small)
    )


def _program(reach: Reach, name: str) -> Program:
    return next(s.program for s in reach.probe.datapath.programs() if s.program.name == name)


def _one_less(reach: Reach, change: Change) -> bool:
    """The shift is another only where it was 0 and is -1: for peaks that may be doubled."""
    assert reach.bits is not None
    own, stage = _program(reach, "row_exponent"), change.datapath.stages[change.stage]
    assert isinstance(stage, MapStage)
    peak = index_of(own, own.inputs[0])
    if any(p.nodes[u].op != "lead" for p in (own, stage.program) for u in users(p, peak)):
        return False
    # Only the leading one counts, so one peak of each length is enough.
    peaks = np.concatenate(
        [[0], np.int64(1) << np.arange(own.nodes[peak].interval.hi.bit_length())]
    )
    name = own.output_names[0]
    plain, changed = (run_alone(p, {own.inputs[0]: peaks})[name] for p in (own, stage.program))
    lower = (plain == 0) & (changed == -1) & (peaks < 1 << (reach.bits - 2))
    return bool(((plain == changed) | lower).all())


def _aligns(reach: Reach, small: np.ndarray) -> bool:
    align = _program(reach, "align")
    value, shift = align.inputs
    doubled = run_alone(align, {value: small, shift: np.full_like(small, -1)})
    return bool((doubled[align.output_names[0]] == 2 * small).all())


def _sums_alone(reach: Reach) -> bool:
    """The operand is the plain sum of contributions, one of each element."""
    *before, reduction = reach.after_x
    summed = isinstance(reduction, ReduceStage) and reduction.outputs == (reach.operand.name,)
    return (
        summed
        and reach.bounded
        and all(isinstance(s, MapStage) and s.level == "element" for s in before)
    )


def _factors_follow(reach: Reach, table: RowTable, most: int) -> bool:
    """Four times the total: the same mantissa, one exponent down."""
    assert table.guard is not None
    eps = table.eps[0]
    shift = index_of(table.program, reach.probe.model.assembly.row.row_shift.name)  # type: ignore[union-attr]
    lowered = RowTable(reach, table.program, range(-1, 1)).eps
    top = ((most * reach.probe.space.dim) << table.guard) + eps
    classes = classes_of(table.program, eps, 4 * top)
    if not shift or lowered[-1] != 4 * eps or classes is None:
        return False
    outputs = table.outputs(classes)
    first = np.maximum(classes.first()[:-1], eps)
    first = first[first <= top]
    plain, larger = (
        {n: v[classes.index(t)] for n, v in outputs.items()} for t in (first, 4 * first)
    )
    return _one_exponent_down(reach, plain, larger)


def _one_exponent_down(reach: Reach, plain: Arrays, larger: Arrays) -> bool:
    normalize = reach.probe.model.spec.normalize
    if isinstance(normalize, Multiply):
        same = plain["mantissa"] == larger["mantissa"]
        down = (plain["shift"] + 1 == larger["shift"]) | (plain["mantissa"] == 0)
    elif isinstance(normalize, LogDomain):
        same = plain["row_zero"] == larger["row_zero"]
        down = plain["log_root"] + (1 << normalize.log_bits) == larger["log_root"]
        down |= plain["row_zero"] == 1
    else:
        return False
    return bool((same & down).all())


def _elements_follow(reach: Reach, small: np.ndarray) -> bool:
    """y of twice the element with that factor is y of the element."""
    normalize, program = reach.probe.model.spec.normalize, reach.finish.program
    if isinstance(normalize, Multiply):
        return _multiplied_then_shifted(program, reach.x.name)
    assert isinstance(normalize, LogDomain)
    log_x, root = index_of(program, "log_x"), index_of(program, "log_root")
    if users(program, log_x) != users(program, root) or len(users(program, root)) != 1:
        return False
    met = program.nodes[users(program, root)[0]]
    small = small[small != 0]  # 0 gives 0, whatever its logarithm
    plain, doubled = (frontier(program, reach.x.name, v) for v in (small, 2 * small))
    unit = {n: (1 << normalize.log_bits) * (n == "log_x") for n in plain}
    same = all((plain[n] + unit[n] == doubled[n]).all() for n in plain)
    return same and met.op == "sub" and met.args == (log_x, root) and "log_x" in plain


def _multiplied_then_shifted(program: Program, name: str) -> bool:
    """The element is only multiplied until one round-shift by ``shift``, which nothing else reads.

    Twice the product shifted by one more is the same number before it is rounded.
    """
    place, shift = index_of(program, name), index_of(program, "shift")
    while True:
        readers = users(program, place)
        if len(readers) != 1:
            return False
        node = program.nodes[readers[0]]
        if node.op == "round_shift":
            return node.args == (place, shift) and users(program, shift) == readers
        if node.op != "mul" or node.args[0] == node.args[1]:
            return False
        place = readers[0]
