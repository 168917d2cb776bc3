"""Finding RMSNorms in graphs written by hand: every form, what is none, what is out of reach."""

import re
from itertools import product

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_graphs import DIM, EPS, GAMMA, PARAMETERS, graph, largest_difference, replaced, rows, run

from approxnorm.errors import ApproxNormError
from approxnorm.export.norms import Findings, Norm, find_norms

MEAN = "s = Mul(x, x) m = ReduceMean(s, last) a = Add(m, eps)"
INVERSE = f"{MEAN} r = Sqrt(a) i = Reciprocal(r)"
PLAIN = f"{INVERSE} n = Mul(x, i)"
NORM = f"{PLAIN} y = Mul(n, w)"

SQUARES = ["s = Mul(x, x)", "s = Pow(x, two)", "s = Pow(x, two_int)"]
MEANS = [
    "m = ReduceMean(s, last)",
    "m = ReduceMean(s, third)",
    "t = ReduceSum(s, last) m = Div(t, dim)",
    "t = ReduceSum(s, last) m = Mul(t, share)",
]
SUMS = ["a = Add(m, eps)", "a = Add(eps, m)"]
STATISTICS = [" ".join(parts) for parts in product(SQUARES, MEANS, SUMS)]
STATISTICS += [f"t = ReduceSumSquare(x, last) m = Mul(share, t) {total}" for total in SUMS]
STATISTICS += [f"t = ReduceSumSquare(x, last) m = Div(t, dim) {total}" for total in SUMS]

INVERSES = [
    "r = Sqrt(a) i = Reciprocal(r)",
    "r = Sqrt(a) i = Div(one, r)",
    "r = Pow(a, half) i = Reciprocal(r)",
    "i = Pow(a, minus_half)",
    "v = Reciprocal(a) i = Sqrt(v)",
    "v = Div(one, a) i = Sqrt(v)",
]
# Each order of each product; gamma last, with the root, with x, and none.
INVERSE_PRODUCTS = [
    f"n = Mul({inner}) y = Mul({outer})"
    for inside, other in [("x, i", "w"), ("i, w", "x"), ("x, w", "i")]
    for inner in [inside, ", ".join(reversed(inside.split(", ")))]
    for outer in [f"n, {other}", f"{other}, n"]
] + ["y = Mul(x, i)", "y = Mul(i, x)"]
ROOTS = ["r = Sqrt(a)", "r = Pow(a, half)"]
PRODUCTS = [
    "n = Div(x, r) y = Mul(n, w)",
    "n = Div(x, r) y = Mul(w, n)",
    "n = Div(w, r) y = Mul(x, n)",
    "n = Div(w, r) y = Mul(n, x)",
    "n = Mul(x, w) y = Div(n, r)",
    "n = Mul(w, x) y = Div(n, r)",
    "y = Div(x, r)",
]
SCALINGS = [" ".join(parts) for parts in product(INVERSES, INVERSE_PRODUCTS)]
SCALINGS += [" ".join(parts) for parts in product(ROOTS, PRODUCTS)]


def find(model: onnx.ModelProto) -> Findings:
    """What is found, in a model that stays as it is."""
    before = model.SerializeToString()
    findings = find_norms(model)
    assert model.SerializeToString() == before
    return findings


def only_norm(model: onnx.ModelProto) -> Norm:
    """The one norm that there is in a model; with nothing else that looks like one."""
    findings = find(model)
    assert findings.unrecognised == ()
    assert findings.layernorms == 0
    (norm,) = findings.norms
    return norm


def assert_replaceable(model: onnx.ModelProto, **inputs: np.ndarray) -> None:
    """Put in as Norm says, the norm of ONNX Runtime gives the same outputs."""
    inputs = inputs or {"x": rows(2, 4)}
    new = replaced(model, find(model))
    assert largest_difference(run(new, inputs), run(model, inputs)) < 1e-6


def reason(model: onnx.ModelProto) -> str:
    """Why the one thing that looks like a norm cannot be replaced."""
    findings = find(model)
    assert findings.norms == ()
    (unrecognised,) = findings.unrecognised
    return unrecognised.reason


