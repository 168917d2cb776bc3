"""Mistakes that hardware engineers make in a datapath, one at a time: wrong signs, swapped
parities, addresses off by one, bits lost.

They go further than the small changes of ``changes``: an operation is put in another's place. Each
keeps the width of what it changes, as hardware would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from approxnorm.formats import Overflow
from approxnorm.program import Interval, ops
from approxnorm.program.datapath import Datapath, MapStage, ReduceStage
from approxnorm.program.signal import Node, Program, Signal, Tracer
from approxnorm.vectors.changes import Change
from approxnorm.vectors.widths import fit, type_limits

# From a node's own value and its arguments, then those of its first argument, to what a mistake
# makes of them.
Rewrite: TypeAlias = Callable[[Any, Sequence[Any]], Any]


UNSIGNED = "read as unsigned"


def mistakes(datapath: Datapath) -> list[Change]:
    """All of them."""
    found: list[Change] = []
    for s, stage in enumerate(datapath.stages):
        if isinstance(stage, MapStage):
            for i, name, rewrite in _of_program(stage.program):
                twin = _twin(datapath, name)
                found.append(_change(name, datapath, s, i, rewrite, twin))
        else:
            found += _of_reduction(datapath, s, stage)
    return found


def _change(
    name: str,
    datapath: Datapath,
    s: int,
    index: int,
    rewrite: Rewrite,
    twin: Change | None = None,
) -> Change:
    """One node of stage ``s`` made otherwise."""
    stage = datapath.stages[s]
    assert isinstance(stage, MapStage)
    program, place = rewritten(stage.program, index, rewrite, fitted=not name.endswith(UNSIGNED))
    stages = list(datapath.stages)
    stages[s] = MapStage(stage.level, program)
    changed = replace(datapath, stages=tuple(stages))
    return Change(name, s, changed, frozenset({place}), twin=twin)


def _twin(datapath: Datapath, name: str) -> Change | None:
    """A signal that is read as unsigned, made so where it comes from, if that is a row program."""
    signal, _, what = name.partition(": ")
    signal = signal.rpartition(".")[2]
    readers = [s for s in datapath.programs() if signal in s.program.inputs]
    if what != UNSIGNED or len(readers) != 1:
        return None
    for s, stage in enumerate(datapath.stages):
        if not isinstance(stage, MapStage) or stage.level != "row":
            continue
        if signal in stage.program.output_names:
            place = next(i for i, n in enumerate(stage.program.nodes) if n.name == signal)
            node = stage.program.nodes[place]
            made = f"{signal}: where it is made, {UNSIGNED}"
            change = _change(made, datapath, s, place, _as_unsigned(node))
            port = replace(
                datapath.ports[signal], interval=Interval(0, (1 << node.interval.width) - 1)
            )
            plain = replace(change.plain, ports={**datapath.ports, signal: port})
            return replace(change, plain=plain)
    return None


def _as_unsigned(node: Node) -> Rewrite:
    return lambda v, a: ops.bits(v, node.interval.width - 1, 0)


def _of_program(program: Program) -> Iterator[tuple[int, str, Rewrite]]:
    """(node, in words, rewrite) for every mistake within one program."""
    users = _users(program)
    for i, node in enumerate(program.nodes):
        if i not in users and i not in program.outputs:
            continue
        if node.interval.lo == node.interval.hi and node.op != "const":
            continue  # no hardware
        label = f"{program.name}.{node.name or f'{node.op}_{i}'}"
        for what, rewrite in _of_node(program, i, [program.nodes[u] for u in users.get(i, ())]):
            yield i, f"{label}: {what}", rewrite


def _users(program: Program) -> dict[int, list[int]]:
    """The nodes that read each node, as far as an output depends on them."""
    users: dict[int, list[int]] = {}
    for i in program.needed():
        for a in program.nodes[i].args:
            users.setdefault(a, []).append(i)
    return users


def _of_node(program: Program, index: int, users: Sequence[Node]) -> Iterator[tuple[str, Rewrite]]:
    """(what is wrong, rewrite) for one node."""
    node = program.nodes[index]
    if node.op in ("input", "lookup") and node.interval.signed:
        yield UNSIGNED, _as_unsigned(node)
    if node.name == "parity":
        yield "swapped", lambda v, a: ops.sub(1, v)
    yield from _BY_OP.get(node.op, lambda n, p: iter(()))(node, program)
    if node.op == "shr" and any(u.op in ("lookup", "add") for u in users):
        half = 1 << (node.attrs["amount"] - 1)
        yield "address rounded", lambda v, a: ops.shift_floor(a[0] + half, node.attrs["amount"])
    if node.op == "const" and node.name is None and any(u.op in ("add", "sub") for u in users):
        yield "one more", lambda v, a: node.attrs["value"] + 1
        yield "one less", lambda v, a: node.attrs["value"] - 1


def _lookup(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    table, size = node.attrs["table"], len(node.attrs["table"].entries)
    if size < 2:
        return
    last = size - 1

    def next_entry(v: Any, a: Sequence[Any]) -> Any:
        return ops.lookup(table, ops.select(ops.equal(a[0], last), 0, ops.minimum(a[0] + 1, last)))

    def former_entry(v: Any, a: Sequence[Any]) -> Any:
        return ops.lookup(table, ops.select(ops.equal(a[0], 0), last, ops.maximum(a[0] - 1, 0)))

    yield "address one more", next_entry
    yield "address one less", former_entry
    if size % 2 == 0:
        half = size // 2

        def other_half(v: Any, a: Sequence[Any]) -> Any:
            upper = ops.less(half - 1, a[0])
            moved = ops.select(upper, ops.maximum(a[0] - half, 0), a[0] + half)
            return ops.lookup(table, fit(moved, Interval(0, last)))

        yield "halves of the table swapped", other_half


def _lead(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    yield "one too high", lambda v, a: v + 1
    yield "one too low", lambda v, a: ops.maximum(v - 1, 0)


def _mantissa(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    if node.attrs["frac_bits"] > 0:
        yield "last bit lost", lambda v, a: ops.shift_left(ops.shift_floor(v, 1), 1)


def _select(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    yield "swapped", lambda v, a: ops.select(a[0], a[2], a[1])
    yield "always the second", lambda v, a: a[2]
    yield "always the first", lambda v, a: a[1]


def _less(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    yield "less or equal", lambda v, a: ops.sub(1, ops.less(a[1], a[0]))


def _neg(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    yield "sign lost", lambda v, a: a[0] + 0


def _extreme(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    other = ops.maximum if node.op == "min" else ops.minimum
    yield "the other one", lambda v, a: other(a[0], a[1])


def _mul(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    yield (
        "last bit of an argument lost",
        lambda v, a: ops.shift_left(ops.shift_floor(a[0], 1), 1) * a[1],
    )
    first = program.nodes[node.args[0]]
    if first.op != "mul" or first.args[0] == first.args[1]:
        return
    lost = max(1, _least_shift(program, node))

    def truncated(v: Any, a: Sequence[Any]) -> Any:
        # (x * gamma) * mantissa, the low bits of x * mantissa cut off before gamma multiplies
        early = ops.shift_left(ops.shift_floor(a[2] * a[1], lost), lost)
        return early * a[3]

    yield "truncated before gamma", truncated


def _least_shift(program: Program, product: Node) -> int:
    """The least amount that a product is shifted right by at once."""
    for node in program.nodes:
        if node.op == "round_shift" and program.nodes[node.args[0]] is product:
            return program.nodes[node.args[1]].interval.lo
    return 1


def _round_shift(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    amount = program.nodes[node.args[1]]
    if amount.interval == Interval(0, 0):
        return
    attrs = {k: node.attrs[k] for k in ("rounding", "overflow")}
    lo, hi = node.attrs["lo"], node.attrs["hi"]
    limits = None if lo is None or hi is None else (lo, hi)

    def shifted(by: Callable[[Any], Any]) -> Rewrite:
        return lambda v, a: _shift(a[0], by(a[1]), limits, node, **attrs)

    yield "shifted the other way", shifted(ops.neg)
    yield "shifted one more", shifted(lambda s: s + 1)
    yield "shifted one less", shifted(lambda s: s - 1)
    if amount.op != "const":
        yield "not shifted", shifted(lambda s: s * 0)


def _shift(
    value: Any, amount: Any, limits: tuple[int, int] | None, node: Node, **attrs: Any
) -> Any:
    """A round-shift of any amount; without limits what passes the signal's width is lost."""
    if limits is None:
        attrs["overflow"], limits = Overflow.WRAP, type_limits(node.interval)
    return ops.round_shift(value, amount, attrs["rounding"], limits, attrs["overflow"])


