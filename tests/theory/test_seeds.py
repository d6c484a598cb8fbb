"""Effective seeds: Schur complements in ignition order, and what they do to half-times in weight space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP
from nqf_pipeline.tasks import Teacher
from nqf_pipeline.theory.predict import predict
from nqf_pipeline.theory.seeds import effective_seeds
from tests.theory.weights import cell, integrate


@given(modes=st.integers(1, 5), degrees=st.integers(5, 9), seed=st.integers(0, 1000))
def test_seeds_are_squared_cholesky_pivots_in_ignition_order(modes: int, degrees: int, seed: int) -> None:
    vectors = 1e-4 * np.random.default_rng(seed).standard_normal((modes, degrees))
    # Rates far apart: they alone decide the order, which is not that of the rows.
    order = np.random.default_rng(seed + 1).permutation(modes)
    rate = np.empty(modes)
    rate[order] = 10.0 ** -np.arange(modes)
    rotation, seeds = effective_seeds(vectors, rate, np.ones(modes))
    pivots = np.diag(np.linalg.cholesky(vectors[order] @ vectors[order].T)) ** 2
    np.testing.assert_allclose(seeds[order], pivots, rtol=1e-6)
    np.testing.assert_array_equal(rotation, np.eye(modes))


def test_the_order_is_that_of_ignition_not_of_the_rates() -> None:
    """The faster mode holds so small a seed that the other ignites first and keeps all of its own."""
    vectors = np.array([[1e-12, 0.0], [1e-3, 1e-3]])
    _, seeds = effective_seeds(vectors, np.array([1.0, 0.8]), np.ones(2))
    np.testing.assert_allclose(seeds, [0.5e-24, 2e-6], rtol=1e-9)


def test_modes_beyond_the_degrees_of_freedom_have_no_seed(rng: np.random.Generator) -> None:
    _, seeds = effective_seeds(rng.standard_normal((5, 3)), np.arange(5.0, 0, -1), np.ones(5))
    assert np.count_nonzero(seeds) == 3


def test_modes_without_a_positive_rate_have_no_seed(rng: np.random.Generator) -> None:
    _, seeds = effective_seeds(rng.standard_normal((4, 9)), np.array([1.0, 1e-17, 0.0, -1.0]), np.ones(4))
    assert list(seeds > 0) == [True, False, False, False]


def test_equal_rates_are_rotated_until_they_do_not_interact(rng: np.random.Generator) -> None:
    vectors = rng.standard_normal((4, 9))
    rotation, seeds = effective_seeds(vectors, np.array([2.0, 1.0, 1.0, 1.0]), np.ones(4))
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(4), atol=1e-12)
    assert rotation[0, 0] == 1
    turned = rotation.T @ vectors
    turned = turned - (turned @ vectors[0])[:, None] * vectors[0] / (vectors[0] @ vectors[0])
    np.testing.assert_allclose(turned[1:] @ turned[1:].T, np.diag(seeds[1:]), atol=1e-10)


@pytest.mark.parametrize(("width", "raw_error"), [(4, 0.02), (64, 0.001)])
def test_half_times_of_a_whitened_layer_follow_effective_seeds(width: int, raw_error: float) -> None:
    """Within 0.1 % of weight space for every mode; the seeds |p_k|^2 themselves would be off by more than `raw_error`."""
    worst, worst_raw = 0.0, 0.0
    for seed in range(3):
        inputs = cell(
            MLP(width=width, inputs=10, outputs=6), Teacher(inputs="white", samples=100), Optimizer(learning_rate=0.03), 1e-3, 2500, seed
        )
        truth = integrate(inputs).ignition
        predicted = predict([inputs])[0].tiers["discrete"].ignition
        worst = max(worst, float(np.abs(predicted / truth - 1).max()))
        vectors = inputs.architecture.mode_vectors(inputs.weights, inputs.problem.modes)
        target = inputs.problem.modes.target
        raw = np.log(2 * target / (vectors**2).sum(1)) / (2 * np.log1p(0.03 * 2 * target))
        worst_raw = max(worst_raw, float(np.abs(raw / truth - 1).max()))
    assert worst < 1e-3
    assert worst_raw > raw_error
