"""Normalize: orders, the constant's places, the log domain, and what is refused."""

import math
import warnings
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracle import log2_decimal

from approxnorm import ApproxNormError, EpsWarning, RMSNorm, RMSNormSpec, preset
from approxnorm.calibrate import calibrate_array
from approxnorm.methods.function import RSQRT_METHODS
from approxnorm.methods.normalizers import root_float, rounded_root, split_gain
from approxnorm.program import WidthError
from approxnorm.tables.table import Table

BASE: dict[str, Any] = {
    "norm": "rmsnorm",
    "dim": 48,
    "eps": 1e-3,
    "x": "ap_fixed<12,6>",
    "gamma": "ap_fixed<10,3>",
    "y": "ap_fixed<14,5,RND_CONV,SAT>",
    "statistic": {"method": "full"},
    "rsqrt": {"method": "linear", "segments": 16, "bits": 16},
    "normalize": {"method": "multiply"},
}
LOG2 = {"method": "log2", "index_bits": 8}


# Constants folded into gamma take some of it beyond its format here, which is told.
pytestmark = pytest.mark.filterwarnings("ignore::approxnorm.GammaWarning")


def build(gamma: Any = None, /, **changes: Any) -> RMSNorm:
    spec = RMSNormSpec(**BASE | changes)
    assert spec.dim is not None
    return RMSNorm(spec, np.linspace(-3, 3, spec.dim) if gamma is None else gamma)


def codes_of(model: RMSNorm, rows: int, seed: int = 0) -> np.ndarray:
    form = model.assembly.x_format
    rng = np.random.default_rng(seed)
    codes = np.rint(rng.standard_normal((rows, model.dim)) * np.exp2(rng.uniform(0, 9, (rows, 1))))
    return np.clip(codes, form.lo, form.hi).astype(np.int64)


def mathematics(model: RMSNorm, codes: np.ndarray) -> np.ndarray:
    """What the model's own numbers say, in float64, in LSBs of y and not limited."""
    x, gamma = model.dequantize_x(codes), model.gamma_real()
    gamma = gamma + model.spec.normalize.adds_one
    square = np.mean(x * x, axis=-1, keepdims=True) + model.spec.eps
    return gamma * x / np.sqrt(square) / float(model.assembly.context.y.scale)


def largest_error(model: RMSNorm, codes: np.ndarray, relative: float = 0) -> float:
    """In LSBs of y, where y does not saturate; less what a relative error of the root explains."""
    want, form = mathematics(model, codes), model.assembly.context.y
    error = np.abs(model(codes) - form.zero_point - want) - relative * np.abs(want)
    inside = (want > form.lo) & (want < form.hi)
    return float(np.max(error[inside]))


# --- multiply -------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["table", "gamma", "multiplier"])
@pytest.mark.parametrize("dim", [1, 3, 48, 64, 100])
def test_the_constant_goes_anywhere(place: str, dim: int) -> None:
    """sqrt(k) * s_gamma / s_y is right wherever it goes, whatever k is."""
    gamma = {"bits": 10, "signed": True, "scale": 0.0123}
    y = {"bits": 16, "signed": True, "scale": 0.0071, "rounding": "RND", "overflow": "SAT"}
    normalize = {"method": "multiply", "constant": place}
    # eps is 0, as the derived guard keeps 8 bits of it only
    model = build(dim=dim, gamma=gamma, y=y, normalize=normalize, eps=0)
    codes = codes_of(model, 30, seed=dim) | 1
    assert largest_error(model, codes, relative=2e-4) <= 0.5


def test_each_bit_of_the_constant_multiplier_counts() -> None:
    errors = []
    for bits in (2, 5, 8, 14):
        normalize = {"method": "multiply", "constant": "multiplier", "constant_bits": bits}
        errors.append(largest_error(model := build(normalize=normalize), codes_of(model, 30)))
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 10 > 2 > errors[-1]


