"""bench_config.hpp: what a test bench knows of a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from approxnorm.hls_ref.emit.kernel import Kernel, channel_values
from approxnorm.hls_ref.emit.names import identifier, literal
from approxnorm.hls_ref.emit.passes import own_signals
from approxnorm.hls_ref.emit.ports import channel_fields, channel_width, register_values
from approxnorm.hls_ref.emit.tables import numbers


def bench_config(kernel: Kernel) -> str:
    """The text of the header."""
    ports = kernel.datapath.ports
    signals = "".join(
        f"    {{\"{own.name}\", '{own.level[0]}', {ports[own.name].interval.width},"
        f" {_bool(ports[own.name].interval.signed)}}},\n"
        for own in own_signals(kernel)
    )
    layers = "".join(f'    {{"{m.digest}", {m.dim}}},\n' for m in kernel.layers.values())
    return kernel.fill(
        "bench_config.hpp.in",
        signals=signals,
        has_residual=_bool(kernel.residual is not None),
        exact_widths=_bool(not kernel.ports),
        layers=layers,
        layer_data="".join(_layer_data(kernel)) if kernel.ports else "",
        run="".join(_run(kernel)),
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _layer_data(kernel: Kernel) -> Iterator[str]:
    """Registers and channels of each layer."""
    yield f"static const {kernel.top}_kernel::registers_t REGISTERS[] = {{\n"
    for name in kernel.layers:
        yield f"    {{{', '.join(f'{v}LL' for v in register_values(kernel, name))}}},  // {name}\n"
    yield "};\n"
    for port in kernel.channels:
        arrays = []
        for i, model in enumerate(kernel.layers.values()):
            arrays.append(f"{port.name}_{i}")
            codes = [int(v) for v in channel_values(model)[port.name]]
            yield f"static const long long {arrays[-1]}[] = {{\n{numbers(codes)}}};\n"
        yield f"static const long long *const {identifier(port.name)}_of[] = {{\n"
        yield f"    {', '.join(arrays)}}};\n"
    yield "\n"


def _run(kernel: Kernel) -> Iterator[str]:
    # Lanes past the row's end hold what would be noticed: the code of the largest magnitude.
    x = kernel.datapath.ports["x"].interval
    padding = x.lo if x.signed else x.hi
    yield "    const int row_dim = dim(layer);\n"
    yield '    hls::stream<x_beat_t> x_in("x_in");\n'
    yield '    hls::stream<y_beat_t> y_out("y_out");\n'
    yield f"    send_rows<x_t>(x_in, x, rows, row_dim, LANES, {literal(padding)});\n"
    if kernel.residual:
        yield '    hls::stream<x_beat_t> residual_in("residual_in"), sum_out("sum_out");\n'
        yield (
            "    send_rows<x_t>(residual_in, residual, rows, row_dim, LANES,"
            f" {literal(padding)});\n"
        )
    else:
        yield "    (void)residual, (void)sum;\n"
    if kernel.ports and kernel.channels:
        yield '    hls::stream<channel_word_t> channels_in("channels_in");\n'
        yield from _send_channels(kernel)
    yield f"    {kernel.top}({', '.join(_arguments(kernel))});\n"
    yield "    receive_rows<y_t>(y_out, y, rows, row_dim, LANES);\n"
    streams = ["x_in", "y_out"]
    if kernel.residual:
        yield "    receive_rows<x_t>(sum_out, sum, rows, row_dim, LANES);\n"
        streams += ["residual_in", "sum_out"]
    if kernel.ports and kernel.channels:
        streams.append("channels_in")
    for name in streams:
        yield f'    require_empty({name}, "{name}");\n'


def _arguments(kernel: Kernel) -> list[str]:
    arguments = ["x_in"] + (["residual_in", "sum_out"] if kernel.residual else []) + ["y_out"]
    if kernel.ports:
        arguments += ["REGISTERS[layer]"] + (["channels_in"] if kernel.channels else []) + ["true"]
    return [*arguments, "rows"]


def _send_channels(kernel: Kernel) -> Iterator[str]:
    width = channel_width(kernel)
    yield "    for (int start = 0; start < row_dim; start += LANES) {\n"
    yield "        channel_word_t word = 0;\n"
    yield "        for (int lane = 0; lane < LANES && start + lane < row_dim; lane++) {\n"
    yield "            const int index = start + lane;\n"
    for port, low, high in channel_fields(kernel):
        yield (
            f"            word.range(lane * {width} + {high}, lane * {width} + {low}) ="
            f" ap_int<64>({identifier(port.name)}_of[layer][index]).range({high - low}, 0);\n"
        )
    yield "        }\n"
    yield "        channels_in.write(word);\n"
    yield "    }\n"
