"""QuantRMSNorm against the NumPy model, code by code, and its gradients."""

from __future__ import annotations

import copy
import io
import json
import math
import warnings
from typing import Any

import brevitas.nn as qnn
import numpy as np
import pytest
import torch
from brevitas.graph.calibrate import calibration_mode
from brevitas.proxy.runtime_quant import DynamicActQuantProxyFromInjector
from brevitas.quant import (
    Int8ActPerTensorFixedPoint,
    Int8ActPerTensorFloat,
    Int8WeightPerTensorFloat,
    ShiftedUint8ActPerTensorFloat,
    SignedBinaryActPerTensorConst,
)
from brevitas.quant_tensor import IntQuantTensor
from random_specs import spec_model
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from approxnorm import RMSNorm, RMSNormSpec, preset, preset_names
from approxnorm.calibrate import calibrate_array
from approxnorm.errors import ApproxNormError
from approxnorm.nn import QuantRMSNorm
from approxnorm.nn.functions import FakeQuantize, FloatRMSNorm, quantize
from approxnorm.nn.quantizers import FormatQuant

DIM = 24


def rows(*leading: int, seed: int = 0) -> Tensor:
    return torch.randn(*leading, DIM, generator=torch.Generator().manual_seed(seed)) * 3


def weight(seed: int = 0) -> Tensor:
    return torch.rand(DIM, generator=torch.Generator().manual_seed(seed)) + 0.5


def layer_of(spec: str | RMSNormSpec, **options: Any) -> QuantRMSNorm:
    """A calibrated layer, with a gamma of its own."""
    layer = QuantRMSNorm(DIM, spec, **options)
    gamma = weight() - float(layer.spec.normalize.adds_one)
    with torch.no_grad():
        layer.weight.copy_(gamma)
    data = rows(64, seed=1).numpy()
    layer.set_spec(calibrate_array(layer.spec, data, gamma.numpy()).spec)
    return layer


def codes_of(y: IntQuantTensor) -> np.ndarray:
    """By hand: Brevitas' int() fails on tensors without elements."""
    return (y.value / y.scale + y.zero_point).detach().round().numpy().astype(np.int64)


def assert_equals_model(layer: QuantRMSNorm, x: Tensor) -> IntQuantTensor:
    """What the layer gives is what its NumPy model gives of the same real numbers."""
    y = layer(x)
    assert isinstance(y, IntQuantTensor)
    model = layer.model()
    weight = layer.weight.detach().to(torch.float32).numpy()
    if isinstance(layer._format_quant("gamma"), FormatQuant):  # no part of it is the layer's own
        model = RMSNorm(layer.spec, weight)
        assert model.digest == layer.model().digest
    want = model(model.quantize(x.detach().to(torch.float32).numpy()))
    assert y.value.dtype == y.scale.dtype == torch.float32
    assert np.count_nonzero(codes_of(y) != want) == 0
    if want.size:
        assert np.count_nonzero(y.int().detach().numpy() != want) == 0
        np.testing.assert_array_equal(
            y.value.detach().numpy(), model.dequantize(want).astype(np.float32)
        )
    return y


# --- codes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("learn_scales", [False, True])
@pytest.mark.parametrize("name", preset_names())
def test_presets(name: str, learn_scales: bool) -> None:
    layer = layer_of(name, learn_scales=learn_scales)
    x = rows(3, 5)
    x[0, 0], x[0, 1] = 0, 1e30
    for training in (True, False):
        assert_equals_model(layer.train(training), x)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (2, 1, 3), (0,), (2, 0)])
def test_any_leading_shape(shape: tuple[int, ...]) -> None:
    assert assert_equals_model(layer_of("int8-linear"), rows(*shape)).shape == (*shape, DIM)


def test_memory_in_any_order() -> None:
    layer, x = layer_of("int8-linear"), rows(4, 6).transpose(0, 1)
    assert not x.is_contiguous()
    assert_equals_model(layer, x)


@pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.SpecWarning")
def test_random_specs() -> None:
    compared = 0
    for seed in range(6000, 6120):
        made = spec_model(seed)
        if made is None:
            continue
        model, codes = made
        try:
            layer = QuantRMSNorm(model.dim, model.spec, eps=model.spec.eps)
        except ApproxNormError as error:
            assert "as a QuantTensor's value is float32" in str(error)
            continue
        x = torch.from_numpy(model.dequantize_x(codes).astype(np.float32))
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(model.gamma_real() - layer.spec.normalize.adds_one))
        ours = layer.model()
        want = ours(ours.quantize(x.numpy()))
        assert np.count_nonzero(codes_of(layer(x)) != want) == 0, seed
        assert np.array_equal(ours.gamma, RMSNorm(layer.spec, layer.weight.detach().numpy()).gamma)
        compared += 1
    assert compared >= 50


@pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.SpecWarning")
def test_after_steps_of_training_with_learned_scales() -> None:
    for name in ("int8-linear", "int8-log", "outlier4-12bit"):
        layer = layer_of(name, learn_scales=True)
        before = layer.spec
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.3)
        for step in range(4):
            optimizer.zero_grad()
            loss = (assert_equals_model(layer, rows(8, seed=step)).value - 1).square().mean()
            loss.backward()
            optimizer.step()
        assert layer.spec != before
        assert_equals_model(layer.eval(), rows(8, seed=9))


def test_one_plus_gamma() -> None:
    spec = preset("int8-linear").to_dict()
    spec["gamma"]["calibrate"] = "pow2"
    spec["normalize"] |= {"order": "gemma", "constant": "multiplier", "constant_bits": 8}
    layer = layer_of(RMSNormSpec(**spec))
    assert layer.spec.normalize.adds_one
    y = assert_equals_model(layer, rows(5))
    assert (y.value - rms_norm(rows(5), (DIM,), weight(), layer.spec.eps)).abs().max() < 0.1


# --- quantisers of Brevitas -------------------------------------------------------------------


@pytest.mark.parametrize("quantizer", [Int8ActPerTensorFloat, Int8ActPerTensorFixedPoint])
def test_activation_quantisers_of_brevitas(quantizer: Any) -> None:
    layer = QuantRMSNorm(DIM, "int8-linear", input_quant=quantizer, output_quant=quantizer)
    layer.set_spec(calibrate_array(layer.spec, rows(64, seed=1).numpy(), np.ones(DIM)).spec)
    for step in range(3):  # their scales follow the data
        x = rows(16, seed=step).requires_grad_()
        y = layer(x)
        y.value.square().sum().backward()
        assert torch.isfinite(x.grad).all()
    layer.eval()
    x = rows(9, seed=5)
    model, y = layer.model(), layer(x)
    assert float(y.scale.detach()) == layer.spec.y.scale
    codes = layer.input_quant(x).int().detach().numpy()
    assert np.count_nonzero(y.int().detach().numpy() != model(codes)) == 0
    assert (y.value - rms_norm(x, (DIM,))).abs().max() < 0.2


def test_weight_quantiser_of_brevitas() -> None:
    layer = layer_of("int8-linear", weight_quant=Int8WeightPerTensorFloat)
    assert_equals_model(layer, rows(6))
    assert layer.spec.gamma.bits == 8
    assert layer.spec.gamma.scale == float(layer.weight_quant.scale().detach())


def test_a_weight_quantiser_of_brevitas_where_the_constant_is_in_gamma() -> None:
    spec = preset("int8-linear").to_dict()
    spec["normalize"]["constant"] = "gamma"
    layer = layer_of(RMSNormSpec(**spec), weight_quant=Int8WeightPerTensorFloat)
    with pytest.raises(ApproxNormError, match='constant is "gamma"'):
        layer(rows(2))


def test_a_zero_point_of_brevitas_is_refused() -> None:
    layer = layer_of("int8-linear", input_quant=ShiftedUint8ActPerTensorFloat)
    with pytest.raises(ApproxNormError, match="input_quant has a scale"):
        layer(rows(2) - 1)