def test_multipliers_are_counted() -> None:
    counted = {}
    for place in ("table", "gamma", "multiplier"):
        model = build(normalize={"method": "multiply", "constant": place})
        counted[place] = model.assembly.require_datapath().count_multipliers()
    # a square, x * gamma, * mantissa; one in the linear rsqrt
    assert counted["table"] == counted["gamma"] == {"element": 3, "row": 1}
    # the constant is a parameter of the spec, which may be a register
    assert counted["multiplier"] == {"element": 3, "row": 2}


@pytest.mark.parametrize("order", ["llama", "onnx"])
def test_casting_first_rounds_twice(order: str) -> None:
    """y = round(round(x / rms) * gamma): computed here from the exact yardstick's cast."""
    middle = "ap_fixed<9,5,RND_CONV,SAT>"
    normalize = {"method": "multiply", "order": order, "intermediate": middle}
    model = build(normalize=normalize, y="ap_fixed<12,7,RND_CONV,SAT>")
    codes = codes_of(model, 20)
    y, trace = model(codes, trace=True)
    x = model.dequantize_x(codes)
    rms = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-3)
    assert np.max(np.abs(trace["normalized"] - np.clip(x / rms * 16, -256, 255))) < 0.51
    want = np.rint(trace["normalized"] * model.gamma / 2.0**6)  # LSBs 2**-4 * 2**-7 to 2**-5
    assert np.array_equal(y, np.clip(want, -2048, 2047))
    fused = build(y="ap_fixed<12,7,RND_CONV,SAT>")
    assert np.count_nonzero(fused(codes) != y) > 100


def test_llama_and_onnx_are_the_same_bits() -> None:
    middle = "ap_fixed<9,5,RND_CONV,SAT>"
    first, second = (
        build(normalize={"method": "multiply", "order": order, "intermediate": middle})
        for order in ("llama", "onnx")
    )
    codes = codes_of(first, 20)
    assert np.array_equal(first(codes), second(codes))
    assert first.digest != second.digest  # the spec is another


def test_gemma_adds_one_to_gamma() -> None:
    gamma = np.linspace(-1, 1, 48)
    fused, gemma = (
        build(gamma + 1),
        build(gamma, normalize={"method": "multiply", "order": "gemma"}),
    )
    codes = codes_of(fused, 20)
    assert np.array_equal(fused.gamma, gemma.gamma + 128)
    assert np.array_equal(fused(codes), gemma(codes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"normalize": {"method": "multiply", "constant": "multiplier"}},
        {"normalize": {"method": "multiply", "constant": "gamma"}},
        {
            "normalize": {
                "method": "multiply",
                "order": "llama",
                "intermediate": "ap_fixed<12,5,RND,SAT>",
            }
        },
        {"row_exponent": {"bits": 7}},
        {"statistic": {"method": "low_bit", "step_exponent": 2, "bias": 1.07}},
        {"statistic": {"method": "mean_abs"}},
    ],
)
def test_root_tells_what_the_run_used(changes: dict[str, Any]) -> None:
    model = build(**changes)
    context = model.assembly.context
    codes = codes_of(model, 40)
    codes[0] = 0
    _, trace = model(codes, trace=True)
    operand = trace[model.assembly.row.operand.name].astype(np.float64)
    eps = trace.get("eps_row", trace["eps"]) / 2.0**context.guard
    root = model.spec.normalize.root(trace, context)
    assert np.allclose(root * np.sqrt(operand + eps), 1, rtol=2e-4, atol=0)


def test_root_of_a_row_without_energy_is_zero() -> None:
    for normalize, rsqrt in (("multiply", BASE["rsqrt"]), ("log", LOG2)):
        model = build(eps=0, rsqrt=rsqrt, normalize={"method": normalize})
        _, trace = model(np.zeros((2, 48), int), trace=True)
        root = model.spec.normalize.root(trace, model.assembly.context)
        assert root.tolist() == [0, 0]


