"""Cubic and quartic terms, the order at which blocks enter, and who makes a loss fall."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.jet import jet

from nqf_pipeline.dynamics.losses import squared_error
from nqf_pipeline.forms.expansion import descent, entry_orders, homogeneous_terms, truncated_losses
from nqf_pipeline.forms.taylor import quadratic_form
from nqf_pipeline.models import MLP, Architecture, MultiHead

ATTENTION = MultiHead(dimension=3, key_size=2, value_size=2, tokens=4, outputs=2, width=2)
VALUES, READOUT, QUERY_KEY = slice(0, 6), slice(6, 10), slice(10, 22)


def attention(inputs):
    return lambda at: ATTENTION.network(at, inputs)


def test_terms_of_a_known_series(rng) -> None:
    x, weights = rng.standard_normal((3, 4)), rng.standard_normal((3, 2))
    module = lambda at: jnp.exp(at.T @ x)  # noqa: E731
    power = np.asarray(weights).T @ x
    expected = [power**n / factorial for n, factorial in enumerate([1, 1, 2, 6, 24])]
    np.testing.assert_allclose(homogeneous_terms(module, jnp.asarray(weights)), expected, rtol=1e-12)


def test_terms_are_homogeneous_and_leave_a_remainder_of_sixth_order(rng) -> None:
    """Tanh units are even under a joint sign: orders 1, 3 and 5 vanish."""
    a = MLP(inputs=4, outputs=2, width=3)
    x, weights = rng.standard_normal((4, 5)), jnp.asarray(a.initial(rng))
    terms = jax.jit(lambda at: homogeneous_terms(lambda w: a.network(w, x), at))
    small, large = terms(0.05 * weights), terms(0.1 * weights)
    np.testing.assert_allclose(large[1::2], 0, atol=1e-15)
    np.testing.assert_allclose(large[4], 16 * small[4], rtol=1e-10)
    gaps = [float(jnp.abs(a.network(s * weights, x) - terms(s * weights).sum(0)).max()) for s in (0.05, 0.025)]
    assert np.log2(gaps[0] / gaps[1]) == pytest.approx(6, abs=0.1)


@pytest.mark.parametrize("a", [MLP(inputs=4, outputs=2, width=3, activation="gelu"), ATTENTION], ids=lambda a: a.name)
def test_the_first_three_terms_are_the_quadratic_form(a: Architecture, rng) -> None:
    weights, inputs = jnp.asarray(a.initial(rng)), jnp.asarray(rng.standard_normal((*a.input_shape, 3)))
    twin = jax.jit(quadratic_form(a.network))(weights, inputs)
    terms = jax.jit(lambda at: homogeneous_terms(lambda w: a.network(w, inputs), at, 2))(weights)
    np.testing.assert_allclose(terms.sum(0), twin, rtol=1e-12, atol=1e-12 * np.abs(twin).max())


def test_queries_and_keys_enter_at_order_four(rng) -> None:
    module = attention(jnp.asarray(rng.standard_normal((3, 4, 6))))
    assert entry_orders(module, ATTENTION.initial(rng), (VALUES, READOUT, QUERY_KEY)) == (2, 2, 4)


def test_a_block_that_enters_later_is_not_found(rng) -> None:
    def module(at: jax.Array) -> jax.Array:
        return (at[:1].sum() + at[1:].sum() ** 3)[None, None]

    assert entry_orders(module, rng.standard_normal((2, 3)), (slice(1), slice(1, 2)), order=2) == (1, None)


def test_agrees_with_taylor_mode_differentiation(rng) -> None:
    a = MLP(inputs=4, outputs=2, width=3)
    x, weights = rng.standard_normal((4, 5)), jnp.asarray(a.initial(rng))
    start, series = jnp.zeros_like(weights), [weights, *[jnp.zeros_like(weights)] * 3]
    value, coefficients = jax.jit(lambda: jet(lambda at: a.network(at, x), (start,), (series,)))()
    expected = np.stack([value, *coefficients]) / np.array([1, 1, 2, 6, 24])[:, None, None]
    found = jax.jit(lambda at: homogeneous_terms(lambda w: a.network(w, x), at))(weights)
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


@pytest.fixture(scope="module")
def attending():
    """A teacher that attends, followed from small weights: loss, its falls and truncated losses at every step."""
    rng = np.random.default_rng(20260813)
    inputs = jnp.asarray(rng.standard_normal((3, 4, 100)))
    module = attention(inputs)
    targets = module(0.8 * jnp.asarray(ATTENTION.initial(rng)))

    def loss(outputs):
        return squared_error(outputs, targets)

    def step(at, _):
        gradient = jax.grad(lambda w: loss(module(w)))(at)
        return at - 0.05 * gradient, (at, (gradient**2).sum())

    path, squares = jax.jit(lambda start: jax.lax.scan(step, start, length=91)[1])(0.003 * jnp.asarray(ATTENTION.initial(rng)))
    blocks = (VALUES, READOUT, QUERY_KEY)
    each = jax.jit(jax.vmap(lambda at: (loss(module(at)), descent(module, loss, at, blocks), truncated_losses(module, loss, at))))
    value, falls, truncated = each(path)
    return np.asarray(value), jax.tree.map(np.asarray, falls), np.asarray(truncated), np.asarray(squares)


def test_the_fall_of_the_loss_is_split_without_rest(attending) -> None:
    _, falls, _, squares = attending
    np.testing.assert_allclose(falls.rate.sum((1, 2)) + falls.remainder.sum(1), squares, rtol=1e-12)
    first = jax.tree.map(lambda part: part[0], falls)
    assert first.total == pytest.approx(squares[0], rel=1e-12)
    assert abs(first.beyond_quadratic) < 1e-3
    assert np.abs(falls.rate[:, :3, 2]).max() < 1e-12 * squares.max()  # queries and keys: nothing before order four


def test_the_plateau_that_the_quadratic_form_cannot_leave_ends_by_queries_and_keys(attending) -> None:
    value, falls, truncated, squares = attending
    drop = squares[:60].argmax()
    plateau = drop + squares[drop:80].argmin()
    leaving = plateau + np.flatnonzero(value[plateau:] < 0.98 * value[plateau])[0]
    beyond = 1 - falls.rate[:, :2].sum((1, 2)) / squares
    assert squares[plateau] < 0.05 * squares[drop]
    assert abs(beyond[drop]) < 0.01  # the first drop is the quadratic form's
    assert beyond[leaving] > 0.85  # the second is not
    assert falls.rate[leaving, 3, 2] > 0.9 * beyond[leaving] * squares[leaving]  # but of order four, in queries and keys
    quadratic, quartic = truncated[leaving, 2], truncated[leaving, 4]
    assert quadratic - value[leaving] > 0.5 * (value[plateau] - value[leaving])
    assert abs(quartic - value[leaving]) < 0.05 * (quadratic - value[leaving])
