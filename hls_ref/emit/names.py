"""C++ spellings of signals, types and numbers."""

from __future__ import annotations

from approxnorm.program import Interval

# Signals may have any name that a trace can show; these mean something else in C++.
_KEYWORDS = frozenset(
    {"and", "auto", "bool", "break", "case", "char", "class", "const", "default", "delete", "do"}
    | {"double", "else", "enum", "export", "extern", "false", "float", "for", "friend", "goto"}
    | {"if", "inline", "int", "long", "new", "not", "operator", "or", "private", "protected"}
    | {"public", "register", "return", "short", "signed", "sizeof", "static", "struct", "switch"}
    | {"template", "this", "true", "typedef", "union", "unsigned", "using", "virtual", "void"}
    | {"volatile", "while", "xor"}
)
INT_BITS = 31  # a literal of so many bits is an int on every platform


def identifier(name: str) -> str:
    """A signal's name in C++: its own, with an underscore after it where C++ keeps the word."""
    return f"{name}_" if name in _KEYWORDS else name


def type_of(interval: Interval) -> str:
    """The narrowest ap_int or ap_uint of an interval."""
    return interval.type_name


def literal(value: int) -> str:
    """An integer; past 32 bits with the suffix that makes it 64."""
    text = str(value) if abs(value) < 1 << INT_BITS else f"{value}LL"
    return f"({text})" if value < 0 else text


def bare(value: int) -> str:
    """An integer in a list, where a sign needs no parentheses."""
    return literal(value).strip("()")


def typed(value: int) -> str:
    """An integer as an ap_int or ap_uint of its own width, for templates that ask for one."""
    return f"{type_of(Interval(value, value))}({literal(value)})"


def interval_text(interval: Interval) -> str:
    """An interval for a comment."""
    if interval.lo == interval.hi:
        return str(interval.lo)
    return f"{_short(interval.lo)} .. {_short(interval.hi)}"


def _short(value: int) -> str:
    """Long numbers next to a power of two as such: -2^40, 2^40-1."""
    size = abs(value)
    if size < 1 << 17:
        return str(value)
    sign = "-" if value < 0 else ""
    if size & (size - 1) == 0:
        return f"{sign}2^{size.bit_length() - 1}"
    if size & (size + 1) == 0:
        return f"{sign}(2^{size.bit_length()}-1)" if sign else f"2^{size.bit_length()}-1"
    return str(value)