# --- eps and guard --------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [1e-9, 1e-6, 1e-5, 1e-3, 0.5, 40.0])
@pytest.mark.parametrize("frac_bits", [6, 9, 14])
def test_the_derived_guard_keeps_8_bits_of_eps(eps: float, frac_bits: int) -> None:
    rsqrt = {"method": "direct", "index_bits": 6, "bits": 12, "frac_bits": frac_bits}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EpsWarning)
        context = build(eps=eps, rsqrt=rsqrt).assembly.context
    exact = Fraction(str(eps)) * 48 * 4**6  # units of an LSB**2 summed over the row
    assert context.guard % 2 == 0
    assert context.guard <= frac_bits + 2
    assert context.eps_code == round(exact * 2**context.guard)
    enough = [g for g in range(0, frac_bits + 3, 2) if round(exact * 2**g) >= 128]
    assert context.guard == (enough[0] if enough else (frac_bits + 2) // 2 * 2)


def test_eps_counts_in_units_of_the_statistic() -> None:
    """eps * k / (bias * 4**exponent * s_x**2), whatever is summed."""
    codes = {}
    for name, statistic, units in (
        ("full", {"method": "full"}, 48),
        ("prefix", {"method": "prefix", "count": 12}, 12),
        ("strided", {"method": "strided", "start": 3, "stride": 5}, 9),
        ("bias", {"method": "full", "bias": 1.5}, 32),
        ("low", {"method": "low_bit", "step_exponent": 2}, Fraction(48, 16)),
        ("sole", {"method": "sole", "input_shift": 1}, Fraction(48, 64)),
    ):
        model = build(statistic=statistic, eps=1.0, eps_guard=0)
        codes[name] = model.assembly.context.eps_code
        assert codes[name] == round(units * 4**6), name
    assert len(set(codes.values())) == len(codes)


def test_a_row_exponent_never_inflates_eps() -> None:
    """Rows scaled up by powers of two are normalised as if eps were scaled with them."""
    fields = {"eps": 0.25, "row_exponent": {"bits": 7}, "x": "ap_fixed<16,10>"}
    model = build(**fields)
    small = codes_of(model, 30, seed=4) >> 6
    for k in (1, 3, 5):
        _, trace = model(small << k, trace=True)
        shifted = trace["row_shift"]
        eps = [round(Fraction(model.assembly.context.eps_code, 4 ** int(s))) for s in shifted]
        assert trace["eps_row"].tolist() == eps
    assert np.max(shifted) > 0


@pytest.mark.parametrize("x", ["ap_fixed<8,6>", "ap_fixed<8,4>"])
@pytest.mark.parametrize("guard", [0, 4, None])
@pytest.mark.parametrize("dim", [1, 48, 576])
def test_the_eps_that_a_warning_names_is_the_least(x: str, guard: int | None, dim: int) -> None:
    fields = BASE | {"x": x, "eps_guard": guard, "dim": dim, "rsqrt": {"method": "log2"}}
    with pytest.warns(EpsWarning, match="eps is 1e-15, below one unit") as caught:
        model = RMSNorm(RMSNormSpec(**fields | {"eps": 1e-15}), np.zeros(dim))
    assert model.assembly.context.eps_code == 0
    least = float(str(caught[0].message).split("counts from ")[1].split()[0])
    again = RMSNorm(RMSNormSpec(**fields | {"eps": least}), np.zeros(dim))  # without a warning
    assert again.assembly.context.eps_code >= 1
    with pytest.warns(EpsWarning):
        RMSNorm(RMSNormSpec(**fields | {"eps": least * 0.99}), np.zeros(dim))


def test_eps_of_zero_needs_no_warning() -> None:
    assert build(eps=0).assembly.context.eps_code == 0


@pytest.mark.parametrize("eps", [1e18, 1e300])
def test_an_eps_past_any_signal_is_named(eps: float) -> None:
    with pytest.raises(ApproxNormError, match=r"eps is 1e\+.*bits in units of the statistic"):
        build(eps=eps)


# --- log domain -----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["table", "gamma", "multiplier"])
def test_the_log_domain_follows_the_mathematics(place: str) -> None:
    """Relative error: three logarithms rounded to log_bits, and one antilogarithm."""
    errors = []
    for bits in (4, 6, 8):
        rsqrt = {"method": "log2", "index_bits": min(bits, 8)}
        y = {"bits": 24, "signed": True, "scale": 2.0**-16, "rounding": "RND", "overflow": "SAT"}
        model = build(
            rsqrt=rsqrt, normalize={"method": "log", "log_bits": bits, "constant": place}, y=y
        )
        codes = codes_of(model, 30)
        want = mathematics(model, codes)
        nonzero = np.abs(want) > 1000
        error = model(codes)[nonzero] / want[nonzero] - 1
        errors.append(float(np.max(np.abs(error))))
        assert errors[-1] < 2 ** (4 * 2.0**-bits) - 1
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


@pytest.mark.parametrize("name", ["int8-log", "log-16bit", "published-mitchell"])
def test_multiplier_free_means_the_statistic_too(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 40)).astype(np.float32)
    spec = calibrate_array(preset(name), x, np.ones(40)).spec
    datapath = RMSNorm(spec, np.ones(40)).assembly.require_datapath()
    assert datapath.count_multipliers() == {"element": 0, "row": 0}


