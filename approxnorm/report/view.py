"""The results as tables of text, which the template only lays out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, Literal

from approxnorm.metrics.chain import CAUSES
from approxnorm.report.bounds import by_condition, sentences
from approxnorm.report.numbers import DASH, clean, count, fixed, is_number, real, share, shortened
from approxnorm.report.signals import signal_widths

Layer = dict[str, Any]
Results = dict[str, Any]

NAME_LENGTH = 60


@dataclass(frozen=True)
class Cell:
    """A table's cell; ``marked`` is "worst" or "bad", or "" for an ordinary one."""

    text: str
    marked: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class Row:
    """A row: ``head`` names it, ``full`` is the name without shortening."""

    head: str
    full: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Grid:
    """A table: ``groups`` are (heading, number of columns), empty where there are none."""

    caption: str
    corner: str
    groups: tuple[tuple[str, int], ...]
    headers: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def starts(self) -> set[int]:
        """The first column of each group but the first: a gap stands before it."""
        return set(accumulate(columns for _, columns in self.groups[:-1]))


@dataclass(frozen=True)
class Column:
    """A column: what it reads from a layer, how it is written, what is the worst, what is bad."""

    header: str
    group: str
    read: Callable[[Layer], Any]
    write: Callable[[Any], str] = real
    worst: Literal["high", "low", "far", ""] = ""
    is_text: bool = False
    is_bad: Callable[[Layer], bool] | None = None


def errors_grid(layers: Sequence[Layer]) -> Grid:
    """Every layer's error against exact arithmetic and against fp32."""
    exact, fp32 = "against exact arithmetic", "against fp32"
    columns = [
        Column("max, LSB", exact, _at("against_exact", "max_abs_lsb"), worst="high"),
        Column("mean, LSB", exact, _at("against_exact", "mean_abs_lsb"), worst="high"),
        Column("rms, LSB", exact, _at("against_exact", "rms_lsb"), worst="high"),
        Column("bias, LSB", exact, _at("against_exact", "bias_lsb"), worst="far"),
        Column("max rel.", exact, _at("against_exact", "max_rel"), worst="high"),
        Column("SQNR, dB", exact, _at("against_exact", "sqnr_db"), _decibel, "low"),
        Column("cosine", exact, _at("against_exact", "cosine"), _cosine, "low"),
        Column("max, LSB", fp32, _at("against_fp32", "max_abs_lsb"), worst="high"),
        Column("rms, LSB", fp32, _at("against_fp32", "rms_lsb"), worst="high"),
        Column("SQNR, dB", fp32, _at("against_fp32", "sqnr_db"), _decibel, "low"),
        Column("cosine", fp32, _at("against_fp32", "cosine"), _cosine, "low"),
    ]
    note = "Bold: the worst layer of the column." if len(layers) > 1 else ""
    return _grid("Output error of each layer", columns, layers, note)


def codes_grid(layers: Sequence[Layer]) -> Grid:
    """Every layer's size and formats, and how many codes became zero or saturated."""
    columns = [
        Column("rows", "size", _at("rows"), count),
        Column("dim", "size", _at("dim"), count),
        Column("format", "input x", _at("x", "format"), _short, is_text=True),
        Column("zero codes", "input x", _share("x", "zero_codes"), _as_share, "high"),
        Column("zero rows", "input x", _at("x", "zero_rows"), count, "high"),
        Column("saturated", "input x", _share("x", "saturated"), _as_share, "high"),
        *_row_exponent_columns(layers),
        *_accumulator_columns(layers),
        Column("format", "output y", _at("y", "format"), _short, is_text=True),
        Column("zero codes", "output y", _share("y", "zero_codes"), _as_share, "high"),
        Column("saturated", "output y", _share("y", "saturated"), _as_share, "high"),
    ]
    notes = ["Bold: the worst layer of the column."] if len(layers) > 1 else []
    if any(map(_overflows, layers)):
        notes.append(
            "The accumulator is too narrow for rows marked as overflowed, whose results are wrong: "
            "the data need the bits that are named."
        )
    caption = "Formats, zero codes and saturated codes of each layer"
    return _grid(caption, columns, layers, " ".join(notes))


def _accumulator_columns(layers: Sequence[Layer]) -> list[Column]:
    """Whether the sums fit an accumulator narrower than derived, if any layer has one."""
    if not any(layer.get("accumulator") for layer in layers):
        return []
    group = "accumulator"
    return [
        Column("bits", group, _at(group, "bits"), count),
        Column("bits needed", group, _at(group, "bits_needed"), count, is_bad=_overflows),
        Column("rows overflowed", group, _at(group, "overflowed_rows"), count, is_bad=_overflows),
    ]


