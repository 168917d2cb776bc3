"""Pinned output bits of every preset, in golden/presets.json.

Run ``python tests/golden_pins.py`` from the repository after a wanted change of output bits: it
calibrates each preset once on seeded data, and writes the numbers chosen, the digest, the name,
level and interval of every signal, and the SHA-256 of input and output codes. Tests only read
them: what calibration chose is stored, so that no test depends on the last place of a machine's
floating point.
"""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from approxnorm import EpsWarning, RMSNorm, RMSNormSpec, preset, preset_names
from approxnorm.calibrate import calibrate_array

FILE = Path(__file__).parent / "golden" / "presets.json"
DIM, ROWS = 96, 64

Pin = dict[str, Any]
PINS: dict[str, Pin] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}


def sha256(codes: np.ndarray) -> str:
    """Of the codes as little-endian int64, whatever type they have."""
    return hashlib.sha256(np.ascontiguousarray(codes, "<i8").tobytes()).hexdigest()


def words(seed: int, count: int) -> np.ndarray:
    """Raw 64-bit words of PCG64: the same with every NumPy, as int64."""
    return np.random.PCG64(seed).random_raw(count).view(np.int64)


def pinned_rows(model: RMSNorm) -> np.ndarray:
    """Rows of every magnitude: row i is shifted right by i mod bits."""
    form = model.assembly.x_format
    codes = words(1, ROWS * DIM).reshape(ROWS, DIM) >> (64 - form.width)
    codes >>= (np.arange(ROWS) % form.width)[:, None]
    outlier = np.arange(ROWS) % DIM
    codes[np.arange(ROWS), outlier] = np.where(outlier % 2, form.lo, form.hi)
    return codes


def pinned_model(name: str, pin: Pin | None = None) -> RMSNorm:
    """A preset with the numbers that calibration once chose, and fixed gamma codes."""
    spec = with_chosen(preset(name), (pin or PINS[name])["chosen"])
    form = spec.gamma.to_format("gamma")
    return RMSNorm(spec, words(2, DIM) >> (64 - form.width))


def signals(model: RMSNorm) -> list[str]:
    """Every named signal as "name, level, lo to hi", in order of computation."""
    datapath = model.assembly.datapath or model.assembly.front
    return [
        f"{port.name}, {port.level}, {port.interval.lo} to {port.interval.hi}"
        for port in datapath.signals()
    ]


def with_chosen(spec: RMSNormSpec, chosen: dict[str, Any]) -> RMSNormSpec:
    """A spec with open numbers, by their names in ``RMSNormSpec.missing``, filled in."""
    changes: dict[str, Any] = {"dim": DIM}
    for name, value in chosen.items():
        field, own = name.split(".")
        part = changes.get(field, getattr(spec, field))
        if own == "scale":
            changes[field] = part.with_scale(value)
        else:
            filled = tuple(value) if own == "shifts" else value
            changes[field] = part.model_copy(update={own: filled})
    return spec.replace(**changes)


def choose(name: str) -> dict[str, Any]:
    """Calibrate a preset on seeded data with an outlier channel."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((64, DIM)) * 3).astype(np.float32)
    x[:, 7] *= 30
    spec = preset(name)
    done = calibrate_array(spec, x, 1 + 0.3 * rng.standard_normal(DIM)).spec
    chosen = {}
    for path in spec.missing():
        if path != "dim":
            field, own = path.split(".")
            chosen[path] = getattr(getattr(done, field), own)
    return chosen


def regenerate() -> None:
    """Write the pins of every preset anew."""
    warnings.simplefilter("ignore", EpsWarning)
    pins = {}
    for name in preset_names():
        pin: Pin = {"chosen": choose(name)}
        model = pinned_model(name, pin)
        codes = pinned_rows(model)
        pin |= {"digest": model.digest, "signals": signals(model)}
        pin |= {"x_sha256": sha256(codes), "y_sha256": sha256(model(codes))}
        pins[name] = pin
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(pins, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    regenerate()
