"""Figures with one row, or one panel, for each layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from approxnorm.metrics.chain import CAUSES
from approxnorm.report import svg
from approxnorm.report.numbers import is_number, real, shortened

Layer = dict[str, Any]

NAME_LENGTH = 44
MOST_ROWS = 96  # more rows than this are no longer read one by one: the worst are shown
TALL = 20  # rows from which on the axis is labelled at the top as well
MOST_DECADES = 200
MOST_PANELS = 12  # histograms side by side; beyond, one heat map

CAUSE_SHADES = (svg.BLUE, svg.ORANGE, svg.GREEN, svg.PURPLE, svg.SKY, svg.RED)
CAUSE_MARKERS = "os^Dvp"


def rms(layer: Layer) -> float:
    """The layer's root-mean-square error in LSBs; -1 where there is none."""
    value = (layer.get("against_exact") or {}).get("rms_lsb")
    return float(value) if is_number(value) else -1.0


def shown_layers(layers: Sequence[Layer]) -> list[Layer]:
    """All layers or, of too many, the MOST_ROWS with the largest rms error, in their order."""
    worst = sorted(range(len(layers)), key=lambda i: -rms(layers[i]))[:MOST_ROWS]
    return [layers[i] for i in sorted(worst)]


def error_figure(layers: Sequence[Layer]) -> Figure:
    """Mean, rms and max error of each layer on a logarithmic axis, and its SQNR beside it."""
    figure, (left, right) = _row_figure(layers, [3, 2])
    exact = [layer.get("against_exact") or {} for layer in layers]
    fp32 = [layer.get("against_fp32") or {} for layer in layers]
    _ranges(left, exact)
    _marks(left, exact, "mean_abs_lsb", "mean |error|", "o", svg.FAINT, fillstyle="none")
    _marks(left, exact, "rms_lsb", "rms", "o", svg.BLUE)
    _marks(left, exact, "max_abs_lsb", "max |error|", "D", svg.RED)
    _log_axis(left)
    left.set_xlabel("error against exact arithmetic, LSB of y")
    _marks(right, exact, "sqnr_db", "against exact", "o", svg.BLUE)
    _marks(right, fp32, "sqnr_db", "against fp32", "s", svg.ORANGE, fillstyle="none")
    _decibel_axis(right)
    right.set_xlabel("SQNR, dB (higher is better)")
    for axes in (left, right):
        _legend_above(axes)
    return figure


def cause_figure(layers: Sequence[Layer], causes: Sequence[str]) -> Figure:
    """The rms error of each cause on a logarithmic axis, and each one's share of the squares."""
    figure, (left, right) = _row_figure(layers, [1, 1])
    shares = np.array([square_shares(layer, causes) for layer in layers])
    start = np.zeros(len(layers))
    for i, cause in enumerate(causes):
        known = CAUSES.index(cause) if cause in CAUSES else i  # the same look in every report
        shade, marker = CAUSE_SHADES[known % 6], CAUSE_MARKERS[known % 6]
        per_layer = [(layer.get("split") or {}).get(cause) or {} for layer in layers]
        _marks(left, per_layer, "rms_lsb", cause_name(cause), marker, shade)
        right.barh(
            range(len(layers)),
            shares[:, i],
            left=start,
            height=0.62,
            color=shade.light,
            edgecolor=svg.PAPER.light,
            linewidth=0.8,
        )
        start += shares[:, i]
    _log_axis(left)
    left.set_xlabel("rms change by each cause, LSB of y")
    right.set_xlim(0, 100)
    right.set_xlabel("share of the squared changes, %")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=6)
    return figure


def cause_name(cause: str) -> str:
    """A cause's key in words; no leading underscore, which would keep it out of the legend."""
    return shortened(cause.replace("_", " "), 24)


def square_shares(layer: Layer, causes: Sequence[str]) -> list[float]:
    """Each cause's mean square error in percent of their sum; all 0 where there is no error."""
    split = layer.get("split") or {}
    values = [(split.get(cause) or {}).get("rms_lsb") for cause in causes]
    known = [float(v) if is_number(v) else 0.0 for v in values]
    largest = max(known, default=0.0)
    if largest <= 0:
        return [0.0] * len(causes)
    squares = [(v / largest) ** 2 for v in known]  # scaled: squares of huge errors stay finite
    return [100 * s / sum(squares) for s in squares]


def histogram_figure(layers: Sequence[Layer]) -> Figure:
    """How the output error is distributed: a panel each for a few layers, else a heat map."""
    with_counts = [layer for layer in layers if has_histogram(layer)]
    return _panels(with_counts) if len(with_counts) <= MOST_PANELS else _heat_map(with_counts)


