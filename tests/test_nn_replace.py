"""replace_norms: norms are known by what they compute, look-alikes stay, models stay whole."""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import norm_modules as norms
import pytest
import torch
from small_models import FAMILIES, SmallModel, small_model
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from approxnorm import ApproxNormError, preset
from approxnorm.nn import QuantRMSNorm
from approxnorm.nn import registry as registry_module
from approxnorm.nn.calibration import calibrate
from approxnorm.nn.obstacles import obstacle
from approxnorm.nn.probe import Norm, probe
from approxnorm.nn.registry import describe_norm, register_norm
from approxnorm.nn.replace import replace_norms

DIM = 24
SPEC = "outlier4-12bit"


@pytest.fixture
def registered() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    kept = dict(registry_module._REGISTRY)
    yield
    registry_module._REGISTRY.clear()
    registry_module._REGISTRY.update(kept)


def names(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, QuantRMSNorm)]


def layers(model: nn.Module) -> list[QuantRMSNorm]:
    return [module for module in model.modules() if isinstance(module, QuantRMSNorm)]


# --- what a module computes -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("eps", [1e-3, 1e-5, 1e-6, 1e-8, 1e-12])
@pytest.mark.parametrize("kind", [norms.LlamaNorm, norms.GemmaNorm])
def test_norms_are_known_with_their_eps(
    kind: type[norms.Weighted], eps: float, dtype: torch.dtype
) -> None:
    found = describe_norm(kind(DIM, eps).to(dtype))
    assert found == Norm(DIM, eps, adds_one=kind is norms.GemmaNorm)


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 7, 64, 4099])
def test_rows_of_any_length(dim: int) -> None:
    assert describe_norm(norms.LlamaNorm(dim)) == Norm(dim, 1e-5)
    assert describe_norm(norms.GemmaNorm(dim)) == Norm(dim, 1e-5, adds_one=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_of_other_orders_are_known(dtype: torch.dtype) -> None:
    assert describe_norm(norms.NaiveNorm(DIM).to(dtype)) == Norm(DIM, 1e-5)
    assert describe_norm(norms.Heads(DIM).to(dtype)) == Norm(DIM, 1e-5)
    assert describe_norm(norms.UnitNorm(DIM).to(dtype)) == Norm(DIM, 0.0)
    assert describe_norm(norms.LlamaNorm(DIM, 0.0).to(dtype)) == Norm(DIM, 0.0)


def test_eps_is_measured_where_no_attribute_tells() -> None:
    assert describe_norm(norms.UnnamedEps(DIM)) == Norm(DIM, 3e-7)
    lying = norms.LlamaNorm(DIM, 1e-6)
    lying.eps = 1e-5  # type: ignore[assignment]
    assert describe_norm(lying) == Norm(DIM, 1e-6)


@pytest.mark.parametrize("fill", [0.0, 1.0, -1.0])
def test_plain_weights_do_not_hide_what_is_added(fill: float) -> None:
    for kind in (norms.LlamaNorm, norms.GemmaNorm):
        module = kind(DIM)
        nn.init.constant_(module.weight, fill)
        assert describe_norm(module) == Norm(DIM, 1e-5, adds_one=kind is norms.GemmaNorm)


@pytest.mark.parametrize(
    ("dtype", "eps"),
    [
        (torch.float64, torch.finfo(torch.float64).eps),
        (torch.float32, torch.finfo(torch.float32).eps),
        (torch.bfloat16, torch.finfo(torch.float32).eps),
        (torch.float16, torch.finfo(torch.float32).eps),
    ],
)
def test_torch_norms_without_eps_have_that_of_their_dtype(dtype: torch.dtype, eps: float) -> None:
    assert describe_norm(nn.RMSNorm(DIM, dtype=dtype)) == Norm(DIM, eps)
    assert describe_norm(nn.RMSNorm(DIM, eps=1e-6, dtype=dtype)) == Norm(DIM, 1e-6)
    model = nn.Sequential(nn.RMSNorm(DIM, dtype=dtype))
    done = replace_norms(model, "int8-linear")
    assert done.replaced[0].eps == eps
    assert done.replaced[0].layer.spec.eps == eps


@pytest.mark.parametrize("eps", [1e-12, 0.2, 1.0])
def test_any_eps_is_found(eps: float) -> None:
    norm = describe_norm(norms.LlamaNorm(DIM, eps))
    assert isinstance(norm, Norm)
    assert norm.eps == eps


NEITHER = "computes neither weight"
LOOK_ALIKES: list[tuple[Callable[[], nn.Module], str]] = [
    (lambda: nn.LayerNorm(DIM), "its parameters are weight, bias"),
    (lambda: nn.LayerNorm(DIM, bias=False), "it subtracts the mean"),
    (lambda: nn.LayerNorm(DIM, elementwise_affine=False), "it has no weight"),
    (lambda: nn.BatchNorm1d(DIM), "its parameters are weight, bias"),
    (lambda: nn.GroupNorm(2, DIM), "its parameters are weight, bias"),
    (lambda: nn.RMSNorm((2, DIM)), "over the last 2 axes"),
    (lambda: nn.RMSNorm(DIM, elementwise_affine=False), "it has no weight"),
    (lambda: norms.L2Norm(DIM), NEITHER),
    (lambda: norms.ScaleNorm(DIM), NEITHER),
    (lambda: norms.CentredNorm(DIM), "it subtracts the mean"),
    (lambda: norms.BiasedNorm(DIM), "its parameters are weight, bias"),
    (lambda: norms.ShiftedNorm(DIM), NEITHER),
    (lambda: norms.OuterEpsNorm(DIM), r"does not compute weight \* x"),
    (lambda: norms.LimitedNorm(DIM), r"does not compute weight \* x"),
    (lambda: norms.ClampedNorm(DIM), r"does not compute weight .* where results are large$"),
    (lambda: norms.DroppingNorm(DIM), "in training it computes something else"),
    (lambda: norms.PartialNorm(DIM), NEITHER),
    (lambda: norms.GroupedNorm(DIM), NEITHER),
    (lambda: norms.BatchwiseNorm(DIM), r"shape \(2, 3, 24\) .* over the last axis"),
    (lambda: norms.ChannelsFirstNorm(DIM), r"shape \(2, 3, 24\) .* over the last axis"),
    (lambda: norms.ImageNorm(DIM), "a norm keeps shapes"),
    (lambda: norms.GatedNorm(DIM), "its forward takes x, gate; a norm takes one tensor"),
    (lambda: norms.ResidualNorm(DIM), "its forward takes x, more"),
    (lambda: norms.PairNorm(DIM), "it returns a tuple"),
    (lambda: norms.WeightFirstNorm(DIM), NEITHER),
    (lambda: norms.AbsoluteNorm(DIM), NEITHER),
    (lambda: norms.FrozenNorm(DIM), NEITHER),
    (lambda: norms.StatefulNorm(DIM), r"its buffers \(steps\)"),
    (lambda: norms.BrokenNorm(DIM), "rows raised RuntimeError: needs a GPU$"),
    (lambda: norms.RenamedNorm(DIM), "its parameters are scale; allowed: one, called weight"),
    (lambda: norms.LlamaNorm(DIM).to("meta"), "meta device"),
    (lambda: parametrizations.weight_norm(norms.LlamaNorm(DIM)), "parametrized"),
]


@pytest.mark.parametrize(("make", "reason"), LOOK_ALIKES)
def test_look_alikes_are_left_with_a_reason(make: Callable[[], nn.Module], reason: str) -> None:
    model = nn.Sequential(make(), norms.LlamaNorm(DIM))
    before = model[0]
    done = replace_norms(model, SPEC)
    assert [r.name for r in done.replaced] == ["1"]
    (left,) = done.left
    assert (left.name, left.kind) == ("0", type(before).__name__)
    assert model[0] is before
    assert re.search(reason, left.reason), left.reason


def test_gated_norms_of_transformers_are_left() -> None:
    from transformers.models.mamba2.modeling_mamba2 import MambaRMSNormGated
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextRMSNormGated

    for module in (Qwen3NextRMSNormGated(DIM), MambaRMSNormGated(DIM, group_size=DIM)):
        found = describe_norm(module)
        assert isinstance(found, str)
        assert "gate; a norm takes one tensor" in found


def test_other_modules_are_left_in_silence() -> None:
    others = [nn.Linear(DIM, DIM, bias=False), nn.PReLU(DIM), nn.Embedding(5, DIM), nn.Identity()]
    others += [norms.LayerScale(DIM), nn.Dropout(), nn.GELU(), nn.Conv1d(DIM, DIM, 3)]
    model = nn.Sequential(*others, nn.RMSNorm(DIM))
    done = replace_norms(model, SPEC)
    assert done.left == []
    assert [model[i] is other for i, other in enumerate(others)] == [True] * len(others)


def test_a_weight_that_holds_no_numbers_is_left() -> None:
    module = norms.LlamaNorm(DIM)
    nn.init.constant_(module.weight, float("nan"))
    assert describe_norm(module) == "its weight holds NaN or infinity"
    lazy = norms.LlamaNorm(DIM)
    lazy.weight = nn.UninitializedParameter()  # type: ignore[assignment]
    assert describe_norm(lazy) == "its weight has no shape yet; run the model once"


def test_probing_has_no_effect() -> None:
    """Not on the module, its mode and state, nor on anyone's random numbers."""

    class Noisy(norms.LlamaNorm):
        def __init__(self) -> None:
            super().__init__(DIM)
            self.register_buffer("calls", torch.zeros(()), persistent=False)
            self.count = 0

        def forward(self, x: Tensor) -> Tensor:
            torch.rand(3)
            self.count += 1
            assert isinstance(self.calls, Tensor)
            self.calls += 1
            return super().forward(x)

    module = Noisy().train()
    module.weight.grad = torch.ones(DIM)
    before, seed = module.weight.detach().clone(), torch.get_rng_state()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert obstacle(module) is None
        assert probe(module) == Norm(DIM, 1e-5)
    assert module.training
    assert module.count == 0
    assert float(module.calls) == 0  # type: ignore[arg-type]
    assert torch.equal(module.weight, before)
    assert module.weight.requires_grad
    assert torch.equal(torch.get_rng_state(), seed)


# --- the registry ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("registered")
def test_a_registered_class_is_described() -> None:
    class Gated(norms.GatedNorm):
        pass

    def describe(module: Gated) -> Norm:
        return Norm(module.weight.numel(), module.variance_epsilon)

    register_norm(Gated, describe)
    assert "takes x, gate" in str(describe_norm(Gated(DIM)))
    register_norm(Gated, describe, verified=False)
    model = nn.Sequential(Gated(DIM, 1e-4))
    (done,) = replace_norms(model, SPEC).replaced
    assert (done.name, done.eps, done.kind) == ("0", 1e-4, "Gated")


@pytest.mark.usefixtures("registered")
def test_what_an_entry_says_is_checked() -> None:
    class Mine(norms.LlamaNorm):
        pass

    register_norm(Mine, lambda module: Norm(DIM, 1e-3))
    assert "0.001) over the last axis" in str(describe_norm(Mine(DIM)))
    register_norm(Mine, lambda module: Norm(DIM + 1, 1e-5))
    assert describe_norm(Mine(DIM)) == "its weight has 24 elements, not 25"
    register_norm(Mine, lambda module: "it is dear to me")
    assert describe_norm(Mine(DIM)) == "it is dear to me"

    class Heir(Mine):
        pass

    assert describe_norm(Heir(DIM)) == "it is dear to me"
    assert describe_norm(norms.LlamaNorm(DIM)) == Norm(DIM, 1e-5)
    with pytest.raises(ApproxNormError, match=r"register_norm got 3; allowed: a subclass of"):
        register_norm(3, lambda module: "")  # type: ignore[arg-type]


def test_a_subclass_that_computes_something_else_is_no_torch_norm() -> None:
    class Doubled(nn.RMSNorm):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    assert "it does not compute weight" in str(describe_norm(Doubled(DIM)))


# --- what is replaced -----------------------------------------------------------------------------


def block() -> Any:
    return nn.ModuleDict({"norm": norms.LlamaNorm(DIM), "lin": nn.Linear(DIM, DIM)})


def test_a_layer_keeps_what_the_norm_had() -> None:
    model = nn.Sequential(norms.LlamaNorm(DIM, 1e-4).double(), norms.GemmaNorm(DIM).half())
    model[0].eval()
    model[1].weight.requires_grad_(False)
    weights = [model[0].weight, model[1].weight]
    order = list(model.state_dict())
    done = replace_norms(model, SPEC, return_quant_tensor=True)
    for i, entry in enumerate(done.replaced):
        layer = model[i]
        assert isinstance(layer, QuantRMSNorm)
        assert entry.layer is layer
        assert layer.weight is weights[i]
        assert layer.layer_name == entry.name == str(i)
        assert layer.return_quant_tensor
    assert [e.kind for e in done.replaced] == ["LlamaNorm", "GemmaNorm"]
    assert [e.eps for e in done.replaced] == [1e-4, 1e-5]
    assert [m.training for m in model] == [False, True]
    assert [m.weight.requires_grad for m in model] == [True, False]
    assert [m.weight.dtype for m in model] == [torch.float64, torch.float16]
    assert [key for key in model.state_dict() if key in order] == order
    assert str(done) == "0: LlamaNorm(24), eps 0.0001\n1: GemmaNorm(24), eps 1e-05, 1 + weight"


def test_one_plus_weight_goes_into_the_spec_and_out_of_it() -> None:
    model = nn.Sequential(norms.GemmaNorm(DIM), norms.LlamaNorm(DIM))
    gemma = preset("int8-linear")
    gemma = gemma.replace(normalize=gemma.normalize.model_copy(update={"order": "gemma"}))
    for spec in ("int8-linear", gemma):
        made = copy.deepcopy(model)
        replace_norms(made, spec)
        assert [layer.spec.normalize.adds_one for layer in layers(made)] == [True, False]
        x = torch.randn(8, DIM, generator=torch.Generator().manual_seed(1))
        calibrate(made, [x])
        for before, after in zip(model, made, strict=True):
            want = before(x)
            assert (want - after(x)).abs().max() < 0.05 * want.abs().max()
            x = want


def test_one_plus_weight_needs_a_spec_that_adds() -> None:
    model = nn.ModuleDict({"a": norms.LlamaNorm(DIM), "b": norms.GemmaNorm(DIM)})
    with pytest.raises(
        ApproxNormError,
        match=r'norm b: it multiplies by 1 \+ weight, and normalize.method is "log", which cannot',
    ):
        replace_norms(model, "int8-log")
    assert names(model) == []  # nothing is half done
    assert names_after(model, "int8-log", skip=["b"]) == ["a"]
    cast = preset("int8-linear")
    middle = {"bits": 10, "scale": 2.0**-6, "rounding": "RND_CONV", "overflow": "SAT"}
    order = {"method": "multiply", "order": "llama", "intermediate": middle}
    with pytest.raises(ApproxNormError, match=r'norm b: .* normalize.order is "llama", which'):
        replace_norms(model, cast.replace(normalize=order))


def test_factors_of_y_do_not_go_with_one_plus_weight() -> None:
    model = nn.Sequential(norms.GemmaNorm(DIM))
    spec = preset("int8-linear").replace(y_channel_shifts={"max_shift": 3})
    with pytest.raises(ApproxNormError, match=r"norm 0: .*y_channel_shifts divide gamma"):
        replace_norms(model, spec)


def names_after(model: nn.Module, spec: Any, **options: Any) -> list[str]:
    """What is replaced in a copy."""
    made = copy.deepcopy(model)
    done = replace_norms(made, spec, **options)
    assert names(made) == [entry.name for entry in done.replaced]
    return names(made)


def test_shared_modules_stay_shared_and_tied_weights_tied() -> None:
    model: Any = nn.ModuleDict({"a": block(), "b": block(), "c": block()})
    model["b"]["norm"] = model["a"]["norm"]
    model["d"] = model["c"]
    model["c"]["norm"].weight = model["a"]["norm"].weight
    done = replace_norms(model, SPEC)
    assert [(e.name, e.aliases) for e in done.replaced] == [
        ("a.norm", ("b.norm",)),
        ("c.norm", ("d.norm",)),
    ]
    a, b, c, d = (model[name]["norm"] for name in "abcd")
    assert a is b and c is d and a is not c
    assert a.weight is c.weight
    assert names_after(nn.Sequential(block(), block()), SPEC, only="0.*") == ["0.norm"]


def test_an_alias_is_matched_too() -> None:
    model: Any = nn.ModuleDict({"a": block(), "b": block()})
    model["b"]["norm"] = model["a"]["norm"]
    assert [e.name for e in replace_norms(model, SPEC, only=["b.norm"]).replaced] == ["a.norm"]


def test_every_kind_of_place() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q_norm = norms.LlamaNorm(DIM)
            self.many = nn.ModuleList([norms.LlamaNorm(DIM), nn.Sequential(nn.RMSNorm(DIM))])
            self.none: nn.Module | None = None
            self.register_module("nothing", None)

        def forward(self, x: Tensor) -> Tensor:
            return self.many[1](self.many[0](self.q_norm(x)))

    model = Holder()
    x = torch.randn(5, DIM, generator=torch.Generator().manual_seed(0))
    want = model(x)
    done = replace_norms(model, SPEC)
    assert [e.name for e in done.replaced] == ["q_norm", "many.0", "many.1.0"]
    calibrate(model, [x])
    assert (model(x) - want).abs().max() < 0.05 * want.abs().max()


def test_layer_keywords_are_passed_on() -> None:
    model = nn.Sequential(nn.RMSNorm(DIM))
    replace_norms(model, "int8-linear", learn_scales=True, output_bit_width=6)
    assert layers(model)[0].spec.y.bits == 6
    assert {n for n, _ in model.named_parameters()} > {"0.weight"}
    with pytest.raises(TypeError, match="nonsense"):
        replace_norms(nn.Sequential(nn.RMSNorm(DIM)), "int8-linear", nonsense=1)


# --- hooks and the like ---------------------------------------------------------------------------


def test_what_would_be_lost_is_a_reason() -> None:
    hooked, wrapped, gradient = (norms.LlamaNorm(DIM) for _ in range(3))
    handle = hooked.register_forward_hook(lambda *_: None)
    wrapped.forward = wrapped.forward  # type: ignore[method-assign]
    gradient.register_full_backward_hook(lambda *_: None)
    compiled: Any = torch.compile(norms.LlamaNorm(DIM))
    model = nn.Sequential(hooked, wrapped, gradient, compiled, norms.LlamaNorm(DIM))
    before = [model[i] for i in range(3)]
    done = replace_norms(model, SPEC)
    assert names(model) == ["4"]
    assert [(one.name, one.reason.split(",")[0].split(";")[0]) for one in done.left] == [
        ("0", "it has hooks"),
        ("1", "its forward was replaced on this one module"),
        ("2", "it has hooks"),
        ("3._orig_mod", "it was compiled by itself"),
    ]
    assert [model[i] for i in range(3)] == before
    handle.remove()
    assert [e.name for e in replace_norms(model, SPEC).replaced] == ["0"]


def test_hooks_of_the_state_dict_are_hooks() -> None:
    module = norms.LlamaNorm(DIM)
    module.register_load_state_dict_post_hook(lambda *_: None)
    assert str(describe_norm(module)).startswith("it has hooks, which would be lost")


def test_parametrized_modules_are_found_out() -> None:
    class Positive(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight.abs()

    module = norms.LlamaNorm(DIM)
    parametrize.register_parametrization(module, "weight", Positive())
    assert describe_norm(module) == "its weight is parametrized"


# --- which norms ----------------------------------------------------------------------------------


def ladder() -> nn.ModuleDict:
    return nn.ModuleDict(
        {
            "layers": nn.ModuleList([block(), block(), block()]),
            "norm": norms.LlamaNorm(DIM),
            "ln": nn.LayerNorm(DIM),
        }
    )


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, ["layers.0.norm", "layers.1.norm", "layers.2.norm", "norm"]),
        ({"only": ["norm"]}, ["norm"]),
        ({"only": "layers.*"}, ["layers.0.norm", "layers.1.norm", "layers.2.norm"]),
        ({"only": ["layers.[01].norm", "norm"]}, ["layers.0.norm", "layers.1.norm", "norm"]),
        ({"skip": ["layers.?.norm"]}, ["norm"]),
        ({"only": ["layers.*"], "skip": ["*.1.*"]}, ["layers.0.norm", "layers.2.norm"]),
        ({"skip": ["ln", "norm"]}, ["layers.0.norm", "layers.1.norm", "layers.2.norm"]),
    ],
)
def test_patterns_choose(options: dict[str, Any], want: list[str]) -> None:
    assert names_after(ladder(), SPEC, **options) == want


