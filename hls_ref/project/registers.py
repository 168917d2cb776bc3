"""What the program that drives a kernel with run-time ports sets: registers and channel words.

In three forms: registers.json, C arrays (layers.h, layers.c), and for each layer the words of
channels_in as text (LAYER.hex).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from approxnorm.hls_ref.emit.kernel import Kernel, channel_values
from approxnorm.hls_ref.emit.names import identifier
from approxnorm.hls_ref.emit.ports import channel_fields, channel_width, register_values, stops
from approxnorm.hls_ref.project.tables import c_prefix, comment_text
from approxnorm.program import Interval
from approxnorm.vectors.text import hex_digits

FOLDER = "registers"
FORMAT, FORMAT_VERSION = "approxnorm-registers", 1
ROW_LENGTH = "row_length"
_WORD_32 = Interval(0, (1 << 32) - 1)
_PER_LINE = 12


@dataclass(frozen=True)
class Register:
    """A member of registers_t. allowed: its lowest and highest value."""

    name: str
    type_name: str
    width: int
    signed: bool
    allowed: tuple[int, int]


def registers_of(kernel: Kernel) -> list[Register]:
    """The members of registers_t in order."""
    longest = (1, kernel.dim)
    lengths = [_register(name, _WORD_32, longest) for name in (ROW_LENGTH, *stops(kernel))]
    own = [
        _register(identifier(p.name), p.interval, (p.interval.lo, p.interval.hi))
        for p in kernel.registers
    ]
    return lengths + own


def _register(name: str, interval: Interval, allowed: tuple[int, int]) -> Register:
    return Register(name, interval.type_name, interval.width, interval.signed, allowed)


def word_width(kernel: Kernel) -> int:
    """Bits of a word of channels_in."""
    return kernel.lanes * channel_width(kernel)


def channel_words(kernel: Kernel, name: str) -> list[int]:
    """A layer's words of channels_in, one for each beat of its row; lanes past its end are 0."""
    model = kernel.layers[name]
    values, width = channel_values(model), channel_width(kernel)
    words = [0] * -(-model.dim // kernel.lanes)
    for port, low, high in channel_fields(kernel):
        for index, code in enumerate(values[port.name].tolist()):
            beat, lane = divmod(index, kernel.lanes)
            words[beat] |= (int(code) & ((2 << high - low) - 1)) << (lane * width + low)
    return words


def register_files(kernel: Kernel, names: Mapping[str, str]) -> dict[str, bytes]:
    """registers.json, layers.h, layers.c and LAYER.hex, by path in the project.

    names: of the layers where they come from, by those of the kernel.
    A line of LAYER.hex is a word in lower-case hex of ceil(width / 4) digits.
    """
    digits = hex_digits(word_width(kernel))
    words = {name: channel_words(kernel, name) for name in kernel.layers}
    files = {
        f"{FOLDER}/registers.json": _json(kernel, names),
        f"{FOLDER}/layers.h": _header(kernel).encode("ascii"),
        f"{FOLDER}/layers.c": "\n".join(_source(kernel, words, names)).encode("ascii"),
    }
    for name, of_layer in words.items():
        text = "".join(f"{word:0{digits}x}\n" for word in of_layer)
        files[f"{FOLDER}/{name}.hex"] = text.encode("ascii")
    return files


def _json(kernel: Kernel, names: Mapping[str, str]) -> bytes:
    registers = registers_of(kernel)
    fields = [
        {"name": p.name, "low_bit": low, "width": p.interval.width, "signed": p.interval.signed}
        for p, low, _ in channel_fields(kernel)
    ]
    data = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "top": kernel.top,
        "digest": kernel.digest,
        "lanes": kernel.lanes,
        "max_dim": kernel.dim,
        "registers": [
            {
                "name": r.name,
                "type": r.type_name,
                "width": r.width,
                "signed": r.signed,
                "lowest": r.allowed[0],
                "highest": r.allowed[1],
            }
            for r in registers
        ],
        "channels": {
            "word_width": word_width(kernel),
            "lane_width": channel_width(kernel),
            "fields": fields,
        },
        "layers": [
            {
                "name": name,
                "input_name": names[name],
                "digest": model.digest,
                "registers": dict(
                    zip([r.name for r in registers], register_values(kernel, name), strict=True)
                ),
                "words": -(-model.dim // kernel.lanes),
                "channels": f"{name}.hex",
            }
            for name, model in kernel.layers.items()
        ],
    }
    return (json.dumps(data, indent=1) + "\n").encode("ascii")


def _word_bytes(kernel: Kernel) -> int:
    """Bytes of a word: AXI4-Stream pads TDATA to whole ones."""
    return -(-word_width(kernel) // 8)


def _header(kernel: Kernel) -> str:
    members = "".join(
        f"    int64_t {r.name}; /* {r.type_name}, {r.allowed[0]} .. {r.allowed[1]} */\n"
        for r in registers_of(kernel)
    )
    low, high = c_prefix(kernel.top), c_prefix(kernel.top).upper()
    return f"""\
/* The layers of this kernel, for the program that drives it: its registers by name, and the words
 * of channels_in. A word is {high}WORD_BYTES bytes, lowest byte first.
 *
 * A register's value in AXI4-Lite: the low 32 bits of its int64_t, and for one of more than 32 bits
 * then the high ones, in the next word. Negative values are in two's complement; the register does
 * not use bits past its width. */
#ifndef {high}LAYERS_H
#define {high}LAYERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

struct {low}registers {{
{members}}};

struct {low}layer {{
    const char *name; /* as in the names of files; layers.c has others in a comment */
    const char *digest;
    struct {low}registers registers;
    uint32_t words;          /* of channels_in */
    const uint8_t *channels; /* words * {high}WORD_BYTES bytes */
}};

#define {high}LAYERS {len(kernel.layers)}
#define {high}WORD_BYTES {_word_bytes(kernel)}
extern const struct {low}layer {low}layers[{high}LAYERS];

#ifdef __cplusplus
}}
#endif

#endif
"""


def _source(kernel: Kernel, words: dict[str, list[int]], names: Mapping[str, str]) -> Iterator[str]:
    size = _word_bytes(kernel)
    yield '#include "layers.h"\n'
    for i, of_layer in enumerate(words.values()):
        data = b"".join(word.to_bytes(size, "little") for word in of_layer)
        yield f"static const uint8_t channels_{i}[] = {{"
        for start in range(0, len(data), _PER_LINE):
            yield "    " + ", ".join(f"{b:#04x}" for b in data[start : start + _PER_LINE]) + ","
        yield "};\n"
    low, high = c_prefix(kernel.top), c_prefix(kernel.top).upper()
    yield f"const struct {low}layer {low}layers[{high}LAYERS] = {{"
    for i, (name, model) in enumerate(kernel.layers.items()):
        values = ", ".join(f"INT64_C({v})" for v in register_values(kernel, name))
        if names[name] != name:
            yield f"    /* {comment_text(names[name])} */"
        yield f'    {{"{name}", "{model.digest}",'
        yield f"     {{{values}}}, {len(words[name])}, channels_{i}}},"
    yield "};\n"