@pytest.mark.parametrize("statistic", STATISTICS)
def test_every_form_of_the_mean_square(statistic: str) -> None:
    model = graph(f"{statistic} {INVERSES[0]} {INVERSE_PRODUCTS[0]}")
    norm = only_norm(model)
    assert (norm.kind, norm.x, norm.y, norm.eps) == ("decomposed", "x", "y", EPS)
    np.testing.assert_array_equal(norm.gamma, GAMMA)
    assert norm.nodes == tuple(range(len(model.graph.node)))
    assert_replaceable(model)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_every_form_of_the_root_and_the_products(scaling: str) -> None:
    model = graph(f"{MEAN} {scaling}")
    norm = only_norm(model)
    assert (norm.x, norm.y, norm.eps, norm.dim) == ("x", "y", EPS, DIM)
    np.testing.assert_array_equal(
        norm.gamma, GAMMA if ", w" in scaling or "(w," in scaling else np.ones(DIM)
    )
    assert norm.gamma.dtype == np.float32
    assert norm.nodes == tuple(range(len(model.graph.node)))
    assert_replaceable(model)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("w_box", NORM.replace("w)", "w_box)")),
        ("one_box", NORM.replace("Reciprocal(", "Div(one_box, ")),
        ("eps_box", NORM.replace("eps", "eps_box")),
        ("two_box", NORM.replace("Mul(x, x)", "Pow(x, two_box)")),
    ],
)
@pytest.mark.parametrize("rank", [2, 3, None])
def test_constants_with_more_axes_than_a_row_of_the_input(
    name: str, body: str, rank: int | None
) -> None:
    """They would add axes to the output, which a norm does not."""
    shape = {2: f"[4, {DIM}]", 3: f"[2, 4, {DIM}]", None: ""}[rank]
    model = graph(body, inputs=f"float{shape} x", outputs="float y")
    if rank == 3:
        assert_replaceable(model)
    elif rank == 2:
        assert "more axes than what is normalised" in reason(model)
    else:
        assert find(model).norms == ()


@pytest.mark.parametrize("axes", ["axes = [-1]", "axes = [2], keepdims = 1"])
def test_axes_as_an_attribute(axes: str) -> None:
    model = graph(NORM.replace("ReduceMean(s, last)", f"ReduceMean<{axes}>(s)"), opset=13)
    assert only_norm(model).nodes == tuple(range(7))
    assert_replaceable(model)


def test_no_eps() -> None:
    model = graph("s = Mul(x, x) m = ReduceMean(s, last) r = Sqrt(m) n = Div(x, r) y = Mul(n, w)")
    assert only_norm(model).eps == 0
    assert_replaceable(model, x=rows(2, 4) + np.float32(0.5))


FLOAT = 1
DOUBLE = 11
HALF = 10
ON_C = PLAIN.replace("x", "c")
CASTS = {
    "around": f"c = Cast<to={FLOAT}>(x) {ON_C} d = Cast<to={FLOAT}>(n) y = Mul(w, d)",
    "around, gamma inside": f"c = Cast<to={FLOAT}>(x) {ON_C} z = Mul(w, n) y = Cast<to={FLOAT}>(z)",
    "of the square only": f"c = Cast<to={FLOAT}>(x) {INVERSE.replace('x', 'c')} n = Mul(x, i) "
    "y = Mul(n, w)",
    "of each use": f"c = Cast<to={FLOAT}>(x) d = Cast<to={FLOAT}>(x) {INVERSE.replace('x', 'c')} "
    "n = Mul(d, i) y = Mul(n, w)",
    "to double and back": f"c = Cast<to={DOUBLE}>(x) {ON_C.replace('eps', 'eps_double')} "
    f"d = Cast<to={FLOAT}>(n) y = Mul(d, w)",
    "twice": f"b = Cast<to={DOUBLE}>(x) c = Cast<to={FLOAT}>(b) {ON_C} y = Mul(n, w)",
    "identity": f"c = Identity(x) {ON_C} d = Identity(n) y = Mul(d, w)",
}


@pytest.mark.parametrize("body", CASTS.values(), ids=CASTS)
def test_casts_around(body: str) -> None:
    norm = only_norm(graph(body))
    assert (norm.x, norm.eps) == ("x", EPS)
    assert norm.y == ("z" if "z =" in body else "y")
    np.testing.assert_array_equal(norm.gamma, GAMMA)
    assert_replaceable(graph(body))


def test_a_cast_of_whole_numbers_is_no_part_of_the_norm() -> None:
    body = NORM.replace("x", "c")
    model = graph(f"c = Cast<to=1>(x) {body}", inputs=f"int64[b, 4, {DIM}] x")
    assert (only_norm(model).x, only_norm(model).nodes) == ("c", tuple(range(1, 8)))
    assert_replaceable(model, x=np.arange(2 * 4 * DIM).reshape(2, 4, DIM))