def test_keywords_change_single_numbers() -> None:
    layer = layer_of("int8-linear", input_bit_width=6, output_bit_width=5, weight_bit_width=7)
    assert [f.bits for f in (layer.spec.x, layer.spec.gamma, layer.spec.y)] == [6, 7, 5]
    y = assert_equals_model(layer, rows(6))
    assert int(y.bit_width) == 5
    with pytest.raises(TypeError, match="keyword bit_width"):
        QuantRMSNorm(DIM, bit_width=8)


def test_between_layers_of_brevitas() -> None:
    """A QuantTensor in, a QuantTensor out: the linear layer behind it computes an output scale."""
    first = qnn.QuantIdentity(bit_width=8, return_quant_tensor=True)
    layer = QuantRMSNorm(DIM, "int8-linear", input_quant=None)
    last = qnn.QuantLinear(DIM, 4, bias=False, return_quant_tensor=True)
    x = rows(6)
    first(rows(64, seed=1))
    first.eval()
    spec = calibrate_array(layer.spec, rows(64, seed=1).numpy(), np.ones(DIM)).spec
    layer.set_spec(spec)
    middle = layer(first(x))
    model = layer._datapath({"x": layer._brevitas_format("x", first(x)), **layer._own_formats()})
    assert model.assembly.spec.x.scale == float(first(x).scale.detach())
    assert last(middle).scale.numel() == 1
    with pytest.raises(ApproxNormError, match="no QuantTensor and the layer has no input_quant"):
        layer(x)


def test_a_quant_tensor_of_the_same_format_keeps_its_codes() -> None:
    layer, x = layer_of("int8-linear"), rows(6)
    first = layer.input_quant(x)
    assert np.array_equal(layer(first).int(), layer(x).int())


def test_calibration_mode_of_brevitas() -> None:
    """The float norm, while the quantisers see the data; afterwards they have scales from it."""
    layer = QuantRMSNorm(
        DIM,
        preset("int8-linear"),
        input_quant=Int8ActPerTensorFloat,
        output_quant=Int8ActPerTensorFloat,
        weight_quant=Int8WeightPerTensorFloat,
        return_quant_tensor=False,
    ).eval()
    x = rows(64, seed=1)
    with torch.no_grad(), calibration_mode(layer):
        assert (layer(x) - rms_norm(x, (DIM,), eps=layer.spec.eps)).abs().max() < 1e-5
    assert layer.spec.x.scale > 0.02
    assert (layer(x) - rms_norm(x, (DIM,))).abs().max() < 0.2
    ours = layer_of("int8-linear", return_quant_tensor=False)
    with torch.no_grad(), calibration_mode(ours):
        assert (ours(x) - rms_norm(x, (DIM,), ours.weight)).abs().max() < 1e-4


def test_a_quant_tensor_of_the_format_under_trn() -> None:
    """Codes times a scale, over it again, may be one ulp below: they are not rounded twice."""
    spec = preset("int8-linear").to_dict()
    spec["x"] = {"bits": 8, "signed": True, "scale": 0.0123, "rounding": "TRN"}
    layer = layer_of(RMSNormSpec(**spec))
    quantised = layer.input_quant(rows(64) / 4)
    codes = quantised.int().numpy()
    assert np.array_equal(layer(quantised).int().numpy(), layer.model()(codes))


def test_switched_off_quantisers_leave_the_float_norm() -> None:
    layer, x = layer_of("int8-linear"), rows(6)
    wanted = rms_norm(x, (DIM,), layer.weight, layer.spec.eps)
    for name in ("input_quant", "output_quant"):
        getattr(layer, name).disable_quant = True
        layer.return_quant_tensor = False
        difference = (layer(x) - wanted).abs().max()
        assert difference < (1e-5 if name == "input_quant" else 0.2)
        getattr(layer, name).disable_quant = False
    layer.calibrating = True
    assert (layer(x) - wanted).abs().max() < 1e-5


