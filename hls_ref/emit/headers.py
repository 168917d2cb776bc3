"""The kernel's header files."""

from __future__ import annotations

from approxnorm.hls_ref.emit.kernel import Kernel, channel_values, member
from approxnorm.hls_ref.emit.names import interval_text, type_of
from approxnorm.hls_ref.emit.passes import channel_rom, own_signals
from approxnorm.hls_ref.emit.ports import ports_types, registers_type, stops
from approxnorm.hls_ref.emit.tables import numbers


def top_parameters(kernel: Kernel, scope: str = "") -> str:
    """The parameters of the top function, one a line."""
    x_stream, y_stream = f"hls::stream<{scope}x_beat_t>", f"hls::stream<{scope}y_beat_t>"
    parameters = [f"{x_stream} &x_in"]
    if kernel.residual:
        parameters += [f"{x_stream} &residual_in", f"{x_stream} &sum_out"]
    parameters.append(f"{y_stream} &y_out")
    if kernel.ports:
        parameters.append(f"const {scope}registers_t &registers")
        if kernel.channels:
            parameters.append(f"hls::stream<{scope}channel_word_t> &channels_in")
        parameters.append("bool load_channels")
    parameters.append("int rows")
    indent = " " * (len(kernel.top) + 6)
    return f",\n{indent}".join(parameters)


def top_header(kernel: Kernel) -> str:
    """NAME.hpp: the types of the ports, and the top function."""
    ports, model = kernel.datapath.ports, kernel.first
    x, y = ports["x"].interval, ports[kernel.datapath.output].interval
    longest = " of the longest row" if kernel.ports else " in a row"
    sizes = (
        f"static const int DIM = {kernel.dim};  // elements{longest}\n"
        f"static const int LANES = {kernel.lanes};  // elements in a beat\n"
        f"static const int BEATS = {kernel.beats};  // beats{longest}\n"
    )
    return kernel.fill(
        "top.hpp.in",
        description=sizes,
        x_type=type_of(x),
        y_type=type_of(y),
        x_width=x.width,
        y_width=y.width,
        x_format=f"of any scale, {x.width} bits" if kernel.ports else model.assembly.x_format,
        y_format=f"of any scale, {y.width} bits" if kernel.ports else model.assembly.context.y,
        more=registers_type(kernel) if kernel.ports else "",
        contract=_contract(kernel),
        top_parameters=top_parameters(kernel, f"{kernel.top}_kernel::"),
    )


def _contract(kernel: Kernel) -> str:
    lines = ["Reads and writes `rows` rows, each a whole number of beats."]
    if kernel.residual:
        lines.append("x and the residual are added first; the sums are written as well.")
    if kernel.ports:
        lines.append(
            "With load_channels it first reads the channels' numbers, a word a beat of the"
        )
        lines.append("row; without, those of the last load are used.")
    return "\n// ".join(lines)


def params_header(kernel: Kernel) -> str:
    """params.hpp: the numbers of each channel as ROMs, or how they are found in a word."""
    return kernel.fill(
        "header.hpp.in",
        guard=f"{kernel.top.upper()}_PARAMS",
        about="Numbers of each channel: gamma, or what the datapath reads in its place.",
        includes=f'#include "{kernel.top}.hpp"\n\n',
        content=ports_types(kernel) if kernel.ports else _channel_roms(kernel),
    )


def _channel_roms(kernel: Kernel) -> str:
    """An array for each number, by lane and beat; lanes past the row's end are 0."""
    values, text = channel_values(kernel.first), ""
    for port in kernel.channels:
        padded = [0] * (kernel.beats * kernel.lanes)
        padded[: kernel.dim] = [int(code) for code in values[port.name]]
        kind, name = type_of(port.interval), channel_rom(port.name)
        text += f"\n// {port.name}: {interval_text(port.interval)}. Lane by lane, its beats.\n"
        text += f"static const {kind} {name}[LANES][BEATS] = {{\n"
        for lane in range(kernel.lanes):
            text += f"    {{\n{numbers(padded[lane :: kernel.lanes], '        ')}    }},\n"
        text += "};\n"
    return text.lstrip("\n")


def tables_header(kernel: Kernel) -> str:
    """tables.hpp: the look-up tables as ROMs."""
    return kernel.fill(
        "header.hpp.in",
        guard=f"{kernel.top.upper()}_TABLES",
        about="Look-up tables. They are data: nothing here is computed from anything.",
        includes="#include <ap_int.h>\n\n",
        content=f"namespace rom {{\n\n{kernel.tables_text}\n}}  // namespace rom\n",
    )


def datapath_header(kernel: Kernel) -> str:
    """datapath.hpp: a function for each stage."""
    ports = kernel.datapath.ports
    fields = "".join(member(ports[name]) for name in kernel.carried)
    if kernel.ports:
        fields = (
            "    int row_length;  // elements of this layer's rows\n"
            "    int row_beats;\n"
            + "".join(f"    int {name};\n" for name in stops(kernel))
            + "".join(map(member, kernel.registers))
            + fields
        )
    return kernel.fill("datapath.hpp.in", row_fields=fields, programs=kernel.programs_text)


def trace_header(kernel: Kernel) -> str:
    """trace.hpp: how named signals reach a test bench."""
    names = "".join(f"    SIGNAL_{port.name},\n" for port in own_signals(kernel))
    return kernel.fill("trace.hpp.in", signals=names)
