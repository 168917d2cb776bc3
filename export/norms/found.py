"""What a search for RMSNorms in an ONNX graph gives: the norms, and what only looks like one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Kind = Literal[
    "RMSNormalization",
    "SimplifiedLayerNormalization",
    "SkipSimplifiedLayerNormalization",
    "decomposed",
]

# Reads the contents of an initializer (an onnx.TensorProto): where external data is not loaded, the
# caller says how it is read.
ReadTensor = Callable[[Any], np.ndarray]


@dataclass(frozen=True, eq=False)
class Norm:
    """One RMSNorm of the model's main graph, y = gamma · x / √(mean(x²) + eps) over the last axis.

    To replace it: take the nodes at the positions `nodes` out of `model.graph.node`; put, where the
    node `place` was, an Add for each addend after the first (see `addends`) and then nodes that
    read `x` and write `y`. Every value that those nodes read is written before `place`, and `y` is
    read only after it.
    """

    name: str
    """Readable and unique in the model: the torch scope, the node's name, or `norm_3`."""
    kind: Kind
    x: str
    """The value that is normalised, float32 (..., dim)."""
    y: str
    """The value that holds the result, float32 of the same shape; maybe an output of the graph."""
    gamma: np.ndarray
    """float32 (dim,), the effective one: 1 + w where the graph has it so, ones if there is none."""
    eps: float
    """Inside the root; the shortest decimal that gives the number stored in the graph."""
    nodes: tuple[int, ...]
    """Positions in `model.graph.node`, ascending, of the nodes that go.

    Nodes of the norm whose values others read as well are not among them: they stay. Constants
    (initializers, Constant nodes, what is computed from constants only) are not among them either:
    they may be shared, and who replaces removes those that nobody reads any more.
    """
    place: int
    """Position of the node that writes `y`; always one of `nodes`."""
    addends: tuple[str, ...] = ()
    """Of a SkipSimplifiedLayerNormalization: what `x` is the sum of, added from left to right.

    Two or three float32 values that broadcast to x: input, skip and, if there is one, the bias.
    The node at `place` has the sum inside, so whoever takes it away must write `x` by Adds. If the
    node has no output for its sum, `x` is a name that no value of the model has yet. Empty for all
    other kinds: `x` is then there without the norm.
    """

    @property
    def dim(self) -> int:
        """Elements of a row."""
        return int(self.gamma.size)


@dataclass(frozen=True)
class Unrecognised:
    """What looks like an RMSNorm and cannot be replaced."""

    name: str
    """Readable and unique among norms and unrecognised ones, as `Norm.name` is."""
    kind: Kind
    reason: str
    """Why, as the end of a sentence: "gamma is computed at run time"."""


@dataclass(frozen=True)
class Findings:
    """All that was found in one model, in the order of its graph."""

    norms: tuple[Norm, ...]
    unrecognised: tuple[Unrecognised, ...]
    layernorms: int
    """How many LayerNorms there are; they are left alone."""
