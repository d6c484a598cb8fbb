"""The engine against plain loops written with nothing but NumPy and jax.grad."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from nqf_pipeline.dynamics import pytrees
from nqf_pipeline.dynamics.divergence import diverged_step
from nqf_pipeline.dynamics.lanes import Record, data_of, hyper_of
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.train import LaneGroup, Program, train
from nqf_pipeline.models import CNN, MLP, Diagonal, MultiHead, PhaseRetrieval, QueryKey
from nqf_pipeline.tasks import Teacher

LABELLESS = [name for name in Record._fields if name not in Record._field_defaults]
STEPS = np.array([0, 1, 2, 5, 11, 20])
TASK = Teacher(strengths=(1.0, 0.5), samples=40, test_samples=30)
SMALL = {
    "mlp": MLP(inputs=5, width=6, outputs=3),
    "cnn": CNN(image=(3, 4), kernel=(2, 2), width=5, outputs=2),
    "multi_head": MultiHead(dimension=4, key_size=2, value_size=3, tokens=3, outputs=2, width=2),
    "query_key": QueryKey(dimension=4, key_size=2, tokens=3, outputs=2, width=3),
    "phase_retrieval": PhaseRetrieval(inputs=4, width=3),
}


def lanes(architecture, optimizer, seeds, sigma=0.1, precision="float64", shared=False, steps=STEPS):
    problems = [TASK.problem(architecture, np.random.default_rng(0 if shared else seed)) for seed in seeds]
    program = Program(architecture, optimizer.program, optimizer.batch_size, precision, shared)
    data = [data_of(architecture, problem, samples_needed=not program.network_is_twin) for problem in problems]
    weights = [sigma * architecture.initial(np.random.default_rng([seed, 1])) for seed in seeds]
    group = LaneGroup(
        data=data[0] if shared else pytrees.stack(data),
        weights=np.stack(weights),
        hyper=pytrees.stack([hyper_of(optimizer)] * len(seeds)),
        batch_key=jax.vmap(jax.random.key)(np.array(seeds)),
        step_number=steps,
    )
    return program, group, problems, weights


def run(*args, **kwargs):
    program, group, problems, weights = lanes(*args, **kwargs)
    return train(program, program.compile(group), group), problems, weights


def plain_losses(objective, weights, update, steps=STEPS):
    """Loss at the recorded steps of an optax loop with no scan, no lanes and no moments."""
    weights, state, losses = jnp.asarray(weights), update.init(jnp.asarray(weights)), []
    for step in range(steps[-1] + 1):
        if step in steps:
            losses.append(float(objective(weights)))
        gradient = jax.grad(objective)(weights)
        with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a Python float to an integer array
            change, state = update.update(gradient, state, weights)
        weights = optax.apply_updates(weights, change)
    return np.array(losses)


def squared_error(output, problem):
    return ((output - problem.targets) ** 2).sum() / problem.targets.shape[-1]


OPTIMIZERS = {
    "gd": (Optimizer(kind="gd", learning_rate=0.05), optax.sgd(0.05)),
    "momentum": (Optimizer(kind="momentum", learning_rate=0.02), optax.sgd(0.02, momentum=0.9)),
    "decay": (Optimizer(kind="gd", learning_rate=0.05, weight_decay=0.3), optax.chain(optax.add_decayed_weights(0.3), optax.sgd(0.05))),
    "adam": (Optimizer(kind="adam", learning_rate=0.01), optax.adam(0.01)),
    "adamw": (Optimizer(kind="adam", learning_rate=0.01, weight_decay=0.3), optax.adamw(0.01, weight_decay=0.3)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["mlp", "query_key"])
def test_network_and_twin_follow_a_plain_loop(kind, name):
    architecture, (optimizer, update) = SMALL[kind], OPTIMIZERS[name]
    record, (problem,), (weights,) = run(architecture, optimizer, [3])
    network = plain_losses(lambda w: squared_error(architecture.apply(w, problem.inputs), problem), weights, update)
    structure = problem.structure
    twin = plain_losses(lambda w: squared_error(structure.offset + structure.apply(architecture.order(w)), problem), weights, update)
    np.testing.assert_allclose(record.network_loss[0], network, rtol=1e-10)
    np.testing.assert_allclose(record.twin_loss[0], twin, rtol=1e-10)


@pytest.mark.parametrize("kind", SMALL)
def test_twin_without_samples_is_the_twin_through_samples(kind):
    architecture = SMALL[kind]
    record, (problem,), (weights,) = run(architecture, Optimizer(kind="gd", learning_rate=0.02), [1])
    structure = problem.structure
    through_samples = plain_losses(
        lambda w: squared_error(structure.offset + structure.apply(architecture.order(w)), problem), weights, optax.sgd(0.02)
    )
    np.testing.assert_allclose(record.twin_loss[0], through_samples, rtol=1e-9)


def test_an_exactly_quadratic_module_is_its_own_twin():
    record, (problem,), (weights,) = run(SMALL["phase_retrieval"], Optimizer(kind="gd", learning_rate=0.02), [1])
    network = plain_losses(lambda w: squared_error(SMALL["phase_retrieval"].apply(w, problem.inputs), problem), weights, optax.sgd(0.02))
    np.testing.assert_allclose(record.network_loss[0], network, rtol=1e-9)
    np.testing.assert_array_equal(record.network_loss, record.twin_loss)
    assert not record.divergence.any()


@pytest.mark.parametrize("kind", ["mlp", "query_key"])
def test_minibatches_are_common_to_network_and_twin(kind):
    """With the linear activation the MLP is its own twin; with tiny weights any network is, but only on equal batches."""
    architecture = MLP(inputs=5, width=6, outputs=3, activation="linear") if kind == "mlp" else SMALL[kind]
    record, _, _ = run(architecture, Optimizer(kind="sgd", learning_rate=0.05, batch_size=4), [0, 1], sigma=0.3 if kind == "mlp" else 1e-4)
    np.testing.assert_allclose(record.network_mode, record.twin_mode, rtol=1e-4)
    assert np.ptp(record.network_loss[:, -1]) > 0


def test_minibatch_draws_differ_from_step_to_step_and_lane_to_lane():
    optimizer = Optimizer(kind="sgd", learning_rate=0.05, batch_size=4)
    full, _, _ = run(SMALL["mlp"], Optimizer(kind="gd", learning_rate=0.05), [0, 0], shared=True)
    program, group, _, _ = lanes(SMALL["mlp"], optimizer, [0, 0], shared=True)
    other = LaneGroup(group.data, group.weights, group.hyper, jax.vmap(jax.random.key)(np.array([7, 8])), group.step_number)
    record = train(program, program.compile(other), other)
    assert record.network_loss[0, -1] != record.network_loss[1, -1]
    assert np.abs(record.network_loss - full.network_loss)[:, 1:].min() > 0


@pytest.mark.parametrize("kind", ["mlp", "multi_head", "cnn"])
def test_a_lane_does_not_depend_on_its_companions(kind):
    """Bit for bit, at equal lane width."""
    optimizer = Optimizer(kind="gd", learning_rate=0.05)
    together, _, _ = run(SMALL[kind], optimizer, [0, 1, 2, 3], precision="float32")
    others, _, _ = run(SMALL[kind], optimizer, [5, 2, 9, 0], precision="float32")
    for name in LABELLESS:
        np.testing.assert_array_equal(getattr(together, name)[0], getattr(others, name)[3], err_msg=name)
        np.testing.assert_array_equal(getattr(together, name)[2], getattr(others, name)[1], err_msg=name)


def test_lane_width_changes_only_the_last_digits():
    optimizer = Optimizer(kind="gd", learning_rate=0.05)
    together, _, _ = run(SMALL["mlp"], optimizer, [0, 1, 2, 3])
    alone, _, _ = run(SMALL["mlp"], optimizer, [2])
    np.testing.assert_allclose(alone.network_loss[0], together.network_loss[2], rtol=1e-12)


def test_float32_stays_float32_and_close():
    optimizer = Optimizer(kind="gd", learning_rate=0.05)
    single, _, _ = run(SMALL["mlp"], optimizer, [0], precision="float32")
    double, _, _ = run(SMALL["mlp"], optimizer, [0])
    assert all(getattr(single, name).dtype == np.float32 for name in LABELLESS)
    np.testing.assert_allclose(single.network_loss, double.network_loss, rtol=1e-4)


def test_one_program_serves_every_horizon_and_learning_rate():
    program, group, _, _ = lanes(SMALL["mlp"], Optimizer(kind="gd", learning_rate=0.05), [0])
    executable = program.compile(group)
    momentum = pytrees.stack([hyper_of(Optimizer(kind="momentum", learning_rate=0.01))])
    longer = LaneGroup(group.data, group.weights, momentum, group.batch_key, STEPS * 10)
    record = train(program, executable, longer)
    direct, _, _ = run(SMALL["mlp"], Optimizer(kind="momentum", learning_rate=0.01), [0], steps=STEPS * 10)
    np.testing.assert_array_equal(record.network_loss, direct.network_loss)


def test_test_losses_are_losses_on_test_samples():
    record, (problem,), (weights,) = run(SMALL["mlp"], Optimizer(kind="gd", learning_rate=0.05), [0])
    output = SMALL["mlp"].apply(weights, problem.test_inputs)
    expected = ((output - problem.test_targets) ** 2).sum() / problem.test_targets.shape[-1]
    np.testing.assert_allclose(record.network_test_loss[0, 0], expected, rtol=1e-12)
    assert not np.allclose(record.network_test_loss, record.network_loss)


def test_divergence_is_the_relative_distance_of_outputs():
    record, (problem,), (weights,) = run(SMALL["mlp"], Optimizer(kind="gd", learning_rate=0.05), [0], sigma=0.5)
    architecture, structure = SMALL["mlp"], problem.structure
    gap = architecture.apply(weights, problem.inputs) - structure.offset - structure.apply(architecture.order(weights))
    expected = np.sqrt((gap**2).sum() / ((problem.targets - structure.offset) ** 2).sum())
    np.testing.assert_allclose(record.divergence[0, 0], expected, rtol=1e-12)


def test_a_diverging_lane_leaves_its_companions_alone():
    program, group, _, _ = lanes(SMALL["mlp"], Optimizer(kind="gd", learning_rate=0.05), [0, 1], steps=STEPS * 20)
    wild = group.hyper._replace(learning_rate=np.array([0.05, 50.0]))
    record = train(program, program.compile(group), LaneGroup(group.data, group.weights, wild, group.batch_key, STEPS * 20))
    calm = train(program, program.compile(group), group)
    np.testing.assert_array_equal(record.network_loss[0], calm.network_loss[0])
    steps = diverged_step(record.network_loss, record.twin_loss, STEPS * 20)
    assert steps[0] == -1
    assert steps[1] > 0


def test_diverged_step_is_the_first_bad_record():
    steps = np.array([0, 10, 100])
    loss = np.array([[1.0, 0.5, 0.1], [1.0, np.nan, np.inf], [1.0, 2.0, 1e9]])
    np.testing.assert_array_equal(diverged_step(loss, np.ones((3, 3)), steps), [-1, 10, 100])
    np.testing.assert_array_equal(diverged_step(np.ones((3, 3)), loss, steps), [-1, 10, 100])


def test_rowwise_structures_train_too():
    task = Teacher(strengths=(1.0, 0.5), samples=40, test_samples=30)
    architecture = Diagonal(inputs=4, width=2)
    problem = task.problem(architecture, np.random.default_rng(0))
    assert problem.moments.kind == "dense"
    program = Program(architecture, "linear", None, "float64", False)
    weights = 0.3 * architecture.initial(np.random.default_rng(1))
    group = LaneGroup(
        pytrees.stack([data_of(architecture, problem, samples_needed=False)]),
        weights[None],
        pytrees.stack([hyper_of(Optimizer(kind="gd", learning_rate=0.05))]),
        jax.vmap(jax.random.key)(np.array([0])),
        STEPS,
    )
    record = train(program, program.compile(group), group)
    plain = plain_losses(lambda w: squared_error(architecture.apply(w, problem.inputs), problem), weights, optax.sgd(0.05))
    np.testing.assert_allclose(record.network_loss[0], plain, rtol=1e-10)