def test_zeros_in_the_log_domain_give_zero() -> None:
    gamma = np.linspace(-3, 3, 48)
    gamma[10] = 0
    y = {"bits": 12, "signed": True, "scale": 0.01, "zero_point": 33, "rounding": "TRN"}
    model = build(gamma, rsqrt=LOG2, normalize={"method": "log"}, y=y | {"overflow": "SAT"})
    codes = codes_of(model, 20) | 1
    codes[3, 5] = 0
    out = model(codes)
    assert np.all(out[:, 10] == 33)
    assert out[3, 5] == 33
    assert np.count_nonzero(out == 33) < out.size // 4


def test_signs_are_applied_before_the_rounding() -> None:
    """TRN takes a tiny negative value to -1 and a tiny positive one to 0."""
    gamma = np.where(np.arange(48) % 2, 0.01, -0.01)
    y = "ap_fixed<8,8,TRN,SAT>"
    model = build(gamma, rsqrt=LOG2, normalize={"method": "log"}, y=y)
    out = model(np.full((1, 48), 100))
    assert np.array_equal(out[0], np.where(np.arange(48) % 2, 0, -1))
    assert np.array_equal(model(np.full((1, 48), -100))[0], np.where(np.arange(48) % 2, -1, 0))


def test_half_rounding_matters() -> None:
    outputs = []
    for mode in ("TRN", "RND", "RND_CONV", "RND_MIN_INF"):
        normalize = {"method": "log", "log_bits": 4, "half_rounding": mode}
        model = build(rsqrt=LOG2, normalize=normalize)
        codes = codes_of(model, 60)
        _, trace = model(codes, trace=True)
        root, total = (trace[n].astype(np.int64) for n in ("log_root", "log_total"))
        outputs.append(root)
        ties = total % 2 == 1
        assert np.any(ties)
        assert np.array_equal(root[~ties] * 2, total[~ties])
    trn, rnd, conv, down = outputs
    assert np.array_equal(trn, down)
    assert np.all(rnd >= conv)
    assert not np.array_equal(rnd, conv)
    assert not np.array_equal(conv, down)


