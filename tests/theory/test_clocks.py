"""Event clocks against integrated equations: interacting modes, and feedforward layers with correlated inputs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, MultiHead
from nqf_pipeline.tasks import Digits, Teacher
from nqf_pipeline.theory.competition import fixed_point
from nqf_pipeline.theory.events import event_clock
from nqf_pipeline.theory.invasion import invasion_steps, walk
from nqf_pipeline.theory.residents import Landscape, Stretch
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


def test_copies_and_batches_walk_alike() -> None:
    """Cells walked together and one by one give the same steps; a cell that has nothing to do does not disturb the others."""
    rng = np.random.default_rng(3)
    rate, noise = rng.uniform(0.3, 1, (5, 4)), rng.uniform(0, 1, (5, 4, 4))
    rate[2] = -1.0
    interaction = np.eye(4) + 0.3 * (noise + noise.transpose(0, 2, 1)) / 2 * (1 - np.eye(4))
    seeds = np.log(1e-6 * rng.chisquare(4, (5, 4)))
    together = walk(rate, interaction, seeds, FLOW)
    alone = [invasion_steps(*cell, FLOW) for cell in zip(rate, interaction, seeds, strict=True)]
    np.testing.assert_allclose(together.step, alone, rtol=1e-12)
    assert np.all(np.isinf(together.step[2]))


def test_the_walk_knows_when_it_is_wrong() -> None:
    """Random interactions at epsilon = 1e-6, events close to one another included: what is trusted is right to 10 %."""
    errors, trusted = [], []
    for draw in range(25):
        rng = np.random.default_rng(draw)
        rate, noise = np.sort(rng.uniform(0.3, 1, 6))[::-1], rng.uniform(0, 1, (6, 6))
        interaction = np.eye(6) + 0.3 * (noise + noise.T) / 2 * (1 - np.eye(6))
        seed = 1e-6 * rng.chisquare(4, 6) / 4
        found = walk(rate[None], interaction[None], np.log(seed)[None], FLOW)
        modes = np.flatnonzero(np.isfinite(found.step[0]))
        steps, heights = found.step[0, modes] * FLOW.learning_rate, found.height[0, modes]
        truth = passing_times(rate, interaction, seed, modes, heights / 2, 1.3 * steps.max())
        errors.append(np.abs(steps / truth - 1))
        trusted.append(found.trusted[0, modes])
    error, trust = np.concatenate(errors), np.concatenate(trusted)
    assert np.median(error) < 0.005
    assert trust.mean() > 0.8
    assert error[trust].max() < 0.1
    # The estimate is not idle: what it flags is worse by far.
    assert np.median(error[~trust]) > 5 * np.median(error[trust])


def passing_times(rate: Array, interaction: Array, seed: Array, modes: Array, goals: Array, end: float) -> Array:
    """First times at which these modes pass these values, by integrating ln z."""
    time = np.linspace(0, end, 20_000)
    z = np.exp(solve_ivp(lambda _, x: rate - interaction @ np.exp(x), (0, end), np.log(seed), "LSODA", time, rtol=1e-9, atol=1e-9).y)
    passed = z[modes] >= goals[:, None]
    return np.where(passed.any(1), time[passed.argmax(1)], np.inf)


def test_shifts_are_exact_between_well_separated_events() -> None:
    """A third mode's line after the second event, at seeds so small that everything relaxes: the shift closes the gap."""
    rate, seed = np.array([1.0, 0.8, 0.3]), np.array([1e-12, 1e-12, 1e-40])
    interaction = np.array([[1.0, 0.5, 0.2], [0.3, 1.0, 0.1], [0.1, 0.15, 1.0]])
    found = walk(rate[None], interaction[None], np.log(seed)[None], FLOW)
    steps = found.step[0] * FLOW.learning_rate
    truth = passing_times(rate, interaction, seed, np.arange(3), found.height[0] / 2, 1.1 * steps.max())
    np.testing.assert_allclose(steps[2], truth[2], rtol=2e-4)


def relaxed(order: Array, landscape: Landscape, residents: int) -> Array:
    """The end of a plateau."""
    for _ in range(150):
        order = Stretch(landscape, order, residents).end(0.5)
    return order


