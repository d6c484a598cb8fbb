"""f0, g, A, B of functions with known coefficients, and of architectures against the dense matrices of theory."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline import normal_form
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.normal_form import NormalForm
from nqf_pipeline.models import MLP, MixtureOfExperts, MultiHead, QueryKey


def blocks(size: int, rows: slice, columns: slice, corner: np.ndarray) -> np.ndarray:
    """1/2 [[0, C], [C^T, 0]] with C at the given place."""
    full = np.zeros((size, size))
    full[rows, columns] = corner / 2
    return full + full.T


def coupled(weights: jax.Array, x: jax.Array) -> jax.Array:
    """exp after the sum over units: units interact, so B is needed. One output for each of three inputs."""
    return jnp.exp(x.T @ weights.sum(1)) + jnp.tanh(x.T @ weights**2).sum(1)


def test_mlp_has_the_block_of_its_input(rng: np.random.Generator) -> None:
    a = MLP(width=5, inputs=3, outputs=2, activation="erf")
    x = rng.standard_normal((3, 1))
    form = normal_form(a.apply, x, width=a.width, unit_size=a.unit_size)
    for output in range(2):
        expected = blocks(5, slice(3), slice(3 + output, 4 + output), 2 / np.sqrt(np.pi) * x)
        np.testing.assert_allclose(form.A[output, 0], expected, atol=1e-15)
    assert not form.g.any()
    assert not form.B.any()
    assert not form.f0.any()


def test_multi_head_has_the_value_readout_block_alone(rng: np.random.Generator) -> None:
    a = MultiHead(width=2, dimension=3, key_size=2, value_size=4, tokens=5, outputs=2)
    x = rng.standard_normal((3, 5, 1))
    form = normal_form(a.apply, x, width=a.width, unit_size=a.unit_size)
    for output in range(2):
        readout = slice(12 + 4 * output, 16 + 4 * output)
        expected = blocks(a.unit_size, slice(12), readout, np.kron(x.mean(1), np.eye(4)))
        np.testing.assert_allclose(form.A[output, 0], expected, atol=1e-15)
    assert not form.B.any()


def test_query_key_has_the_covariance_block(rng: np.random.Generator) -> None:
    a = QueryKey(width=3, dimension=3, key_size=2, tokens=4, outputs=2)
    x = rng.standard_normal((3, 4, 1))
    form = normal_form(a.apply, x, width=a.width, unit_size=a.unit_size)
    average = x[..., 0].mean(1)
    covariance = x[..., 0] @ x[..., 0].T / 4 - np.outer(average, average)
    for output, readout in enumerate(a.readouts):
        corner = np.kron(np.outer(covariance @ readout, x[:, -1, 0]), np.eye(2)) / np.sqrt(2)
        np.testing.assert_allclose(form.A[output, 0], blocks(12, slice(6), slice(6, 12), corner), atol=1e-15)
        assert form.f0[output, 0] == pytest.approx(3 * readout @ average)


def test_mixture_of_experts_has_the_gate_expert_block(rng: np.random.Generator) -> None:
    a = MixtureOfExperts(width=2, inputs=3, outputs=1, activation="gelu")
    x = rng.standard_normal((3, 1))
    form = normal_form(a.apply, x, width=a.width, unit_size=a.unit_size)
    np.testing.assert_allclose(form.A[0, 0], blocks(6, slice(3), slice(3, 6), 0.5 * x @ x.T), atol=1e-15)


def test_units_that_interact_need_g_and_b(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 3))
    form = normal_form(coupled, x, width=3, unit_size=4)
    np.testing.assert_allclose(form.f0, np.ones(3))
    np.testing.assert_allclose(form.g, x.T, rtol=1e-14)
    np.testing.assert_allclose(form.B, np.einsum("im,jm->mij", x, x) / 2, rtol=1e-13)
    np.testing.assert_allclose(form.A, np.einsum("im,ij->mij", x, np.eye(4)), atol=1e-14)


@pytest.mark.parametrize("width", [2, 3, 7])
def test_remainder_is_cubic_at_every_width(width: int, rng: np.random.Generator) -> None:
    x, weights = rng.standard_normal((4, 3)), rng.standard_normal((4, width))
    form = normal_form(coupled, x, width=width, unit_size=4)
    gaps = [np.abs(coupled(jnp.asarray(s * weights), jnp.asarray(x)) - form(s * weights)).max() for s in (2e-3, 1e-3)]
    assert np.log2(gaps[0] / gaps[1]) == pytest.approx(3, abs=0.1)


def test_one_unit_has_no_pair(rng: np.random.Generator) -> None:
    x, weights = rng.standard_normal((4, 3)), 1e-3 * rng.standard_normal((4, 1))
    form = normal_form(coupled, x, width=1, unit_size=4)
    assert not form.B.any()
    np.testing.assert_allclose(form(weights), coupled(jnp.asarray(weights), jnp.asarray(x)), atol=1e-7)


@pytest.mark.parametrize(("reduce", "outputs"), [(jnp.sum, ()), (lambda f: f, (3,)), (lambda f: jnp.outer(f, f), (3, 3))])
def test_outputs_keep_their_shape(reduce: Callable[[jax.Array], jax.Array], outputs: tuple[int, ...], rng: np.random.Generator) -> None:
    form = normal_form(lambda w, x: reduce(coupled(w, x)), rng.standard_normal((4, 3)), width=2, unit_size=4)
    assert form.f0.shape == outputs
    assert form.g.shape == (*outputs, 4)
    assert form.A.shape == form.B.shape == (*outputs, 4, 4)
    np.testing.assert_allclose(form.A, np.swapaxes(form.A, -1, -2), atol=1e-14)


def test_is_double_precision_whatever_the_session(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 3)).astype(np.float32)
    with jax.enable_x64(False):
        form = normal_form(coupled, x, width=2, unit_size=4)
    assert form.A.dtype == form.g.dtype == form.B.dtype == np.float64
    np.testing.assert_allclose(form.g, x.T, rtol=1e-15)


def test_refuses_what_memory_cannot_hold() -> None:
    a = MultiHead()
    with pytest.raises(InputError, match=r"880 x 880 matrices .*27.7 GiB.*quadratic_form"):
        normal_form(a.apply, np.zeros((20, 16, 600)), width=a.width, unit_size=a.unit_size)


@pytest.mark.parametrize(("width", "unit_size"), [(0, 4), (2, 0)])
def test_refuses_a_module_without_units(width: int, unit_size: int) -> None:
    with pytest.raises(InputError, match="at least one unit"):
        normal_form(coupled, np.zeros((4, 3)), width=width, unit_size=unit_size)


def test_form_is_plain_arrays() -> None:
    form = NormalForm(np.float64(1.0), np.ones(2), np.eye(2), np.zeros((2, 2)))
    assert form(np.array([[1.0, 0.0], [0.0, 2.0]])) == pytest.approx(1 + 3 + 5)
