"""The loops over the row: each pass as a C++ function of the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from string import Template

from approxnorm.hls_ref.emit.kernel import Kernel
from approxnorm.hls_ref.emit.names import identifier, literal, type_of
from approxnorm.hls_ref.emit.programs import function_name, signals_type
from approxnorm.hls_ref.emit.schedule import Pass
from approxnorm.hls_ref.emit.skeleton import skeleton
from approxnorm.program.datapath import MapStage, Port, ReduceStage


def pass_name(number: int) -> str:
    return f"pass_{number}"


def pass_text(kernel: Kernel, step: Pass) -> str:
    """The function of one pass, from the skeleton."""
    return Template(skeleton("pass.cpp.in")).substitute(
        number=step.number,
        what=_what(step),
        length="row_in.row_length" if kernel.ports else "DIM",
        beats="row_in.row_beats" if kernel.ports else "BEATS",
        trip_count="#pragma HLS LOOP_TRIPCOUNT max=BEATS\n" if kernel.ports else "",
        parameters=",\n        ".join(_parameters(kernel, step)),
        begin=_block(_begin(kernel, step), 1),
        read=_block(_read(kernel, step), 2),
        beat_totals=_block(_clear(kernel, step.reductions, "beat_"), 2),
        element=_block(_element(kernel, step), 4),
        merge=_block(_merge(kernel, step.reductions), 2),
        write=_block(_write(step), 2),
        totals=_block(_clear(kernel, step.reductions, ""), 1),
        finish=_block(_finish(kernel, step), 1),
    )


def call_text(kernel: Kernel, step: Pass) -> str:
    """The call of a pass in the order that the row takes."""
    names = [parameter.rsplit(" ", 1)[-1].strip("&") for parameter in _parameters(kernel, step)]
    renamed = {
        "kept_in[BEATS]": f"buffer_{step.number - 1}",
        "kept_out[BEATS]": f"buffer_{step.number}",
        "row_in": f"row_{step.number}",
        "row_out": f"row_{step.number + 1}",
        "channels[BEATS]": f"channels_{step.number}",
    }
    return f"{pass_name(step.number)}({', '.join(renamed.get(n, n) for n in names)});"


def own_signals(kernel: Kernel) -> list[Port]:
    """Every named signal of a layer's own datapath, in order of computation."""
    return kernel.first.assembly.require_datapath().signals()


def channels_of(kernel: Kernel, step: Pass) -> list[Port]:
    """What a pass reads of each channel: gamma, or another number."""
    read = {name for stage in step.elements for name in stage.program.inputs}
    return [p for p in kernel.channels if p.name in read]


def uses_channels(kernel: Kernel, step: Pass) -> bool:
    """Whether a pass reads any number of the channel."""
    return bool(channels_of(kernel, step))


def _channel_number(kernel: Kernel, name: str) -> str:
    """Where the number of this beat's lane is found."""
    if kernel.ports:
        return f"numbers.lane[lane].{identifier(name)}"
    return f"{channel_rom(name)}[lane][beat]"


def channel_rom(name: str) -> str:
    """The array of a channel input, in a kernel without ports."""
    return f"channel_{name}"


def _what(step: Pass) -> str:
    done = [r.kind if r.kind != "top" else "largest values" for r in step.reductions]
    doing = " and ".join(dict.fromkeys(done)) or "no reduction"
    if step.last:
        doing = "normalise" if not step.reductions else f"{doing}, and normalise"
    source = "the stream, which it keeps," if step.number == 0 and not step.last else "the row"
    if step.number == 0 and step.last:
        source = "the stream"
    return f"{doing}, reading {source} beat by beat"


