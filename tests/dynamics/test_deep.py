"""Stacks of quadratic forms against weight-space training of every layer at once."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from nqf_pipeline.dynamics.deep import ArchitectureLayer, compress_layers, deep_closure
from nqf_pipeline.dynamics.losses import softmax_cross_entropy, squared_error
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.quadratic import DenseForm, Order
from nqf_pipeline.models import MLP
from tests.dynamics import weightspace

STEPS = 1000
EVERY = np.arange(STEPS + 1)


class Coupled:
    """f(0), g, A and B that all depend on the inputs, not linearly."""

    def __init__(self, rng, features, outputs, size):
        self.constant, self.slope = rng.standard_normal((2, outputs, features)) / features
        self.g, self.A, self.B = (
            rng.standard_normal((outputs, *shape, features)) / (2 * size) for shape in ((size,), (size, size), (size, size))
        )

    def __call__(self, h):
        a, b = (jnp.einsum("opqf,fm->ompq", part + part.swapaxes(1, 2), h) for part in (self.A, self.B / 4))
        return DenseForm(self.constant @ h, jnp.tanh(jnp.einsum("opf,fm->omp", self.g, h)), a, b)


def largest_gap(trajectories, path):
    pairs = [
        (getattr(found.order, name), expected)
        for found, weights in zip(trajectories, path, strict=True)
        for name, expected in (("second", weights @ weights.swapaxes(-1, -2)), ("mean", weights.sum(-1)))
    ]
    return max(np.abs(found - expected).max() / np.abs(expected).max() for found, expected in pairs)


def test_two_coupled_layers(rng) -> None:
    sizes, widths = (3, 4), (6, 5)
    layers = [Coupled(rng, *shape) for shape in ((3, 4, 3), (4, 2, 4))]
    weights = [0.2 * rng.standard_normal(shape) for shape in zip(sizes, widths, strict=True)]
    inputs, targets = rng.standard_normal((3, 10)), rng.standard_normal((2, 10))
    optimizer = Optimizer(kind="momentum", learning_rate=0.002, weight_decay=0.05)
    rule = optax.chain(optax.add_decayed_weights(0.05), optax.sgd(0.002, momentum=0.9))

    def objective(parts, _):
        h = jnp.asarray(inputs)
        for layer, part in zip(layers, parts, strict=True):
            h = weightspace.unit_outputs(layer(h), part)
        return squared_error(h, jnp.asarray(targets))

    path = weightspace.train(objective, weights, rule, STEPS)
    closed = deep_closure(layers, inputs, targets, squared_error, weights).train(optimizer, EVERY)
    assert min(np.abs(part[-1] - part[0]).max() for part in path) > 0.1
    assert largest_gap(closed, path) < 1e-10


def test_stacked_architectures(rng) -> None:
    """Three linear networks on top of each other; softmax cross-entropy at the top."""
    stack = [ArchitectureLayer(MLP(inputs=a, outputs=b, width=6)) for a, b in ((5, 4), (4, 4), (4, 3))]
    weights = [0.4 * rng.standard_normal((layer.architecture.unit_size, 6)) for layer in stack]
    inputs, targets = rng.standard_normal((5, 20)), np.eye(3)[rng.integers(0, 3, 20)].T

    def objective(parts, _):
        h = jnp.asarray(inputs)
        for layer, part in zip(stack, parts, strict=True):
            first, second = layer.architecture.factors(part)
            h = second @ (first.T @ h)
        return softmax_cross_entropy(h, jnp.asarray(targets))

    path = weightspace.train(objective, weights, optax.sgd(0.05), STEPS)
    units = [layer.units(part) for layer, part in zip(stack, weights, strict=True)]
    closed = deep_closure(stack, inputs, targets, softmax_cross_entropy, units).train(Optimizer(learning_rate=0.05), EVERY)
    assert closed[0].loss[-1] < 0.8 * closed[0].loss[0]
    assert largest_gap(closed, path) < 1e-10


def test_every_layer_compresses(rng) -> None:
    """Widths of 9 and 9 at 4 and 5 units; with one rate for all layers the stack would learn something else."""
    layers = [Coupled(rng, *shape) for shape in ((3, 4, 3), (4, 2, 4))]
    weights = [0.2 * rng.standard_normal((size, 9)) for size in (3, 4)]
    inputs, targets = rng.standard_normal((3, 10)), rng.standard_normal((2, 10))
    closure = deep_closure(layers, inputs, targets, squared_error, weights)
    optimizer = Optimizer(kind="momentum", learning_rate=0.001, weight_decay=0.05)
    small, compressed = compress_layers(closure, weights)
    assert [part.shape for part in compressed] == [(3, 4), (4, 5)]
    full, found = closure.train(optimizer, EVERY), small.train(optimizer, EVERY)
    assert full[0].loss[-1] < 0.7 * full[0].loss[0]
    np.testing.assert_allclose(found[0].loss, full[0].loss, rtol=1e-12)
    for before, after, width in zip(full, found, (4, 5), strict=True):
        np.testing.assert_allclose(after.order.second * width / 9, before.order.second, atol=1e-12)
        np.testing.assert_allclose(after.order.mean, before.order.mean, atol=1e-12)
    alike = replace(small, ratios=()).train(optimizer, EVERY)
    assert np.abs(alike[0].loss - full[0].loss).max() > 1e-2


def test_one_array_of_weights_a_layer(rng) -> None:
    with pytest.raises(InputError, match="2 layers and weights for 1"):
        deep_closure([Coupled(rng, 3, 3, 2)] * 2, np.ones((3, 1)), np.ones((3, 1)), squared_error, [np.ones((2, 2))])


def test_order_of_weights() -> None:
    weights = np.array([[1.0, 2.0], [3.0, 5.0]])
    np.testing.assert_array_equal(Order.of(weights).second, [[5, 13], [13, 34]])
    np.testing.assert_array_equal(Order.of(weights).mean, [3, 8])
