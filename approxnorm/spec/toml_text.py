"""TOML text of a spec; the standard library reads TOML but does not write it."""

from __future__ import annotations

import json
from typing import Any


def toml_text(data: dict[str, Any]) -> str:
    """Plain data as TOML: numbers, texts, formats and lists first, then a section a part.

    A table of fields without a method (a format, say) is written inline.
    """
    plain = {k: v for k, v in data.items() if not _is_section(v)}
    lines = [f"{key} = {_value(value)}" for key, value in plain.items()]
    for name, section in data.items():
        if _is_section(section):
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {_value(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) and "method" in value


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's too, but for the one control character that JSON lets through.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
