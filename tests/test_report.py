"""The HTML report: complete, self-contained, safe, the same bytes for the same results."""

import base64
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

from approxnorm.errors import ApproxNormError
from approxnorm.report import write_report
from approxnorm.report.hardware_plots import curve_points, envelope
from approxnorm.report.layer_plots import (
    MOST_PANELS,
    MOST_ROWS,
    histogram_figure,
    log_ticks,
    occupied_range,
    shown_layers,
    square_shares,
)
from approxnorm.report.numbers import clean, count, fixed, real, share, shortened
from approxnorm.report.signals import signal_widths
from approxnorm.report.svg import data_uri, house_style, themed
from approxnorm.report.view import causes_of, errors_grid, tables_grid

ROOT = Path(__file__).resolve().parent.parent
CAUSES = ["input_quantization", "statistic", "rsqrt", "gamma", "output_rounding"]
VOID = {"meta", "img", "wbr", "br", "link", "input", "hr"}
HOSTILE = '<script>alert("1")</script> & $x_1$ $\\frac{$ \'"><img src=x onerror=alert(2)> '


def errors(rng: np.random.Generator, size: float) -> dict[str, Any]:
    return {
        "max_abs_lsb": size * 5,
        "mean_abs_lsb": size * 0.8,
        "bias_lsb": float(rng.normal()) * size / 50,
        "rms_lsb": size,
        "sqnr_db": 50 - 20 * math.log10(size),
        "cosine": 1 - 1e-5 * size,
        "max_rel": min(1.0, size),
    }


def codes(form: str, n: int, zero: int, saturated: int) -> dict[str, Any]:
    return {
        "format": form,
        "codes": n,
        "zero_codes": zero,
        "zero_rows": zero // 900,
        "saturated": saturated,
    }


def layer(index: int, rng: np.random.Generator) -> dict[str, Any]:
    size = float(0.3 + rng.random())
    noise = rng.normal(0, size, 40_000).clip(-7.99, 7.99)
    edges = np.linspace(-8, 8, 65)
    widths = {"x": 16, "gamma": 12, "square": 31, "sum": 40 + index % 3, "mantissa": 15, "y": 16}
    levels = {"gamma": "channel", "sum": "row", "mantissa": "row"}
    return {
        "name": f"layers_{index}_input_layernorm",
        "folder": f"layers_{index}_input_layernorm",
        "rows": 64,
        "dim": 576,
        "eps": 1e-5,
        "digest": f"{index:064x}",
        "calibration": [f"x: scale 2^-{index % 9}, so that the largest |x| fits", "y: as given"],
        "codes": 64 * 576,
        "against_exact": errors(rng, size),
        "against_fp32": errors(rng, size * 1.1),
        "split": {cause: errors(rng, size / (i + 2)) for i, cause in enumerate(CAUSES)},
        "histogram": {
            "edges_lsb": edges.tolist(),
            "counts": np.histogram(noise, edges)[0].tolist(),
        },
        "x": codes("int24 scale=2^-14 RND_CONV SAT", 64 * 576, 1000 * (index % 3), 2),
        "x_row": codes("16 bits, scale of x times a power of two a row", 64 * 576, 1234, 0),
        "y": codes("ap_fixed<16,6,RND_CONV,SAT>", 64 * 576, 40, 0),
        "bound": {
            "lsb": 0.913 + index,
            "parts": {"output_rounding": 0.5, "rsqrt": 0.413 + index},
            "text": f"at most {0.913 + index} LSB (eps 0) from exact arithmetic on x's codes",
        },
        "signals": [
            {
                "name": name,
                "level": levels.get(name, "element"),
                "type": f"ap_int<{width}>",
                "width": width,
                "lo": -(1 << (width - 1)),
                "hi": (1 << (width - 1)) - 1,
            }
            for name, width in widths.items()
        ],
        "spec": {"norm": "rmsnorm", "dim": 576, "rsqrt": {"method": "linear", "segments": 8}},
    }