@pytest.mark.parametrize("rank", [1, 2])
def test_plateaus_are_the_best_of_their_rank(rank: int, rng: np.random.Generator) -> None:
    """No other matrix of the same rank near the end of a plateau has a lower loss."""
    architecture = MLP(inputs=6, outputs=4)
    moments = Teacher(inputs="correlated", strengths=(1.0, 0.5, 0.25), samples=80).problem(architecture, rng).moments
    left, size, right = np.linalg.svd(moments.linear)
    found = relaxed(0.1 * (left[:, :rank] * size[:rank]) @ right[:rank], Landscape(moments, 0.0), rank)
    left, values, right = np.linalg.svd(found)
    assert np.sum(values > 1e-9) == rank
    factors = left[:, :rank] * values[:rank], right[:rank]
    for _ in range(30):
        moved = [factor + 0.02 * rng.standard_normal(factor.shape) for factor in factors]
        assert moments.loss(moved[0] @ moved[1]) > moments.loss(found)


def test_weight_decay_soft_thresholds_white_plateaus(rng: np.random.Generator) -> None:
    """With K = c I every singular value s of G* rests at s - weight_decay / (2 c), and those below rest at nothing."""
    architecture, decay = MLP(inputs=6, outputs=4), 0.4
    problem = Teacher(inputs="white", strengths=(1.0, 0.5, 0.15), samples=80).problem(architecture, rng)
    left, size, right = np.linalg.svd(problem.moments.optimum)
    curvature = float(np.trace(problem.moments.operator)) / 6
    kept = np.maximum(size[:3] - decay / (2 * curvature), 0)
    assert list(kept > 0) == [True, True, False]
    found = relaxed(0.05 * (left[:, :3] @ right[:3]), Landscape(problem.moments, decay), 3)
    np.testing.assert_allclose(found, (left[:, :3] * kept) @ right[:3], atol=1e-6)


CORRELATED = [
    (MLP(width=32, inputs=12, outputs=6), Teacher(inputs="correlated", condition=4, samples=300), 0.0, 0.01, 0.02),
    (MLP(width=32, inputs=12, outputs=6), Teacher(inputs="correlated", condition=20, samples=300), 0.0, 0.02, 0.03),
    (MLP(width=32, inputs=12, outputs=6), Teacher(inputs="correlated", condition=100, samples=300), 0.0, 0.02, 0.05),
    (MLP(width=32, inputs=12, outputs=6), Teacher(inputs="correlated", condition=4, samples=300), 0.02, 0.01, 0.03),
    (CNN(width=32), Teacher(samples=300), 0.0, 0.03, 0.05),
    (MLP(width=16, inputs=64, outputs=1), Digits(), 0.0, 0.02, 0.03),
    (CNN(width=16, image=(8, 8), kernel=(4, 4), outputs=1), Digits(), 0.0, 0.02, 0.03),
    (MultiHead(width=2, dimension=8, tokens=8, value_size=8, outputs=1), Digits(), 0.0, 0.01, 0.02),
]


@pytest.mark.parametrize(("architecture", "task", "decay", "median", "worst"), CORRELATED, ids=lambda v: getattr(v, "name", None))
def test_correlated_layers_ignite_by_the_event_clock(architecture: Any, task: Any, decay: float, median: float, worst: float) -> None:
    """Weight space, sigma = 1e-3: median and worst error of the ignition of the watched modes; decay as a share of the fastest growth."""
    errors = []
    for seed in range(2):
        problem = task.problem(architecture, np.random.default_rng(seed))
        rate = 4 * np.linalg.norm(problem.moments.linear, 2)
        optimizer = Optimizer(learning_rate=0.1 / rate, weight_decay=decay * rate / 2)
        inputs = cell(architecture, task, optimizer, 1e-3, 2, seed)
        clock = event_clock(inputs.problem.moments, architecture.factors(inputs.weights), optimizer, len(inputs.problem.modes.target))
        predicted = clock.ignition(inputs.problem.modes)
        truth = integrate(inputs, int(1.5 * predicted.max())).ignition
        errors.append(np.abs(predicted / truth - 1))
    assert np.median(errors) < median
    assert np.max(errors) < worst


