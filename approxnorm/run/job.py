"""Calibrate each layer, measure it, write its golden vectors, and report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref.project import write_project
from approxnorm.inputs import Layer, open_activations
from approxnorm.layer_model import calibrated_model, counted_blocks, with_gamma
from approxnorm.metrics import LayerErrors, bound
from approxnorm.model import RMSNorm
from approxnorm.output import staged_folder
from approxnorm.report import write_report
from approxnorm.run import conformance, tools
from approxnorm.run.folders import (
    ERRORS,
    OWN_VECTORS,
    PROJECT,
    REPORT,
    RESULTS,
    SPEC,
    VECTORS,
    check_former_run,
    folder_names,
)
from approxnorm.run.onnx_files import write_files
from approxnorm.run.stages import hardware_summary, signal_list
from approxnorm.spec.rmsnorm_spec import RMSNormSpec
from approxnorm.vectors import VectorSet, write_vectors

# (step, layer index, layers, fraction of the layer done)
Progress = Callable[[str, int, int, float], None]

MAX_VECTOR_ROWS = 16  # rows of the user's own activations that become golden vectors


@dataclass(frozen=True)
class Options:
    """What the artefacts are made of: golden-vector level, seed and lanes; and which there are.

    hls: an HLS project of each layer. onnx: two ONNX files of each layer, on codes and on float32,
    for which the package onnx is needed. backends: of ``tools.BACKENDS``, compared on each layer's
    vectors; cpp needs a C++ compiler and Xilinx's headers, onnx the files and ONNX Runtime.
    """

    level: int = 1
    seed: int = 0
    lanes: int = 8
    hls: bool = False
    onnx: bool = False
    backends: tuple[str, ...] = ()


def run_job(
    spec: RMSNormSpec,
    *,
    spec_name: str,
    input_path: Path,
    out: Path,
    gamma: np.ndarray | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run the main job on every layer of an activation file; returns what report.json holds.

    Writes to ``out``: ``report.html``, ``report.json``, and for each layer a folder with
    ``spec.json`` (every number filled in), ``errors.json`` and ``vectors/`` and
    ``vectors-input/`` (golden vectors, generated and from the activations themselves), and on
    request ``hls/``, a project that replays ``vectors/``, and ``norm.onnx`` and
    ``norm.float.onnx``. The folder appears whole at the end, or
    not at all. Activations are read in blocks, twice. Backends that differ are no error: the
    results tell ("conformance").
    gamma: real (dim,), for files without it, or in place of theirs; ones if there is none.

    Raises ApproxNormError for bad input, which names the file and the layer, and for options whose
    tools are missing.
    """
    if spec.rsqrt.method == "exact":
        raise ApproxNormError(
            'rsqrt.method "exact" is the yardstick; it has no hardware to make vectors for;'
            " allowed here: any other method"
        )
    options = options or Options()
    tools.require(onnx=options.onnx, backends=options.backends)
    layers = open_activations(input_path)
    folders = folder_names([layer.name for layer in layers])
    with staged_folder(out, check_former_run) as stage:
        results = []
        for i, layer in enumerate(layers):
            report = _step(progress, i, len(layers))
            folder = stage / folders[i]
            with_own, notes = with_gamma(layer, gamma)
            results.append(_run_layer(spec, with_own, notes, folder, options, report))
        summary = _summary(spec, spec_name, input_path, results)
        write_json(stage / RESULTS, summary)
        write_report(summary, stage / REPORT)
    return summary


def _step(progress: Progress | None, index: int, count: int) -> Callable[[str, float], None]:
    def report(step: str, done: float) -> None:
        if progress is not None:
            progress(step, index, count, done)

    return report


def _run_layer(
    spec: RMSNormSpec,
    layer: Layer,
    notes: list[str],
    folder: Path,
    options: Options,
    report: Callable[[str, float], None],
) -> dict[str, Any]:
    folder.mkdir()
    model, calibration = calibrated_model(spec, layer, lambda d: report("calibrate", d))
    assert layer.gamma is not None
    files = {"onnx": write_files(model, folder)} if options.onnx else {}
    with conformance.opening(model, options.backends, folder, options.lanes) as backends:
        errors = LayerErrors(model, np.asarray(layer.gamma, np.float64), model.spec.eps)
        for block in counted_blocks(layer.blocks(), layer.rows, lambda d: report("measure", d)):
            errors.add(block)
        report("vectors", 0.0)
        own = first_rows(layer, MAX_VECTOR_ROWS)
        sets = _write_vectors(model, own, folder, options)
        if options.hls:  # its bench replays the layer's vectors where they are
            write_project(model, folder / PROJECT, vectors=sets[0].folder, lanes=options.lanes)
        report("check", 0.0)
        compared = conformance.check_layer(model, backends, sets, own, folder, options.lanes)
    result = {
        "name": layer.name,
        "folder": folder.name,
        "rows": layer.rows,
        "dim": layer.dim,
        "eps": model.spec.eps,
        "digest": model.digest,
        "calibration": notes + calibration.notes,
        **errors.result(),
        "bound": bound(model).to_dict(),
        "signals": signal_list(model),
        "hardware": hardware_summary(model),
        **files,
        **compared,
        "spec": model.spec.to_dict(),
    }
    write_json(folder / SPEC, model.spec.to_dict())
    write_json(folder / ERRORS, {k: v for k, v in result.items() if k != "spec"})
    return result


def _write_vectors(
    model: RMSNorm, own: np.ndarray, folder: Path, options: Options
) -> tuple[VectorSet, VectorSet]:
    """A layer's generated golden vectors, and those of its own real rows."""
    return (
        write_vectors(
            model, folder / VECTORS, level=options.level, seed=options.seed, lanes=options.lanes
        ),
        write_vectors(
            model, folder / OWN_VECTORS, x_codes=model.quantize(own), lanes=options.lanes
        ),
    )


def first_rows(layer: Layer, count: int) -> np.ndarray:
    """The first rows of a layer, at most ``count``."""
    kept: list[np.ndarray] = []
    for block in layer.blocks(max_elements=count * layer.dim):
        kept.append(block)
        if sum(map(len, kept)) >= count:
            break
    return np.concatenate(kept)[:count]


def _summary(
    spec: RMSNormSpec, spec_name: str, input_path: Path, layers: list[dict[str, Any]]
) -> dict[str, Any]:
    first = layers[0]["hardware"]
    checked = all("conformance" in layer for layer in layers)
    return {
        "title": f"approxnorm: {spec_name} on {input_path.name}",
        "spec_name": spec_name,
        "description": spec.description,
        "input": input_path.name,
        "rsqrt": first["rsqrt"],
        "multipliers": first["multipliers"],
        "tables": first["tables"],
        **({"conformance": conformance.of_all(layers)} if checked else {}),
        "layers": layers,
    }


def write_json(path: Path, data: Any) -> None:
    """JSON with a final newline; NaN and infinity are not allowed in it."""
    path.write_text(json.dumps(data, indent=2, allow_nan=False) + "\n", "utf-8")