GAMMAS = {
    "identity": "g = Identity(w)",
    "one added": "g = Add(one, w_less_one)",
    "added to one": "g = Add(w_less_one, one)",
    "cast from half": f"g = Cast<to={FLOAT}>(w_half)",
    "cast from double": f"g = Cast<to={FLOAT}>(w_double)",
    "a row": "g = Identity(w_row)",
    "unsqueezed": "g = Unsqueeze(w, first_axis)",
    "a constant node": "g = Constant<value = float[8] "
    "{0.5, -1.25, 2.0, 0.75, 1.5, -0.25, 3.0, 1.0}>()",
    "unsqueezed and added": "h = Unsqueeze(w_less_one, first_axis) g = Add(h, one)",
}


@pytest.mark.parametrize("gamma", GAMMAS.values(), ids=GAMMAS)
@pytest.mark.parametrize("early", [True, False])
def test_gamma_is_computed_from_constants(gamma: str, early: bool) -> None:
    parts = [gamma, PLAIN] if early else [PLAIN, gamma]
    model = graph(" ".join([*parts, "y = Mul(n, g)"]))
    norm = only_norm(model)
    np.testing.assert_array_equal(norm.gamma, GAMMA)
    assert len(norm.nodes) == 7  # what computes gamma is none of them
    assert_replaceable(model)


def test_gamma_that_was_quantised() -> None:
    model = graph(f"g = DequantizeLinear(q, share) {PLAIN} y = Mul(n, g)")
    codes = np.array([-3, 5, 7, 127, -128, 1, 0, 9], np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(codes, "q"))
    np.testing.assert_array_equal(only_norm(model).gamma, codes.astype(np.float32) / DIM)


def test_eps_in_a_constant_node_and_in_other_types() -> None:
    node = graph(
        NORM.replace("a = Add", "e = Constant<value_float = 1e-6>() a = Add").replace(
            "(m, eps)", "(m, e)"
        )
    )
    assert only_norm(node).eps == 1e-6
    cast = NORM.replace("a = Add", f"e = Cast<to={FLOAT}>(eps_double) a = Add")
    assert only_norm(graph(cast.replace("(m, eps)", "(m, e)"))).eps == EPS


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_rows_of_any_rank(rank: int) -> None:
    shape = [*(f"d{axis}" for axis in range(rank - 1)), str(DIM)]
    kind = f"float[{', '.join(shape)}]"
    model = graph(NORM, inputs=f"{kind} x", outputs=f"{kind} y")
    assert only_norm(model).dim == DIM
    assert_replaceable(model, x=rows(*[2] * (rank - 1)))


def test_a_norm_of_heads() -> None:
    """As the norms of queries and keys: on (batch, heads, sequence, head)."""
    heads = f"k = Reshape(z, to_heads) x = Transpose<perm = [0, 2, 1, 3]>(k) {NORM}"
    kind = f"float[b, l, {2 * DIM}] z"
    model = graph(heads, inputs=kind, outputs="float[b, h, l, 8] y")
    shape = np.array([0, 0, -1, DIM])
    model.graph.initializer.append(onnx.numpy_helper.from_array(shape, "to_heads"))
    assert only_norm(model).x == "x"
    assert_replaceable(model, z=rows(3, 5, 2).reshape(3, 5, 2 * DIM))


def test_what_else_reads_a_value_keeps_its_nodes() -> None:
    outputs = f"float[b, 4, {DIM}] y, float[b, 4, 1] i"
    model = graph(NORM, outputs=outputs)
    assert only_norm(model).nodes == (5, 6)
    assert_replaceable(model)
    model = graph(f"{NORM} u = Mul(m, two)", outputs=outputs.replace("] i", "] u"))
    assert only_norm(model).nodes == (2, 3, 4, 5, 6)
    assert_replaceable(model)


def test_what_a_body_reads_keeps_its_nodes() -> None:
    inside = "then_branch = t () => (float[b, 4, 1] p) { p = Neg(r) }, "
    inside += "else_branch = e () => (float[b, 4, 1] q) { q = Identity(i) }"
    model = graph(
        f"{NORM} u = If <{inside}> (flag)",
        inputs=f"float[b, 4, {DIM}] x, bool flag",
        outputs=f"float[b, 4, {DIM}] y, float[b, 4, 1] u",
    )
    assert only_norm(model).nodes == (5, 6)
    for flag in (True, False):
        assert_replaceable(model, x=rows(2, 4), flag=np.array(flag))


def test_what_is_read_before_gamma_is_the_norm() -> None:
    """Two readers of the value without gamma: one norm without gamma, and the products stay."""
    model = graph(
        f"{PLAIN} y = Mul(n, w) z = Mul(n, w_less_one)",
        outputs=f"float[b, 4, {DIM}] y, float[b, 4, {DIM}] z",
    )
    norm = only_norm(model)
    assert norm.y == "n"
    np.testing.assert_array_equal(norm.gamma, np.ones(DIM))
    assert_replaceable(model)


