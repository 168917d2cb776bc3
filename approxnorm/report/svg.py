"""Matplotlib figures as SVG data URIs that follow the reader's light or dark scheme."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

WIDTH = 10.0  # inches; the page shows it about 1000 pixels wide


class Shade(NamedTuple):
    """One colour in both schemes; the light one is what Matplotlib draws with."""

    light: str
    dark: str


# Matplotlib leaves pure black out of its SVG, so that no shade may be #000000.
INK = Shade("#1d2530", "#e4e8ee")
FAINT = Shade("#5c6773", "#9aa5b1")
LINE = Shade("#d5dae0", "#39424d")
BAND = Shade("#f3f5f7", "#1f262e")
PAPER = Shade("#ffffff", "#161b21")
# Okabe and Ito's colours, which all common kinds of colour vision tell apart; brighter on dark.
BLUE = Shade("#0072b2", "#4aa9e4")
ORANGE = Shade("#e69f00", "#f0b63a")
GREEN = Shade("#009e73", "#2fc397")
RED = Shade("#d55e00", "#f58237")
PURPLE = Shade("#cc79a7", "#dd95bd")
SKY = Shade("#56b4e9", "#8fd0f7")
GREY = Shade("#8c96a1", "#78838f")
SHADES = (INK, FAINT, LINE, BAND, PAPER, BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)

# Text is kept as text and measured in DejaVu Sans, which comes with Matplotlib and is wider than
# the fonts that browsers show it in: labels that fit here fit there.
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "approxnorm",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 8.5,
    "axes.labelcolor": FAINT.light,
    "axes.edgecolor": FAINT.light,
    "axes.linewidth": 0.6,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "grid.color": LINE.light,
    "grid.linewidth": 0.5,
    "text.color": INK.light,
    "text.parse_math": False,  # a layer's name may hold dollar signs
    "xtick.color": FAINT.light,
    "ytick.color": FAINT.light,
    "xtick.labelcolor": INK.light,
    "ytick.labelcolor": INK.light,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.borderaxespad": 0,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.4,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.5,
}

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's defaults with STYLE over them, whatever the user's own settings are."""
    with warnings.catch_warnings(), matplotlib.rc_context():
        # A character that DejaVu Sans lacks is drawn by the browser's own font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams  # the type of its keys differs between versions
        settings.update(STYLE)
        yield


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, sizes in inches, whose parts make room for each other's labels."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    figure.patch.set_visible(False)
    return figure


def data_uri(figure: Figure) -> str:
    """The figure as ``data:image/svg+xml;base64,…``: the same bytes for the same figure."""
    out = io.StringIO()
    nothing = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    figure.savefig(out, format="svg", metadata=nothing)
    encoded = base64.b64encode(themed(out.getvalue()).encode("utf-8")).decode("ascii")
    return f"data:image/svg+xml;base64,{encoded}"


def themed(svg: str) -> str:
    """Matplotlib's SVG with its colours as variables that have a value in either scheme."""
    names = {shade.light: f"var(--s{i})" for i, shade in enumerate(SHADES)}
    colours = "|".join(names)
    svg = re.sub(rf"((?:fill|stroke): )({colours})\b", lambda m: m[1] + names[m[2]], svg)
    light = "".join(f"--s{i}:{shade.light};" for i, shade in enumerate(SHADES))
    dark = "".join(f"--s{i}:{shade.dark};" for i, shade in enumerate(SHADES))
    css = (
        f":root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"
        f"text{{font-family:{FONTS} !important}}"
    )
    return re.sub(r"(<svg [^>]*>)", lambda m: f"{m[1]}<style>{css}</style>", svg, count=1)
