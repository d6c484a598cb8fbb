"""Vector structure: softmax cross-entropy on the ten digits, closure against twin in weight space."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.datasets import load_digits

from nqf_pipeline.dynamics.closure import Closure
from nqf_pipeline.dynamics.compressed import compressed_optimizer
from nqf_pipeline.dynamics.losses import logistic, softmax_cross_entropy
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.compression import compress
from nqf_pipeline.forms.quadratic import StructureForm
from nqf_pipeline.forms.taylor import quadratic_form
from nqf_pipeline.models import MLP
from tests.dynamics import weightspace

STEPS, SAMPLES = 1000, 200
RECORDS = np.arange(0, STEPS + 1, 50)


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    centred = images[:SAMPLES] - images[:SAMPLES].mean(0)
    return (centred / centred.std()).T, labels[:SAMPLES]


def closed(architecture, inputs, targets, loss, weights):
    form, units = StructureForm.of(architecture.structure(inputs), architecture.factors(weights), rowwise=False)
    return form, units, Closure.single(form, targets, loss, units)


@pytest.mark.parametrize("loss", [softmax_cross_entropy, logistic], ids=lambda loss: loss.__name__)
def test_closure_and_twin_agree(loss, digits, rng) -> None:
    inputs, labels = digits
    several = loss is softmax_cross_entropy
    targets = np.eye(10)[labels].T if several else np.where(labels % 2 == 1, 1.0, -1.0)[None]
    a = MLP(inputs=64, outputs=len(targets), width=16)
    weights = 0.01 * a.initial(rng)
    twin = quadratic_form(a.network)
    data, goal = jnp.asarray(inputs), jnp.asarray(targets)
    rate = 0.2
    path = weightspace.train(lambda at, _: loss(twin(at, data), goal), weights, optax.sgd(rate), STEPS)[RECORDS]
    (found,) = closed(a, inputs, targets, loss, weights)[2].train(Optimizer(learning_rate=rate), RECORDS)
    second = path @ path.swapaxes(1, 2)
    assert np.abs(found.order.second - second).max() / np.abs(second).max() < 1e-10
    outputs = twin(jnp.asarray(path[-1]), data)
    accuracy = np.mean(np.argmax(outputs, 0) == labels) if several else np.mean(np.sign(outputs) == targets)
    assert accuracy > 0.95
    assert found.loss[-1] < 0.2 * found.loss[0]


def test_ten_classes_compress(digits, rng) -> None:
    """100 neurons at k_V + 1 = 61 + 10 + 1: pixels that never vary carry no direction."""
    inputs, labels = digits
    targets = np.eye(10)[labels].T
    a = MLP(inputs=64, outputs=10, width=100)
    form, units, closure = closed(a, inputs, targets, softmax_cross_entropy, 0.01 * a.initial(rng))
    compression = compress(form, units)
    rank = np.linalg.matrix_rank(inputs)
    assert rank < 64
    assert compression.weights.shape == (74, rank + 11)
    optimizer, steps = Optimizer(kind="momentum", learning_rate=0.02, weight_decay=0.001), np.array([0, 50, 300])
    small = Closure.single(compression.form, targets, softmax_cross_entropy, compression.weights)
    (full,), (found,) = closure.train(optimizer, steps), small.train(compressed_optimizer(optimizer, compression), steps)
    np.testing.assert_allclose(found.loss, full.loss, rtol=1e-12)
    assert full.loss[-1] < 0.5 * full.loss[0]


def test_loss_conventions() -> None:
    """Means over samples of sums over outputs; uniform logits cost ln of the number of classes."""
    outputs, targets = jnp.zeros((10, 3)), jnp.asarray(np.eye(10)[:, :3])
    assert softmax_cross_entropy(outputs, targets) == pytest.approx(np.log(10))
    assert logistic(jnp.zeros((2, 3)), jnp.ones((2, 3))) == pytest.approx(2 * np.log(2))
    outputs = jnp.asarray(np.random.default_rng(0).standard_normal((10, 3)))
    expected = -np.log(np.exp(np.asarray(outputs)).T / np.exp(np.asarray(outputs)).sum(0)[:, None]).diagonal().mean()
    assert softmax_cross_entropy(outputs, targets) == pytest.approx(expected)
    two = jnp.stack([jnp.full(4, 0.3), jnp.full(4, -0.4)])
    np.testing.assert_allclose(softmax_cross_entropy(two, jnp.eye(2)[:, [0, 0, 0, 0]]), logistic(two[:1] - two[1:], jnp.ones((1, 4))))
    assert jax.grad(logistic)(jnp.array([[1e4]]), jnp.array([[-1.0]])) == pytest.approx(1)