def results(layers: int = 3, seed: int = 0) -> dict[str, Any]:
    """Results as the main job has them, with made-up numbers."""
    rng = np.random.default_rng(seed)
    m = np.linspace(1, 4, 2048, endpoint=False)
    error = 8e-4 * np.sin(16 * np.pi * m) / m
    table = {"name": "rsqrt_c0", "entries": 16, "width": 11, "stored_width": 10, "bits": 160}
    table |= {"index_rule": "{parity, frac[14:12]}", "bound": "max rel 8.7e-4 over [1, 4)"}
    return {
        "title": "approxnorm: demo-16bit on activations.npz",
        "spec_name": "demo-16bit",
        "description": "16-bit data with a row exponent",
        "input": "activations.npz",
        "layers": [layer(i, rng) for i in range(layers)],
        "rsqrt": {
            "method": "linear",
            "table_bits": 272,
            "max_rel": 8.7451e-4,
            "mean_rel": 1.2e-5,
            "argmax": 2.125,
            "curve": {"m": m.tolist(), "rel_error": error.tolist()},
        },
        "multipliers": {"element": 3, "row": 2},
        "tables": [{**table, "origin": "minimax pairs, rsqrt, 8 segments an octave"}],
    }


class Page(HTMLParser):
    """A strict reader of our own HTML: balanced tags, attributes by tag, text by table."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.tables: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._caption = ""
        self.feed(html)
        self.close()
        assert self.open == [], "unclosed tags"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice"
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("th", "td"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.text += data
        if "caption" in self.open:
            self._caption += data
        elif self.open and self.open[-1] in ("th", "td"):
            self._rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def images(self) -> list[ET.Element]:
        prefix = "data:image/svg+xml;base64,"
        sources = [image["src"] for image in self.all("img")]
        assert all(source.startswith(prefix) for source in sources)
        return [ET.fromstring(base64.b64decode(source[len(prefix) :])) for source in sources]


def page(tmp_path: Path, data: dict[str, Any]) -> Page:
    write_report(data, tmp_path / "report.html")
    return Page((tmp_path / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of ordinary results, which writing it leaves as they are."""
    data = results()
    written = page(tmp_path_factory.mktemp("plain"), data)
    assert data == results()
    return written


def svg_texts(image: ET.Element) -> list[str]:
    return ["".join(e.itertext()) for e in image.iter("{http://www.w3.org/2000/svg}text")]


def size(image: ET.Element) -> tuple[float, float]:
    width, height = map(float, image.attrib["viewBox"].split()[2:])
    return width, height


def test_report_has_every_part(plain: Page) -> None:
    assert plain.tags[0][0] == "html"
    titles = [attributes["id"] for attributes in plain.all("section")]
    assert titles == ["errors", "codes", "causes", "rsqrt", "hardware", "layers", "definitions"]
    assert len(plain.images()) == 5
    for text in [
        "demo-16bit",
        "activations.npz",
        "3 per element, 2 per row.",
        "y: as given",
        "at most 1.913 LSB",
        "statistic's error is not in the bound",
        "y is at most this far from exact arithmetic on x's codes.",
    ]:
        assert text in plain.text
    assert '"segments": 8' in plain.text
    assert "16-bit data with a row exponent" in plain.text


def test_table_cells_are_the_results(tmp_path: Path) -> None:
    data = results()
    first = data["layers"][0]
    first["against_exact"] = {
        "max_abs_lsb": 12.345,
        "mean_abs_lsb": 0.25,
        "rms_lsb": 0.75,
        "bias_lsb": -0.0123,
        "max_rel": 0.5,
        "sqnr_db": 61.27,
        "cosine": 0.99999911,
    }
    first["against_fp32"] |= {"max_abs_lsb": 13.0, "rms_lsb": 0.8, "sqnr_db": 60, "cosine": 0.5}
    tables = page(tmp_path, data).tables
    errors_table = tables["Output error of each layer"]
    assert errors_table[1][:4] == ["max, LSB", "mean, LSB", "rms, LSB", "bias, LSB"]
    assert errors_table[2] == [
        *("layers_0_input_layernorm", "12.3", "0.250", "0.750", "−0.0123", "0.500", "61.3"),
        *("0.9999991", "13.0", "0.800", "60.0", "0.5000000"),
    ]
    formats = tables["Formats, zero codes and saturated codes of each layer"]
    assert formats[3] == [
        *("layers_1_input_layernorm", "64", "576", "int24 scale=2^-14 RND_CONV SAT"),
        *("2.71 %", "1", "< 0.01 %", "3.35 %", "0 %", "ap_fixed<16,6,RND_CONV,SAT>"),
        *("0.11 %", "0 %"),
    ]
    assert tables["Proven worst case of each layer"] == [
        ["layer", "in all", "of which, LSB"],
        ["bound, LSB", "output rounding", "rsqrt"],
        ["layers_0_input_layernorm", "0.913", "0.500", "0.413"],
        ["layers_1_input_layernorm", "1.91", "0.500", "1.41"],
        ["layers_2_input_layernorm", "2.91", "0.500", "2.41"],
    ]
    causes = tables["Output error of each layer by cause"]
    assert causes[0] == ["layer", *(cause.replace("_", " ") for cause in CAUSES)]
    expected = first["split"]["statistic"]
    assert causes[2][3:5] == [real(expected["rms_lsb"]), real(expected["max_abs_lsb"])]
    assert tables["Look-up tables"][1][1:6] == ["16", "11", "10", "160", "{parity, frac[14:12]}"]
    signals = {row[0]: row[1:] for row in tables["Signals"][1:]}
    assert signals["gamma"] == ["channel", "ap_int<12>", "12", "−2,048", "2,047"]
    assert signals["sum"][1:3] == ["ap_int<42>", "40 to 42"]


