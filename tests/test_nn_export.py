"""QuantRMSNorm in exported models: the node, its codes at every level, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brevitas.nn as qnn
import numpy as np
import onnx
import pytest
import torch
from brevitas.quant import Int8ActPerTensorFloat
from brevitas.quant_tensor import IntQuantTensor
from hls_cases import preset_model
from onnx import TensorProto, helper, numpy_helper
from onnx_zoo import norm_modules, quiet, torch_model
from qonnx.core.datatype import DataType
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from torch import Tensor, nn

from approxnorm import RMSNormSpec, preset
from approxnorm.errors import ApproxNormError
from approxnorm.export.onnx import DOMAIN
from approxnorm.export.onnx.rebuild import model_of_node
from approxnorm.export.onnx.runtimes import LEVELS, Level, cpu_session
from approxnorm.export.rewrite.placeholders import PLACEHOLDER, replace_placeholders
from approxnorm.export.rewrite.session import tapped
from approxnorm.nn import QuantRMSNorm
from approxnorm.nn.export import export_onnx

with warnings.catch_warnings():  # of Brevitas, about a package that it can do without
    warnings.simplefilter("ignore")
    from brevitas.export import export_onnx_qcdq, export_qonnx

DIM = 24
PRESETS = ("int8-linear", "int8-log", "outlier4-12bit", "int16-accurate", "published-sole")
PLAIN: dict[str, dict[str, Any]] = {
    name: {"bits": 8, "signed": True, "scale": 0.03} for name in ("x", "gamma", "y")
}
PLAIN["y"] |= {"rounding": "RND_CONV", "overflow": "SAT"}

pytestmark = [
    pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.SpecWarning"),
    pytest.mark.filterwarnings("ignore::approxnorm.rmsnorm.GammaWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # Brevitas' and torch's, about themselves
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


def spec_of(name: str = "int8-linear", **changes: Any) -> RMSNormSpec:
    """A preset with every number filled in; the plain one with scales that are no power of two."""
    if name == "int8-linear":
        return preset(name).with_dim(DIM).replace(**PLAIN).replace(**changes)
    return preset_model(name, DIM).spec.replace(**changes)


def layer_of(spec: RMSNormSpec | None = None, seed: int = 0, **options: Any) -> QuantRMSNorm:
    """A layer with a weight of its own, in eval mode."""
    layer = QuantRMSNorm(DIM, spec_of() if spec is None else spec, **options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        layer.weight.copy_(torch.rand(DIM, generator=generator) + 0.3)
    return layer.eval()


def rows(layer: QuantRMSNorm, *leading: int) -> Tensor:
    """Reals (*leading, DIM) with ties of x's codes, what saturates, infinities and zeros."""
    form = layer.model().assembly.x_format
    rng = np.random.default_rng(5)
    halves = rng.integers(2 * form.lo - 8, 2 * form.hi + 8, (*leading, DIM)) / 2
    x = (halves * float(form.scale)).astype(np.float32)
    flat = x.reshape(-1, DIM)
    flat[0] *= np.float32(0.01)
    if len(flat) > 1:
        flat[1, ::5] += np.float32(float(form.scale) / 3)
        flat[-1, :3] = np.inf, -np.inf, -1e-40
    return torch.from_numpy(x)


def by_brevitas(model: nn.Module, args: Any, path: Path, opset: int = 18, **options: Any) -> None:
    """Brevitas' QCDQ export."""
    export_onnx_qcdq(
        model,
        args if isinstance(args, tuple) else (args,),
        export_path=str(path),
        **{"dynamo": True, "optimize": True, "external_data": False, "verbose": False},
        opset_version=opset,
        **options,
    )


def by_qonnx(model: nn.Module, args: Any, path: Path, **options: Any) -> None:
    """Brevitas' QONNX export."""
    plain = {"dynamo": True, "optimize": True, "external_data": False, "verbose": False}
    given = args if isinstance(args, tuple) else (args,)
    export_qonnx(model, given, export_path=str(path), **(plain | options))


