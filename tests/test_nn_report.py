"""report: what layers are, as data and as a table; their error is that of the CLI's measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from norm_modules import GemmaNorm, LlamaNorm
from small_models import small_model
from torch import Tensor, nn

from approxnorm import ApproxNormError, preset
from approxnorm.metrics import LayerErrors
from approxnorm.nn import QuantRMSNorm
from approxnorm.nn.calibration import calibrate
from approxnorm.nn.replace import replace_norms
from approxnorm.nn.reports import report

DIM = 24


def rows(*leading: int, seed: int = 0, size: float = 3.0) -> Tensor:
    return torch.randn(*leading, DIM, generator=torch.Generator().manual_seed(seed)) * size


def model_of(spec: Any, *norms: nn.Module) -> tuple[nn.Sequential, nn.Sequential]:
    """A calibrated model, and the float one that it was."""
    before = nn.Sequential(*(norms or (LlamaNorm(DIM), GemmaNorm(DIM))))
    model = nn.Sequential(*before)
    replace_norms(model, spec)
    calibrate(model, [rows(40)])
    return model, before


def test_a_row_says_what_the_layer_is() -> None:
    spec = preset("outlier4-12bit").replace(channel_shifts={"max_shift": 3})
    model, _ = model_of(spec)
    first, last = report(model).rows
    layer = model[0]
    assert isinstance(layer, QuantRMSNorm)
    assert [first["name"], last["name"]] == ["0", "1"]
    assert (first["dim"], first["eps"], first["row_exponent"]) == (DIM, 1e-5, 12)
    made = layer.model()
    resolved = made.spec
    assert resolved.channel_shifts is not None and resolved.channel_shifts.shifts is not None
    assert first["channel_shifts"] == max(resolved.channel_shifts.shifts)
    for key in ("x", "gamma", "y"):
        assert first[key] == str(getattr(resolved, key).to_format(key))
    for key in ("statistic", "rsqrt", "normalize"):
        assert first[key] == resolved.to_dict()[key]
    assert first["digest"] == made.digest
    assert first["open"] == []
    assert last["normalize"]["order"] == "gemma"
    assert "sqnr_db" not in first


def test_factors_of_y_are_told() -> None:
    spec = preset("int8-linear").replace(y_channel_shifts={"max_shift": 3})
    model, _ = model_of(spec, LlamaNorm(DIM))
    made = report(model, [rows(9)])
    layer = model[0]
    assert isinstance(layer, QuantRMSNorm)
    shifts = layer.spec.y_channel_shifts
    assert shifts is not None and shifts.shifts is not None
    assert made.rows[0]["y_channel_shifts"] == max(shifts.shifts)
    assert f"channel factors to 2^{max(shifts.shifts)}" in str(made)
    assert made.rows[0]["sqnr_db"] > 30


def test_an_open_layer_says_what_is_open() -> None:
    model = nn.Sequential(nn.RMSNorm(DIM))
    replace_norms(model, "int8-lowbit4")
    for made in (report(model), report(model, [rows(3)])):
        (row,) = made.rows
        assert row["digest"] is None
        assert row["x"] == "int8, open scale"
        scales = ["x.scale", "gamma.scale", "y.scale"]
        assert row["open"] == [*scales, "statistic.step_exponent", "statistic.bias"]
        assert "open: x.scale, gamma.scale" in str(made)


@pytest.mark.parametrize("name", ["int8-linear", "int8-log", "outlier4-12bit"])
def test_errors_are_those_on_what_goes_into_the_float_norm(name: str) -> None:
    plain = [LlamaNorm(DIM), LlamaNorm(DIM, 1e-4)]
    model, before = model_of(name, *plain)
    batches = [rows(5, 4, seed=2), rows(7, seed=3)]
    x = torch.cat([batch.reshape(-1, DIM) for batch in batches])
    with torch.no_grad():
        inputs = [x, before[0](x)]
    for i, row in enumerate(report(model, batches).rows):
        layer = model[i]
        assert isinstance(layer, QuantRMSNorm)
        meter = LayerErrors(layer.model(), layer.weight.detach().numpy())
        meter.add(inputs[i].numpy())
        want = meter.result()
        assert row["rows"] == 27
        for key in ("sqnr_db", "max_abs_lsb"):
            assert row[key] == pytest.approx(want["against_fp32"][key], rel=1e-6)
        x_counts = want.get("x_row", want["x"])
        assert row["zero_x"] == x_counts["zero_codes"] / x_counts["codes"]
        assert row["zero_rows"] == x_counts["zero_rows"]
        assert row["saturated_x"] == want["x"]["saturated"]
        assert row["zero_y"] == want["y"]["zero_codes"] / want["y"]["codes"]
        assert row["saturated_y"] == want["y"]["saturated"]


@pytest.mark.filterwarnings("ignore::approxnorm.EpsWarning")
def test_codes_that_became_zero_are_told() -> None:
    """One huge value in the calibration data, and a per-tensor x holds nothing else."""
    model = nn.Sequential(LlamaNorm(DIM))
    replace_norms(model, "int8-linear")
    x = rows(50, size=1.0)
    x[0, 0] = 1e4
    calibrate(model, [x])
    made = report(model, [x[1:]])
    (row,) = made.rows
    assert row["zero_x"] == 1.0
    assert row["zero_rows"] == 49
    assert "100.00%" in str(made)


def test_layers_that_are_not_reached_have_no_error() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = LlamaNorm(DIM), LlamaNorm(DIM)

        def forward(self, x: Tensor, both: bool = False) -> Tensor:
            y: Tensor = self.a(x)
            return self.b(y) if both else y

    model = Branch()
    replace_norms(model, "int8-linear")
    calibrate(model, [(rows(9), True)])
    made = report(model, [rows(4)])
    assert made.rows[0]["rows"] == 4
    assert "rows" not in made.rows[1]
    assert str(made).splitlines()[-1].split()[-4:] == ["-", "-", "-", "-"]


def test_the_table_has_a_line_for_each_layer() -> None:
    small = small_model("gemma")
    replace_norms(small.model, "outlier4-12bit")
    calibrate(small.model, [small.batch])
    made = report(small.model, [small.batch])
    head, _, *lines = str(made).splitlines()
    columns = (
        "layer dim eps x gamma y statistic rsqrt normalize digest SQNR-dB max-LSB x-zero y-zero"
    )
    assert head.split() == columns.replace("-", " ").split()
    assert len(lines) == small.norms
    for line, row in zip(lines, made.rows, strict=True):
        assert line.startswith(row["name"])
        assert row["digest"][:12] in line
        assert f"{row['sqnr_db']:.3g}" in line
        assert row["sqnr_db"] > 30
    assert "SQNR" not in str(report(small.model))


def test_names_are_printed_as_they_are() -> None:
    model = nn.ModuleDict({"[red]x": nn.RMSNorm(DIM)})
    replace_norms(model, "int8-linear")
    assert "[red]x" in str(report(model))


def test_a_report_changes_nothing() -> None:
    model, _ = model_of("int8-linear")
    model.train()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    report(model, [rows(4)])
    assert model.training
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    layer = model[0]
    assert isinstance(layer, QuantRMSNorm)
    assert not layer.calibrating and not layer._forward_pre_hooks


def test_what_cannot_be_reported() -> None:
    with pytest.raises(ApproxNormError, match="the model has no QuantRMSNorm"):
        report(nn.Linear(3, 3))
    model, _ = model_of("int8-linear")
    with pytest.raises(ApproxNormError, match="there are no batches"):
        report(model, [])
    x = rows(3)
    x[2, 2] = np.nan
    with pytest.raises(ApproxNormError, match="layer 0, batch 0: x holds NaN or infinity"):
        report(model, [x])


def test_no_batches_are_refused_by_layers_that_are_open_too() -> None:
    with pytest.raises(ApproxNormError, match="there are no batches"):
        report(QuantRMSNorm(DIM, "int8-linear"), [], progress=False)
