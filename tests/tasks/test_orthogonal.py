"""Orthogonal features and samples: prescribed rates and saturations, and the dynamics that Theorems 5 and 6 give them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP, Diagonal
from nqf_pipeline.tasks import OrthogonalFeatures, OrthogonalSamples, TaskError
from nqf_pipeline.theory.predict import CellInputs, predict
from nqf_pipeline.theory.regime import regime

GD = Optimizer(kind="gd", learning_rate=0.01)
positive = st.floats(0.05, 5)


@given(rates=st.lists(positive, min_size=1, max_size=6), saturation=positive, seed=st.integers(0, 99))
@settings(max_examples=40)
def test_rates_and_saturations_are_the_prescribed_ones(rates: list[float], saturation: float, seed: int) -> None:
    network = Diagonal(inputs=len(rates))
    drawn = OrthogonalFeatures(rates=tuple(rates), saturation=saturation).problem(network, np.random.default_rng(seed))
    assert drawn.moments.kind == "diagonal"
    np.testing.assert_allclose(8 * drawn.moments.linear, rates, rtol=1e-9)
    np.testing.assert_allclose(8 * drawn.moments.operator, saturation, rtol=1e-9)
    assert drawn.moments.excess(np.zeros(len(rates))) == pytest.approx(np.square(rates).sum() / (8 * saturation))
    every = np.array([drawn.structure.apply(unit)[0] for unit in np.eye(len(rates))])
    if len(rates) > 1:
        assert (np.abs(every) > 0).all()  # every sample sees every feature
    assert regime(network, drawn, GD).name == "orthogonal_features"


def integrated(problem, weights: np.ndarray, steps: int) -> np.ndarray:
    """Plain gradient descent on the samples; strengths after every step."""
    rows, goal = problem.structure.coefficients, problem.targets[0]
    strengths = []
    for _ in range(steps):
        strengths.append(problem.modes.strength(weights**2))
        residual = weights**2 @ rows - goal
        weights = weights - 0.01 * 4 / rows.shape[1] * (rows @ residual) * weights
    return np.array(strengths)


@given(targets=st.lists(st.floats(0.2, 2), min_size=1, max_size=4), eigenvalues=st.lists(st.floats(0.3, 2), min_size=1, max_size=3))
@settings(max_examples=15, deadline=None)
def test_samples_ignite_as_predicted(targets: list[float], eigenvalues: list[float]) -> None:
    task = OrthogonalSamples(targets=tuple(targets), eigenvalues=tuple(eigenvalues))
    network = Diagonal(inputs=task.coordinates)
    problem = task.problem(network, np.random.default_rng(0))
    np.testing.assert_allclose(problem.modes.number, np.arange(len(targets)) + 1)
    weights = np.full((task.coordinates, 1), 1e-3)
    steps = np.arange(3000)
    (found,) = predict([CellInputs(network, problem, GD, weights, steps, 1e-3)])
    assert found.regime.standing == "exact"
    if min(len(targets), len(eigenvalues)) > 1:
        assert found.regime.name == "orthogonal_samples"
    np.testing.assert_allclose(found.tiers["discrete"].mode, integrated(problem, weights[:, 0], 3000), rtol=1e-7, atol=1e-12)
    zeta = 8 / len(targets) * max(eigenvalues) * np.array(targets)
    np.testing.assert_allclose(found.tiers["asymptote"].ignition * 0.01, np.log(1e6) / zeta, rtol=1e-9)


@pytest.mark.parametrize("task", [OrthogonalFeatures(), OrthogonalSamples()])
def test_misfits_are_refused(task: OrthogonalFeatures | OrthogonalSamples) -> None:
    with pytest.raises(TaskError, match=rf"kind: diagonal, inputs: {task.coordinates}"):
        task.check(MLP())
    with pytest.raises(TaskError, match="inputs = 7"):
        task.problem(Diagonal(inputs=7), np.random.default_rng(0))