def test_an_output_before_gamma_is_the_norm() -> None:
    kinds = f"float[b, 4, {DIM}] y, float[b, 4, {DIM}] d"
    model = graph(f"{PLAIN} d = Cast<to={FLOAT}>(n) y = Mul(d, w)", outputs=kinds)
    assert only_norm(model).y == "n"
    assert_replaceable(model)


@pytest.mark.parametrize("factor", ["scalar", "w_rows"])
def test_a_factor_that_is_no_gamma_stays(factor: str) -> None:
    """One number, as attention scales queries by, and a factor of each row's own."""
    model = graph(f"{PLAIN} y = Mul(n, {factor})")
    norm = only_norm(model)
    assert (norm.y, norm.nodes) == ("n", tuple(range(6)))
    np.testing.assert_array_equal(norm.gamma, np.ones(DIM))
    assert_replaceable(model)


def test_a_factor_of_each_element_at_run_time_stays() -> None:
    model = graph(f"{PLAIN} g = Sigmoid(x) y = Mul(n, g)")
    assert only_norm(model).y == "n"
    single = f"float[1, 1, {DIM}]"
    model = graph(
        f"{PLAIN} g = Sigmoid(x) y = Mul(n, g)", inputs=f"{single} x", outputs=f"{single} y"
    )
    assert only_norm(model).y == "n"


def test_norms_that_share_the_statistic() -> None:
    model = graph(
        f"{INVERSE} n = Mul(x, i) y = Mul(n, w) o = Mul(i, x) z = Mul(o, w_less_one)",
        outputs=f"float[b, 4, {DIM}] y, float[b, 4, {DIM}] z",
    )
    one, two = find(model).norms
    assert (one.nodes, two.nodes) == ((5, 6), (7, 8))
    np.testing.assert_array_equal(two.gamma, GAMMA - 1)
    assert_replaceable(model)


def test_one_norm_after_another() -> None:
    second = "t = Mul(z, z) u = ReduceMean(t, last) v = Add(u, eps) k = Sqrt(v) y = Div(z, k)"
    first, last = find(graph(f"{NORM.replace('y', 'z')} {second}")).norms
    assert (first.x, first.y, last.x, last.y) == ("x", "z", "z", "y")
    assert_replaceable(graph(f"{NORM.replace('y', 'z')} {second}"))


OPERATORS = {
    "RMSNormalization": ("y = RMSNormalization<epsilon = 1e-6>(x, w)", 1e-6),
    "RMSNormalization, defaults": ("y = RMSNormalization(x, w)", 1e-5),
    "RMSNormalization, axis 2": ("y = RMSNormalization<axis = 2, stash_type = 1>(x, w)", 1e-5),
    "RMSNormalization, one number": ("y = RMSNormalization(x, scalar)", 1e-5),
    "SimplifiedLayerNormalization": (
        "y = SimplifiedLayerNormalization<axis = -1, epsilon = 1e-6, stash_type = 1>(x, w)",
        1e-6,
    ),
    "SimplifiedLayerNormalization, defaults": ("y, t = SimplifiedLayerNormalization(x, w)", 1e-5),
}


@pytest.mark.parametrize("key", OPERATORS)
def test_operators(key: str) -> None:
    body, eps = OPERATORS[key]
    model = graph(body, opset=23)
    norm = only_norm(model)
    assert norm.kind == key.partition(",")[0]
    assert (norm.x, norm.y, norm.eps, norm.nodes) == ("x", "y", eps, (0,))
    wanted = np.full(DIM, 0.125) if "scalar" in body else GAMMA
    np.testing.assert_array_equal(norm.gamma, wanted)
    if not body.startswith("y, t"):
        assert_replaceable(model)


def test_the_operator_in_the_runtimes_own_domain() -> None:
    norm = only_norm(graph("y = com.microsoft.SimplifiedLayerNormalization<epsilon = 1e-6>(x, w)"))
    assert (norm.kind, norm.eps) == ("SimplifiedLayerNormalization", 1e-6)


TWO = f"float[b, 4, {DIM}] x, float[b, 4, {DIM}] v"
SKIP = "com.microsoft.SkipSimplifiedLayerNormalization"


def test_skip_with_its_sum() -> None:
    body = f"y, mean, inverse, u = {SKIP}<epsilon = 1e-5>(x, v, w) z = Neg(u)"
    model = graph(body, inputs=TWO, outputs=f"float[b, 4, {DIM}] y, float[b, 4, {DIM}] z")
    norm = only_norm(model)
    assert (norm.x, norm.addends, norm.eps, norm.nodes) == ("u", ("x", "v"), EPS, (0,))
    model.graph.node[0].output[1:3] = ["", ""]  # ONNX Runtime does not compute them
    assert only_norm(model).x == "u"
    assert_replaceable(model, x=rows(2, 4), v=rows(2, 4, seed=1))