def test_what_is_left_out_is_told() -> None:
    done = replace_norms(ladder(), SPEC, only=["layers.*"], skip=["layers.1.norm"])
    assert [(one.name, one.reason) for one in done.left] == [
        ("layers.1.norm", "skip names it"),
        ("norm", "only does not name it"),
        ("ln", "its parameters are weight, bias; allowed: one, called weight"),
    ]
    assert "norm: LlamaNorm is left: only does not name it" in str(done)


def test_specs_by_pattern_the_first_that_matches_counts() -> None:
    model = ladder()
    per_layer: dict[str, Any] = {"layers.1.norm": "int8-log", "layers.*": preset("int8-lowbit4")}
    replace_norms(model, "int8-linear", per_layer=per_layer)
    methods = [layer.spec.statistic.method for layer in layers(model)]
    assert methods == ["low_bit", "leading_one", "low_bit", "full"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ["layer.*"]}, r"only 'layer.\*' matches no norm; allowed: layers.0.norm, "),
        ({"skip": ["nrom"]}, "skip 'nrom' matches no norm"),
        ({"per_layer": {"x": "int8-log"}}, "per_layer 'x' matches no norm"),
        ({"only": ["ln"]}, r"only is 'ln', but ln \(LayerNorm\) is left alone: its parameters"),
        ({"per_layer": {"ln": SPEC}}, r"per_layer is 'ln', but ln \(LayerNorm\) is left alone"),
        ({"only": ["norm"], "skip": ["n*"]}, "only and skip leave no norm; allowed: layers.0"),
        ({"per_layer": {"*": SPEC, "norm": SPEC}}, "per_layer 'norm' has no norm of its own"),
        ({"only": [3]}, "only holds 3; allowed: names or patterns"),
    ],
)
def test_patterns_without_effect_are_errors(options: dict[str, Any], message: str) -> None:
    model = ladder()
    with pytest.raises(ApproxNormError, match=message):
        replace_norms(model, SPEC, **options)
    assert names(model) == []


