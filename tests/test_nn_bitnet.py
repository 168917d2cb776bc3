"""BitLinear and BitBlock: what their codes are, and that they learn."""

from __future__ import annotations

import copy
import pydoc_data.topics
from typing import Any

import numpy as np
import pytest
import torch
from brevitas.quant_tensor import IntQuantTensor
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from approxnorm.errors import ApproxNormError
from approxnorm.nn import BitBlock, BitLinear, QuantRMSNorm, calibrate

DIM, OUT = 24, 10


def rows(*leading: int, dim: int = DIM, seed: int = 0) -> Tensor:
    return torch.randn(*leading, dim, generator=torch.Generator().manual_seed(seed)) * 3


def layer_of(*args: Any, **options: Any) -> BitLinear:
    torch.manual_seed(0)
    layer = BitLinear(DIM, OUT, *args, **options)
    with torch.no_grad():
        layer.norm.weight.copy_(torch.rand(DIM) + 0.5)
    calibrate(layer, [rows(64, seed=1).to(layer.weight.dtype)], progress=False)
    return layer


def ternary(weight: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """Absmean quantisation as the docstring has it: codes and scale."""
    scale = np.maximum(np.abs(weight).mean(dtype=np.float32), np.float32(1e-5))
    return np.clip(np.rint(weight / scale), -1, 1).astype(np.int64), scale


def row_codes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per-row absmax quantisation as the docstring has it: int8 codes and scales."""
    largest = np.maximum(np.abs(y).max(-1, keepdims=True), np.float32(1e-5))
    scale = largest / np.float32(127)
    return np.clip(np.rint(y / scale), -127, 127).astype(np.int64), scale


def integers(layer: BitLinear, x: Tensor) -> tuple[IntQuantTensor, IntQuantTensor]:
    """The QuantTensors that meet in the layer's product."""
    return layer.input_quant(layer.norm(x)), layer.quant_weight()


# --- codes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("spec", ["outlier4-12bit", "int8-linear", "log-16bit"])
def test_every_code_is_that_of_the_numpy_model_and_of_the_definition(
    spec: str, training: bool
) -> None:
    layer, x = layer_of(spec).train(training), rows(4, 7)
    x[0, 0], x[0, 1] = 0, 1e-30
    y = layer.norm(x)
    model = layer.norm.model()
    codes = model(model.quantize(x.numpy()))
    np.testing.assert_array_equal(y.int().numpy(), codes)
    got, weight = integers(layer, x)
    want, scale = row_codes(model.dequantize(codes).astype(np.float32))
    np.testing.assert_array_equal(got.int().detach().numpy(), want)
    np.testing.assert_array_equal(got.scale.detach().numpy(), scale)
    assert got.int().dtype == torch.int8 and got.scale.shape == (4, 7, 1)
    assert not want[0, 0].any() and np.abs(want).max(-1)[1:].min() == 127
    want_weight, _ = ternary(layer.weight.detach().numpy())
    np.testing.assert_array_equal(weight.int().numpy(), want_weight)
    assert set(want_weight.ravel()) == {-1, 0, 1}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_output_is_the_integer_product_times_the_scales(dtype: torch.dtype) -> None:
    layer, x = layer_of(dtype=dtype), rows(5).to(dtype)
    got = layer(x)
    act, weight = integers(layer, x)
    assert act.value.dtype == torch.float32
    accumulators = act.int().to(torch.int64) @ weight.int().to(torch.int64).T
    want = accumulators.double() * act.scale.double() * weight.scale.double()
    assert got.dtype == dtype and got.shape == (5, OUT)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(x), got)
    torch.testing.assert_close(got, want.to(dtype))


def test_bias_is_added() -> None:
    layer, x = layer_of(bias=True), rows(3)
    assert layer.bias is not None
    with_bias = layer(x)
    with torch.no_grad():
        step = layer.bias + 1
        layer.bias.copy_(step)
    torch.testing.assert_close(layer(x), with_bias + 1)


def test_norms_own_codes_without_rows_scales() -> None:
    layer, x = layer_of("ternary-int8", input_quant=None), rows(3)
    y, weight = layer.norm(x), layer.quant_weight()
    assert y.scale.numel() == 1 and int(y.bit_width) == 8
    accumulators = y.int().to(torch.int64) @ weight.int().to(torch.int64).T
    want = accumulators.double() * y.scale.double() * weight.scale.double()
    torch.testing.assert_close(layer(x), want.float())


def test_fewer_bits_by_keyword() -> None:
    layer = layer_of(input_bit_width=4, norm_kwargs={"output_bit_width": 10})
    act, _ = integers(layer, rows(3))
    assert act.int().abs().max() == 7 and layer.norm.spec.y.bits == 10


