"""Usage errors as one sentence: which option, what was found, what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

# Typer exports this of Click's errors, which newer releases of it carry within themselves.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def integer_in(low: int, high: int | None = None) -> Callable[[Any], int]:
    """A parser for ``typer.Option(parser=...)``: integers from ``low`` to ``high``, if given."""
    allowed = f"an integer from {low} " + ("on" if high is None else f"to {high}")

    def parse(text: Any) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            raise typer.BadParameter(f"found {text}; allowed: {allowed}")
        return value

    return parse


def sentence(error: Any) -> str:
    """What a usage error says, and what is allowed instead; "" if help was printed for it."""
    message = error.format_message().strip().removesuffix(".").replace("Value error, ", "")
    if not message or "allowed" in message:
        return message
    return message + ("" if message.endswith("?") else ";") + f" {_advice(error)}"


def _advice(error: Any) -> str:
    """What is allowed where the error was met."""
    context = error.ctx
    if context is None:
        return "see approxnorm --help"
    see = f"see {context.command_path} --help"
    kind = type(error).__name__
    if kind == "MissingParameter" and error.param is not None and error.param.help:
        return f"give it: {error.param.help.removesuffix('.')} ({see})"
    if kind == "NoSuchOption":
        return f"allowed: {', '.join(_options(context))}"
    commands = getattr(context.command, "commands", None)
    if commands:
        return f"allowed: {', '.join(commands)}"
    if kind != "UsageError":
        return see
    pieces = " ".join(context.command.collect_usage_pieces(context))
    return f"allowed: {context.command_path} {pieces} ({see})"


def _options(context: Any) -> list[str]:
    """The long names of a command's options."""
    names = [n for p in context.command.get_params(context) for n in p.opts]
    return [name for name in names if name.startswith("--")]
