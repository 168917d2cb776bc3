"""The model that golden vectors and hardware are made of, as a command's options choose it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

    from approxnorm.model import RMSNorm

NOMINAL = "scales are nominal, not calibrated: give --input for vectors of your own layer"


@dataclass(frozen=True)
class RowsModel:
    """A model, what was chosen for it, and the user's own rows if there are any.

    codes: (rows, dim) input codes of --input, or None for rows that are to be generated.
    scales: where open numbers came from: "spec" (none was open), "input" or "nominal".
    """

    model: RMSNorm
    codes: np.ndarray | None
    scales: Literal["spec", "input", "nominal"]
    notes: list[str]


def choose_model(
    spec: str,
    dim: int | None,
    gamma: Path | None,
    input: Path | None,
    layer: str | None,
    rows: int,
) -> RowsModel:
    """The model of SPEC: calibrated on --input, whose first rows are taken, or without data.

    Without --input open scales are nominal, with a warning. Raises ApproxNormError for options
    that do not fit together, a spec or file that cannot be used, and a dim that stays open.
    """
    from approxnorm.cli.models import check_layer_option

    check_layer_option(layer, input)
    if input is None:
        return _without_data(spec, dim, gamma)
    return _of_input(spec, dim, gamma, input, layer, rows)


def _without_data(source: str, dim: int | None, gamma_path: Path | None) -> RowsModel:
    from approxnorm.cli.models import model_of_spec, read_gamma, spec_of_dim
    from approxnorm.cli.nominal import nominal, nominal_gamma
    from approxnorm.errors import ApproxNormError
    from approxnorm.spec import load_spec

    gamma = read_gamma(gamma_path)
    spec = spec_of_dim(load_spec(source), dim, gamma)
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


def _of_input(
    source: str,
    dim: int | None,
    gamma_path: Path | None,
    path: Path,
    name: str | None,
    rows: int,
) -> RowsModel:
    from approxnorm.cli.models import model_of_layer, pick_layer, read_gamma, spec_of_dim
    from approxnorm.run.job import first_rows, with_gamma
    from approxnorm.spec import load_spec

    spec = spec_of_dim(load_spec(source), dim, None)
    layer, notes = with_gamma(pick_layer(path, name), read_gamma(gamma_path))
    model, more = model_of_layer(spec, layer)
    taken = first_rows(layer, rows)
    codes = taken if layer.is_codes else model.quantize(taken)
    return RowsModel(model, codes, "input", notes + more)
