"""Every value of y's logarithm in the log domain: which changes of its tables y can show at all."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from approxnorm.backends.numpy_backend import Arrays, NumpyBackend
from approxnorm.program.datapath import Datapath, MapStage, Port
from approxnorm.vectors.changes import Change
from approxnorm.vectors.probe import Probe, Site

MAX_ROOTS = 1 << 16


class Logarithms:
    """The element program alone, for powers of two of both signs and every root's logarithm.

    gamma's logarithm is 0 there. y depends on x, gamma and the root only through its sign and the
    sum of the three logarithms, and all sums are covered.
    """

    def __init__(self, probe: Probe, site: Site) -> None:
        self._probe, self._site = probe, site

    def applies(self) -> bool:
        """Whether the table is read in an element program that is given a logarithm of the root."""
        stage = self._probe.datapath.stages[self._site.stage]
        if not isinstance(stage, MapStage) or "log_root" not in stage.program.inputs:
            return False
        root = self._probe.datapath.ports["log_root"].interval
        return stage.level == "element" and root.hi - root.lo < MAX_ROOTS

    def hidden(self, change: Change) -> np.ndarray:
        """The entries (ascending) that are read, and whose change y shows for no logarithm."""
        address = self._plain[self._site.address]
        apart = self._run(change.datapath)["y"] != self._plain["y"]
        return np.setdiff1d(address, address[apart])

    @cached_property
    def _plain(self) -> Arrays:
        return self._run(self._probe.watched)

    def _run(self, datapath: Datapath) -> Arrays:
        stage = datapath.stages[self._site.stage]
        assert isinstance(stage, MapStage)
        ports = [self._probe.datapath.ports[name] for name in stage.program.inputs]
        inputs = tuple(Port(p.name, "element", p.interval) for p in ports)
        alone = MapStage("element", stage.program)
        backend = NumpyBackend(Datapath(1, inputs, (alone,), datapath.ports, datapath.output))
        return backend.run_traced(self._inputs(inputs))

    def _inputs(self, ports: tuple[Port, ...]) -> Arrays:
        """All pairs of a power of two and a root's logarithm, as (pairs, 1); the rest is 0."""
        x = self._probe.datapath.ports[self._probe.model.assembly.row.x.name]
        powers = [s << b for b in range(x.interval.width) for s in (1, -1)]
        powers = [v for v in powers if v in x.interval]
        root = self._probe.datapath.ports["log_root"].interval
        roots = np.arange(root.lo, root.hi + 1)
        pairs = len(powers) * len(roots)
        values = {p.name: np.zeros((pairs, 1), np.int64) for p in ports}
        values[x.name][:, 0] = np.repeat(np.array(powers), len(roots))
        values["log_root"][:, 0] = np.tile(roots, len(powers))
        return values
