"""A target's exact values at every argument, fast: an anchor and a difference.

Exact big-integer values are computed at 2**ANCHOR_BITS anchors an octave. Between two anchors the
function differs from the anchor's value by less than 2**-9 of it, so that a float64 of the
*difference* is good to about 2**-10 of a unit, whatever the platform's logarithm does in its last
places. Where that leaves the floor open, the exact integer routine decides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ANCHOR_BITS = 10
GUARD = 10  # bits of an anchor below the unit of the result
DOUBT = 2.0**-7  # distance from an integer within which the exact routine decides

Floor = Callable[[int, int, int, int], int]  # (octave, frac, frac_bits, bits) -> floor


def reference_row(
    name: str, gain: float, floor: Floor, octave: int, frac_bits: int, bits: int
) -> np.ndarray:
    """floor(2**bits * f) at each of the 2**F + 1 fractions of an octave, exact, int64."""
    size = 1 << frac_bits
    if frac_bits <= ANCHOR_BITS:
        return np.array([floor(octave, i, frac_bits, bits) for i in range(size + 1)], np.int64)
    values = np.empty(size + 1, np.int64)
    values[:-1], doubtful = _between_anchors(
        name, gain, floor, octave, frac_bits, bits, range(size)
    )
    for i in np.append(np.flatnonzero(doubtful), size):
        values[i] = floor(octave, int(i), frac_bits, bits)
    return values


def near_reference(
    name: str, gain: float, floor: Floor, octave: int, frac_bits: int, bits: int, part: range
) -> np.ndarray:
    """2**bits * f to within a unit either way, int64, at the fractions of ``part`` and its end.

    Without the doubtful cases it costs no big integers but the anchors', so that a domain of
    many bits can be run through. part: from one anchor to another, in steps of 1.
    """
    values = np.empty(len(part) + 1, np.int64)
    values[:-1], _ = _between_anchors(name, gain, floor, octave, frac_bits, bits, part)
    values[-1] = floor(octave, part.stop, frac_bits, bits)
    return values


def _between_anchors(
    name: str, gain: float, floor: Floor, octave: int, frac_bits: int, bits: int, part: range
) -> tuple[np.ndarray, np.ndarray]:
    """Floors at the fractions of ``part``, and which of them are in doubt by one unit."""
    below = frac_bits - ANCHOR_BITS
    places = range(part.start >> below, part.stop >> below)
    anchors = [floor(octave, i, ANCHOR_BITS, bits + GUARD) for i in places]
    fine = np.array(anchors, np.int64)[:, None]
    start = np.arange(places.start, places.stop)[:, None] / (1 << ANCHOR_BITS)
    rise = np.arange(1 << below)[None, :] / (1 << frac_bits)
    change = _difference(name, start, rise) * (gain * 2.0 ** (bits - octave / 2))
    rest = change + (fine & ((1 << GUARD) - 1)) / (1 << GUARD)
    whole = np.floor(rest)
    doubtful = np.minimum(rest - whole, whole + 1 - rest) < DOUBT
    return ((fine >> GUARD) + whole.astype(np.int64)).ravel(), doubtful.ravel()


def _difference(name: str, start: np.ndarray, rise: np.ndarray) -> np.ndarray:
    """f(start + rise) - f(start) in octave 0, to a few units in the last place of itself."""
    a, b = 1 + start, 1 + start + rise
    match name:
        case "rsqrt":
            root_a, root_b = np.sqrt(a), np.sqrt(b)
            return -rise / (root_a * root_b * (root_a + root_b))
        case "reciprocal":
            return -rise / (a * b)
        case "log2":
            return np.log1p(rise / a) / np.log(2.0)
        case "exp2":
            return np.exp2(start) * np.expm1(rise * np.log(2.0))
    raise AssertionError(name)
