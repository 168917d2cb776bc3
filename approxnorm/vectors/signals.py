"""What a model's signals look like in a manifest: written from here, and checked against it."""

from __future__ import annotations

from approxnorm.model import RMSNorm
from approxnorm.program import Interval
from approxnorm.program.datapath import Port
from approxnorm.vectors.manifest import BeatEntry, SignalEntry

STREAMED = ("x", "y")  # signals that are also written as beats


def ports_of(model: RMSNorm) -> list[Port]:
    """Every named signal of the vectors; gamma's codes also where the datapath reads others."""
    ports = model.assembly.require_datapath().signals()
    if not any(p.name == "gamma" for p in ports):
        form = model.assembly.context.gamma
        ports.insert(1, Port("gamma", "channel", Interval(form.lo, form.hi)))
    return ports


def signal_file(port: Port) -> str:
    return f"{port.name}.hex"


def beat_file(port: Port) -> str:
    return f"{port.name}_beats.hex"


def signal_entry(model: RMSNorm, port: Port, words: int, sha256: str) -> SignalEntry:
    """The manifest's entry for one signal's file."""
    context, interval = model.assembly.context, port.interval
    forms = {"x": model.assembly.x_format, "gamma": context.gamma, "y": context.y}
    return SignalEntry(
        name=port.name,
        level=port.level,
        type=interval.type_name,
        width=interval.width,
        signed=interval.signed,
        lo=interval.lo,
        hi=interval.hi,
        format=str(forms[port.name]) if port.name in forms else None,
        file=signal_file(port),
        words=words,
        sha256=sha256,
    )


def beat_entry(port: Port, lanes: int, words: int, sha256: str) -> BeatEntry:
    """The manifest's entry for one signal's beats of ``lanes`` elements."""
    return BeatEntry(
        signal=port.name,
        width=lanes * port.interval.width,
        file=beat_file(port),
        words=words,
        sha256=sha256,
    )
