"""From the reference to the hardware's output, one cause of error at a time.

Each step replaces one ideal part by what the traced run used, in float64, so that the steps'
changes add up to the whole error. Nothing is clamped before the last step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from approxnorm.formats import Rounding
from approxnorm.methods.normalize.multiply import Multiply
from approxnorm.methods.normalizers import Normalize, root_float
from approxnorm.model import RMSNorm, Trace
from approxnorm.program import ops
from approxnorm.program.datapath import Datapath
from approxnorm.program.signal import Node
from approxnorm.reference import inverse_root, rmsnorm_float64

CAUSES = (
    "input_quantization",
    "statistic",
    "rsqrt",
    "gamma",
    "normalize",
    "output_rounding",
)


def steps(
    model: RMSNorm,
    trace: Trace,
    weight: np.ndarray,
    eps: float,
    x_real: np.ndarray | None,
    codes: np.ndarray,
) -> Iterator[tuple[str, np.ndarray]]:
    """("reference", reals (rows, dim)), then (cause, the reals after it) for each cause there is.

    model: one whose y has no channel factors. weight: the real weights (dim,). x_real: real input
    (rows, dim); without it, the reference is that of the codes, and "input_quantization" is what a
    row exponent rounds off, if there is one.
    """
    context, normalize = model.assembly.context, model.spec.normalize
    aligned, root, measured = _roots(model, trace, eps)
    real = aligned * root * weight
    if x_real is not None or "row_shift" in trace:
        source = model.dequantize_x(codes) if x_real is None else x_real
        yield "reference", rmsnorm_float64(source, weight, eps)
        yield "input_quantization", real
    else:
        yield "reference", real
    yield "statistic", aligned * measured * weight
    if model.assembly.datapath is not None:
        used = normalize.root(trace, context) / root_float(context.operand_squared_unit)
        measured = used[:, None]
        yield "rsqrt", aligned * measured * weight
    quantised = model.gamma_real() + normalize.adds_one
    yield "gamma", aligned * measured * quantised
    if not _is_fused(normalize) and model.assembly.datapath is not None:
        rounding = final_rounding(model.assembly.datapath)
        yield "normalize", rounding.unrounded(trace) * float(context.y.scale)
    yield "output_rounding", model.dequantize(trace["y"])


def _roots(model: RMSNorm, trace: Trace, eps: float) -> tuple[np.ndarray, ...]:
    """x as it is normalised, in its LSBs, and two roots (rows, 1): of its true mean square, and
    of the statistic's."""
    row, context = model.assembly.row, model.assembly.context
    aligned = trace[row.x.name].astype(np.float64)
    shift = trace["row_shift"] if row.row_shift is not None else np.zeros(len(aligned), np.int64)
    scale = float(model.assembly.x_format.scale)
    eps_codes = np.ldexp(eps / scale / scale, -2 * shift.astype(np.int32))
    # In the order of ``measured`` below, so that the full statistic has no error at all.
    true = np.einsum("ij,ij->i", aligned, aligned) * (1 / model.dim)
    measured = trace[row.operand.name].astype(np.float64) * float(context.operand_squared_unit)
    return (
        aligned,
        inverse_root(true + eps_codes)[:, None],
        inverse_root(measured + eps_codes)[:, None],
    )


def _is_fused(normalize: Normalize) -> bool:
    """Whether everything but the last rounding is exact."""
    return isinstance(normalize, Multiply) and normalize.intermediate is None


@dataclass(frozen=True)
class FinalRounding:
    """The one round-shift that makes y: ``y = limit(round(value / 2**amount)) + zero point``.

    Both are names of signals; an amount may also be a constant.
    """

    value: str
    amount: str | int
    mode: Rounding

    def unrounded(self, trace: Trace) -> np.ndarray:
        """value / 2**amount as float64, in y's LSBs without its zero point."""
        amount = self.amounts(trace).astype(np.int32)
        return trace[self.value].astype(np.float64) * np.ldexp(1.0, -amount)

    def rounded(self, trace: Trace) -> np.ndarray:
        """The rounded value before any format limits it, int64; limited far beyond all formats."""
        wide = 1 << 60
        value, amount = trace[self.value], self.amounts(trace)
        return np.asarray(ops.round_shift(value, amount, self.mode, (-wide, wide)))

    def amounts(self, trace: Trace) -> np.ndarray:
        """The shift amounts, shaped to meet values (rows, dim)."""
        if isinstance(self.amount, int):
            return np.array([[self.amount]])
        amount = trace[self.amount]
        return amount[:, None] if amount.ndim == 1 else amount


def final_rounding(datapath: Datapath) -> FinalRounding:
    """Find the round-shift that the output signal is, or is but for a zero point."""
    program = next(
        s.program for s in datapath.programs() if datapath.output in s.program.output_names
    )
    nodes = program.nodes
    node = next(n for n in nodes if n.name == datapath.output)
    if node.op == "add":
        node = next(nodes[i] for i in node.args if nodes[i].op == "round_shift")
    value, amount = (nodes[i] for i in node.args)
    if node.op != "round_shift" or value.name is None:
        raise AssertionError("y must be one round_shift of a named signal")
    return FinalRounding(value.name, _constant_or_name(amount), node.attrs["rounding"])


def _constant_or_name(node: Node) -> str | int:
    if node.op == "const":
        return int(node.attrs["value"])
    if node.name is None:
        raise AssertionError("the amount of y's round_shift must be named")
    return node.name