def _parameters(kernel: Kernel, step: Pass) -> Iterator[str]:
    if step.number == 0:
        yield "hls::stream<x_beat_t> &x_in"
        if kernel.residual:
            yield "hls::stream<x_beat_t> &residual_in"
            yield "hls::stream<x_beat_t> &sum_out"
    else:
        yield "const x_beat_t kept_in[BEATS]"
    if not step.last:
        yield "x_beat_t kept_out[BEATS]"
    if kernel.ports and uses_channels(kernel, step):
        yield "const channel_word_t channels[BEATS]"
    if step.number > 0 or kernel.ports:
        yield "const row_t &row_in"
    if not step.last:
        yield "row_t &row_out"
    if step.last:
        yield "hls::stream<y_beat_t> &y_out"


def _begin(kernel: Kernel, step: Pass) -> Iterator[str]:
    if not kernel.ports:
        for port in channels_of(kernel, step):  # a ROM for each lane: all read in one cycle
            yield f"#pragma HLS ARRAY_PARTITION variable={channel_rom(port.name)} dim=1 complete"
    if step.number > 0:
        return
    yield "trace_row();"
    yield from _tell_registers(kernel, "row", "0")


def _tell_registers(kernel: Kernel, level: str, index: str) -> Iterator[str]:
    """Registers that are signals of the layer's own datapath, there of this level."""
    levels = {p.name: p.level for p in own_signals(kernel)}
    for port in kernel.registers:
        if levels.get(port.name) == level:
            yield f"trace_signal({_signal_id(port.name)}, {index}, row_in.{identifier(port.name)});"


def _read(kernel: Kernel, step: Pass) -> Iterator[str]:
    if step.number > 0:
        yield "const x_beat_t codes = kept_in[beat];"
    elif not kernel.residual:
        yield "const x_beat_t codes = x_in.read();"
    else:
        yield "const x_beat_t codes = add_beats(x_in.read(), residual_in.read());"
        yield "sum_out.write(codes);"
    if not step.last:
        yield "kept_out[beat] = codes;"
    else:
        yield "y_beat_t results = 0;"
    if kernel.ports and uses_channels(kernel, step):
        yield "const channel_beat_t numbers = unpack_channels(channels[beat]);"


def _element(kernel: Kernel, step: Pass) -> Iterator[str]:
    yield "const x_t x = approx::lane_of<x_t>(codes, lane);"
    if step.number == 0:
        yield f"trace_signal({_signal_id('x')}, index, x);"
        yield from _tell_registers(kernel, "element", "index")
    known = {"x": "x"}
    for stage in step.elements:
        yield from _call_stage(kernel, stage, known, "row_in", "index")
    for reduction in step.reductions:
        yield from _take(kernel, reduction, known[reduction.source])
    if step.last:
        yield f"approx::set_lane(results, lane, y_t({known[kernel.datapath.output]}));"


def _signal_id(name: str) -> str:
    return f"SIGNAL_{name}"


def _call_stage(
    kernel: Kernel, stage: MapStage, known: dict[str, str], row: str, index: str
) -> Iterator[str]:
    """The call of a program, its trace, and where its signals are found from here on."""
    ports = kernel.datapath.ports
    arguments = []
    for name in stage.program.inputs:
        if name in known:
            arguments.append(known[name])
        elif ports[name].level == "channel":
            arguments.append(_channel_number(kernel, name))
        else:
            arguments.append(f"{row}.{identifier(name)}")
    made = f"{stage.program.name}_made"
    call = f"{function_name(stage.program)}({', '.join(arguments)})"
    yield f"const {signals_type(stage.program)} {made} = {call};"
    for node in stage.program.named_nodes():
        assert node.name is not None
        known[node.name] = f"{made}.{identifier(node.name)}"
        yield f"trace_signal({_signal_id(node.name)}, {index}, {known[node.name]});"


def _totals(kernel: Kernel, reduction: ReduceStage, prefix: str) -> tuple[str, str]:
    """(type, name) of a reduction's running result; of top the array's element type."""
    port = kernel.datapath.ports[reduction.outputs[0]]
    base = reduction.outputs[0]
    if reduction.kind == "top":  # NAME_0, NAME_1, ...: an array
        base = base.rsplit("_", 1)[0]
    return type_of(port.interval), f"{prefix}{identifier(base)}"


