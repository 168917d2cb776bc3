"""From a spec to its datapath: the one place where an RMSNorm is put together."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from typing import Any

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format, Overflow, Rounding
from approxnorm.methods.normalizers import Context, Row
from approxnorm.program import WidthError, ops
from approxnorm.program.datapath import Datapath, DatapathBuilder, Port
from approxnorm.program.interval import MAX_SIGNAL_BITS
from approxnorm.spec.rmsnorm_spec import RMSNormSpec, digest

EPS_BITS = 8  # significant bits of eps that the derived guard keeps


class SpecWarning(UserWarning):
    """Something that a spec loses on its data."""


class GammaWarning(SpecWarning):
    """Some of gamma is beyond its format."""


class EpsWarning(SpecWarning):
    """eps is below one unit of the statistic and has no effect."""


@dataclass(frozen=True)
class Assembly:
    """A spec with every number filled in, and what it means.

    front: the datapath up to the statistic's operand (``row.operand``); all that the exact
    yardstick has. datapath: the whole of it, or None for rsqrt method "exact".
    """

    spec: RMSNormSpec
    context: Context
    row: Row
    front: Datapath
    datapath: Datapath | None

    @property
    def x_format(self) -> Format:
        return self.spec.x.to_format("x")

    def require_datapath(self) -> Datapath:
        """The datapath; ApproxNormError for the exact yardstick, which has none."""
        if self.datapath is None:
            raise ApproxNormError(
                'rsqrt.method "exact" is the yardstick of the NumPy model only; it has no hardware'
            )
        return self.datapath

    def digest(self, gamma: Any = None) -> str:
        """SHA-256 of the resolved spec, the tables' contents and, if given, gamma's codes."""
        tables = self.datapath.tables() if self.datapath else []
        spec = self.spec.to_dict()
        spec.pop("description", None)
        content = {
            "spec": spec,
            "tables": [[t.name, t.frac_bits, t.index_rule, list(t.entries)] for t in tables],
            "gamma": None if gamma is None else [int(g) for g in gamma],
        }
        return digest(content)


def assemble(spec: RMSNormSpec) -> Assembly:
    """Resolve a spec and build its datapath.

    The result's spec has every derived number filled in. Raises ApproxNormError if a number is
    open that only data can give, if fields do not fit together, or if a signal would pass 63 bits
    (it says which field to change). Warns with EpsWarning if eps rounds to 0.
    """
    if spec.missing():
        raise ApproxNormError(
            f"{spec.missing()[0]} is open; give it in the spec, or calibrate the spec on data"
        )
    assert spec.dim is not None
    try:
        return _assemble(spec, DatapathBuilder(spec.dim))
    except WidthError as error:
        raise WidthError(error.what, error.bits, _advice(error.what, spec)) from None


def align_datapath(spec: RMSNormSpec) -> tuple[Datapath, Port]:
    """The datapath up to the codes that the statistic sees, and their port; needs x's scale."""
    assert spec.dim is not None
    b = DatapathBuilder(spec.dim)
    x, _ = _align(b, spec)
    return b.finish(x), x


def ports_datapath(spec: RMSNormSpec, max_dim: int) -> Datapath:
    """The datapath of any layer of a model, for rows of up to max_dim elements.

    What differs between layers is not in it but an input: ``Datapath.settings`` of the layer's own
    datapath has the values. ``spec`` is any layer's resolved one. Raises ApproxNormError if a
    table would differ between layers, or if a signal would pass 63 bits.
    """
    if spec.normalize.constant == "table":
        raise ApproxNormError(
            'normalize.constant is "table", which would give each layer tables of its own; allowed'
            ' with run-time ports: "gamma" or "multiplier"'
        )
    try:
        with warnings.catch_warnings():  # about eps; given for the layer itself
            warnings.simplefilter("ignore", SpecWarning)
            return _assemble(spec, DatapathBuilder(max_dim, ports=True)).require_datapath()
    except WidthError as error:
        raise WidthError(error.what, error.bits, _advice(error.what, spec)) from None


def _assemble(spec: RMSNormSpec, b: DatapathBuilder) -> Assembly:
    rsqrt = spec.rsqrt.resolved()
    normalize = spec.normalize.resolved(rsqrt)
    assert spec.dim is not None
    x, row_shift = _align(b, spec)
    statistic = spec.statistic.resolved(spec.dim)
    declared = statistic.declare(b, x)
    row = Row(x, declared.operand, row_shift)
    unit = statistic.bias_fraction * Fraction(4) ** declared.exponent / declared.kappa
    eps = spec.eps_fraction / (spec.x.to_format("x").scale ** 2 * unit)
    guard = _guard(eps, rsqrt.f) if spec.eps_guard is None else spec.eps_guard
    context = Context(
        rsqrt=rsqrt,
        operand_squared_unit=unit,
        eps=eps,
        eps_code=_eps_code(spec, eps, guard),
        guard=guard,
        gamma=spec.gamma.to_format("gamma"),
        y=spec.y.to_format("y"),
    )
    _warn_if_lost(spec, context, unit)
    normalize.weight_offset(context)  # refuses a gamma that 1 cannot be added to
    front = b.finish(declared.operand)
    datapath = None
    if rsqrt.method != "exact":
        datapath = b.finish(normalize.declare(b, row, context))
    resolved = spec.replace(
        eps_guard=guard,
        x=spec.x.with_modes(),
        gamma=spec.gamma.with_modes(),
        statistic=statistic,
        rsqrt=rsqrt,
        normalize=normalize,
    )
    return Assembly(resolved, context, row, front, datapath)


