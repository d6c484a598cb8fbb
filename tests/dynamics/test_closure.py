"""(M, mu) against weight-space training with g and B non-zero."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from nqf_pipeline import normal_form
from nqf_pipeline.dynamics.closed import logistic as logistic_growth
from nqf_pipeline.dynamics.closure import Closure, Objective
from nqf_pipeline.dynamics.losses import logistic, softmax_cross_entropy, squared_error
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.quadratic import DenseForm, Order
from nqf_pipeline.forms.taylor import quadratic_form
from tests.dynamics import weightspace

STEPS = 1000
EVERY = np.arange(STEPS + 1)
WIDTH = 5
OPTIMIZERS = {
    "sgd": Optimizer(learning_rate=0.02),
    "momentum": Optimizer(kind="momentum", learning_rate=0.01),
    "decay": Optimizer(learning_rate=0.02, weight_decay=0.1),
    "momentum_decay": Optimizer(kind="momentum", learning_rate=0.01, weight_decay=0.1),
}


def targets_of(loss, rng, shape):
    if loss is squared_error:
        return rng.standard_normal(shape)
    if loss is logistic:
        return np.sign(rng.standard_normal(shape))
    return np.eye(shape[0])[rng.integers(0, shape[0], shape[1])].T


def in_weights(form, targets, loss, weights, rule, batches=None):
    form = jax.tree.map(jnp.asarray, form)

    def objective(at, index):
        seen, goal = (form, targets) if index is None else (form.take(index), jnp.asarray(targets)[:, index])
        return loss(weightspace.unit_outputs(seen, at), goal)

    return weightspace.train(objective, weights, rule, STEPS, batches)


def worst(trajectory, weights):
    """Largest deviation of (M, mu) from weights' own, over all steps, relative to the largest entries met."""
    second, mean = weights @ weights.swapaxes(-1, -2), weights.sum(-1)
    gaps = (
        np.abs(trajectory.order.second - second).max() / np.abs(second).max(),
        np.abs(trajectory.order.mean - mean).max() / np.abs(mean).max(),
    )
    return max(gaps)


PAIRS = [*((name, squared_error) for name in OPTIMIZERS), ("momentum_decay", logistic), ("decay", softmax_cross_entropy)]


@pytest.mark.parametrize(("name", "loss"), PAIRS, ids=lambda part: getattr(part, "__name__", part))
def test_follows_weights_for_a_thousand_steps(name, loss, rng) -> None:
    form, weights = weightspace.random_form(rng), 0.3 * rng.standard_normal((4, WIDTH))
    targets = targets_of(loss, rng, (2, 12))
    path = in_weights(form, targets, loss, weights, weightspace.OPTAX[name])
    (closed,) = Closure.single(form, targets, loss, weights).train(OPTIMIZERS[name], EVERY)
    assert np.abs(path[-1] - path[0]).max() > 0.1
    assert worst(closed, path) < 1e-10
    np.testing.assert_allclose(closed.loss[-1], loss(weightspace.unit_outputs(form, path[-1]), jnp.asarray(targets)), rtol=1e-11)


@pytest.mark.parametrize("name", ["sgd", "momentum_decay"])
def test_follows_weights_on_minibatches(name, rng) -> None:
    form, weights, targets = weightspace.random_form(rng), 0.3 * rng.standard_normal((4, WIDTH)), rng.standard_normal((2, 12))
    batches = rng.integers(0, 12, (STEPS, 3))
    path = in_weights(form, targets, squared_error, weights, weightspace.OPTAX[name], batches)
    numbers = OPTIMIZERS[name].model_dump(include={"learning_rate", "weight_decay"})
    optimizer = Optimizer(kind="momentum" if "momentum" in name else "sgd", batch_size=3, **numbers)
    (closed,) = Closure.single(form, targets, squared_error, weights).train(optimizer, EVERY, batches)
    assert worst(closed, path) < 1e-10


def test_span_without_memory_is_plain_descent(rng) -> None:
    """Both programs at a momentum that is as good as none."""
    form, weights, targets = weightspace.random_form(rng), 0.3 * rng.standard_normal((4, WIDTH)), rng.standard_normal((2, 12))
    closure = Closure.single(form, targets, squared_error, weights)
    (plain,) = closure.train(Optimizer(learning_rate=0.02, weight_decay=0.1), EVERY)
    (spanned,) = closure.train(Optimizer(kind="momentum", momentum=1e-300, learning_rate=0.02, weight_decay=0.1), EVERY)
    np.testing.assert_allclose(plain.order.second, spanned.order.second, atol=1e-12)


def test_records_do_not_change_the_path(rng) -> None:
    form, weights, targets = weightspace.random_form(rng), 0.3 * rng.standard_normal((4, WIDTH)), rng.standard_normal((2, 12))
    closure, few = Closure.single(form, targets, squared_error, weights), np.array([0, 1, 7, 90])
    (every,), (some,) = closure.train(OPTIMIZERS["momentum"], EVERY), closure.train(OPTIMIZERS["momentum"], few)
    np.testing.assert_allclose(some.order.second, every.order.second[few], rtol=1e-12)
    np.testing.assert_allclose(some.loss, every.loss[few], rtol=1e-12)