# --- dtypes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_modules_of_other_dtypes(dtype: torch.dtype) -> None:
    layer, x = layer_of("int8-linear"), rows(6)
    scales = {n: layer._format_quant(n).scale().clone() for n in ("x", "gamma", "y")}
    layer.to(dtype)
    for name, scale in scales.items():
        assert layer._format_quant(name).scale().dtype == torch.float32
        assert layer._format_quant(name).scale() == scale
    assert layer.weight.dtype == dtype
    assert_equals_model(layer, x.to(dtype))
    layer.return_quant_tensor = False
    assert layer(x.to(dtype)).dtype == dtype


def test_autocast() -> None:
    layer, x = layer_of("outlier4-12bit"), rows(6)
    plain = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = assert_equals_model(layer, x)
    assert torch.equal(y.value, plain.value)


# --- gradients --------------------------------------------------------------------------------


def test_gradcheck_of_the_norm() -> None:
    x = torch.randn(3, 2, 5, dtype=torch.float64, requires_grad=True)
    gamma = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: FloatRMSNorm.apply(a, b, 1e-3), (x, gamma))


def accurate(**changes: Any) -> RMSNormSpec:
    """int16-accurate with other fields in normalize."""
    spec = preset("int16-accurate").to_dict()
    spec["normalize"] |= changes
    return RMSNormSpec(**spec)