def has_histogram(layer: Layer) -> bool:
    """True if the layer's histogram has counts, and one edge more than counts."""
    histogram = layer.get("histogram") or {}
    counts, edges = histogram.get("counts") or [], histogram.get("edges_lsb") or []
    return len(edges) == len(counts) + 1 and sum(counts) > 0


def percentages(layer: Layer) -> np.ndarray:
    """The histogram's counts in percent of all codes, (bins,)."""
    counts = np.array(layer["histogram"]["counts"], dtype=np.float64)
    return 100 * counts / counts.sum()


def occupied_range(layers: Iterable[Layer]) -> float:
    """The largest |edge| of any bin that holds a code, and at least 1 LSB."""
    reach = 1.0
    for layer in layers:
        edges = np.array(layer["histogram"]["edges_lsb"], dtype=np.float64)
        filled = np.flatnonzero(layer["histogram"]["counts"])
        reach = max(reach, abs(edges[filled[0]]), abs(edges[filled[-1] + 1]))
    return float(reach)


def _panels(layers: Sequence[Layer]) -> Figure:
    columns = min(3, len(layers))
    rows = -(-len(layers) // columns)
    figure = svg.new_figure(2.6 if rows == 1 else 0.5 + 1.65 * rows)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    reach, floor = occupied_range(layers), _floor(layers)
    for axes, layer in zip(grid.flat, layers, strict=False):
        _histogram(axes, layer, reach, floor)
    for axes in grid.flat[len(layers) :]:
        axes.set_visible(False)
    for column in range(columns):
        last = (len(layers) - 1 - column) // columns
        grid[last, column].tick_params(labelbottom=True)
    figure.supxlabel("output error, LSB of y", fontsize=8.5, color=svg.FAINT.light)
    figure.supylabel("codes, % (log)", fontsize=8.5, color=svg.FAINT.light)
    return figure


def _histogram(axes: Axes, layer: Layer, reach: float, floor: float) -> None:
    edges = np.array(layer["histogram"]["edges_lsb"], dtype=np.float64)
    percent = np.maximum(percentages(layer), floor)
    axes.axvspan(-0.5, 0.5, color=svg.LINE.light, alpha=0.6, linewidth=0)
    axes.stairs(percent, edges, baseline=floor, fill=True, color=svg.BLUE.light)
    for end in (slice(None, 2), slice(-2, None)):  # open-ended
        height = percent[0 if end.start is None else -1]
        if height > floor:
            axes.stairs([height], edges[end], baseline=floor, fill=True, color=svg.RED.light)
    axes.set_yscale("log")
    axes.set_ylim(floor, 200)
    axes.yaxis.set_major_locator(LogLocator(numticks=5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: real(v, 1)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(-reach, reach)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], symmetric=True))
    axes.set_title(shortened(layer.get("name", ""), 40), fontsize=8, fontweight="normal")


def _floor(layers: Iterable[Layer]) -> float:
    """A power of ten below the smallest filled bin of any layer, in percent."""
    smallest = min(float(p[p > 0].min()) for p in map(percentages, layers))
    return 10.0 ** math.floor(math.log10(smallest) - 0.01)


def _heat_map(layers: Sequence[Layer]) -> Figure:
    reach = occupied_range(layers)
    widest = max((layer["histogram"]["edges_lsb"] for layer in layers), key=len)
    same = [layer for layer in layers if layer["histogram"]["edges_lsb"] == widest]
    percent = np.array([percentages(layer) for layer in same])
    figure = svg.new_figure(_height(len(same)) + 0.4)
    axes = figure.subplots()
    image = axes.pcolormesh(
        np.array(widest, dtype=np.float64),
        np.arange(len(same) + 1) - 0.5,
        np.ma.masked_less_equal(percent, 0),
        norm=LogNorm(vmin=percent[percent > 0].min(), vmax=100),
        # Without its ends, which fade into a dark or a light page.
        cmap=ListedColormap(colormaps["cividis"](np.linspace(0.15, 0.95, 256))),
        rasterized=True,
    )
    for edge in (-0.5, 0.5):
        axes.axvline(edge, color=svg.INK.light, linewidth=0.6, linestyle=(0, (3, 3)))
    axes.set_xlim(-reach, reach)
    _layer_rows(axes, same, bands=False)
    axes.set_xlabel("output error, LSB of y")
    axes.tick_params(axis="x", labeltop=len(same) > TALL)
    bar = figure.colorbar(image, ax=axes, location="top", shrink=0.5, aspect=40, pad=0.01)
    bar.set_label("codes, % (empty: none)")
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: real(v, 1)))
    bar.ax.xaxis.set_minor_formatter(NullFormatter())
    return figure


