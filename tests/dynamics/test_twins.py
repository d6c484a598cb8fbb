"""Compressed twins in the trainer, and the tangent kernel it records, against weights and Jacobians of the full twin."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.dynamics import pytrees
from nqf_pipeline.dynamics.lanes import data_of, hyper_of
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.train import LaneGroup, Program, train
from nqf_pipeline.models import MLP, Diagonal, PhaseRetrieval, QueryKey
from nqf_pipeline.tasks import Teacher

TASK = Teacher(strengths=(1.0, 0.5), samples=40, test_samples=30)
STEPS = np.array([0, 1, 10, 100, 1000])
WIDE = {
    "mlp": MLP(inputs=3, width=20, outputs=2),
    "query_key": QueryKey(dimension=3, key_size=4, tokens=3, outputs=2, width=4),
    "phase_retrieval": PhaseRetrieval(inputs=3, width=20),
}
OPTIMIZERS = {
    "gd": Optimizer(kind="gd", learning_rate=0.05),
    "momentum_decay": Optimizer(kind="momentum", learning_rate=0.01, weight_decay=0.05),
    "sgd": Optimizer(kind="sgd", learning_rate=0.02, batch_size=8),
}


def record_of(architecture, optimizer, *, compressed, sigma=0.2, steps=STEPS):
    problem = TASK.problem(architecture, np.random.default_rng(0))
    program = Program(architecture, optimizer.program, optimizer.batch_size, "float64", False, compressed=compressed)
    weights = sigma * architecture.initial(np.random.default_rng(1))
    group = LaneGroup(
        pytrees.stack([data_of(architecture, problem, samples_needed=program.reads_samples)]),
        weights[None],
        pytrees.stack([hyper_of(optimizer)]),
        jax.vmap(jax.random.key)(np.array([0])),
        steps,
        program.twin.start(weights)[None] if compressed else None,
    )
    return train(program, program.compile(group), group), problem, weights, program


@pytest.mark.parametrize(
    ("kind", "name"), [("mlp", "gd"), ("query_key", "momentum_decay"), ("mlp", "sgd"), ("phase_retrieval", "momentum_decay")]
)
def test_a_compressed_twin_is_the_twin_at_every_step(kind: str, name: str) -> None:
    steps = STEPS[:3] if name == "sgd" else STEPS  # minibatches are drawn slowly
    full, *_ = record_of(WIDE[kind], OPTIMIZERS[name], compressed=False, steps=steps)
    small, _, _, program = record_of(WIDE[kind], OPTIMIZERS[name], compressed=True, steps=steps)
    start = program.twin.start(np.ones((WIDE[kind].unit_size, WIDE[kind].width)))
    assert start.shape[1] == WIDE[kind].compressed_width < WIDE[kind].degrees
    learnt = np.abs(full.twin_mode[0, -1] - full.twin_mode[0, 0]).max()
    assert learnt > (0.005 if name == "sgd" else 0.05)  # something happens in between
    for field in full._fields[:10]:
        found, expected = getattr(small, field), getattr(full, field)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * max(np.abs(expected).max(), 1), err_msg=field)


def test_rates_are_what_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same start with the network's own learning rate and decay goes elsewhere."""
    full, *_ = record_of(WIDE["mlp"], OPTIMIZERS["momentum_decay"], compressed=False)
    monkeypatch.setattr("nqf_pipeline.dynamics.twins.Twin.rates", lambda self, hyper: hyper)
    wrong, *_ = record_of(WIDE["mlp"], OPTIMIZERS["momentum_decay"], compressed=True)
    assert np.abs(wrong.twin_loss - full.twin_loss).max() > 1e-2


@pytest.mark.parametrize(
    "architecture",
    [WIDE["query_key"], WIDE["phase_retrieval"], Diagonal(inputs=4, width=2), MLP(inputs=3, width=5, outputs=2)],
    ids=lambda a: f"{a.name}{a.width}",
)
def test_recorded_kernel_is_that_of_the_twins_jacobian(architecture) -> None:
    steps = np.array([0, 30])
    record, problem, weights, _ = record_of(architecture, OPTIMIZERS["gd"], compressed=False, steps=steps)
    entries = min(64 // len(problem.targets), 40)
    probe = problem.structure.take(np.linspace(0, 39, entries).round().astype(int))

    def outputs(at):
        return probe.apply(architecture.order(at)).ravel()

    def loss(at):
        gap = problem.structure.offset + problem.structure.apply(architecture.order(at)) - problem.targets
        return (gap**2).sum() / gap.shape[1]

    def kernel(at):
        jacobian = np.asarray(jax.jacrev(outputs)(at)).reshape(probe.offset.size, -1)
        return jacobian @ jacobian.T

    trained = jnp.asarray(weights)
    gradient = jax.jit(jax.grad(loss))
    for _ in range(30):
        trained = trained - 0.05 * gradient(trained)
    before, after = kernel(jnp.asarray(weights)), kernel(trained)
    assert record.twin_kernel_change[0, 0] == 0
    assert record.twin_kernel_turn[0, 0] <= 2e-16  # 1 - x / sqrt(x)^2: one rounding
    change = np.linalg.norm(after - before) / np.linalg.norm(before)
    turn = 1 - (after * before).sum() / (np.linalg.norm(after) * np.linalg.norm(before))
    np.testing.assert_allclose(record.twin_kernel_change[0, 1], change, rtol=1e-9)
    np.testing.assert_allclose(record.twin_kernel_turn[0, 1], turn, rtol=1e-7, atol=1e-12)
