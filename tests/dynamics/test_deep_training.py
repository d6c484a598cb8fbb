"""The engine on several layers: against plain loops, against the closure per layer, and through every option of a study."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.dynamics import pytrees
from nqf_pipeline.dynamics.deep import compress_layers, deep_closure, layers_of, units_of
from nqf_pipeline.dynamics.lanes import data_of, hyper_of
from nqf_pipeline.dynamics.losses import squared_error
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.train import LaneGroup, Program, train
from nqf_pipeline.models import DeepAttention, DeepMLP
from nqf_pipeline.tasks import TeacherNetwork

STEPS = np.array([0, 1, 2, 5, 11, 40])
TASK = TeacherNetwork(scale=0.6, samples=30, test_samples=20)
STACKS = {
    "deep_mlp": DeepMLP(inputs=3, between=4, outputs=2, width=5),
    "deep_attention": DeepAttention(dimension=3, key_size=2, value_size=2, tokens=3, outputs=2, width=2),
}
SHALLOW = {name: stack.model_copy(update={"twin_depth": "shallow"}) for name, stack in STACKS.items()}


def run(stack, optimizer, seeds, precision="float64"):
    problems = [TASK.problem(stack, np.random.default_rng(seed)) for seed in seeds]
    weights = [0.4 * stack.initial(np.random.default_rng([seed, 1])) for seed in seeds]
    program = Program(stack, optimizer.program, optimizer.batch_size, precision, False)
    group = LaneGroup(
        data=pytrees.stack([data_of(stack, p, samples_needed=program.reads_samples, fresh=optimizer.fresh) for p in problems]),
        weights=np.stack(weights),
        hyper=pytrees.stack([hyper_of(optimizer)] * len(seeds)),
        batch_key=jax.vmap(jax.random.key)(np.array(seeds)),
        step_number=STEPS,
    )
    return train(program, program.compile(group), group), problems, weights


def plain_losses(objective, weights):
    """Losses at the recorded steps of gradient descent at rate 0.05, in a Python loop."""
    slope, value, losses = jax.jit(jax.grad(objective)), jax.jit(objective), []
    for _ in range(STEPS[-1] + 1):
        losses.append(float(value(weights)))
        weights = weights - 0.05 * slope(weights)
    return np.array(losses)[STEPS]


@pytest.mark.parametrize("stack", [*STACKS.values(), *SHALLOW.values()], ids=lambda stack: f"{stack.name}_{stack.twin_depth}")
def test_network_and_twin_follow_a_plain_loop(stack):
    record, (problem,), (weights,) = run(stack, Optimizer(learning_rate=0.05), [3])
    x, y = problem.inputs, jnp.asarray(problem.targets)
    network = plain_losses(lambda w: squared_error(stack.apply(w, x), y), weights)

    def single(w):
        """One block made of the ends, its rows put together by hand."""
        bottom, top = stack.parts(w)[0], stack.parts(w)[-1]
        first, last = stack.blocks[0].factors(bottom)[0], stack.blocks[-1].factors(top)[1]
        features = x if stack.name == "deep_mlp" else x.mean(1)
        return last @ (first.T @ features)

    twin = (lambda w: stack.expanded(w, x)) if stack.twin_depth == "deep" else single
    expected = plain_losses(lambda w: squared_error(twin(w), y), weights)
    np.testing.assert_allclose(record.network_loss[0], network, rtol=1e-9)
    np.testing.assert_allclose(record.twin_loss[0], expected, rtol=1e-9)
    assert record.twin_loss[0, -1] < 0.95 * record.twin_loss[0, 0]
    error = squared_error(twin(jnp.asarray(weights)), y)
    np.testing.assert_allclose(record.twin_loss[0, 0], error, rtol=1e-12)
    share = (twin(jnp.asarray(weights)) * y).sum() / (y**2).sum()
    np.testing.assert_allclose(record.twin_mode[0, 0], [share], rtol=1e-10)
    assert np.isnan(record.order_parameter).all()


@pytest.mark.parametrize(("name", "kind"), [("deep_mlp", "momentum"), ("deep_attention", "gd")])
def test_the_deep_twin_obeys_the_closure_per_layer(name, kind):
    """Theorem 14 with the engine's weights on one side and (M, mu) of every layer on the other."""
    stack = STACKS[name]
    optimizer = Optimizer(kind=kind, learning_rate=0.05 if kind == "gd" else 0.01, weight_decay=0.02)
    record, (problem,), (weights,) = run(stack, optimizer, [1])
    closed = deep_closure(layers_of(stack), problem.inputs, problem.targets, squared_error, units_of(stack, weights))
    (first, _) = closed.train(optimizer, STEPS)
    assert first.loss[-1] < 0.95 * first.loss[0]
    np.testing.assert_allclose(record.twin_loss[0], first.loss, rtol=1e-10)


def test_wide_layers_compress_to_the_same_twin():
    """Theorem 15 on the twin that a study trains: widths of 40 at 8 and 7 units."""
    stack, optimizer = DeepMLP(inputs=3, between=4, outputs=2, width=40), Optimizer(learning_rate=0.002)
    record, (problem,), (weights,) = run(stack, optimizer, [1])
    closure = deep_closure(layers_of(stack), problem.inputs, problem.targets, squared_error, units_of(stack, weights))
    small, parts = compress_layers(closure, units_of(stack, weights))
    assert [part.shape for part in parts] == [(7, 8), (6, 7)]
    np.testing.assert_allclose(record.twin_loss[0], small.train(optimizer, STEPS)[0].loss, rtol=1e-10)


@pytest.mark.parametrize(("name", "fresh"), [("deep_mlp", True), ("deep_attention", False)])
def test_minibatches_are_common_and_lanes_independent(name, fresh):
    stack = STACKS[name]
    optimizer = Optimizer(kind="sgd", learning_rate=0.02, batch_size=8, fresh=fresh)
    first, _, _ = run(stack, optimizer, [0, 1], precision="float32")
    other, _, _ = run(stack, optimizer, [2, 0], precision="float32")
    for name in ("network_loss", "twin_loss", "twin_test_loss", "divergence", "twin_mode"):
        np.testing.assert_array_equal(getattr(first, name)[0], getattr(other, name)[1], err_msg=name)
    assert (first.twin_loss[:, -1] != first.twin_loss[:, 0]).all()


def test_shallow_and_deep_cells_train_one_network():
    optimizer = Optimizer(learning_rate=0.02)
    deep, shallow = (run(stack, optimizer, [0])[0] for stack in (STACKS["deep_mlp"], SHALLOW["deep_mlp"]))
    np.testing.assert_allclose(deep.network_loss, shallow.network_loss, rtol=1e-9)
    assert np.abs(deep.twin_loss - shallow.twin_loss).max() > 0.01