def test_tiles_name_the_worst_layer(tmp_path: Path) -> None:
    data = results()
    data["layers"][1]["against_exact"]["max_abs_lsb"] = 77.0
    data["layers"][2]["against_exact"]["sqnr_db"] = 3.21
    text = " ".join(re.sub("<[^>]*>", " ", page(tmp_path, data).html).split())
    assert "Largest error 77.0 LSB layers_1_ input_ layernorm" in text
    assert "Lowest SQNR 3.2 dB layers_2_ input_ layernorm" in text
    assert "rsqrt, max relative error 8.75e-4 linear" in text


def test_nothing_is_loaded_and_nothing_runs(plain: Page) -> None:
    forbidden = {"script", "link", "iframe", "object", "embed", "base", "form"}
    assert forbidden & {tag for tag, _ in plain.tags} == set()
    for _, attributes in plain.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("src", "data:").startswith("data:")
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in plain.html and "@import" not in plain.html
    policy = [m["content"] for m in plain.all("meta") if "http-equiv" in m]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    for image in plain.images():
        links = [v for e in image.iter() for n, v in e.attrib.items() if n.endswith("href")]
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)


def test_page_is_accessible(plain: Page) -> None:
    assert plain.all("html") == [{"lang": "en"}]
    assert all(len(image["alt"]) > 40 for image in plain.all("img"))
    assert all(header["scope"] in ("col", "row", "colgroup") for header in plain.all("th"))
    assert len(plain.all("caption")) == len(plain.all("table"))
    names = [attributes["id"] for _, attributes in plain.tags if "id" in attributes]
    assert len(names) == len(set(names))
    assert {link["href"][1:] for link in plain.all("a")} <= set(names)
    levels = [int(tag[1]) for tag, _ in plain.tags if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_figures_follow_the_colour_scheme(plain: Page) -> None:
    for image in plain.images():
        style = next(e.text or "" for e in image.iter() if e.tag.endswith("style"))
        assert "prefers-color-scheme: dark" in style
        drawn = ET.tostring(image, encoding="unicode").split("</ns0:style>", 1)[1]
        assert "#0072b2" not in drawn and "#1d2530" not in drawn and "var(--s" in drawn


def test_only_colours_become_variables() -> None:
    text = themed('<svg a="b">\n<text style="fill: #1d2530">stroke #1d2530</text></svg>')
    assert '<text style="fill: var(--s0)">stroke #1d2530</text>' in text


def test_same_results_same_bytes_in_another_process(tmp_path: Path, plain: Page) -> None:
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from pathlib import Path; from test_report import results, write_report\n"
        "write_report(results(), Path('report.html'))"
    )
    surroundings = {"PYTHONHASHSEED": "77", "SOURCE_DATE_EPOCH": "1", "TZ": "Asia/Tokyo"}
    arguments = [sys.executable, "-c", script, str(ROOT), str(ROOT / "tests")]
    subprocess.run(arguments, cwd=tmp_path, env={**os.environ, **surroundings}, check=True)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == plain.html


