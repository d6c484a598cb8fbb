"""Compressed widths against the full width, in weight space: both are trained, nothing is closed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from nqf_pipeline.dynamics.closure import Closure
from nqf_pipeline.dynamics.compressed import compressed_optimizer, error_bound
from nqf_pipeline.dynamics.losses import squared_error
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.compression import compress
from nqf_pipeline.forms.quadratic import DenseForm
from tests.dynamics import weightspace

STEPS = 1000
WIDTH = 20


def narrow_form(rng, size=7, span=3, *, coupled=True) -> DenseForm:
    """A form that sees three of seven directions."""
    small = weightspace.random_form(rng, span, coupled=coupled)
    basis = np.linalg.qr(rng.standard_normal((size, span)))[0]
    return DenseForm(small.f0, small.g @ basis.T, basis @ small.A @ basis.T, basis @ small.B @ basis.T)


def predictions(form, targets, weights, optimizer, steps=STEPS) -> np.ndarray:
    """f at every step of weight-space training with optax."""
    numbers = (jnp.asarray(getattr(optimizer, name)) for name in ("learning_rate", "momentum", "weight_decay"))
    return np.asarray(_predictions(jax.tree.map(jnp.asarray, form), jnp.asarray(targets), jnp.asarray(weights), *numbers, steps))


@partial(jax.jit, static_argnums=6)
def _predictions(form, targets, weights, learning_rate, momentum, weight_decay, steps):
    rule = optax.chain(optax.add_decayed_weights(weight_decay), optax.trace(momentum), optax.scale(-learning_rate))

    def step(state, _):
        current, memory = state
        gradient = jax.grad(lambda at: squared_error(weightspace.unit_outputs(form, at), targets))(current)
        change, memory = rule.update(gradient, memory, current)
        return (optax.apply_updates(current, change), memory), weightspace.unit_outputs(form, current)

    return jax.lax.scan(step, (weights, rule.init(weights)), length=steps + 1)[1]


@pytest.fixture
def setting(rng):
    return narrow_form(rng), rng.standard_normal((2, 12)), 0.15 * rng.standard_normal((7, WIDTH))


@pytest.mark.parametrize(
    "optimizer",
    [
        Optimizer(learning_rate=0.02),
        Optimizer(kind="momentum", learning_rate=0.005, weight_decay=0.1),
    ],
    ids=["gd", "momentum_decay"],
)
def test_predicts_alike_at_every_step(optimizer, setting) -> None:
    form, targets, weights = setting
    compression = compress(form, weights)
    assert compression.weights.shape == (7, 4)  # k_V + 1
    full = predictions(form, targets, weights, optimizer)
    assert np.abs(full[-1] - full[0]).max() > 0.3
    small = predictions(compression.form, targets, compression.weights, compressed_optimizer(optimizer, compression))
    assert np.abs(small - full).max() < 1e-12
    unchanged = {"learning_rate": optimizer.learning_rate}
    wrong = [compressed_optimizer(optimizer, compression).model_copy(update=unchanged)]
    if optimizer.weight_decay:
        wrong.append(compressed_optimizer(optimizer, compression).model_copy(update={"weight_decay": optimizer.weight_decay}))
    for naive in wrong:
        assert np.abs(predictions(compression.form, targets, compression.weights, naive) - full).max() > 1e-2


def test_flow_at_a_compressed_width(setting) -> None:
    """Flow has no learning rate: time itself runs d/d' times as fast for the layer."""
    form, targets, weights = setting
    compression, time = compress(form, weights), np.array([0.0, 0.5, 3.0])
    small = replace(Closure.single(compression.form, targets, squared_error, compression.weights), ratios=(compression.ratio,))
    (full,), (found,) = Closure.single(form, targets, squared_error, weights).flow(time, 0.1), small.flow(time, 0.1)
    assert full.loss[-1] < 0.8 * full.loss[0]
    np.testing.assert_allclose(found.loss, full.loss, rtol=1e-8)


def test_a_smaller_width_stays_within_the_bound(rng) -> None:
    form, targets, steps = weightspace.random_form(rng, 3, coupled=False), rng.standard_normal((2, 12)), 150
    # Unequal directions: little is dropped.
    weights = np.array([[0.5], [0.1], [0.02]]) * np.linalg.qr(rng.standard_normal((WIDTH, 3)))[0].T
    optimizer, closure = Optimizer(learning_rate=0.01), Closure.single(form, targets, squared_error, weights)
    full = predictions(form, targets, weights, optimizer, steps)
    compression = compress(form, weights, 3)
    small = predictions(compression.form, targets, compression.weights, compressed_optimizer(optimizer, compression), steps)
    measured = np.sqrt(((small - full) ** 2).sum((1, 2)))
    bound = error_bound(closure, compression, optimizer, steps)
    assert (measured <= bound).all()
    assert measured[0] > 0.1 * bound[0]
    assert bound[-1] < 0.01 * np.sqrt(((full[-1] - full[0]) ** 2).sum())  # a bound that says something
    with_rate_kept = predictions(compression.form, targets, compression.weights, optimizer, steps)
    assert (np.sqrt(((with_rate_kept - full) ** 2).sum((1, 2))) > bound).any()


def test_adam_is_refused(setting) -> None:
    form, _, weights = setting
    with pytest.raises(InputError, match=r"adam steps by the sign .*Train the full width"):
        compressed_optimizer(Optimizer(kind="adam"), compress(form, weights))


def test_bound_is_for_plain_descent(setting) -> None:
    form, targets, weights = setting
    closure = Closure.single(form, targets, squared_error, weights)
    with pytest.raises(InputError, match="give a `gd` optimizer"):
        error_bound(closure, compress(form, weights), Optimizer(kind="momentum"), 2)
