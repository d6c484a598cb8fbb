"""The quadratic form as a function transform."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.forms.taylor import quadratic_form
from nqf_pipeline.models import Architecture


def test_quadratics_are_their_own_form(rng: np.random.Generator) -> None:
    quadratic, linear = rng.standard_normal((2, 3, 3)), rng.standard_normal((3, 2))

    def module(weights: jax.Array) -> jax.Array:
        return 2.0 + jnp.einsum("ij,kil,lj->k", linear, quadratic, weights) + jnp.einsum("ij,kil,lj->k", weights, quadratic, weights)

    weights = rng.standard_normal((3, 2))
    np.testing.assert_allclose(quadratic_form(module)(weights), module(weights), rtol=1e-13)


def test_keeps_the_first_three_terms_of_a_series() -> None:
    def module(weights: jax.Array, power: dict[str, jax.Array]) -> jax.Array:
        return jnp.exp(power["rate"] * weights)

    weights = jnp.array([[0.3, -2.0]])
    twin = quadratic_form(module)(weights, {"rate": jnp.array([[2.0, 1.0]])})
    np.testing.assert_allclose(twin, [[1 + 0.6 + 0.18, 1 - 2.0 + 2.0]], rtol=1e-14)


def test_departure_is_of_fourth_order(architecture: Architecture, rng: np.random.Generator) -> None:
    """Every one of these units is even in its weights up to a joint sign, so the cubic term vanishes too."""
    weights, inputs = architecture.initial(rng), rng.standard_normal((*architecture.input_shape, 5))
    encoded = architecture.encode(inputs)
    network, twin = jax.jit(architecture.network), jax.jit(quadratic_form(architecture.network))
    gaps = [float(jnp.abs(network(s * weights, encoded) - twin(s * weights, encoded)).max()) for s in (0.02, 0.01)]
    if architecture.exactly_quadratic:
        assert max(gaps) <= 1e-16
    else:
        assert np.log2(gaps[0] / gaps[1]) == pytest.approx(4, abs=0.05)


def test_is_differentiable_like_any_module(architecture: Architecture, rng: np.random.Generator) -> None:
    weights, inputs = architecture.initial(rng), rng.standard_normal((*architecture.input_shape, 5))
    structure = architecture.structure(inputs)
    residual = rng.standard_normal(structure.offset.shape)
    expanded = quadratic_form(architecture.network)
    encoded = architecture.encode(inputs)
    through_taylor = jax.jit(jax.grad(lambda w: (residual * expanded(w, encoded)).sum()))(weights)
    through_structure = jax.jit(jax.grad(lambda w: (residual * structure.apply(architecture.order(w))).sum()))(weights)
    np.testing.assert_allclose(through_taylor, through_structure, rtol=1e-10, atol=1e-12 * np.abs(through_structure).max())
