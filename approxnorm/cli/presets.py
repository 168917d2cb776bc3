"""``approxnorm presets``: what there is to choose from."""

from __future__ import annotations

from typing import Any

from approxnorm.cli.options import JsonOption
from approxnorm.cli.output import print_json, print_line

COLUMNS = ("name", "x", "gamma", "y", "statistic", "rsqrt", "normalize")
WIDTHS = (20, 6, 5, 3, 14, 13, 9)


def presets(json: JsonOption = False) -> None:
    """List the presets: their widths, methods and purpose."""
    from approxnorm.spec import preset_names

    listed = [_describe(name) for name in preset_names()]
    if json:
        print_json(listed)
        return
    print_line(_columns(COLUMNS), bold=True)
    for entry in listed:
        shown = [entry["name"], _x_width(entry), entry["gamma_bits"], entry["y_bits"]]
        print_line(_columns([*shown, entry["statistic"], entry["rsqrt"], entry["normalize"]]))
        print_line(entry["description"], indent=4)
    print_line("\nWidths are in bits; 24>16 is 24-bit x with a row exponent down to 16 bits.")


def _describe(name: str) -> dict[str, Any]:
    from approxnorm.spec import preset

    spec = preset(name)
    return {
        "name": name,
        "description": spec.description,
        "statistic": spec.statistic.method,
        "rsqrt": spec.rsqrt.method,
        "normalize": spec.normalize.method,
        "x_bits": spec.x.bits,
        "row_exponent_bits": spec.row_exponent.bits if spec.row_exponent else None,
        "gamma_bits": spec.gamma.bits,
        "y_bits": spec.y.bits,
        "dim": spec.dim,
    }


def _x_width(entry: dict[str, Any]) -> str:
    row = entry["row_exponent_bits"]
    return str(entry["x_bits"]) if row is None else f"{entry['x_bits']}>{row}"


def _columns(cells: Any) -> str:
    return " ".join(str(c).ljust(w) for c, w in zip(cells, WIDTHS, strict=True)).rstrip()
