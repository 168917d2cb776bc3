"""All source files of a kernel whose constants are baked in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import Template

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref.emit.names import bare, identifier, interval_text, type_of
from approxnorm.hls_ref.emit.passes import PassContext, call_text, pass_text
from approxnorm.hls_ref.emit.programs import program_text
from approxnorm.hls_ref.emit.schedule import Pass, carried, passes_of
from approxnorm.hls_ref.emit.skeleton import skeleton
from approxnorm.hls_ref.emit.tables import table_text
from approxnorm.model import RMSNorm
from approxnorm.program.datapath import Datapath, Port

TOP = "approx_rmsnorm"


@dataclass(frozen=True)
class Kernel:
    """What the texts of a kernel are made from."""

    model: RMSNorm
    lanes: int
    top: str

    @property
    def datapath(self) -> Datapath:
        return self.model.assembly.require_datapath()

    @property
    def passes(self) -> list[Pass]:
        return passes_of(self.datapath)

    @property
    def beats(self) -> int:
        return -(-self.model.dim // self.lanes)

    @property
    def banner(self) -> str:
        return f"approxnorm kernel, digest {self.model.digest}"

    def fill(self, name: str, **fields: object) -> str:
        """A skeleton file with the fields that all of them share, and its own."""
        shared = {"top": self.top, "guard": self.top.upper(), "banner": self.banner}
        return Template(skeleton(name)).substitute(shared, **fields)


def emit_kernel(
    model: RMSNorm, lanes: int = 8, *, top: str = TOP, residual: bool = False
) -> dict[str, str]:
    """Every source file of the kernel by its path in a project: ``kernel/…`` and ``tb/…``.

    lanes: elements a beat; it need not divide dim. top: the name of the function. residual: the
    kernel adds a second stream to x first, and writes the sums out as well.

    Raises ApproxNormError for the exact yardstick, which has no hardware.
    """
    kernel = Kernel(model, lanes, top)
    if residual:
        raise ApproxNormError("residual is not there yet")
    return {
        f"kernel/{top}.hpp": _top_header(kernel),
        f"kernel/{top}.cpp": _top_source(kernel),
        "kernel/params.hpp": _params(kernel),
        "kernel/tables.hpp": _tables(kernel),
        "kernel/datapath.hpp": _datapath(kernel),
        "kernel/trace.hpp": _trace(kernel),
        "kernel/approx/ops.hpp": skeleton("approx/ops.hpp"),
        "tb/driver.hpp": skeleton("driver.hpp"),
        "tb/bench_config.hpp": _bench_config(kernel),
    }


def _top_header(kernel: Kernel) -> str:
    model = kernel.model
    ports = kernel.datapath.ports
    x, y = ports["x"].interval, ports[kernel.datapath.output].interval
    description = (
        f"static const int DIM = {model.dim};  // elements in a row\n"
        f"static const int LANES = {kernel.lanes};  // elements in a beat\n"
        f"static const int BEATS = {kernel.beats};  // beats in a row\n"
    )
    return kernel.fill(
        "top.hpp.in",
        description=description,
        x_type=type_of(x),
        y_type=type_of(y),
        x_width=x.width,
        y_width=y.width,
        x_format=model.assembly.x_format,
        y_format=model.assembly.context.y,
        more="",
        contract="Reads and writes `rows` rows of BEATS beats each.",
        top_parameters=_top_parameters(kernel, f"{kernel.top}_kernel::"),
    )


def _top_parameters(kernel: Kernel, scope: str) -> str:
    indent = " " * (len(kernel.top) + 6)
    return f",\n{indent}".join(
        [
            f"hls::stream<{scope}x_beat_t> &x_in",
            f"hls::stream<{scope}y_beat_t> &y_out",
            "ap_uint<32> rows",
        ]
    )


def _top_source(kernel: Kernel) -> str:
    context = PassContext(kernel.datapath, tuple(carried(kernel.datapath)))
    passes = kernel.passes
    interfaces = (
        "#pragma HLS INTERFACE axis port=x_in\n"
        "#pragma HLS INTERFACE axis port=y_out\n"
        "#pragma HLS INTERFACE s_axilite port=rows\n"
        "#pragma HLS INTERFACE s_axilite port=return\n"
    )
    return kernel.fill(
        "kernel.cpp.in",
        helpers="",
        passes="\n".join(pass_text(context, p) for p in passes),
        row_parameters="hls::stream<x_beat_t> &x_in, hls::stream<y_beat_t> &y_out",
        buffers="".join(_buffers(passes)),
        calls="".join(f"    {call_text(context, p)}\n" for p in passes),
        top_parameters=_top_parameters(kernel, ""),
        interfaces=interfaces,
        load="",
        row_arguments="x_in, y_out",
    )


def _buffers(passes: Sequence[Pass]) -> Iterator[str]:
    for step in passes[:-1]:
        yield f"    x_beat_t buffer_{step.number}[BEATS];\n"
        yield f"    row_t row_{step.number + 1};\n"


def _params(kernel: Kernel) -> str:
    channels = [p for p in kernel.datapath.inputs if p.level == "channel"]
    content = "struct channel_t {\n" + "".join(map(_field, channels))
    content += "};\nstruct channel_beat_t {\n    channel_t lane[LANES];\n};\n"
    if channels:
        content += "\nstatic const channel_beat_t CHANNELS[BEATS] = {\n"
        content += "".join(_channel_beats(kernel, channels)) + "};\n"
    return kernel.fill(
        "header.hpp.in",
        about="Numbers of each channel: gamma, or what the datapath reads in its place.",
        includes=f'#include "{kernel.top}.hpp"\n\n',
        namespace=f"{kernel.top}_kernel",
        content=content,
    ).replace(f"{kernel.top.upper()}_HPP", f"{kernel.top.upper()}_PARAMS_HPP")


def _field(port: Port) -> str:
    """A member of a struct, with its interval."""
    return (
        f"    {type_of(port.interval)} {identifier(port.name)};"
        f"  // {interval_text(port.interval)}\n"
    )


def _channel_beats(kernel: Kernel, channels: Sequence[Port]) -> Iterator[str]:
    """A line for each beat; lanes past the row's end are 0."""
    values = channel_values(kernel.model)
    for beat in range(kernel.beats):
        lanes = []
        for index in range(beat * kernel.lanes, (beat + 1) * kernel.lanes):
            inside = index < kernel.model.dim
            codes = [int(values[p.name][index]) if inside else 0 for p in channels]
            lanes.append("{" + ", ".join(map(bare, codes)) + "}")
        yield f"    {{{{{', '.join(lanes)}}}}},\n"


