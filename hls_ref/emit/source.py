"""NAME.cpp: the top function, and the passes that a row takes."""

from __future__ import annotations

from collections.abc import Iterator

from approxnorm.hls_ref.emit.headers import top_parameters
from approxnorm.hls_ref.emit.kernel import Kernel
from approxnorm.hls_ref.emit.names import identifier
from approxnorm.hls_ref.emit.passes import call_text, pass_text, uses_channels
from approxnorm.hls_ref.emit.ports import stops
from approxnorm.hls_ref.emit.schedule import Pass


def top_source(kernel: Kernel) -> str:
    """The text of the kernel's one source file."""
    parameters, arguments = _row_signature(kernel)
    return kernel.fill(
        "kernel.cpp.in",
        helpers=_add_beats() if kernel.residual else "",
        passes="\n".join(pass_text(kernel, p) for p in kernel.passes),
        row_parameters=",\n        ".join(parameters),
        buffers="".join(_buffers(kernel)),
        calls="".join(f"        {call_text(kernel, p)}\n" for p in kernel.passes),
        top_parameters=top_parameters(kernel),
        interfaces="".join(_interfaces(kernel)),
        load="".join(_load(kernel)) if kernel.ports else "",
        row_arguments=", ".join(arguments),
    )


def _row_signature(kernel: Kernel) -> tuple[list[str], list[str]]:
    """Parameters of the function for all rows, and what the top function gives it."""
    parameters = ["hls::stream<x_beat_t> &x_in"]
    if kernel.residual:
        parameters += ["hls::stream<x_beat_t> &residual_in", "hls::stream<x_beat_t> &sum_out"]
    if kernel.ports:
        parameters.append("const row_t &row_0")
        parameters += [f"const channel_word_t {_memory(p)}[BEATS]" for p in _with_channels(kernel)]
    parameters += ["hls::stream<y_beat_t> &y_out", "int rows"]
    names = [p.rsplit(" ", 1)[1].strip("&").removesuffix("[BEATS]") for p in parameters]
    return parameters, names


def _with_channels(kernel: Kernel) -> list[Pass]:
    return [p for p in kernel.passes if uses_channels(kernel, p)]


def _memory(step: Pass) -> str:
    return f"channels_{step.number}"


def _buffers(kernel: Kernel) -> Iterator[str]:
    for step in kernel.passes[:-1]:
        yield f"        x_beat_t buffer_{step.number}[BEATS];\n"
        yield f"        row_t row_{step.number + 1};\n"


def _interfaces(kernel: Kernel) -> Iterator[str]:
    streams = ["x_in"] + (["residual_in", "sum_out"] if kernel.residual else []) + ["y_out"]
    if kernel.ports and kernel.channels:
        streams.append("channels_in")
    registers = (["registers", "load_channels"] if kernel.ports else []) + ["rows", "return"]
    for name in streams:
        yield f"#pragma HLS INTERFACE axis port={name}\n"
    for name in registers:
        yield f"#pragma HLS INTERFACE s_axilite port={name}\n"


def _add_beats() -> str:
    return (
        "// The fused residual add: a beat of sums.\n"
        "static x_beat_t add_beats(const x_beat_t &a, const x_beat_t &b) {\n"
        "#pragma HLS INLINE\n"
        "    x_beat_t sums = 0;\n"
        "    for (int lane = 0; lane < LANES; lane++) {\n"
        "#pragma HLS UNROLL\n"
        "        const x_t sum = add_residual(approx::lane_of<x_t>(a, lane),\n"
        "                                     approx::lane_of<x_t>(b, lane)).residual_sum;\n"
        "        approx::set_lane(sums, lane, sum);\n"
        "    }\n"
        "    return sums;\n"
        "}\n\n"
    )


def _load(kernel: Kernel) -> Iterator[str]:
    """Registers into the row's first signals; the channels' numbers into a memory for each pass."""
    yield "    row_t row_0;\n"
    yield "    row_0.row_length = registers.row_length;\n"
    yield "    row_0.row_beats = (row_0.row_length + LANES - 1) / LANES;\n"
    for name in [*stops(kernel), *(identifier(p.name) for p in kernel.registers)]:
        yield f"    row_0.{name} = registers.{name};\n"
    memories = [_memory(p) for p in _with_channels(kernel)]
    if not memories:
        yield "    (void)load_channels;\n"
        return
    for name in memories:  # one for each pass, so that the passes may run at the same time
        yield f"    static channel_word_t {name}[BEATS];\n"
    yield "    if (load_channels) {\n"
    yield "    load:\n"
    yield "        for (int beat = 0; beat < row_0.row_beats; beat++) {\n"
    yield "#pragma HLS PIPELINE II=1\n"
    yield "#pragma HLS LOOP_TRIPCOUNT max=BEATS\n"
    yield "            const channel_word_t word = channels_in.read();\n"
    for name in memories:
        yield f"            {name}[beat] = word;\n"
    yield "        }\n    }\n"
