"""Event clocks against integrated equations: interacting modes, and feedforward layers with correlated inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, MultiHead
from nqf_pipeline.tasks import Digits, Teacher
from nqf_pipeline.theory.events import Metric, event_clock
from nqf_pipeline.theory.invasion import fixed_point, invasion_steps
from tests.theory.weights import cell, integrate

Array = Any
FLOW = Optimizer(learning_rate=1e-3)
"""Steps so small that a step is a thousandth of flow time."""


def half_times(rate: Array, interaction: Array, seed: float, order: Array) -> Array:
    """First time each mode passes half of its height as an invader of the modes before it in `order`, by integrating ln z."""
    time = np.linspace(0, 400, 40_000)
    start = np.full(len(rate), np.log(seed))
    z = np.exp(solve_ivp(lambda _, x: rate - interaction @ np.exp(x), (0, 400), start, "LSODA", time, rtol=1e-9, atol=1e-9).y)
    found = np.full(len(rate), np.inf)
    for place, k in enumerate(order):
        height = fixed_point(rate, interaction, np.isin(np.arange(len(rate)), order[: place + 1]))[k]
        if height > 0 and z[k].max() >= height / 2:
            found[k] = time[np.argmax(z[k] >= height / 2)]
    return found


@pytest.mark.parametrize(("coupling", "median", "worst"), [(0.0, 1e-3, 2e-3), (0.1, 0.01, 0.03), (0.3, 0.01, 0.1)])
def test_interacting_modes_ignite_by_the_clock(coupling: float, median: float, worst: float) -> None:
    """Lotka-Volterra with random interactions; clocks that ignore them miss by tens of percent."""
    errors, naive = [], []
    for draw in range(6):
        rng = np.random.default_rng(draw)
        rate = np.array([1.0, 0.8, 0.6, 0.45])
        noise = rng.uniform(0, 1, (4, 4))
        interaction = np.eye(4) + coupling * (noise + noise.T) / 2 * (1 - np.eye(4))
        steps = invasion_steps(rate, interaction, np.full(4, np.log(1e-10)), FLOW) * FLOW.learning_rate
        order = np.argsort(steps)[: np.isfinite(steps).sum()]
        truth = half_times(rate, interaction, 1e-10, order)
        assert np.all(np.isfinite(truth[order]))
        errors.append(np.abs(steps / truth - 1)[order])
        naive.append(np.abs(np.log(1e10) / rate / truth - 1)[order])
    assert np.median(np.concatenate(errors)) < median
    assert np.max(np.concatenate(errors)) < worst
    if coupling >= 0.3:
        assert np.max(np.concatenate(naive)) > 2 * worst


def test_a_mode_that_residents_suppress_never_ignites() -> None:
    interaction = np.array([[1.0, 0.2], [0.9, 1.0]])
    steps = invasion_steps(np.array([1.0, 0.8]), interaction, np.log([1e-8, 1e-8]), FLOW)
    assert np.isfinite(steps[0])
    assert steps[1] == np.inf


def test_a_stronger_mode_drives_out_the_resident_and_is_counted_once() -> None:
    """The first to ignite grows fast but yields: its rate falls below zero once the slower, stronger one is there."""
    interaction = np.array([[1.0, 2.0], [0.2, 1.0]])
    steps = invasion_steps(np.array([1.0, 0.7]), interaction, np.log([1e-6, 1e-6]), FLOW)
    assert steps[0] < steps[1] < np.inf
    np.testing.assert_allclose(fixed_point(np.array([1.0, 0.7]), interaction, np.array([True, True])), [0.0, 0.7])


@given(size=st.integers(1, 6), seed=st.integers(0, 500))
def test_fixed_points_are_stable_equilibria_of_symmetric_competition(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((size, size + 2))
    interaction, rate = factor @ factor.T / size + 0.1 * np.eye(size), rng.uniform(-0.5, 1, size)
    z = fixed_point(rate, interaction, np.ones(size, bool))
    assert np.all(z >= 0)
    np.testing.assert_allclose((rate - interaction @ z)[z > 0], 0, atol=1e-9)


def test_plateaus_are_the_best_of_their_rank(rng: np.random.Generator) -> None:
    """No other matrix of the same rank near R_k has a lower loss, and the last one is the optimum."""
    architecture = MLP(inputs=6, outputs=4)
    moments = Teacher(inputs="correlated", strengths=(1.0, 0.5, 0.25), samples=80).problem(architecture, rng).moments
    ranked = Metric(moments).ranked(9)
    assert len(ranked) == 4
    np.testing.assert_allclose(ranked[-1], moments.optimum, atol=1e-9)
    for rank in (1, 2):
        left, values, right = np.linalg.svd(ranked[rank])
        assert np.sum(values > 1e-9) == rank
        factors = left[:, :rank] * values[:rank], right[:rank]
        best = moments.loss(ranked[rank])
        for _ in range(30):
            moved = [factor + 0.02 * rng.standard_normal(factor.shape) for factor in factors]
            assert moments.loss(moved[0] @ moved[1]) > best


CORRELATED = [
    (MLP(width=32, inputs=12, outputs=6), Teacher(inputs="correlated", condition=4, samples=300), 0.01, 0.05),
    (MLP(width=32, inputs=12, outputs=6), Teacher(inputs="correlated", condition=20, samples=300), 0.03, 0.25),
    (CNN(width=32), Teacher(samples=300), 0.06, 0.1),
    (MLP(width=16, inputs=64, outputs=1), Digits(), 0.02, 0.03),
    (CNN(width=16, image=(8, 8), kernel=(4, 4), outputs=1), Digits(), 0.02, 0.03),
    (MultiHead(width=2, dimension=8, tokens=8, value_size=8, outputs=1), Digits(), 0.01, 0.02),
]


@pytest.mark.parametrize(("architecture", "task", "median", "worst"), CORRELATED, ids=lambda v: getattr(v, "name", None))
def test_correlated_layers_ignite_by_the_event_clock(architecture: Any, task: Any, median: float, worst: float) -> None:
    """Weight space, sigma = 1e-3: median and worst error of the ignition of the watched modes."""
    errors = []
    for seed in range(2):
        problem = task.problem(architecture, np.random.default_rng(seed))
        curvature = 4 * np.linalg.norm(problem.moments.linear, 2)
        inputs = cell(architecture, task, Optimizer(learning_rate=0.2 / curvature), 1e-3, 2, seed)
        clock = event_clock(
            inputs.problem.moments, architecture.factors(inputs.weights), inputs.optimizer, len(inputs.problem.modes.target)
        )
        predicted = clock.ignition(inputs.problem.modes)
        truth = integrate(inputs, int(1.5 * predicted.max())).ignition
        errors.append(np.abs(predicted / truth - 1))
    assert np.median(errors) < median
    assert np.max(errors) < worst


def test_the_event_clock_reproduces_the_white_clock() -> None:
    inputs = cell(MLP(width=32, inputs=12, outputs=6), Teacher(inputs="white", samples=300), Optimizer(learning_rate=0.01), 1e-3, 2)
    clock = event_clock(inputs.problem.moments, inputs.architecture.factors(inputs.weights), inputs.optimizer, 4)
    truth = integrate(inputs, int(1.2 * clock.step[-1])).ignition
    np.testing.assert_allclose(clock.ignition(inputs.problem.modes), truth, rtol=0.01)
    # Between events the order parameter rests at the best one of its rank.
    for before, after, plateau in zip(clock.step, clock.step[1:], clock.plateaus[1:], strict=False):
        middle = clock.orders(np.array([(before + after) / 2]))[0]
        assert np.linalg.norm(middle - plateau.goal) < 0.05 * np.linalg.norm(plateau.goal)


def test_weights_without_degrees_for_a_mode_have_no_event_for_it() -> None:
    inputs = cell(MLP(width=2, inputs=8, outputs=5), Teacher(samples=200), Optimizer(learning_rate=0.01), 1e-3, 2)
    clock = event_clock(inputs.problem.moments, inputs.architecture.factors(inputs.weights), inputs.optimizer, 4)
    assert len(clock.step) == 2
    assert list(np.isfinite(clock.ignition(inputs.problem.modes))) == [True, True, False, False]