def by_older(model: nn.Module, args: Any, path: Path, opset: int = 18) -> None:
    """Brevitas' QCDQ export by torch's older exporter."""
    export_onnx_qcdq(model, args, export_path=str(path), dynamo=False, opset_version=opset)


def by_torch(model: nn.Module, args: Any, path: Path, opset: int = 18, **options: Any) -> None:
    export_onnx(model, args, path, opset_version=opset, verbose=False, **options)


def checked(path: Path) -> onnx.ModelProto:
    """The model of a file that onnx's checker takes, without placeholders."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert not [node for node in model.graph.node if node.op_type == PLACEHOLDER]
    return model


def answers(model: onnx.ModelProto, *inputs: Any, level: Level = "ALL") -> list[np.ndarray]:
    session = cpu_session(model, level)
    names = [value.name for value in session.get_inputs()]
    arrays = [np.asarray(value) for value in inputs]
    return list(session.run(None, dict(zip(names, arrays, strict=True))))


def nodes_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.domain == DOMAIN]


def value_of(result: Any) -> np.ndarray:
    """The floats of a forward."""
    value = result if isinstance(result, Tensor) else result.value
    return np.asarray(value.detach())


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Bit for bit, shape and dtype."""
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def scales_of(model: onnx.ModelProto) -> set[float]:
    """The float32 numbers among the initializers."""
    tensors = [numpy_helper.to_array(t) for t in model.graph.initializer]
    return {float(t) for t in tensors if t.dtype == np.float32 and t.shape == ()}


# --- codes, at every level ------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("name", PRESETS)
def test_layers_codes_come_out_of_the_file(name: str, opset: int, path: Path) -> None:
    layer = layer_of(spec_of(name))
    x = rows(layer, 2, 3)
    by_brevitas(layer, x, path, opset)
    model, y = checked(path), layer(x)
    (node,) = nodes_of(model)
    assert [e.version for e in model.opset_import if e.domain == ""] == [opset]
    assert model_of_node(node).digest == layer.model().digest
    codes = layer.model()(layer.model().quantize(x.numpy()))
    assert np.array_equal(np.asarray(y.int(float_datatype=False)), codes)
    shown = tapped(model, [node.output[0]])
    for level in LEVELS:
        assert same(answers(model, x, level=level)[0], value_of(y)), level
        assert np.array_equal(answers(shown, x, level=level)[1], codes), level


@pytest.mark.parametrize("export", [by_brevitas, by_torch, by_older])
def test_each_exporter_gives_the_same_node(export: Callable[..., None], path: Path) -> None:
    layer = layer_of(return_quant_tensor=False)
    x = rows(layer, 2, 3)
    export(layer, x, path)
    model = checked(path)
    assert [n.op_type for n in model.graph.node] == [
        "QuantizeLinear",
        "ApproxRMSNorm",
        "DequantizeLinear",
    ]
    assert [f.name for f in model.functions] == ["ApproxRMSNorm"]
    assert scales_of(model) == {float(np.float32(0.03))}
    for level in LEVELS:
        assert same(answers(model, x, level=level)[0], value_of(layer(x))), level


