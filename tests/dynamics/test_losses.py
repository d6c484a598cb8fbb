"""Network and twin under every loss against plain optax loops, and what theory reads of a loss."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import softmax

from nqf_pipeline.dynamics import pytrees
from nqf_pipeline.dynamics.lanes import data_of, hyper_of
from nqf_pipeline.dynamics.losses import LOSSES, accuracy
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.steps import batch_index
from nqf_pipeline.dynamics.train import LaneGroup, Program, train
from nqf_pipeline.forms.losses import CONVENTIONS, LossName, convention, driving_targets
from nqf_pipeline.models import CNN, MLP, Architecture, Diagonal, MultiHead
from nqf_pipeline.tasks import Digits

STEPS = np.array([0, 1, 3, 12])
KEY = 11
CASES: dict[str, tuple[Architecture, Digits, Optimizer, Any]] = {
    "logistic, momentum, decay": (
        MLP(inputs=64, outputs=1, width=5),
        Digits(samples=40, loss="logistic"),
        Optimizer(kind="momentum", learning_rate=0.02, weight_decay=0.1),
        optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.02, momentum=0.9)),
    ),
    "softmax, minibatches": (
        CNN(image=(8, 8), kernel=(4, 4), outputs=10, width=4),
        Digits(samples=40, loss="softmax_cross_entropy", labels="classes"),
        Optimizer(kind="sgd", learning_rate=0.02, batch_size=7),
        optax.sgd(0.02),
    ),
    "softmax, Adam": (
        MultiHead(dimension=8, tokens=8, outputs=10, width=2, key_size=2, value_size=3),
        Digits(samples=40, loss="softmax_cross_entropy", labels="classes"),
        Optimizer(kind="adam", learning_rate=0.01),
        optax.adam(0.01),
    ),
    "its own twin": (
        Diagonal(inputs=64, width=2, start="gaussian"),
        Digits(samples=40, loss="logistic"),
        Optimizer(learning_rate=0.05),
        optax.sgd(0.05),
    ),
}


def plain(objective: Any, weights: np.ndarray, update: Any, batches: list[Any]) -> list[np.ndarray]:
    """Weights before every step, and after the last."""
    path, state = [jnp.asarray(weights)], update.init(jnp.asarray(weights))
    slope = jax.jit(jax.grad(objective))
    for batch in batches:
        with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a Python float to an integer array
            change, state = update.update(slope(path[-1], batch), state, path[-1])
        path.append(optax.apply_updates(path[-1], change))
    return path


@pytest.mark.parametrize("name", CASES)
def test_network_and_twin_follow_plain_loops(name: str) -> None:
    architecture, task, optimizer, update = CASES[name]
    problem = task.problem(architecture, np.random.default_rng(0))
    program = Program(architecture, optimizer.program, optimizer.batch_size, "float64", True, problem.loss, problem.labels)
    weights = 0.1 * architecture.initial(np.random.default_rng(1))
    key = jax.random.key(KEY)
    group = LaneGroup(
        data_of(architecture, problem, samples_needed=program.reads_samples),
        weights[None],
        pytrees.stack([hyper_of(optimizer)]),
        key[None],
        STEPS,
    )
    record = train(program, program.compile(group), group)
    loss, everything = LOSSES[task.loss], jnp.arange(task.samples)
    size = optimizer.batch_size
    batches = [batch_index(key, step, size, task.samples) if size else everything for step in jnp.arange(STEPS[-1])]
    test_structure = architecture.structure(problem.test_inputs)
    x, y = jnp.asarray(architecture.encode(problem.inputs)), jnp.asarray(problem.targets)
    structure = jax.tree.map(jnp.asarray, problem.structure)

    def network(at: Any, batch: Any) -> Any:
        return loss(architecture.network(at, x[..., batch]), y[:, batch])

    def twin(at: Any, batch: Any) -> Any:
        seen = structure.take(batch)
        return loss(seen.offset + seen.apply(architecture.order(at)), y[:, batch])

    paths = [plain(objective, weights, update, batches) for objective in (network, twin)]
    for step, found in enumerate(STEPS):
        ends = [path[found] for path in paths]
        np.testing.assert_allclose(record.network_loss[0, step], network(ends[0], everything), rtol=1e-10)
        np.testing.assert_allclose(record.twin_loss[0, step], twin(ends[1], everything), rtol=1e-10)
    outputs = test_structure.offset + test_structure.apply(np.asarray(architecture.order(ends[1])))
    test_loss = loss(jnp.asarray(outputs), jnp.asarray(problem.test_targets))
    np.testing.assert_allclose(record.twin_test_loss[0, -1], test_loss, rtol=1e-10)
    right = np.sign(outputs) == problem.test_targets if len(outputs) == 1 else outputs.argmax(0) == problem.test_targets.argmax(0)
    assert record.twin_test_accuracy[0, -1] == pytest.approx(right.mean())
    assert record.network_loss[0, -1] < record.network_loss[0, 0]


@pytest.mark.parametrize("name", LOSSES)
def test_driving_targets_give_squared_error_the_same_gradient(name: LossName, rng: np.random.Generator) -> None:
    outputs = rng.standard_normal((4, 9))
    targets = {"squared_error": outputs + 1, "logistic": np.sign(rng.standard_normal((4, 9)))}.get(
        name, softmax(rng.standard_normal((4, 9)), axis=0)
    )
    seen = driving_targets(name, outputs, targets)
    own, same = (jax.grad(LOSSES[loss])(outputs, goal) for loss, goal in ((name, targets), ("squared_error", seen)))
    np.testing.assert_allclose(own, same, atol=1e-15)


def test_convention_names_every_loss_of_a_study() -> None:
    assert convention(set()) == convention({"squared_error"}) == CONVENTIONS["squared_error"]
    both = convention({"logistic", "squared_error"})
    assert both == f"{CONVENTIONS['squared_error']}; {CONVENTIONS['logistic']}"


def test_accuracy_counts_labels() -> None:
    outputs = jnp.array([[0.2, -1.0, 3.0], [0.1, 2.0, -1.0]])
    assert float(accuracy("classes", outputs, jnp.array([[1.0, 1, 1], [0, 0, 0]]))) == pytest.approx(2 / 3)
    assert float(accuracy("signs", outputs[:1], jnp.array([[1.0, 1, -1]]))) == pytest.approx(1 / 3)