@pytest.mark.parametrize("bias", ["", ", w_less_one"])
def test_skip_without_its_sum(bias: str) -> None:
    model = graph(f"y_sum = Neg(v) y = {SKIP}(x, y_sum, w{bias})", inputs=TWO)
    norm = only_norm(model)
    assert (norm.x, norm.eps) == ("y_sum_2", 1e-12)  # a name that is not there yet
    assert norm.addends == ("x", "y_sum", *bias.split(", ")[1:])
    assert_replaceable(model, x=rows(2, 4), v=rows(2, 4, seed=1))


NOT_REPLACEABLE = {
    "gamma at run time": (
        NORM.replace("w)", "g)"),
        dict(inputs=f"float[b, 4, {DIM}] x, float[{DIM}] g"),
        "gamma is computed at run time",
    ),
    "gamma at run time in the operator": (
        "g = Neg(v) y = RMSNormalization(x, g)",
        dict(inputs=f"float[b, 4, {DIM}] x, float[{DIM}] v", opset=23),
        "gamma is computed at run time",
    ),
    "gamma at run time with the root": (
        f"{INVERSE} n = Mul(i, g) y = Mul(x, n)",
        dict(inputs=f"float[b, 4, {DIM}] x, float[1, {DIM}] g"),
        "gamma is computed at run time",
    ),
    "eps at run time": (
        NORM.replace("eps", "e"),
        dict(inputs=f"float[b, 4, {DIM}] x, float e"),
        "eps is computed at run time",
    ),
    "eps that differs": (NORM.replace("eps", "eps_row"), {}, "eps is not one number"),
    "negative eps": (NORM.replace("eps", "minus_half"), {}, "eps is -0.5"),
    "another axis": (NORM.replace("last", "second"), {}, "over the axes [1]"),
    "two axes": (NORM.replace("last", "all_but_first"), {}, "over the axes [1, 2]"),
    "all axes": (NORM.replace("(s, last)", "(s)"), {}, "over the axes [0, 1, 2]"),
    "two axes of the operator": (
        "y = RMSNormalization<axis = 1>(x, w_rows)",
        dict(opset=23),
        "over the axes [1, 2]",
    ),
    "the axis dropped": (
        NORM.replace("ReduceMean(", "ReduceMean<keepdims = 0>("),
        dict(inputs="float[8, 8] x", outputs="float[8, 8] y"),
        "does not keep the axis",
    ),
    "dynamic hidden size": (
        f"{INVERSE} y = Mul(x, i)",
        dict(inputs="float[b, d] x", outputs="float[b, d] y"),
        "hidden size is dynamic",
    ),
    "dynamic hidden size of the operator": (
        "y = RMSNormalization(x, scalar)",
        dict(inputs="float[b, d] x", outputs="float[b, d] y", opset=23),
        "hidden size is dynamic",
    ),
    "gamma of each row": (
        f"{INVERSE} n = Mul(i, w_rows) y = Mul(x, n)",
        {},
        "gamma differs between rows",
    ),
    "a sum divided by something else": (
        f"{STATISTICS[4]} {INVERSES[0]} {INVERSE_PRODUCTS[0]}".replace("dim", "three"),
        {},
        "divided by another number than 8",
    ),
    "a sum divided at run time": (
        f"{STATISTICS[4]} {INVERSES[0]} {INVERSE_PRODUCTS[0]}".replace("dim", "k"),
        dict(inputs=f"float[b, 4, {DIM}] x, float k"),
        "is computed at run time",
    ),
    "a statistic in half precision": (
        f"y = SimplifiedLayerNormalization<stash_type = {HALF}>(x, w)",
        {},
        "in float16",
    ),
    "a statistic that is read": (
        "y, t = SimplifiedLayerNormalization(x, w)",
        dict(outputs=f"float[b, 4, {DIM}] y, float[b, 4, 1] t"),
        "statistic 't' is read",
    ),
    "computed in half precision": (
        f"h = Cast<to={HALF}>(x) s = Mul(h, h) m = ReduceMean(s, last) c = Cast<to={FLOAT}>(m) "
        "a = Add(c, eps) r = Sqrt(a) n = Div(x, r) y = Mul(n, w)",
        {},
        "float16",
    ),
    "part of the row": (
        f"p = Slice(x, first_axis, third, last) {MEAN.replace('x', 'p')} r = Sqrt(a) "
        "n = Div(x, r) y = Mul(n, w)",
        {},
        "not what was squared",
    ),
    "eps outside": (
        "s = Mul(x, x) m = ReduceMean(s, last) r = Sqrt(m) a = Add(r, eps) y = Div(x, a)",
        {},
        "outside of the root",
    ),
    "a lower bound": (
        "s = Mul(x, x) m = ReduceMean(s, last) a = Max(m, eps) r = Sqrt(a) y = Div(x, r)",
        {},
        "a lower bound stands where eps would be added",
    ),
    "an L2 norm": (
        "r = ReduceL2(x, last) a = Clip(r, eps) y = Div(x, a)",
        {},
        "divides by an L2 norm",
    ),
    "another form": (
        "s = Mul(x, x) m = ReduceMean<keepdims = 0>(s, last) a = Add(m, eps) r = Sqrt(a) "
        "u = Unsqueeze(r, last) n = Div(x, u) y = Mul(n, w)",
        {},
        "in no form that is known",
    ),
}


