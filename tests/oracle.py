"""The RMSNorm datapath once more: one row at a time, in Python integers and exact fractions.

Written from docs/datapath.md alone, so that the package's model can be held against it. It shares
no arithmetic with the package. Only two things are taken from there as data: the rsqrt stage's
values (``method.build``; the methods have exhaustive tests of their own) and the entries of the
log domain's two tables (tests/test_normalize.py holds those against decimal logarithms).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from exact_integers import limit_exact, round_exact, round_shift_exact

from approxnorm.model import RMSNorm
from approxnorm.tables.target import Target

Signals = dict[str, Any]  # row signals are ints, element and channel signals lists of ints

_LOG_SIGNALS = ("abs_x", "log_x", "log_y", "antilog", "signed", "shift", "y")


@dataclass(frozen=True)
class Codes:
    """A number format, read from what a spec's file holds."""

    bits: int
    signed: bool
    scale: Fraction
    zero: int
    rounding: str
    overflow: str

    @property
    def lo(self) -> int:
        return -(2 ** (self.bits - 1)) if self.signed else 0

    @property
    def hi(self) -> int:
        return 2 ** (self.bits - self.signed) - 1

    def shifted(self, value: int, amount: int) -> int:
        """value / 2**amount, rounded once, limited, with the zero point back on."""
        limits = (self.lo - self.zero, self.hi - self.zero)
        return self.zero + round_shift_exact(value, amount, self.rounding, limits, self.overflow)

    def quantized(self, real: float) -> int:
        """The float32 quotient, rounded in the format's mode, limited."""
        quotient = Fraction(float(np.float32(real) / np.float32(float(self.scale))))
        code = round_exact(quotient, self.rounding)
        lo, hi = self.lo - self.zero, self.hi - self.zero
        return self.zero + limit_exact(code, lo, hi, self.overflow)


def read_format(data: Any) -> Codes:
    """``"ap_fixed<W,I,Q,O>"`` or a table of bits and scale; absent modes are RND_CONV and SAT."""
    if isinstance(data, str):
        kind, inside = re.fullmatch(r"ap_(u?)fixed<(.*)>", data).groups()  # type: ignore[union-attr]
        width, integer, *modes = inside.split(",")
        rounding, overflow = [*modes, *("RND_CONV", "SAT")[len(modes) :]]
        scale = Fraction(2) ** (int(integer) - int(width))
        return Codes(int(width), kind == "", scale, 0, rounding, overflow)
    return Codes(
        data["bits"],
        data.get("signed", True),
        Fraction(float(np.float32(data["scale"]))),
        data.get("zero_point", 0),
        data.get("rounding", "RND_CONV"),
        data.get("overflow", "SAT"),
    )


def lead(value: int) -> int:
    """Position of the leading one; 0 for 0."""
    return max(value.bit_length() - 1, 0)


def half_up(value: Fraction) -> int:
    return round_exact(value, "RND")


