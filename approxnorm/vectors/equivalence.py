"""Proofs that a small change of a datapath changes no y at all, by exhaustion.

A proof must fail for every change that some row shows. So each of them covers more than rows can
be, and what it cannot cover it does not prove: ``reason`` is then None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from approxnorm.backends.numpy_backend import Arrays
from approxnorm.formats import Overflow, Rounding, lowest
from approxnorm.model import RMSNorm
from approxnorm.program.datapath import Datapath, MapStage, ReduceStage
from approxnorm.program.signal import Program
from approxnorm.vectors import scaling, small_rows
from approxnorm.vectors.changes import ASTRAY, Change, widened
from approxnorm.vectors.extremes import Extremes, y_rounding
from approxnorm.vectors.no_ties import multiplies_at_once, none_is_a_tie
from approxnorm.vectors.probe import Probe
from approxnorm.vectors.programs import (
    changed_nodes,
    frontier,
    largest_inputs,
    last_program,
    rises,
    run_alone,
)
from approxnorm.vectors.reach import MAX_VALUES, Reach
from approxnorm.vectors.replaced import differing_values
from approxnorm.vectors.row_changes import Comparison, RowChanges, Shown
from approxnorm.vectors.sums import Sums

UNMOVED = "it changes no output of the row program, whatever the operand"
UNSHOWN = "it changes y for no operand and no element of a row that has it"

NEAREST = frozenset(Rounding) - {Rounding.TRN, Rounding.TRN_ZERO}
MAX_INPUTS = 1 << 22  # inputs of one program that are all tried
MAX_FEW = 8  # values of x for which all else is tried
MAX_LAST = 1 << 18  # of the last one, for which there are other proofs
KEPT = 4  # comparisons kept at a time, each of as many numbers as there are classes
MAX_ROWS = 1 << 17  # rows that are all tried, where there are no more


def reason(model: RMSNorm | Probe, change: Change) -> str | None:
    """Why no row of a model shows a change in y, or None if that is not proven.

    For many changes of one model, make one ``Prover`` and ask that.
    """
    return Prover(model if isinstance(model, Probe) else Probe(model)).reason(change)


class Prover:
    """Proofs for the changes of one model; what they share is computed once."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.reach = Reach(probe)
        self.plain = widened(probe.datapath)
        self._reasons: dict[str, str | None] = {}
        self._compared: dict[str, Comparison | None] = {}
        self._shown: dict[str, list[Shown]] = {}
        self._outputs: dict[int, Arrays] = {}  # of stages, for all their inputs

    def reason(self, change: Change) -> str | None:
        """Why the change is equivalent, in words; None: not proven."""
        if change.name not in self._reasons:
            found = self._reason(change)
            if found is None and change.twin is not None:
                found = self._reason(change.twin)
            self._reasons[change.name] = found
        return self._reasons[change.name]

    def _reason(self, change: Change) -> str | None:
        if not self.reach.possible:
            return None
        proofs = self._proofs(change)
        return next((r for r in (p(change) for p in proofs) if r is not None), None)

    def _proofs(self, change: Change) -> list[Callable[[Change], str | None]]:
        proofs: list[Callable[[Change], str | None]] = [self._all_rows]
        stage = self.plain.stages[change.stage]
        if isinstance(stage, ReduceStage):
            return [*proofs, self._sum_fits]
        if stage.program.name == small_rows.STEP:
            proofs.append(self._small_rows)
        elif not self._stays(change):
            pass  # what follows may leave its types; then equal outputs alone say something
        elif change.stage == self.probe.row_stage:
            proofs.append(self._no_element)
        elif change.stage == len(self.plain.stages) - 1:
            proofs += [self._within_limits, self._all_sums, self._no_ties, self._few_elements]
        elif stage.program.name == "row_exponent":
            proofs.append(self._scales)
        elif stage.program.name == "align":
            proofs.append(self._neighbours_are_the_same)
        return [*proofs, self._same_outputs]

    def _stays(self, change: Change) -> bool:
        """Whether nothing between the changed stage and the last one may leave its types."""
        places = changed_stages(self.plain, change.datapath)
        if places is None:
            return False
        last = {len(self.plain.stages) - 1} if change.stage == self.probe.row_stage else set()
        return set(places) - last == {change.stage} - last

    @cached_property
    def rows(self) -> RowChanges:
        return RowChanges(self.reach)

    @cached_property
    def extremes(self) -> Extremes:
        return Extremes(self.reach, self.rows.own)

    @cached_property
    def sums(self) -> Sums:
        return Sums(self.reach, self.rows.own, self.extremes.classes, self.rows.columns)

    def shown(self, change: Change) -> list[Shown]:
        """Elements of rows that would show a change after the operand; [] if none was found."""
        if not self.reach.possible or not self._stays(change):
            return []
        if change.stage == len(self.plain.stages) - 1:
            apart = self.sums.apart(last_program(change.datapath))
            return [] if apart is None else self.sums.shown(apart)
        if change.stage != self.probe.row_stage:
            return []
        compared = self.comparison(change)
        if compared is None:
            return []
        if change.name not in self._shown:
            self._shown[change.name] = self.rows.first_shown(compared)
        if self._shown[change.name]:
            return self._shown[change.name]
        return self.rows.all_shown([m for m in compared.moved(None) if len(m)]) or []

    def edges(self) -> np.ndarray | None:
        """The totals, ascending, from which on the row's factor is another; None: not known."""
        classes = self.extremes.classes if self.reach.possible else None
        if classes is None:
            return None
        outputs = self.rows.own.outputs(classes).values()
        other = np.logical_or.reduce([v[1:] != v[:-1] for v in outputs])
        edges: np.ndarray = classes.first()[1:-1][other]
        return edges

    def comparison(self, change: Change) -> Comparison | None:
        """The change's row program beside the model's; None if they cannot be compared."""
        if change.name not in self._compared:
            if len(self._compared) >= KEPT:
                self._compared.pop(next(iter(self._compared)))
            self._compared[change.name] = self.rows.compared(change)
        return self._compared[change.name]

    # --- one proof each: the reason in words, or None

    def _all_rows(self, change: Change) -> str | None:
        space = self.probe.space
        values = space.hi - space.lo + 1
        if values**space.dim > MAX_ROWS:
            return None
        grid = np.indices((values,) * space.dim).reshape(space.dim, -1).T
        codes = space.codes(grid + space.lo)
        same = _same(lambda: change.y(self.probe, codes), lambda: self.probe.y(codes))
        return "it changes y for none of all rows" if same else None

    def _same_outputs(self, change: Change) -> str | None:
        if self._shown.get(change.name):  # some input gives other outputs, and it matters
            return None
        stage, changed = (d.stages[change.stage] for d in (self.plain, change.datapath))
        assert isinstance(stage, MapStage) and isinstance(changed, MapStage)
        inputs = self._all_inputs(stage)
        if inputs is None:
            return None
        same = _same(
            lambda: self._known_outputs(change.stage, stage.program, inputs),
            lambda: run_alone(changed.program, inputs),
        )
        return f"{stage.program.name} has the same outputs for every input" if same else None

    def _known_outputs(self, place: int, program: Program, inputs: Arrays) -> Arrays:
        if place not in self._outputs:
            self._outputs[place] = run_alone(program, inputs)
        return self._outputs[place]

    def _all_inputs(
        self, stage: MapStage, given: Mapping[str, np.ndarray] | None = None
    ) -> Arrays | None:
        """All combinations of a stage's inputs as flat arrays; None if there are too many.

        given: the values of some of them, where not all are wanted.
        """
        names, size = stage.program.inputs, 1
        last = stage is self.plain.stages[-1] and given is None
        most = MAX_LAST if last else MAX_INPUTS
        each = []
        for name in names:
            values = given[name] if given and name in given else self._values(name)
            if values is None or size * len(values) > most:
                return None
            size *= len(values)
            each.append(values)
        grids = np.meshgrid(*each, indexing="ij")
        return {n: g.reshape(-1) for n, g in zip(names, grids, strict=True)}

    def _values(self, name: str) -> np.ndarray | None:
        """All values that a port may have, or more; None if there are too many to list."""
        port = self.plain.ports[name]
        if port.level == "channel":
            return np.unique(np.asarray(self.probe.channels[name], np.int64))
        if name == self.reach.x.name:
            return np.unique(np.concatenate([k.values for k in self.reach.kinds]))
        source = self._source(name)
        if source is not None and source.level == "element" and len(source.program.inputs) == 1:
            values = self._values(source.program.inputs[0])
            if values is not None:
                return np.unique(
                    run_alone(source.program, {source.program.inputs[0]: values})[name]
                )
        interval = self.probe.datapath.ports[name].interval
        most = MAX_INPUTS if port.level == "row" else MAX_VALUES
        if interval.hi - interval.lo >= most:
            return None
        return np.arange(interval.lo, interval.hi + 1, dtype=np.int64)

    def _source(self, name: str) -> MapStage | None:
        stages = (s for s in self.plain.stages if isinstance(s, MapStage))
        return next((s for s in stages if name in s.program.output_names), None)

    def _no_element(self, change: Change) -> str | None:
        """No operand, with any element that its row may hold, has another y."""
        compared = self.comparison(change)
        if compared is None:
            return None
        self._shown[change.name] = self.rows.first_shown(compared)
        if self._shown[change.name]:
            return None
        every = [m for m in compared.moved(None) if len(m)]
        if self.rows.all_shown(every) != []:
            return None
        return UNSHOWN if every else UNMOVED

    def _last_as_written(self, change: Change) -> tuple[Program, Program]:
        """The last program and the changed one, for proofs that no value leaves its type there."""
        return last_program(self.plain), last_program(widened(change.plain))

    def _within_limits(self, change: Change) -> str | None:
        """y's limits, one of which was moved, or what happens there, and no y reaches them."""
        own, changed = self._last_as_written(change)
        place = y_rounding(own)
        if changed_nodes(own, changed) != [place] or self.extremes.y is None:
            return None
        a, b = own.nodes[place].attrs, changed.nodes[place].attrs
        if a["rounding"] != b["rounding"]:
            return None
        low, high = self.extremes.y
        inside = all(lowest(m["lo"], m["hi"], m["overflow"]) <= low for m in (a, b))
        if not inside or high > min(a["hi"], b["hi"]):
            return None
        return f"y lies within {low} to {high} in every row, by exhaustion"

    def _all_sums(self, change: Change) -> str | None:
        own, changed = self._last_as_written(change)
        if changed_nodes(own, changed) != [y_rounding(own)]:
            changed = last_program(change.datapath)  # else y would leave its type, and so change
        apart = self.sums.apart(changed)
        if apart is None or len(apart):
            return None
        return "it changes y for no sum of logarithms"

    def _no_ties(self, change: Change) -> str | None:
        """Another mode that rounds to nearest, where there is never a tie."""
        own, changed = self._last_as_written(change)
        places, classes = changed_nodes(own, changed), self.extremes.classes
        if len(places) != 1 or classes is None or not multiplies_at_once(own):
            return None
        a, b = (dict(p.nodes[places[0]].attrs) for p in (own, changed))
        modes = {a.pop("rounding", None), b.pop("rounding", None)}
        if a != b or not modes <= NEAREST:
            return None
        weights, shifts = self.probe.weights(), self.reach.shifts
        if not none_is_a_tie(self.rows.own, classes, self.rows.columns, weights, shifts):
            return None
        return "no product lies midway between two codes, by exhaustion"

    def _few_elements(self, change: Change) -> str | None:
        """A node of the last program that has another value for few x, and y never has."""
        own, changed = (last_program(d) for d in (self.plain, change.datapath))
        name = self.reach.x.name
        values = self._values(name) if name in own.inputs else None
        if values is None:
            return None
        few = differing_values(own, changed, name, values)
        if few is None or len(few) > MAX_FEW:
            return None
        stage = self.plain.stages[-1]
        assert isinstance(stage, MapStage)
        inputs = self._all_inputs(stage, {name: few})
        if inputs is None:
            return None
        same = _same(lambda: run_alone(own, inputs), lambda: run_alone(changed, inputs))
        listed = ", ".join(str(v) for v in few)
        return f"it matters to {name} = {listed} alone, whose y is the same" if same else None

    def _sum_fits(self, change: Change) -> str | None:
        """A sum made one bit narrower that never has that bit."""
        stage = self.plain.stages[change.stage]
        if not isinstance(stage, ReduceStage) or stage.kind != "sum" or not change.bits:
            return None
        source = self._source(stage.source)
        inputs = None if source is None else self._all_inputs(source)
        if source is None or inputs is None:
            return None
        parts = run_alone(source.program, inputs)[stage.source]
        most = int(parts.max()) * stage.count
        if most >= 1 << change.bits:
            most = min(most, self._most_by_mean(stage, source, inputs, parts))
        if most >= 1 << change.bits:
            return None
        return f"{stage.outputs[0]} is at most {most} in every row, by exhaustion"

    def _most_by_mean(
        self, stage: ReduceStage, source: MapStage, inputs: Arrays, parts: np.ndarray
    ) -> int:
        """The most that a sum can be whose parts depend on the row's sum of magnitudes as well.

        With a step, parts are at most a share of the magnitude, so their sum is at most that
        share of the largest sum of magnitudes that gives the step.
        """
        none = int(parts.max()) * stage.count
        step = self._source(source.program.inputs[-1])
        total = step.program.inputs[0] if step is not None else ""
        whole = (
            s
            for s in self.plain.stages
            if isinstance(s, ReduceStage) and s.kind == "sum" and s.count == self.probe.space.dim
        )
        summed = {s.outputs[0]: s.source for s in whole}
        if step is None or {total, stage.outputs[0]} - set(summed) or len(inputs) != 2:
            return none
        magnitude, steps = inputs.values()
        signed = min(int(magnitude.min()), int(steps.min())) < 0 or parts[magnitude == 0].any()
        if signed or summed[total] != source.program.inputs[0] or not rises(self._as_traced(step)):
            return none
        most = self.probe.datapath.ports[total].interval.hi
        largest = largest_inputs(step.program, most, np.arange(int(steps.max()) + 1))
        return int((parts * largest[steps] // np.maximum(magnitude, 1)).max())

    def _as_traced(self, stage: MapStage) -> Program:
        """A stage's program with the intervals that are derived from formats."""
        place = self.plain.stages.index(stage)
        own = self.probe.datapath.stages[place]
        assert isinstance(own, MapStage)
        return own.program

    def _scales(self, change: Change) -> str | None:
        """Rows that are doubled, and then shifted back by one more."""
        if not scaling.is_invariant(self.reach, self.rows.own, change):
            return None
        return "it doubles rows and their root alike, by exhaustion"

    def _small_rows(self, change: Change) -> str | None:
        """A step that is another for small rows, whose factor is the same for all of them."""
        if not small_rows.is_unnoticed(self.reach, self.rows.own, self.edges(), change):
            return None
        return "it matters to small rows alone, and those have one factor, by exhaustion"

    def _neighbours_are_the_same(self, change: Change) -> str | None:
        """An upper limit one less: what follows tells the two largest codes not apart."""
        own, changed = (d.stages[change.stage] for d in (self.plain, change.datapath))
        assert isinstance(own, MapStage) and isinstance(changed, MapStage)
        nodes = changed_nodes(own.program, changed.program)
        if nodes != list(own.program.outputs):
            return None
        a, b = own.program.nodes[nodes[0]].attrs, changed.program.nodes[nodes[0]].attrs
        saturates = a["overflow"] in (Overflow.SAT, Overflow.SAT_SYM)
        if {**a, "hi": a["hi"] - 1} != dict(b) or not saturates:
            return None
        return self._not_told_apart(own.program.output_names[0], b["hi"], a["hi"])

    def _not_told_apart(self, name: str, one: int, other: int) -> str | None:
        for stage in self.plain.stages:
            if isinstance(stage, ReduceStage) and stage.source == name:
                return None
            if isinstance(stage, MapStage) and name in stage.program.inputs:
                met = frontier(stage.program, name, np.array([one, other]))
                if not met or any(v[0] != v[1] for v in met.values()):
                    return None
        return f"nothing that follows tells {name} = {one} from {other}"


def changed_stages(plain: Datapath, changed: Datapath) -> list[int] | None:
    """The stages that differ; None if their number does."""
    if len(plain.stages) != len(changed.stages):
        return None
    pairs = zip(plain.stages, changed.stages, strict=True)
    return [i for i, (a, b) in enumerate(pairs) if a != b]


def _same(one: Callable[[], object], other: Callable[[], object]) -> bool:
    """Whether two runs have equal results; a run that a change leads astray is another result."""
    try:
        a, b = one(), other()
    except ASTRAY:
        return False
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return all(np.array_equal(a[n], b[n]) for n in a)
    return np.array_equal(np.asarray(a), np.asarray(b))