@pytest.mark.parametrize("key", NOT_REPLACEABLE)
def test_what_cannot_be_replaced_is_listed(key: str) -> None:
    body, options, wanted = NOT_REPLACEABLE[key]
    assert wanted in reason(graph(body, **options))


@pytest.mark.parametrize(
    ("name", "code"), [("float16", HALF), ("bfloat16", 16), ("double", DOUBLE)]
)
def test_other_data_types(name: str, code: int) -> None:
    kind = f"{name}[b, 4, {DIM}]"
    hugging_face = (
        f"c = Cast<to={FLOAT}>(x) s = Pow(c, two) m = ReduceMean(s, last) a = Add(m, eps) "
        f"r = Sqrt(a) i = Reciprocal(r) n = Mul(c, i) d = Cast<to={code}>(n) "
        f"g = Cast<to={code}>(w) y = Mul(g, d)"
    )
    text = f"it is in {name}"
    assert text in reason(graph(hugging_face, inputs=f"{kind} x", outputs=f"{kind} y"))
    gemma = f"{hugging_face[: hugging_face.index('d =')]} z = Mul(n, w) y = Cast<to={code}>(z)"
    assert text in reason(graph(gemma, inputs=f"{kind} x", outputs=f"{kind} y"))
    operator = f"g = Cast<to={code}>(w) y = RMSNormalization(x, g)"
    assert text in reason(graph(operator, inputs=f"{kind} x", outputs=f"{kind} y", opset=23))


def test_a_type_that_shape_inference_does_not_know() -> None:
    """It is told by what the value is combined with; of a norm alone it is not known."""
    start = "x = com.microsoft.Unheard(v)"
    assert only_norm(graph(f"{start} {NORM}", inputs=f"float[b, 4, {DIM}] v")).x == "x"
    model = graph(f"{start} y = RMSNormalization(x, w)", inputs="float[b] v", outputs="y", opset=23)
    assert "data type is not known" in reason(model)


def test_operators_of_the_runtime_follow_each_other() -> None:
    """What shape inference does not know in between: types go through it, and on behind it."""
    body = """
        a = SimplifiedLayerNormalization <axis = -1> (x, w)
        b = Sigmoid (a)
        c = SimplifiedLayerNormalization <axis = -1> (b, w)
        d, m, v, e = com.microsoft.SkipSimplifiedLayerNormalization (c, x, w)
        f = Tanh (e)
        y = SimplifiedLayerNormalization <axis = -1> (f, w)
    """
    found = find_norms(graph(body))
    assert [norm.y for norm in found.norms] == ["a", "c", "d", "y"]
    assert not found.unrecognised


HALVES = f"float16[b, 4, {DIM}] x"


def test_casts_in_front_of_an_operator_stay() -> None:
    """They round: what the operator itself reads is normalised."""
    rounded = "a = Cast <to = 10> (x)  b = Cast <to = 1> (a)"
    norm = only_norm(graph(f"{rounded} y = RMSNormalization (b, w)", opset=23))
    assert norm.x == "b" and len(norm.nodes) == 1
    norm = only_norm(
        graph("b = Cast <to = 1> (x) y = RMSNormalization (b, w)", inputs=HALVES, opset=23)
    )
    assert norm.x == "b"


@pytest.mark.parametrize("before", ["", "v = com.microsoft.QuickGelu (x)"])
def test_half_precision_rows_with_a_float_gamma(before: str) -> None:
    x = "v" if before else "x"
    model = graph(f"{before} y = SimplifiedLayerNormalization <axis = -1> ({x}, w)", inputs=HALVES)
    assert re.search("float16|data type is not known", reason(model))


def test_gamma_that_is_no_number() -> None:
    model = graph("y = SimplifiedLayerNormalization <axis = -1> (x, w)")
    broken = GAMMA.copy()
    broken[3] = np.nan
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(broken, "w"))
    assert reason(model) == "gamma holds numbers that are not finite"