def _clear(kernel: Kernel, reductions: tuple[ReduceStage, ...], prefix: str) -> Iterator[str]:
    for reduction in reductions:
        kind, name = _totals(kernel, reduction, prefix)
        if reduction.kind == "top":
            count = len(reduction.outputs)
            yield f"{kind} {name}[{count}] = {{{', '.join(['0'] * count)}}};"
            yield f"#pragma HLS ARRAY_PARTITION variable={name} complete"
        else:
            low = kernel.datapath.ports[reduction.source].interval.lo
            start = literal(low) if reduction.kind == "max" else "0"
            yield f"{kind} {name} = {start};"


def _take(kernel: Kernel, reduction: ReduceStage, value: str) -> Iterator[str]:
    kind, name = _totals(kernel, reduction, "beat_")
    condition = _subset(kernel, reduction)
    indent = "    " if condition else ""
    if condition:
        yield f"if ({condition})"
    if reduction.kind == "sum":
        yield f"{indent}{name} += {value};"
    elif reduction.kind == "max":
        yield f"{indent}{name} = approx::maximum<{kind} >({name}, {value});"
    else:
        count = len(reduction.outputs)
        yield f"{indent}approx::insert_largest<{count}, {kind} >({name}, {value});"


def _subset(kernel: Kernel, reduction: ReduceStage) -> str:
    """Which elements a reduction takes; "" for all."""
    start, stride = reduction.start, reduction.stride
    parts = [f"index >= {start}"] if start else []
    if kernel.ports:
        parts.append(f"index < row_in.{stop_register(reduction)}")
    elif reduction.stop < kernel.datapath.dim:
        parts.append(f"index < {reduction.stop}")
    if stride > 1:
        parts.append(f"(index - {start}) % {stride} == 0" if start else f"index % {stride} == 0")
    return " && ".join(parts)


def stop_register(reduction: ReduceStage) -> str:
    """The register with the end of a reduction, in a kernel whose rows have any length."""
    return f"{reduction.outputs[0]}_stop"


def _merge(kernel: Kernel, reductions: tuple[ReduceStage, ...]) -> Iterator[str]:
    for reduction in reductions:
        kind, total = _totals(kernel, reduction, "")
        _, beat = _totals(kernel, reduction, "beat_")
        if reduction.kind == "sum":
            yield f"{total} += {beat};"
        elif reduction.kind == "max":
            yield f"{total} = approx::maximum<{kind} >({total}, {beat});"
        else:
            count = len(reduction.outputs)
            yield f"for (int i = 0; i < {count}; i++) {{"
            yield "#pragma HLS UNROLL"
            yield f"    approx::insert_largest<{count}, {kind} >({total}, {beat}[i]);"
            yield "}"


def _write(step: Pass) -> Iterator[str]:
    if step.last:
        yield "y_out.write(results);"


def _finish(kernel: Kernel, step: Pass) -> Iterator[str]:
    """Row programs, and what later passes need of the row."""
    known: dict[str, str] = {}
    for reduction in step.reductions:
        _, name = _totals(kernel, reduction, "")
        for i, output in enumerate(reduction.outputs):
            known[output] = f"{name}[{i}]" if reduction.kind == "top" else name
            yield f"trace_signal({_signal_id(output)}, 0, {known[output]});"
    for stage in step.rows:
        yield from _call_stage(kernel, stage, known, "row_in", "0")
    if step.last:
        return
    if step.number > 0 or kernel.ports:
        yield "row_out = row_in;"
    for name in kernel.carried:
        if name in known:
            yield f"row_out.{identifier(name)} = {known[name]};"


def _block(lines: Iterator[str], depth: int) -> str:
    """Lines at a depth; pragmas stand at the margin. Lines with line breaks keep their own."""
    return "".join(
        f"{line}\n" if line.startswith("#") else f"{'    ' * depth}{line}\n" for line in lines
    )
