"""The tangent kernel from (M, mu) against Jacobians in weight space, and against Proposition 8 written out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.kernel import drift, kernel_drift, tangent_kernel
from nqf_pipeline.forms.quadratic import DenseForm, Order, StructureForm
from nqf_pipeline.models import MLP, Architecture, Diagonal, MultiHead, QueryKey
from tests.dynamics import weightspace

WIDTH = 5


def jacobian_kernel(module, weights) -> np.ndarray:
    """<df(x)/dW, df(x')/dW> of any module."""
    slope = np.asarray(jax.jit(jax.jacfwd(module))(jnp.asarray(weights)))
    flat = slope.reshape(*slope.shape[:2], -1)
    return np.tensordot(flat, flat, axes=(2, 2))


def test_equals_the_jacobian_kernel(rng) -> None:
    form, weights = weightspace.random_form(rng, samples=5), rng.standard_normal((4, WIDTH))
    expected = jacobian_kernel(lambda at: weightspace.unit_outputs(form, at), weights)
    found = tangent_kernel(form, Order.of(weights), WIDTH)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


def test_equals_proposition_8(rng) -> None:
    form, weights = weightspace.random_form(rng, samples=5), rng.standard_normal((4, WIDTH))
    order = Order.of(weights)
    u, am = form.g + 2 * form.B @ order.mean, form.A @ order.mean
    mixed = 2 * np.einsum("omp,nqp->omnq", u, am)
    written = WIDTH * np.einsum("omp,nqp->omnq", u, u) + mixed + mixed.transpose(2, 3, 0, 1)
    written += 4 * np.einsum("omij,jk,nqki->omnq", form.A, order.second, form.A)
    np.testing.assert_allclose(tangent_kernel(form, order, WIDTH), written, rtol=1e-11, atol=1e-12 * np.abs(written).max())


NETWORKS = (
    MLP(width=5, inputs=4, outputs=3),
    QueryKey(width=3, dimension=4, key_size=2, tokens=5, outputs=3),
    MultiHead(width=3, dimension=4, key_size=2, value_size=3, tokens=5, outputs=2),
    Diagonal(width=2, inputs=6, start="gaussian"),
)


@pytest.mark.parametrize("architecture", NETWORKS, ids=lambda a: a.name)
def test_is_the_networks_own_at_small_weights(architecture: Architecture, rng) -> None:
    """The relative gap falls as sigma^2: the form's departure is of fourth order in the weights, a kernel of second."""
    unit, inputs = architecture.initial(rng), rng.standard_normal((*architecture.input_shape, 3))
    encoded = architecture.encode(inputs)
    network = jax.jit(jax.jacfwd(lambda at: architecture.network(at, encoded)))
    gaps = []
    for sigma in (0.02, 0.01):
        weights = sigma * unit
        slope = np.asarray(network(jnp.asarray(weights)))
        flat = slope.reshape(*slope.shape[:2], -1)
        rowwise = architecture.pairing == "rowwise"
        form, units = StructureForm.of(architecture.structure(inputs), architecture.factors(weights), rowwise=rowwise)
        found = tangent_kernel(form, Order.of(units), units.shape[1])
        gaps.append(drift(found, np.tensordot(flat, flat, axes=(2, 2))).change)
    if architecture.exactly_quadratic:
        assert max(gaps) < 1e-13
    else:
        assert gaps[1] < 0.01
        assert np.log2(gaps[0] / gaps[1]) == pytest.approx(2, abs=0.1)


def test_drift_tells_growing_from_turning(rng) -> None:
    form, weights = weightspace.random_form(rng, samples=5, coupled=False), rng.standard_normal((4, WIDTH))
    scales = np.array([1.0, 2.0])
    path = np.stack([scale * weights for scale in scales])
    grown = kernel_drift(form, Order(path @ path.swapaxes(1, 2), path.sum(-1)), WIDTH)
    np.testing.assert_allclose(grown.change, scales**2 - 1, atol=1e-12)
    np.testing.assert_allclose(grown.turn, 0, atol=1e-12)
    path = np.stack([weights, rng.standard_normal(weights.shape)])
    assert kernel_drift(form, Order(path @ path.swapaxes(1, 2), path.sum(-1)), WIDTH).turn[1] > 0.01


def test_a_linear_module_is_lazy(rng) -> None:
    """A = B = 0: the kernel is d g.g' and never moves."""
    full = weightspace.random_form(rng, samples=5)
    form = DenseForm(full.f0, full.g, 0 * full.A, 0 * full.B)
    path = rng.standard_normal((3, 4, WIDTH))
    orders = Order(path @ path.swapaxes(1, 2), path.sum(-1))
    np.testing.assert_allclose(kernel_drift(form, orders, WIDTH).change, 0, atol=1e-14)
    first = Order(orders.second[0], orders.mean[0])
    np.testing.assert_allclose(tangent_kernel(form, first, WIDTH), WIDTH * np.einsum("omp,nqp->omnq", full.g, full.g), atol=1e-13)


def test_a_kernel_beyond_memory_is_refused() -> None:
    form = DenseForm(np.zeros((1, 20000)), np.zeros((1, 20000, 1)), np.zeros((1, 20000, 1, 1)), np.zeros((1, 20000, 1, 1)))
    with pytest.raises(InputError, match=r"20000 outputs and samples .*form.take"):
        tangent_kernel(form, Order(np.ones((1, 1)), np.ones(1)), 1)