@pytest.mark.parametrize("returns", [True, False])
def test_quantised_neighbours(returns: bool, path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.input = qnn.QuantIdentity(bit_width=8, return_quant_tensor=returns)
            self.norm = layer_of(return_quant_tensor=returns)
            self.linear = qnn.QuantLinear(
                DIM, 8, bias=True, input_quant=Int8ActPerTensorFloat, return_quant_tensor=False
            )

        def forward(self, x: Tensor) -> tuple[Any, Any]:
            y = self.norm(self.input(x))
            return y, self.linear(y)

    torch.manual_seed(0)
    net, x = Net(), torch.randn(3, 4, DIM)
    net.train()
    net(x)  # Brevitas' own quantisers take their scales from data
    net.eval()
    want = [value_of(value) for value in net(x)]
    by_brevitas(net, x, path)
    assert net.norm.return_quant_tensor is returns
    assert [value_of(value).tobytes() for value in net(x)] == [value.tobytes() for value in want]
    model = checked(path)
    assert sum(n.op_type == "DequantizeLinear" for n in model.graph.node) == 4
    for level in LEVELS:
        y, z = answers(model, x, level=level)
        assert same(y, want[0]), level
        # What the runtime makes of the products of a linear layer is its own affair.
        assert np.abs(z - want[1]).max() < 1e-5, level


def test_learned_scales_are_those_of_the_moment(path: Path) -> None:
    layer = layer_of(learn_scales=True)
    x = rows(layer, 2, 3).nan_to_num(posinf=1, neginf=-1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
    for _ in range(2):  # an export in between leaves nothing behind
        layer.train()
        layer(x).value.square().sum().backward()
        optimizer.step()
        layer.eval()
        by_brevitas(layer, x, path)
        model = checked(path)
        forms = layer.spec.x, layer.spec.y
        assert {form.scale for form in forms} == scales_of(model)
        assert all(form.scale != PLAIN["x"]["scale"] for form in forms)
        assert model_of_node(nodes_of(model)[0]).digest == layer.model().digest
        assert same(answers(model, x)[0], value_of(layer(x)))


def test_gamma_plus_one(path: Path) -> None:
    gamma = {"bits": 8, "signed": True, "scale": 2.0**-6}
    spec = spec_of(normalize={"method": "multiply", "order": "gemma"}, gamma=gamma)
    layer = layer_of(spec)
    x = rows(layer, 5)
    by_brevitas(layer, x, path)
    assert same(answers(checked(path), x)[0], value_of(layer(x)))


def test_quantisers_of_brevitas(path: Path) -> None:
    layer = QuantRMSNorm(
        DIM, spec_of(), input_quant=Int8ActPerTensorFloat, output_quant=Int8ActPerTensorFloat
    )
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, DIM)).astype(np.float32))
    for factor in (1.0, 3.0):  # no scale of the first export stays
        layer.train()
        for _ in range(30):
            layer(x * factor)
        layer.eval()
        by_brevitas(layer, x, path)
        model = checked(path)
        assert model_of_node(nodes_of(model)[0]).digest == layer.model().digest
        assert same(answers(model, x)[0], value_of(layer(x)))


