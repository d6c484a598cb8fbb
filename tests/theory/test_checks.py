"""The curvature at the optimum, and the step at which training stops settling."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, Architecture, Diagonal, FourierMLP, MixtureOfExperts, PhaseRetrieval, QueryKey
from nqf_pipeline.tasks import FeaturePowerLaw, Fourier, Task, Teacher
from nqf_pipeline.theory.checks import largest_curvature, stability
from nqf_pipeline.theory.predict import CellInputs
from tests.theory.weights import integrate

SETTINGS: list[tuple[Architecture, Task]] = [
    (MLP(width=4, inputs=5, outputs=3), Teacher(strengths=(1.0, 0.5), samples=60)),
    (CNN(width=4, image=(4, 4), kernel=(2, 3), outputs=3), Teacher(strengths=(1.0, 0.5), samples=60)),
    (QueryKey(width=2, dimension=4, key_size=2, tokens=5, outputs=2), Teacher(strengths=(1.0, 0.5), samples=60)),
    (MixtureOfExperts(width=4, inputs=4, outputs=2), Teacher(strengths=(1.0, 0.5), samples=60)),
    (PhaseRetrieval(width=4, inputs=4), Teacher(strengths=(1.0, 0.5), samples=60)),
    (Diagonal(inputs=8), FeaturePowerLaw(modes=8)),
    (FourierMLP(width=8), Fourier(grid=32)),
]


@pytest.mark.parametrize(("architecture", "task"), SETTINGS, ids=lambda value: value.name)
def test_curvature_is_the_largest_eigenvalue_of_the_hessian(architecture: Architecture, task: Task, rng: np.random.Generator) -> None:
    """The Hessian of the quadratic form's loss in its factors at the balanced optimum, by automatic differentiation."""
    problem = task.problem(architecture, rng)
    moments = problem.moments
    optimum = moments.optimum
    if architecture.pairing == "rowwise":
        factors = [np.sqrt(np.abs(optimum))[:, None]] * (1 if architecture.positive else 2)
    elif architecture.positive:
        values, axes = np.linalg.eigh(optimum)
        factors = [axes * np.sqrt(np.clip(values, 0, None))]
    else:
        left, values, right = np.linalg.svd(optimum, full_matrices=False)
        factors = [left * np.sqrt(values), right.T * np.sqrt(values)]
    shapes = [factor.shape for factor in factors]
    cut = np.cumsum([factor.size for factor in factors])[:-1]

    def loss(flat: jax.Array) -> jax.Array:
        parts = [part.reshape(shape) for part, shape in zip(jnp.split(flat, cut), shapes, strict=True)]
        order = (parts[0] * parts[-1]).sum(-1) if architecture.pairing == "rowwise" else parts[0] @ parts[-1].T
        return moments.excess(order)

    start = jnp.asarray(np.concatenate([factor.ravel() for factor in factors]))
    exact = np.linalg.eigvalsh(jax.jit(jax.hessian(loss))(start)).max()
    assert largest_curvature(architecture, moments) == pytest.approx(exact, rel=5e-3)


@pytest.mark.parametrize("kind", ["gd", "momentum"])
def test_the_optimum_holds_below_the_bound_and_repels_above(kind: str, rng: np.random.Generator) -> None:
    architecture = MLP(width=3, inputs=5, outputs=3)
    problem = Teacher(strengths=(1.0, 0.5), inputs="white", samples=40).problem(architecture, rng)
    value, bound = stability(architecture, problem, Optimizer(kind=kind, learning_rate=1.0))
    assert bound == pytest.approx(2.0 if kind == "gd" else 3.8)
    left, values, right = np.linalg.svd(problem.moments.optimum, full_matrices=False)
    optimum = np.concatenate([left * np.sqrt(values), right.T * np.sqrt(values)])
    start = optimum + 1e-4 * rng.standard_normal(optimum.shape)

    def loss(share: float, steps: int) -> np.ndarray:
        optimizer = Optimizer(kind=kind, learning_rate=share * bound / value)
        return integrate(CellInputs(architecture, problem, optimizer, start, np.arange(2)), steps).loss

    below, above = loss(0.97, 400), loss(1.03, 100)
    assert below[-1] < 1e-2 * below[0]
    assert above[-1] > 30 * above[0]


def test_adam_has_no_bound(rng: np.random.Generator) -> None:
    architecture = MLP()
    value, bound = stability(architecture, Teacher().problem(architecture, rng), Optimizer(kind="adam"))
    assert np.isnan(value)
    assert bound == np.inf