def test_other_results_other_bytes(tmp_path: Path, plain: Page) -> None:
    other = results()
    other["rsqrt"]["curve"]["rel_error"][5] += 1e-4  # seen in a figure only
    assert page(tmp_path, other).html != plain.html


def test_users_matplotlib_settings_neither_matter_nor_change(tmp_path: Path, plain: Page) -> None:
    with matplotlib.rc_context({"axes.facecolor": "pink", "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert page(tmp_path, results()).html == plain.html
        assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", [HOSTILE, "层归一化 🦙", "a\x00b\x1b[31m\u202ec\n", ""])
def test_hostile_layer_names_are_only_text(tmp_path: Path, name: str) -> None:
    data = results(2)
    for key in ("name", "folder", "digest"):
        data["layers"][0][key] = name
    data["layers"][0]["calibration"] = [name]
    data["layers"][0]["signals"][0] |= {"name": name, "type": name, "level": name}
    data["layers"][0]["split"][name] = data["layers"][0]["split"]["gamma"]
    data["layers"][0]["spec"] = name
    data |= {"title": name, "spec_name": name, "input": name, "multipliers": {name: 1}}
    data["tables"][0] |= {"name": name, "origin": name}
    data["rsqrt"]["method"] = name
    read = page(tmp_path, data)
    assert not read.all("script") and len(read.all("img")) == 5
    table = read.tables["Output error of each layer"]
    assert table[2][0] == shortened(name, 60)
    assert shortened(name, 44) in svg_texts(read.images()[0])
    assert clean(name) in read.text


def test_long_layer_names_are_shortened_but_not_lost(tmp_path: Path) -> None:
    data = results(2)
    name = "model." + "very_long_" * 60 + "norm"
    data["layers"][1]["name"] = name
    read = page(tmp_path, data)
    assert read.tables["Output error of each layer"][3][0] == shortened(name, 60)
    assert name in [attributes.get("title") for attributes in read.all("summary")]
    assert shortened(name, 44) in svg_texts(read.images()[0])


def test_missing_values_are_dashes(tmp_path: Path) -> None:
    data = results(2)
    first = data["layers"][0]
    first["against_exact"] = dict.fromkeys(first["against_exact"])
    first["against_fp32"] = None
    first["split"] = {cause: dict.fromkeys(values) for cause, values in first["split"].items()}
    first["bound"] = {"lsb": None, "parts": {}, "text": "no bound: y wraps"}
    first |= {"eps": None, "x": {}, "y": None, "histogram": None, "digest": None}
    tables = page(tmp_path, data).tables
    assert tables["Output error of each layer"][2][1:] == ["–"] * 11
    formats = tables["Formats, zero codes and saturated codes of each layer"][2]
    assert formats[3:7] == ["–"] * 4 and formats[9:] == ["–"] * 3
    assert set(tables["Output error of each layer by cause"][2][1:]) == {"–"}
    assert tables["Proven worst case of each layer"][2][1:] == ["–"] * 3


def test_results_with_little_in_them(tmp_path: Path) -> None:
    read = page(tmp_path, {"layers": [{"name": "norm"}]})
    assert read.all("img") == []
    assert "No look-up tables." in read.text
    assert {attributes["id"] for attributes in read.all("section")} == {
        *("errors", "codes", "hardware", "layers", "definitions")
    }


def test_errorless_layer(tmp_path: Path) -> None:
    """All errors 0: nothing to show on a logarithmic axis, and the SQNR is infinite."""
    data = results(1)
    zero = dict.fromkeys(data["layers"][0]["against_exact"], 0.0) | {"sqnr_db": None}
    data["layers"][0] |= {"against_exact": zero, "against_fp32": zero}
    data["layers"][0]["split"] = dict.fromkeys(CAUSES, zero)
    data["rsqrt"] |= {"max_rel": 0.0, "curve": {"m": [1.0, 2.0, 3.0], "rel_error": [0.0] * 3}}
    read = page(tmp_path, data)
    assert len(read.images()) == 5
    assert read.tables["Output error of each layer"][2][1:7] == ["0", "0", "0", "0", "0", "–"]


def test_huge_and_tiny_numbers(tmp_path: Path) -> None:
    data = results(2)
    first, second = data["layers"]
    first["against_exact"] |= {"max_abs_lsb": 1e300, "rms_lsb": 1e290, "mean_abs_lsb": 1e-300}
    first["split"]["statistic"]["rms_lsb"] = 1e300
    first["rows"] = 10**40
    second["against_exact"] |= {"max_abs_lsb": math.inf, "rms_lsb": math.nan, "sqnr_db": -1e9}
    second["signals"][0]["hi"] = 10**400
    data["rsqrt"]["curve"]["rel_error"][3] = 1e30
    read = page(tmp_path, data)
    table = read.tables["Output error of each layer"]
    assert table[2][1:4] == ["1.00e300", "1.00e-300", "1.00e290"]
    assert table[3][1] == "∞" and table[3][3] == "–"
    assert read.tables["Signals"][1][5] == "32,767"  # of the first layer, as wide as the second
    drawn = "".join(text for image in read.images() for text in svg_texts(image))
    assert "$" not in drawn and "mathdefault" not in drawn


def test_many_layers_stay_readable(tmp_path: Path) -> None:
    few, many = page(tmp_path, results(3)).images(), page(tmp_path, results(61)).images()
    names = [f"layers_{i}_input_layernorm" for i in range(61)]
    for position in (0, 1, 2):  # errors, histogram (as a heat map), causes
        assert [t for t in svg_texts(many[position]) if t.startswith("layers_")] == names
        assert size(many[position])[0] == size(few[position])[0]
        assert size(many[position])[1] / 61 >= 14  # points a row, with text of 8.5
    pngs = [e for e in many[1].iter() if e.tag.endswith("image")]
    assert pngs, "the heat map is an image"


def test_too_many_layers_show_the_worst(tmp_path: Path) -> None:
    data = results(MOST_ROWS + 4)
    for i in (7, 50, 51, 90):
        data["layers"][i]["against_exact"]["rms_lsb"] = 1e-3
    shown = [entry["name"] for entry in shown_layers(data["layers"])]
    expected = [i for i in range(MOST_ROWS + 4) if i not in (7, 50, 51, 90)]
    assert shown == [f"layers_{i}_input_layernorm" for i in expected]
    read = page(tmp_path, data)
    assert read.text.count(f"the {MOST_ROWS} of {MOST_ROWS + 4} layers with the largest rms") == 3
    assert len(read.tables["Output error of each layer"]) == 2 + MOST_ROWS + 4


@pytest.mark.parametrize("layers", [1, 2, 4, MOST_PANELS, MOST_PANELS + 1])
def test_histograms_of_any_number_of_layers(layers: int) -> None:
    with house_style():
        uri = data_uri(histogram_figure(results(layers)["layers"]))
    image = ET.fromstring(base64.b64decode(uri.partition(",")[2]))
    names = [text for text in svg_texts(image) if text.startswith("layers_")]
    assert names == [f"layers_{i}_input_layernorm" for i in range(layers)]


def test_single_layer_marks_no_worst(tmp_path: Path) -> None:
    html = page(tmp_path, results(1))
    assert not [a for a in html.all("td") if "worst" in a["class"]]
    assert "open" in html.all("details")[-1]


def test_worst_is_marked_in_each_direction() -> None:
    data = results(3)
    for i, entry in enumerate(data["layers"]):
        entry["against_exact"] = {
            "max_abs_lsb": [1.0, 9.0, 2.0][i],
            "bias_lsb": [-0.5, 0.2, 0.1][i],
            "rms_lsb": [1.0, 1.0, 1.0001][i],  # the same, as it is written
            "sqnr_db": [30.0, 40.0, 20.0][i],
            "cosine": [None, 0.9, 0.8][i],
        }
    grid = errors_grid(data["layers"])
    marks = [[cell.marked for cell in row.cells[:7]] for row in grid.rows]
    assert marks == [
        ["", "", "", "worst", "", "", ""],
        ["worst", "", "", "", "", "", ""],
        ["", "", "", "", "", "worst", "worst"],
    ]


def test_bounds_under_a_condition_have_their_own_table(tmp_path: Path) -> None:
    data = results(3)
    for entry in data["layers"][1:]:
        entry["bound"]["text"] = "at most 1 LSB (rsqrt 1) from x with the statistic's own value: or"
    read = page(tmp_path, data)
    plain_table = read.tables["Proven worst case of each layer"]
    given = read.tables["Proven worst case of each layer, given the statistic's own value"]
    assert [row[0] for row in plain_table[2:]] == ["layers_0_input_layernorm"]
    assert [row[0] for row in given[2:]] == [f"layers_{i}_input_layernorm" for i in (1, 2)]
    assert "y is at most this far from x with the statistic's own value: or. The me" in read.text
    data["layers"][1]["bound"] = {"lsb": None, "parts": {}, "text": "no bound: y wraps"}
    assert "There is no bound: y wraps." in page(tmp_path, data).text


@pytest.mark.parametrize("layers", [1, 2])
def test_an_accumulator_that_overflows_is_marked(tmp_path: Path, layers: int) -> None:
    data = results(layers)
    data["layers"][0]["accumulator"] = {"bits": 24, "bits_needed": 29, "overflowed_rows": 7}
    read = page(tmp_path, data)
    table = read.tables["Formats, zero codes and saturated codes of each layer"]
    assert table[0][4] == "accumulator"
    assert table[1][8:11] == ["bits", "bits needed", "rows overflowed"]
    assert table[2][9:12] == ["24", "29", "7"]
    assert len([a for a in read.all("td") if "bad" in a["class"].split()]) == 2
    assert "The accumulator is too narrow for rows marked as overflowed" in read.text
    data["layers"][0]["accumulator"] |= {"bits_needed": 24, "overflowed_rows": 0}
    read = page(tmp_path, data)
    assert not [a for a in read.all("td") if "bad" in a["class"].split()]
    assert "too narrow" not in read.text


def test_conformance_is_shown_if_there(tmp_path: Path) -> None:
    data = results(1)
    data["conformance"] = {
        "backends": {
            "numba": {"rows": 512, "codes": 294912, "mismatches": 0},
            "<b>onnx</b>": {"rows": 512, "codes": 294912, "mismatches": 3},
        }
    }
    read = page(tmp_path, data)
    assert read.tables["Backends against the NumPy model"][1:] == [
        ["numba", "512", "294,912", "0", "equal"],
        ["<b>onnx</b>", "512", "294,912", "3", "different"],
    ]
    assert len([a for a in read.all("td") if "bad" in a["class"].split()]) == 2


def test_conformance_of_each_layer_is_shown_if_there(tmp_path: Path) -> None:
    data = results(2)
    assert "Mismatches of each layer" not in page(tmp_path, data).tables
    equal = {"codes": 5760, "mismatches": 0, "line": None}
    line = "MISMATCH backend=cpp class=spike row=3 lane=1"
    data["layers"][0]["conformance"] = {"backends": {"numpy": equal, "cpp": equal}}
    wrong = {"codes": 576, "mismatches": 2, "line": line}
    data["layers"][1]["conformance"] = {"backends": {"numpy": equal, "cpp": wrong}}
    data["conformance"] = {"backends": {"cpp": {"rows": 11, "codes": 6336, "mismatches": 2}}}
    read = page(tmp_path, data)
    table = read.tables["Mismatches of each layer"]
    assert table[0][1:] == ["numpy", "cpp"]
    assert [row[1:] for row in table[2:]] == [
        ["5,760", "0", "5,760", "0"],
        ["5,760", "0", "576", "2"],
    ]
    assert len([a for a in read.all("td") if "bad" in a["class"].split()]) == 3
    assert line in read.text


def test_differing_tables_are_told() -> None:
    data = results(2)
    for entry in data["layers"]:
        entry["hardware"] = {"tables": data["tables"]}
    assert "Layers differ" not in tables_grid(data).note
    data["layers"][1]["hardware"] = {"tables": []}
    assert "Layers differ in their tables" in tables_grid(data).note


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ApproxNormError) as caught:
        write_report(results(1), tmp_path / "report.html")
    assert str(caught.value) == (
        "the report needs matplotlib and jinja2; install them with pip install 'approxnorm[report]'"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", [{}, {"layers": []}])
def test_no_layers_is_an_error(tmp_path: Path, data: dict[str, Any]) -> None:
    with pytest.raises(ApproxNormError, match="hold no layer"):
        write_report(data, tmp_path / "report.html")


def test_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("former")
    broken = results(1)
    broken["layers"][0]["histogram"]["counts"][0] = "many"
    with pytest.raises(TypeError):
        write_report(broken, target)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert target.read_text() == "former"


def test_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ApproxNormError, match=r"nowhere/report\.html cannot be written"):
        write_report(results(1), tmp_path / "nowhere" / "report.html")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (True, "–"),
        ("3", "–"),
        (0, "0"),
        (-0.0, "0"),
        (1, "1.00"),
        (-12.345, "−12.3"),
        (9.996, "10.0"),
        (99950, "1.00e5"),
        (99949, "99949"),
        (0.001, "0.00100"),
        (0.0009996, "0.00100"),
        (0.0009994, "9.99e-4"),
        (-1e300, "−1.00e300"),
        (5e-324, "4.94e-324"),
        (10**400, "1.00e400"),
    ],
)
def test_real(value: Any, text: str) -> None:
    assert real(value) == text


