"""What a model's QuantRMSNorms are, and how far they are from float RMSNorm on real inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from approxnorm.methods.format_field import FormatSpec
from approxnorm.metrics import LayerErrors
from approxnorm.nn.feed import feed, quant_norms
from approxnorm.nn.quant_rmsnorm import QuantRMSNorm
from approxnorm.spec.rmsnorm_spec import ChannelShifts

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Report:
    """A row for each layer: ``rows`` as plain data, ``print(report)`` as a table.

    Keys: name, dim, eps; x, gamma, y (formats); row_exponent (bits, or None); channel_shifts,
    y_channel_shifts (the largest, or None); statistic, rsqrt, normalize (the spec's fields); digest
    (that of every other artefact; None while something is open); open (what is).

    With batches also rows (how many were measured); sqnr_db, max_abs_lsb (of y against fp32 RMSNorm
    on the same real input, as docs/error-metrics.md defines them); zero_x, zero_y (the share of
    codes that are 0; of x after its row exponent, if there is one); zero_rows (rows of x whose
    codes are all 0); saturated_x, saturated_y (codes).
    """

    rows: list[dict[str, Any]]

    def __rich__(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        columns = dict(_COLUMNS)
        if any("rows" in row for row in self.rows):
            columns |= _MEASURED
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for title, (_, side) in columns.items():
            table.add_column(title, justify=side)
        for row in self.rows:
            table.add_row(*(Text(text(row)) for text, _ in columns.values()))
        return table

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        console = Console(file=StringIO(), width=1000, color_system=None)
        with console.capture() as capture:
            console.print(self.__rich__())
        return "\n".join(line.rstrip() for line in capture.get().splitlines())


def report(
    model: nn.Module, batches: Iterable[Any] | None = None, *, progress: bool = True
) -> Report:
    """Formats, methods and digest of each QuantRMSNorm of a model; given batches, its error too.

    batches: as for ``calibrate``. The model runs on them as floats, so that each layer is measured
    on what goes into the float model's norm, alone. Layers that are not calibrated, or that no
    batch reaches, have no error.

    Raises ApproxNormError if the model has no QuantRMSNorm, there are no batches, or one brings NaN
    or infinity to a layer.
    """
    norms = quant_norms(model)
    rows = {name: _row(name, layer) for name, layer in norms.items()}
    watched = {name: layer for name, layer in norms.items() if layer.is_calibrated}
    if batches is not None:
        meters = {name: _errors(layer) for name, layer in watched.items()}
        feed(
            model,
            batches,
            watched,
            lambda name, x: meters[name].add(x),
            what="Measuring",
            progress=progress,
            all_reached=False,
        )
        for name, meter in meters.items():
            found = meter.result()
            rows[name] |= _measured(found) if found["rows"] else {}
    return Report(list(rows.values()))


def _errors(layer: QuantRMSNorm) -> LayerErrors:
    gamma = layer.weight.detach().to("cpu", torch.float64).numpy()
    return LayerErrors(layer.model(), gamma)


def _measured(found: Mapping[str, Any]) -> dict[str, Any]:
    x, y = found.get("x_row", found["x"]), found["y"]
    return {
        "rows": found["rows"],
        "sqnr_db": found["against_fp32"]["sqnr_db"],
        "max_abs_lsb": found["against_fp32"]["max_abs_lsb"],
        "zero_x": _share(x),
        "zero_y": _share(y),
        "zero_rows": x["zero_rows"],
        "saturated_x": found["x"]["saturated"],
        "saturated_y": y["saturated"],
    }


def _share(counts: Mapping[str, int]) -> float | None:
    return counts["zero_codes"] / counts["codes"] if counts["codes"] else None


def _row(name: str, layer: QuantRMSNorm) -> dict[str, Any]:
    spec = layer.spec
    missing = spec.missing()
    model = None if missing else layer.model()
    spec = spec if model is None else model.spec
    plain = spec.to_dict()
    return {
        "name": name,
        "dim": spec.dim,
        "eps": spec.eps,
        **{key: _format(getattr(spec, key)) for key in ("x", "gamma", "y")},
        "row_exponent": None if spec.row_exponent is None else spec.row_exponent.bits,
        **{key: _largest(getattr(spec, key)) for key in ("channel_shifts", "y_channel_shifts")},
        **{key: plain[key] for key in ("statistic", "rsqrt", "normalize")},
        "digest": None if model is None else model.digest,
        "open": missing,
    }


def _largest(shifts: ChannelShifts | None) -> int | None:
    return None if shifts is None or shifts.shifts is None else max(shifts.shifts)


def _format(form: FormatSpec) -> str:
    if form.scale is None:
        return f"{'int' if form.signed else 'uint'}{form.bits}, open scale"
    return str(form.to_format("scale"))


# --- the table ------------------------------------------------------------------------------------


def _x_text(row: dict[str, Any]) -> str:
    texts = [row["x"]]
    if row["row_exponent"] is not None:
        texts.append(f"row exponent to {row['row_exponent']} bits")
    if row["channel_shifts"] is not None:
        texts.append(f"channel factors to 2^{row['channel_shifts']}")
    return ", ".join(texts)


def _y_text(row: dict[str, Any]) -> str:
    shift = row["y_channel_shifts"]
    return str(row["y"]) if shift is None else f"{row['y']}, channel factors to 2^{shift}"


def _method_text(key: str) -> Callable[[dict[str, Any]], str]:
    def text(row: dict[str, Any]) -> str:
        fields = row[key]
        told = [f"{name}={fields[name]}" for name in _TOLD if name in fields]
        return f"{fields['method']}({', '.join(told)})" if told else str(fields["method"])

    return text


def _digest_text(row: dict[str, Any]) -> str:
    """The first digits; what is open, if anything is."""
    return f"open: {', '.join(row['open'])}" if row["open"] else str(row["digest"])[:12]


def _number_text(key: str) -> Callable[[dict[str, Any]], str]:
    def text(row: dict[str, Any]) -> str:
        value = row.get(key)
        return "-" if value is None else f"{value:.3g}"

    return text


def _share_text(key: str) -> Callable[[dict[str, Any]], str]:
    def text(row: dict[str, Any]) -> str:
        value = row.get(key)
        return "-" if value is None else f"{100 * value:.2f}%"

    return text


_TOLD = ("bits", "segments", "index_bits", "step_exponent", "order")

_COLUMNS: dict[str, tuple[Callable[[dict[str, Any]], str], Literal["left", "right"]]] = {
    "layer": (lambda row: str(row["name"]), "left"),
    "dim": (lambda row: str(row["dim"]), "right"),
    "eps": (lambda row: f"{row['eps']:.4g}", "right"),
    "x": (_x_text, "left"),
    "gamma": (lambda row: str(row["gamma"]), "left"),
    "y": (_y_text, "left"),
    "statistic": (_method_text("statistic"), "left"),
    "rsqrt": (_method_text("rsqrt"), "left"),
    "normalize": (_method_text("normalize"), "left"),
    "digest": (_digest_text, "left"),
}
_MEASURED: dict[str, tuple[Callable[[dict[str, Any]], str], Literal["left", "right"]]] = {
    "SQNR dB": (_number_text("sqnr_db"), "right"),
    "max LSB": (_number_text("max_abs_lsb"), "right"),
    "x zero": (_share_text("zero_x"), "right"),
    "y zero": (_share_text("zero_y"), "right"),
}
