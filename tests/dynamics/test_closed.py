"""Closed forms of single modes against integrated equations, and where naive formulas overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from nqf_pipeline.dynamics.closed import logistic, logistic_time, pair, saturating_time

Array = Any
RATES = st.floats(-10, 10)
POSITIVE = st.floats(1e-3, 1e3)


def integrate(slope: Any, start: Array, time: Array) -> Array:
    """Reference solution with 12 digits, in ln z so that tiny seeds keep theirs."""
    solution = solve_ivp(lambda t, x: slope(np.exp(x)), (0, time[-1]), np.log(start), "DOP853", time, rtol=1e-13, atol=1e-13)
    return np.exp(solution.y)


@pytest.mark.parametrize("rate", [2.0, 0.3, 0.0, -0.7])
@pytest.mark.parametrize("seed", [1e-8, 0.05, 40.0])
def test_logistic_solves_its_equation(rate: float, seed: float) -> None:
    time = np.linspace(0, 20, 41)
    expected = integrate(lambda z: rate - 0.8 * z, np.array([seed]), time)[0]
    np.testing.assert_allclose(logistic(time, np.array(rate), np.array(0.8), np.array(seed)), expected, rtol=1e-9)


@given(exponent=st.floats(-1e4, 1e6), saturation=POSITIVE, seed=st.one_of(st.just(0.0), st.floats(1e-30, 1e3)), single=st.booleans())
def test_logistic_is_finite_and_between_its_seed_and_its_limit(exponent: float, saturation: float, seed: float, single: bool) -> None:
    kind = np.float32 if single else np.float64
    rate, time = np.sign(exponent or 1), abs(exponent)
    z = logistic(*(np.array(v, kind) for v in (time, rate, saturation, seed)))
    assert z.dtype == kind
    limit = max(rate, 0.0) / saturation
    slack = 1 + 4 * float(np.finfo(kind).eps)
    assert np.isfinite(z)
    assert min(seed, limit) / slack - 1e-37 <= z <= max(seed, limit) * slack
    if seed == 0:
        assert z == 0


def test_logistic_reaches_its_limits_at_extreme_times() -> None:
    assert logistic(np.array(1e6), np.array(1.0), np.array(2.0), np.array(1e-30)) == 0.5
    assert logistic(np.array(1e4), np.array(-1.0), np.array(2.0), np.array(1.0)) == 0.0
    assert logistic(np.array(1e300), np.array(0.0), np.array(1.0), np.array(1.0)) == pytest.approx(1e-300)


def test_logistic_is_continuous_in_its_rate_at_zero() -> None:
    rates = np.array([-1e-12, 0.0, 1e-12, 1e-300, 5e-324])
    np.testing.assert_allclose(logistic(np.array(3.0), rates, np.array(2.0), np.array(0.4)), 0.4 / (1 + 2.4), rtol=1e-11)


@given(rate=RATES, time=st.floats(0, 1e3))
def test_saturating_time_is_the_integral_of_the_decay(rate: float, time: float) -> None:
    value = float(saturating_time(np.array(time), np.array(rate)))
    assert 0 <= value <= time * (1 + 1e-12)
    if abs(rate) * time > 1e-3:
        assert value == pytest.approx((1 - np.exp(-abs(rate) * time)) / abs(rate), rel=1e-10)


@given(rate=st.floats(1e-3, 1e3), saturation=POSITIVE, smallness=st.floats(-60, -0.5), rho=st.floats(0.05, 0.999))
def test_logistic_time_inverts_the_logistic(rate: float, saturation: float, smallness: float, rho: float) -> None:
    capacity = rate / saturation
    seed, goal = capacity * np.exp(smallness), rho * capacity
    arguments = [np.array(v) for v in (rate, saturation, seed)]
    time = logistic_time(np.array(goal), *arguments)
    if seed >= goal:
        assert time == 0
    else:
        np.testing.assert_allclose(logistic(time, *arguments), goal, rtol=1e-9)


def test_the_clock_of_the_theory_is_the_inverse_of_the_logistic() -> None:
    """t(rho) = (1 / a zeta) [ln((zeta - C z0) / (C z0)) + ln(rho / (1 - rho))]; z' = z (r - C z) is its case a = 1, zeta = r."""
    rate, saturation, seed = 0.7, 1.9, 1e-6
    for rho in (0.1, 0.5, 0.9):
        clock = (np.log((rate - saturation * seed) / (saturation * seed)) + np.log(rho / (1 - rho))) / rate
        goal = np.array(rho * rate / saturation)
        assert logistic_time(goal, np.array(rate), np.array(saturation), np.array(seed)) == pytest.approx(clock, rel=1e-12)


def test_times_of_modes_that_never_arrive_or_are_there_already() -> None:
    rate, seed = np.array([1.0, -1.0, 0.0, 1.0, 1.0]), np.array([0.0, 0.1, 0.1, 0.6, 0.1])
    goal = np.array([0.5, 0.5, 0.5, 0.5, 1.0])
    np.testing.assert_array_equal(logistic_time(goal, rate, np.ones(5), seed), [np.inf, np.inf, np.inf, 0.0, np.inf])


@pytest.mark.parametrize("rate", [1.3, 0.0])
@pytest.mark.parametrize("other", [1e-6, 0.4])
def test_pair_solves_both_parts_of_a_product(rate: float, other: float) -> None:
    time, seed, saturation = np.linspace(0, 15, 31), 1e-5, 0.9
    slope = lambda z: np.array([1.0, -1.0]) * (rate - saturation * (z[0] - z[1]))  # noqa: E731
    expected = integrate(slope, np.array([seed, other]), time)
    found = pair(time, *(np.array(v) for v in (rate, saturation, seed, other)))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_pair_without_an_antisymmetric_part_is_logistic() -> None:
    time = np.linspace(0, 10, 5)
    main, other = pair(time, *(np.array(v) for v in (1.0, 2.0, 1e-3, 0.0)))
    np.testing.assert_allclose(main, logistic(time, np.array(1.0), np.array(2.0), np.array(1e-3)), rtol=1e-14)
    assert np.all(other == 0)
