"""C++ spellings of signals, types and numbers."""

from __future__ import annotations

import re

from approxnorm.program import Interval

# Signals may have any name that a trace can show; these mean something else in C++.
_KEYWORDS = frozenset(
    {"alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break"}
    | {"case", "catch", "char", "char16_t", "char32_t", "class", "compl", "const", "const_cast"}
    | {"constexpr", "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast"}
    | {"else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto"}
    | {"if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq"}
    | {"nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register"}
    | {"reinterpret_cast", "return", "short", "signed", "sizeof", "static", "static_assert"}
    | {"static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true"}
    | {"try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void"}
    | {"volatile", "wchar_t", "while", "xor", "xor_eq"}
)
# What the functions of programs call their own: the result, and steps without a name.
_OWN = re.compile(r"signals|t[0-9]+")
INT_BITS = 31  # a literal of so many bits is an int on every platform


def identifier(name: str) -> str:
    """A signal's name in C++: its own, with an underscore after it where that word is taken."""
    return f"{name}_" if name in _KEYWORDS or _OWN.fullmatch(name) else name


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
