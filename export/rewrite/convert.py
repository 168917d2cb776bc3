"""ONNX to ONNX: the RMSNorms of a model replaced by quantised ones, calibrated and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms import Norm
from approxnorm.export.norms.wiring import opset_of
from approxnorm.export.rewrite.capture import Progress, left_alone
from approxnorm.export.rewrite.errors import NormErrors, OutputErrors
from approxnorm.export.rewrite.feeds import Feeds
from approxnorm.export.rewrite.model_file import (
    check_targets,
    save_model,
)
from approxnorm.export.rewrite.opening import open_model
from approxnorm.export.rewrite.out_file import check_out, working_folder
from approxnorm.export.rewrite.replace import Replaced, replace_norms
from approxnorm.export.rewrite.rows import NormRows, Report, collect_rows, rows_of, with_sums
from approxnorm.export.rewrite.select import select_norms
from approxnorm.export.rewrite.session import Session, tapped
from approxnorm.export.rewrite.verify import check_codes, check_well_formed, converted
from approxnorm.inputs import Layer
from approxnorm.layer_model import calibrated_model
from approxnorm.model import RMSNorm
from approxnorm.spec.rmsnorm_spec import RMSNormSpec


@dataclass(frozen=True)
class ConvertReport:
    """What `convert` did; ``to_dict`` has it as plain data.

    norms: one entry each, in the order of the graph. outputs: of the model, in their order.
    measured_on: the file that the errors are measured on. copied: files of external data.
    """

    out: Path
    opset: int
    ir_version: dict[str, int]
    runs: int
    measured_on: Path
    norms: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    left_alone: dict[str, Any]
    copied: list[Path]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON but for infinities."""
        return {
            "out": str(self.out),
            "opset": self.opset,
            "ir_version": self.ir_version,
            "runs": self.runs,
            "measured_on": str(self.measured_on),
            "norms": self.norms,
            "outputs": self.outputs,
            **self.left_alone,
            "copied": [str(path) for path in self.copied],
        }


def convert(
    model_path: str | Path,
    spec: RMSNormSpec,
    calibrate_path: str | Path,
    out: str | Path,
    *,
    evaluate_path: str | Path | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    progress: Progress | None = None,
) -> ConvertReport:
    """Write a copy of a model whose RMSNorms are quantised as ``spec`` says.

    The model runs on calibrate_path (see ``approxnorm.export.rewrite.feeds``), each norm is
    calibrated on what goes into it there, with its own eps, gamma and dim, and replaced. Before
    anything is written, the converted model runs on the same inputs in ONNX Runtime, where every
    code must be the NumPy model's. Then errors are measured: on evaluate_path if given, else on
    calibrate_path. only, skip: names or patterns of norms. All else in the model stays as it is.

    Raises ApproxNormError for bad input, for a spec that does not fit a norm or has no hardware,
    and if there is no norm to take; nothing is written then.
    """
    job = _Job(Path(model_path), Path(calibrate_path), Path(out), progress)
    job.require_outputs_apart(evaluate_path)
    _check_spec(spec)
    model, findings = open_model(job.path)
    check_targets(model, job.path, job.out)
    norms, skipped = select_norms(findings, only, skip, job.path)
    _check_dim(spec, norms)
    calibration = Feeds(job.feeds_path, model)
    evaluation = calibration if evaluate_path is None else Feeds(Path(evaluate_path), model)
    made, notes = job.calibrate(spec, model, norms, calibration)
    after, replaced = replace_norms(model, made)
    check_well_formed(model, after)
    codes = check_codes(after, job.path, replaced, calibration, job.report("check"))
    measured = [_part(job.report("measure"), i, 2) for i in range(2)]
    errors = _measure_norms(model, job.path, replaced, evaluation, measured[0])
    outputs = _measure_outputs(model, after, job.path, evaluation, measured[1])
    copied = save_model(after, job.path, job.out)
    return ConvertReport(
        out=job.out,
        opset=opset_of(model) or 0,
        ir_version={"before": model.ir_version, "after": after.ir_version},
        runs=calibration.runs,
        measured_on=evaluation.path,
        norms=[
            _norm_entry(r, notes[r.norm.name], codes[r.norm.name], e.result())
            for r, e in zip(replaced, errors, strict=True)
        ],
        outputs=[o.result() for o in outputs],
        left_alone=left_alone(findings, skipped),
        copied=copied,
    )


