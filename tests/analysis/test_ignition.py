"""Ignition times from recorded strengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.analysis.ignition import measure, valid_records
from tests.analysis.synthetic import logistic


def grid(last: float, records: int = 60) -> np.ndarray:
    return np.unique(np.concatenate([[0], np.geomspace(1, last, records).round()])).astype(int)


def one(steps: np.ndarray, strength: np.ndarray, loss: np.ndarray | None = None, rho: float = 0.5):
    return measure(steps[None], strength[None, :, None], np.ones((1, len(steps))) if loss is None else loss[None], rho)


@given(rate=st.floats(1e-3, 0.05), epsilon=st.floats(1e-9, 1e-2), rho=st.floats(0.1, 0.9))
def test_exact_for_logistic_growth(rate: float, epsilon: float, rho: float) -> None:
    truth = (np.log(1 / epsilon - 1) + np.log(rho / (1 - rho))) / rate
    steps = grid(3 * truth)
    strength = logistic(steps.astype(float), np.array([rate]), np.array([1.0]), np.array([epsilon]))[:, 0]
    found = one(steps, strength, rho=rho)
    after = int(np.searchsorted(steps, truth))
    neighbours = strength[max(after - 1, 0) : after + 1]
    if ((neighbours > 1e-10) & (neighbours < 1 - 1e-10)).all():
        assert found.step[0, 0] == pytest.approx(truth, rel=1e-5)
        assert found.uncertainty[0, 0] <= (steps[after] - steps[after - 1]) / 2


@given(power=st.floats(0.6, 1.6), shift=st.floats(0.0, 1.0))
def test_the_uncertainty_covers_the_error_where_growth_is_not_logistic(power: float, shift: float) -> None:
    """Logit growing as a power of time: the true crossing lies within the stated error."""
    truth = 1000.0
    steps = np.unique(np.concatenate([[0], truth * 1.15 ** (np.arange(-40, 20) + shift)]).round().astype(int))
    strength = 1 / (1 + np.exp(-8 * ((steps / truth) ** power - 1)))
    found = one(steps, strength)
    assert abs(found.step[0, 0] - truth) <= 1.5 * found.uncertainty[0, 0] + 1e-6
    assert found.uncertainty[0, 0] < 20


def test_never_at_the_start_and_first_of_several() -> None:
    steps = np.array([0, 1, 2, 4, 8])
    assert np.isnan(one(steps, np.array([0, 0.1, 0.2, 0.3, 0.4])).step[0, 0])
    start = one(steps, np.array([0.7, 0.8, 0.9, 1, 1]))
    assert (start.step[0, 0], start.uncertainty[0, 0]) == (0, 0)
    wavy = one(steps, np.array([0.1, 0.6, 0.3, 0.9, 1.0]))
    assert 0 < wavy.step[0, 0] < 1


def test_negative_and_overshooting_strengths_stay_between_their_records() -> None:
    steps = np.array([0, 10, 20, 40])
    found = one(steps, np.array([-0.01, -0.2, 1.3, 1.0]))
    assert 10 <= found.step[0, 0] <= 20
    assert found.uncertainty[0, 0] == 5


def test_nan_and_blow_up_are_not_ignition() -> None:
    steps = np.array([0, 1, 2, 4, 8])
    assert np.isnan(one(steps, np.array([0.1, 0.2, np.nan, np.nan, np.nan])).step[0, 0])
    loss = np.array([1.0, 1.0, 5.0, 1e6, np.nan])
    blown = one(steps, np.array([0.1, 0.2, 0.3, 400.0, np.inf]), loss)
    assert np.isnan(blown.step[0, 0])
    assert blown.last_step[0] == 2


def test_valid_records_are_a_prefix() -> None:
    loss = np.array([[1.0, np.inf, 0.5, 0.4], [1.0, 0.5, 0.4, 0.3], [np.nan, 1, 1, 1]])
    assert valid_records(loss).tolist() == [[True, False, False, False], [True] * 4, [False] * 4]


def test_a_missing_cell_has_no_ignition() -> None:
    steps = np.array([0, 1, 2, 4, 8])
    found = one(steps, np.full(5, np.nan), np.full(5, np.nan))
    assert np.isnan(found.step[0, 0])
    assert np.isnan(found.last_step[0])
