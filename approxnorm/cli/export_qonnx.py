"""``approxnorm export qonnx``: the norm as a QONNX model."""

from __future__ import annotations

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


def sizes(text: Any) -> tuple[int, ...]:
    """The axes before the last, all of them known."""
    given = [part.strip() for part in str(text).split(",")]
    if not all(part.isdecimal() and len(part) < 10 and int(part) for part in given):
        raise typer.BadParameter(
            f"found {text!r}; allowed: sizes from 1, separated by commas, since QONNX has static"
            " shapes only"
        )
    return tuple(map(int, given))


def qonnx(
    spec: SpecArgument,
    out: OutFileOption,
    form: FormOption = FormOfEnds.CODES,
    leading: Annotated[
        Any,
        typer.Option(
            parser=sizes, metavar="N,N", help="Sizes of the axes before the last; all are static."
        ),
    ] = "1",
    opset: OpsetOption = OPSET,
    ir_version: IrOption = IR_VERSION,
    dim: DimOption = None,
    gamma: GammaOption = None,
    input: InputOption = None,
    layer: LayerOption = None,
    json: JsonOption = False,
) -> None:
    """Write a QONNX model of the norm: static shapes, and a datatype for every tensor.

    QONNX executes it through approxnorm.export.ops. With --form float, Quant nodes stand at the
    edges; modes that QONNX has no name for are refused.
    """
    from approxnorm.cli.rows_model import choose_model
    from approxnorm.export.onnx.write import save
    from approxnorm.export.qonnx import qonnx_model

    check_suffix(out)
    chosen = choose_model(spec, dim, gamma, input, layer, None)
    with waiting("writing the model"):
        wrapper = qonnx_model(
            chosen.model, form=form.value, leading=leading, opset=opset, ir_version=ir_version
        )
        save(wrapper.model, out)
    done = describe(out, wrapper.model, chosen, form)
    for value in (*done["inputs"], *done["outputs"], *done["parameters"]):
        value["datatype"] = wrapper.get_tensor_datatype(value["name"]).name
    if json:
        print_json(done)
    else:
        print_description(done)
