"""Running a model's datapath to see what rows do inside it: addresses, exponents, roundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from approxnorm.backends.numpy_backend import Arrays, NumpyBackend
from approxnorm.metrics.chain import final_rounding
from approxnorm.model import RMSNorm
from approxnorm.program.datapath import Datapath, MapStage, Port, ReduceStage
from approxnorm.program.signal import Node
from approxnorm.tables.table import Table
from approxnorm.vectors.space import Space

ROW_VALUES = 80  # a row signal of at most so many values is an exponent or a flag


@dataclass(frozen=True)
class Site:
    """One look-up in a datapath, and the signal that is its address."""

    table: Table
    stage: int
    level: str
    address: str


def replace_node(datapath: Datapath, stage: int, index: int, node: Node) -> Datapath:
    """A copy of a datapath with one node changed."""
    old = datapath.stages[stage]
    assert isinstance(old, MapStage)
    nodes = (*old.program.nodes[:index], node, *old.program.nodes[index + 1 :])
    stages = list(datapath.stages)
    stages[stage] = MapStage(old.level, replace(old.program, nodes=nodes))
    return replace(datapath, stages=tuple(stages))


class Probe:
    """A model with its hidden addresses named, run on codes (rows, dim).

    ``watched`` is its datapath with those names.
    """

    def __init__(self, model: RMSNorm) -> None:
        self.model = model
        self.space = Space.of(model)
        self.datapath = model.assembly.require_datapath()
        self.watched = self.datapath
        self.final = final_rounding(self.datapath)
        self.sites = self._watch_tables()
        self._backend = NumpyBackend(self.watched)

    @cached_property
    def channels(self) -> dict[str, np.ndarray]:
        """The datapath's channel inputs, as the model feeds them."""
        _, trace = self.model(self.space.codes(np.zeros((1, self.space.dim), int)), trace=True)
        return {p.name: trace[p.name] for p in self.datapath.inputs if p.level == "channel"}

    def trace(self, codes: np.ndarray) -> Arrays:
        """Every named signal, addresses included: element (rows, dim), row (rows,)."""
        return self._backend.run_traced(self.inputs(codes))

    def y(self, codes: np.ndarray) -> np.ndarray:
        """Output codes (rows, dim)."""
        return self._backend.run(self.inputs(codes))

    def inputs(self, codes: np.ndarray) -> Mapping[str, np.ndarray]:
        return {"x": codes, **self.channels}

    def operand(self, codes: np.ndarray) -> np.ndarray:
        """What the statistic makes of each row: (rows,)."""
        return self._front.run(self.inputs(codes))[:, 0]

    @cached_property
    def _front(self) -> NumpyBackend:
        return NumpyBackend(self.model.assembly.front)

    def row_signals(self, codes: np.ndarray, datapath: Datapath | None = None) -> Arrays:
        """Every signal but those of the last program, int64; of a changed datapath if given."""
        whole = datapath or self.datapath
        front = replace(whole, stages=whole.stages[:-1])
        trace = NumpyBackend(front).run_traced(self.inputs(codes))
        return {n: v.astype(np.int64) for n, v in trace.items()}

    def weights(self) -> np.ndarray:
        """What each channel is multiplied by, in LSBs of gamma: (dim,)."""
        context = self.model.assembly.context
        offset = self.model.spec.normalize.weight_offset(context) - context.gamma.zero_point
        weights: np.ndarray = self.model.gamma + offset
        return weights

    @cached_property
    def row_stage(self) -> int:
        """The index of the row program that turns the operand into the row's factor."""
        name = self.model.assembly.row.operand.name
        return next(
            i
            for i, s in enumerate(self.datapath.stages)
            if isinstance(s, MapStage) and s.level == "row" and name in s.program.inputs
        )

    def row_program(self, datapath: Datapath | None = None) -> NumpyBackend:
        """That program alone, its operand and row shift as the inputs of rows of one element."""
        stage = (datapath or self.watched).stages[self.row_stage]
        assert isinstance(stage, MapStage)
        inputs = tuple(
            Port(name, "element", self.datapath.ports[name].interval)
            for name in stage.program.inputs
        )
        alone = MapStage("element", stage.program)
        output = stage.program.output_names[0]
        return NumpyBackend(Datapath(1, inputs, (alone,), self.datapath.ports, output))

    def small_row_signals(self) -> list[Port]:
        """Row signals with few possible values: exponents, shifts, parities."""
        return [
            p
            for p in self.datapath.signals()
            if p.level == "row" and 1 < p.interval.hi - p.interval.lo + 1 <= ROW_VALUES
        ]

    def separable(self, site: Site) -> bool:
        """Whether one address at most of a table decides each row, or each element, of y.

        Then all entries may be changed at once to see which of them show.
        """
        if sum(s.table == site.table for s in self.sites) != 1:
            return False
        later = self.datapath.stages[site.stage :]
        return site.level == "row" or not any(isinstance(s, ReduceStage) for s in later)

    def _watch_tables(self) -> list[Site]:
        sites = []
        for s, stage in enumerate(self.datapath.stages):
            if not isinstance(stage, MapStage):
                continue
            needed = stage.program.needed()  # else y depends on no entry: a sum that is always 0
            for i, node in enumerate(stage.program.nodes):
                if node.op == "lookup" and i in needed:
                    address = self._watch(s, node.args[0])
                    sites.append(Site(node.attrs["table"], s, stage.level, address))
        return sites

    def _watch(self, stage: int, index: int) -> str:
        """The name of a node's signal; one is given to a node that has none."""
        watched = self.watched.stages[stage]
        assert isinstance(watched, MapStage)
        node = watched.program.nodes[index]
        if node.name is None:
            node = replace(node, name=f"watched_{stage}_{index}")
            self.watched = replace_node(self.watched, stage, index, node)
        assert node.name is not None
        return node.name