def test_other_numbers() -> None:
    assert [count(v) for v in (0, 1234567, -1000, None, 10**15)] == [
        *("0", "1,234,567", "−1,000", "–", "1.00e15")
    ]
    assert [fixed(v, 1) for v in (-0.04, -0.06, 1e12, None, 42)] == [
        *("0.0", "−0.1", "1.00e12", "–", "42.0")
    ]
    pairs = [(0, 5), (5, 5), (1, 10**9), (10**9 - 1, 10**9), (1, 3), (1, 20), (1, 0), (None, 3)]
    assert [share(*pair) for pair in pairs] == [
        *("0 %", "100 %", "< 0.01 %", "> 99.99 %", "33.3 %", "5.00 %", "–", "–")
    ]


def test_shortened_keeps_both_ends() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghijk", 10) == "abcd…ghijk"
    assert shortened(" \n\t", 10) == "(no name)"


def test_square_shares() -> None:
    split = {"a": {"rms_lsb": 3e200}, "b": {"rms_lsb": 4e200}, "c": {"rms_lsb": None}}
    assert square_shares({"split": split}, ["a", "b", "c", "d"]) == pytest.approx([36, 64, 0, 0])
    assert square_shares({}, ["a", "b"]) == [0, 0]


def test_causes_in_datapath_order() -> None:
    layers: list[dict[str, Any]] = [
        {"split": {"own": {}, "output_rounding": {}}},
        {"split": {"statistic": {}}},
        {},
    ]
    assert causes_of(layers) == ["statistic", "output_rounding", "own"]