class Given(nn.Module):
    """Hands on floats as a QuantTensor of 16 bits; in a trace, as the floats they are."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Any:
        if torch.onnx.is_in_onnx_export():
            return x * 1.0
        ends = (torch.tensor(number) for number in (self.scale, 0.0, 16.0))
        return IntQuantTensor(x, *ends, True, False)


@pytest.mark.parametrize("rounding", ["TRN", "RND_CONV"])
def test_codes_of_a_quant_tensor_are_kept(rounding: str, path: Path) -> None:
    """A code times a scale, divided by it again, may lie one ulp below the code."""
    scale = np.float32(0.7)
    x_form = {"bits": 16, "signed": True, "rounding": rounding}
    layer = layer_of(spec_of("int16-accurate", x=x_form), input_quant=None)
    net = nn.Sequential(Given(float(scale)), layer).eval()
    codes = np.arange(-(1 << 15), (1 << 15) - (1 << 16) % DIM).reshape(-1, DIM)
    x = torch.from_numpy(codes.astype(np.float32) * scale)
    assert (np.floor(x.numpy() / scale) != codes).any()
    by_brevitas(net, x, path)
    model, want = checked(path), value_of(net(x))
    (node,) = nodes_of(model)
    assert np.array_equal(answers(tapped(model, [node.input[0]]), x)[1], codes)
    assert same(answers(model, x)[0], want)
    by_qonnx(net, x, path)
    assert same(executed(path, x)[1], want)


# --- shapes and dtypes ----------------------------------------------------------------------------


def test_sizes_that_may_change(path: Path) -> None:
    layer = layer_of()
    x = rows(layer, 2, 3)
    batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence")
    by_brevitas(layer, x, path, dynamic_shapes=({0: batch, 1: sequence},))
    model = checked(path)
    for value in (model.graph.input[0], model.graph.output[0]):
        assert [d.dim_param for d in value.type.tensor_type.shape.dim[:2]] == ["batch", "sequence"]
    for leading in ((2, 3), (1, 1), (4, 9)):
        other = rows(layer, *leading)
        assert same(answers(model, other)[0], value_of(layer(other)))


@pytest.mark.parametrize(
    ("shape", "dtype", "returns"),
    [
        ((), torch.float32, True),
        ((), torch.float16, False),
        ((3,), torch.float16, True),
        ((2, 2, 3), torch.float32, False),
        ((2, 2, 3), torch.float16, False),
    ],
)
def test_ranks_and_dtypes(
    shape: tuple[int, ...], dtype: torch.dtype, returns: bool, path: Path
) -> None:
    layer = layer_of(return_quant_tensor=returns).to(dtype)
    x = rows(layer, *shape).to(dtype)
    want = value_of(layer(x))
    assert want.dtype == (np.float32 if returns or dtype is torch.float32 else np.float16)
    by_brevitas(layer, x, path)
    assert same(answers(checked(path), x)[0], want)


def test_bfloat16_is_cast_around_the_norm(path: Path) -> None:
    layer = layer_of(return_quant_tensor=False).to(torch.bfloat16)
    x = rows(layer, 2, 3).to(torch.bfloat16)
    by_brevitas(layer, x, path)
    model = checked(path)
    (node,) = nodes_of(model)
    shown = tapped(model, [node.input[0], node.output[0]])
    input_codes, codes = cpu_session(shown).run(
        [node.input[0], node.output[0]],
        {model.graph.input[0].name: _bfloat16(x)},
    )
    assert np.array_equal(input_codes, layer.model().quantize(x.to(torch.float32).numpy()))
    assert np.array_equal(codes, layer.model()(input_codes))


# --- whole models ---------------------------------------------------------------------------------


def quantised(model: nn.Module) -> dict[str, QuantRMSNorm]:
    """Put layers of our own in the places of a model's norms; theirs by name."""
    layers = {}
    for name, norm in list(norm_modules(model)):
        layer = QuantRMSNorm(len(norm.weight), preset("int8-linear").replace(**PLAIN))
        layer.layer_name, layer.weight = name, norm.weight
        layer.return_quant_tensor = False
        model.set_submodule(name, layer)
        layers[name] = layer.eval()
    return layers


def test_small_t5(path: Path) -> None:
    model, inputs = torch_model("T5")
    layers = quantised(model)
    with quiet():
        by_brevitas(model, inputs, path)
    made = checked(path)
    nodes = nodes_of(made)
    assert sorted(n.name for n in nodes) == sorted(
        f"{name}/ApproxRMSNorm/ApproxRMSNorm" for name in layers
    )
    assert len(made.functions) == 1  # one datapath, many gammas
    taps = [value for node in nodes for value in (node.input[0], node.output[0])]
    found = answers(tapped(made, taps), *inputs)[len(made.graph.output) :]
    for node, x, y in zip(nodes, found[::2], found[1::2], strict=True):
        layer = layers[node.name.split("/")[0]]
        assert np.array_equal(y, layer.model()(x)), node.name
        assert model_of_node(node).digest == layer.model().digest
    (logits, *_) = answers(made, *inputs)
    assert np.abs(logits - value_of(model(*inputs))).max() < 0.05


def test_many_norms_share_functions(path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            two = spec_of(), spec_of("int8-log")
            self.norms = nn.ModuleList(
                layer_of(two[i % 2], i, return_quant_tensor=False) for i in range(10)
            )

        def forward(self, x: Tensor) -> Tensor:
            for norm in self.norms:
                x = x + norm(x)
            return self.norms[0](x)  # a layer that is called twice

    net = Net().eval()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, DIM)).astype(np.float32))
    by_brevitas(net, x, path)
    model = checked(path)
    assert sorted(f.name for f in model.functions) == ["ApproxRMSNorm", "ApproxRMSNorm_2"]
    names = [node.name for node in nodes_of(model)]
    assert names[0] == "norms.0/ApproxRMSNorm/ApproxRMSNorm"
    assert names[-1] == "norms.0/ApproxRMSNorm_2/ApproxRMSNorm"
    assert len(names) == len(set(names)) == 11
    assert same(answers(model, x)[0], value_of(net(x)))


