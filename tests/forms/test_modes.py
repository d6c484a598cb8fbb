"""Strengths and order parameters of watched modes."""

from __future__ import annotations

import numpy as np
import pytest

from nqf_pipeline.forms.modes import CoordinateBasis, SingularBasis
from nqf_pipeline.models import MLP, Diagonal, FourierMLP, PhaseRetrieval


def test_singular_modes_of_an_optimum_are_learnt_there(rng: np.random.Generator) -> None:
    optimum = rng.standard_normal((5, 3))
    basis = SingularBasis.of(optimum, 2)
    np.testing.assert_allclose(basis.target, np.linalg.svd(optimum, compute_uv=False)[:2])
    np.testing.assert_allclose(basis.strength(optimum), np.ones(2))
    np.testing.assert_allclose(basis.strength(optimum / 4), np.full(2, 0.25))
    np.testing.assert_array_equal(basis.number, [1, 2])


def test_balanced_feedforward_weights_have_order_parameter_twice_the_target(rng: np.random.Generator) -> None:
    """At the end of training Z1 = U sqrt(s) Q, Z2 = V sqrt(s) Q, so z_k = 2 s_k (theory: section 3)."""
    a = MLP(width=6, inputs=5, outputs=3)
    optimum = rng.standard_normal((5, 3))
    basis = SingularBasis.of(optimum, 3)
    rotation = np.linalg.qr(rng.standard_normal((6, 3)))[0].T
    root = np.sqrt(basis.target)
    weights = np.concatenate([(basis.left * root) @ rotation, (basis.right * root) @ rotation])
    np.testing.assert_allclose(a.order(weights), optimum, atol=1e-14)
    np.testing.assert_allclose((a.mode_vectors(weights, basis) ** 2).sum(1), 2 * basis.target)


def test_symmetric_order_parameter_is_the_diagonal_of_m(rng: np.random.Generator) -> None:
    a = PhaseRetrieval(width=6, inputs=4)
    axes = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    basis = SingularBasis(axes, axes, np.array([4.0, 3.0, 2.0, -1.0]))
    weights = a.initial(rng)
    expected = np.diag(axes.T @ weights @ weights.T @ axes)
    np.testing.assert_allclose((a.mode_vectors(weights, basis) ** 2).sum(1), expected)
    np.testing.assert_allclose(basis.strength(a.order(weights)), expected / basis.target)


def test_coordinate_modes_of_the_diagonal_network(rng: np.random.Generator) -> None:
    a = Diagonal(width=3, inputs=5)
    weights = rng.standard_normal((5, 3))
    basis = CoordinateBasis(np.array([0, 3]), np.array([2.0, 4.0]))
    z = (weights**2).sum(1)[[0, 3]]
    np.testing.assert_allclose((a.mode_vectors(weights, basis) ** 2).sum(1), z)
    np.testing.assert_allclose(basis.strength(a.order(weights)), z / basis.target)
    np.testing.assert_array_equal(basis.number, [1, 4])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_two_factor_coordinates_grow_towards_the_sign_of_their_target(sign: float) -> None:
    """Balanced factors a = sign W carry z = 2 |G|; the opposite combination carries nothing."""
    weights = np.array([[1.5, 1.0], [sign * 1.5, -sign]])
    basis = CoordinateBasis(np.arange(2), sign * np.array([2.25, 1.0]))
    z = (FourierMLP(width=2).mode_vectors(weights, basis) ** 2).sum(1)
    np.testing.assert_allclose(z, [4.5, 0.0], atol=1e-15)