def rounded_root(square: Fraction, bits: int) -> int:
    """round(2**bits * sqrt(square)): the largest n with n - 1/2 <= the root."""
    scaled = square * 4**bits
    n = isqrt(scaled.numerator // scaled.denominator)
    return n + (Fraction(2 * n + 1, 2) ** 2 <= scaled)


def log2_decimal(value: Fraction) -> Decimal:
    """log2 to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return (Decimal(value.numerator).ln() - Decimal(value.denominator).ln()) / Decimal(2).ln()


def rounded_log(square: Fraction, bits: int) -> int:
    """round(2**bits * log2(square) / 2). No tie is possible: the log is irrational or whole."""
    with localcontext() as context:
        context.prec = 60
        return int((log2_decimal(square) * 2**bits / 2).to_integral_value())


class Oracle:
    """The datapath of a spec, given as what its file holds, and of gamma's codes."""

    def __init__(self, spec: Mapping[str, Any], model: RMSNorm) -> None:
        self.spec = spec
        self.dim: int = spec["dim"]
        self.x, self.gamma, self.y = (read_format(spec[n]) for n in ("x", "gamma", "y"))
        self.statistic: Mapping[str, Any] = spec["statistic"]
        self.normalize: Mapping[str, Any] = spec["normalize"]
        self.weights = [int(g) - self.gamma.zero for g in model.gamma]
        self.rsqrt = model.spec.rsqrt
        self.tables = {t.name: t.entries for t in model.assembly.require_datapath().tables()}
        # mean(x**2) ~ unit * operand, in codes of the aligned x
        self.unit = self._unit()
        self.eps_real = Fraction(str(spec["eps"])) / (self.x.scale**2 * self.unit)
        self.guard: int = spec.get("eps_guard", self._derived_guard())
        self.eps = round_exact(self.eps_real * 2**self.guard, "RND_CONV")
        self._split_constant()
        self._logs: dict[tuple[int, Fraction, int], int] = {}

    # --- constants ----------------------------------------------------------------------------

    def _unit(self) -> Fraction:
        st, dim = self.statistic, Fraction(self.dim)
        bias = Fraction(str(st.get("bias", 1.0)))
        match st["method"]:
            case "prefix" | "strided":
                return bias / len(self._subset())
            case "low_bit" if st.get("step", "static") == "static":
                return bias * 4 ** st["step_exponent"] / dim
            case "sole":
                return bias * 4 ** (st["input_shift"] + 2) / dim
            case "mean_abs":
                return bias * (Fraction(str(st.get("ratio", 1.2533141373155003))) / dim) ** 2
        return bias / dim

    def _derived_guard(self) -> int:
        for guard in range(0, self.rsqrt.f + 3, 2):
            if round_exact(self.eps_real * 2**guard, "RND_CONV") >= 128 or self.eps_real == 0:
                return guard
        return guard

    def _split_constant(self) -> None:
        """K**2 = c2 * 4**p with c2 in [1, 4), and where c goes."""
        order, middle = self.normalize.get("order", "fused"), self.normalize.get("intermediate")
        self.order = order
        self.middle = read_format(middle) if order in ("llama", "onnx") else None
        ratio = 1 / self.middle.scale if self.middle else self.gamma.scale / self.y.scale
        self.gain = ratio**2 / self.unit
        self.p = 0
        while self.gain / Fraction(4) ** self.p >= 4:
            self.p += 1
        while self.gain / Fraction(4) ** self.p < 1:
            self.p -= 1
        self.c2 = self.gain / Fraction(4) ** self.p
        self.place = self.normalize.get("constant", "table")

    def gamma_code(self, real: float, channel: int) -> int:
        """Real gamma to its code; a folded constant multiplies it first, y's factor divides it."""
        factor = Fraction(1)
        if self.place == "gamma":
            squared = self.c2 if self.normalize["method"] == "multiply" else Fraction(1)
            factor = Fraction(isqrt(squared.numerator * 4**90 // squared.denominator), 2**90)
        if "y_channel_shifts" in self.spec:
            real = real / 2 ** self.spec["y_channel_shifts"]["shifts"][channel]
        return self.gamma.quantized(float(real) * float(factor))

    # --- one row ------------------------------------------------------------------------------

    def row(self, codes: Sequence[int]) -> Signals:
        """Every named signal of one row of input codes; "y" are the output codes."""
        out: Signals = {"x": [int(c) for c in codes]}
        x = self._align(out)
        out["operand"] = self._operand(x, out)
        self._scale(out)
        if self.normalize["method"] == "multiply":
            self._multiply(x, out)
        else:
            self._log(x, out)
        return out

    def _align(self, out: Signals) -> list[int]:
        x: list[int] = out["x"]
        if self.x.zero:
            x = out["x_centered"] = [v - self.x.zero for v in x]
        if "row_exponent" in self.spec:
            x = self._to_row_exponent(x, out)
        if "channel_shifts" in self.spec:
            shifts = self.spec["channel_shifts"]["shifts"]
            x = out["x_scaled"] = [v * 2**s for v, s in zip(x, shifts, strict=True)]
        return x

    def _to_row_exponent(self, x: list[int], out: Signals) -> list[int]:
        width = self.spec["row_exponent"]["bits"]
        out["abs_in"] = [abs(v) for v in x]
        out["row_max"] = max(out["abs_in"])
        out["row_shift"] = max(0, out["row_max"].bit_length() - (width - 1))
        limits = (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
        rows = [round_shift_exact(v, out["row_shift"], "RND", limits, "SAT") for v in x]
        out["x_row"] = rows
        return rows

    # --- statistics ---------------------------------------------------------------------------

    def _subset(self) -> range:
        st = self.statistic
        if st["method"] == "strided":
            every = range(st.get("start", 0), self.dim, st.get("stride", 2))
            return every[: st.get("count", len(every))]
        if st["method"] == "prefix":
            if "count" in st:
                return range(st["count"])
            return range(max(1, round(self.dim * Fraction(str(st["fraction"])))))
        return range(self.dim)

    def _accumulated(self, total: int, most: int, out: Signals, name: str = "sum") -> int:
        """A sum, brought into the accumulator if that is too narrow for the largest sum."""
        out[name] = total
        narrow = self.statistic.get("accumulator")
        if narrow is None or narrow["bits"] >= most.bit_length():
            return total
        limits = (0, 2 ** narrow["bits"] - 1)
        out["accumulated"] = limit_exact(total, *limits, narrow["overflow"])
        return out["accumulated"]

    def _largest(self) -> int:
        """The largest |x| that the formats allow the statistic to see."""
        lo, hi = self.x.lo - self.x.zero, self.x.hi - self.x.zero
        if "row_exponent" in self.spec:
            limit = 2 ** (self.spec["row_exponent"]["bits"] - 1)
            lo, hi = max(lo, -limit), min(hi, limit - 1)
        if "channel_shifts" in self.spec:
            most = 2 ** self.spec["channel_shifts"].get("max_shift", 4)
            lo, hi = lo * most, hi * most
        return max(-lo, hi)

    def _operand(self, x: list[int], out: Signals) -> int:
        method = self.statistic["method"]
        if method in ("full", "prefix", "strided"):
            out["square"] = [v * v for v in x]
            subset = self._subset()
            total = sum(out["square"][i] for i in subset)
            return self._accumulated(total, len(subset) * self._largest() ** 2, out)
        return {
            "low_bit": self._low_bit,
            "outlier_exact": self._outlier_exact,
            "sole": self._sole,
            "leading_one": self._leading_one,
            "power_of_two": self._leading_one,
            "mean_abs": self._mean_abs,
        }[method](x, out)

    def _step(self, magnitude: list[int], out: Signals) -> int:
        st = self.statistic
        if st.get("step", "static") == "static":
            return int(st["step_exponent"])
        s = 8 + (self.dim - 1).bit_length()
        out["magnitude_sum"] = sum(magnitude)
        inverse = round(Fraction(2**s, self.dim))
        out["inverse_count"] = inverse
        out["step"] = max(0, lead(out["magnitude_sum"] * inverse) - s + st["step_offset"])
        return int(out["step"])

    def _quantized(self, magnitude: int, step: int) -> int:
        """min(round(|x| / 2**step), 2**b - 1)"""
        rounded = round_exact(Fraction(magnitude, 2**step), self.statistic.get("rounding", "RND"))
        return min(rounded, self._clip)

    @property
    def _clip(self) -> int:
        return int(2 ** self.statistic.get("bits", 4)) - 1

    def _low_bit(self, x: list[int], out: Signals) -> int:
        magnitude = out["magnitude"] = [abs(v) for v in x]
        step = self._step(magnitude, out)
        out["low_code"] = [self._quantized(m, step) for m in magnitude]
        out["square"] = [q * q for q in out["low_code"]]
        total = self._accumulated(sum(out["square"]), self._most_low(), out)
        if "step" not in out:
            return total
        out["rescaled_sum"] = total * 4**step
        return int(out["rescaled_sum"])

    def _most_low(self) -> int:
        """The largest sum of low-bit squares that the formats allow: the widths come from it."""
        step = self.statistic.get("step_exponent", 0)
        if self.statistic.get("step", "static") == "dynamic":
            step = 0
        return self.dim * self._quantized(self._largest(), step) ** 2

    def _outlier_exact(self, x: list[int], out: Signals) -> int:
        magnitude = out["magnitude"] = [abs(v) for v in x]
        step = self._step(magnitude, out)
        codes = [self._quantized(m, step) for m in magnitude]
        if self.statistic.get("outliers", "threshold") == "top":
            return self._top(magnitude, codes, step, out)
        edge = Fraction(2 * self._clip + 1, 2) * 2**step  # 2**j * (2**b - 1/2)
        low = out["is_low"] = [int(m < edge) for m in magnitude]
        out["low_code"] = [q if s else 0 for q, s in zip(codes, low, strict=True)]
        out["outlier"] = [0 if s else m for m, s in zip(magnitude, low, strict=True)]
        out["square"] = [q * q for q in out["low_code"]]
        out["outlier_square"] = [m * m for m in out["outlier"]]
        out["outlier_sum"] = sum(out["outlier_square"])
        total = self._accumulated(sum(out["square"]), self._most_low(), out)
        out["exact_sum"] = total * 4**step + out["outlier_sum"]
        return int(out["exact_sum"])

    def _top(self, magnitude: list[int], codes: list[int], step: int, out: Signals) -> int:
        out["low_code"], out["square"] = codes, [q * q for q in codes]
        total = self._accumulated(sum(out["square"]), self._most_low(), out) * 4**step
        count = min(self.statistic.get("top", 4), self.dim)
        for i, m in enumerate(sorted(magnitude, reverse=True)[:count]):
            out[f"largest_{i}"] = m
            total += m * m - self._quantized(m, step) ** 2 * 4**step
        out["exact_sum"] = max(total, 0)
        return int(out["exact_sum"])

    def _sole(self, x: list[int], out: Signals) -> int:
        shift = self.statistic["input_shift"]
        u = out["magnitude"] = [min(255, half_up(Fraction(abs(v), 2**shift))) for v in x]
        upper = [m >= 64 for m in u]
        code = out["compressed"] = [
            min(15, half_up(Fraction(m, 16 if large else 4)))
            for m, large in zip(u, upper, strict=True)
        ]
        out["square"] = [q * q * (16 if f else 1) for q, f in zip(code, upper, strict=True)]
        return self._accumulated(sum(out["square"]), self.dim * 15**2 * 16, out)

    def _leading_one(self, x: list[int], out: Signals) -> int:
        bits = self.statistic.get("bits", 2) if self.statistic["method"] == "leading_one" else 0
        mode = self.statistic.get("rounding", "RND")
        magnitude = out["magnitude"] = [abs(v) for v in x]
        out["dropped"] = [max(lead(m) - bits, 0) for m in magnitude]
        pairs = list(zip(magnitude, out["dropped"], strict=True))
        out["leading_part"] = [round_exact(Fraction(m, 2**d), mode) for m, d in pairs]
        out["square"] = [
            (part * 2**d) ** 2 for part, d in zip(out["leading_part"], out["dropped"], strict=True)
        ]
        largest = self._largest()
        most = (min(largest, 2 ** (bits + 1)) * 2 ** max(lead(largest) - bits, 0)) ** 2
        return self._accumulated(sum(out["square"]), self.dim * most, out)

    def _mean_abs(self, x: list[int], out: Signals) -> int:
        out["magnitude"] = [abs(v) for v in x]
        total = self._accumulated(sum(out["magnitude"]), self.dim * self._largest(), out)
        out["sum_squared"] = total**2
        return int(out["sum_squared"])

    # --- the row's factor -----------------------------------------------------------------------

    def _scale(self, out: Signals) -> None:
        eps = out["eps"] = self.eps
        if "row_shift" in out:
            eps = round_exact(Fraction(eps, 4 ** out["row_shift"]), "RND_CONV")
            out["eps_row"] = eps
        f = self.rsqrt.f
        total = out["total"] = out["operand"] * 2**self.guard + eps
        out["lead"] = lead(total)
        out["parity"] = out["lead"] % 2
        # total = 2**lead * (1 + fraction): the fraction's first F bits
        out["frac"] = (max(total, 1) * 2**f // 2 ** out["lead"]) - 2**f

    def _multiply(self, x: list[int], out: Signals) -> None:
        folded = self.c2 if self.place == "table" else Fraction(1)
        mantissa = int(self.rsqrt.build(Target("rsqrt", folded))(out["parity"], out["frac"]))
        if self.place == "multiplier":
            bits = self.normalize.get("constant_bits", min(self.rsqrt.o + 2, 24))
            out["constant"] = rounded_root(self.c2, bits)
            mantissa = half_up(Fraction(mantissa * out["constant"], 2**bits))
        out["mantissa"] = mantissa if out["total"] else 0
        shift = out["lead"] // 2 + self.rsqrt.o - self.p - self.guard // 2
        out["shift"] = shift
        one = Fraction(1) / self.gamma.scale if self.order == "gemma" else Fraction(0)
        assert one.denominator == 1
        weights = [w + int(one) for w in self.weights]
        if self.middle is not None:
            self._cast_first(x, weights, out)
            return
        out["weighted"] = [v * w for v, w in zip(x, weights, strict=True)]
        out["product"] = [w * out["mantissa"] for w in out["weighted"]]
        out["y"] = [self.y.shifted(v, shift) for v in out["product"]]

    def _cast_first(self, x: list[int], weights: list[int], out: Signals) -> None:
        assert self.middle is not None
        out["normalized"] = [self.middle.shifted(v * out["mantissa"], out["shift"]) for v in x]
        out["product"] = [v * w for v, w in zip(out["normalized"], weights, strict=True)]
        ratio = self.y.scale / (self.middle.scale * self.gamma.scale)
        amount = lead(ratio.numerator) - lead(ratio.denominator)
        assert ratio == Fraction(2) ** amount
        out["y"] = [self.y.shifted(v, amount) for v in out["product"]]

    # --- log domain -----------------------------------------------------------------------------

    def _log(self, x: list[int], out: Signals) -> None:
        bits = self.normalize.get("log_bits", 6)
        log2 = self.rsqrt.build_log2(bits)  # type: ignore[attr-defined]
        exponent = 2 * (out["lead"] // 2) - self.guard
        out["log_total"] = exponent * 2**bits + int(log2(out["parity"], out["frac"]))
        half_rounding = self.normalize.get("half_rounding", "RND")
        out["log_root"] = round_exact(Fraction(out["log_total"], 2), half_rounding)
        out["row_zero"] = int(out["total"] == 0)
        folded = self.gain if self.place == "gamma" else Fraction(1)
        constant = rounded_log(self.gain, bits) if self.place == "multiplier" else 0
        out["gamma_negative"] = [int(w < 0) for w in self.weights]
        out["gamma_zero"] = [int(w == 0) for w in self.weights]
        for name in ("gamma_log", *_LOG_SIGNALS):
            out[name] = []
        if self.place == "multiplier":
            out["log_constant"] = [constant] * len(x)
        for v, w in zip(x, self.weights, strict=True):
            gamma_log = self._gamma_log(w, folded, bits)
            out["gamma_log"].append(gamma_log)
            log_x = self._log_of(abs(v), bits)
            log_y = log_x - out["log_root"] + gamma_log + constant
            antilog, shift = self._antilog(log_y, bits)
            if v == 0 or w == 0 or out["row_zero"]:
                antilog = 0
            signed = -antilog if (v < 0) != (w < 0) else antilog
            y = self.y.shifted(signed, shift)
            values = (abs(v), log_x, log_y, antilog, signed, shift, y)
            for name, value in zip(_LOG_SIGNALS, values, strict=True):
                out[name].append(value)

    def _gamma_log(self, weight: int, folded: Fraction, bits: int) -> int:
        key = (weight, folded, bits)
        if key not in self._logs:
            self._logs[key] = rounded_log(weight * weight * folded, bits) if weight else 0
        return self._logs[key]

    def _log_of(self, magnitude: int, bits: int) -> int:
        magnitude = max(magnitude, 1)
        index_bits = self.normalize.get("log_index_bits", min(bits, 12))
        position = lead(magnitude)
        if index_bits == 0:  # Mitchell: log2(1 + f) ~ f, truncated
            return magnitude * 2**bits // 2**position + (position - 1) * 2**bits
        if self.normalize.get("form") == "correction":  # log2(1 + f) ~ f + T
            fraction = magnitude * 2**bits // 2**position - 2**bits
            line = fraction + self.tables["log2_table"][fraction // 2 ** (bits - index_bits)]
            return position * 2**bits + min(line, 2**bits - 1)
        index = magnitude * 2**index_bits // 2**position - 2**index_bits
        return position * 2**bits + self.tables["log2_table"][index]

    def _antilog(self, log_y: int, bits: int) -> tuple[int, int]:
        index_bits = self.normalize.get("antilog_index_bits", min(bits, 12))
        whole, fraction = log_y // 2**bits, log_y % 2**bits
        if index_bits == 0:
            return 2**bits + fraction, bits - whole
        entry = self.tables["exp2_table"][fraction // 2 ** (bits - index_bits)]
        if self.normalize.get("form") == "correction":  # 2**t ~ 1 + t - T
            out_bits = self.normalize.get("antilog_bits", bits + 2)
            return (2**bits + fraction) * 2 ** (out_bits - bits) - entry, out_bits - whole
        p = self.p if self.place == "table" else 0
        return entry, self.normalize.get("antilog_bits", bits + 2) - whole - p
