"""The last program alone: y of single elements, given the row's factor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from approxnorm.backends.numpy_backend import Arrays, NumpyBackend
from approxnorm.program.datapath import Datapath, Level, MapStage, Port
from approxnorm.program.signal import Program
from approxnorm.vectors.changes import widened_nodes
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.programs import last_program


class Finish:
    """The program that makes y from the aligned x, channel inputs and row signals."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.x = probe.model.assembly.row.x.name
        self.program = last_program(probe.datapath)
        ports = probe.datapath.ports
        level = {n: ports[n].level for n in self.program.inputs}
        self.channel_names = [n for n, v in level.items() if v == "channel"]
        self.row_names = tuple(n for n, v in level.items() if v == "row")
        self.channels = {n: np.asarray(probe.channels[n], np.int64) for n in self.channel_names}

    def crossed(
        self, program: Program, values: np.ndarray, channels: np.ndarray, rows: Arrays
    ) -> np.ndarray:
        """y (n, columns): every row's factor (n,) with every column's value and channel."""
        inputs = self._columns(values, channels)
        levels: dict[str, Level] = {n: "channel" for n in inputs}
        inputs |= {n: rows[n][:, None] for n in self.row_names}
        levels |= {n: "element" for n in self.row_names}
        return self._backend(program, levels, len(values)).run(inputs)

    def paired(
        self, program: Program, values: np.ndarray, channels: np.ndarray, rows: Arrays
    ) -> Arrays:
        """Every named signal (n,) of n elements, each with its own factor."""
        flat = self._columns(values, channels) | {n: rows[n] for n in self.row_names}
        levels: dict[str, Level] = {n: "element" for n in flat}
        inputs = {n: v[:, None] for n, v in flat.items()}
        traced = self._backend(program, levels, 1).run_traced(inputs)
        return {n: v[:, 0] for n, v in traced.items()}

    def _columns(self, values: np.ndarray, channels: np.ndarray) -> dict[str, np.ndarray]:
        return {self.x: values} | {n: self.channels[n][channels] for n in self.channel_names}

    def _backend(self, program: Program, levels: Mapping[str, Level], dim: int) -> NumpyBackend:
        program = widened_nodes(program)  # a factor may be another than any row's
        ports = {n.name: Port(n.name, "element", n.interval) for n in program.nodes if n.name}
        ports |= {n: Port(n, level, ports[n].interval) for n, level in levels.items()}
        inputs = tuple(ports[n] for n in program.inputs)
        return NumpyBackend(Datapath(dim, inputs, (MapStage("element", program),), ports, "y"))
