"""Validation errors as one sentence that names the field."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from approxnorm.errors import ApproxNormError
from approxnorm.methods.base import shown

# What pydantic says in Python's words, in a file's.
_ALLOWED = {"model_type": "a table of its fields", "tuple_type": "a list"}


def spec_error(error: ValidationError, source: str) -> ApproxNormError:
    """The first complaint of a validation, with the field's dotted path; counts the others."""
    sentences = _sentences(error, ())
    rest = f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else ""
    return ApproxNormError(f"{source}: {sentences[0]}{rest}")


def _sentences(error: ValidationError, prefix: tuple[Any, ...]) -> list[str]:
    found: list[str] = []
    for detail in error.errors():
        inner = detail.get("ctx", {}).get("error")
        path = prefix + tuple(detail["loc"])
        if isinstance(inner, ValidationError):
            found += _sentences(inner, path)
        else:
            found.append(_sentence(detail, path))
    return found


def _sentence(detail: ErrorDetails, path: tuple[Any, ...]) -> str:
    field = ".".join(str(p) for p in path)
    inner = detail.get("ctx", {}).get("error")
    if isinstance(inner, ValueError):
        text = str(inner)
        return text if not field or text.startswith(field) else f"{field}: {text}"
    if detail["type"] == "missing":
        return f"{field} is missing; give it"
    allowed = _ALLOWED.get(detail["type"])
    if allowed is None:
        allowed = detail["msg"].replace("Input should be ", "").replace("a valid ", "")
    return f"{field} is {shown(detail['input'])}; allowed: {allowed}"
