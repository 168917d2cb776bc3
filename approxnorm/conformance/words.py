"""Words as simulators and boards write them, to codes: hex of any style, and decimal numbers."""

from __future__ import annotations

import codecs
import re

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.methods.base import shown
from approxnorm.vectors.text import hex_digits

_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.S)
_BASE = re.compile(rb"^\d*'s?h")
_WORD = re.compile(rb"^[0-9a-fxz?]+$")
_INTEGER = re.compile(rb"^[+-]?\d+$")
_UNKNOWN = b"xz?"
_BOMS = {
    codecs.BOM_UTF8: "UTF-8",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_MOST_BITS = 64  # of a word's sign extension

_VALUES = np.zeros(256, np.uint8)
_VALUES[list(b"0123456789abcdef")] = np.arange(16)
_UNKNOWN_DIGITS = np.zeros(256, np.uint8)
_UNKNOWN_DIGITS[list(_UNKNOWN)] = 15


def hex_tokens(text: bytes, where: str) -> list[bytes]:
    """The words of a hex file in lower case, without prefixes, comments and addresses.

    Taken as ``$readmemh`` takes them, ``$writememh`` and printf write them: any case, x and z
    digits, ``_`` between digits, a prefix 0x or 8'h, ``//`` and ``/* */`` comments, blank lines,
    several words a line, and @addresses that follow on. Raises ApproxNormError for anything else.
    """
    _refuse_bom(text, where)
    text = _COMMENT.sub(_blank, text).lower()
    tokens = text.split()
    if b"@" in text:
        tokens = _without_addresses(tokens, where)
    if b"_" in text or b"'" in text:
        tokens = [_BASE.sub(b"", token.replace(b"_", b"")) for token in tokens]
    # A digit x may stand behind a 0 as well: a prefix is what all words have.
    if tokens and all(token.startswith(b"0x") and len(token) > 2 for token in tokens):
        tokens = [token[2:] for token in tokens]
    for i, token in enumerate(tokens):
        if not _WORD.match(token):
            raise ApproxNormError(
                f"{where} word {i + 1} is {shown(token.decode('ascii', 'replace'))}; allowed:"
                " hex digits, x and z"
            )
    return tokens


def _refuse_bom(text: bytes, where: str) -> None:
    """Editors and PowerShell put a mark at the start of what they write as UTF-8 or UTF-16."""
    for bom, name in _BOMS.items():
        if text.startswith(bom):
            raise ApproxNormError(
                f"{where} begins with the byte order mark of {name}; write it as plain ASCII (in"
                " PowerShell: Set-Content -Encoding ascii)"
            )


def _blank(comment: re.Match[bytes]) -> bytes:
    return b" "


def _without_addresses(tokens: list[bytes], where: str) -> list[bytes]:
    kept: list[bytes] = []
    for token in tokens:
        if not token.startswith(b"@"):
            kept.append(token)
            continue
        try:
            address = int(token[1:], 16)
        except ValueError:
            address = -1
        if address != len(kept):
            raise ApproxNormError(
                f"{where} has the address {shown(token.decode('ascii', 'replace'))} after"
                f" {len(kept)} words; allowed: @{len(kept):x}, for words in order from 0 without a"
                " gap"
            )
    return kept


def from_tokens(
    tokens: list[bytes], width: int, lanes: int, signed: bool, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """Hex words to codes: int64 (words, lanes), and which of them have an unknown digit.

    A word holds ``lanes`` codes of ``width`` bits, lane 0 in the low bits. Digits may be missing
    on the left, where they are 0 (or the first digit, if that is x or z), or there may be more:
    zeros or, of a single signed code, copies of its sign. Raises ApproxNormError for other bits.
    """
    size = lanes * width
    longest = max(map(len, tokens), default=0)
    digits = max(hex_digits(size), min(longest, hex_digits(size) + _MOST_BITS // 4))
    for i, token in enumerate(tokens):
        if len(token) > digits:
            raise _too_wide(tokens, i, size, signed and lanes == 1, where)
    padded = b"".join(t.rjust(digits, t[:1] if t[:1] in _UNKNOWN else b"0") for t in tokens)
    raw = np.frombuffer(padded, np.uint8).reshape(len(tokens), digits)
    bits, unknown_bits = _bits(_VALUES[raw]), _bits(_UNKNOWN_DIGITS[raw])
    unknown = np.any(unknown_bits[:, :size].reshape(-1, lanes, width) != 0, axis=2)
    _check_upper(tokens, bits, size, signed and lanes == 1, where)
    codes = np.zeros((len(tokens), lanes), np.int64)
    for bit in range(width):
        codes |= bits[:, bit:size:width].astype(np.int64) << bit
    if signed:
        codes -= (codes >> (width - 1)) << width
    return codes, unknown


def _bits(nibbles: np.ndarray) -> np.ndarray:
    """Nibbles (words, digits), the highest first, to bits (words, 4 * digits), the lowest first."""
    reversed_ = nibbles[:, ::-1, None] >> np.arange(4, dtype=np.uint8)
    return (reversed_ & 1).reshape(len(nibbles), -1)


def _check_upper(
    tokens: list[bytes], bits: np.ndarray, size: int, signed: bool, where: str
) -> None:
    """What lies above a word's bits must be zeros, or copies of its sign."""
    upper = bits[:, size:]
    allowed = ~upper.any(axis=1)
    if signed:
        allowed |= upper.all(axis=1) & (bits[:, size - 1] == 1)
    if not allowed.all():
        raise _too_wide(tokens, int(np.flatnonzero(~allowed)[0]), size, signed, where)


def _too_wide(
    tokens: list[bytes], index: int, size: int, signed: bool, where: str
) -> ApproxNormError:
    above = "zeros or copies of the sign" if signed else "zeros"
    return ApproxNormError(
        f"{where} word {index + 1} is {shown(tokens[index].decode())}; allowed: {size} bits, that"
        f" is {hex_digits(size)} hex digits, and above these bits nothing but {above}"
    )


def decimal_tokens(text: bytes, where: str) -> list[bytes]:
    """The numbers of a .dat file, between blanks, commas or line ends."""
    _refuse_bom(text, where)
    if text[:1] == b"\x93" or b"\0" in text:
        raise ApproxNormError(f"{where} is no text; allowed: decimal numbers, one row a line")
    return text.replace(b",", b" ").split()


def all_integers(tokens: list[bytes]) -> bool:
    """Whether every number is an integer (or unknown), hence a code."""
    return all(_INTEGER.match(token) or _is_unknown(token) for token in tokens)


def from_integers(tokens: list[bytes], where: str) -> tuple[np.ndarray, np.ndarray]:
    """Decimal integers to int64 (words,), and which are unknown."""
    unknown = np.array([_is_unknown(token) for token in tokens], bool)
    codes = np.zeros(len(tokens), np.int64)
    for i, token in enumerate(tokens):
        if unknown[i]:
            continue
        # Long digit strings are not converted: Python refuses some, and none is a code.
        if len(token) > 20 or not -(1 << 63) <= int(token) < 1 << 63:
            raise ApproxNormError(
                f"{where} number {i + 1} is {shown(token.decode())}; allowed: codes of 64 bits"
            )
        codes[i] = int(token)
    return codes, unknown


def from_reals(tokens: list[bytes], where: str) -> tuple[np.ndarray, np.ndarray]:
    """Decimal reals to float64 (words,), and which are unknown; those are 0."""
    unknown = np.array([_is_unknown(token) for token in tokens], bool)
    values = np.zeros(len(tokens))
    for i, token in enumerate(tokens):
        if unknown[i]:
            continue
        try:
            values[i] = float(token)
        except ValueError:
            values[i] = np.nan
        if not np.isfinite(values[i]):
            raise ApproxNormError(
                f"{where} number {i + 1} is {shown(token.decode('ascii', 'replace'))}; allowed:"
                " decimal numbers"
            )
    return values, unknown


def _is_unknown(token: bytes) -> bool:
    return token.lower() in (b"x", b"z")
