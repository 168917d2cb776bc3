"""Stand-in numbers for a spec before there is any data to calibrate on."""

from __future__ import annotations

from typing import Any

import numpy as np

NOMINAL_DIM = 576  # the row length of the activations that ship with the package
NOMINAL_PEAK = 8.0  # x, gamma and y reach +-8.0
GOLDEN = 648055  # 2**20 over the golden ratio, made odd: its multiples spread evenly


def nominal(spec: Any) -> tuple[Any, list[str]]:
    """Fill in what only data can give; returns the spec and what was put where.

    dim 576; scales are the smallest power of two that covers +-8.0; channel factors are 1; of a
    statistic's candidates the middle one; a bias to be calibrated is 1. Widths that follow from
    formats are then true; scales, steps and what hangs on them are not.
    """
    notes = []
    if spec.dim is None:
        spec = spec.with_dim(NOMINAL_DIM)
        notes.append(f"dim = {NOMINAL_DIM}")
    scales = [n for n in ("x", "gamma", "y") if getattr(spec, n).scale is None]
    if scales:
        spec = spec.replace(**{name: _covering(getattr(spec, name)) for name in scales})
        notes.append(f"the scale of {', '.join(scales)} covers +-{NOMINAL_PEAK}")
    for name in [each for each in spec.missing() if each.endswith("channel_shifts.shifts")]:
        field = name.removesuffix(".shifts")
        ones = getattr(spec, field).model_copy(update={"shifts": (0,) * (spec.dim or 0)})
        spec = spec.replace(**{field: ones})
        notes.append(f"all {field} are 0")
    if spec.statistic.missing():
        open_fields = spec.statistic.missing()
        spec = spec.replace(statistic=_middle(spec))
        values = ", ".join(f"{name} = {getattr(spec.statistic, name)}" for name in open_fields)
        notes.append(f"statistic: {values}")
    return spec, notes


def nominal_gamma(spec: Any) -> tuple[np.ndarray, str]:
    """A gamma about 1 whose channels differ, (dim,) float64, and a note that says what it is.

    Magnitudes from 1/2 to 3/2 in no order, every eighth negative, so that a kernel which confuses
    channels or loses a sign shows. Multiples of 2**-20, which floats hold exactly, so that any
    machine makes the same codes.
    """
    index, one = np.arange(spec.dim, dtype=np.int64), 1 << 20
    units = one // 2 + GOLDEN * (index + 1) % one
    units = np.where(index % 8 == 5, -units, units)
    note = "gamma: none was given; a pattern of +-1/2 to +-3/2 is used"
    if getattr(spec.normalize, "adds_one", False):
        units, note = units - one, f"{note}, less the 1 that is added"
    return units / one, note


def _covering(form: Any) -> Any:
    """The format with the smallest power-of-two scale whose range holds +-NOMINAL_PEAK."""
    codes = form.with_scale(1.0).to_format("scale")
    # A zero point at the upper end leaves no code above it; then those below it count.
    largest = codes.hi - codes.zero_point or codes.zero_point - codes.lo
    scale = 2.0**-40
    while scale * largest < NOMINAL_PEAK:
        scale *= 2
    return form.with_scale(scale)


def _middle(spec: Any) -> Any:
    bits = spec.row_exponent.bits if spec.row_exponent else spec.x.bits
    candidates = spec.statistic.candidates(bits - 1)
    chosen = candidates[len(candidates) // 2]
    return chosen.model_copy(update={"bias": 1.0}) if chosen.bias == "calibrate" else chosen
