"""Every figure of the report, with its caption and the text for those who cannot see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from approxnorm.report import hardware_plots, layer_plots, svg
from approxnorm.report.numbers import clean, is_number, real
from approxnorm.report.signals import signal_widths
from approxnorm.report.view import causes_of

Results = dict[str, Any]


@dataclass(frozen=True)
class Picture:
    """A figure as the page shows it; ``source`` is a data URI."""

    source: str
    alt: str
    caption: str


def pictures(results: Results) -> dict[str, Picture]:
    """All figures that the results have data for: "errors", "histogram", "causes", "rsqrt",
    "widths"."""
    makers: dict[str, Callable[[Results], tuple[Figure, str, str] | None]] = {
        "errors": _errors,
        "histogram": _histogram,
        "causes": _causes,
        "rsqrt": _rsqrt,
        "widths": _widths,
    }
    found = {}
    with svg.house_style():
        for name, make in makers.items():
            made = make(results)
            if made is not None:
                figure, alt, caption = made
                found[name] = Picture(svg.data_uri(figure), alt, caption)
    return found


def _errors(results: Results) -> tuple[Figure, str, str] | None:
    layers = results["layers"]
    measured = [layer for layer in layers if layer_plots.rms(layer) >= 0]
    if not measured:
        return None
    shown = layer_plots.shown_layers(layers)
    worst = max(measured, key=layer_plots.rms)
    alt = (
        f"Dot plot of mean, rms and largest error of {_layers(shown)}, and of the SQNR. The "
        f"largest rms error is {real(layer_plots.rms(worst))} LSB, in {clean(worst.get('name'))}. "
        f"The table of errors holds the numbers."
    )
    caption = (
        "Left: mean, rms and largest |error| against exact arithmetic on the quantised input, on "
        "a logarithmic axis. Right: signal-to-quantisation-noise ratio."
    )
    return layer_plots.error_figure(shown), alt, caption + _limited(shown, layers)


def _histogram(results: Results) -> tuple[Figure, str, str] | None:
    usable = [layer for layer in results["layers"] if layer_plots.has_histogram(layer)]
    if not usable:
        return None
    shown = layer_plots.shown_layers(usable)
    many = len(shown) > layer_plots.MOST_PANELS
    mark = "Between the dashed lines" if many else "The grey band"
    alt = (
        f"{'Heat map' if many else 'Histograms'} of the output error of {_layers(shown)}, in LSB "
        f"of y, on a logarithmic scale; all errors lie within ±"
        f"{real(layer_plots.occupied_range(usable))} LSB or in the open-ended outermost bins."
    )
    caption = (
        f"Error of each output code against exact arithmetic, in LSB of y. {mark}, ±½ LSB, is "
        f"what correct rounding alone would give. The outermost bins are open-ended"
        f"{'' if many else '; they are red where a code is in them'}."
    )
    return layer_plots.histogram_figure(shown), alt, caption + _limited(shown, usable)


def _causes(results: Results) -> tuple[Figure, str, str] | None:
    layers = results["layers"]
    causes = causes_of(layers)
    if not causes:
        return None
    shown = layer_plots.shown_layers(layers)
    alt = (
        f"Left: dot plot of the rms error of each cause ({clean(', '.join(causes))}) in "
        f"{_layers(shown)}. Right: stacked bars with each cause's share of the squared error. "
        f"The table of causes holds the numbers."
    )
    caption = (
        "Left: rms of the change that each cause makes, on a logarithmic axis; one that makes none "
        "has no mark. Right: the causes' mean squares in percent of their sum."
    )
    return layer_plots.cause_figure(shown, causes), alt, caption + _limited(shown, layers)


def _rsqrt(results: Results) -> tuple[Figure, str, str] | None:
    rsqrt = results.get("rsqrt") or {}
    if len(hardware_plots.curve_points(rsqrt)[0]) < 2:
        return None
    alt = (
        f"Curve of the rsqrt stage's relative error for arguments from 1 to 4. Its largest "
        f"magnitude is {real(rsqrt.get('max_rel'))}"
    )
    if is_number(rsqrt.get("argmax")):
        alt += f", at {real(rsqrt['argmax'], 4)}"
    caption = (
        "Relative error of the mantissa that the rsqrt stage gives, over one period of its range "
        "reduction, the datapath's own rounding included."
    )
    return hardware_plots.rsqrt_figure(rsqrt), alt + ".", caption


def _widths(results: Results) -> tuple[Figure, str, str] | None:
    signals = signal_widths(results["layers"])
    if not signals:
        return None
    shown = signals[: hardware_plots.MOST_SIGNALS]
    widest = max(signals, key=lambda s: s.width)
    alt = (
        f"Bars of the widths of {len(shown)} signals, grouped by level. The widest is "
        f"{clean(widest.name)} with {widest.width} bits. The table of signals holds the numbers."
    )
    caption = (
        "Width of every named signal, derived from the formats alone: no input can overflow it. "
        "Where layers differ the bar is the widest, and a notch marks the narrowest."
    )
    if len(shown) < len(signals):
        caption += f" The first {len(shown)} of {len(signals)} signals."
    return hardware_plots.width_figure(shown), alt, caption


def _layers(shown: Sequence[Any]) -> str:
    return "1 layer" if len(shown) == 1 else f"{len(shown)} layers"


def _limited(shown: Sequence[Any], layers: Sequence[Any]) -> str:
    if len(shown) == len(layers):
        return ""
    return f" Shown: the {len(shown)} of {len(layers)} layers with the largest rms error."