def _align(b: DatapathBuilder, spec: RMSNormSpec) -> tuple[Port, Port | None]:
    """x as it is summed and normalised: zero point off, row exponent and channel factors on."""
    form = spec.x.to_format("x")
    x = b.input("x", "element", form.lo, form.hi)
    if form.zero_point:
        zero = form.zero_point
        x = b.element("center", lambda v: ops.named("x_centered", v - zero), x)
    row_shift = None
    if spec.row_exponent is not None:
        x, row_shift = _row_exponent(b, x, spec.row_exponent.bits)
    # After the row exponent, whose bits small channels would lose to large ones otherwise.
    if spec.channel_shifts is not None:
        shift = b.input("channel_shift", "channel", 0, spec.channel_shifts.max_shift)
        x = b.element("scale_channels", _scale_channel, x, shift)
    return x, row_shift


def _scale_channel(x: Any, shift: Any) -> Any:
    return ops.named("x_scaled", ops.round_shift(x, ops.neg(shift), Rounding.TRN))


def _row_exponent(b: DatapathBuilder, x: Port, bits: int) -> tuple[Port, Port]:
    """Shift the row right until its largest magnitude has bits - 1 bits; RND and SAT."""
    magnitude = b.element("row_abs", lambda v: ops.named("abs_in", ops.absolute(v)), x)
    largest = b.max("row_max", magnitude)

    def shift(peak: Any) -> Any:
        # leading_one(0) is that of 1, and both need no shift.
        return ops.named("row_shift", ops.maximum(ops.leading_one(peak) + (2 - bits), 0))

    def align(v: Any, amount: Any) -> Any:
        limits = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return ops.named("x_row", ops.round_shift(v, amount, Rounding.RND, limits, Overflow.SAT))

    row_shift = b.row("row_exponent", shift, largest)
    return b.element("align", align, x, row_shift), row_shift


def _guard(eps: Fraction, frac_bits: int) -> int:
    """The least even guard that keeps 8 significant bits of eps, at most frac_bits + 2."""
    guard = 0
    while eps and guard + 2 <= frac_bits + 2 and round(eps * (1 << guard)) < 1 << (EPS_BITS - 1):
        guard += 2
    return guard


def _eps_code(spec: RMSNormSpec, eps: Fraction, guard: int) -> int:
    """eps in units of the statistic with its guard bits, rounded half to even."""
    code = round(eps * (1 << guard))
    if code.bit_length() >= MAX_SIGNAL_BITS:
        raise ApproxNormError(
            f"eps is {spec.eps}, a number of {code.bit_length()} bits in units of the statistic;"
            f" allowed: {MAX_SIGNAL_BITS - 1}; lower eps or eps_guard, or give x a coarser scale"
        )
    return code


def _warn_if_lost(spec: RMSNormSpec, context: Context, unit: Fraction) -> None:
    if spec.eps == 0 or context.eps_code:
        return
    # The half rounds to even, that is to 0; the least eps that counts is just above it.
    scale = spec.x.to_format("x").scale
    half = scale**2 * unit / (1 << (context.guard + 1))
    warnings.warn(
        f"eps is {spec.eps}, below one unit of the statistic, and has no effect; eps counts from"
        f" {_just_above(half)} up (or give x a finer scale, or raise eps_guard)",
        EpsWarning,
        stacklevel=4,
    )


def _just_above(value: Fraction) -> str:
    """The next decimal of 3 digits above a number."""
    with localcontext(prec=3, rounding=ROUND_CEILING):
        above = Decimal(value.numerator) / Decimal(value.denominator)
        if Fraction(above) == value:
            above = above.next_plus()
    return f"{float(above):g}"


def _advice(what: str, spec: RMSNormSpec) -> str:
    """Which field to change when a signal is too wide."""
    if what.startswith("normalize"):
        return "lower rsqrt.out_bits, gamma.bits or x.bits"
    if what.startswith("scale."):
        return "lower eps_guard, rsqrt.frac_bits or x.bits"
    if spec.row_exponent is None:
        fewer = "= 16" if spec.x.bits > 16 else f"below {spec.x.bits}"
        return f"lower x.bits (now {spec.x.bits}), or add row_exponent.bits {fewer}"
    return f"lower row_exponent.bits (now {spec.row_exponent.bits})"
