"""What RMSNorm looks like in standard operators, as patterns of onnxscript's rewriter.

They are for graphs in which Casts are looked through (see View). A norm is found in two steps: the
root of the mean square, or one over it, and then what is multiplied by it. Each step's variables:

- roots: `x`, what is squared; `reduced`, the output of the reduction; `eps`, if there is one;
  `count` or `share`, if a sum is divided by a constant or multiplied by one; and constants that
  must have a certain value (see CONSTANTS);
- products: `x`, `root`, `gamma` and, if gamma is multiplied last, `plain`: the value without it.
"""

from collections.abc import Callable
from typing import Any

from onnxscript.rewriter.pattern import OrValue, Pattern, Var

# Variables of roots that match only these numbers.
CONSTANTS = {"power": 2.0, "half": 0.5, "minus_half": -0.5, "one": 1.0}

Op = Any  # a pattern builder: op.Add(a, b) is the pattern of an Add
Value = Any  # the pattern of a value


def square(op: Op) -> Value:
    """x² as Mul(x, x) or Pow(x, 2)."""
    return OrValue([op.Mul(Var("x"), Var("x")), op.Pow(Var("x"), Var("power"))])


def reduce(op: Op, name: str, of: Value) -> Value:
    """A reduction, its axes in an attribute or in an input."""
    return getattr(op, name)(of, _allow_other_inputs=True, _outputs=["reduced"])


def total(op: Op) -> Value:
    """Σx²."""
    return OrValue([reduce(op, "ReduceSum", square(op)), reduce(op, "ReduceSumSquare", Var("x"))])


def mean_square(op: Op) -> Value:
    """Σx²/D: a mean, or a sum with a constant."""
    return OrValue(
        [
            reduce(op, "ReduceMean", square(op)),
            op.Div(total(op), Var("count")),
            op.Mul(total(op), Var("share")),
            op.Mul(Var("share"), total(op)),
        ]
    )


def under_root(op: Op) -> Value:
    """Σx²/D + eps, or without eps."""
    return OrValue(
        [
            op.Add(mean_square(op), Var("eps")),
            op.Add(Var("eps"), mean_square(op)),
            mean_square(op),
        ]
    )


def root(op: Op) -> Value:
    """√(Σx²/D + eps)."""
    return OrValue([op.Sqrt(under_root(op)), op.Pow(under_root(op), Var("half"))])


def one_over(op: Op, value: Callable[[Op], Value]) -> Value:
    """1/v as Reciprocal or Div."""
    return OrValue([op.Reciprocal(value(op)), op.Div(Var("one"), value(op))])


ROOTS = [
    Pattern(lambda op: op.Sqrt(under_root(op))),
    Pattern(lambda op: op.Pow(under_root(op), Var("half"))),
]
INVERSE_ROOTS = [
    Pattern(lambda op: op.Reciprocal(root(op))),
    Pattern(lambda op: op.Div(Var("one"), root(op))),
    Pattern(lambda op: op.Pow(under_root(op), Var("minus_half"))),
    Pattern(lambda op: op.Sqrt(one_over(op, under_root))),
]


def times(op: Op, a: Value, b: Value, swapped: bool, **more: Any) -> Value:
    """a · b in one of the two orders."""
    return op.Mul(b, a, **more) if swapped else op.Mul(a, b, **more)


def by_inverse(outer: bool, inner: bool) -> list[Pattern]:
    """gamma · x · (1/root) for one order of each product; gamma last, with the root, with x."""
    return [
        Pattern(
            lambda op, x, root, gamma: times(
                op, times(op, x, root, inner, _outputs=["plain"]), gamma, outer
            )
        ),
        Pattern(lambda op, x, root, gamma: times(op, x, times(op, root, gamma, inner), outer)),
        Pattern(lambda op, x, root, gamma: times(op, times(op, x, gamma, inner), root, outer)),
    ]


def by_division(swapped: bool) -> list[Pattern]:
    """gamma · x / root for one order of the product; gamma last, with the root, with x."""
    return [
        Pattern(
            lambda op, x, root, gamma: times(
                op, op.Div(x, root, _outputs=["plain"]), gamma, swapped
            )
        ),
        Pattern(lambda op, x, root, gamma: times(op, x, op.Div(gamma, root), swapped)),
        Pattern(lambda op, x, root, gamma: op.Div(times(op, x, gamma, swapped), root)),
    ]


# Those with gamma first: each has one without in it.
BOTH = (False, True)
INVERSE_PRODUCTS = [
    *(each for outer in BOTH for inner in BOTH for each in by_inverse(outer, inner)),
    Pattern(lambda op, x, root: op.Mul(x, root)),
    Pattern(lambda op, x, root: op.Mul(root, x)),
]
PRODUCTS = [
    *(each for swapped in BOTH for each in by_division(swapped)),
    Pattern(lambda op, x, root: op.Div(x, root)),
]
