"""The event clock with weight decay, against its own linear flow and against the stepped quadratic form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models import MLP
from nqf_pipeline.tasks import Teacher
from nqf_pipeline.theory.events import TRUSTED, EventClock, Growing, Small, event_clock
from nqf_pipeline.theory.ignition import crossing
from nqf_pipeline.theory.predict import CellInputs
from nqf_pipeline.theory.residents import Landscape, Stretch
from tests.theory.weights import cell, integrate

Array = Any
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")
ARCHITECTURE = MLP(width=16, inputs=8, outputs=4)


def teacher(condition: float, strengths: tuple[float, ...]) -> Teacher:
    return Teacher(inputs="white" if condition == 1 else "correlated", condition=condition, samples=200, strengths=strengths)


def clock_of(inputs: CellInputs, most: int) -> EventClock:
    return event_clock(inputs.problem.moments, inputs.architecture.factors(inputs.weights), inputs.optimizer, most)


@given(decay=st.floats(0, 3), steps=st.integers(1, 3000), shape=st.sampled_from([(3, 5), (5, 3), (4, 4), (3, 1)]), seed=st.integers(0, 100))
def test_small_weights_follow_the_stepped_linear_flow(decay: float, steps: int, shape: tuple[int, int], seed: int) -> None:
    """Symmetric parts of pairs gain 2 sigma - decay, antisymmetric ones lose 2 sigma + decay, the rest loses decay."""
    rng = np.random.default_rng(seed)
    rows, columns = shape
    factor = rng.standard_normal((rows, rows + 2))
    residual = rng.standard_normal(shape) / np.linalg.norm(factor, 2)
    operator = factor @ factor.T / rows
    optimizer = Optimizer(learning_rate=0.01, weight_decay=decay)
    landscape = Landscape(Moments("left", operator, operator @ residual, 1.0), decay)
    driven = landscape.residual(np.zeros(shape))
    first, second = 1e-150 * rng.standard_normal((rows, 6)), 1e-150 * rng.standard_normal((columns, 6))
    small = Small(first, second)
    steps = min(steps, int(300 / (0.02 * np.linalg.norm(driven, 2) + 0.01 * decay)))
    small.advance(Growing.of(landscape, np.zeros(shape), small, optimizer), steps)
    whole = np.block([[np.zeros((rows, rows)), 2 * driven], [2 * driven.T, np.zeros((columns, columns))]])
    size, axes = np.linalg.eigh(whole)
    truth = (axes * (1 + 0.01 * (size - decay)) ** steps) @ axes.T @ np.concatenate([first, second])
    np.testing.assert_allclose(np.concatenate([small.first, small.second]), truth, rtol=0, atol=1e-9 * np.abs(truth).max())


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_a_step_that_ends_a_part_altogether_leaves_no_nan(steps: int) -> None:
    """learning_rate 2 sigma = 1: the antisymmetric part of the first pair is gone after one step, and its rate is minus infinity."""
    moments = Moments("left", np.eye(2), np.diag([0.5, 0.1]), 0.0)
    small = Small(np.diag([1e-6, 1e-6]), np.diag([3e-6, 1e-6]))
    small.advance(Growing.of(Landscape(moments, 0.0), np.zeros((2, 2)), small, Optimizer(learning_rate=1.0)), steps)
    held = 2.0**steps * 4e-6 / 2
    np.testing.assert_allclose([small.first[0, 0], small.second[0, 0]], [held, held] if steps else [1e-6, 3e-6])


@pytest.mark.parametrize("condition", [1, 5, 20])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_one_long_stretch_takes_a_resident_to_where_it_rests(condition: float, share: float) -> None:
    """Were the decay of the deviation kept in full, a stretch of any length would keep up to all of it (share = 1)."""
    moments = teacher(condition, (1.0, 0.4)).problem(ARCHITECTURE, np.random.default_rng(0)).moments
    left, size, right = np.linalg.svd(moments.linear)
    landscape = Landscape(moments, 2 * share * size[0])
    order = 1e-3 * np.outer(left[:, 0], right[0])
    for _ in range(400):
        order = Stretch(landscape, order, 1).end(0.2 / size[0] + 0.5)
    # There E holds the resident with decay / 2, and moves it nowhere else.
    left, _, right = np.linalg.svd(order)
    residual, half = landscape.residual(order), landscape.weight_decay / 2
    np.testing.assert_allclose(residual @ right[0], half * left[:, 0], atol=1e-8 * size[0])
    np.testing.assert_allclose(residual.T @ left[:, 0], half * right[0], atol=1e-8 * size[0])
    for factor in (0.97, 1.03):
        after = Stretch(landscape, factor * order, 1).end(1e6)
        assert np.linalg.norm(after - order) < 0.1 * np.linalg.norm(0.03 * order)


@pytest.mark.parametrize("condition", [1, 3, 20])
@pytest.mark.parametrize("strengths", [(1.0, 0.6, 0.35, 0.2), (1.0, 0.8, 0.3, 0.1)])
def test_decay_sets_the_steps_and_the_set_of_events(condition: float, strengths: tuple[float, ...]) -> None:
    """Each singular value passes half of its height as an invader when the clock says; those without an event come to nothing."""
    task, ranks = teacher(condition, strengths), []
    for seed, share in enumerate((0.02, 0.1, 0.3, 0.5, 0.7, 0.9)):
        start = cell(ARCHITECTURE, task, Optimizer(learning_rate=0.1), 1e-3, 2, seed)
        rate = 4 * np.linalg.norm(start.problem.moments.linear, 2)
        inputs = replace(start, optimizer=Optimizer(learning_rate=0.2 / rate, weight_decay=share * rate / 2))
        clock = clock_of(inputs, 4)
        events = len(clock.step)
        slowest = min(invader.rate for invader in clock.invaders) * clock.time_scale
        end = int(clock.step[-1] + 15 / slowest) + 500
        twin = integrate(inputs, end).order
        size, predicted = (np.linalg.svd(orders, compute_uv=False) for orders in (twin, clock.orders(np.arange(end + 1))))
        height = np.array([np.linalg.norm(invader.saturated) for invader in clock.invaders])
        truth, found = (crossing(np.arange(end + 1), values[:, :events] / height) for values in (size, predicted))
        assert clock.error() < TRUSTED or condition == 20
        np.testing.assert_allclose(found, truth, rtol=max(0.01, 1.5 * clock.error()))
        np.testing.assert_allclose(predicted[-1], size[-1], rtol=5e-3, atol=2e-3 * size[-1, 0])
        ranks.append(events)
    assert ranks[0] >= 3
    assert ranks[-1] == 1
    assert len(set(ranks)) >= 3


@pytest.mark.parametrize("condition", [1, 3])
def test_marginal_growth_is_flagged(condition: float) -> None:
    """Near the threshold of the second event its height sinks towards what weights start with: the clock is off, and says by how much."""
    start = cell(ARCHITECTURE, teacher(condition, (1.0, 0.4)), Optimizer(learning_rate=0.05), 1e-2, 2, 6)
    moments = start.problem.moments
    rate = 4 * np.linalg.norm(moments.linear, 2)

    def at(decay: float) -> CellInputs:
        return replace(start, optimizer=Optimizer(learning_rate=0.3 / rate, weight_decay=decay))

    def excess(decay: float) -> float:
        plateau = clock_of(at(decay), 1).plateaus[-1]
        return float(np.linalg.svd(Landscape(moments, decay).residual(plateau))[1][:2].sum() - decay)

    threshold = brentq(excess, 0.05 * rate, 0.4 * rate, xtol=1e-6)
    for share, flagged in ((0.8, False), (0.98, condition > 1), (0.995, True)):
        clock = clock_of(at(share * threshold), 2)
        assert len(clock.step) == 2
        assert (clock.error() > TRUSTED) == flagged
        assert clock.error(float(clock.step[0])) < TRUSTED
    for share in (1 + 1e-5, 1.005, 1.1):
        assert len(clock_of(at(share * threshold), 2).step) == 1
