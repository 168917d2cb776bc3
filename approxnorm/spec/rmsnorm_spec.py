"""The spec: one description of a hardware RMSNorm, from which everything else follows."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from approxnorm.errors import ApproxNormError
from approxnorm.methods.base import Fields, method_field, shown
from approxnorm.methods.format_field import FormatSpec
from approxnorm.methods.function import RSQRT_METHODS, FunctionMethod
from approxnorm.methods.normalizers import NORMALIZERS, Normalize
from approxnorm.methods.statistics import STATISTICS, Statistic
from approxnorm.spec.errors import spec_error
from approxnorm.spec.toml_text import toml_text

SPEC_VERSION = 1  # goes up when any output bit of any spec may change
MAX_DIM = 1 << 20
_SHIFTS = ("channel_shifts", "y_channel_shifts")

if TYPE_CHECKING:
    _StatisticField = Statistic
    _RsqrtField = FunctionMethod
    _NormalizeField = Normalize
else:
    _StatisticField = method_field(Statistic, STATISTICS)
    _RsqrtField = method_field(FunctionMethod, RSQRT_METHODS)
    _NormalizeField = method_field(Normalize, NORMALIZERS)


class RowExponent(Fields):
    """Block floating point: each row is shifted right until it fits ``bits`` bits, RND and SAT."""

    bits: int = Field(ge=2, le=26)


class ChannelShifts(Fields):
    """Static power-of-two factors: channel i counts in units of 2**shifts[i] LSBs of x, or of y.

    Absent ``shifts`` are calibrated, each at most ``max_shift``. Source: power-of-two factors of
    FQ-ViT (IJCAI 2022) and SOLE.
    """

    max_shift: int = Field(default=4, ge=1, le=15)
    shifts: tuple[int, ...] | None = Field(default=None, strict=False)

    @model_validator(mode="after")
    def _within(self) -> ChannelShifts:
        bad = [s for s in self.shifts or () if not 0 <= s <= self.max_shift]
        if bad:
            raise ApproxNormError(
                f"shifts hold {bad[0]}; allowed: 0 to max_shift, {self.max_shift}"
            )
        return self


class RMSNormSpec(Fields):
    """y = gamma * x / sqrt(mean(x**2) + eps), as some hardware computes it.

    Read from TOML or JSON (``approxnorm.spec.load``) or built from keywords. Absent numbers are
    derived or calibrated; ``approxnorm.rmsnorm.assemble`` fills in every one of them.

    Raises ApproxNormError that names the field, what was found and what is allowed.
    """

    spec_version: Literal[1] = 1
    norm: Literal["rmsnorm"]
    description: str = ""
    dim: int | None = Field(default=None, ge=1, le=MAX_DIM)
    eps: float = Field(ge=0, allow_inf_nan=False)
    eps_guard: int | None = Field(default=None, ge=0, le=30)
    x: FormatSpec
    gamma: FormatSpec
    y: FormatSpec
    row_exponent: RowExponent | None = None
    channel_shifts: ChannelShifts | None = None
    y_channel_shifts: ChannelShifts | None = None
    statistic: _StatisticField
    rsqrt: _RsqrtField
    normalize: _NormalizeField

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise spec_error(error, "spec") from None

    @field_validator("spec_version", mode="before")
    @classmethod
    def _whole_version(cls, value: Any) -> Any:
        if type(value) is not int:  # True and 1.0 equal 1, but would print as themselves
            raise ApproxNormError(f"found {shown(value)}; allowed: the number {SPEC_VERSION}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.y.require_modes("y")
        if self.eps_guard is not None and self.eps_guard % 2:
            raise ApproxNormError(
                f"eps_guard is {self.eps_guard}; allowed: even numbers, as an odd one would flip"
                " the parity"
            )
        for name in _SHIFTS:
            shifts = self._shifts(name)
            if self.dim is not None and shifts is not None and len(shifts) != self.dim:
                raise ApproxNormError(
                    f"{name}.shifts has {len(shifts)} numbers; allowed: dim, {self.dim}"
                )
        if self.y_channel_shifts is not None and self.normalize.adds_one:
            raise ApproxNormError(
                'y_channel_shifts divide gamma, and normalize.order "gemma" adds 1 to it after'
                " that; allowed: one of them"
            )
        return self

    def _shifts(self, name: str) -> tuple[int, ...] | None:
        given: ChannelShifts | None = getattr(self, name)
        return given.shifts if given is not None else None

    @property
    def y_factors(self) -> np.ndarray | None:
        """What y's channels count in, float64 (dim,), in LSBs of y; None where all count alike."""
        shifts = self._shifts("y_channel_shifts")
        return None if shifts is None else np.ldexp(1.0, np.array(shifts, np.int32))

    @property
    def eps_fraction(self) -> Fraction:
        """eps as its shortest decimal says, exactly: 1e-5 is 1/100000."""
        return Fraction(repr(self.eps))

    def divide_channels(self, real: np.ndarray) -> np.ndarray:
        """Real x (..., dim) as float32 divided by the channel factors, if there are any; exact."""
        with np.errstate(over="ignore"):  # past float32 it is infinite, and saturates
            values = np.asarray(real, np.float32)
        if self.channel_shifts is None:
            return values
        shifts = np.array(self.channel_shifts.shifts, np.int32)
        return np.ldexp(values, -shifts).astype(np.float32)

    def with_dim(self, dim: int) -> RMSNormSpec:
        """The same spec for rows of ``dim`` elements; ApproxNormError if it names another."""
        if self.dim not in (None, dim):
            raise ApproxNormError(f"dim is {self.dim} in the spec, but rows have {dim} elements")
        return self.replace(dim=dim)

    def replace(self, **changes: Any) -> RMSNormSpec:
        """A validated copy with some fields changed."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return RMSNormSpec(**fields | changes)

    def missing(self) -> list[str]:
        """What only data can fill: open scales, steps, shifts and dim."""
        absent = [f"{n}.scale" for n in ("x", "gamma", "y") if getattr(self, n).scale is None]
        absent += ["dim"] if self.dim is None else []
        absent += [
            f"{name}.shifts"
            for name in _SHIFTS
            if getattr(self, name) is not None and self._shifts(name) is None
        ]
        return absent + [f"statistic.{name}" for name in self.statistic.missing()]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without what is absent: what files hold."""
        return _drop_none(self.model_dump(mode="json"))

    def to_json(self) -> str:
        """JSON text with a final newline."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_toml(self) -> str:
        """TOML text with a final newline."""
        return toml_text(self.to_dict())


def _drop_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _drop_none(v) for k, v in value.items() if v is not None}
    return value


def digest(content: dict[str, Any]) -> str:
    """SHA-256, in hex, of data as canonical JSON: sorted keys, no spaces, ASCII."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"cannot digest {type(value).__name__}")