def _height(rows: int) -> float:
    return 1.0 + 0.22 * max(2, rows)


def _row_figure(layers: Sequence[Layer], widths: Sequence[float]) -> tuple[Figure, Sequence[Axes]]:
    figure = svg.new_figure(_height(len(layers)) + 0.2)
    panels = figure.subplots(1, len(widths), sharey=True, width_ratios=widths)
    for axes in panels:
        _layer_rows(axes, layers, bands=True)
        axes.grid(axis="x")
        axes.tick_params(axis="x", labeltop=len(layers) > TALL)
    for axes in panels[1:]:
        axes.tick_params(labelleft=False)
    return figure, panels


def _layer_rows(axes: Axes, layers: Sequence[Layer], bands: bool) -> None:
    """One row a layer, the first at the top, with its name."""
    names = [shortened(layer.get("name", ""), NAME_LENGTH) for layer in layers]
    axes.set_yticks(range(len(layers)), names)
    axes.set_ylim(len(layers) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if bands:
        for i in range(0, len(layers), 2):
            axes.axhspan(i - 0.5, i + 0.5, color=svg.BAND.light, linewidth=0, zorder=0)


def _ranges(axes: Axes, per_layer: Sequence[Layer]) -> None:
    """A thin line from each layer's mean to its largest error."""
    for i, errors in enumerate(per_layer):
        low, high = errors.get("mean_abs_lsb"), errors.get("max_abs_lsb")
        if is_number(low) and is_number(high) and low > 0:
            axes.plot([low, high], [i, i], color=svg.GREY.light, linewidth=1, zorder=2)


def _marks(
    axes: Axes,
    per_layer: Sequence[Layer],
    key: str,
    label: str,
    marker: str,
    shade: svg.Shade,
    **style: Any,
) -> None:
    """A mark in each layer's row; none where the value is missing, or 0 for LSBs (log axis)."""
    keep: Callable[[Any], bool] = (lambda v: v > 0) if key.endswith("_lsb") else (lambda v: True)
    points = [(e.get(key), i) for i, e in enumerate(per_layer)]
    points = [(v, i) for v, i in points if is_number(v) and keep(v)]
    if not points:
        return
    xs, ys = zip(*points, strict=True)
    axes.plot(xs, ys, marker, color=shade.light, label=label, zorder=3, **style)


def _log_axis(axes: Axes) -> None:
    """A logarithmic x axis of at least one decade, with readable ticks."""
    values = _drawn(axes)
    exponents = np.log10(values) if len(values) else np.array([-1.0, 0.0])
    # Far inside float64's range, so that nothing that Matplotlib does to the limits passes it.
    low, high = np.clip([exponents.min(), exponents.max()], -MOST_DECADES, MOST_DECADES)
    room = max(0.08 * (high - low), (1 - (high - low)) / 2, 0.05)
    # The limits first: a scale that has to find its own would start from the data's.
    axes.set_xlim(10.0 ** (low - room), 10.0 ** (high + room))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(log_ticks(low - room, high + room)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: real(v, 1)))
    axes.xaxis.set_minor_locator(NullLocator())


def log_ticks(low: float, high: float) -> list[float]:
    """At most eight ticks between 10**low and 10**high: 1, 2, 5, … or powers of ten."""
    whole = range(math.ceil(low), math.floor(high) + 1)
    if len(whole) > 2:
        step = -(-len(whole) // 8)
        return [10.0**k for k in whole if k % step == 0]
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [float(f"{digit}e{k}") for k in decades for digit in (1, 2, 5)]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]


def _decibel_axis(axes: Axes) -> None:
    """A linear x axis of at least 6 dB, so that equal layers look equal."""
    values = _drawn(axes)
    if len(values):
        room = max(0.12 * (values.max() - values.min()), (6 - (values.max() - values.min())) / 2)
        axes.set_xlim(values.min() - room, values.max() + room)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.4g}"))


def _drawn(axes: Axes) -> np.ndarray:
    """The x values of all marks, (n,) float64."""
    lines = [np.asarray(line.get_xdata(), np.float64) for line in axes.get_lines()]
    return np.concatenate(lines) if lines else np.empty(0)


def _legend_above(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        rows = axes.get_ylim()[0]
        above = 0.25 / (0.22 * rows) if rows > TALL else 0  # clear of the upper tick labels
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1 + above), ncols=3)
