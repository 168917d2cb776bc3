"""``approxnorm export onnx``: the norm as an ONNX model."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from approxnorm.cli.onnx_options import (
    IR_VERSION,
    OPSET,
    FormOfEnds,
    FormOption,
    IrOption,
    OpsetOption,
    OutFileOption,
    check_suffix,
    describe,
    print_description,
)
from approxnorm.cli.options import (
    DimOption,
    GammaOption,
    InputOption,
    JsonOption,
    LayerOption,
    SpecArgument,
)
from approxnorm.cli.output import print_json, waiting

_AXIS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[1-9][0-9]{0,8}")


def axes(text: Any) -> tuple[str | int, ...]:
    """The axes before the last: sizes from 1, or names of sizes that are free."""
    given = tuple(part.strip() for part in str(text).split(","))
    if not all(_AXIS.fullmatch(part) for part in given):
        raise typer.BadParameter(
            f"found {text!r}; allowed: sizes from 1 and names, separated by commas"
        )
    return tuple(int(part) if part.isdigit() else part for part in given)


def onnx(
    spec: SpecArgument,
    out: OutFileOption,
    form: FormOption = FormOfEnds.CODES,
    opset: OpsetOption = OPSET,
    ir_version: IrOption = IR_VERSION,
    leading: Annotated[
        Any,
        typer.Option(
            parser=axes,
            metavar="AXIS,AXIS",
            help="Axes before the last: a name where the size is free, or a size.",
        ),
    ] = "batch,sequence",
    dim: DimOption = None,
    gamma: GammaOption = None,
    input: InputOption = None,
    layer: LayerOption = None,
    json: JsonOption = False,
) -> None:
    """Write an ONNX model with the norm as one node, whose body is standard operators.

    ONNX Runtime, onnx.reference and QONNX run it, bit for bit as the NumPy model. Open scales are
    calibrated on --input; without it they are nominal, with a warning.
    """
    from approxnorm.cli.rows_model import choose_model
    from approxnorm.export.onnx import onnx_model
    from approxnorm.export.onnx.write import save

    check_suffix(out)
    chosen = choose_model(spec, dim, gamma, input, layer, None)
    with waiting("writing the model"):
        made = onnx_model(
            chosen.model, form=form.value, opset=opset, ir_version=ir_version, leading=leading
        )
        save(made, out)
    done = describe(out, made, chosen, form)
    if json:
        print_json(done)
    else:
        print_description(done)
