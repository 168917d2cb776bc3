"""calibrate: what each layer is given is what the rows that reach it ask for, or nothing is set."""

from __future__ import annotations

import io
import warnings
from typing import Any

import brevitas.nn as qnn
import numpy as np
import pytest
import torch
from brevitas.quant import Int8ActPerTensorFixedPoint
from norm_modules import GemmaNorm, LlamaNorm
from small_models import small_model
from torch import Tensor, nn

from approxnorm import ApproxNormError, EpsWarning, GammaWarning, RMSNormSpec, preset
from approxnorm.calibrate import calibrate_array
from approxnorm.nn import QuantRMSNorm
from approxnorm.nn import feed as feed_module
from approxnorm.nn.calibration import calibrate
from approxnorm.nn.replace import replace_norms

DIM = 24


def rows(*leading: int, seed: int = 0, size: float = 3.0) -> Tensor:
    return torch.randn(*leading, DIM, generator=torch.Generator().manual_seed(seed)) * size


class Net(nn.Module):
    """Two norms in a row, then one that only ``long`` input reaches; dropout in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.rare = LlamaNorm(DIM, 1e-4), GemmaNorm(DIM), nn.RMSNorm(DIM)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor, *, long: bool = False) -> Tensor:
        y: Tensor = self.last(4 * self.drop(self.first(x)))
        return self.rare(y) if long else y


def net(spec: RMSNormSpec | str = "outlier4-12bit", skip: str = "rare") -> tuple[Net, Net]:
    """A model with QuantRMSNorms, and the float one that it was."""
    model, before = Net(), Net()
    replace_norms(model, spec, skip=[skip] if skip else [])
    return model, before.eval()


def quantised(model: nn.Module) -> list[QuantRMSNorm]:
    return [module for module in model.modules() if isinstance(module, QuantRMSNorm)]


# --- what is chosen -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["int8-linear", "int8-lowbit4", "outlier4-12bit", "outlier4-top4"])
def test_each_layer_is_calibrated_on_what_reaches_it(name: str) -> None:
    model, before = net(name)
    batches = [rows(5, 3, seed=i, size=2.0**i) for i in range(4)]
    specs = [layer.spec for layer in quantised(model)]
    done = calibrate(model, batches)
    assert list(done) == ["first", "last"]
    x = torch.cat([batch.reshape(-1, DIM) for batch in batches])
    with torch.no_grad():
        inputs = [x, 4 * before.first(x)]
    weights = [before.first.weight, before.last.weight]
    for layer, spec, data, gamma in zip(quantised(model), specs, inputs, weights, strict=True):
        want = calibrate_array(spec, data.numpy(), gamma.detach().numpy())
        assert layer.spec.missing() == []
        assert done[layer.layer_name] == want
        assert (
            layer.spec.to_dict()
            == want.spec.replace(
                x=want.spec.x.with_modes(), gamma=want.spec.gamma.with_modes()
            ).to_dict()
        )


def test_channel_factors_are_chosen() -> None:
    spec = preset("int8-linear").replace(channel_shifts={"max_shift": 4})
    model = nn.Sequential(nn.RMSNorm(DIM))
    replace_norms(model, spec)
    x = rows(50)
    x[:, 3] *= 16
    calibrate(model, [x])
    shifts = quantised(model)[0].spec.channel_shifts
    assert shifts is not None and shifts.shifts is not None
    assert max(shifts.shifts) == shifts.shifts[3] >= 3


def test_calibration_does_not_depend_on_how_rows_are_cut() -> None:
    x = rows(40)
    found = []
    for batches in ([x], list(x.split(7)), [x[:1], x[1:].reshape(3, 13, DIM)], [x[:0], x]):
        model, _ = net()
        found.append(calibrate(model, batches))
    assert found == [found[0]] * len(found)


def test_the_model_runs_as_floats_in_eval_mode() -> None:
    """Dropout is off, errors of one layer do not reach the next, and no gradient is kept."""
    coarse = preset("int8-linear")
    coarse = coarse.replace(y=coarse.y.model_copy(update={"bits": 3}))
    first, _ = net(coarse)
    first.train()
    done = calibrate(first, [rows(30)])
    second, _ = net("int8-linear")
    assert calibrate(second.eval(), [rows(30)])["last"].spec.x == done["last"].spec.x
    assert first.training and first.drop.training and not second.training
    assert all(p.grad is None for p in first.parameters())


def test_modes_of_single_modules_are_kept() -> None:
    model, _ = net()
    model.train()
    model.first.eval()
    calibrate(model, [rows(5)])
    assert [model.training, model.first.training, model.last.training] == [True, False, True]


@pytest.mark.parametrize(
    "batch",
    [
        lambda x: x,
        lambda x: (x,),
        lambda x: [x],
        lambda x: {"x": x},
        lambda x: {"x": x, "long": False},
    ],
)
def test_batches_are_what_the_model_takes(batch: Any) -> None:
    model, _ = net()
    want, _ = net()
    assert calibrate(model, [batch(rows(9))]) == calibrate(want, iter([rows(9)]))


def test_batches_of_a_tokenizer() -> None:
    from transformers import BatchEncoding

    small = small_model("llama")
    replace_norms(small.model, "int8-linear")
    done = calibrate(small.model, [BatchEncoding(small.batch)])
    assert len(done) == small.norms


def test_a_shared_layer_sees_the_rows_of_all_its_places() -> None:
    norm = nn.RMSNorm(DIM)
    model = nn.Sequential(norm, nn.Hardtanh(-0.1, 0.1), norm)
    replace_norms(model, "int8-linear")
    spec = quantised(model)[0].spec
    x = rows(20)
    (done,) = calibrate(model, [x]).values()
    second = nn.functional.hardtanh(norm(x), -0.1, 0.1).detach()
    data = torch.stack([x, second]).numpy()
    assert done == calibrate_array(spec, data, np.ones(DIM))


def test_a_quant_tensor_counts_with_its_value() -> None:
    first = qnn.QuantIdentity(Int8ActPerTensorFixedPoint, return_quant_tensor=True).eval()
    x = rows(20)
    with torch.no_grad():
        first.train()(x)
        value = first.eval()(x).value
    model = nn.Sequential(first, QuantRMSNorm(DIM, "int8-linear"))
    plain = nn.Sequential(QuantRMSNorm(DIM, "int8-linear"))
    assert calibrate(model, [x])["1"] == calibrate(plain, [value])["0"]


def test_narrow_activations_are_widened() -> None:
    model, _ = net("int8-linear")
    model.to(torch.bfloat16)
    x = rows(30).to(torch.bfloat16)
    want, _ = net("int8-linear")
    assert calibrate(model, [x])["first"] == calibrate(want, [x.float()])["first"]


def test_a_layer_that_was_made_by_hand_learns_its_name() -> None:
    model = nn.Sequential(nn.Identity(), QuantRMSNorm(DIM))
    assert quantised(model)[0].layer_name == ""
    assert list(calibrate(model, [rows(3)])) == ["1"]
    assert quantised(model)[0].layer_name == "1"
    alone = QuantRMSNorm(DIM)
    assert list(calibrate(alone, [rows(3)])) == ["norm"]


# --- which layers ---------------------------------------------------------------------------------


def test_layers_by_pattern() -> None:
    model, _ = net(skip="")
    assert list(calibrate(model, [rows(5)], layers=["l*t"])) == ["last"]
    assert [layer.is_calibrated for layer in quantised(model)] == [False, True, False]
    assert list(calibrate(model, [rows(5)], layers="first")) == ["first"]
    with pytest.raises(ApproxNormError, match="layers 'lost' matches no QuantRMSNorm; allowed: fi"):
        calibrate(model, [rows(5)], layers=["lost"])


def test_complete_layers_are_left_alone_unless_told() -> None:
    model, _ = net("int8-linear")
    first = calibrate(model, [rows(5)])

    taken = iter([rows(5)])
    assert calibrate(model, taken) == {}
    assert len(list(taken)) == 1  # nothing was open: no batch was run
    wider = calibrate(model, [rows(5, size=30)], again=True)
    assert list(wider) == ["first", "last"]
    scale = {name: done.spec.x.scale or 0 for name, done in wider.items()}
    assert scale["first"] > 5 * (first["first"].spec.x.scale or 0)
    assert calibrate(model, [rows(5)], again=True) == first


def test_given_numbers_stay_given() -> None:
    spec = preset("int8-linear").replace(x="ap_fixed<8,4>")
    model, _ = net(spec)
    for again in (False, True):
        done = calibrate(model, [rows(5)], again=again)
        assert {str(c.spec.x.to_format("x")) for c in done.values()} == {
            "ap_fixed<8,4,RND_CONV,SAT>"
        }
        assert not any(n.startswith("x:") for c in done.values() for n in c.notes)
    given = quantised(model)[0].spec
    fixed = nn.Sequential(QuantRMSNorm(DIM, given))
    assert calibrate(fixed, [rows(5)]) == calibrate(fixed, [rows(5)], again=True) == {}
    assert quantised(fixed)[0].spec == given


def test_learned_scales_start_from_calibration() -> None:
    model = nn.Sequential(nn.RMSNorm(DIM))
    replace_norms(model, "int8-linear", learn_scales=True)
    (done,) = calibrate(model, [rows(9)]).values()
    assert quantised(model)[0].spec.x.scale == done.spec.x.scale
    y = model(rows(9))
    y.square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


# --- errors, and nothing half done ----------------------------------------------------------------


def assert_untouched(model: nn.Module) -> None:
    assert model.training
    for layer in quantised(model):
        assert not layer.is_calibrated
        assert not layer.calibrating
        assert not layer._forward_pre_hooks
        assert layer.training


def refused(model: nn.Module, batches: Any, message: str, **options: Any) -> None:
    model.train()
    with pytest.raises(ApproxNormError, match=message):
        calibrate(model, batches, **options)
    assert_untouched(model)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_rows_that_are_no_numbers_name_layer_and_batch(bad: float) -> None:
    x = rows(3, 2)
    x[1, 1, 4] = bad
    model, _ = net()
    refused(model, [rows(2), x], f"layer first, batch 1: row 5 of x holds {bad}; allowed: finite")


def test_layers_that_are_not_reached_are_named() -> None:
    model, _ = net(skip="")
    refused(model, [rows(3)], "no batch reaches rare; give batches that do, or name the layers")
    assert list(calibrate(model, [{"x": rows(3), "long": True}])) == ["first", "last", "rare"]
    model, _ = net(skip="")
    refused(model, [rows(0)], "no batch reaches first, last, rare;")


def test_batches_that_are_none() -> None:
    model, _ = net()
    refused(model, [], "there are no batches; give at least one of what the model takes")
    refused(model, rows(3), r"batches is a Tensor; allowed: an iterable of batches, \[x\] for")
    refused(model, {"x": rows(3)}, "batches is a dict; allowed")
    refused(model, 3, "batches is a int; allowed")
    with pytest.raises(ApproxNormError, match="the model has no QuantRMSNorm;"):
        calibrate(Net(), [rows(3)])
    with pytest.raises(ApproxNormError, match=r"model is a list; allowed: a torch\.nn\.Module"):
        calibrate([], [rows(3)])  # type: ignore[arg-type]


def test_rows_of_another_length_name_the_layer() -> None:
    model = nn.Sequential(QuantRMSNorm(DIM))
    refused(model, [rows(3)[..., 1:]], r"layer 0, batch 0: x has shape \(3, 23\); allowed: rows of")


def test_a_weight_that_is_no_number_names_the_layer() -> None:
    model, _ = net()
    nn.init.constant_(quantised(model)[1].weight, float("inf"))
    refused(model, [rows(3)], "layer last: gamma must be finite real numbers")


def test_a_failing_model_is_put_back() -> None:
    class Failing(Net):
        def forward(self, x: Tensor, *, long: bool = False) -> Tensor:
            if long:
                raise KeyError("its own")
            return super().forward(x)

    model = Failing()
    replace_norms(model, "int8-linear")
    model.train()
    with pytest.raises(KeyError, match="its own"):
        calibrate(model, [rows(3), {"x": rows(3), "long": True}])
    assert_untouched(model)


def test_no_layer_is_set_if_one_cannot_be() -> None:
    """gamma's scale would pass 1, to which order gemma cannot add 1."""
    model, _ = net("int8-linear")
    nn.init.constant_(quantised(model)[1].weight, 1000.0)
    refused(model, [rows(3)], 'layer last: gamma has scale 8.0; order "gemma" adds 1')


