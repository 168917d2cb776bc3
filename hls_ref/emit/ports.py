"""Run-time ports: what differs between the layers that one kernel serves."""

from __future__ import annotations

from approxnorm.hls_ref.emit.kernel import Kernel, member
from approxnorm.hls_ref.emit.names import identifier
from approxnorm.hls_ref.emit.passes import stop_register
from approxnorm.program.datapath import Port, ReduceStage


def stops(kernel: Kernel) -> list[str]:
    """Registers with the end of each reduction over the row."""
    return [stop_register(s) for s in _reductions(kernel)]


def _reductions(kernel: Kernel) -> list[ReduceStage]:
    return [s for s in kernel.datapath.stages if isinstance(s, ReduceStage)]


def register_values(kernel: Kernel, name: str) -> list[int]:
    """A layer's numbers in the order of registers_t."""
    own = kernel.layers[name].assembly.require_datapath()
    ends = [s.stop for s in own.stages if isinstance(s, ReduceStage)]
    return [own.dim, *ends, *(own.settings[p.name] for p in kernel.registers)]


def channel_width(kernel: Kernel) -> int:
    """Bits of all numbers of one channel."""
    return sum(p.interval.width for p in kernel.channels)


def channel_fields(kernel: Kernel) -> list[tuple[Port, int, int]]:
    """The numbers of one channel in a word: (port, its lowest bit, its highest bit)."""
    fields, low = [], 0
    for port in kernel.channels:
        fields.append((port, low, low + port.interval.width - 1))
        low += port.interval.width
    return fields


def registers_type(kernel: Kernel) -> str:
    """registers_t, and the word that the channels' numbers come in."""
    text = (
        "\n// The numbers of a layer.\nstruct registers_t {\n"
        f"    ap_uint<32> row_length;  // elements of a row: 1 .. {kernel.dim}\n"
    )
    text += "".join(
        f"    ap_uint<32> {name};  // one past the last element that is taken\n"
        for name in stops(kernel)
    )
    text += "".join(map(member, kernel.registers)) + "};\n"
    if kernel.channels:
        fields = ", ".join(f"{p.name} ({p.interval.width} bits)" for p in kernel.channels)
        text += (
            "// The channels' numbers of a beat: lane 0 in the low bits, and of each lane, from its"
            f" low bits\n// on: {fields}.\n"
            f"typedef ap_uint<LANES * {channel_width(kernel)}> channel_word_t;\n"
        )
    return text


def ports_types(kernel: Kernel) -> str:
    """How a word of the stream becomes the channels' numbers of a beat."""
    if not kernel.channels:
        return ""
    lines = []
    for port, low, high in channel_fields(kernel):
        target = f"beat.lane[lane].{identifier(port.name)}"
        lines.append(f"        {target}.range({high - low}, 0) = bits.range({high}, {low});\n")
    width = channel_width(kernel)
    return (
        "struct channel_t {\n" + "".join(map(member, kernel.channels)) + "};\n"
        "struct channel_beat_t {\n    channel_t lane[LANES];\n};\n"
        "\nstatic inline channel_beat_t unpack_channels(const channel_word_t &word) {\n"
        "#pragma HLS INLINE\n"
        "    channel_beat_t beat;\n"
        "    for (int lane = 0; lane < LANES; lane++) {\n"
        "#pragma HLS UNROLL\n"
        f"        const ap_uint<{width}> bits ="
        f" word.range((lane + 1) * {width} - 1, lane * {width});\n"
        f"{''.join(lines)}"
        "    }\n"
        "    return beat;\n"
        "}\n"
    )
