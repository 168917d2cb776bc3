"""Many variants of a function in one source file, chosen while the program runs.

Compiling hundreds of mutants one by one takes hours; so all of them are put into one program, with
a number that says which mistake is made (mutant schemata: Untch, Offutt, Harrold 1993).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SWITCH = "approx_mutant"  # the number; 0 is the kernel as it is


def function_of(text: str, name: str) -> str:
    """The text of a function from its first line to its closing brace."""
    found = re.search(
        rf"^static (?:inline )?[\w:]+ {re.escape(name)}\((?:.|\n)*?^}}\n", text, re.MULTILINE
    )
    if found is None:
        raise AssertionError(f"the kernel has no function {name}")
    return found.group()


def edited(text: str, old: str, new: str) -> str:
    """A text with every ``old`` replaced; a mistake that changes nothing is one of ours."""
    if old not in text:
        raise AssertionError(f"the kernel has no {old!r}")
    return text.replace(old, new)


def with_variants(text: str, name: str, variants: Mapping[int, str]) -> str:
    """A file in which a function is one of several, by the number of the mutant."""
    original = function_of(text, name)
    head = original[: original.index("{")]
    returns_value = " void " not in head
    arguments = ", ".join(_parameter_names(head))
    parts = [_renamed(original, name, f"{name}_original")]
    cases = []
    for number, variant in variants.items():
        parts.append(_renamed(variant, name, f"{name}_{number}"))
        call = f"{name}_{number}({arguments});"
        cases.append(f"    case {number}: {'return ' if returns_value else ''}{call}")
        if not returns_value:
            cases.append("        return;")
    last = f"{name}_original({arguments});"
    default = f"    default: {'return ' if returns_value else ''}{last}"
    dispatch = "\n".join([f"{head}{{", f"    switch ({SWITCH}) {{", *cases, default, "    }", "}"])
    return text.replace(original, "\n".join(parts) + "\n" + dispatch + "\n")


def _renamed(text: str, name: str, new: str) -> str:
    return re.sub(rf"(^static (?:inline )?[\w:]+ ){re.escape(name)}\(", rf"\1{new}(", text, count=1)


def _parameter_names(head: str) -> list[str]:
    inside = head[head.index("(") + 1 : head.rindex(")")]
    names = []
    for parameter in re.split(r",(?![^<]*>)", inside):
        name = parameter.strip().rsplit(" ", 1)[-1].lstrip("&*")
        names.append(re.sub(r"\[.*\]", "", name))
    return names


def with_expression(text: str, before: str, old: str, new: str, number: int) -> str:
    """A file in which the expression ``old`` after ``before`` is another one in one mutant."""
    return edited(text, before + old, f"{before}({SWITCH} == {number} ? ({new}) : ({old}))")
