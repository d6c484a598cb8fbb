"""Exponents: the limit, what finite epsilon and finitely many modes make of it, and the expected loss curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import zeta
from scipy.stats import chi2

from nqf_pipeline.dynamics import closed
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP, Diagonal, FourierMLP
from nqf_pipeline.tasks import FeaturePowerLaw, Fourier, SamplePowerLaw, Teacher
from nqf_pipeline.theory.errors import TheoryError
from nqf_pipeline.theory.exponents import limit_exponent, local_exponent, mean_loss_curve, missing_tail, seed_quantiles
from nqf_pipeline.theory.predict import predict
from nqf_pipeline.theory.systems import entry_system
from tests.theory.weights import cell, integrate

Array = Any
FLOW = Optimizer(learning_rate=1.0)


def slope(time: Array, loss: Array, start: float, end: float) -> float:
    inside = (time >= start) & (time <= end)
    return -float(np.polyfit(np.log(time[inside]), np.log(loss[inside]), 1)[0])


def flow_curve(task: FeaturePowerLaw, epsilon: float, time: Array) -> Array:
    return mean_loss_curve(task, Diagonal(inputs=task.modes), epsilon, FLOW, time, tier="flow")


def half_time(task: FeaturePowerLaw, epsilon: float, number: float) -> float:
    """Flow time at which mode `number` of an ensemble with z_1(inf) = 1 passes half."""
    height = number ** -(task.alpha1 - task.alpha2)
    rate = number**-task.alpha2
    return float(closed.logistic_time(*(np.array(v) for v in (height / 2, rate, rate / height, epsilon * number**-task.profile))))


def test_limits_of_the_three_scaling_laws() -> None:
    assert limit_exponent(FeaturePowerLaw(alpha1=2.0, alpha2=0.8)) == pytest.approx(1.25)
    assert limit_exponent(SamplePowerLaw(gamma1=1.0, gamma2=0.8)) == pytest.approx(1.25)
    for theta, exponent in ((0.0, 4 / 3), (0.5, 1.0), (1.0, 0.8)):
        assert limit_exponent(Fourier(beta=1.5, theta=theta)) == pytest.approx(exponent)
    assert np.isnan(limit_exponent(Teacher()))


def test_a_task_without_power_laws_has_no_loss_curve() -> None:
    with pytest.raises(TheoryError, match="power"):
        mean_loss_curve(Teacher(), MLP(), 1e-6, FLOW, np.arange(5))


def test_adam_has_no_loss_curve() -> None:
    with pytest.raises(TheoryError, match="adam"):
        mean_loss_curve(FeaturePowerLaw(modes=10), Diagonal(inputs=10), 1e-6, Optimizer(kind="adam"), np.arange(5))


@pytest.mark.parametrize(("epsilon", "measured"), [(1e-6, 1.45), (1e-12, 1.34), (1e-30, 1.29)])
def test_flat_seeds_steepen_the_exponent_at_finite_epsilon(epsilon: float, measured: float) -> None:
    """alpha1 = 2, alpha2 = 0.8, 1000 modes, flat initial profile: fits over the window of modes 2 to 30."""
    task = FeaturePowerLaw(initial_profile=0.0)
    time = np.geomspace(1, 1e5, 300)
    fitted = slope(time, flow_curve(task, epsilon, time), half_time(task, epsilon, 2), half_time(task, epsilon, 30))
    assert fitted == pytest.approx(measured, abs=0.04)
    local = local_exponent(task, Diagonal(), epsilon, np.array([2.0, 30.0]))
    assert local[0] - 0.03 < fitted < local[1] + 0.03
    assert np.all(local > 1.25)


@given(alpha1=st.floats(1.3, 3), alpha2=st.floats(0.3, 1.5), digits=st.integers(4, 30))
def test_the_local_exponent_is_the_slope_between_neighbouring_ignitions(alpha1: float, alpha2: float, digits: int) -> None:
    """d ln E / d ln t with E ~ k^-(alpha1 - 1) and t the ignition time of mode k, by finite differences."""
    task = FeaturePowerLaw(alpha1=alpha1, alpha2=alpha2, initial_profile=0.0, modes=50)
    epsilon, number = 10.0**-digits, 3.0
    if epsilon > 1e-2 * number ** -(alpha1 - alpha2):
        return
    near = [np.log(half_time(task, epsilon, k)) for k in (number * 0.99, number * 1.01)]
    expected = (alpha1 - 1) * np.log(1.01 / 0.99) / (near[1] - near[0])
    found = float(local_exponent(task, Diagonal(inputs=50), epsilon, np.array(number)))
    assert found == pytest.approx(expected, rel=0.02)


def test_matched_seeds_and_the_missing_tail_bring_back_the_limit() -> None:
    """Profile k^-(alpha1 - alpha2) removes the bias of epsilon, the analytic tail that of 1000 modes: 1.25 to one part in 400."""
    task, epsilon = FeaturePowerLaw(), 1e-6
    time = np.geomspace(1, 1e5, 300)
    loss = flow_curve(task, epsilon, time)
    window = half_time(task, epsilon, 3), half_time(task, epsilon, 100)
    assert slope(time, loss, *window) > 1.27
    assert slope(time, loss + missing_tail(task, Diagonal(), epsilon, time), *window) == pytest.approx(1.25, abs=0.003)


def test_the_tail_is_the_difference_to_a_larger_ensemble() -> None:
    small, large = FeaturePowerLaw(modes=50), FeaturePowerLaw(modes=1000)
    time = np.geomspace(1, 600, 20)
    # Losses are means over as many samples as modes, in which V_k is the same for every size of the ensemble.
    difference = flow_curve(large, 1e-4, time) - flow_curve(small, 1e-4, time)
    beyond = zeta(2.0, 1001) / 8
    np.testing.assert_allclose(missing_tail(small, Diagonal(inputs=50), 1e-4, time), difference + beyond, rtol=3e-3)


@pytest.mark.parametrize(
    "optimizer", [Optimizer(learning_rate=0.3), Optimizer(kind="momentum", learning_rate=0.05)], ids=["gd", "momentum"]
)
def test_the_expected_curve_of_signs_is_weight_space(optimizer: Optimizer) -> None:
    """Initial signs leave nothing to average over: the curve is the loss of every run."""
    task, architecture = FeaturePowerLaw(modes=60), Diagonal(inputs=60, width=2)
    inputs = cell(architecture, task, optimizer, 1e-3, 800)
    found = mean_loss_curve(task, architecture, 2e-6, optimizer, inputs.step_number)
    np.testing.assert_allclose(found, integrate(inputs).loss[inputs.step_number], rtol=1e-9)
    np.testing.assert_allclose(found, predict([inputs])[0].tiers["discrete"].loss, rtol=1e-9)


def test_the_expected_curve_is_the_mean_over_random_seeds() -> None:
    """Fourier modes have one degree of freedom each: averaging matters, and the quadrature does it to the error of 300 draws."""
    task, architecture, optimizer, sigma = Fourier(theta=0.5), FourierMLP(width=16), Optimizer(learning_rate=0.5), 1e-3
    steps = np.unique(np.geomspace(1, 2000, 40).astype(int))
    rng = np.random.default_rng(0)
    problem = task.problem(architecture, rng)
    inputs = cell(architecture, task, optimizer, sigma, 2)
    draws = [sigma * rng.standard_normal(inputs.weights.shape) for _ in range(300)]
    curves = predict([type(inputs)(architecture, problem, optimizer, weights, steps) for weights in draws])
    losses = np.array([prediction.tiers["discrete"].loss for prediction in curves])
    found = mean_loss_curve(task, architecture, sigma**2, optimizer, steps)
    error = losses.std(0) / np.sqrt(len(losses))
    # Late losses, and what is left of a mode once nearly all have learnt it, are those of rare seeds that 300 draws do not hold.
    early = found > 0.01 * found[0]
    np.testing.assert_array_less(np.abs(found - losses.mean(0))[early], (4 * error + 1e-3 * losses.mean(0))[early])


@given(degrees=st.integers(1, 60))
def test_quadrature_nodes_carry_the_moments_of_chi_squared(degrees: int) -> None:
    """Mean 1 and variance 2 / n of z over its mean; mean of ln z is digamma(n / 2) - ln(n / 2)."""
    nodes, weights = seed_quantiles(Diagonal(inputs=3, width=degrees, start="gaussian"))
    assert weights @ nodes == pytest.approx(1, rel=1e-6)
    assert weights @ (nodes - 1) ** 2 == pytest.approx(2 / degrees, rel=1e-5)
    exact = chi2(degrees).expect(lambda x: np.log(x / degrees)) if degrees > 2 else None
    if exact is not None:
        assert weights @ np.log(nodes) == pytest.approx(exact, rel=1e-4, abs=1e-6)


def test_signs_have_a_single_node() -> None:
    nodes, weights = seed_quantiles(Diagonal(inputs=3))
    assert (list(nodes), list(weights)) == ([1.0], [1.0])


@pytest.mark.parametrize("weight_decay", [0.0, 1e-4])
@pytest.mark.parametrize("start", ["signs", "gaussian"])
def test_the_mean_over_seeds_is_that_of_each_quantile_by_itself(start: Any, weight_decay: float) -> None:
    """One exponential for all seeds gives what the closed form gives seed by seed, large seeds included."""
    task, architecture = FeaturePowerLaw(modes=50, initial_profile=0.3), Diagonal(inputs=50, width=2, start=start)
    optimizer, steps = Optimizer(learning_rate=0.2, weight_decay=weight_decay), np.array([0, 1, 10, 100, 1000, 100_000])
    for epsilon in (1e-8, 0.5):
        quantiles, weights = seed_quantiles(architecture)
        problem = task.problem(architecture, np.random.default_rng(0))
        expected = 0.0
        for quantile, weight in zip(quantiles, weights, strict=True):
            start_weights = np.sqrt(epsilon * quantile / 2) * np.broadcast_to(problem.initial_scale, (50, 2))
            modes = entry_system(architecture, problem, start_weights)
            expected = expected + weight * modes.loss(modes.flow(steps * 0.2, weight_decay))
        found = mean_loss_curve(task, architecture, epsilon, optimizer, steps, tier="flow")
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)