@pytest.mark.parametrize("dim", [2, 8, 32, 128, 512, 2048])
def test_the_antilog_table_holds_a_constant_of_root_two(dim: int) -> None:
    """sqrt(dim) = sqrt(2) * 2**p: an entry of it is a whole number where 2**t is sqrt(2)."""
    model = build(dim=dim, rsqrt=LOG2, normalize={"method": "log", "constant": "table"})
    entries = tables_of(model)["exp2_table"].entries
    assert entries[len(entries) // 2] == 2 * 2 ** tables_of(model)["exp2_table"].frac_bits


def tables_of(model: RMSNorm) -> dict[str, Table]:
    return {t.name: t for t in model.assembly.require_datapath().tables()}


def log2_of(value: int, bits: int) -> Decimal:
    """log2(1 + value / 2**bits)"""
    return log2_decimal(Fraction((1 << bits) + value, 1 << bits))


@pytest.mark.parametrize(("index_bits", "bits"), [(1, 3), (4, 4), (6, 6), (5, 9), (8, 12)])
def test_log_table_entries_are_minimax(index_bits: int, bits: int) -> None:
    """No other integer has a smaller largest error over its cell."""
    normalize = {"method": "log", "log_bits": bits, "log_index_bits": index_bits}
    table = tables_of(build(rsqrt=LOG2, normalize=normalize))["log2_table"]
    assert len(table.entries) == 1 << index_bits
    for cell, entry in enumerate(table.entries):
        ends = [log2_of(cell + i, index_bits) * 2**bits for i in (0, 1)]
        worst = {e: max(abs(e - end) for end in ends) for e in (entry - 1, entry, entry + 1)}
        assert worst[entry] <= min(worst.values())


@pytest.mark.parametrize(
    ("index_bits", "log_bits", "bits"), [(1, 3, 5), (4, 4, 6), (3, 8, 8), (6, 10, 14), (8, 9, 10)]
)
def test_corrections_are_minimax(index_bits: int, log_bits: int, bits: int) -> None:
    """No other integer has a smaller largest error over its cell, the datapath's line included."""
    normalize = {"method": "log", "log_bits": log_bits, "form": "correction"}
    normalize |= {"log_index_bits": index_bits, "antilog_index_bits": index_bits}
    model = build(rsqrt=LOG2, normalize=normalize | {"antilog_bits": bits, "constant": "gamma"})
    logs, powers = (tables_of(model)[n].entries for n in ("log2_table", "exp2_table"))
    assert len(logs) == len(powers) == 1 << index_bits
    size = 1 << (log_bits - index_bits)
    for cell in range(1 << index_bits):
        places = range(cell * size, (cell + 1) * size)

        def worst_log(entry: int, places: range = places) -> Decimal:
            codes = {i: min(i + entry, 2**log_bits - 1) for i in places}
            exact = {i: log2_of(i, log_bits) * 2**log_bits for i in (*places, places.stop)}
            return max(max(abs(c - exact[i]), abs(c - exact[i + 1])) for i, c in codes.items())

        def worst_power(entry: int, places: range = places) -> Decimal:
            line = {i: (2**log_bits + i) * 2 ** (bits - log_bits) - entry for i in places}
            powers = {i: Decimal(2) ** (Decimal(i) / 2**log_bits) * 2**bits for i in places}
            return max(abs(code - powers[i]) for i, code in line.items())

        for worst, entry in ((worst_log, logs[cell]), (worst_power, powers[cell])):
            assert worst(entry) <= min(worst(entry - 1), worst(entry + 1))


@pytest.mark.parametrize("place", ["gamma", "table"])
@pytest.mark.parametrize(("index_bits", "log_bits", "bits"), [(6, 6, 8), (4, 7, 10), (3, 3, 12)])
def test_antilog_entries_are_as_stated(
    place: str, index_bits: int, log_bits: int, bits: int
) -> None:
    """The rounded value if all bits address it, else minimax in the relative sense."""
    normalize = {
        "method": "log",
        "log_bits": log_bits,
        "antilog_index_bits": index_bits,
        "antilog_bits": bits,
        "constant": place,
    }
    model = build(rsqrt=LOG2, normalize=normalize)
    table = tables_of(model)["exp2_table"]
    context = model.assembly.context
    gain, _ = split_gain(model.spec.normalize.gain(context))  # type: ignore[attr-defined]
    constant = gain if place == "table" else Fraction(1)
    with localcontext() as decimals:
        decimals.prec = 50
        factor = (Decimal(constant.numerator) / Decimal(constant.denominator)).sqrt() * 2**bits
        for cell, entry in enumerate(table.entries):
            left, right = (
                factor * Decimal(2) ** (Decimal(cell + i) / 2**index_bits) for i in (0, 1)
            )
            if index_bits == log_bits:
                assert entry == int(left + Decimal("0.5"))
                continue
            worst = {
                e: max(abs(e - end) / end for end in (left, right))
                for e in (entry - 1, entry, entry + 1)
            }
            assert worst[entry] <= min(worst.values())


# --- constants ------------------------------------------------------------------------------------


def test_gains_are_split_exactly() -> None:
    for n in range(1, 70):
        for d in (1, 3, 7, 64):
            squared, p = split_gain(Fraction(n, d))
            assert 1 <= squared < 4
            assert squared * Fraction(4) ** p == Fraction(n, d)


def test_roots_are_rounded_exactly() -> None:
    for n in range(1, 400):
        for bits in (0, 1, 5, 20):
            root = rounded_root(Fraction(n, 7), bits)
            target = Fraction(n, 7) * 4**bits
            assert target < Fraction(2 * root + 1, 2) ** 2
            assert root == 0 or Fraction(2 * root - 1, 2) ** 2 <= target
        assert math.isclose(root_float(Fraction(n, 7)), math.sqrt(n / 7), rel_tol=1e-15)
    assert rounded_root(Fraction(25, 4), 0) == 3  # 2.5 rounds up
    assert root_float(Fraction(9, 4)) == 1.5


# --- what is refused ------------------------------------------------------------------------------

LLAMA = {"method": "multiply", "order": "llama"}
CORRECTED = {"method": "log", "log_bits": 10, "form": "correction"}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"normalize": {"method": "log"}}, r"rsqrt\.method is 'linear'; .* allowed: log2 or power_of"),
    (
        {"normalize": {"method": "multiply", "constant_bits": 5}},
        r'constant_bits is 5; .* normalize\.constant = "multiplier" only',
    ),
    (
        {"rsqrt": LOG2, "normalize": {"method": "log", "constant": "table", "constant_bits": 5}},
        r"normalize\.constant_bits",
    ),
    (
        {"rsqrt": LOG2, "normalize": {"method": "log", "log_bits": 4, "antilog_index_bits": 5}},
        r"antilog_index_bits is 5; allowed: at most log_bits, 4",
    ),
    (
        {
            "rsqrt": LOG2,
            "normalize": {"method": "log", "antilog_index_bits": 0, "constant": "table"},
        },
        r'normalize\.constant is "table", but antilog_index_bits is 0',
    ),
    (
        {"rsqrt": LOG2, "normalize": CORRECTED | {"constant": "table"}},
        r'normalize\.constant is "table", but form is "correction", .* allowed: "gamma" or',
    ),
    (
        {"rsqrt": LOG2, "normalize": CORRECTED | {"log_index_bits": 9}},
        r'log_index_bits is 9; with normalize\.form = "correction" .* allowed: at most 8',
    ),
    (
        {"rsqrt": LOG2, "normalize": CORRECTED | {"log_bits": 4, "log_index_bits": 5}},
        r"log_index_bits is 5; .* log_bits = 4 allowed: at most 4",
    ),
    (
        {"rsqrt": LOG2, "normalize": CORRECTED | {"antilog_bits": 9}},
        r"antilog_bits is 9; .* allowed: at least log_bits, 10",
    ),
    ({"normalize": LLAMA}, r"order is 'llama'; normalize\.intermediate is allowed, and needed"),
    (
        {"normalize": {"method": "multiply", "intermediate": "ap_fixed<9,5,RND,SAT>"}},
        r"order is 'fused'; normalize\.intermediate is allowed",
    ),
    (
        {"normalize": LLAMA | {"intermediate": "ap_fixed<9,5>"}},
        r"normalize\.intermediate must name its rounding and overflow",
    ),
    (
        {
            "normalize": LLAMA
            | {"intermediate": {"bits": 9, "rounding": "RND", "overflow": "SAT"}},
        },
        r"normalize\.intermediate has no scale",
    ),
    (
        {
            "normalize": LLAMA
            | {
                "intermediate": {
                    "bits": 9,
                    "scale": 0.25,
                    "zero_point": 3,
                    "rounding": "RND",
                    "overflow": "SAT",
                }
            },
        },
        r"intermediate\.zero_point is 3; allowed: 0",
    ),
    (
        {
            "normalize": LLAMA | {"intermediate": "ap_fixed<9,5,RND,SAT>"},
            "gamma": {"bits": 10, "scale": 0.01},
        },
        r"normalize\.intermediate: its scale times gamma's must be y's times a power of two",
    ),
    (
        {
            "normalize": LLAMA
            | {"intermediate": "ap_fixed<9,5,RND,SAT>", "constant": "multiplier"},
            "rsqrt": {"method": "exact"},
        },
        r'order is "llama"; with rsqrt\.method "exact"',
    ),
    (
        {"normalize": {"method": "multiply", "order": "gemma"}, "gamma": "ap_fixed<8,10>"},
        r'gamma has scale 4\.0; order "gemma" adds 1 to it; allowed: a scale of 2\*\*-n',
    ),
    (
        {"normalize": {"method": "multiply", "order": "gemma", "constant": "gamma"}},
        r'normalize\.constant is "gamma"; with order "gemma"',
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_illegal_combinations_are_refused(case: int) -> None:
    changes, words = REFUSED[case]
    with pytest.raises(ApproxNormError, match=words):
        build(**changes)


def test_methods_without_tables_of_their_own_keep_the_constant_out() -> None:
    rom = {"index_bits": 0, "bits": 4, "width": 8, "entries": [16, 11]}
    names = [n for n in RSQRT_METHODS.names() if not RSQRT_METHODS.get(n).folds_constant]
    assert {"newton", "fisr", "isqrt_divide", "file", "power_of_two"} == set(names)
    for name in names:
        rsqrt = {"method": name} | (rom if name == "file" else {})
        with pytest.raises(ApproxNormError, match=f"rsqrt.method '{name}' cannot hold it"):
            build(rsqrt=rsqrt, normalize={"method": "multiply", "constant": "table"})
        derived = build(rsqrt=rsqrt, normalize={"method": "multiply"})
        assert derived.spec.normalize.constant == "multiplier"


def test_an_absent_constant_goes_where_there_is_a_table() -> None:
    assert build(normalize={"method": "multiply"}).spec.normalize.constant == "table"
    mitchell = {"method": "log2", "index_bits": 0}
    places = [
        build(rsqrt=mitchell, normalize=normalize).spec.normalize.constant
        for normalize in (
            {"method": "multiply"},
            {"method": "log"},
            {"method": "log", "log_index_bits": 0, "antilog_index_bits": 0},
        )
    ]
    assert places == ["multiplier", "table", "gamma"]


def test_a_product_past_63_bits_names_the_fields() -> None:
    with pytest.raises(WidthError, match=r"at most 63 are allowed; lower rsqrt\.out_bits, gamma"):
        build(
            x={"bits": 26, "scale": 0.01},
            gamma={"bits": 24, "scale": 0.01},
            rsqrt=BASE["rsqrt"] | {"out_bits": 24},
        )


def test_the_exact_yardstick_takes_the_constant_anywhere() -> None:
    results = []
    for place in ("table", "multiplier"):
        model = build(
            rsqrt={"method": "exact"}, normalize={"method": "multiply", "constant": place}
        )
        codes = np.arange(-model.dim, model.dim, 2, dtype=np.int64)
        results.append(model(codes))
    assert np.array_equal(*results)
