"""Regimes and standings follow from measured defects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.structure import DiagonalStructure
from nqf_pipeline.models import MLP, Architecture, DeepMLP, Diagonal, FourierMLP, MultiHead, PhaseRetrieval, QueryKey
from nqf_pipeline.tasks import Digits, FeaturePowerLaw, Fourier, Problem, Task, Teacher, TeacherNetwork
from nqf_pipeline.theory.candidates import whiteness_defect
from nqf_pipeline.theory.commuting import entries_of
from nqf_pipeline.theory.regime import regime

GD, SGD, ADAM = Optimizer(), Optimizer(kind="sgd", batch_size=32), Optimizer(kind="adam")
POWER = (Diagonal(inputs=30), FeaturePowerLaw(modes=30))
CASES: list[tuple[Architecture, Task, Optimizer, str, str]] = [
    (*POWER, GD, "orthogonal_features", "exact"),
    (*POWER, Optimizer(kind="momentum", weight_decay=0.01), "orthogonal_features", "exact"),
    (*POWER, SGD, "orthogonal_features", "conditional"),
    (*POWER, ADAM, "orthogonal_features", "outside"),
    (FourierMLP(), Fourier(), GD, "orthogonal_features", "local"),
    (MLP(), Teacher(inputs="white"), GD, "whitened_feedforward", "local"),
    (MultiHead(), Teacher(inputs="white"), GD, "whitened_feedforward", "local"),
    (MLP(), Teacher(inputs="white"), SGD, "whitened_feedforward", "conditional"),
    (MLP(), Teacher(samples=2000), GD, "whitened_feedforward", "conditional"),
    (MLP(activation="relu"), Teacher(inputs="white"), GD, "whitened_feedforward", "outside"),
    (MLP(), Teacher(inputs="correlated", condition=20), GD, "moments", "local"),
    (QueryKey(), Teacher(), GD, "moments", "local"),
    (QueryKey(), Teacher(), SGD, "moments", "local"),
    (QueryKey(), Teacher(), Optimizer(kind="sgd", batch_size=32, fresh=True), "weights", "conditional"),
    (MLP(inputs=64, outputs=1), Digits(loss="logistic"), GD, "moments", "local"),
    (MLP(inputs=64, outputs=1), Digits(loss="logistic"), ADAM, "moments", "outside"),
    (PhaseRetrieval(), Teacher(), GD, "moments", "exact"),
]


@pytest.mark.parametrize(("architecture", "task", "optimizer", "name", "standing"), CASES, ids=lambda v: getattr(v, "kind", None))
def test_regimes(architecture: Any, task: Any, optimizer: Optimizer, name: str, standing: str, rng: np.random.Generator) -> None:
    found = regime(architecture, task.problem(architecture, rng), optimizer)
    assert (found.name, found.standing) == (name, standing)
    assert found.closed == (standing != "outside" and name not in ("moments", "weights"))
    assert found.stepped == (standing != "outside" and name == "moments")
    assert found.reason


def diagonal_problem(coefficients: np.ndarray, rng: np.random.Generator) -> tuple[Diagonal, Problem]:
    """A diagonal network on inputs 4 * coefficients (features, samples)."""
    architecture = Diagonal(inputs=len(coefficients))
    base = FeaturePowerLaw(modes=len(coefficients), watched=3).problem(architecture, rng)
    structure = DiagonalStructure(np.zeros((1, coefficients.shape[1])), coefficients)
    targets = rng.uniform(0.5, 1, (1, coefficients.shape[1]))
    return architecture, replace(base, structure=structure, targets=targets, moments=structure.moments(targets))


def test_samples_with_several_features_of_their_own_are_orthogonal(rng: np.random.Generator) -> None:
    architecture, problem = diagonal_problem(np.kron(np.eye(3), np.array([[1.0], [1.5]])), rng)
    found = regime(architecture, problem, GD)
    assert (found.name, found.standing) == ("orthogonal_samples", "exact")


@pytest.mark.parametrize(("mixing", "name", "standing"), [(0.02, "orthogonal_features", "conditional"), (1.0, "lotka_volterra", "exact")])
def test_interacting_entries(mixing: float, name: str, standing: str, rng: np.random.Generator) -> None:
    coefficients = np.sqrt(6) * np.eye(6) + mixing * rng.uniform(0.5, 1, (6, 6))
    found = regime(*diagonal_problem(coefficients, rng), GD)
    assert (found.name, found.standing) == (name, standing)
    assert (found.timing_error > 0) == (standing == "conditional")


def test_defects_measure_what_they_say(rng: np.random.Generator) -> None:
    moments = Teacher(inputs="correlated", condition=7, samples=50).problem(MLP(), rng).moments
    values = np.linalg.eigvalsh(moments.operator)
    assert whiteness_defect(moments) == pytest.approx(values.std() / values.mean())
    architecture, problem = diagonal_problem(rng.uniform(0.5, 1, (6, 9)), rng)
    operator, entries = problem.moments.operator, entries_of(architecture, problem)
    assert entries is not None
    assert entries.coupled_share == pytest.approx(np.linalg.norm(operator - np.diag(np.diag(operator))) / np.linalg.norm(operator))


def test_the_event_clock_needs_correlations_and_steps_in_the_linear_span(rng: np.random.Generator) -> None:
    correlated, white = (Teacher(inputs=kind).problem(MLP(), rng) for kind in ("correlated", "white"))
    assert regime(MLP(), correlated, GD).evented
    assert regime(MLP(), correlated, Optimizer(weight_decay=0.01)).evented
    assert not regime(MLP(), correlated, ADAM).evented
    assert not regime(MLP(), white, GD).evented


def test_layers_are_outside_with_every_measure_a_reader_asks_for():
    stack = DeepMLP()
    found = regime(stack, TeacherNetwork(samples=30).problem(stack, np.random.default_rng(0)), Optimizer())
    assert (found.name, found.standing, found.closed, found.evented) == ("weights", "outside", False, False)
    assert np.isnan(found.timing_error)
    assert "every layer" in found.reason


@pytest.mark.parametrize("inputs", ["gaussian", "white", "correlated"])
def test_clocks_say_what_they_do_not_know_of_batches(inputs: Any) -> None:
    """Nearly white inputs included."""
    task, rng = Teacher(inputs=inputs, samples=2000), np.random.default_rng(0)
    problem = task.problem(MLP(), rng)
    assert "minibatches add noise" not in regime(MLP(), problem, GD).reason
    fresh = regime(MLP(), problem, SGD.model_copy(update={"fresh": True}))
    assert fresh.closed or fresh.evented
    assert "minibatches add noise" in fresh.reason
    assert "held-out samples" in fresh.reason
    assert "held-out samples" not in regime(MLP(), problem, SGD).reason


def test_cells_without_a_clock_leave_no_noise_out() -> None:
    problem = Teacher().problem(QueryKey(), np.random.default_rng(0))
    assert "minibatches add noise" not in regime(QueryKey(), problem, SGD.model_copy(update={"fresh": True})).reason