def test_a_default_that_a_caller_may_change_is_no_constant() -> None:
    model = graph(NORM)
    kind = onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [DIM])
    model.graph.input.append(kind)
    assert "a caller may change it" in reason(model)


CENTRED = {
    "Sub": "mu = ReduceMean(v, last) x = Sub(v, mu)",
    "Sub of a sum": "t = ReduceSum(v, last) mu = Div(t, dim) x = Sub(v, mu)",
    "Sub of a scaled sum": "t = ReduceSum(v, last) mu = Mul(share, t) x = Sub(v, mu)",
    "Add of the negative": "mu = ReduceMean(v, last) o = Neg(mu) x = Add(o, v)",
    "with a Cast": f"mu = ReduceMean(v, last) z = Sub(v, mu) x = Cast<to={FLOAT}>(z)",
    "unsqueezed": "k = ReduceMean<keepdims = 0>(v, last) mu = Unsqueeze(k, last) x = Sub(v, mu)",
}


@pytest.mark.parametrize("start", CENTRED.values(), ids=CENTRED)
@pytest.mark.parametrize(
    "norm", [NORM, f"{MEAN} r = Sqrt(a) y = Div(x, r)", "y = RMSNormalization(x, w)"]
)
def test_a_norm_of_centred_rows_is_a_layernorm(start: str, norm: str) -> None:
    model = graph(f"{start} {norm}", inputs=f"float[b, 4, {DIM}] v", opset=23)
    assert find(model).norms == find(model).unrecognised == ()
    assert find(model).layernorms == 1


LAYERNORMS = {
    "operator": "y = LayerNormalization<axis = -1>(x, w, w_less_one)",
    "the runtime's": "y = com.microsoft.SkipLayerNormalization(x, x, w, w_less_one)",
    "centred twice": "mu = ReduceMean(x, last) d = Sub(x, mu) e = Sub(x, mu) s = Pow(e, two) "
    "m = ReduceMean(s, last) a = Add(m, eps) r = Sqrt(a) n = Div(d, r) z = Mul(n, w) "
    "y = Add(z, w_less_one)",
}


@pytest.mark.parametrize("body", LAYERNORMS.values(), ids=LAYERNORMS)
def test_layernorms_are_counted(body: str) -> None:
    findings = find(graph(body))
    assert (findings.norms, findings.unrecognised) == ((), ())
    assert findings.layernorms == 1


def test_a_difference_is_no_centring() -> None:
    model = graph(f"x = Sub(v, u) {NORM}", inputs=TWO.replace("x,", "u,"))
    assert only_norm(model).x == "x"


@pytest.mark.parametrize(
    "body",
    [
        "y = Mul(x, w)",
        "s = Mul(x, x) m = ReduceMean(s, last) r = Sqrt(m) y = Mul(r, w)",  # a size, no norm
        "s = Mul(x, x) m = ReduceMean(s, last) y = Div(x, m)",
        "s = Mul(x, w) m = ReduceMean(s, last) a = Add(m, eps) r = Sqrt(a) y = Div(x, r)",
        "s = Pow(x, three) m = ReduceMean(s, last) a = Add(m, eps) r = Sqrt(a) y = Div(x, r)",
        "m = ReduceMean(x, last) a = Add(m, eps) r = Sqrt(a) y = Div(x, r)",
        "y = Softmax(x)",
    ],
)
def test_what_is_no_norm_at_all(body: str) -> None:
    findings = find(graph(body))
    assert (findings.norms, findings.unrecognised, findings.layernorms) == ((), (), 0)


def test_wrong_numbers_are_no_norm() -> None:
    assert find(graph(NORM.replace("Sqrt(a)", "Pow(a, two)"))) == Findings((), (), 0)
    assert find(graph(NORM.replace("Sqrt(a)", "Pow(a, three)"))) == Findings((), (), 0)


def test_two_over_the_root_is_twice_the_norm() -> None:
    model = graph(NORM.replace("Reciprocal(r)", "Div(two, r)"))
    np.testing.assert_array_equal(only_norm(model).gamma, np.full(DIM, 2))
    assert_replaceable(model)


