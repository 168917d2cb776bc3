"""What a project's README says of its kernel: every number is taken from the model."""

from __future__ import annotations

from collections.abc import Sequence

from approxnorm.hls_ref.emit.schedule import Pass
from approxnorm.hls_ref.project.tables import named
from approxnorm.model import RMSNorm
from approxnorm.program import Interval
from approxnorm.tables.table import Table
from approxnorm.vectors.signals import ports_of

_AP_TYPES = {
    True: "Xilinx' headers of ap_int are in `csim/ap_types` (Apache-2.0).",
    False: "`make` needs Xilinx' headers of ap_int, which were not found when this was written: say"
    " `make AP_TYPES=FOLDER`, with the include folder of Vitis HLS, or the one of Xilinx'"
    " HLS_arbitrary_Precision_Types on GitHub.",
}
_TB_DATA_TEXT = (
    "- **`tb_data/`**, as hls4ml has it: a row a line, numbers with spaces between."
    " `tb_input_features.dat` and\n  `tb_output_predictions.dat` hold reals (the code is the one"
    " nearest to real / scale + zero point),\n  `tb_input_codes.dat` and `tb_output_codes.dat` the"
    " codes themselves.\n"
)
_KINDS = (", made so that every wrong bit shows", " of your own data")
_RESIDUAL_ROW = (
    "| `residual/` | for each set of vectors `a.hex` and `b.hex`, whose sum is its x |\n"
)
_TB_DATA_ROW = "| `tb_data/` | the rows of the last one as hls4ml writes them |\n"


def readme_values(
    model: RMSNorm,
    lanes: int,
    passes: list[Pass],
    vectors: Sequence[tuple[str, int]],
    *,
    residual: bool,
    tb_data: bool,
    ap_types: bool,
) -> dict[str, object]:
    """The README's fields, by name. vectors: path and rows of each set, the generated one first."""
    context, beats = model.assembly.context, -(-model.dim // lanes)
    return {
        "title": model.spec.description or f"rows of {model.dim}",
        "digest": model.digest,
        "dim": model.dim,
        "lanes": lanes,
        "beats": beats,
        "passes": len(passes),
        "beat_cycles": len(passes) * beats,
        "vector_set": vectors[0][0],
        "vector_rows": "".join(
            f"| `{path}/` | golden vectors: {rows} rows{_KINDS[i]} |\n"
            for i, (path, rows) in enumerate(vectors)
        ),
        "x_format": model.assembly.x_format,
        "gamma_format": context.gamma,
        "y_format": context.y,
        "ports": _ports(model, lanes, residual),
        "padding": _padding(model.dim, lanes),
        "pass_list": "\n".join(_pass_line(p) for p in passes),
        "signals": _signals(model),
        "tables": _tables(model.assembly.require_datapath().tables()),
        "ap_types_text": _AP_TYPES[ap_types],
        "csim_text": ", and Xilinx' `ap_types`" if ap_types else "",
        "residual_row": _RESIDUAL_ROW if residual else "",
        "tb_data_row": _TB_DATA_ROW if tb_data else "",
        "tb_data_text": _TB_DATA_TEXT if tb_data else "",
    }


def _ports(model: RMSNorm, lanes: int, residual: bool) -> str:
    intervals = {p.name: p.interval for p in ports_of(model)}
    x, y = intervals["x"], intervals["y"]
    lines = [_stream("x_in", "in", lanes, x, "input codes")]
    if residual:
        lines.append(_stream("residual_in", "in", lanes, x, "added to x, in its overflow mode"))
        lines.append(_stream("sum_out", "out", lanes, x, "the sums, which are what is normalised"))
    lines.append(_stream("y_out", "out", lanes, y, "output codes"))
    lines.append("| `rows`, control | AXI4-Lite | 32 | rows of this call; start, done |")
    return "\n".join(lines)


def _stream(name: str, way: str, lanes: int, lane: Interval, what: str) -> str:
    width = f"{lanes} × {lane.width} = {lanes * lane.width}"
    return f"| `{name}` | AXI4-Stream, {way} | {width} | {what}, `{lane.type_name}` a lane |"


def _padding(dim: int, lanes: int) -> str:
    left = -dim % lanes
    if not left:
        return "Its lanes are all used."
    used = lanes - left
    return (
        f"The last one holds {used} element{'s' * (used > 1)}; its other {left}"
        f" lane{'s are' if left > 1 else ' is'} not read, and 0 in y."
    )


def _pass_line(step: Pass) -> str:
    reductions = ", ".join(f"`{n}`" for r in step.reductions for n in r.outputs)
    rows = ", ".join(f"`{s.program.name}`" for s in step.rows)
    made = [f"reduces to {reductions}"] if reductions else []
    made += ["makes y"] if step.last else []
    after = f"; then the row programs {rows}" if rows else ""
    return f"- pass {step.number}: {' and '.join(made)}{after}"


def _signals(model: RMSNorm) -> str:
    return "\n".join(
        f"| `{p.name}` | {p.level} | `{p.interval.type_name}` | {p.interval.lo} | {p.interval.hi} |"
        for p in ports_of(model)
    )


def _tables(tables: list[Table]) -> str:
    if not tables:
        return "None."
    head = "| table | index | entries | bits | signed | fraction bits | bound | origin |"
    rows = [
        f"| `{name}` | `{_cell(t.index_rule)}` | {len(t.entries)} | {t.width} |"
        f" {'yes' if t.signed else 'no'} | {t.frac_bits} | {_cell(t.bound)} | {_cell(t.origin)} |"
        for name, t in named(tables)
    ]
    return "\n".join([head, "|---|---|---|---|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split()) or "none stated"
