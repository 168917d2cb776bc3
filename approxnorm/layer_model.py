"""The model of one layer: calibrated on its own activations, with its own gamma and eps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from approxnorm.calibrate import Calibration, calibrate
from approxnorm.errors import ApproxNormError
from approxnorm.inputs import Layer
from approxnorm.model import RMSNorm
from approxnorm.spec.rmsnorm_spec import RMSNormSpec


def with_gamma(layer: Layer, gamma: np.ndarray | None) -> tuple[Layer, list[str]]:
    """The layer with a gamma: the one given, else its own, else ones; and a note if not its own.

    Raises ApproxNormError if the one given does not fit, or is codes where x is real.
    """
    if gamma is None and layer.gamma is not None:
        return layer, []
    if gamma is None:
        ones = np.ones(layer.dim, np.float32)
        return replace(layer, gamma=ones), ["gamma: the file has none; ones are used"]
    if gamma.dtype.kind in "iu" and not layer.is_codes:
        raise ApproxNormError(
            "gamma holds integers, that is codes, where x is calibrated on real activations;"
            " allowed: real gamma"
        )
    if gamma.shape != (layer.dim,):
        raise ApproxNormError(
            f"gamma has shape {gamma.shape}; the rows of layer {layer.name} of {layer.source} have"
            f" {layer.dim} elements"
        )
    notes = [] if layer.gamma is None else ["gamma: the one given takes the place of the file's"]
    return replace(layer, gamma=gamma), notes


def calibrated_model(
    spec: RMSNormSpec, layer: Layer, progress: Callable[[float], None] | None = None
) -> tuple[RMSNorm, Calibration]:
    """The model of one layer: its eps, gamma and row length, and the scales that the data asks for.

    The layer has a gamma (``with_gamma``). Its own eps, if the file has one, takes the place of
    the spec's. Raises ApproxNormError that names the layer.
    """
    if layer.is_codes:
        raise ApproxNormError(
            f"{layer.source}: layer {layer.name} holds integer codes; allowed: real activations"
            " (use `approxnorm apply` for codes)"
        )
    assert layer.gamma is not None
    if layer.rows == 0:
        raise ApproxNormError(f"{layer.source}: layer {layer.name} has no rows")
    if layer.eps is not None:
        spec = spec.replace(eps=layer.eps)
    report = progress or (lambda done: None)

    def blocks() -> Iterable[np.ndarray]:
        return counted_blocks(layer.blocks(), layer.rows, report)

    try:
        with warnings_of(f"layer {layer.name}"):
            calibration = calibrate(spec, blocks, layer.gamma)
            return RMSNorm(calibration.spec, layer.gamma), calibration
    except ApproxNormError as error:
        if str(layer.source) in str(error):
            raise
        raise ApproxNormError(f"{layer.source}: layer {layer.name}: {error}") from None


@contextmanager
def warnings_of(what: str) -> Iterator[None]:
    """Give each warning again, once, with ``what`` it is about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    told = {(f"{what}: {w.message}", w.category) for w in caught}
    for text, category in sorted(told, key=lambda t: t[0]):
        warnings.warn(text, category, stacklevel=3)


def counted_blocks(
    blocks: Iterable[np.ndarray], rows: int, report: Callable[[float], None]
) -> Iterator[np.ndarray]:
    """The blocks, telling after each what fraction of the rows is done."""
    done = 0
    for block in blocks:
        yield block
        done += len(block)
        report(done / max(rows, 1))
