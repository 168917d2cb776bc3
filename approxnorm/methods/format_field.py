"""How a spec writes a number format: an ap_fixed text, or a table of bits and scale."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from approxnorm.errors import ApproxNormError
from approxnorm.formats import Format, Overflow, Rounding, float32_fraction, parse_fixed
from approxnorm.methods.base import Fields, shown


class FormatSpec(Fields):
    """A format in a spec, whose scale may still be open.

    Either ``"ap_fixed<W,I,Q,O>"`` or a table: bits, signed, scale (float32; absent means that
    calibration chooses it), zero_point, rounding, overflow, and calibrate: "pow2" (the smallest
    power of two whose range holds the data) or "absmax" (the largest magnitude is the largest
    code). headroom: bits that calibration leaves free above the largest value it has seen; under a
    row exponent a wide x has them for nothing.
    """

    bits: int = Field(ge=2, le=32)
    signed: bool = True
    scale: float | None = Field(default=None, gt=0)
    zero_point: int = 0
    rounding: Rounding | None = Field(default=None, strict=False)
    overflow: Overflow | None = Field(default=None, strict=False)
    calibrate: Literal["pow2", "absmax"] = "pow2"
    headroom: int = Field(default=0, ge=0, le=16)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: Any) -> Any:
        if isinstance(data, dict | FormatSpec):
            return data
        if not isinstance(data, str):
            raise ApproxNormError(
                f'found {shown(data)}; allowed: a text such as "ap_fixed<8,4>", or a table with'
                " bits, signed and scale"
            )
        form = parse_fixed(data)
        named = data.count(",")  # 1: neither mode given; 2: rounding; 3: both
        return {
            "bits": form.width,
            "signed": form.signed,
            "scale": float(form.scale),
            "rounding": form.rounding if named > 1 else None,
            "overflow": form.overflow if named > 2 else None,
        }

    @field_validator("scale")
    @classmethod
    def _float32(cls, scale: float | None) -> float | None:
        """The float32 that is meant, so that a scale is the same however it was written."""
        return None if scale is None else float(float32_fraction(scale))

    @field_validator("calibrate")
    @classmethod
    def _only_if_open(cls, rule: str, info: ValidationInfo) -> str:
        """With a scale there is nothing to calibrate: specs that mean the same are equal."""
        return "pow2" if info.data.get("scale") is not None else rule

    @field_validator("headroom")
    @classmethod
    def _none_if_fixed(cls, bits: int, info: ValidationInfo) -> int:
        """The same for the bits that calibration leaves free."""
        return 0 if info.data.get("scale") is not None else bits

    @model_validator(mode="after")
    def _possible(self) -> FormatSpec:
        form = self if self.scale is not None else self.model_copy(update={"scale": 1.0})
        form.to_format("scale")
        most = max(0, self.bits - self.signed - 1)
        if self.headroom > most:
            raise ApproxNormError(
                f"headroom is {self.headroom}; allowed with {self.bits} bits: at most {most}, so"
                " that a bit is left for the values"
            )
        return self

    @model_serializer
    def _write(self) -> Any:
        if self.scale is not None and self.rounding and self.overflow:
            form = self.to_format("scale")
            if form.is_fixed_point:
                return str(form)
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        if self.scale is not None:
            fields["scale"] = float(str(np.float32(self.scale)))
            fields["calibrate"] = None
        fields["headroom"] = self.headroom or None
        return {k: v for k, v in fields.items() if v is not None}

    def require_modes(self, field: str) -> None:
        """Raise ApproxNormError unless both modes are named."""
        if self.rounding is None or self.overflow is None:
            raise ApproxNormError(
                f"{field} must name its rounding and overflow, as in ap_fixed<8,4,RND_CONV,SAT>"
            )

    def with_modes(self) -> FormatSpec:
        """Absent modes become RND_CONV and SAT."""
        return self.model_copy(
            update={
                "rounding": self.rounding or Rounding.RND_CONV,
                "overflow": self.overflow or Overflow.SAT,
            }
        )

    def with_scale(self, scale: float) -> FormatSpec:
        """The same format with its scale fixed."""
        fixed = {"scale": float(np.float32(scale)), "calibrate": "pow2", "headroom": 0}
        return self.model_copy(update=fixed)

    def to_format(self, field: str) -> Format:
        """The format; ApproxNormError that names ``field`` if the scale is still open."""
        if self.scale is None:
            raise ApproxNormError(
                f"{field} has no scale; give scale, write it as ap_fixed<W,I>, or calibrate the"
                " spec on data"
            )
        return Format(
            width=self.bits,
            signed=self.signed,
            scale=float32_fraction(self.scale),
            zero_point=self.zero_point,
            rounding=self.rounding or Rounding.RND_CONV,
            overflow=self.overflow or Overflow.SAT,
        )