def test_bodies_and_functions_are_listed() -> None:
    kind = f"float[b, 4, {DIM}]"
    branch = NORM.replace("y =", "p =")
    inside = f"then_branch = t () => ({kind} p) {{ {branch} }}, "
    inside += f"else_branch = e () => ({kind} q) {{ q = RMSNormalization(x, w) }}"
    model = graph(f"y = If <{inside}> (flag)", inputs=f"{kind} x, bool flag", opset=23)
    listed = find(model).unrecognised
    assert [each.kind for each in listed] == ["decomposed", "RMSNormalization"]
    assert all("inside the body of the If node" in each.reason for each in listed)

    body = "s = Mul(x, x) m = ReduceMean<axes = [-1]>(s) e = Constant<value_float = 1e-6>() "
    body += "a = Add(m, e) r = Sqrt(a) n = Div(x, r) y = Mul(n, w)"
    function = f'<domain: "local", opset_import: ["" : 13]> Normed (x, w) => (y) {{ {body} }}'
    model = graph("y = local.Normed(x, w)", functions=function, opset=13)
    assert reason(model) == "it is inside the model-local function local.Normed"


def named(body: str, name: str = "", scopes: str | None = None, gamma: str = "w") -> str:
    """The name of the norm whose last node has a name and torch's scopes."""
    model = graph(body)
    model.graph.node[-1].name = name
    if scopes is not None:
        entry = onnx.StringStringEntryProto(key="pkg.torch.onnx.name_scopes", value=scopes)
        model.graph.node[-1].metadata_props.append(entry)
    for node in model.graph.node:
        node.input[:] = [gamma if each == "w" else each for each in node.input]
    for tensor in model.graph.initializer:
        tensor.name = gamma if tensor.name == "w" else tensor.name
    return only_norm(model).name


def test_names() -> None:
    assert named(NORM) == "norm_1"
    assert named(NORM, "Mul_3") == "Mul_3"
    assert named(NORM, "/layers.0/norm/Mul_3") == "layers.0.norm"
    assert named(NORM, "Mul_3", gamma="layers.0.norm.weight") == "layers.0.norm"
    assert named(NORM, "Mul_3", gamma="model/norm/scale") == "model.norm"
    assert named(NORM, "/a/Mul_3", "['', 'm', 'm.norm', 'mul_3']", "b.weight") == "m.norm"
    assert named(NORM, "Mul_3", "['', 'mul_3']") == "Mul_3"
    assert named(NORM, "Mul_3", "no list") == "Mul_3"
    one_added = NORM.replace("y =", "g = Add(w, one) y =").replace("(n, w)", "(n, g)")
    assert named(one_added, gamma="norm.weight") == "norm"


@pytest.mark.parametrize(
    ("scopes", "name"),
    [
        ("['a.b', 'x']", "a.b"),
        ("{[]: 1}", "y"),
        ("[" * 3000, "y"),
        ("[0xf" + "f" * 4000 + ", 1]", "y"),
        (r"['a\ud800', 1]", "a_"),
        (r"['a\0b', 1]", "a_b"),
        (r"['a\nb', 1]", "a_b"),
        ("__import__('os').abort()", "y"),
    ],
    ids=range(8),
)
def test_names_that_files_make_up(scopes: str, name: str) -> None:
    model = graph("y = SimplifiedLayerNormalization <axis = -1> (x, w)")
    node = model.graph.node[0]
    node.name = "y"
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    assert only_norm(model).name == name


def test_names_of_nodes_that_end_early() -> None:
    model = graph("""
        a = SimplifiedLayerNormalization <axis = -1> (x, w)
        y = SimplifiedLayerNormalization <axis = -1> (a, w)
    """)
    for node, name in zip(model.graph.node, ("/a\0b/N", "/a\0c/N"), strict=True):
        node.name = name
    assert [norm.name for norm in find_norms(model).norms] == ["a_b", "a_c"]


def test_names_are_unique() -> None:
    body = " ".join(f"y{i} = RMSNormalization(x, w)" for i in range(3))
    kinds = ", ".join(f"float[b, 4, {DIM}] y{i}" for i in range(3))
    model = graph(body, outputs=kinds, opset=23)
    for node in model.graph.node:
        node.name = "/norm/Mul"
    model.graph.node[1].name = "/norm_2/Mul"
    assert [norm.name for norm in find(model).norms] == ["norm", "norm_2", "norm_3"]


def external(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its parameters in a file that is not loaded."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    for tensor in new.graph.initializer:
        onnx.external_data_helper.set_external_data(tensor, "weights.bin")
        tensor.ClearField("raw_data")
    return new


def test_parameters_that_are_not_loaded_are_read_as_told() -> None:
    model = graph(NORM)
    with pytest.raises(ApproxNormError, match="has external data that is not loaded"):
        find_norms(external(model))
    asked: list[str] = []

    def read(tensor: onnx.TensorProto) -> np.ndarray:
        asked.append(tensor.name)
        return PARAMETERS[tensor.name]

    (norm,) = find_norms(external(model), read).norms
    np.testing.assert_array_equal(norm.gamma, GAMMA)
    assert sorted(asked) == ["eps", "last", "w"]