def _overflows(layer: Layer) -> bool:
    return bool(_at("accumulator", "overflowed_rows")(layer))


def _row_exponent_columns(layers: Sequence[Layer]) -> list[Column]:
    """What a row exponent leaves of x, if any layer has one."""
    if not any(layer.get("x_row") for layer in layers):
        return []
    group = "x after row exponent"
    return [
        Column("zero codes", group, _share("x_row", "zero_codes"), _as_share, "high"),
        Column("saturated", group, _share("x_row", "saturated"), _as_share, "high"),
    ]


def causes_of(layers: Iterable[Layer]) -> list[str]:
    """The causes that any layer's split holds, the known ones first in datapath order."""
    found = {cause: None for layer in layers for cause in layer.get("split") or {}}
    extra = [cause for cause in found if cause not in CAUSES]
    return [cause for cause in CAUSES if cause in found] + extra


def causes_grid(layers: Sequence[Layer]) -> Grid:
    """The rms and largest error of each cause, for each layer."""
    columns = [
        Column(header, cause.replace("_", " "), _at("split", cause, key), worst="high")
        for cause in causes_of(layers)
        for header, key in (("rms", "rms_lsb"), ("max", "max_abs_lsb"))
    ]
    note = "In LSB of y." + (" Bold: the worst layer of the column." if len(layers) > 1 else "")
    return _grid("Output error of each layer by cause", columns, layers, note)


def bounds_grids(layers: Sequence[Layer]) -> list[Grid]:
    """The proven worst case of each layer and its parts: a table for each condition it has."""
    return [_bounds_grid(condition, bounded) for condition, bounded in by_condition(layers)]


def _bounds_grid(condition: str, layers: Sequence[Layer]) -> Grid:
    parts = {part: None for layer in layers for part in layer["bound"].get("parts") or {}}
    columns = [
        Column("bound, LSB", "in all", _at("bound", "lsb"), worst="high"),
        *(
            Column(part.replace("_", " "), "of which, LSB", _at("bound", "parts", part))
            for part in parts
        ),
    ]
    note = clean(" ".join(sentences(layers)))
    return _grid(f"Proven worst case of each layer{condition}", columns, layers, note)


def tables_grid(results: Results) -> Grid:
    """The look-up tables: size, index rule, bound and origin."""
    rows = [
        Row(
            shortened(table.get("name", ""), NAME_LENGTH),
            clean(table.get("name", "")),
            (
                Cell(count(table.get("entries"))),
                Cell(count(table.get("width"))),
                Cell(count(table.get("stored_width"))),
                Cell(count(table.get("bits"))),
                *(_text(table.get(key)) for key in ("index_rule", "bound", "origin")),
            ),
        )
        for table in results.get("tables") or []
    ]
    headers = ("entries", "width", "stored", "bits", "index", "error bound", "origin")
    note = (
        "Width: bits of an entry as it is read. Stored: its columns that are not the same in every "
        "entry. Bits: entries times stored columns."
    )
    own = [(layer.get("hardware") or {}).get("tables") for layer in results["layers"]]
    if any(tables not in (None, results.get("tables")) for tables in own):
        note += " Layers differ in their tables; these are the first layer's."
    return Grid("Look-up tables", "table", (), headers, tuple(rows), note)


def signals_grid(layers: Sequence[Layer]) -> Grid:
    """Every signal's level, type, width and range."""
    rows = [
        Row(
            shortened(signal.name, NAME_LENGTH),
            signal.name,
            (
                Cell(signal.level, is_text=True),
                Cell(shortened(signal.type, NAME_LENGTH), is_text=True),
                Cell(signal.spread),
                Cell(count(signal.lo)),
                Cell(count(signal.hi)),
            ),
        )
        for signal in signal_widths(layers)
    ]
    headers = ("level", "type", "bits", "lowest", "highest")
    note = "Where layers differ: type and range of the layer in which the signal is widest."
    return Grid("Signals", "signal", (), headers, tuple(rows), note)


def conformance_grid(results: Results) -> Grid:
    """Every backend's codes compared with the model's, if the results hold the comparison."""
    backends = (results.get("conformance") or {}).get("backends") or {}
    rows = []
    for name, compared in backends.items():
        wrong = compared.get("mismatches")
        verdict = DASH if wrong is None else "equal" if wrong == 0 else "different"
        mark = "bad" if wrong else ""
        rows.append(
            Row(
                shortened(name, NAME_LENGTH),
                clean(name),
                (
                    Cell(count(compared.get("rows"))),
                    Cell(count(compared.get("codes"))),
                    Cell(count(wrong), mark),
                    Cell(verdict, mark, is_text=True),
                ),
            )
        )
    headers = ("rows", "codes", "mismatches", "result")
    return Grid("Backends against the NumPy model", "backend", (), headers, tuple(rows))