def test_envelope_keeps_every_extreme() -> None:
    y = np.sin(np.arange(5000.0) ** 2)
    x, low, high = envelope(np.arange(5000.0), y, 700)
    assert len(x) == len(low) == len(high) == 700
    assert low.min() == y.min() and high.max() == y.max()
    assert low[0] == y[:7].min() and x[1] == 7


def test_curve_skips_what_is_undefined() -> None:
    m, error = curve_points({"curve": {"m": [1, 2, 3], "rel_error": [0.5, None, math.nan]}})
    assert m.tolist() == [1] and error.tolist() == [0.5]
    assert [len(a) for a in curve_points({})] == [0, 0]


def test_occupied_range() -> None:
    histogram = {"edges_lsb": [-3, -2, -1, 0, 1, 2, 3], "counts": [0, 4, 0, 9, 0, 0]}
    assert occupied_range([{"histogram": histogram}]) == 2
    histogram["counts"] = [0, 0, 1, 0, 0, 0]
    assert occupied_range([{"histogram": histogram}]) == 1


def test_log_ticks() -> None:
    assert log_ticks(-0.4, 0.8) == [0.5, 1, 2, 5]
    assert log_ticks(-2.1, 1.9) == [0.01, 0.1, 1, 10]
    assert log_ticks(-20, 20) == pytest.approx([10.0**k for k in range(-18, 19, 6)])


def test_signal_widths_merge_layers() -> None:
    def signal(name: str, level: str, width: int) -> dict[str, Any]:
        return {"name": name, "level": level, "type": f"t{width}", "width": width, "lo": 0, "hi": 1}

    first = [signal("sum", "row", 9), signal("x", "element", 8), {"name": "no width"}]
    merged = signal_widths([{"signals": first}, {"signals": [signal("sum", "row", 7)]}, {}])
    assert [(s.name, s.type, s.width, s.narrowest, s.label) for s in merged] == [
        ("x", "t8", 8, 8, "t8"),
        ("sum", "t9", 9, 7, "t9, 7 to 9 bits"),
    ]