@pytest.mark.parametrize("learn_scales", [False, True])
@pytest.mark.parametrize(
    "changes",
    [{}, {"constant": "gamma"}, {"order": "gemma", "constant": "multiplier", "constant_bits": 14}],
)
def test_the_gradient_is_that_of_rmsnorm_at_the_quantised_point(
    changes: dict[str, Any], learn_scales: bool
) -> None:
    layer = layer_of(accurate(**changes), learn_scales=learn_scales)
    x, upstream = rows(4, 3).requires_grad_(), rows(4, 3, seed=2)
    layer(x).value.backward(upstream)
    point = layer.input_quant(rows(4, 3)).value.detach().requires_grad_()
    gamma = layer.weight.detach().clone().requires_grad_()
    one = float(layer.spec.normalize.adds_one)
    rms_norm(point, (DIM,), gamma + one, layer.spec.eps).backward(upstream)
    torch.testing.assert_close(x.grad, point.grad, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(layer.weight.grad, gamma.grad, rtol=1e-3, atol=1e-3)


def test_zero_rows_have_finite_gradients() -> None:
    layer = layer_of("int8-linear", eps=0.0)
    x = torch.zeros(2, DIM, requires_grad=True)
    y = layer(x)
    assert not y.value.any()
    y.value.backward(torch.ones(2, DIM))
    assert torch.isfinite(x.grad).all() and torch.isfinite(layer.weight.grad).all()


def test_saturated_elements_pass_no_gradient() -> None:
    layer = layer_of("int8-linear")
    x = rows(4)
    x[0, 0] = 1e4
    x.requires_grad_()
    layer(x).value.sum().backward()
    assert x.grad[0, 0] == 0
    assert x.grad[0, 1:].any()


@pytest.mark.parametrize("overflow", ["SAT", "SAT_SYM", "SAT_ZERO", "WRAP"])
@pytest.mark.parametrize("learn_scales", [False, True])
def test_outputs_that_overflow_pass_no_gradient(overflow: str, learn_scales: bool) -> None:
    """Whatever else is in the batch, and whatever code the overflow makes."""
    layer = layer_of("int16-accurate", learn_scales=learn_scales, output_overflow=overflow)
    quantizer = layer._format_quant("y")
    quantizer.set_scale(2.0**-15)  # about 1 is the end
    x = rows(6).requires_grad_()
    true = rms_norm(x.detach(), (DIM,), layer.weight.detach(), layer.spec.eps)
    upstream = torch.zeros(6, DIM)
    upstream[true.abs() > 1.01] = 1  # only where y is beyond it
    assert 0 < int(upstream.sum()) < upstream.numel()
    layer(x).value.backward(upstream)
    assert not x.grad.any() and not layer.weight.grad.any()
    x.grad = None
    layer(x).value.backward((true.abs() < 0.99).float())
    assert x.grad.any()


@pytest.mark.parametrize("name", ["int8-linear", "outlier4-12bit"])
def test_the_gradient_of_the_scale_of_y(name: str) -> None:
    """By the rule: code less value in LSBs, or the code at an end that was passed."""
    layer = layer_of(name, learn_scales=True, output_scaling_impl_type="parameter")
    quantizer = layer._format_quant("y")
    with torch.no_grad():
        quantizer.held.copy_(quantizer.held - 1 if quantizer.power_of_two else quantizer.held / 2)
    x, upstream = rows(5), rows(5, seed=3)
    y = layer(x)
    y.value.backward(upstream)
    scale, codes = float(quantizer.scale().detach()), torch.from_numpy(codes_of(y))
    datapath = layer._datapath(layer._own_formats())
    weight = layer._weight_of(layer._spec_gamma(datapath), datapath).detach()
    ratio = rms_norm(layer.input_quant(x).value.detach(), (DIM,), weight, layer.spec.eps) / scale
    inside = (ratio >= quantizer.form.lo - 0.5) & (ratio <= quantizer.form.hi + 0.5)
    assert not inside.all()
    wanted = float((upstream * torch.where(inside, codes - ratio, codes)).sum())
    chain = scale * math.log(2) if quantizer.power_of_two else 1.0
    assert float(quantizer.held.grad) == pytest.approx(wanted * chain, rel=1e-4)


def test_the_gradient_of_a_scale() -> None:
    """By hand: 0.6 rounds to 1 (code less value 0.4), 9 saturates at 7."""
    scale = torch.tensor(1.0, requires_grad=True)
    x = torch.tensor([0.6, -1.25, 9.0], requires_grad=True)
    form = QuantRMSNorm(DIM, input_bit_width=4)._format_quant("x").form
    value = FakeQuantize.apply(x, scale, form)
    value.backward(torch.tensor([1.0, 1.0, 1.0]))
    assert value.tolist() == [1, -1, 7]
    assert scale.grad.item() == pytest.approx(0.4 + 0.25 + 7, abs=1e-6)
    assert x.grad.tolist() == [1, 1, 0]


def test_learned_scales_have_gradients() -> None:
    for name in ("int8-linear", "published-sole"):  # with a scale for each channel, too
        layer = layer_of(name, learn_scales=True)
        layer(rows(8)).value.square().sum().backward()
        for each in ("x", "gamma", "y"):
            grad = layer._format_quant(each).held.grad
            assert grad.shape == () and torch.isfinite(grad)
        assert layer._format_quant("y").held.grad != 0


def test_a_learned_power_of_two_stays_one() -> None:
    layer = layer_of("outlier4-12bit", learn_scales=True)
    for name in ("x", "gamma", "y"):
        quantizer = layer._format_quant(name)
        with torch.no_grad():
            quantizer.held += 0.7
        assert torch.frexp(quantizer.scale()).mantissa == 0.5
    assert_equals_model(layer, rows(6))
    with pytest.raises(ApproxNormError, match="allowed with restrict_scaling_type"):
        layer._format_quant("x").set_scale(0.3)


def test_no_grad() -> None:
    layer, x = layer_of("int8-linear"), rows(6)
    with torch.no_grad():
        y = assert_equals_model(layer, x)
    assert not y.value.requires_grad
    assert torch.equal(y.value, layer(x).value)


@pytest.mark.parametrize("overflow", ["SAT", "SAT_SYM", "SAT_ZERO", "WRAP"])
@pytest.mark.parametrize(
    "rounding", ["TRN", "TRN_ZERO", "RND", "RND_ZERO", "RND_MIN_INF", "RND_INF", "RND_CONV"]
)
def test_quantize_in_every_mode(rounding: str, overflow: str) -> None:
    layer = QuantRMSNorm(
        DIM,
        input_rounding=rounding,
        input_overflow=overflow,
        input_zero_point=0 if overflow == "SAT_SYM" else 3,
        input_bit_width=5,
    )
    form = layer._format_quant("x").form.with_scale(0.3)
    halves = torch.arange(-80, 81) / 2
    x = torch.cat([halves * 0.3, rows(50).flatten() * 5, torch.tensor([1e30, -1e30, 0.49999997])])
    codes, inside = quantize(x, torch.tensor(float(form.scale)), form)
    assert np.array_equal(codes.numpy() + form.zero_point, form.quantize(x.numpy()))
    assert inside is not None and 0 < int(inside.sum()) < x.numel()


# --- copies and files -------------------------------------------------------------------------


def test_copies() -> None:
    layer, x = layer_of("outlier4-12bit"), rows(6)
    wanted = layer(x).value
    other = copy.deepcopy(layer)
    assert torch.equal(other(x).value, wanted)
    assert other.spec == layer.spec
    with torch.no_grad():
        other.weight += 1
    assert torch.equal(layer(x).value, wanted)


@pytest.mark.parametrize("name", ["int8-linear", "outlier4-12bit", "published-sole"])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("learned_then", [False, True])
def test_state_dict_round_trip(name: str, learned: bool, learned_then: bool) -> None:
    """Also from calibration to training, whose scales are parameters, and back."""
    layer, x = layer_of(name, learn_scales=learned), rows(6)
    if learned:
        optimizer = torch.optim.SGD(layer.parameters(), lr=1e-4)
        layer(x).value.mean().backward()
        optimizer.step()
    stream = io.BytesIO()
    torch.save(layer.state_dict(), stream)
    stream.seek(0)
    other = QuantRMSNorm(DIM, name, learn_scales=learned_then)
    other.load_state_dict(torch.load(stream, weights_only=True))
    assert other.spec == layer.spec
    assert torch.equal(other(x).value, layer(x).value)


def test_a_float_checkpoint_leaves_the_calibration() -> None:
    layer = layer_of("int8-linear")
    spec = layer.spec
    layer.load_state_dict({"weight": torch.full((DIM,), 0.75)}, strict=True)
    assert layer.spec == spec
    assert (layer.weight == 0.75).all()
    assert_equals_model(layer, rows(4))


def test_a_checkpoint_of_another_spec_is_refused() -> None:
    other = QuantRMSNorm(DIM, "outlier4-12bit")
    with pytest.raises(RuntimeError, match="spec_json: this QuantRMSNorm: the spec's x is 8 bits"):
        other.load_state_dict(layer_of("int8-linear").state_dict())


def test_a_checkpoint_whose_spec_makes_no_datapath_is_refused() -> None:
    layer = layer_of("int8-linear")
    spec, state = layer.spec, layer.state_dict()
    text = json.dumps(spec.to_dict() | {"normalize": {"method": "log"}})
    state["spec_json"] = torch.tensor(list(text.encode()), dtype=torch.uint8)
    with pytest.raises(RuntimeError, match=r"spec_json: rsqrt\.method is 'linear'; .* log2"):
        layer.load_state_dict(state)
    assert layer.spec == spec


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 100_000, b"[1]", b"\xff", b'{"norm": 1}'])
def test_a_damaged_spec_in_a_checkpoint_is_refused(text: bytes) -> None:
    layer = layer_of("int8-linear")
    spec, state = layer.spec, layer.state_dict()
    state["spec_json"] = torch.tensor(list(text), dtype=torch.uint8)
    words = "norm" if b"norm" in text else "holds no spec .* allowed: what the state_dict"
    with pytest.raises(RuntimeError, match=f"spec_json: .*{words}"):
        layer.load_state_dict(state)
    assert layer.spec == spec


