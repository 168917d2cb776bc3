"""Tables of what was measured on each layer: shared by ``error`` and ``run``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from approxnorm.cli.output import print_line, print_table
from approxnorm.report.bounds import by_condition, sentences

# cosine and mean_abs_lsb are left to the JSON: a line must fit 80 columns.
KEYS = {
    "max_abs_lsb": "max",
    "rms_lsb": "RMS",
    "bias_lsb": "bias",
    "sqnr_db": "SQNR dB",
    "max_rel": "max rel",
}
CAUSES = {
    "input_quantization": "input",
    "statistic": "statistic",
    "rsqrt": "rsqrt",
    "gamma": "gamma",
    "normalize": "normalize",
    "output_rounding": "rounding",
}

Layers = Sequence[dict[str, Any]]


def print_errors(layers: Layers) -> None:
    """Each layer's error against exact arithmetic and, where there is real input, against fp32."""
    _print_against(layers, "against_exact", "Error in LSBs of y, against exact arithmetic")
    _print_against(layers, "against_fp32", "Error in LSBs of y, against fp32 on the real input")


def _print_against(layers: Layers, key: str, title: str) -> None:
    measured = [layer for layer in layers if layer[key] is not None]
    if measured:
        rows = [(layer["name"], *(layer[key][k] for k in KEYS)) for layer in measured]
        print_table(title, ("layer", *KEYS.values()), rows)


def print_causes(layers: Layers) -> None:
    """The RMS error of each cause alone."""
    causes = [c for c in CAUSES if any(c in layer["split"] for layer in layers)]
    rows = [
        (layer["name"], *(_rms(layer["split"].get(cause)) for cause in causes)) for layer in layers
    ]
    print_table("RMS error in LSBs by cause", ("layer", *(CAUSES[c] for c in causes)), rows)


def _rms(errors: dict[str, Any] | None) -> Any:
    return "-" if errors is None else errors["rms_lsb"]


def print_bounds(layers: Layers) -> None:
    """Each layer's proven worst case and what it is made of, and what it does not cover."""
    for condition, bounded in by_condition(layers):
        _print_bounds(f"Proven worst case in LSBs of y{condition}", bounded)


def _print_bounds(title: str, layers: Layers) -> None:
    bounds = [layer["bound"] for layer in layers]
    parts = list(dict.fromkeys(name for b in bounds for name in b["parts"] if b["parts"][name]))
    rows = [
        (layer["name"], b["lsb"], *(b["parts"].get(name) for name in parts))
        for layer, b in zip(layers, bounds, strict=True)
    ]
    print_table(title, ("layer", "total", *(CAUSES.get(name, name) for name in parts)), rows)
    for sentence in sentences(layers):
        print_line(sentence, indent=1)
    print_line()


def print_accumulators(layers: Layers) -> None:
    """Bits of the accumulator and of the sums, where a spec makes it narrower than derived."""
    narrow = [layer for layer in layers if layer.get("accumulator")]
    if not narrow:
        return
    keys = ("bits", "bits_needed", "overflowed_rows")
    rows = [(layer["name"], *(layer["accumulator"][key] for key in keys)) for layer in narrow]
    columns = ("layer", "bits", "bits needed", "rows overflowed")
    print_table("Accumulator, narrower than derived", columns, rows)


def warn_of_overflow(layers: Layers) -> None:
    """A warning for each layer whose sums did not all fit the accumulator."""
    for layer in layers:
        found = layer.get("accumulator") or {}
        if found.get("overflowed_rows"):
            warnings.warn(
                f"layer {layer['name']}: the accumulator of {found['bits']} bits overflows in"
                f" {found['overflowed_rows']} of {layer['rows']} rows; the data need"
                f" {found['bits_needed']} bits (statistic.accumulator.bits)",
                stacklevel=2,
            )


def print_codes(layers: Layers) -> None:
    """How many codes became zero or saturated: of x, of x after its row exponent, and of y."""
    names = {"x": "x 0", "x_row": "row 0", "y": "y 0"}
    kinds = {kind: name for kind, name in names.items() if any(kind in one for one in layers)}
    columns = [text for name in kinds.values() for text in (name, "sat")]
    rows = [
        (layer["name"], *(c for kind in kinds for c in _lost(layer, kind)), layer["x"]["zero_rows"])
        for layer in layers
    ]
    title = "Codes that are zero or saturated; rows of zeros"
    print_table(title, ("layer", *columns, "rows 0"), rows)


def _lost(layer: dict[str, Any], kind: str) -> tuple[str, int]:
    counts = layer[kind]
    return _share(counts["zero_codes"], counts["codes"]), counts["saturated"]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.2f}%"


def print_notes(layers: Layers) -> None:
    """How each layer's open numbers were chosen."""
    if not any(layer["calibration"] for layer in layers):
        return
    print_line("Calibration", bold=True)
    for layer in layers:
        if layer["calibration"]:
            print_line(layer["name"], indent=1)
        for note in layer["calibration"]:
            print_line(note, indent=3)
    print_line()


def print_layers(layers: Layers) -> None:
    """All that was measured, and how open numbers were chosen."""
    print_notes(layers)
    print_errors(layers)
    print_causes(layers)
    print_bounds(layers)
    print_codes(layers)
    print_accumulators(layers)
