"""The model that golden vectors and hardware are made of, as a command's options choose it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

    from approxnorm.conformance.rows import Rows
    from approxnorm.inputs import Layer
    from approxnorm.model import RMSNorm
    from approxnorm.spec import RMSNormSpec

ONLY_LAYER = "layer"  # of a kernel with run-time ports that is made without data
BLOCK_ELEMENTS = 1 << 20  # codes taken from a file at once
ROWS = 64  # of --input, if --rows does not say otherwise
NOMINAL = "scales are nominal, not calibrated: give --input for vectors of your own layer"


@dataclass(frozen=True)
class RowsModel:
    """A model, what was chosen for it, and the user's own rows if there are any.

    codes: (rows, dim) input codes of --input, or None for rows that are to be generated.
    scales: where open numbers came from: "spec" (none was open), "input" or "nominal".
    layer: of --input, if that was given.
    """

    model: RMSNorm
    codes: np.ndarray | None
    scales: Literal["spec", "input", "nominal"]
    notes: list[str]
    layer: Layer | None = None


def choose_model(
    source: str,
    dim: int | None,
    gamma: Path | None,
    input: Path | None,
    layer: str | None,
    rows: int | None,
    constant: str | None = None,
) -> RowsModel:
    """The model of SPEC: calibrated on --input, whose first rows are taken, or without data.

    rows: of --input, at most; 64 if absent. constant: takes the place of the spec's
    normalize.constant. Without --input open scales are nominal, with a warning. Raises
    ApproxNormError for options that do not fit together, a spec or file that cannot be used, and a
    dim that stays open.
    """
    from approxnorm.cli.models import check_input_options, pick_layer, read_gamma

    check_input_options(input, layer, rows)
    spec = _spec(source, constant)
    if input is None:
        return _without_data(spec, dim, gamma)
    return _of_layer(spec, dim, pick_layer(input, layer), read_gamma(gamma), rows or ROWS)


def choose_layers(
    source: str,
    dim: int | None,
    gamma: Path | None,
    input: Path | None,
    layer: str | None,
    rows: int | None,
    constant: str | None = None,
) -> dict[str, RowsModel]:
    """The models of every layer of --input, or of the one that is named; without it, of SPEC alone.

    By names that folders may have, in the order of the file. They are for one kernel: a constant
    in a table is refused. All else is as in ``choose_model``.
    """
    from approxnorm.cli.models import check_input_options, pick_layer, read_gamma
    from approxnorm.hls_ref.project.arguments import TAKEN
    from approxnorm.inputs import open_activations
    from approxnorm.run.folders import folder_names

    check_input_options(input, layer, rows)
    spec = _spec(source, constant)
    _refuse_tables_of_layers(spec)
    if input is None:
        return {ONLY_LAYER: _without_data(spec, dim, gamma)}
    layers = open_activations(input) if layer is None else [pick_layer(input, layer)]
    names = folder_names([found.name for found in layers], TAKEN)
    codes = read_gamma(gamma)
    return {
        name: _of_layer(spec, dim, found, codes, rows or ROWS)
        for name, found in zip(names, layers, strict=True)
    }


def _spec(source: str, constant: str | None) -> RMSNormSpec:
    from approxnorm.spec import load_spec

    spec = load_spec(source)
    if constant is None:
        return spec
    return spec.replace(normalize=spec.normalize.model_dump() | {"constant": constant})


def _refuse_tables_of_layers(spec: RMSNormSpec) -> None:
    """With the constant in a table, each layer would have tables of its own."""
    from approxnorm.errors import ApproxNormError

    if spec.normalize.resolved(spec.rsqrt.resolved()).constant == "table":
        raise ApproxNormError(
            'normalize.constant is "table", so that each layer would have tables of its own;'
            ' allowed with --runtime: "multiplier" (one multiplication a row) or "gamma" (part of'
            " its codes); add --constant multiplier, or write it below [normalize] in the spec"
        )


def _without_data(spec: RMSNormSpec, dim: int | None, gamma_path: Path | None) -> RowsModel:
    from approxnorm.cli.models import model_of_spec, read_gamma, spec_of_dim
    from approxnorm.cli.nominal import nominal, nominal_gamma
    from approxnorm.errors import ApproxNormError

    gamma = read_gamma(gamma_path)
    spec = spec_of_dim(spec, dim, gamma)
    if spec.dim is None:
        raise ApproxNormError(
            "dim is open in the spec; give --dim N, --gamma G.npy, or --input FILE to calibrate on"
        )
    spec, notes = nominal(spec)
    is_nominal = bool(notes)
    if is_nominal:
        warnings.warn(NOMINAL, stacklevel=1)
    if gamma is None and is_nominal:
        gamma, note = nominal_gamma(spec)
        notes.append(note)
    elif gamma is None:
        notes = ["gamma: none was given; ones are used"]
    return RowsModel(model_of_spec(spec, gamma), None, "nominal" if is_nominal else "spec", notes)


def _of_layer(
    spec: RMSNormSpec, dim: int | None, layer: Layer, gamma: np.ndarray | None, rows: int
) -> RowsModel:
    import numpy as np

    from approxnorm.cli.models import model_of_layer, spec_of_dim
    from approxnorm.layer_model import with_gamma

    layer, notes = with_gamma(layer, gamma)
    model, more = model_of_layer(spec_of_dim(spec, dim, None), layer)
    codes = np.concatenate([np.zeros((0, layer.dim), np.int64), *code_blocks(model, layer, rows)])
    return RowsModel(model, codes, "input", notes + more, layer)


def code_blocks(model: RMSNorm, layer: Layer, rows: int) -> Iterator[np.ndarray]:
    """The codes of a layer's first rows, at most ``rows``, in blocks (n, dim) that fit the memory.

    Raises ApproxNormError, naming file, row and channel, for a code that x's format does not have.
    """
    done = 0
    for block in layer.blocks(max_elements=min(rows * layer.dim, BLOCK_ELEMENTS)):
        taken = block[: rows - done]
        if layer.is_codes:
            _check_codes(model, layer, taken, done)
        yield taken if layer.is_codes else model.quantize(taken).astype("int64")
        done += len(taken)
        if done == rows:
            return


def own_rows(chosen: RowsModel, rows: int) -> Rows | None:
    """The first rows of --input, at most ``rows``, to be made block by block; None without it.

    Raises ApproxNormError as ``code_blocks`` does.
    """
    from approxnorm.conformance.rows import Rows

    layer = chosen.layer
    if layer is None:
        return None
    made = Rows("input", min(rows, layer.rows), lambda: code_blocks(chosen.model, layer, rows))
    if layer.is_codes:  # real numbers were read before, to calibrate on
        for _ in made.blocks():
            pass
    return made


def _check_codes(model: RMSNorm, layer: Layer, block: np.ndarray, first_row: int) -> None:
    from approxnorm.errors import ApproxNormError

    form = model.assembly.x_format
    wrong = (block < form.lo) | (block > form.hi)
    if wrong.any():
        row, channel = divmod(int(wrong.argmax()), layer.dim)
        raise ApproxNormError(
            f"{layer.source}: layer {layer.name} holds the code {block[row, channel]} at row"
            f" {first_row + row}, channel {channel}; allowed in x's format: {form.lo} to {form.hi}"
        )
