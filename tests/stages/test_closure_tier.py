"""The discrete tier of cells without a closed clock: the closure in M against the twin's weights, as the stages store both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import (
    CNN,
    MLP,
    Architecture,
    Custom,
    Diagonal,
    DiagonalProduct,
    MixtureOfExperts,
    MultiHead,
    PhaseRetrieval,
    QueryKey,
    TiedAttention,
)
from nqf_pipeline.stages.theory import predict_cells
from nqf_pipeline.stages.train import Stopwatch, run_cells
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.draws import problem_of
from nqf_pipeline.tasks import Digits, Task, Teacher
from nqf_pipeline.theory import order_parameters
from nqf_pipeline.theory.regime import regime

OWN = f"{Path(__file__).parents[1] / 'models' / 'own_module.py'}:block"
TEACHER = Teacher(strengths=(1.0, 0.5), samples=60, test_samples=20)
PARITY = Digits(samples=60)
LOGISTIC, SOFTMAX = Digits(samples=60, loss="logistic"), Digits(samples=60, loss="softmax_cross_entropy", labels="classes")
GD, DECAY = Optimizer(learning_rate=0.02), Optimizer(learning_rate=0.02, weight_decay=0.05)
MOMENTUM = Optimizer(kind="momentum", learning_rate=0.002, weight_decay=0.01)
SGD = Optimizer(kind="sgd", learning_rate=0.02, batch_size=8, weight_decay=0.01)
NOISY_MOMENTUM = Optimizer(kind="momentum", learning_rate=0.002, batch_size=8, schedule="cosine", warmup_steps=20, decay_steps=200)
LOTKA, ORDER = "lotka_volterra", "moments"
CASES: dict[str, tuple[Architecture, Task, Optimizer, str, str]] = {
    "query-key, gd": (QueryKey(dimension=4, tokens=5, key_size=2, outputs=2), TEACHER, GD, ORDER, "local"),
    "experts, momentum": (MixtureOfExperts(inputs=4, width=6, outputs=2), TEACHER, MOMENTUM, ORDER, "local"),
    "phase retrieval, decay": (PhaseRetrieval(inputs=4, width=5), TEACHER, DECAY, ORDER, "exact"),
    "tied attention, noisy momentum": (TiedAttention(inputs=4, width=5), TEACHER, NOISY_MOMENTUM, ORDER, "exact"),
    "own module, gd": (Custom(width=5, path=OWN, unit_size=7, inputs=4, outputs=2), TEACHER, GD, ORDER, "local"),
    "digits, cnn, momentum": (CNN(image=(8, 8), kernel=(4, 4), outputs=1, width=6), PARITY, MOMENTUM, ORDER, "local"),
    "entries, gd": (Diagonal(inputs=64, width=3, start="gaussian"), PARITY, GD, LOTKA, "exact"),
    "pairs of entries, sgd": (DiagonalProduct(inputs=64, width=3), PARITY, SGD, ORDER, "exact"),
    "pairs of entries, momentum": (DiagonalProduct(inputs=64, width=3), LOGISTIC, MOMENTUM, ORDER, "exact"),
    "logistic, gd": (MLP(inputs=64, outputs=1, width=5), LOGISTIC, GD, ORDER, "local"),
    "logistic, sgd": (MLP(inputs=64, outputs=1, width=5), LOGISTIC, SGD, ORDER, "local"),
    "softmax, noisy momentum": (CNN(image=(8, 8), kernel=(4, 4), outputs=10, width=6), SOFTMAX, NOISY_MOMENTUM, ORDER, "local"),
    "softmax, decay": (MultiHead(dimension=8, tokens=8, outputs=10, width=2, key_size=2, value_size=3), SOFTMAX, DECAY, ORDER, "local"),
}


def cell(architecture: Architecture, task: Task, optimizer: Optimizer, seed: int = 0, steps: int = 300) -> Cell:
    fingerprint = architecture.fingerprint
    return Cell(
        architecture=architecture,
        task=task,
        optimizer=optimizer,
        sigma=0.05,
        seed=seed,
        steps=steps,
        records=24,
        precision="float64",
        fingerprint=fingerprint,
    )


@pytest.mark.parametrize("name", CASES)
def test_closure_is_the_stored_twin(name: str) -> None:
    *parts, expected, standing = CASES[name]
    cells = [cell(*parts, seed=seed) for seed in (0, 3)]
    trained, predicted = run_cells(cells, 2, Stopwatch()), predict_cells(cells)
    assert predicted["regime"].to_numpy().tolist() == [expected] * 2
    assert predicted["standing"].to_numpy().tolist() == [standing] * 2
    loss, mode = (trained[name].to_numpy() for name in ("twin_loss", "twin_mode"))
    assert (np.abs(loss[:, -1] / loss[:, 0] - 1) > 1e-3).all()
    assert np.abs(mode[0] - mode[1]).max() > 1e-4
    tier = predicted.sel(tier="discrete")
    np.testing.assert_allclose(tier["theory_loss"].to_numpy(), loss, rtol=1e-9)
    np.testing.assert_allclose(tier["theory_mode"].to_numpy(), mode, atol=1e-9 * np.abs(mode).max())


def test_a_minibatch_closure_needs_the_batches_of_training() -> None:
    """The same curve from other batches would be no prediction of this twin."""
    one = cell(*CASES["logistic, sgd"][:3])
    other = one.model_copy(update={"seed": 3})
    mine, theirs = (predict_cells([c]).sel(tier="discrete")["theory_loss"].to_numpy()[0] for c in (one, other))
    assert np.abs(mine[1:] / mine[0] - theirs[1:] / theirs[0]).max() > 1e-4


def test_ignition_is_read_off_the_closure() -> None:
    found = cell(QueryKey(dimension=4, tokens=5, key_size=2, outputs=2), TEACHER, Optimizer(learning_rate=0.2), steps=4000)
    trained, predicted = run_cells([found], 1, Stopwatch()), predict_cells([found]).sel(tier="discrete")
    steps, mode = trained["step_number"].to_numpy()[0], trained["twin_mode"].to_numpy()[0]
    for k, ignition in enumerate(predicted["theory_ignition"].to_numpy()[0]):
        crossed = np.flatnonzero(mode[:, k] >= 0.5)
        if len(crossed):
            assert steps[crossed[0] - 1] < ignition <= steps[crossed[0]]
        else:
            assert np.isnan(ignition)
    assert np.isfinite(predicted["theory_ignition"].to_numpy()).any()


def test_too_much_work_is_left_to_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    architecture, task, optimizer = CASES["query-key, gd"][:3]
    one = cell(architecture, task, optimizer)
    work = one.steps * order_parameters.step_cost(architecture, problem_of(one), None)
    for limit, name in ((work, "moments"), (0.99 * work, "weights")):
        monkeypatch.setattr(order_parameters, "AFFORDABLE", limit)
        found = regime(architecture, problem_of(one), optimizer, steps=one.steps)
        assert (found.name, found.stepped) == (name, name == "moments")
    assert "300 steps would take" in found.reason
    assert "integrate the twin" in found.reason
    assert not predict_cells([one]).sizes["tier"]


def test_adam_leaves_the_span() -> None:
    one = cell(MLP(inputs=64, outputs=1, width=5), LOGISTIC, Optimizer(kind="adam", learning_rate=0.001))
    predicted = predict_cells([one])
    assert predicted["standing"].to_numpy().tolist() == ["outside"]
    assert not predicted.sizes["tier"]
