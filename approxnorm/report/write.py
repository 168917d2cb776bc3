"""From a run's results to one HTML file."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import IO, Any

from approxnorm.errors import ApproxNormError
from approxnorm.output import write_atomically
from approxnorm.report import view


def write_report(results: dict[str, Any], path: Path) -> None:
    """Write a self-contained HTML report: the whole of it or, on any failure, nothing.

    results: what ``run`` writes as report.json: "layers" (at least one) with their errors,
    histograms, bounds, signals and notes, and where present "rsqrt", "tables", "multipliers" and
    "conformance"; a layer's "spec" is its resolved spec as text, its "onnx" names its ONNX files.
    Missing or null values are shown as dashes, what has no data is left out. The same results give
    the same bytes: no dates.

    Raises ApproxNormError if there is no layer, matplotlib or jinja2 is missing, or the file
    cannot be written.
    """
    if not results.get("layers"):
        raise ApproxNormError(
            "the results hold no layer, so that there is nothing to report; give an input file "
            "with at least one layer"
        )
    _require_libraries()
    page = _render(results).encode("utf-8", errors="replace")
    write_atomically(path, lambda out: _write(out, page))


def _write(out: IO[bytes], page: bytes) -> None:
    out.write(page)


def _require_libraries() -> None:
    try:
        for name in ("matplotlib", "jinja2"):
            importlib.import_module(name)
    except ImportError as error:
        raise ApproxNormError(
            "the report needs matplotlib and jinja2; install them with "
            "pip install 'approxnorm[report]'"
        ) from error


def _breakable(text: str, after: str = "_/.") -> Any:
    """Text escaped for HTML whose lines may break after these characters, where parts meet."""
    from markupsafe import Markup, escape  # a part of jinja2

    # Before a letter only: a stop between digits is a decimal point.
    parts = re.split(rf"(?<=[{re.escape(after)}])(?=[^\W\d])", text)
    return Markup("<wbr>").join(escape(part) for part in parts)


def _render(results: dict[str, Any]) -> str:
    # Here and not above: both need the optional libraries.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from approxnorm.report.plots import pictures

    environment = Environment(
        loader=PackageLoader("approxnorm.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable
    layers = results["layers"]
    return environment.get_template("report.html").render(
        heading=view.heading(results),
        tiles=view.tiles(results),
        pictures=pictures(results),
        errors=view.errors_grid(layers),
        bounds=view.bounds_grids(layers),
        codes=view.codes_grid(layers),
        causes=view.causes_grid(layers),
        tables=view.tables_grid(results),
        signals=view.signals_grid(layers),
        conformance=view.conformance_grid(results),
        layer_conformance=view.layer_conformance_grid(layers),
        multipliers=view.multiplier_text(results),
        rsqrt=view.rsqrt_facts(results),
        layers=[view.layer_details(layer) for layer in layers],
    )
