"""A kernel with run-time ports: each of its layers as the layer's own model, every signal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hls_cases import NORMALIZE, RSQRT, rows, statistics, with_gamma
from hls_kernels import Command, Kernels, assert_equal, top_name

from approxnorm import RMSNorm, RMSNormSpec
from approxnorm.errors import ApproxNormError
from approxnorm.hls_ref.emit import emit_ports_kernel
from approxnorm.residual import split

Fields = dict[str, Any]
Layers = dict[str, RMSNorm]

DIMS = (37, 5, 64)
# What a layer may have of its own beside its length and gamma: (x, gamma and y scale, eps).
NUMBERS = (
    (2.0**-6, 2.0**-5, 2.0**-9, 1e-3),
    (0.013, 2.0**-6, 0.002, 1e-6),
    (2.0**-9, 0.25, 1, 0.01),
)
# Its numbers of the statistic, where that has them.
OWN: dict[str, tuple[Any, ...]] = {
    "step_exponent": (5, 2, 0),
    "step_offset": (-1, 0, -3),
    "input_shift": (3, 0, 6),
}
BIASES = (1.0, 1.0625, 0.9)


def layer(i: int, rsqrt: Fields, statistic: Fields, normalize: Fields, **more: Any) -> RMSNorm:
    """Layer i of a model: the same methods, other numbers."""
    x, gamma, y, eps = NUMBERS[i]
    of_two_roundings = normalize.get("order") in ("llama", "onnx")
    if of_two_roundings:
        normalize = {**normalize, "intermediate": "ap_fixed<11,4,RND,SAT>"}
        y = gamma * 2.0 ** (i - 3)
    own = {name: values[i] for name, values in OWN.items() if name in statistic}
    fields: Fields = {
        "norm": "rmsnorm",
        "dim": DIMS[i],
        "eps": eps,
        "x": {"bits": 12, "signed": True, "scale": x},
        "gamma": {"bits": 8, "signed": True, "scale": gamma},
        "y": {"bits": 14, "signed": True, "scale": y, "rounding": "RND_CONV", "overflow": "SAT"},
        "statistic": {**statistic, "bias": BIASES[i], **own},
        "rsqrt": rsqrt,
        "normalize": normalize,
    }
    return with_gamma(RMSNormSpec(**{**fields, **more}), i)


def layers(rsqrt: Fields, statistic: Fields, normalize: Fields, **more: Any) -> Layers:
    return {f"layer_{i}": layer(i, rsqrt, statistic, normalize, **more) for i in range(3)}


PORTED = [n for n in NORMALIZE if n["constant"] != "table"]
LOG2 = RSQRT[7]


def kernels_of_any_method() -> Iterator[tuple[str, Layers]]:
    """Each statistic in its forms, and each normalizer."""
    statistic_forms = statistics(5)[:14]  # of the accumulators one
    for i, statistic in enumerate(statistic_forms):
        normalize = PORTED[i % len(PORTED)]
        rsqrt = LOG2 if normalize["method"] == "log" else RSQRT[(3 * i) % len(RSQRT)]
        yield f"{rsqrt}, {statistic}, {normalize}", layers(rsqrt, statistic, normalize)


ALL = 14
BATCH = 7


@pytest.mark.parametrize("start", range(0, ALL, BATCH))
def test_each_layer_is_its_model(start: int, tmp_path: Path) -> None:
    found = list(kernels_of_any_method())
    assert len(found) == ALL
    batch = found[start : start + BATCH]
    sources = [
        emit_ports_kernel(models, 3 + i, max_dim=64 + i, top=top_name(i))
        for i, (_, models) in enumerate(batch)
    ]
    kernels = Kernels(tmp_path, sources)
    for i, (name, models) in enumerate(batch):
        each = list(models.values())
        # In any order, twice in a row, and again: every call loads its numbers anew.
        commands = [Command(each[n], rows(each[n], n), layer=n) for n in (2, 0, 1, 1, 0, 2)]
        for command, answer in zip(commands, kernels.run(i, *commands), strict=True):
            assert_equal(command, answer, f"layer {command.layer} of {name}")


def test_every_normalizer_with_ports_is_covered() -> None:
    names = " ".join(name for name, _ in kernels_of_any_method())
    assert [n for n in PORTED if str(n) not in names] == []


def test_formats_with_channel_shifts_and_row_exponent(tmp_path: Path) -> None:
    """Row exponents, channel factors, zero points and the residual add, all at once."""
    statistic = {"method": "outlier_exact", "bits": 3, "step_exponent": 4}
    models = {}
    for i, dim in enumerate(DIMS):
        shifts = [(i + n) % 4 for n in range(dim)]
        fields = {
            "x": {"bits": 14, "signed": False, "scale": NUMBERS[i][0], "zero_point": 7000},
            "y": {"bits": 9, "signed": False, "scale": 0.02 + i, "zero_point": 200},
            "channel_shifts": {"max_shift": 3, "shifts": shifts},
            "row_exponent": {"bits": 9},
        }
        fields["y"] |= {"rounding": "RND", "overflow": "SAT"}
        models[f"l{i}"] = layer(i, RSQRT[6], statistic, PORTED[3], **fields)
    source = emit_ports_kernel(models, 8, top=top_name(0), residual=True)
    kernels = Kernels(tmp_path, [source])
    commands = []
    for i, model in enumerate(models.values()):
        a, b = split(model, rows(model), seed=i)
        commands.append(Command(model, a, b, layer=i))
    for command, answer in zip(commands, kernels.run(0, *commands), strict=True):
        x = rows(command.model)
        assert answer.sum is not None
        assert np.array_equal(answer.sum, x)
        assert_equal(Command(command.model, x), answer)


# --- numbers of the channels that stay ----------------------------------------------------------

KEEP = f"""
static void keep_rows(int layer, const long long *x, int rows, long long *y) {{
    using namespace {top_name(0)}_kernel;
    hls::stream<x_beat_t> x_in("x_in");
    hls::stream<y_beat_t> y_out("y_out");
    hls::stream<channel_word_t> channels_in("channels_in");
    driver::send_rows<x_t>(x_in, x, rows, driver::dim(layer), driver::LANES, 0);
    {top_name(0)}(x_in, y_out, driver::REGISTERS[layer], channels_in, false, rows);
    driver::receive_rows<y_t>(y_out, y, rows, driver::dim(layer), driver::LANES);
}}
#define RUN_KIND(kind, layer, x, residual, rows, y, sum) \\
    (kind ? keep_rows(layer, x, rows, y) : driver::run_rows(layer, x, residual, rows, y, sum))
