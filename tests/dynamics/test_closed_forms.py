"""Closed forms of every theorem against the flow of the weights themselves, against gradient descent, and at extreme arguments."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from benchmarks.closed_forms import CASES, descent_error, discrete_error, flow_error, haar, symmetric_basis
from nqf_pipeline.dynamics.closed import logistic
from nqf_pipeline.dynamics.closed_groups import deep_linear_mode, shared_samples
from nqf_pipeline.dynamics.closed_matrix import balanced_product, imbalance, independent_rows, isotropic_samples, projectors

Array = Any
DRAWS = st.integers(0, 2**31)
EACH = pytest.mark.parametrize("form", CASES)


@EACH
@given(draw=DRAWS)
@settings(max_examples=12)
def test_against_the_flow_of_the_weights(form: str, draw: int) -> None:
    assert flow_error(CASES[form](np.random.default_rng(draw))) < 1e-9


@EACH
def test_against_small_steps_of_descent(form: str) -> None:
    assert descent_error(CASES[form](np.random.default_rng(5))) < 2e-3


@pytest.mark.parametrize("form", [name for name in CASES if "samples" in name or "features" in name])
@given(draw=DRAWS)
@settings(max_examples=8)
def test_recursions_are_descent_step_for_step(form: str, draw: int) -> None:
    error = discrete_error(CASES[form](np.random.default_rng(draw)))
    assert error is None or error < 1e-10


@given(
    target=st.one_of(st.just(0.0), st.floats(-1, 1).filter(lambda y: abs(y) > 1e-3)),
    exponent=st.floats(-12, 3),
    horizon=st.floats(0, 1e6),
    single=st.booleans(),
    draw=DRAWS,
)
def test_shared_samples_at_any_time(target: float, exponent: float, horizon: float, single: bool, draw: int) -> None:
    """No overflow, no warning, non-negative, and the sample is learnt in the end where it can be."""
    kind = np.float32 if single else np.float64
    rng = np.random.default_rng(draw)
    coupling = rng.uniform(0.1, 1, (1, 3)) * rng.choice([1, 1, -1], (1, 3))
    seed = (10.0**exponent * rng.choice([1.0, 0.3, 0.0], (1, 3))).astype(kind)
    time = np.array([0.0, horizon, 1e6], kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z = shared_samples(time, np.array([target]), coupling, seed)[:, 0]
    assert z.dtype == kind
    assert np.isfinite(z).all()
    assert (z >= 0).all()
    assert (z[:, seed[0] == 0] == 0).all()
    np.testing.assert_allclose(z[0], seed[0], rtol=1e-6 if single else 1e-11)
    if (target * coupling[seed > 0] > 0).any():
        assert coupling[0] @ z[2] == pytest.approx(target, rel=1e-5 if single else 1e-9)


@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_shared_samples_with_weight_decay(decay: float) -> None:
    coupling, target = np.array([[1.0, 1.5, 2.0], [0.3, -0.6, 0.2]]), np.array([0.9, 0.4])
    seed, time = np.array([[1e-4, 2e-5, 1e-6], [1e-3, 1e-5, 1e-4]]), np.linspace(0, 60, 25)
    found = shared_samples(time, target, coupling, seed, decay)
    for a, y, z0, z in zip(coupling, target, seed, np.moveaxis(found, 1, 0), strict=True):
        slope = lambda _, x, a=a, y=y: a * (y - a @ np.exp(x)) - 2 * decay  # noqa: E731
        expected = np.exp(solve_ivp(slope, (0, 60), np.log(z0), "DOP853", time, rtol=1e-13, atol=1e-13).y.T)
        np.testing.assert_allclose(z, expected, rtol=1e-8)


def test_one_feature_a_sample_is_logistic() -> None:
    target, coupling, seed = np.array([1.0, 0.2, -0.3]), np.array([[1.4], [0.7], [0.5]]), np.array([[1e-6], [3.0], [0.1]])
    time = np.concatenate([[0], np.geomspace(1e-3, 1e6, 30)])
    expected = logistic(time[:, None, None], target[:, None] * coupling, coupling**2, seed)
    np.testing.assert_allclose(shared_samples(time, target, coupling, seed), expected, rtol=1e-11, atol=1e-300)


def test_two_layers_of_a_deep_linear_network_are_logistic() -> None:
    drive, curvature, seed = np.array([1.0, 0.4]), np.array([0.5, 1.0]), np.array([1e-5, 2.0])
    time = np.linspace(0, 40, 9)
    expected = logistic(time[:, None], 4 * drive, 4 * curvature, seed)
    np.testing.assert_allclose(deep_linear_mode(time, drive, curvature, seed, 2), expected, rtol=1e-12)


@given(
    size=st.integers(1, 5),
    width=st.integers(1, 6),
    exponent=st.floats(-8, 1),
    largest=st.floats(1e-3, 1e6),
    single=st.booleans(),
    draw=DRAWS,
)
def test_isotropic_samples_at_any_time(size: int, width: int, exponent: float, largest: float, single: bool, draw: int) -> None:
    """gamma t up to 1e6 and down to -1e6: finite, without a warning, at the plateau in the end."""
    kind = np.float32 if single else np.float64
    rng = np.random.default_rng(draw)
    axes, rate = haar(size, rng), rng.choice([1.0, 0.5, 0.0, -0.01, -1.0], size)
    drive = (axes * rate) @ axes.T
    weights = (10**exponent * rng.standard_normal((size, width))).astype(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        factor = isotropic_samples(np.array([0.0, largest, 1e6]), drive, 0.3, weights)
    assert factor.dtype == kind
    assert np.isfinite(factor).all()
    tolerance = 2e-3 if single else 1e-8
    np.testing.assert_allclose(factor[0] @ factor[0].T, weights @ weights.T, rtol=tolerance, atol=tolerance * np.sum(weights**2))
    plateau = np.sort(np.maximum(rate, 0))[::-1] / (4 * 0.3)
    if width >= np.sum(rate >= 0) and not single:
        np.testing.assert_allclose(np.linalg.eigvalsh(factor[2] @ factor[2].T)[::-1], plateau, atol=1e-5)


def test_modes_beyond_the_rank_of_the_start_never_ignite(rng: np.random.Generator) -> None:
    """The general solution with M0 = W0 W0^T of rank 2 keeps two plateaus, those of the fastest modes."""
    drive = np.diag([1.0, 0.8, 0.5, 0.2])
    factor = isotropic_samples(np.array([300.0]), drive, 0.25, 1e-3 * rng.standard_normal((4, 2)))[0]
    np.testing.assert_allclose(np.linalg.eigvalsh(factor @ factor.T), [0, 0, 0.8, 1.0], atol=1e-9)


def test_rows_without_weights_stay_empty(rng: np.random.Generator) -> None:
    weights = np.concatenate([rng.standard_normal((2, 3)), np.zeros((2, 3))])
    assert independent_rows(np.concatenate([weights, weights[:1] + weights[1:2]])).tolist() == [True, True, False, False, False]
    factor = isotropic_samples(np.array([0.0, 50.0]), np.diag([1.0, 0.5, 0.9, 0.0]), 0.3, weights)
    assert np.all((factor @ np.swapaxes(factor, 1, 2))[:, 2:] == 0)
    assert np.all(isotropic_samples(np.array([0.0, 50.0]), np.eye(4), 0.3, 0 * weights) == 0)


def test_out_of_balance_the_product_is_not_the_closed_one(rng: np.random.Generator) -> None:
    """`imbalance` is what the error of `balanced_product` grows with, and is conserved."""
    correlation = rng.standard_normal((3, 2))
    factors = (rng.standard_normal((3, 4)), rng.standard_normal((2, 4)))

    def pull(_: float, flat: Array) -> Array:
        left, right = flat[:12].reshape(3, 4), flat[12:].reshape(2, 4)
        force = 2 * (correlation - left @ right.T)
        return np.concatenate([(force @ right).ravel(), (force.T @ left).ravel()])

    end = solve_ivp(pull, (0, 0.3), np.concatenate([f.ravel() for f in factors]), rtol=1e-11, atol=1e-12).y[:, -1]
    after = (end[:12].reshape(3, 4), end[12:].reshape(2, 4))
    gap = lambda f: f[0].T @ f[0] - f[1].T @ f[1]  # noqa: E731
    np.testing.assert_allclose(gap(after), gap(factors), atol=1e-8)
    assert imbalance(factors) > 0.3
    left, right = balanced_product(np.array([0.3]), correlation, 1.0, factors)
    assert np.abs(left[0] @ right[0].T - after[0] @ after[1].T).max() > 0.01


def test_projectors_are_refused_for_an_unaligned_start(rng: np.random.Generator) -> None:
    basis = symmetric_basis(4)
    weight = np.where(np.abs(np.einsum("mii->mi", basis)).sum(1) > 0.5, 1.0, 0.4)
    flat = (weight[:, None, None] * basis).reshape(len(basis), -1)
    act = lambda m: 4 * (flat.T @ (flat @ m.ravel())).reshape(4, 4)  # noqa: E731
    drive = np.diag([1.0, 0.5, 0.5, 0.0])
    aligned, random = 1e-3 * np.eye(4), 1e-3 * (w := rng.standard_normal((4, 4))) @ w.T
    good, bad = (projectors(drive, act, start) for start in (aligned, random))
    assert good.defect < 1e-12
    assert sorted(np.round(good.rate, 12)) == [0.0, 1.0, 2.0]
    assert bad.defect > 0.05