def channel_values(model: RMSNorm) -> dict[str, np.ndarray]:
    """The datapath's channel inputs by name, each (dim,)."""
    _, trace = model(np.zeros((0, model.dim), np.int64), trace=True)
    inputs = model.assembly.require_datapath().inputs
    return {p.name: trace[p.name] for p in inputs if p.level == "channel"}


def _tables(kernel: Kernel) -> str:
    return (
        kernel.fill(
            "header.hpp.in",
            about="Look-up tables. They are data: nothing here is computed from anything.",
            includes="#include <ap_int.h>\n\n",
            namespace=f"{kernel.top}_kernel {{\nnamespace rom",
            content="\n".join(table_text(t) for t in kernel.datapath.tables()),
        )
        .replace(f"{kernel.top.upper()}_HPP", f"{kernel.top.upper()}_TABLES_HPP")
        .replace(
            f"}}  // namespace {kernel.top}_kernel {{\nnamespace rom",
            f"}}  // namespace rom\n}}  // namespace {kernel.top}_kernel",
        )
    )


def _datapath(kernel: Kernel) -> str:
    ports = kernel.datapath.ports
    fields = "".join(_field(ports[name]) for name in carried(kernel.datapath))
    programs = "\n".join(program_text(s) for s in kernel.datapath.programs())
    return kernel.fill("datapath.hpp.in", row_fields=fields, programs=programs)


def _trace(kernel: Kernel) -> str:
    names = "".join(f"    SIGNAL_{p.name},\n" for p in kernel.datapath.signals())
    return kernel.fill("trace.hpp.in", signals=names)


def _bench_config(kernel: Kernel) -> str:
    signals = "".join(
        f"    {{\"{p.name}\", '{p.level[0]}', {p.interval.width},"
        f" {'true' if p.interval.signed else 'false'}}},\n"
        for p in kernel.datapath.signals()
    )
    padding = -1 if kernel.datapath.ports["x"].interval.signed else 1
    run = (
        "    (void)layer, (void)residual, (void)sum;\n"
        '    hls::stream<x_beat_t> x_in("x_in");\n'
        '    hls::stream<y_beat_t> y_out("y_out");\n'
        f"    send_rows<x_t>(x_in, x, rows, DIM, LANES, {padding});\n"
        f"    {kernel.top}(x_in, y_out, rows);\n"
        "    receive_rows<y_t>(y_out, y, rows, DIM, LANES);\n"
        '    require_empty(x_in, "x_in");\n'
        '    require_empty(y_out, "y_out");\n'
    )
    return kernel.fill(
        "bench_config.hpp.in",
        signals=signals,
        has_residual="false",
        layers=f'    {{"{kernel.model.digest}", {kernel.model.dim}}},\n',
        run=run,
    )