def test_models_without_a_norm_to_replace() -> None:
    with pytest.raises(ApproxNormError, match=r"has no RMSNorm that can be taken$"):
        replace_norms(nn.Sequential(nn.Linear(3, 3)), SPEC)
    with pytest.raises(ApproxNormError, match=r"can be taken \(0 is left: its parameters"):
        replace_norms(nn.Sequential(nn.LayerNorm(3)), SPEC)
    with pytest.raises(ApproxNormError, match="the model is a norm itself"):
        replace_norms(nn.RMSNorm(3), SPEC)
    with pytest.raises(ApproxNormError, match=r"model is a int; allowed: a torch\.nn\.Module"):
        replace_norms(3, SPEC)  # type: ignore[arg-type]
    model = nn.Sequential(nn.RMSNorm(DIM))
    replace_norms(model, SPEC)
    with pytest.raises(ApproxNormError, match="norms are QuantRMSNorm already"):
        replace_norms(model, SPEC)


def test_a_spec_that_does_not_fit_changes_nothing() -> None:
    model = nn.ModuleDict({"a": nn.RMSNorm(DIM), "b": nn.RMSNorm(DIM + 1)})
    with pytest.raises(ApproxNormError, match="norm b: dim is 24 in the spec, but rows have 25"):
        replace_norms(model, preset("int8-linear").with_dim(DIM))
    with pytest.raises(ApproxNormError, match="did you mean 'int8-linear'"):
        replace_norms(model, "int8-liner")
    assert names(model) == []


