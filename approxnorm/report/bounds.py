"""What a proven bound says, in sentences that hold: shared by the screen and the report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

# Of ``Bound.text``: the bound then takes the statistic's result as it is, error and all.
OWN_VALUE = "the statistic's own value"
GIVEN = f", given {OWN_VALUE}"

Layer = dict[str, Any]


def by_condition(layers: Iterable[Layer]) -> list[tuple[str, list[Layer]]]:
    """The layers that have a bound, as ("", those without a condition) and (GIVEN, the others).

    The first part ends a title; a group without layers is left out.
    """
    groups: dict[str, list[Layer]] = {"": [], GIVEN: []}
    for layer in layers:
        if layer.get("bound"):
            groups[GIVEN if OWN_VALUE in _text(layer) else ""].append(layer)
    return [(title, found) for title, found in groups.items() if found]


def sentences(layers: Sequence[Layer]) -> list[str]:
    """What the layers' bounds cover and what not, each sentence once."""
    return list(dict.fromkeys(_sentence(_text(layer)) for layer in layers))


def _text(layer: Layer) -> str:
    return str(layer["bound"].get("text") or "")


def _sentence(text: str) -> str:
    if text.startswith("no bound: "):
        return f"There is no bound: {text.removeprefix('no bound: ')}."
    against = re.sub(r"^at most \S+ LSB (\([^)]*\) )?", "", text)
    said = f"For every input, y is at most this far {against}."
    if OWN_VALUE in text:
        said += (
            " The measured error above is against the true mean square: it has the statistic's"
            " error in it and may be larger."
        )
    return said