def test_takes_a_linear_layers_weights_and_its_own_state() -> None:
    float_layer, layer = nn.Linear(DIM, OUT, bias=False), layer_of()
    kept = layer.norm.spec
    assert layer.load_state_dict(float_layer.state_dict(), strict=False).unexpected_keys == []
    assert torch.equal(layer.weight, float_layer.weight) and layer.norm.spec == kept
    other = BitLinear(DIM, OUT)
    other.load_state_dict(layer.state_dict())
    for twin in (other, copy.deepcopy(layer)):
        assert torch.equal(twin(rows(3)), layer(rows(3)))


# --- gradients --------------------------------------------------------------------------------


def test_gradients_go_straight_through_the_roundings() -> None:
    """x's gradient is nearly that of the float layer with the ternary weights in it."""
    layer = layer_of("int16-accurate", input_bit_width=16)
    x = rows(16).requires_grad_()
    grad = rows(16, dim=OUT, seed=5)
    layer(x).backward(grad)
    twin = x.detach().clone().requires_grad_()
    normal = nn.functional.rms_norm(twin, (DIM,), layer.norm.weight, layer.norm.spec.eps)
    (normal @ layer.quant_weight().value.detach().T).backward(grad)
    assert x.grad is not None and twin.grad is not None
    assert (x.grad - twin.grad).norm() < 1e-2 * twin.grad.norm()


def test_weights_learn_by_their_values_even_past_the_ternary_range() -> None:
    """No gradient comes from the scale: with one, training collapses after some 80 steps."""
    layer, x, grad = layer_of(), rows(16), rows(16, dim=OUT, seed=5)
    with torch.no_grad():
        layer.weight[0, 0] = 5.0
    layer(x).backward(grad)
    act, _ = integers(layer, x)
    assert layer.weight.grad is not None and layer.norm.weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, grad.T @ act.value.detach())
    assert (layer.norm.weight.grad != 0).all()


def test_zero_rows_have_finite_gradients() -> None:
    layer = layer_of()
    zeros = torch.zeros(2, DIM, requires_grad=True)
    layer(zeros).sum().backward()
    assert zeros.grad is not None and torch.isfinite(zeros.grad).all()


# --- errors -----------------------------------------------------------------------------------


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(ApproxNormError, match=r"not calibrated: .*calibrate\(model, batches\)"):
        BitLinear(DIM, OUT)(rows(3))
    with pytest.raises(ApproxNormError, match="heads is 5; allowed: a divisor of dim, 24"):
        BitBlock(24, 48, 5)
    with pytest.raises(ApproxNormError, match=f"rows of {DIM} elements"):
        layer_of()(rows(3, dim=DIM + 1))


# --- training ---------------------------------------------------------------------------------

CONTEXT = 24


class BitLM(nn.Module):
    """Next characters of a text: embeddings, one block, a BitLinear for the logits."""

    def __init__(self, characters: int, dim: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, dim)
        self.positions = nn.Embedding(CONTEXT, dim)
        self.block = BitBlock(dim, 2 * dim, 2)
        self.head = BitLinear(dim, characters)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) + self.positions.weight[: ids.shape[1]]
        logits: Tensor = self.head(self.block(x))
        return logits


def help_text() -> Tensor:
    """Python's own help, as numbers of characters."""
    text = "".join(pydoc_data.topics.topics[name] for name in ("assert", "if", "for", "while"))
    characters = sorted(set(text))
    return torch.tensor([characters.index(c) for c in text])


def test_a_block_learns_a_text() -> None:
    ids = help_text()
    torch.manual_seed(0)
    model = BitLM(int(ids.max()) + 1)
    generator = torch.Generator().manual_seed(0)

    def batch() -> Tensor:
        starts = torch.randint(len(ids) - CONTEXT, (16,), generator=generator)
        return ids[starts[:, None] + torch.arange(CONTEXT + 1)]

    def loss_of(window: Tensor) -> Tensor:
        return cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())

    calibrate(model, [batch()[:, :-1] for _ in range(4)], progress=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = loss_of(batch())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    shares = torch.bincount(ids) / len(ids)
    without_context = -float((shares * shares.clamp(min=1e-9).log()).sum())
    assert np.mean(losses[-10:]) < 0.9 * without_context < 0.9 * losses[0]

    model.eval()
    window = batch()
    norms = [m for m in model.modules() if isinstance(m, QuantRMSNorm)]
    seen = {norm: None for norm in norms}
    hooks = [n.register_forward_hook(lambda n, x, y: seen.update({n: (x[0], y)})) for n in norms]
    with torch.no_grad():
        assert loss_of(window).item() < without_context
    for hook in hooks:
        hook.remove()
    for norm, (x, y) in seen.items():
        numpy_model = norm.model()
        np.testing.assert_array_equal(y.int().numpy(), numpy_model(numpy_model.quantize(x.numpy())))
    layers = [m for m in model.modules() if isinstance(m, BitLinear)]
    assert len(layers) == len(norms) == 5
    for layer in layers:
        assert set(layer.quant_weight().int().unique().tolist()) == {-1, 0, 1}
