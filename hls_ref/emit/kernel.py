"""What the texts of a kernel are made from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from string import Template

import numpy as np

from approxnorm.hls_ref.emit.layout import wrapped
from approxnorm.hls_ref.emit.names import identifier, interval_text, type_of
from approxnorm.hls_ref.emit.programs import function_text, program_text
from approxnorm.hls_ref.emit.schedule import Pass, carried, passes_of
from approxnorm.hls_ref.emit.skeleton import skeleton
from approxnorm.hls_ref.emit.tables import table_text
from approxnorm.model import RMSNorm
from approxnorm.program.datapath import Datapath, Port
from approxnorm.program.signal import Program
from approxnorm.residual import residual_program

TOP = "approx_rmsnorm"


@dataclass(frozen=True)
class Kernel:
    """A kernel: of one layer with its numbers baked in, or with run-time ports for several.

    layers: by name, in order; one if ports is False. dim: elements of a row, or of the longest.
    datapath: with the layers' numbers as inputs if ports is True. wrap: break long lines, for
    people.
    """

    layers: dict[str, RMSNorm]
    datapath: Datapath
    dim: int
    lanes: int
    top: str = TOP
    ports: bool = False
    has_residual: bool = False
    wrap: bool = True

    @property
    def first(self) -> RMSNorm:
        return next(iter(self.layers.values()))

    @cached_property
    def passes(self) -> list[Pass]:
        return passes_of(self.datapath)

    @cached_property
    def carried(self) -> list[str]:
        """Row signals that go from pass to pass, the layer's numbers not among them."""
        numbers = {p.name for p in self.registers}
        return [name for name in carried(self.datapath) if name not in numbers]

    @property
    def beats(self) -> int:
        """Beats of a row, or of the longest."""
        return -(-self.dim // self.lanes)

    @property
    def channels(self) -> list[Port]:
        """Inputs that there is one of for each channel: gamma, or what stands for it."""
        return [p for p in self.datapath.inputs if p.level == "channel"]

    @property
    def registers(self) -> list[Port]:
        """The layer's numbers that are run-time ports."""
        return [p for p in self.datapath.inputs if p.level == "row"]

    @cached_property
    def residual(self) -> Program | None:
        return residual_program(self.first.assembly.x_format) if self.has_residual else None

    @cached_property
    def programs_text(self) -> str:
        """The functions of the datapath: the same for every layer of a kernel with ports."""
        texts = [function_text(self.residual, "each element")] if self.residual else []
        texts += [program_text(stage) for stage in self.datapath.programs()]
        return "\n".join(texts)

    @cached_property
    def tables_text(self) -> str:
        return "\n".join(table_text(t) for t in self.datapath.tables())

    @cached_property
    def digest(self) -> str:
        """The model's own; with ports, of what the layers share."""
        if not self.ports:
            return self.first.digest
        shared = (self.programs_text, self.tables_text, str(self.dim))
        return hashlib.sha256("\0".join(shared).encode()).hexdigest()

    @property
    def banner(self) -> str:
        kind = " with run-time ports" if self.ports else ""
        return f"approxnorm kernel{kind}, digest {self.digest}"

    def fill(self, name: str, **fields: object) -> str:
        """A skeleton file with the fields that all of them share, and its own."""
        shared: dict[str, object] = {
            "top": self.top,
            "guard": self.top.upper(),
            "banner": self.banner,
        }
        text = Template(skeleton(name)).substitute(shared | fields)
        return wrapped(text) if self.wrap else text


def member(port: Port) -> str:
    """A member of a struct, with its interval."""
    return (
        f"    {type_of(port.interval)} {identifier(port.name)};"
        f"  // {interval_text(port.interval)}\n"
    )


def channel_values(model: RMSNorm) -> dict[str, np.ndarray]:
    """The datapath's channel inputs by name, each (dim,)."""
    _, trace = model(np.zeros((0, model.dim), np.int64), trace=True)
    inputs = model.assembly.require_datapath().inputs
    return {p.name: trace[p.name] for p in inputs if p.level == "channel"}
