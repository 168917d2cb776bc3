"""Mistakes in the loops: lanes, beats, buffers and what is left from the row before."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from approxnorm.formats import Rounding
from approxnorm.hls_ref.emit import Kernel
from approxnorm.hls_ref.emit.kernel import channel_values
from approxnorm.hls_ref.emit.names import identifier
from approxnorm.hls_ref.emit.passes import channels_of, pass_name, uses_channels
from approxnorm.hls_ref.emit.schedule import Pass
from approxnorm.hls_ref.mutation.mutants import Expression, Mutant
from approxnorm.hls_ref.mutation.variants import edited, function_of
from approxnorm.program.datapath import MapStage, ReduceStage

INSIDE = "if (index < DIM)"


def wiring_mutants(kernel: Kernel, source: str) -> Iterator[Mutant]:
    """The mistakes of every pass, and those between passes; ``source`` is the kernel's file."""
    file = f"kernel/{kernel.top}.cpp"
    for step in kernel.passes:
        name = pass_name(step.number)
        text = function_of(source, name)
        for what, old, new, harmless in _of_pass(kernel, step, text):
            yield Mutant(f"{name}: {what}", file, name, edited(text, old, new), None, harmless)
    text = function_of(source, "all_rows")
    for what, old, new in _between_passes(kernel):
        yield Mutant(f"rows: {what}", file, "all_rows", edited(text, old, new))


Edit = tuple[str, str, str, str]  # what, old, new, why it is harmless


def _of_pass(kernel: Kernel, step: Pass, text: str) -> Iterator[Edit]:
    yield from _elements(kernel, step)
    yield (
        "lanes read in the wrong order",
        "lane_of<x_t>(codes, lane)",
        "lane_of<x_t>(codes, LANES - 1 - lane)",
        _order_is_free(kernel, step),
    )
    if not step.last:
        yield from _keeping(kernel)
    for reduction in step.reductions:
        yield from _accumulating(kernel, reduction, text)
    if uses_channels(kernel, step):
        yield from _channels(kernel, step)
    if step.last:
        yield (
            "lanes written in the wrong order",
            "set_lane(results, lane,",
            "set_lane(results, LANES - 1 - lane,",
            "a beat has one lane" if kernel.lanes == 1 else "",
        )


def _order_is_free(kernel: Kernel, step: Pass) -> str:
    """Why the order of a beat's lanes may not matter to a pass."""
    if kernel.lanes == 1:
        return "a beat has one lane"
    whole = all(r.count == kernel.dim for r in step.reductions)
    whole = whole and kernel.dim % kernel.lanes == 0
    if not step.last and whole and not uses_channels(kernel, step):
        return "a sum and a maximum of whole beats do not depend on the order of their elements"
    return ""


def _elements(kernel: Kernel, step: Pass) -> Iterator[Edit]:
    taken = {i for r in step.reductions for i in _indices(r)}
    last = kernel.dim - 1
    partial = kernel.dim % kernel.lanes
    whole_beats = "the row is a whole number of beats" if not partial else ""
    padding = whole_beats
    if step.last:
        padding = padding or "only lanes past the row's end differ, and those carry nothing"
    elif not any(r.start + r.count * r.stride > last for r in step.reductions):
        padding = padding or "the reduction ends before the last beat's empty lanes"
    tail = set(range(kernel.dim - partial, kernel.dim))
    unused = "no reduction takes it"
    yield "lanes past the row's end taken", INSIDE, "if (index < BEATS * LANES)", padding
    yield (
        "partly filled beat left out",
        INSIDE,
        "if (index < DIM / LANES * LANES)",
        whole_beats or ("" if step.last or tail & taken else unused),
    )
    first_matters, last_matters = 0 in taken or step.last, last in taken or step.last
    yield (
        "first element skipped",
        INSIDE,
        f"{INSIDE[:-1]} && index > 0)",
        ("" if first_matters else unused),
    )
    yield "last element skipped", INSIDE, "if (index < DIM - 1)", "" if last_matters else unused


def _indices(reduction: ReduceStage) -> range:
    return range(reduction.start, reduction.stop, reduction.stride)


def _keeping(kernel: Kernel) -> Iterator[Edit]:
    keep = "kept_out[beat] = codes;"
    single = "the row is one beat" if kernel.beats == 1 else ""
    yield "beats kept in the wrong order", keep, "kept_out[BEATS - 1 - beat] = codes;", single
    yield (
        "last beat not kept",
        keep,
        "kept_out[beat] = beat < BEATS - 1 ? codes : x_beat_t(0);",
        "",
    )