def interacting(weights: jax.Array, x: jax.Array) -> jax.Array:
    """Units meet inside the exponential, so B is needed."""
    return 0.3 * jnp.stack([jnp.exp(x.T @ weights.sum(1)), jnp.tanh(x.T @ weights).sum(1)])


def test_convention_of_b_matters(rng) -> None:
    """The automatic expansion, closed, is the module's Taylor twin; Theorem 12's own pair of Hessian blocks is not."""
    x, targets, weights = 0.7 * rng.standard_normal((3, 8)), rng.standard_normal((2, 8)), 0.4 * rng.standard_normal((3, WIDTH))
    twin = quadratic_form(interacting)
    path = weightspace.train(
        lambda at, _: squared_error(twin(at, jnp.asarray(x)), jnp.asarray(targets)), weights, weightspace.OPTAX["sgd"], STEPS
    )
    form = DenseForm.of(normal_form(interacting, x, WIDTH, 3))
    (closed,) = Closure.single(form, targets, squared_error, weights).train(OPTIMIZERS["sgd"], EVERY)
    assert worst(closed, path) < 1e-10
    over_distinct_pairs = DenseForm(form.f0, form.g, form.A + form.B, form.B)
    (confused,) = Closure.single(over_distinct_pairs, targets, squared_error, weights).train(OPTIMIZERS["sgd"], EVERY)
    assert worst(confused, path) > 1e-3


def test_flow_follows_weights(rng) -> None:
    form, weights, targets = weightspace.random_form(rng), 0.3 * rng.standard_normal((4, WIDTH)), rng.standard_normal((2, 12))
    time = np.linspace(0, 8, 9)
    fall = jax.jit(jax.grad(lambda at: -squared_error(weightspace.unit_outputs(form, at), jnp.asarray(targets)) - 0.05 * (at**2).sum()))
    whole = solve_ivp(
        lambda _, w: np.asarray(fall(w.reshape(4, -1))).ravel(), (0, 8), weights.ravel(), "LSODA", time, rtol=1e-12, atol=1e-12
    )
    path = whole.y.T.reshape(9, 4, WIDTH)
    (flowing,) = Closure.single(form, targets, squared_error, weights).flow(time, weight_decay=0.1)
    assert worst(flowing, path) < 1e-8


def test_flow_of_one_feature_is_logistic() -> None:
    """f = c z at one sample: dz/dt = z (8 c y - 8 c^2 z) from a seed of 1e-10."""
    coefficient, target, weights = 0.7, 1.3, np.array([[1e-5]])
    form = DenseForm(np.zeros((1, 1)), np.zeros((1, 1, 1)), np.full((1, 1, 1, 1), coefficient), np.zeros((1, 1, 1, 1)))
    time = np.linspace(0, 6, 30)
    (flowing,) = Closure.single(form, np.array([[target]]), squared_error, weights).flow(time)
    expected = logistic_growth(time, 8 * coefficient * target, 8 * coefficient**2, 1e-10)
    np.testing.assert_allclose(flowing.order.second[:, 0, 0], expected, rtol=1e-7)


def test_small_steps_approach_the_flow(rng) -> None:
    form, weights, targets = weightspace.random_form(rng), 0.3 * rng.standard_normal((4, WIDTH)), rng.standard_normal((2, 12))
    closure = Closure.single(form, targets, squared_error, weights)
    (flowing,) = closure.flow(np.array([0.0, 2.0]))
    gaps = []
    for steps in (200, 400):
        (stepped,) = closure.train(Optimizer(learning_rate=2 / steps), np.array([0, steps]))
        gaps.append(np.abs(stepped.order.second[-1] - flowing.order.second[-1]).max())
    assert gaps[0] / gaps[1] == pytest.approx(2, abs=0.1)


def test_refusals(rng) -> None:
    form, targets, weights = weightspace.random_form(rng), rng.standard_normal((2, 12)), np.ones((4, 2))
    closure = Closure.single(form, targets, squared_error, weights)
    with pytest.raises(InputError, match=r"adam divides every entry .*Corollary 2"):
        closure.train(Optimizer(kind="adam"), EVERY)
    with pytest.raises(InputError, match="give both or neither"):
        closure.train(Optimizer(kind="sgd", batch_size=3), EVERY)
    with pytest.raises(InputError, match=r"\(5, 3\) for 1000 steps of 3 samples"):
        closure.train(Optimizer(kind="sgd", batch_size=3), EVERY, np.zeros((5, 3), int))
    with pytest.raises(InputError, match=r"targets for 11 samples and a form at 12"):
        Closure.single(form, targets[:, 1:], squared_error, weights)
    with pytest.raises(InputError, match=r"shape \(\), and \(outputs, samples\)"):
        DenseForm.of(normal_form(lambda w, x: w.sum(), np.zeros(1), 2, 3))
    assert isinstance(closure.objective, Objective)
    np.testing.assert_array_equal(closure.start[0].second, Order.of(weights).second)