def test_layers_are_put_back_if_a_warning_is_an_error() -> None:
    """The warning comes from the second layer, when the first is set already."""
    model = nn.Sequential(nn.RMSNorm(DIM, eps=1.0), nn.RMSNorm(DIM, eps=1e-12))
    replace_norms(model, "int8-linear")
    with warnings.catch_warnings():
        warnings.simplefilter("error", EpsWarning)
        with pytest.raises(EpsWarning, match="layer 1: eps is 1e-12"):
            calibrate(model, [rows(3)])
    assert_untouched(model)


def test_what_a_spec_loses_is_told_once_with_the_layer() -> None:
    spec = preset("int8-linear").replace(gamma={"bits": 8, "scale": 2.0**-8})
    model = nn.Sequential(nn.RMSNorm(DIM, eps=1e-12))
    replace_norms(model, spec)
    with pytest.warns() as caught:
        calibrate(model, [rows(3)])
        model(rows(3))
    told = {(str(w.message)[:17], w.category) for w in caught}
    assert told == {("layer 0: eps is 1", EpsWarning), ("layer 0: 24 of ga", GammaWarning)}
    assert len(caught) == 2


# --- progress -------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_shown_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for batches, terminal, progress in (
        ([rows(3)] * 3, True, True),
        (iter([rows(3)] * 3), True, True),
        ([rows(3)], True, False),
        ([rows(3)], False, True),
    ):
        screen = Terminal() if terminal else io.StringIO()
        monkeypatch.setattr(feed_module.sys, "stderr", screen)
        model, _ = net("int8-linear")
        calibrate(model, batches, progress=progress)
        assert ("Calibration" in screen.getvalue()) == (terminal and progress)