def _accumulating(kernel: Kernel, reduction: ReduceStage, text: str) -> Iterator[Edit]:
    base = reduction.outputs[0]
    base = identifier(base.rsplit("_", 1)[0] if reduction.kind == "top" else base)
    single = "the row is one beat" if kernel.beats == 1 else ""
    for name, what in ((base, "row"), (f"beat_{base}", "beat")):
        cleared = re.search(rf"^ +(ap_\w+<\d+> {name}(?: =|\[).*)$", text, re.MULTILINE)
        assert cleared is not None
        declared = cleared.group(1)
        yield f"{base} not cleared for each {what}", declared, f"static {declared}", ""
    if reduction.kind == "sum":
        yield (
            f"{base} of the last beat only",
            f"        {base} += beat_{base};",
            f"        {base} = beat_{base};",
            single,
        )
    elif reduction.kind == "max":
        yield (
            f"{base} of the last beat only",
            f"({base}, beat_{base})",
            f"(beat_{base}, beat_{base})",
            single,
        )


def _channels(kernel: Kernel, step: Pass) -> Iterator[Edit]:
    values = channel_values(kernel.first)
    values = {p.name: values[p.name] for p in channels_of(kernel, step)}
    here = "[lane][beat]"
    index = np.arange(kernel.dim)
    beat, lane = index // kernel.lanes, index % kernel.lanes
    moved = {
        "of lane 0": ("[0][beat]", beat * kernel.lanes),
        "of the first beat": ("[lane][0]", lane),
        "of the lane before": (
            "[lane ? lane - 1 : 0][beat]",
            np.maximum(lane - 1, 0) + beat * kernel.lanes,
        ),
    }
    for what, (new, source) in moved.items():
        same = all(np.array_equal(v, v[source]) for v in values.values())
        reason = "the channels that are confused have the same numbers" if same else ""
        yield f"channel {what}", here, new, reason


def _between_passes(kernel: Kernel) -> Iterator[tuple[str, str, str]]:
    for step in kernel.passes[:-1]:
        n = step.number
        after = f"        pass_{n + 1}("
        yield (
            f"buffer_{n} of the row before",
            after,
            f"        static x_beat_t former_{n}[BEATS];\n"
            "        for (int i = 0; i < BEATS; i++) {\n"
            f"            const x_beat_t now = buffer_{n}[i];\n"
            f"            buffer_{n}[i] = former_{n}[i];\n"
            f"            former_{n}[i] = now;\n"
            "        }\n" + after,
        )
        yield (
            f"row_{n + 1} of the row before",
            after,
            f"        static row_t former_row_{n + 1};\n"
            f"        const row_t now_{n + 1} = row_{n + 1};\n"
            f"        row_{n + 1} = former_row_{n + 1};\n"
            f"        former_row_{n + 1} = now_{n + 1};\n" + after,
        )


def shared_expressions(kernel: Kernel) -> Iterator[Expression]:
    """Mistakes in the operations that all functions share."""
    file, shifts = "kernel/approx/ops.hpp", _shifts(kernel)
    modes = {mode for mode, _ in shifts}
    blind = modes <= {Rounding.TRN, Rounding.RND}
    yield Expression(
        "round_shift: what is below the half ignored",
        file,
        "again != halves ? 1 : 0",
        "0",
        "no rounding of this kernel looks below the half" if blind else "",
    )
    yield Expression(
        "round_shift: the half ignored",
        file,
        "kept",
        "(kept >> 1) << 1",
        "every rounding of this kernel truncates" if modes <= {Rounding.TRN} else "",
        before="exact.range(W, 1) = ",
    )
    yield Expression(
        "round_shift: sign not extended",
        file,
        "halves >> down",
        "ap_int<W>(ap_uint<W>(halves) >> down)",
        "" if any(signed for _, signed in shifts) else "no signed value is shifted",
    )
    if any(isinstance(s, ReduceStage) and s.kind == "top" for s in kernel.datapath.stages):
        yield Expression(
            "insert_largest: the smallest kept", file, "kept < rest ? rest : kept", "kept"
        )
    if any(n.op == "isqrt" for s in kernel.datapath.programs() for n in s.program.nodes):
        yield Expression(
            "integer_sqrt: last bit left out", file, "fits ? 1 : 0", "fits && i ? 1 : 0"
        )


def _shifts(kernel: Kernel) -> list[tuple[Rounding, bool]]:
    """Rounding and signedness of every shift to the right."""
    found = []
    for stage in kernel.datapath.stages:
        if isinstance(stage, MapStage):
            nodes = stage.program.nodes
            found += [
                (n.attrs["rounding"], nodes[n.args[0]].interval.signed)
                for n in nodes
                if n.op == "round_shift" and nodes[n.args[1]].interval.hi > 0
            ]
    return found