@pytest.mark.parametrize("inputs", ["white", "correlated"])
def test_decay_decides_which_modes_ever_ignite(inputs: Any) -> None:
    """Twins on both sides of the threshold, 2 weight_decay = 4 sigma of the second mode on the first one's plateau: the sign decides."""
    architecture, task = MLP(width=16, inputs=8, outputs=4), Teacher(inputs=inputs, condition=3, samples=200, strengths=(1.0, 0.4))
    start = cell(architecture, task, Optimizer(learning_rate=0.05), 1e-2, 2, 5)
    moments, factors = start.problem.moments, architecture.factors(start.weights)
    alone = event_clock(moments, factors, start.optimizer, 1).plateaus[1]

    def excess(decay: float) -> float:
        landscape = Landscape(moments, decay)
        # One of the two largest belongs to the resident, which rests where its own is weight_decay / 2.
        return float(2 * np.linalg.svd(landscape.residual(relaxed(alone, landscape, 1)))[1][:2].sum() - 2 * decay)

    threshold = brentq(excess, 0.01, 30.0, xtol=1e-3)
    for share, grows in ((0.85, True), (1.15, False)):
        optimizer = Optimizer(learning_rate=0.05, weight_decay=share * threshold)
        twin = integrate(replace(start, optimizer=optimizer), 5000)
        size = np.abs(twin.strength[-1]).min()
        assert (size > 0.02) if grows else (size < 0.002 or inputs == "correlated")
        assert len(event_clock(moments, factors, optimizer, 2).invaders) == 1 + grows
        order = event_clock(moments, factors, optimizer, 2).plateaus[-1]
        np.testing.assert_allclose(moments.loss(order), twin.loss[-1], rtol=0.01)


def test_the_event_clock_reproduces_the_white_clock() -> None:
    inputs = cell(MLP(width=32, inputs=12, outputs=6), Teacher(inputs="white", samples=300), Optimizer(learning_rate=0.01), 1e-3, 2)
    clock = event_clock(inputs.problem.moments, inputs.architecture.factors(inputs.weights), inputs.optimizer, 4)
    truth = integrate(inputs, int(1.2 * clock.step[-1])).ignition
    np.testing.assert_allclose(clock.ignition(inputs.problem.modes), truth, rtol=0.005)
    # Between events the order parameter rests at the best one of its rank.
    left, size, right = np.linalg.svd(inputs.problem.moments.optimum)
    for rank, (before, after) in enumerate(zip(clock.step, clock.step[1:], strict=False), 1):
        middle, goal = clock.orders(np.array([(before + after) / 2]))[0], (left[:, :rank] * size[:rank]) @ right[:rank]
        assert np.linalg.norm(middle - goal) < 0.05 * np.linalg.norm(goal)


def test_weights_without_degrees_for_a_mode_have_no_event_for_it() -> None:
    inputs = cell(MLP(width=2, inputs=8, outputs=5), Teacher(samples=200), Optimizer(learning_rate=0.01), 1e-3, 2)
    clock = event_clock(inputs.problem.moments, inputs.architecture.factors(inputs.weights), inputs.optimizer, 4)
    assert len(clock.step) == 2
    assert list(np.isfinite(clock.ignition(inputs.problem.modes))) == [True, True, False, False]


def test_a_mode_that_nothing_moves_makes_no_noise() -> None:
    """Neither driven nor coupled: it never ignites, and no quotient of zeros is formed on the way."""
    rate, interaction = np.array([1.0, 0.5, 0.0]), np.diag([1.0, 1.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps = invasion_steps(rate, interaction, np.full(3, np.log(1e-6)), FLOW)
    assert np.isfinite(steps).tolist() == [True, True, False]


def test_a_resident_driven_out_by_a_slow_invader_is_never_negative() -> None:
    """The invader's logistic tail is longer than that of the mode it drives out."""
    rate, interaction = np.array([2.0, 0.6]), np.array([[1.0, 3.6], [0.1, 1.0]])
    found = walk(rate[None], interaction[None], np.log(np.array([[1e-8, 1e-8]])), FLOW)
    assert len(found.events) == 2
    assert found.events[1].settled[0, 0] < found.events[0].settled[0, 0]
    z = found.z(np.geomspace(1, 2 * found.events[1].step[0], 400))
    assert (z >= 0).all()
    np.testing.assert_allclose(z[-1], found.events[1].settled[0], rtol=1e-3, atol=1e-6)
