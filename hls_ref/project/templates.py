"""Text templates of a project: ``@name@`` stands for a value."""

from __future__ import annotations

import re
from importlib import resources

_FIELD = re.compile(r"@([a-z][a-z0-9_]*)@")


def filled(name: str, values: dict[str, object]) -> bytes:
    """The template templates/NAME.in with its fields filled in, UTF-8.

    Every field must have a value; a missing one is a KeyError.
    """
    source = resources.files("approxnorm.hls_ref.project") / "templates" / f"{name}.in"
    text = source.read_text("utf-8")
    return _FIELD.sub(lambda match: str(values[match[1]]), text).encode("utf-8")