def test_the_meta_device_is_refused() -> None:
    with pytest.raises(ApproxNormError, match="device is meta, which holds no values"):
        QuantRMSNorm(DIM, "int8-linear", device="meta")


def test_a_new_weight_keeps_the_scales() -> None:
    layer = layer_of("int8-linear")
    spec = layer.spec
    layer.weight = nn.Parameter(torch.full((DIM,), 0.5))
    assert layer.spec == spec
    assert_equals_model(layer, rows(4))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compile() -> None:
    """With a graph break: the layer itself is not traced."""
    model = nn.Sequential(nn.Linear(DIM, DIM), layer_of("int8-linear", return_quant_tensor=False))
    x = rows(6)
    compiled = torch.compile(model, backend="aot_eager")
    for train in (model, compiled):
        model.zero_grad()
        train(x).square().sum().backward()
        if train is model:
            wanted = {n: p.grad.clone() for n, p in model.named_parameters()}
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.grad, wanted[name]), name
    with torch.no_grad():
        assert torch.equal(compiled(x), model(x))


# --- errors -----------------------------------------------------------------------------------


def refusal(call: Any) -> str:
    with pytest.raises(ApproxNormError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("training", [False, True])
def test_a_layer_that_is_not_calibrated(training: bool) -> None:
    layer = QuantRMSNorm(DIM, "outlier4-12bit").train(training)
    layer.layer_name = "blocks.3.norm"
    message = refusal(lambda: layer(rows(2)))
    assert "layer blocks.3.norm is not calibrated: x.scale is open" in message
    assert "approxnorm.nn.calibrate" in message
    assert not layer.is_calibrated
    assert "is open" in refusal(layer.model)


def test_rows_of_another_length() -> None:
    layer = layer_of("int8-linear")
    assert "x has shape (2, 25); allowed: rows of 24" in refusal(lambda: layer(torch.ones(2, 25)))
    assert "x has shape ()" in refusal(lambda: layer(torch.tensor(1.0)))
    assert "dtype torch.int64" in refusal(lambda: layer(torch.ones(2, DIM, dtype=torch.int64)))
    assert "normalized_shape is (2, 3)" in refusal(lambda: QuantRMSNorm((2, 3)))


def test_a_quant_tensor_of_another_width() -> None:
    layer = layer_of("int8-linear")
    other = qnn.QuantIdentity(bit_width=4, return_quant_tensor=True)(rows(2))
    assert "a QuantTensor of 4 bits, signed; allowed: the spec's 8" in refusal(lambda: layer(other))
    positive = qnn.QuantReLU(bit_width=8, return_quant_tensor=True)(rows(2))
    assert "8 bits, unsigned" in refusal(lambda: layer(positive))


def test_a_quant_tensor_whose_codes_are_lost() -> None:
    layer, x = layer_of("int8-linear"), rows(2)
    lost = layer.input_quant(x).to(torch.bfloat16)
    assert "codes cannot be recovered" in refusal(lambda: layer(lost))


def test_nan_activations() -> None:
    layer, x = layer_of("int8-linear"), rows(2, 3)
    layer.layer_name = "norm"
    x[1, 2, 3] = float("nan")
    assert "layer norm: x holds nan at (1, 2, 3)" in refusal(lambda: layer(x))
    x[1, 2, 3] = float("inf")
    assert_equals_model(layer, x)
    x[0, 0, 0] = float("nan")
    assert "x holds nan at (0, 0, 0)" in refusal(lambda: layer(x))


def test_a_spec_that_does_not_fit_the_layer() -> None:
    layer = layer_of("int8-linear")
    spec = layer.spec
    assert "the spec's x is 24 bits" in refusal(
        lambda: layer.set_spec(layer_of("outlier4-12bit").spec)
    )
    assert "dim" in refusal(lambda: layer.set_spec(preset("int8-linear").with_dim(7)))
    assert layer.spec == spec


def test_widths_that_a_quant_tensor_cannot_hold() -> None:
    spec = preset("int8-linear").to_dict()
    spec["x"] = {"bits": 24, "signed": True, "scale": 0.3}
    spec["row_exponent"] = {"bits": 8}
    assert "x has 24 bits, so that codes are up to 8388608" in refusal(
        lambda: QuantRMSNorm(DIM, RMSNormSpec(**spec))
    )
    spec["x"] = {"bits": 26, "signed": True, "scale": 0.25}
    assert "codes are up to 33554432 from their zero; allowed: 2^21, or 2^24" in refusal(
        lambda: QuantRMSNorm(DIM, RMSNormSpec(**spec))
    )


@pytest.mark.parametrize(
    ("field", "slot", "quantizer"),
    [
        ("channel_shifts", "input_quant", Int8ActPerTensorFloat),
        ("channel_shifts", "input_quant", None),
        ("y_channel_shifts", "output_quant", Int8ActPerTensorFloat),
        ("y_channel_shifts", "weight_quant", Int8WeightPerTensorFloat),
    ],
)
def test_factors_of_which_a_quantiser_of_brevitas_does_not_know(
    field: str, slot: str, quantizer: Any
) -> None:
    spec = preset("int8-linear").replace(**{field: {"max_shift": 2}})
    message = refusal(lambda: QuantRMSNorm(DIM, spec, **{slot: quantizer}))
    assert f"the spec has {field}, which {slot} does not know" in message


class Dynamic(Int8ActPerTensorFloat):
    proxy_class = DynamicActQuantProxyFromInjector


@pytest.mark.parametrize(
    ("slot", "quantizer", "text"),
    [
        ("output_quant", Int8WeightPerTensorFloat, "no quantiser of its kind"),
        ("input_quant", Int8WeightPerTensorFloat, "no quantiser of its kind"),
        ("input_quant", Dynamic, "a quantiser whose scale depends on the data"),
        ("output_quant", SignedBinaryActPerTensorConst, "a quantiser by ClampedBinaryQuant"),
    ],
)
def test_quantisers_that_do_not_do(slot: str, quantizer: Any, text: str) -> None:
    message = refusal(lambda: QuantRMSNorm(DIM, **{slot: quantizer}))
    assert f"{slot} is {text}" in message


def test_numbers_that_went_wrong_in_training() -> None:
    layer = layer_of("int8-linear", learn_scales=True)
    layer.layer_name = "norm"
    with torch.no_grad():
        layer._format_quant("y").held.fill_(float("nan"))
    assert "layer norm: the learned scale of y is nan" in refusal(lambda: layer(rows(2)))
    layer = layer_of("int8-linear")
    with torch.no_grad():
        layer.weight[3] = float("nan")
    assert "its weight holds NaN or infinity" in refusal(lambda: layer(rows(2)))
    assert "its weight holds NaN" in refusal(layer.model)

    def assign() -> None:
        layer.weight = nn.Parameter(torch.ones(3))

    assert "the new weight has shape (3,); allowed: (24,)" in refusal(assign)


def test_codes_that_do_not_exist() -> None:
    layer = QuantRMSNorm(DIM, "int8-linear", input_quant=None)
    layer.set_spec(calibrate_array(layer.spec, rows(64, seed=1).numpy(), np.ones(DIM)).spec)
    one = torch.tensor(1.0)
    liar = IntQuantTensor(torch.full((1, DIM), 300.0), one, one * 0, one * 8, True, False)
    assert "x has codes from 300 to 300; allowed: -128 to 127" in refusal(lambda: layer(liar))
    wraps = layer_of("int8-linear", input_overflow="WRAP")
    assert "allowed: -128 to 127" in refusal(lambda: wraps(torch.full((1, DIM), 3e38)))


def test_keywords_that_are_not_there() -> None:
    for name in ("input_bitwidth", "output_narrow_range", "weight_scaling_per_output_channel"):
        with pytest.raises(TypeError, match=f"keyword {name}"):
            QuantRMSNorm(DIM, **{name: 1})
    assert "bit_width is 1" in refusal(lambda: QuantRMSNorm(DIM, input_bit_width=1))


def test_a_warning_is_given_once_for_a_layer() -> None:
    layer = layer_of("int8-linear", learn_scales=True, eps=1e-12)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            layer(rows(2))
            with torch.no_grad():
                layer._format_quant("x").held.mul_(1.1)
    assert [type(w.message).__name__ for w in caught] == ["EpsWarning"]


def test_the_yardstick_has_no_layer() -> None:
    spec = preset("int8-linear").to_dict() | {"rsqrt": {"method": "exact"}}
    layer = layer_of(RMSNormSpec(**spec))
    assert "yardstick" in refusal(lambda: layer(rows(2)))
