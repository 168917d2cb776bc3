"""What a project's README says of its kernel: every number is taken from the model."""

from __future__ import annotations

from collections.abc import Sequence

from approxnorm.hls_ref.emit import Kernel, Pass
from approxnorm.hls_ref.project.tables import named
from approxnorm.program import Interval
from approxnorm.program.datapath import Port
from approxnorm.program.signal import Program
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
_DIGEST_TEXT = """\
The digest covers the resolved spec (in `project.json`), the tables and gamma. The kernel, the
vectors and the bench carry it, and the bench refuses vectors of another."""
ROWS_PORT = (
    "| `rows`, control | AXI4-Lite | 32 | rows of this call, 0 to 2147483647, as an `int`: below 1"
    " no row is read or written; start, done |"
)
_READS_TEXT = """\
Entries and bits are those of one copy. A ROM has two ports: for more reads in a beat the tool needs
copies of it, or a beat takes more than a cycle. Only Vitis' report says which."""
_KINDS = (", made so that every wrong bit shows", " of your own data")
_RESIDUAL_ROW = (
    "| `residual/NAME/` | for the set of vectors NAME: `a.hex` and `b.hex`, whose sum is its x |\n"
)
_TB_DATA_ROW = "| `tb_data/` | the rows of the last set as hls4ml writes them |\n"


def readme_values(
    kernel: Kernel, vectors: Sequence[tuple[str, int]], *, tb_data: bool, ap_types: bool
) -> dict[str, object]:
    """The README's fields, by name; with run-time ports, ``ports_values`` takes some's place.

    vectors: path and rows of each set, the generated one first.
    """
    model, lanes, beats = kernel.first, kernel.lanes, kernel.beats
    passes = len(kernel.passes)
    inner = "LAYER/" if kernel.ports else ""
    return {
        "title": model.spec.description or f"rows of {model.dim}",
        "facts": _facts(kernel),
        "digest_text": _DIGEST_TEXT,
        "layers_section": "",
        "passes": counted(passes, "pass"),
        "beats_formula": f"ceil(dim / lanes) = ceil({model.dim} / {lanes}) = {beats}, beats of a"
        " row",
        "row_latency": passes * beats,
        "row_interval": beats,
        "load_latency": "",
        "vector_set": vectors[0][0],
        "vector_rows": "".join(
            f"| `{path}/{inner}` | golden vectors: {counted(rows, 'row')}{_KINDS[i]} |\n"
            for i, (path, rows) in enumerate(vectors)
        ),
        "ports": "\n".join([*streams(kernel), ROWS_PORT]),
        "row_text": f"A row takes {counted(beats, 'beat')}. {_padding(model.dim, lanes)}",
        "pass_list": "\n".join(_pass_line(p) for p in kernel.passes),
        "signals": "\n".join(signal_row(p) for p in ports_of(model)),
        "signals_text": "The intervals follow from the formats alone, so no width can overflow.",
        "tables": _tables(kernel),
        "ap_types_text": _AP_TYPES[ap_types],
        "csim_text": ", and Xilinx' `ap_types`" if ap_types else "",
        "registers_row": "",
        "residual_row": _RESIDUAL_ROW if kernel.has_residual else "",
        "tb_data_row": _TB_DATA_ROW if tb_data else "",
        "tb_data_text": _TB_DATA_TEXT if tb_data else "",
    }


def _facts(kernel: Kernel) -> str:
    model = kernel.first
    context = model.assembly.context
    row = f"{counted(model.dim, 'element')}, {kernel.lanes} a beat: {counted(kernel.beats, 'beat')}"
    return (
        f"| spec digest | `{model.digest}` |\n"
        f"| x, gamma, y | `{model.assembly.x_format}`, `{context.gamma}`, `{context.y}` |\n"
        f"| row | {row} |"
    )


def streams(kernel: Kernel) -> list[str]:
    """Rows of the table of ports: the streams of elements."""
    ports, lanes = kernel.datapath.ports, kernel.lanes
    x, y = ports["x"].interval, ports[kernel.datapath.output].interval
    lines = [_stream("x_in", "in", lanes, x, "input codes")]
    if kernel.has_residual:
        lines.append(_stream("residual_in", "in", lanes, x, "added to x, in its overflow mode"))
        lines.append(_stream("sum_out", "out", lanes, x, "the sums, which are what is normalised"))
    return [*lines, _stream("y_out", "out", lanes, y, "output codes")]


def _stream(name: str, way: str, lanes: int, lane: Interval, what: str) -> str:
    width = f"{lanes} × {lane.width} = {lanes * lane.width}"
    return f"| `{name}` | AXI4-Stream, {way} | {width} | {what}, `{lane.type_name}` a lane |"


def counted(number: int, noun: str) -> str:
    """A number of things: 1 beat, 2 beats, 3 passes."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number} {noun}{ending}"


def _padding(dim: int, lanes: int) -> str:
    left = -dim % lanes
    if not left:
        return "Its lanes are all used."
    return (
        f"The last one holds {counted(lanes - left, 'element')}; its other {left}"
        f" lane{'s are' if left > 1 else ' is'} not read, and 0 in y."
    )


def _pass_line(step: Pass) -> str:
    reductions = ", ".join(f"`{n}`" for r in step.reductions for n in r.outputs)
    rows = ", ".join(f"`{s.program.name}`" for s in step.rows)
    made = [f"reduces to {reductions}"] if reductions else []
    made += ["makes y"] if step.last else []
    after = f"; then the row programs {rows}" if rows else ""
    return f"- pass {step.number}: {' and '.join(made)}{after}"


def signal_row(port: Port) -> str:
    """A row of the table of signals."""
    span = port.interval
    return f"| `{port.name}` | {port.level} | `{span.type_name}` | {span.lo} | {span.hi} |"


def _tables(kernel: Kernel) -> str:
    tables = kernel.datapath.tables()
    if not tables:
        return "None."
    head = "| table | index | entries | bits | signed | fraction bits | reads | bound | origin |"
    rows = [
        f"| `{name}` | `{cell(t.index_rule)}` | {len(t.entries)} | {t.width} |"
        f" {'yes' if t.signed else 'no'} | {t.frac_bits} | {_reads(kernel, t)} |"
        f" {cell(t.bound)} | {cell(t.origin)} |"
        for name, t in named(tables)
    ]
    return "\n".join([head, "|---|---|---|---|---|---|---|---|---|", *rows, "", _READS_TEXT])


def _reads(kernel: Kernel, table: Table) -> str:
    """How often a table is read: in the passes, all lanes at once, and between them."""
    reads = []
    for step in kernel.passes:
        a_beat = kernel.lanes * sum(_lookups(s.program, table) for s in step.elements)
        a_row = sum(_lookups(s.program, table) for s in step.rows)
        reads += [f"{a_beat} a beat, pass {step.number}"] * bool(a_beat)
        reads += [f"{a_row} a row"] * bool(a_row)
    return "; ".join(reads)


def _lookups(program: Program, table: Table) -> int:
    live = program.needed(i for i, n in enumerate(program.nodes) if n.name is not None)
    nodes = [program.nodes[i] for i in live]
    return sum(n.op == "lookup" and n.attrs["table"] is table for n in nodes)


def cell(text: str) -> str:
    """Text for a cell of a table."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return " ".join(text.replace("|", "\\|").split()) or "none stated"