def test_external_data_stay_beside_the_file(path: Path) -> None:
    net = nn.Sequential(nn.Linear(DIM, DIM), layer_of(return_quant_tensor=False)).eval()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, DIM)).astype(np.float32))
    by_torch(net, x, path, external_data=True)
    assert {p.name for p in path.parent.iterdir()} == {path.name, f"{path.name}.data"}
    session = cpu_session(str(path))
    (y,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    step = PLAIN["y"]["scale"]
    assert np.abs(y - value_of(net(x))).max() <= 1.01 * step  # x comes out of a product


# --- QONNX ----------------------------------------------------------------------------------------


def executed(path: Path, x: Tensor) -> tuple[ModelWrapper, np.ndarray]:
    wrapper = ModelWrapper(str(path))
    made = execute_onnx(wrapper, {wrapper.graph.input[0].name: x.numpy()})
    return wrapper, np.asarray(made[wrapper.graph.output[0].name])


@pytest.mark.parametrize("name", PRESETS[:3])
def test_qonnx_runs_its_export(name: str, path: Path) -> None:
    layer = layer_of(spec_of(name))
    x = rows(layer, 2, 3)
    by_qonnx(layer, x, path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    wrapper, y = executed(path, x)
    assert same(y, value_of(layer(x)))
    (node,) = nodes_of(wrapper.model)
    model = layer.model()
    assert model_of_node(node).digest == model.digest
    ends = (node.input[0], model.assembly.x_format), (node.output[0], model.assembly.context.y)
    for tensor, form in ends:
        want = DataType[f"{'INT' if form.signed else 'UINT'}{form.width}"]
        assert wrapper.get_tensor_datatype(tensor) == want
        assert wrapper.get_tensor_shape(tensor) == [2, 3, DIM]


def test_qonnx_with_quantised_neighbours(path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(layer_of(), qnn.QuantLinear(DIM, 8, bias=False)).eval()
    x = rows(net[0], 2, 3).nan_to_num(posinf=1, neginf=-1)
    by_qonnx(net, x, path)
    wrapper, z = executed(path, x)
    ops = [node.op_type for node in wrapper.graph.node]
    assert ops.count("Quant") == 3 and "QuantizeLinear" not in ops
    assert np.abs(z - value_of(net(x))).max() < 1e-5


def test_formats_that_quant_does_not_have(path: Path) -> None:
    layer = layer_of(spec_of(x=PLAIN["x"] | {"rounding": "RND", "overflow": "WRAP"}))
    x = rows(layer, 2, 3).nan_to_num(posinf=1, neginf=-1)
    by_qonnx(layer, x, path)
    wrapper, y = executed(path, x)
    assert same(y, value_of(layer(x)))
    assert "Quant" not in [node.op_type for node in wrapper.graph.node]


def test_qonnx_by_the_older_exporter(path: Path) -> None:
    layer = layer_of()
    x = rows(layer, 2, 3)
    export_qonnx(layer, x, export_path=str(path), dynamo=False, opset_version=17)
    _, y = executed(path, x)
    assert same(y, value_of(layer(x)))


# --- what is refused, and what is left behind -----------------------------------------------------


def refusal(export: Callable[[], None]) -> str:
    with pytest.raises(ApproxNormError) as error:
        export()
    return str(error.value)


def test_layers_that_have_no_codes_are_refused(path: Path) -> None:
    x = torch.ones(2, DIM)
    layer = QuantRMSNorm(DIM, "int8-linear").eval()
    layer.layer_name = "block.norm"
    for export in (by_brevitas, by_torch, by_qonnx):
        message = refusal(lambda export=export: export(layer, x, path))
        assert "block.norm is not calibrated" in message and "approxnorm.nn.calibrate" in message
    layer = layer_of()
    layer.calibrating = True
    assert "calibrating is True" in refusal(lambda: by_torch(layer, x, path))
    layer.calibrating, layer.input_quant.disable_quant = False, True
    assert "its input_quant is off" in refusal(lambda: by_torch(layer, x, path))
    layer.input_quant.disable_quant = False
    assert not path.exists()
    by_torch(layer, x, path)
    assert path.exists()


def test_torch_alone_is_told_what_to_use(path: Path) -> None:
    layer, x = layer_of(), torch.ones(2, DIM)
    by_brevitas(layer, x, path)
    with quiet(), pytest.raises(Exception, match=r"approxnorm\.nn\.export_onnx"):
        torch.onnx.export(layer, (x,), str(path), dynamo=True, verbose=False)


def test_models_for_export_onnx(path: Path) -> None:
    x = torch.ones(2, DIM)
    message = refusal(lambda: by_torch(nn.Linear(DIM, 2), x, path))
    assert "Linear has no QuantRMSNorm" in message and "replace_norms" in message
    net = nn.Sequential(layer_of(), qnn.QuantLinear(DIM, 8, bias=False))
    message = refusal(lambda: by_torch(net, x, path))
    assert "1.weight_quant" in message and "export_onnx_qcdq" in message
    assert ".onnx" in refusal(lambda: by_torch(layer_of(), x, path.with_suffix(".txt")))
    assert not list(path.parent.iterdir())


def test_an_input_quantiser_that_rounds_otherwise_than_the_spec(path: Path) -> None:
    spec = spec_of(x={"bits": 8, "signed": True, "scale": 0.03, "rounding": "TRN"})
    layer = layer_of(spec, input_quant=Int8ActPerTensorFloat)
    x = torch.randn(2, DIM)
    layer.train()
    layer(x)
    layer.eval()
    assert layer.model().assembly.x_format.rounding == "RND_CONV"  # the quantiser's own
    by_brevitas(layer, x, path)
    assert same(answers(checked(path), x)[0], value_of(layer(x)))


def test_placeholders_inside_of_branches_are_refused() -> None:
    inner = helper.make_node(PLACEHOLDER, ["x"], ["z"], domain=DOMAIN, layer="inner.norm")
    z = helper.make_tensor_value_info("z", 1, ["rows", DIM])
    body = helper.make_graph([inner], "body", [], [z])
    branch = helper.make_node("If", ["flag"], ["y"], then_branch=body, else_branch=body)
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    x, y = (helper.make_tensor_value_info(name, 1, ["rows", DIM]) for name in "xy")
    made = helper.make_model(helper.make_graph([branch], "main", [flag, x], [y]))
    message = refusal(lambda: replace_placeholders(made, {}))
    assert "inner.norm is inside of a branch" in message


def test_placeholders_of_another_program_are_refused() -> None:
    node = helper.make_node(PLACEHOLDER, ["x"], ["y"], domain=DOMAIN, layer="norm", digest="0" * 64)
    x, y = (helper.make_tensor_value_info(name, 1, ["rows", DIM]) for name in "xy")
    made = helper.make_model(helper.make_graph([node], "main", [x], [y]))
    message = refusal(lambda: replace_placeholders(made, {}))
    assert "layer norm has the digest '0000" in message and "export the model again" in message


def test_modes_are_as_before(path: Path) -> None:
    net = nn.Sequential(layer_of(), nn.Dropout())
    net.train()
    net[0].eval()
    for export in (by_torch, by_brevitas):
        before = {name: module.training for name, module in net.named_modules()}
        export(net, torch.ones(2, DIM), path)
        if export is by_torch:  # Brevitas puts all modules into the model's mode
            assert {name: module.training for name, module in net.named_modules()} == before
        assert net[0].return_quant_tensor is True
        assert "_prepared_for_export" not in net[0].__dict__
        assert net[0].input_quant.export_handler is None


def _bfloat16(x: Tensor) -> Any:
    """As ONNX Runtime takes it."""
    import onnxruntime

    bits = x.view(torch.int16).numpy()
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        bits.view(np.uint16), onnx.TensorProto.BFLOAT16
    )