def layer_conformance_grid(layers: Sequence[Layer]) -> Grid:
    """Every layer's codes and mismatches for each backend, and below each first difference."""
    compared = [layer for layer in layers if layer.get("conformance")]
    names = {name: None for layer in compared for name in _at(*_BACKENDS)(layer) or {}}
    columns = [
        column
        for name in names
        for column in (
            Column("codes", clean(name), _at(*_BACKENDS, name, "codes"), count),
            Column(
                "mismatches",
                clean(name),
                _at(*_BACKENDS, name, "mismatches"),
                count,
                is_bad=_differs(name),
            ),
        )
    ]
    lines = [_at(*_BACKENDS, name, "line")(layer) for layer in compared for name in names]
    note = " ".join(clean(line) for line in lines if line)
    return _grid("Mismatches of each layer", columns, compared, note)


_BACKENDS = ("conformance", "backends")


def _differs(backend: str) -> Callable[[Layer], bool]:
    mismatches = _at(*_BACKENDS, backend, "mismatches")
    return lambda layer: bool(mismatches(layer))


def tiles(results: Results) -> list[tuple[str, str, str]]:
    """The headline numbers: (label, value, remark)."""
    layers = results["layers"]
    found = [
        _worst_tile(layers, "Largest error", ("against_exact", "max_abs_lsb"), max, _lsb),
        _worst_tile(layers, "Largest rms error", ("against_exact", "rms_lsb"), max, _lsb),
        _worst_tile(layers, "Lowest SQNR", ("against_exact", "sqnr_db"), min, _with_db),
        _worst_tile(layers, "Lowest cosine to fp32", ("against_fp32", "cosine"), min, _cosine),
    ]
    rsqrt = results.get("rsqrt") or {}
    if rsqrt:
        method = _short(rsqrt.get("method"))
        found.append(("rsqrt, max relative error", real(rsqrt.get("max_rel")), method))
    if results.get("tables") or "table_bits" in rsqrt:
        sizes = [table.get("bits") for table in results.get("tables") or []]
        bits = sum(s for s in sizes if isinstance(s, int)) if sizes else rsqrt.get("table_bits")
        found.append(
            ("Table bits", count(bits), f"in {_plural(len(sizes), 'table')}" if sizes else "")
        )
    multipliers = results.get("multipliers") or {}
    for level in ("element", "row"):
        if level in multipliers:
            found.append((f"Multipliers per {level}", count(multipliers[level]), ""))
    return found


def layer_details(layer: Layer) -> dict[str, Any]:
    """One layer's facts, calibration notes and resolved spec."""
    facts = [
        ("Rows × dim", f"{count(layer.get('rows'))} × {count(layer.get('dim'))}"),
        ("Codes", count(layer.get("codes"))),
        ("eps", real(layer.get("eps"))),
        ("Folder", clean(layer["folder"]) if layer.get("folder") else DASH),
        ("Digest", clean(layer["digest"]) if layer.get("digest") else DASH),
        *_onnx_facts(layer.get("onnx") or {}),
    ]
    notes = layer.get("calibration") or []
    lines = [notes] if isinstance(notes, str) else list(notes)
    return {
        "name": clean(layer.get("name", "")),
        "short": shortened(layer.get("name", ""), 100),
        "facts": facts,
        "notes": [clean(line) for line in lines],
        "bound": clean(text) if (text := _at("bound", "text")(layer)) else "",
        "spec": _spec_text(layer.get("spec")),
    }


def _onnx_facts(files: dict[str, Any]) -> list[tuple[str, str]]:
    """A layer's ONNX files, if it has any."""
    if not files:
        return []
    return [
        ("ONNX, codes to codes", _short(files.get("codes"))),
        ("ONNX, float32 to float32", _short(files.get("float"))),
        ("ONNX opset", count(files.get("opset"))),
        ("ONNX IR version", count(files.get("ir_version"))),
    ]


def multiplier_text(results: Results) -> str:
    """ "3 per element, 2 per row", or "" if the results do not say."""
    found = (results.get("multipliers") or {}).items()
    return ", ".join(f"{count(number)} per {clean(level)}" for level, number in found)


