"""``approxnorm rsqrt``: one function stage, measured exhaustively."""

from __future__ import annotations

import json as json_
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from approxnorm.cli.options import JsonOption
from approxnorm.cli.output import print_json, print_line, print_tables, waiting
from approxnorm.errors import ApproxNormError

if TYPE_CHECKING:
    from approxnorm.methods.function import FunctionMethod
    from approxnorm.tables.target import Target


class Function(StrEnum):
    rsqrt = "rsqrt"
    reciprocal = "reciprocal"
    log2 = "log2"
    exp2 = "exp2"


def rsqrt(
    method: Annotated[
        str | None, typer.Argument(metavar="METHOD", help="A method's name; see --list.")
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Its fields, such as segments=8 bits=11."),
    ] = None,
    function: Annotated[
        Function, typer.Option(help="What the method approximates.")
    ] = Function.rsqrt,
    list_: Annotated[bool, typer.Option("--list", help="List the methods and fields.")] = False,
    json: JsonOption = False,
) -> None:
    """Measure a method over its whole domain: table bits against error."""
    from approxnorm.tables.target import Target

    if list_:
        _list(json)
        return
    if method is None:
        raise ApproxNormError("METHOD is missing; approxnorm rsqrt --list shows the methods")
    with waiting("measuring every argument"):
        result = evaluate(parse_method(method, fields or []), Target(function.value))
    if json:
        print_json(result)
    else:
        _print(result)


def parse_method(name: str, assignments: list[str]) -> FunctionMethod:
    """A resolved method from its name and texts ``key=value``; ApproxNormError names the field."""
    from pathlib import Path

    from pydantic import ValidationError

    from approxnorm.methods.function import RSQRT_METHODS
    from approxnorm.spec.errors import spec_error

    cls = RSQRT_METHODS.get(name)
    values = dict(_assignment(text) for text in assignments)
    if len(values) < len(assignments):
        raise ApproxNormError(f"rsqrt {name}: a field was given twice; give each once")
    try:
        # Lax, since all that a shell can give is text.
        method = cls.model_validate(values, strict=False)
    except ValidationError as error:
        raise spec_error(error, f"rsqrt {name}") from None
    loaded = getattr(method, "loaded", None)  # a method that reads a file
    return (loaded(Path(".")) if loaded else method).resolved()


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ApproxNormError(f"found {text!r}; allowed: KEY=VALUE, such as bits=11")
    return key, _value(key, value)


def _value(key: str, text: str) -> Any:
    """Lists are written 3,3,3 or as JSON; all else stays text for the field to read."""
    if text.startswith("["):
        try:
            return json_.loads(text)
        except (ValueError, RecursionError):
            raise ApproxNormError(f"{key} is {text!r}, which is not a JSON list") from None
    return text.split(",") if "," in text else text


def evaluate(method: FunctionMethod, target: Target) -> dict[str, Any]:
    """What ``rsqrt --json`` prints. Errors of log2 are absolute, those of the others relative."""
    method.check_target(target)
    error = method.error(target)
    kind = "rel" if target.relative else "abs"
    return {
        "method": method.method,
        "function": target.name,
        "table_bits": method.table_bits(target),
        f"max_{kind}": error.max_error,
        f"mean_{kind}": error.mean_error,
        "argmax": error.worst_argument,
        "multipliers": method.multipliers(target),
        "frac_bits": method.f,
        "out_bits": method.o,
        "fields": method.model_dump(mode="json", exclude_none=True),
        "tables": [t.summary() for t in method.tables(target)],
    }


def _print(result: dict[str, Any]) -> None:
    fields = " ".join(f"{k}={_plain(v)}" for k, v in result["fields"].items() if k != "method")
    print_line(f"{result['function']} by {result['method']}: {fields}", bold=True)
    kind, word = ("rel", "relative") if "max_rel" in result else ("abs", "absolute")
    print_line(f"table_bits  {result['table_bits']}")
    print_line(f"max_{kind}     {result[f'max_{kind}']:.4e}   ({word}, over every argument)")
    print_line(f"mean_{kind}    {result[f'mean_{kind}']:.4e}")
    print_line(f"argmax      {result['argmax']:.9g}")
    print_line(f"multipliers {result['multipliers']}")
    if result["tables"]:
        print_line()
        print_tables(result["tables"])


def _list(as_json: bool) -> None:
    from approxnorm.methods.function import RSQRT_METHODS

    methods = [_describe(cls) for cls in RSQRT_METHODS]
    if as_json:
        print_json(methods)
        return
    for entry in methods:
        print_line(entry["method"], bold=True)
        source = f" [{entry['source']}]" if entry["source"] else ""
        print_line(entry["summary"] + source, indent=4)
        print_line(f"for {', '.join(entry['functions'])}", indent=4)
        fields = (k if v is None else f"{k}={v}" for k, v in entry["fields"].items())
        print_line(f"fields: {' '.join(fields)}", indent=4)


def _describe(cls: type[FunctionMethod]) -> dict[str, Any]:
    fields = {name: f for name, f in cls.model_fields.items() if name != "method"}
    return {
        "method": cls.model_fields["method"].default,
        "summary": cls.summary,
        "source": cls.source,
        "functions": list(cls.functions),
        "fields": {
            name: None if field.is_required() else _plain(field.default)
            for name, field in fields.items()
        },
    }


def _plain(value: Any) -> Any:
    """A default as the command line takes it."""
    if isinstance(value, list | tuple):
        return json_.dumps(value, separators=(",", ":"))
    return value if isinstance(value, int | float | None) else str(value)
