"""What a README says of a kernel with run-time ports: its layers, and how to load them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from approxnorm.hls_ref.emit import Kernel
from approxnorm.hls_ref.emit.ports import channel_fields, channel_width, register_values
from approxnorm.hls_ref.project.readme import ROWS_PORT, cell, counted, signal_row, streams
from approxnorm.hls_ref.project.registers import FOLDER, Register, registers_of, word_width
from approxnorm.hls_ref.project.templates import filled
from approxnorm.vectors.text import hex_digits

_DIGEST_TEXT = """\
The kernel's digest covers what its layers share. A layer's digest covers its resolved spec (in
`project.json`), the tables and gamma; its vectors and the bench carry it, and the bench refuses
vectors of another, and a folder that lacks a layer."""
_ROW_TEXT = """\
A row takes ceil(row_length / lanes) beats. Lanes of the last one past the row's end are not
  read, and 0 in y."""
_SIGNALS_TEXT = """\
The intervals follow from the formats and from those of the registers, so no width can overflow. The
vectors of a layer may be narrower: their manifest has what that layer alone asks for."""
_LOAD_LATENCY = (
    "    loading the channels    = B + the load loop's depth, once in a call with load_channels\n"
)


def ports_values(kernel: Kernel, names: Mapping[str, str]) -> dict[str, object]:
    """The README's fields that differ from those of a kernel of constants, by name.

    names: of the layers where they come from, by those of the kernel.
    """
    lanes, beats, passes = kernel.lanes, kernel.beats, len(kernel.passes)
    first = next(iter(kernel.layers))
    return {
        "title": f"one kernel for {counted(len(kernel.layers), 'layer')}",
        "facts": _facts(kernel),
        "digest_text": _DIGEST_TEXT,
        "layers_section": _layers_section(kernel, names),
        "ports": "\n".join(_ports(kernel)),
        "row_text": _ROW_TEXT,
        "beats_formula": f"ceil(row_length / lanes), beats of a row; of the longest,"
        f" ceil({kernel.dim} / {lanes}) = {beats}",
        "row_latency": f"{passes} * B" if passes > 1 else "B",
        "row_interval": "B",
        "load_latency": _LOAD_LATENCY,
        "vector_set": f"vectors/{first}",
        "signals": "\n".join(signal_row(p) for p in kernel.datapath.signals()),
        "signals_text": _SIGNALS_TEXT,
        "registers_row": f"| `{FOLDER}/` | the layers' numbers for a driver: `registers.json`,"
        " `layers.h` and `layers.c`, `LAYER.hex` |\n",
    }


def _facts(kernel: Kernel) -> str:
    ports = kernel.datapath.ports
    x, y = (ports[n].interval.type_name for n in ("x", kernel.datapath.output))
    return (
        f"| kernel digest | `{kernel.digest}` |\n"
        f"| x, y | `{x}`, `{y}`, of each layer's own scale |\n"
        f"| row | up to {counted(kernel.dim, 'element')}, {kernel.lanes} a beat:"
        f" up to {counted(kernel.beats, 'beat')} |"
    )


def _ports(kernel: Kernel) -> Iterator[str]:
    yield from streams(kernel)
    if kernel.channels:
        yield (
            f"| `channels_in` | AXI4-Stream, in | {kernel.lanes} × {channel_width(kernel)} ="
            f" {word_width(kernel)} | the channels' numbers, with `load_channels` |"
        )
    for register in registers_of(kernel):
        yield (
            f"| `registers.{register.name}` | AXI4-Lite | {register.width} |"
            f" `{register.type_name}`, {register.allowed[0]} to {register.allowed[1]} |"
        )
    yield "| `load_channels` | AXI4-Lite | 1 | whether this call begins with `channels_in` |"
    yield ROWS_PORT


def _layers_section(kernel: Kernel, names: Mapping[str, str]) -> str:
    values: dict[str, object] = {
        "formats": "\n".join(_formats(kernel, names)),
        "values": "\n".join(_values(kernel, registers_of(kernel))),
        "word": _word(kernel) if kernel.channels else "",
        "folder": FOLDER,
        "top": kernel.top,
    }
    return filled("layers.md", values).decode("utf-8")


def _formats(kernel: Kernel, names: Mapping[str, str]) -> Iterator[str]:
    """Rows of the table of layers; with their own names if a folder could not have one of them."""
    renamed = any(names[name] != name for name in kernel.layers)
    own = {name: f" {cell(names[name])} |" if renamed else "" for name in kernel.layers}
    yield f"| layer |{' name in the input |' if renamed else ''} row | x | gamma | y | digest |"
    yield "|---" * (6 + renamed) + "|"
    for name, model in kernel.layers.items():
        context = model.assembly.context
        yield (
            f"| {name} |{own[name]} {model.dim} | `{model.assembly.x_format}` | `{context.gamma}` |"
            f" `{context.y}` | `{model.digest}` |"
        )


def _values(kernel: Kernel, registers: list[Register]) -> Iterator[str]:
    yield f"| layer | {' | '.join(f'`{r.name}`' for r in registers)} |"
    yield "|---" * (len(registers) + 1) + "|"
    for name in kernel.layers:
        yield f"| {name} | {' | '.join(map(str, register_values(kernel, name)))} |"


def _word(kernel: Kernel) -> str:
    """The layout of channels_in."""
    lane = channel_width(kernel)
    fields = [
        f"| `{port.name}` | [{high} : {low}] | `{port.interval.type_name}` |"
        for port, low, high in channel_fields(kernel)
    ]
    values: dict[str, object] = {
        "word_width": word_width(kernel),
        "lane": lane,
        "last": lane - 1,
        "fields": "\n".join(fields),
        "folder": FOLDER,
        "digits": hex_digits(word_width(kernel)),
    }
    return filled("channel_words.md", values).decode("utf-8")