def rsqrt_facts(results: Results) -> list[tuple[str, str]]:
    """The rsqrt stage in numbers, empty if the results have none."""
    rsqrt = results.get("rsqrt") or {}
    if not rsqrt:
        return []
    return [
        ("Method", _short(rsqrt.get("method"))),
        ("Max relative error", real(rsqrt.get("max_rel"), 4)),
        ("at m", real(rsqrt.get("argmax"), 5)),
        ("Mean relative error", real(rsqrt.get("mean_rel"))),
        ("Table bits, stage alone", count(rsqrt.get("table_bits"))),
    ]


def heading(results: Results) -> dict[str, Any]:
    """Title, and the facts that identify the run."""
    layers = results["layers"]
    rows, codes = ([layer.get(key) or 0 for layer in layers] for key in ("rows", "codes"))
    facts = [
        ("Spec", _short(results.get("spec_name"))),
        ("Input", clean(results["input"]) if results.get("input") else DASH),
        ("Layers", count(len(layers))),
        ("Rows", count(sum(rows))),
        ("Output codes", count(sum(codes)) if any(codes) else DASH),
    ]
    return {
        "title": shortened(results.get("title") or "approxnorm report", 120),
        "description": shortened(results["description"], 400) if results.get("description") else "",
        "facts": facts,
    }


def _grid(caption: str, columns: Sequence[Column], layers: Sequence[Layer], note: str) -> Grid:
    worst = [_worst(column, [column.read(layer) for layer in layers]) for column in columns]
    rows = []
    for layer in layers:
        cells = []
        for column, text in zip(columns, worst, strict=True):
            written = column.write(column.read(layer))
            mark = "worst" if written == text else ""
            if column.is_bad is not None and column.is_bad(layer):
                mark = "bad"
            cells.append(Cell(written, mark, column.is_text))
        name = layer.get("name", "")
        rows.append(Row(shortened(name, NAME_LENGTH), clean(name), tuple(cells)))
    groups = tuple((g, len(list(c))) for g, c in groupby(columns, key=lambda column: column.group))
    return Grid(caption, "layer", groups, tuple(c.header for c in columns), tuple(rows), note)


def _worst(column: Column, values: Sequence[Any]) -> str | None:
    """The worst value as it is written; None if no layer stands out in what is written."""
    known = [(badness, v) for v in values if (badness := _badness(column, v)) is not None]
    if not column.worst or len({column.write(value) for _, value in known}) < 2:
        return None
    return column.write(max(known, key=lambda pair: pair[0])[1])


def _badness(column: Column, value: Any) -> float | None:
    number = value[0] / value[1] if isinstance(value, tuple) else value
    if not is_number(number):
        return None
    return float(-number if column.worst == "low" else abs(number))


def _at(*keys: str) -> Callable[[Layer], Any]:
    """A reader of a nested value, None where any part of the way is missing."""

    def read(layer: Layer) -> Any:
        value: Any = layer
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    return read


def _share(side: str, key: str) -> Callable[[Layer], Any]:
    """A reader of (part, whole), None where either is missing or the whole is 0."""
    part, whole = _at(side, key), _at(side, "codes")

    def read(layer: Layer) -> Any:
        pair = part(layer), whole(layer)
        return pair if is_number(pair[0]) and is_number(pair[1]) and pair[1] > 0 else None

    return read


def _worst_tile(
    layers: Sequence[Layer],
    label: str,
    keys: tuple[str, str],
    choose: Callable[..., Any],
    write: Callable[[Any], str],
) -> tuple[str, str, str]:
    known = [layer for layer in layers if is_number(_at(*keys)(layer))]
    if not known:
        return label, DASH, "not defined"
    layer = choose(known, key=_at(*keys))
    name = shortened(layer.get("name", ""), 40) if len(layers) > 1 else ""
    return label, write(_at(*keys)(layer)), name


def _text(value: Any) -> Cell:
    return Cell(_short(value), is_text=True)


def _short(value: Any) -> str:
    return DASH if value in (None, "") else shortened(value, 160)


def _as_share(value: Any) -> str:
    return DASH if value is None else share(*value)


def _decibel(value: Any) -> str:
    return fixed(value, 1)


def _with_db(value: Any) -> str:
    return f"{_decibel(value)} dB"


def _lsb(value: Any) -> str:
    return f"{real(value)} LSB"


def _cosine(value: Any) -> str:
    return fixed(value, 7)


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _spec_text(spec: Any) -> str:
    """The resolved spec as it was written, or as indented JSON."""
    if spec in (None, "", {}):
        return ""
    if isinstance(spec, str):
        return spec
    return json.dumps(spec, indent=2, ensure_ascii=False, default=str)