@dataclass(frozen=True)
class _Job:
    """The files of one conversion, and who is told how far it is."""

    path: Path
    feeds_path: Path
    out: Path
    progress: Progress | None

    def require_outputs_apart(self, evaluate_path: str | Path | None) -> None:
        inputs = {"the model": self.path, "--calibrate": self.feeds_path}
        if evaluate_path is not None:
            inputs["--evaluate"] = Path(evaluate_path)
        check_out(self.out, ".onnx", inputs)

    def report(self, step: str) -> Report:
        return lambda done: self.progress(step, done) if self.progress else None

    def calibrate(
        self,
        spec: RMSNormSpec,
        model: onnx.ModelProto,
        norms: Sequence[Norm],
        feeds: Feeds,
    ) -> tuple[list[tuple[Norm, RMSNorm]], dict[str, list[str]]]:
        """The model of each norm, and what was chosen for it, by its name."""
        made, notes = [], {}
        with working_folder(self.out) as folder:
            taken = collect_rows(model, self.path, norms, feeds, folder, self.report("run"))
            for i, rows in enumerate(taken):
                report = _part(self.report("calibrate"), i, len(taken))
                quantised, found = calibrated_model(spec, _layer(rows, spec, self.path), report)
                made.append((rows.norm, quantised))
                notes[rows.norm.name] = found.notes
        return made, notes


def _part(report: Report, index: int, count: int) -> Report:
    """The progress of one of several parts."""
    return lambda done: report((index + done) / count)


def _layer(rows: NormRows, spec: RMSNormSpec, path: Path) -> Layer:
    """The layer that is calibrated; where the datapath adds 1 to gamma, its gamma is w."""
    layer = rows.layer(path)
    if not spec.normalize.adds_one:
        return layer
    return replace(layer, gamma=rows.norm.gamma.astype(np.float64) - 1)


def _check_spec(spec: RMSNormSpec) -> None:
    if spec.rsqrt.method == "exact":
        raise ApproxNormError(
            'rsqrt.method is "exact", the yardstick, which has no datapath to write; allowed here:'
            " any other method"
        )


def _check_dim(spec: RMSNormSpec, norms: Sequence[Norm]) -> None:
    for norm in norms:
        if spec.dim not in (None, norm.dim):
            raise ApproxNormError(
                f"the spec's dim is {spec.dim}, but the norm {norm.name} has rows of {norm.dim}"
                " elements; leave dim out of the spec, or name the norms that it fits with --only"
            )


def _measure_norms(
    before: onnx.ModelProto, path: Path, replaced: Sequence[Replaced], feeds: Feeds, report: Report
) -> list[NormErrors]:
    """Each norm on what goes into it in the float model, against what comes out there."""
    norms = [r.norm for r in replaced]
    groups = [[n.x, n.y] for n in norms]
    taps = [name for group in groups for name in group]
    session = Session(tapped(with_sums(before, norms), taps), path)
    errors = [NormErrors() for _ in norms]
    for run, feed in enumerate(feeds):
        for i, (x, y) in session.run_groups(feed, groups):
            rows = rows_of(x, norms[i], f"run {run} of {feeds.path}")
            model = replaced[i].model
            errors[i].add(model.dequantize(model(model.quantize(rows))), y.reshape(rows.shape))
        report((run + 1) / feeds.runs)
    return errors


def _measure_outputs(
    before: onnx.ModelProto, after: onnx.ModelProto, path: Path, feeds: Feeds, report: Report
) -> list[OutputErrors]:
    """The outputs of both models as users run them: no value inside is an output as well."""
    names = [output.name for output in before.graph.output]
    sessions = Session(before, path), Session(after, path, converted(path))
    errors = [OutputErrors(name) for name in names]
    for run, feed in enumerate(feeds):
        values = [session.run(feed, names) for session in sessions]
        for meter, pair in zip(errors, zip(*values, strict=True), strict=True):
            meter.add(*pair)
        report((run + 1) / feeds.runs)
    return errors


def _norm_entry(
    replaced: Replaced, notes: list[str], codes: int, errors: dict[str, float | None]
) -> dict[str, Any]:
    norm, model = replaced.norm, replaced.model
    return {
        "name": norm.name,
        "kind": norm.kind,
        "dim": norm.dim,
        "eps": norm.eps,
        "digest": model.digest,
        "function": replaced.function,
        "calibration": notes,
        "codes_checked": codes,
        **errors,
        "spec": model.spec.to_dict(),
    }
