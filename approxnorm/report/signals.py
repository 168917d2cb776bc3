"""The widths of all layers' signals, one line for each signal's name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from approxnorm.report.numbers import clean, shortened

LEVELS = ("element", "channel", "row", "other")


@dataclass(frozen=True)
class SignalWidth:
    """A signal over all layers: formats are calibrated, so that its width may differ.

    ``type``, ``lo`` and ``hi`` are those of the layer where it is widest; ``narrowest`` is its
    width where it is narrowest. Widths in bits.
    """

    name: str
    level: str
    type: str
    width: int
    narrowest: int
    lo: Any
    hi: Any

    @property
    def label(self) -> str:
        """The type, and the range of widths if layers differ."""
        text = shortened(self.type, 28)
        return text if self.narrowest == self.width else f"{text}, {self.spread} bits"

    @property
    def spread(self) -> str:
        """The width, or "12 to 17" if layers differ."""
        same = self.narrowest == self.width
        return str(self.width) if same else f"{self.narrowest} to {self.width}"


def signal_widths(layers: Iterable[dict[str, Any]]) -> list[SignalWidth]:
    """Each signal of any layer, by level, in datapath order within one."""
    found: dict[tuple[str, str], SignalWidth] = {}
    for layer in layers:
        for entry in layer.get("signals") or []:
            signal = _signal(entry)
            if signal is not None:
                key = (signal.level, signal.name)
                found[key] = _widest(found.get(key), signal)
    return sorted(found.values(), key=lambda s: LEVELS.index(s.level))


def _signal(entry: dict[str, Any]) -> SignalWidth | None:
    width = entry.get("width")
    if isinstance(width, bool) or not isinstance(width, int) or width < 0:
        return None
    level = entry.get("level") if entry.get("level") in LEVELS else "other"
    name, kind = clean(entry.get("name", "")), clean(entry.get("type", ""))
    return SignalWidth(name, str(level), kind, width, width, entry.get("lo"), entry.get("hi"))


def _widest(known: SignalWidth | None, new: SignalWidth) -> SignalWidth:
    if known is None:
        return new
    wide = new if new.width > known.width else known
    narrowest = min(known.narrowest, new.width)
    return SignalWidth(wide.name, wide.level, wide.type, wide.width, narrowest, wide.lo, wide.hi)
