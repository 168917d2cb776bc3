"""The references: float64, float32 in each framework's order, and exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from approxnorm import ApproxNormError
from approxnorm.reference import rmsnorm_exact, rmsnorm_float64, rmsnorm_fp32, signed_root

ORDERS = ("llama", "onnx", "pytorch")


def data(dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    x = (rng.standard_normal((40, 24)) * 2.0 ** rng.uniform(-3, 3, (40, 1))).astype(dtype)
    return x, rng.standard_normal(24).astype(dtype)


def test_exact_is_within_its_bits_and_toward_zero():
    x = [Fraction(3), Fraction(-4), Fraction(0), 12]
    gamma = [Fraction(1), Fraction(1, 3), 5, -2]
    eps = Fraction(1, 100000)
    square = Fraction(9 + 16 + 144, 4) + eps
    for bits in (8, 80):
        got = rmsnorm_exact(x, gamma, eps, bits)
        for y, v, g in zip(got, x, gamma, strict=True):
            target = Fraction(v * v * g * g) / square
            assert y * y <= target <= (abs(y) + Fraction(1, 1 << bits)) ** 2
            assert (y < 0) == (v * g < 0) and y.denominator <= 1 << bits


def test_exact_of_perfect_squares():
    assert rmsnorm_exact([3, -3], [2, 1], Fraction(7)) == [Fraction(6, 4), Fraction(-3, 4)]
    assert signed_root(Fraction(-1, 3), Fraction(1, 9), 4) == -1
    assert rmsnorm_exact([0, 0], [1, 1], Fraction(0)) == [0, 0]


def test_float64_against_exact():
    x, gamma = data()
    got = rmsnorm_float64(x, gamma, 1e-5)
    assert got.dtype == np.float64
    for row, y in zip(x[:5], got, strict=False):
        exact = rmsnorm_exact(
            [Fraction(float(v)) for v in row],
            [Fraction(float(g)) for g in gamma],
            Fraction(1e-5),
        )
        for a, b in zip(y, exact, strict=True):
            assert abs(Fraction(float(a)) - b) <= abs(b) * Fraction(1, 2**50)


@pytest.mark.parametrize("order", ORDERS)
def test_fp32_is_close_to_float64_and_orders_differ_in_the_last_place_only(order):
    x, gamma = data()
    got = rmsnorm_fp32(x, gamma, 1e-5, order)
    exact = rmsnorm_float64(x, gamma, 1e-5)
    assert got.dtype == np.float32
    assert np.max(np.abs(got - exact) / np.abs(exact)) < 2.0**-21


def test_fp32_orders_are_different_functions():
    x, gamma = data()
    results = [rmsnorm_fp32(x, gamma, 1e-5, order) for order in ORDERS]
    assert (results[0] != results[1]).any()  # x * (1 / root) is not x / root
    assert (results[0] == results[2]).all()  # in float32 no cast tells them apart
    half, gamma16 = data(np.float16)
    halves = [rmsnorm_fp32(half, gamma16, 1e-5, order) for order in ORDERS]
    assert all(h.dtype == np.float16 for h in halves)
    assert (halves[0] != halves[2]).any()  # LLaMA casts before gamma


@pytest.mark.parametrize("order", ORDERS)
def test_fp32_step_by_step(order):
    """Each rounding written out on scalars; a row of one element leaves no order of summing."""
    for x_value, gamma_value in ((3.3, 0.7), (-0.01, 1.9), (65000.0, 0.3)):
        for dtype in (np.float32, np.float16):
            x, gamma = dtype(x_value), dtype(gamma_value)
            wide, eps = np.float32(x), np.float32(1e-3)
            root = np.sqrt(wide * wide + eps)
            if order == "onnx":
                expected = dtype(wide / root) * gamma
            elif order == "llama":
                expected = gamma * dtype(wide * (np.float32(1) / root))
            else:
                expected = dtype(wide * (np.float32(1) / root) * np.float32(gamma))
            got = rmsnorm_fp32(np.array([x]), np.array([gamma]), 1e-3, order)
            assert got.dtype == dtype and got[0] == expected


def test_zero_rows_give_zeros_even_without_eps():
    zero, gamma = np.zeros((2, 3)), np.ones(3)
    assert (rmsnorm_float64(zero, gamma, 0.0) == 0).all()
    for order in ORDERS:
        assert (rmsnorm_fp32(zero, gamma, 0.0, order) == 0).all()


def test_any_leading_shape_and_no_rows():
    gamma = np.ones(3)
    for shape in ((3,), (0, 3), (2, 5, 3)):
        assert rmsnorm_float64(np.ones(shape), gamma, 1e-5).shape == shape
        assert rmsnorm_fp32(np.ones(shape), gamma, 1e-5).shape == shape


def test_float32_overflow_is_kept_quiet():
    got = rmsnorm_fp32(np.array([3e30, 1.0]), np.ones(2), 1e-5)
    assert (got == 0).all()  # the square is infinite, as it is in the frameworks


def test_bad_arguments():
    with pytest.raises(ApproxNormError, match=r"order is 'keras'; allowed: llama, onnx, pytorch"):
        rmsnorm_fp32(np.ones(3), np.ones(3), 1e-5, "keras")
    with pytest.raises(ApproxNormError, match=r"gamma has shape \(2,\); allowed: \(3,\)"):
        rmsnorm_float64(np.ones(3), np.ones(2), 1e-5)
    with pytest.raises(ApproxNormError, match="at least one element"):
        rmsnorm_fp32(np.float32(1), np.ones(1), 1e-5)
    with pytest.raises(ApproxNormError, match="gamma has 1 values"):
        rmsnorm_exact([1, 2], [1], Fraction(1))
