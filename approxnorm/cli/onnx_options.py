"""What `export onnx` and `export qonnx` share: options, and what they say of the file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from approxnorm.cli.output import print_line
from approxnorm.cli.usage import integer_in

if TYPE_CHECKING:
    from approxnorm.cli.rows_model import RowsModel

# As approxnorm.export.onnx has them, which must not be imported before it is needed.
OPSET, IR_VERSION = 21, 10
SUFFIX = ".onnx"


class FormOfEnds(StrEnum):
    """What goes in and comes out."""

    CODES = "codes"
    FLOAT = "float"


OutFileOption = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE.onnx", help="The model to write.")
]
FormOption = Annotated[
    FormOfEnds,
    typer.Option(help="Integer codes in and out, or float32 with quantisation at the edges."),
]
OpsetOption = Annotated[
    int,
    typer.Option(parser=integer_in(1), metavar="N", help="Opset of the standard operators."),
]
IrOption = Annotated[
    int, typer.Option(parser=integer_in(1), metavar="N", help="IR version of the file.")
]


def check_suffix(out: Path) -> None:
    """Refuse another suffix before any work; ApproxNormError."""
    from approxnorm.errors import ApproxNormError

    if out.suffix.lower() != SUFFIX:
        raise ApproxNormError(f"--out is {str(out)!r}; it must be a file with the suffix {SUFFIX}")


def describe(out: Path, made: Any, chosen: RowsModel, form: FormOfEnds) -> dict[str, Any]:
    """What was written. made: an onnx.ModelProto with one norm."""
    from approxnorm.export.onnx import DOMAIN

    graph, (function,) = made.graph, made.functions
    tables = chosen.model.assembly.require_datapath().tables()
    return {
        "out": str(out),
        "digest": chosen.model.digest,
        "scales": chosen.scales,
        "notes": chosen.notes,
        "form": form.value,
        "op": {"domain": DOMAIN, "name": function.name},
        "inputs": [_value(v) for v in graph.input],
        "outputs": [_value(v) for v in graph.output],
        "parameters": [
            {"name": t.name, "dtype": _dtype(t.data_type), "shape": list(t.dims)}
            for t in graph.initializer
        ],
        "graph_nodes": len(graph.node),
        "body_nodes": len(function.node),
        "table_bits": sum(t.summary()["bits"] for t in tables),
        "opset": next(o.version for o in made.opset_import if not o.domain),
        "ir_version": made.ir_version,
    }


def print_description(done: dict[str, Any]) -> None:
    """The same, for people."""
    for note in done["notes"]:
        print_line(note)
    print_line(f"digest  {done['digest']}")
    for value in done["inputs"]:
        print_line(f"input   {_shown(value)}")
    for value in done["outputs"]:
        print_line(f"output  {_shown(value)}")
    op = done["op"]
    print_line(
        f"node    {op['name']} of domain {op['domain']}, with a body of {done['body_nodes']}"
        " standard operators"
    )
    if done["graph_nodes"] > 1:
        print_line(f"graph   {done['graph_nodes']} nodes, with those that quantise at the edges")
    print_line(f"tables  {done['table_bits']} bits")
    print_line(f"wrote   {done['out']}: opset {done['opset']}, IR version {done['ir_version']}")


def _value(value: Any) -> dict[str, Any]:
    kind = value.type.tensor_type
    axes = [d.dim_param or d.dim_value for d in kind.shape.dim]
    return {"name": value.name, "dtype": _dtype(kind.elem_type), "shape": axes}


def _dtype(element_type: int) -> str:
    from onnx import helper

    return str(helper.tensor_dtype_to_np_dtype(element_type))


def _shown(value: dict[str, Any]) -> str:
    shape = ", ".join(map(str, value["shape"]))
    datatype = f", {value['datatype']}" if "datatype" in value else ""
    return f"{value['name']} {value['dtype']} ({shape}){datatype}"
