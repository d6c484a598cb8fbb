"""Online training: every batch drawn anew inside the compiled loop, and the exact recurrence of (M, mu) on the same batches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.dynamics import pytrees
from nqf_pipeline.dynamics.closure import Closure
from nqf_pipeline.dynamics.lanes import data_of, hyper_of
from nqf_pipeline.dynamics.losses import squared_error
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.train import LaneGroup, Program, train
from nqf_pipeline.forms.quadratic import StructureForm
from nqf_pipeline.models import MLP, QueryKey
from nqf_pipeline.tasks import Teacher, TeacherNetwork

STEPS = np.array([0, 1, 2, 5, 11, 40])
SGD = Optimizer(kind="sgd", learning_rate=0.05, batch_size=8, fresh=True)
SMALL = {"mlp": MLP(inputs=4, width=5, outputs=2), "query_key": QueryKey(dimension=4, key_size=2, tokens=3, outputs=2, width=3)}
TASKS = {
    "teacher": Teacher(strengths=(1.0, 0.5), samples=40, test_samples=30),
    "teacher_network": TeacherNetwork(scale=0.5, samples=40, test_samples=30),
}


def lanes(architecture, task, seeds, optimizer=SGD, precision="float64"):
    problems = [task.problem(architecture, np.random.default_rng(seed)) for seed in seeds]
    group = LaneGroup(
        data=pytrees.stack([data_of(architecture, p, samples_needed=True, fresh=optimizer.fresh) for p in problems]),
        weights=np.stack([0.3 * architecture.initial(np.random.default_rng([seed, 1])) for seed in seeds]),
        hyper=pytrees.stack([hyper_of(optimizer)] * len(seeds)),
        batch_key=jax.vmap(jax.random.key)(np.array(seeds)),
        step_number=STEPS,
    )
    return Program(architecture, optimizer.program, optimizer.batch_size, precision, False), group, problems


def run(*args, **kwargs):
    program, group, problems = lanes(*args, **kwargs)
    return train(program, program.compile(group), group), problems


def batches(architecture, problem, key, steps):
    """The batches of a lane, drawn outside the loop with nothing but the documented rule."""
    for step in range(steps):
        inputs = jax.random.normal(jax.random.fold_in(jax.random.key(key), step), (*architecture.input_shape, SGD.batch_size), jnp.float64)
        yield np.asarray(inputs), np.asarray(problem.population.label(inputs))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", SMALL)
def test_network_and_twin_follow_a_plain_loop_over_fresh_batches(kind, task):
    architecture = SMALL[kind]
    record, (problem,) = run(architecture, TASKS[task], [3])
    network = twin = jnp.asarray(0.3 * architecture.initial(np.random.default_rng([3, 1])))

    def network_error(w, x, y, structure):
        return squared_error(architecture.apply(w, x), y)

    def twin_error(w, x, y, structure):
        return squared_error(structure.offset + structure.apply(architecture.order(w)), y)

    for x, y in batches(architecture, problem, 3, STEPS[-1]):
        structure = architecture.structure(x)
        network = network - 0.05 * jax.grad(network_error)(network, x, y, structure)
        twin = twin - 0.05 * jax.grad(twin_error)(twin, x, y, structure)
    expected = squared_error(architecture.apply(network, problem.inputs), problem.targets)
    np.testing.assert_allclose(record.network_loss[0, -1], expected, rtol=1e-10)
    np.testing.assert_allclose(record.twin_loss[0, -1], problem.moments.loss(architecture.order(twin)), rtol=1e-10)
    assert record.network_loss[0, -1] != record.network_loss[0, 0]


@pytest.mark.parametrize("kind", SMALL)
def test_the_moment_recurrence_is_exact_on_the_same_batches(kind):
    """One pass over a set that holds the batches one after another: Theorem 2 for online SGD, network teacher included."""
    architecture = SMALL[kind]
    record, (problem,) = run(architecture, TASKS["teacher_network"], [3])
    drawn = [*batches(architecture, problem, 3, STEPS[-1])]
    x, y = (np.concatenate(parts, -1) for parts in zip(*drawn, strict=True))
    weights = 0.3 * architecture.initial(np.random.default_rng([3, 1]))
    form, units = StructureForm.of(architecture.structure(x), architecture.factors(weights), rowwise=False)
    index = np.arange(x.shape[-1]).reshape(STEPS[-1], SGD.batch_size)
    (closed,) = Closure.single(form, y, squared_error, units).train(SGD, STEPS, index)
    blocks = closed.order.second[:, : form.split, form.split :]
    strengths = np.array([problem.modes.strength(block) for block in blocks])
    np.testing.assert_allclose(record.twin_mode[0], strengths, rtol=1e-10, atol=1e-12)
    losses = np.array([problem.moments.loss(block) for block in blocks])
    np.testing.assert_allclose(record.twin_loss[0], losses, rtol=1e-10)
    assert losses[-1] < 0.9 * losses[0]


def test_fresh_batches_are_reproducible_and_differ_by_lane():
    first, _ = run(SMALL["mlp"], TASKS["teacher"], [0, 1, 2, 3], precision="float32")
    again, _ = run(SMALL["mlp"], TASKS["teacher"], [0, 1, 2, 3], precision="float32")
    others, _ = run(SMALL["mlp"], TASKS["teacher"], [5, 2, 9, 0], precision="float32")
    for name in (field for field in first._fields if getattr(first, field) is not None):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name), err_msg=name)
        np.testing.assert_array_equal(getattr(first, name)[0], getattr(others, name)[3], err_msg=name)
        assert getattr(first, name).dtype == np.float32
    program, group, _ = lanes(SMALL["mlp"], TASKS["teacher"], [0, 0])
    other = LaneGroup(group.data, group.weights, group.hyper, jax.vmap(jax.random.key)(np.array([7, 8])), STEPS)
    record = train(program, program.compile(other), other)
    assert record.network_loss[0, -1] != record.network_loss[1, -1]


def test_no_sample_is_seen_twice():
    program, _, (problem,) = lanes(SMALL["mlp"], TASKS["teacher"], [0])
    data = data_of(SMALL["mlp"], problem, samples_needed=True, fresh=True)
    seen = [np.asarray(program.batch(data, jax.random.key(0), step).encoded) for step in range(20)]
    columns = {column.tobytes() for batch in (*seen, problem.inputs) for column in batch.T}
    assert len(columns) == 20 * SGD.batch_size + problem.inputs.shape[-1]


def test_held_out_losses_do_not_overfit():
    """Sixteen samples and four inputs: on a finite set the training loss falls below the loss on fresh ones; online both are held out."""
    task = TeacherNetwork(scale=1.0, units=9, samples=16, test_samples=2000)
    online, _ = run(SMALL["mlp"], task, [0, 1, 2, 3])
    finite, _ = run(SMALL["mlp"], task, [0, 1, 2, 3], optimizer=Optimizer(kind="momentum", learning_rate=0.05))
    assert (finite.twin_loss[:, -1] < 0.6 * finite.twin_test_loss[:, -1]).all()
    assert (online.twin_loss[:, -1] > 0.6 * online.twin_test_loss[:, -1]).any()
