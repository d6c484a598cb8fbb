"""Every solvable regime, recognised in a rotated basis and predicted exactly: tiers against the quadratic form trained in weight space."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from benchmarks.closed_forms import haar
from nqf_pipeline.dynamics.lotka_volterra import flow
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.modes import SingularBasis
from nqf_pipeline.models import Architecture, MatrixSensing, PhaseRetrieval, PSDSensing, TiedAttention
from nqf_pipeline.tasks import Problem, SensingEnsemble, Teacher
from nqf_pipeline.theory.commuting import common_basis, entries_of, groups_of
from nqf_pipeline.theory.predict import CellInputs, predict
from nqf_pipeline.theory.regime import regime
from tests.theory.weights import cell, integrate

ONE, TWO = PSDSensing(rows=6, width=4), MatrixSensing(rows=6, columns=6, width=7)
ALIGNED = PSDSensing(rows=6, width=8, start="orthonormal")
SPLIT = {"proportional": (1.0,), "orthogonal_samples": (1.0, 0.5)}
EXACT: list[tuple[Architecture, str, str]] = [
    (ONE, "proportional", "proportional_samples"),
    (TWO, "proportional", "proportional_samples"),
    (ONE, "orthogonal_samples", "orthogonal_samples"),
    (TWO, "orthogonal_samples", "orthogonal_samples"),
    (ONE, "orthogonal_features", "orthogonal_features"),
    (TWO, "orthogonal_features", "orthogonal_features"),
    (ONE, "commuting", "lotka_volterra"),
    (TWO, "commuting", "lotka_volterra"),
    (ONE, "isotropic", "isotropic"),
    (ALIGNED, "projected", "general"),
]
GD = Optimizer(learning_rate=0.01)
OPTIMIZERS = [GD, Optimizer(kind="momentum", momentum=0.5, learning_rate=0.002), Optimizer(learning_rate=0.01, weight_decay=0.02)]


def ensemble(kind: str, disturbance: float = 0.0) -> SensingEnsemble:
    strengths = SPLIT.get(kind, (1.0, 0.5, 0.25))
    return SensingEnsemble(matrices=kind, strengths=strengths, disturbance=disturbance)  # type: ignore[arg-type]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["gd", "momentum", "decay"])
@pytest.mark.parametrize(("architecture", "kind", "name"), EXACT, ids=lambda v: getattr(v, "kind", v))
def test_discrete_tiers_are_training_step_for_step(architecture: Architecture, kind: str, name: str, optimizer: Optimizer) -> None:
    """Gaussian starts of less than full rank included, and in a basis that is not the watched one: off-diagonal elements are slaved."""
    inputs = turned(cell(architecture, ensemble(kind), optimizer, 1e-2, 600, records=60))
    found, twin = predict([inputs])[0], integrate(inputs)
    assert (found.regime.name, found.standing) == (name, "exact")
    assert found.regime.timing_error == 0
    curve = found.tiers["discrete"]
    np.testing.assert_allclose(curve.mode, twin.strength[inputs.step_number], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(curve.loss, twin.loss[inputs.step_number], rtol=1e-8, atol=1e-10)


def turned(inputs: CellInputs) -> CellInputs:
    """The same cell, watched in directions of its own."""
    basis = inputs.problem.modes
    assert isinstance(basis, SingularBasis)
    rng = np.random.default_rng(3)
    left = haar(len(basis.left), rng)[:, : len(basis.target)]
    right = left if isinstance(inputs.architecture, PSDSensing) else haar(len(basis.right), rng)[:, : len(basis.target)]
    return replace(inputs, problem=replace(inputs.problem, modes=SingularBasis(left, right, basis.target)))


@pytest.mark.parametrize(("architecture", "kind", "name"), EXACT, ids=lambda v: getattr(v, "kind", v))
def test_flows_are_the_limit_of_small_steps(architecture: Architecture, kind: str, name: str) -> None:
    """The distance of flow and training halves with the step."""
    errors = []
    for eta, steps in ((0.004, 800), (0.002, 1600)):
        inputs = cell(architecture, ensemble(kind), Optimizer(learning_rate=eta), 1e-2, steps, records=40)
        twin = integrate(inputs).strength[inputs.step_number]
        errors.append(np.abs(predict([inputs])[0].tiers["flow"].mode - twin).max())
    assert errors[1] < 0.05
    assert 1.6 < errors[0] / errors[1] < 2.5


@pytest.mark.parametrize(("architecture", "kind", "name"), EXACT, ids=lambda v: getattr(v, "kind", v))
def test_nearly_holding_conditions_come_with_their_error(architecture: Architecture, kind: str, name: str) -> None:
    rng = np.random.default_rng(0)
    problem = ensemble(kind, 1e-3).problem(architecture, rng)
    found = regime(architecture, problem, GD, 1e-3 * architecture.initial(rng))
    assert found.name in (name, "orthogonal_features") or found.checks[f"{name}_defect"] > 0
    assert found.standing == "conditional"
    assert 0 < found.timing_error < 0.1
    assert "nearly" in found.reason


def test_the_event_clock_of_interacting_modes_is_near_the_flow_or_silent() -> None:
    """Ignitions after the records too, for which the flow is integrated on. One in forty passes 1/2 on its way out long before."""
    errors, late = [], 0
    for seed, architecture in product(range(6), [PSDSensing(rows=6, width=8), MatrixSensing(rows=6, columns=5, width=8)]):
        task = SensingEnsemble(matrices="commuting", samples=8)
        found = predict([cell(architecture, task, GD, 1e-9, 1500, records=200, seed=seed)])[0]
        if found.regime.name == "lotka_volterra":  # and not near enough to a solvable one
            event, flow = found.tiers["event"].ignition, found.tiers["flow"].ignition
            errors += [*np.abs(event / flow - 1)[np.isfinite(event)]]
            late += np.sum(flow > 1500)
    assert len(errors) >= 10
    assert np.median(errors) < 0.03
    assert np.quantile(errors, 0.9) < 0.1
    assert late >= 10


def test_far_from_every_condition_the_reason_says_what_was_refused() -> None:
    problem = ensemble("commuting", 0.5).problem(ONE, np.random.default_rng(0))
    found = regime(ONE, problem, GD)
    assert found.name not in {name for *_, name in EXACT}
    assert not found.closed
    for word in ("orthogonal features", "isotropic", "lotka volterra"):
        assert f"not {word}" in found.reason


@pytest.mark.parametrize("architecture", [PhaseRetrieval(inputs=5, width=6), TiedAttention(inputs=5, width=6)], ids=lambda a: a.name)
def test_phase_retrieval_with_orthogonal_vectors_commutes(architecture: Architecture, rng: np.random.Generator) -> None:
    """a a^T commute exactly where the vectors are orthogonal: orthogonal features, in a basis that is not the coordinates."""
    vectors = haar(5, rng) * rng.uniform(0.5, 2, 5)
    inputs = vectors if isinstance(architecture, PhaseRetrieval) else np.stack([vectors, vectors], 1)
    problem = with_inputs(architecture, inputs, rng)
    assert regime(architecture, problem, GD).name == "orthogonal_features"
    crowded = np.concatenate([inputs, rng.standard_normal(inputs.shape)], -1)
    assert regime(architecture, with_inputs(architecture, crowded, rng), GD).name not in ("orthogonal_features", "lotka_volterra")


def with_inputs(architecture: Architecture, inputs: Any, rng: np.random.Generator) -> Problem:
    """A problem with these inputs and positive targets."""
    base = Teacher(strengths=(1.0,), samples=20).problem(architecture, rng)
    structure = architecture.structure(inputs)
    targets = rng.uniform(0.5, 1, (1, inputs.shape[-1]))
    return replace(base, inputs=inputs, targets=targets, structure=structure, moments=structure.moments(targets))


@given(size=st.integers(2, 6), levels=st.integers(1, 3), draw=st.integers(0, 2**31))
@settings(max_examples=25)
def test_degenerate_structures_are_diagonalised_together(size: int, levels: int, draw: int) -> None:
    """Eigenvalues that coincide in every matrix leave a choice of basis, and any choice is diagonal."""
    rng = np.random.default_rng(draw)
    axes, values = haar(size, rng), rng.standard_normal((4, levels))[:, rng.integers(0, levels, size)]
    family = np.einsum("ak,mk,bk->mab", axes, values, axes)
    act = lambda m: np.tensordot(np.tensordot(family, m, 2), family, 1)  # noqa: E731
    left, _, share = common_basis(act, (size, size), symmetric=True)
    assert share < 1e-9
    for matrix in family:
        turned_matrix = left.T @ matrix @ left
        np.testing.assert_allclose(turned_matrix, np.diag(np.diag(turned_matrix)), atol=1e-9)


def test_groups_are_found_through_couplings_of_either_sign(rng: np.random.Generator) -> None:
    problem = ensemble("orthogonal_samples").problem(ONE, rng)
    entries = entries_of(ONE, problem)
    assert entries is not None
    groups = groups_of(entries)
    assert (groups.count, groups.largest) == (2, 3)
    assert groups.defect < 1e-12


@given(size=st.integers(2, 6), draw=st.integers(0, 2**31))
@settings(max_examples=10)
def test_interacting_flow_is_that_of_the_weights(size: int, draw: int) -> None:
    """Commuting matrices with eigenvalues of either sign, seeds from 1e-12 to 10, against W integrated in the common basis."""
    rng = np.random.default_rng(draw)
    values, targets = rng.uniform(-0.5, 1, (size + 3, size)), rng.uniform(-0.5, 1, size + 3)
    rate, interaction = 8 * values.T @ targets / len(targets), 8 * values.T @ values / len(targets)
    weights = 10 ** rng.uniform(-6, 0.5, (size, 1)) * rng.standard_normal((size, 2))
    time = np.linspace(0, 40 / np.abs(rate).max(), 8)

    def pull(_: float, flat: Any) -> Any:
        rows = flat.reshape(size, 2)
        residual = values @ (rows**2).sum(1) - targets
        return (-4 / len(targets) * (values.T @ residual)[:, None] * rows).ravel()

    solved = solve_ivp(pull, (0, time[-1]), weights.ravel(), "DOP853", time, rtol=1e-13, atol=1e-300, max_step=time[-1] / 800)
    expected = (solved.y.T.reshape(8, size, 2) ** 2).sum(-1)
    np.testing.assert_allclose(flow(time, rate, interaction, (weights**2).sum(1)), expected, rtol=5e-9)


def test_interacting_flow_keeps_empty_modes_and_reaches_its_fixed_point() -> None:
    interaction = np.array([[1.0, 0.4, 0.3], [0.4, 1.0, 0.2], [0.3, 0.2, 1.0]])
    rate, seed = np.array([1.0, 0.8, 0.9]), np.array([1e-8, 1e-12, 0.0])
    z = flow(np.array([0.0, 500.0]), rate, interaction, seed)
    np.testing.assert_allclose(z[0], seed)
    np.testing.assert_allclose(z[1, :2], np.linalg.solve(interaction[:2, :2], rate[:2]), rtol=1e-7)
    assert z[1, 2] == 0
