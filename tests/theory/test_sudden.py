"""The verdict on logistic modes whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.dynamics.closed import logistic, logistic_time
from nqf_pipeline.theory.sudden import RISE, half_time, sudden_below, sudden_in_the_limit, verdict

RATES = np.array([1.0, 0.5, 0.25, 0.125])


def at(epsilon: float, rate: np.ndarray = RATES) -> np.ndarray:
    """Half-saturation of modes with z(inf) = 1 and seeds epsilon."""
    return logistic_time(np.full(len(rate), 0.5), rate, rate, np.full(len(rate), epsilon))


def test_two_modes_have_the_separation_of_the_closed_form() -> None:
    epsilon, rate = 1e-5, np.array([2.0, 0.5])
    waited = np.log(1 / epsilon - 1)
    expected = [2 * waited / RISE, waited * (1 / 0.5 - 1 / 2.0) / (RISE * (1 / 0.5 + 1 / 2.0) / 2)]
    np.testing.assert_allclose(verdict(at(epsilon, rate), rate).separation, expected, rtol=1e-12)


@given(rate=st.floats(0.1, 10), epsilon=st.floats(1e-12, 1e-2))
def test_the_width_is_the_time_from_10_to_90_percent(rate: float, epsilon: float) -> None:
    begin, end = (float(logistic_time(goal, rate, rate, epsilon)) for goal in (0.1, 0.9))
    assert end - begin == pytest.approx(RISE / rate)


@given(ratio=st.floats(1.05, 20), epsilon=st.floats(1e-14, 1e-3))
def test_a_separation_above_one_is_a_plateau_of_the_curve(ratio: float, epsilon: float) -> None:
    """Where the later mode passes 10 %, the earlier has passed 90 % exactly if the separation exceeds 1."""
    rate = np.array([ratio, 1.0])
    apart = verdict(at(epsilon, rate), rate).separation[1]
    when = logistic_time(0.1, 1.0, 1.0, epsilon)
    strength = float(logistic(when, ratio, ratio, epsilon))
    assert (strength > 0.9) == (apart > 1) or abs(apart - 1) < 1e-9


@pytest.mark.parametrize(("apart", "slope"), [(1.0, 0.69), (0.6, 1.0), (2.0, 0.1)])
def test_between_two_steps_alike_the_fall_slows_down(apart: float, slope: float) -> None:
    """Slope halfway between two logistic steps, relative to the steepest one: none at a separation of 0.6, the Sparrow limit."""
    time = np.linspace(-30, 30, 60_001)
    total = sum(logistic(time + 30, 1.0, 1.0, 1 / (1 + np.exp(30 + shift))) for shift in (-apart * RISE / 2, apart * RISE / 2))
    fall = np.gradient(total, time)
    assert fall[30_000] / fall.max() == pytest.approx(slope, abs=0.01)


@given(epsilon=st.floats(1e-12, 1e-3), log_factor=st.floats(1, 20))
def test_separations_grow_as_the_logarithm_of_epsilon(epsilon: float, log_factor: float) -> None:
    """Straight lines in ln(1/epsilon), with the slope of the limit."""
    near, far = (verdict(at(e), RATES).separation for e in (epsilon, epsilon * np.exp(-log_factor)))
    slope = np.concatenate([[2.0], 2 * (RATES[:-1] - RATES[1:]) / (RATES[:-1] + RATES[1:])]) / RISE
    np.testing.assert_allclose(far - near, slope * log_factor, rtol=2e-3)


def test_large_seeds_are_gradual_and_small_ones_sudden() -> None:
    assert verdict(at(0.6), RATES).plateaus == 0
    assert not verdict(at(1e-1), RATES).sudden
    late = verdict(at(1e-8), RATES)
    assert (late.sudden, late.plateaus, late.steps) == (True, 4, 4)


def test_only_steps_within_the_run_count() -> None:
    times = at(1e-8)
    assert verdict(times, RATES, end=float(times[1])).steps == 2
    none = verdict(times, RATES, end=1.0)
    assert (none.steps, none.sudden) == (0, False)


def test_modes_that_never_ignite_make_no_step() -> None:
    assert verdict(np.array([3.0, np.inf, np.nan, 9.0]), np.array([2.0, 1.0, 1.0, 0.0])).steps == 1


def test_order_is_that_of_time() -> None:
    times = at(1e-6)
    shuffled = [2, 0, 3, 1]
    np.testing.assert_array_equal(verdict(times[shuffled], RATES[shuffled]).separation, verdict(times, RATES).separation)


@given(share=st.floats(-600, -1), rate=st.floats(0.01, 10))
def test_half_times_are_those_of_the_closed_form(share: float, rate: float) -> None:
    expected = logistic_time(0.5, rate, rate, np.exp(share))
    assert float(half_time(np.array([share]), np.array([rate]))[0]) == pytest.approx(float(expected), rel=1e-10)


def test_half_times_without_growth_or_seed() -> None:
    np.testing.assert_array_equal(half_time(np.array([-np.inf, -2.0, 0.3]), np.array([1.0, -1.0, 1.0])), [np.inf, np.inf, 0.0])


@pytest.mark.parametrize(
    ("rate", "limit"),
    [
        ((1.0, 0.5, 0.25), True),
        ((1.0,), True),
        ((1.0, 1.0), False),
        ((1.0, 1.0, 1.0, 0.5), False),
        ((1.0, 1.0, 0.5), True),
        ((-1.0,), False),
    ],
)
def test_the_limit_asks_for_rates_of_their_own(rate: tuple[float, ...], limit: bool) -> None:
    assert sudden_in_the_limit(np.array(rate)) == limit
    assert np.isfinite(sudden_below(np.array(rate), np.zeros(len(rate)))) == limit


@pytest.mark.parametrize("count", [2, 4, 200])
def test_the_crossover_is_where_the_verdict_changes(count: int) -> None:
    rate = np.arange(1.0, count + 1) ** -0.8
    depth = -sudden_below(rate, np.zeros(count))
    assert verdict(half_time(np.full(count, -1.001 * depth), rate), rate).sudden
    assert not verdict(half_time(np.full(count, -0.999 * depth), rate), rate).sudden
    # k and k + 1 come apart at ln(1/epsilon) of about ln 81 k / 0.8, and just over half of the steps must.
    middle = count // 2
    estimate = RISE / 2 * (rate[middle - 1] + rate[middle]) / (rate[middle - 1] - rate[middle])
    assert depth == pytest.approx(estimate, rel=0.02)