def _abs(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    if program.nodes[node.args[0]].interval.signed:
        yield "left out", lambda v, a: a[0] + 0


def _equal(node: Node, program: Program) -> Iterator[tuple[str, Rewrite]]:
    yield "never", lambda v, a: v * 0


_BY_OP: dict[str, Callable[[Node, Program], Iterator[tuple[str, Rewrite]]]] = {
    "lookup": _lookup,
    "lead": _lead,
    "mantissa": _mantissa,
    "select": _select,
    "less": _less,
    "neg": _neg,
    "min": _extreme,
    "max": _extreme,
    "mul": _mul,
    "round_shift": _round_shift,
    "abs": _abs,
    "equal": _equal,
}


def rewritten(
    program: Program, index: int, rewrite: Rewrite, *, fitted: bool = True
) -> tuple[Program, int]:
    """The program with one node's value made by ``rewrite``, and the index that it has there.

    fitted: in the type that the node had.
    """
    inputs = [(n.name or "", n.interval) for n in program.nodes[: len(program.inputs)]]
    tracer = Tracer(program.name, inputs)
    signals: list[Signal] = []
    place = index
    for i, node in enumerate(program.nodes):
        signal = tracer.replay(node, signals)
        if i == index:
            inner = program.nodes[node.args[0]].args if node.args else ()
            changed = tracer.lift(rewrite(signal, [signals[a] for a in (*node.args, *inner)]))
            signal = fit(changed, node.interval) if fitted else changed
            place = signal.index
        if node.name is not None and node.op != "input":
            tracer.name(signal, node.name)
        signals.append(signal)
    return tracer.finish([signals[i] for i in program.outputs]), place


def _of_reduction(datapath: Datapath, index: int, stage: ReduceStage) -> Iterator[Change]:
    available = len(range(stage.start, datapath.dim, stage.stride))
    changed: dict[str, ReduceStage] = {}
    if stage.count < available:
        changed["one element too many"] = replace(stage, count=stage.count + 1)
    if stage.stride > 1:
        changed["stride ignored"] = replace(stage, stride=1)
    for what, wrong in changed.items():
        stages = (*datapath.stages[:index], wrong, *datapath.stages[index + 1 :])
        yield Change(f"{stage.outputs[0]}: {what}", index, replace(datapath, stages=stages))