# --- real models ----------------------------------------------------------------------------------


@pytest.fixture(params=sorted(FAMILIES))
def family(request: pytest.FixtureRequest) -> SmallModel:
    return small_model(request.param)


def test_every_norm_of_a_model_is_replaced_and_it_trains(family: SmallModel) -> None:
    model, batch = family.model, family.batch
    want = [n for n, m in model.named_modules() if "Norm" in type(m).__name__]
    assert len(want) == family.norms
    state = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        before = model(**batch).logits
    done = replace_norms(model, "outlier4-12bit")
    assert [entry.name for entry in done.replaced] == want == names(model)
    assert done.left == []
    assert {entry.eps for entry in done.replaced} == {family.eps}
    assert {entry.adds_one for entry in done.replaced} == {family.adds_one}

    assert [key for key in model.state_dict() if key in state] == list(state)
    now = dict(model.named_parameters())
    assert set(now) == set(parameters)
    assert all(now[name] is parameters[name] for name in parameters)
    model.load_state_dict(state, strict=True)

    assert set(calibrate(model, [batch])) == set(want)
    with torch.no_grad():
        after = model(**batch).logits
    assert (after - before).abs().max() < 0.05 * before.abs().max()
    model.train()
    model(**batch).logits.square().mean().backward()
    for name in want:
        gradient = model.get_submodule(name).weight.grad
        assert isinstance(gradient, Tensor)
        assert torch.isfinite(gradient).all() and gradient.any()


def test_a_calibrated_model_is_copied_and_saved(family: SmallModel) -> None:
    model, batch = family.model, family.batch
    fresh = copy.deepcopy(model)
    replace_norms(model, "int8-linear")
    calibrate(model, [batch])
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    replace_norms(fresh, "int8-linear")
    fresh.load_state_dict(torch.load(file), strict=True)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        want = model(**batch).logits
        assert torch.equal(copied(**batch).logits, want)
        assert torch.equal(fresh(**batch).logits, want)


@pytest.mark.parametrize("name", ["gemma", "llama"])
def test_a_model_in_bfloat16(name: str) -> None:
    small = small_model(name)
    model, batch = small.model.to(torch.bfloat16), small.batch
    with torch.no_grad():
        before = model(**batch).logits
    done = replace_norms(model, "outlier4-12bit")
    assert len(done.replaced) == small.norms
    assert {e.layer.weight.dtype for e in done.replaced} == {torch.bfloat16}
    calibrate(model, [batch])
    after = model(**batch).logits
    assert after.dtype == torch.bfloat16
    assert (after - before).abs().max() < 0.1 * before.abs().max()