"""


def test_without_a_load_the_channels_numbers_stay(tmp_path: Path) -> None:
    """Two layers that differ in gamma alone: without a load, the last one's gamma is used."""
    first = layer(0, RSQRT[6], {"method": "full"}, PORTED[3])
    second = RMSNorm(first.spec, first.gamma[::-1].copy())
    source = emit_ports_kernel({"a": first, "b": second}, 8, top=top_name(0))
    kernels = Kernels(tmp_path, [source], before_runner=KEEP)
    x = rows(first)
    commands = [Command(first, x), Command(first, x, layer=1, kind=1)]
    commands += [Command(second, x, layer=1), Command(second, x, layer=0, kind=1)]
    assert not np.array_equal(first(x), second(x))
    for command, answer in zip(commands, kernels.run(0, *commands), strict=True):
        assert_equal(command, answer)


# --- refusals -----------------------------------------------------------------------------------


def other(i: int, statistic: Fields | None = None, **more: Any) -> RMSNorm:
    rsqrt = more.pop("rsqrt", RSQRT[6])
    return layer(i, rsqrt, statistic or {"method": "full"}, PORTED[3], **more)


def test_a_table_of_each_layer_is_refused() -> None:
    normalize = {"method": "multiply", "constant": "table"}
    one = layer(0, RSQRT[6], {"method": "full"}, normalize)
    with pytest.raises(ApproxNormError, match=r'^normalize.constant is "table".*allowed .*"gamma"'):
        emit_ports_kernel({"a": one})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"y": "ap_fixed<13,5,RND_CONV,SAT>"}, r"y\b"),
        ({"rsqrt": {"method": "linear", "segments": 4, "bits": 10}}, "rsqrt.bits"),
        ({"statistic": {"method": "mean_abs"}}, "statistic.method"),
        ({"x": {"bits": 12, "signed": True, "scale": 1, "zero_point": 3}}, r"x\b"),
    ],
)
def test_layers_that_differ_in_more_are_refused(fields: Fields, named: str) -> None:
    models = {"a": other(0), "b": other(1, **fields)}
    with pytest.raises(ApproxNormError, match=f"^layers a and b differ in .*{named}.*; give each"):
        emit_ports_kernel(models)


def test_a_number_that_its_port_cannot_hold_is_refused() -> None:
    statistic = {"method": "low_bit", "step": "dynamic", "step_offset": -1}
    models = layers(RSQRT[6], statistic, PORTED[3])
    models["loud"] = other(1)
    own = {**statistic, "step_offset": 2, "bias": 1.0}
    models["loud"] = RMSNorm(models["loud"].spec.replace(statistic=own), models["loud"].gamma)
    with pytest.raises(
        ApproxNormError, match=r"^layer loud: step_offset is 2; .*holds -8 to 0; give"
    ):
        emit_ports_kernel(models)


def test_a_row_longer_than_the_longest_is_refused() -> None:
    with pytest.raises(ApproxNormError, match=r"^max_dim is 36; allowed: 37 or more"):
        emit_ports_kernel({"a": other(0), "b": other(1)}, max_dim=36)


def test_lanes_that_make_no_beat_are_refused() -> None:
    with pytest.raises(ApproxNormError, match=r"^lanes is 74; allowed: 1 to 73, "):
        emit_ports_kernel({"a": other(0)}, 74)
