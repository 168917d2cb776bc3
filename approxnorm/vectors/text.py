"""Signals as text: two's complement hex, one word a line; and packed stream beats."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from approxnorm.errors import ApproxNormError

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_VALUES = np.full(256, 255, np.uint8)
_VALUES[_DIGITS] = np.arange(16)
_NEWLINE = 10


def hex_digits(width: int) -> int:
    """Digits of a word of ``width`` bits."""
    return -(-width // 4)


def to_hex(codes: np.ndarray, width: int) -> bytes:
    """Integers of any shape, in C order, as lines of lower-case hex with a final newline.

    Two's complement of ``width`` bits, at most 64; upper bits of the first digit are 0.
    """
    digits = hex_digits(width)
    mask = np.uint64((1 << width) - 1)
    words = codes.reshape(-1).astype(np.int64).view(np.uint64) & mask
    lines = np.empty((len(words), digits + 1), np.uint8)
    for i in range(digits):
        nibble = (words >> np.uint64(4 * (digits - 1 - i))) & np.uint64(15)
        lines[:, i] = _DIGITS[nibble.astype(np.intp)]
    lines[:, digits] = _NEWLINE
    return lines.tobytes()


def from_hex(text: bytes, width: int, signed: bool, name: str) -> np.ndarray:
    """What ``to_hex`` wrote, as int64 (words,).

    Raises ApproxNormError that calls the text ``name`` if it is anything else.
    """
    digits = hex_digits(width)
    raw = np.frombuffer(text, np.uint8)
    if len(raw) % (digits + 1):
        raise ApproxNormError(
            f"{name} has {len(raw)} bytes; allowed: lines of {digits} hex digits, each with a"
            " newline"
        )
    lines = raw.reshape(-1, digits + 1)
    values = _VALUES[lines[:, :digits]]
    if (lines[:, digits] != _NEWLINE).any() or (values > 15).any():
        bad = int(np.flatnonzero((lines[:, digits] != _NEWLINE) | (values > 15).any(axis=1))[0])
        raise ApproxNormError(
            f"{name} line {bad + 1} is no word; allowed: {digits} lower-case hex digits"
        )
    words = np.zeros(len(lines), np.uint64)
    for i in range(digits):
        words = (words << np.uint64(4)) | values[:, i].astype(np.uint64)
    if width < 64 and int(np.max(words, initial=0)) >> width:
        raise ApproxNormError(f"{name} holds a word of more than {width} bits")
    codes = words.astype(np.int64)
    if signed and width < 64:
        codes -= (codes >> (width - 1)) << width
    return codes


def to_beats(codes: np.ndarray, width: int, lanes: int) -> bytes:
    """Rows of codes (rows, dim) as stream beats, one a line: lane 0 in the low bits.

    A row takes ceil(dim / lanes) beats; lanes past the row's end are 0.
    """
    rows, dim = codes.shape
    beats = -(-dim // lanes)
    padded = np.zeros((rows, beats * lanes), np.int64)
    padded[:, :dim] = codes
    size = lanes * width
    digits = hex_digits(size)
    bits = np.zeros((rows * beats, 4 * digits), np.uint8)
    words = padded.reshape(rows * beats, lanes)
    for bit in range(width):
        bits[:, bit:size:width] = (words >> bit) & 1
    weights = np.array([1, 2, 4, 8], np.uint8)
    nibbles = (bits.reshape(rows * beats, digits, 4) * weights).sum(axis=2, dtype=np.uint8)
    lines = np.empty((rows * beats, digits + 1), np.uint8)
    lines[:, :digits] = _DIGITS[nibbles[:, ::-1]]
    lines[:, digits] = _NEWLINE
    return lines.tobytes()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
