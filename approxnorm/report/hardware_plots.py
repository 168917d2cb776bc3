"""Figures of the datapath itself: the rsqrt stage's error and the signals' widths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from approxnorm.report import svg
from approxnorm.report.numbers import is_number, real, shortened
from approxnorm.report.signals import LEVELS, SignalWidth

MOST_POINTS = 1200  # a curve with more is drawn as the range between its extremes
MOST_SIGNALS = 80
LEVEL_SHADES = {"element": svg.BLUE, "channel": svg.PURPLE, "row": svg.GREEN}


def curve_points(rsqrt: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The stage's argument and relative error, both (n,) float64, without undefined points."""
    curve = rsqrt.get("curve") or {}
    pairs = zip(curve.get("m") or [], curve.get("rel_error") or [], strict=False)
    kept = [(m, e) for m, e in pairs if is_number(m) and is_number(e)]
    return tuple(np.array(kept, np.float64).reshape(-1, 2).T)  # type: ignore[return-value]


def envelope(x: np.ndarray, y: np.ndarray, points: int) -> tuple[np.ndarray, ...]:
    """x, lowest y and highest y of at most ``points`` runs of neighbours: no extreme is lost."""
    starts = np.unique(np.linspace(0, len(x), points, endpoint=False).astype(np.int64))
    return x[starts], np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)


def rsqrt_figure(rsqrt: dict[str, Any]) -> Figure:
    """The relative error of the mantissa over [1, 4), signed, with its largest magnitude."""
    m, error = curve_points(rsqrt)
    figure = svg.new_figure(2.9)
    axes = figure.subplots()
    axes.axhline(0, color=svg.FAINT.light, linewidth=0.6)
    axes.axvline(2, color=svg.FAINT.light, linewidth=0.6, linestyle=(0, (3, 3)))
    if len(m) > MOST_POINTS:
        x, low, high = envelope(m, error, MOST_POINTS)
        axes.fill_between(x, low, high, color=svg.BLUE.light, linewidth=0.6)
    else:
        axes.plot(m, error, color=svg.BLUE.light, linewidth=0.9)
    _mark_bound(axes, rsqrt)
    axes.set_xlim(1, 4)
    axes.xaxis.set_major_locator(MultipleLocator(0.5))
    axes.set_xlabel("m = operand scaled to [1, 4); the octaves meet at 2")
    exponent = _exponent(error)
    axes.set_ylabel(f"relative error of 1/√m, × 1e{exponent}")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v / 10.0**exponent:.4g}"))
    axes.grid(axis="y")
    axes.margins(y=0.12)
    return figure


def _exponent(error: np.ndarray) -> int:
    """The power of ten of the largest magnitude, 0 for no error at all."""
    largest = float(np.abs(error).max())
    return math.floor(math.log10(largest)) if largest > 0 else 0


def _mark_bound(axes: Axes, rsqrt: dict[str, Any]) -> None:
    largest = rsqrt.get("max_rel")
    if not is_number(largest) or largest <= 0:
        return
    for sign in (-1, 1):
        axes.axhline(sign * largest, color=svg.RED.light, linewidth=0.9, linestyle=(0, (5, 3)))
    text = f"max {real(largest)}"
    if is_number(rsqrt.get("argmax")):
        text += f" at m = {real(rsqrt['argmax'], 4)}"
    axes.annotate(
        text,
        (1.0, largest),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
    )


def width_figure(signals: Sequence[SignalWidth]) -> Figure:
    """A bar for each signal's width in bits, in one panel for each level."""
    present = [level for level in LEVELS if any(s.level == level for s in signals)]
    groups = [[s for s in signals if s.level == level] for level in present]
    sizes = [len(group) for group in groups]
    figure = svg.new_figure(0.7 + 0.32 * len(groups) + 0.19 * sum(sizes))
    panels = figure.subplots(
        len(groups), 1, sharex=True, squeeze=False, height_ratios=[s + 0.4 for s in sizes]
    )
    for axes, level, group in zip(panels.flat, present, groups, strict=True):
        _bars(axes, level, group)
    widest = max(s.width for s in signals)
    last = panels.flat[-1]
    last.spines["bottom"].set_visible(True)
    last.tick_params(axis="x", length=3)
    # Room for the type, which stands right of its bar.
    last.set_xlim(0, 1.3 * widest)
    step = max(4, 4 * math.ceil(widest / 40))
    last.set_xticks(range(0, widest + step, step))
    last.set_xlabel("bits")
    return figure


def _bars(axes: Axes, level: str, group: Sequence[SignalWidth]) -> None:
    shade = LEVEL_SHADES.get(level, svg.GREY)
    rows = range(len(group))
    axes.barh(rows, [s.width for s in group], height=0.64, color=shade.light)
    narrower = [(s.narrowest, i) for i, s in enumerate(group) if s.narrowest < s.width]
    for width, i in narrower:
        axes.plot([width, width], [i - 0.32, i + 0.32], color=svg.PAPER.light, linewidth=1.5)
    for i, signal in enumerate(group):
        axes.annotate(
            signal.label,
            (signal.width, i),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=svg.FAINT.light,
        )
    axes.set_yticks(rows, [shortened(s.name, 36) for s in group])
    axes.set_ylim(len(group) - 0.4, -0.6)
    axes.tick_params(axis="both", length=0)
    axes.spines["bottom"].set_visible(False)
    axes.grid(axis="x")
    axes.set_title(f"one value per {level}")
