"""Sensing ensembles have the properties that their names promise."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from nqf_pipeline.models import MLP, MatrixSensing, PSDSensing
from nqf_pipeline.tasks import SensingEnsemble, TaskError

ONE, TWO = PSDSensing(rows=6, width=8), MatrixSensing(rows=6, columns=5, width=8)


def matrices(task: SensingEnsemble, architecture: PSDSensing | MatrixSensing, rng: np.random.Generator) -> np.ndarray:
    return np.moveaxis(task.problem(architecture, rng).inputs, -1, 0)


@pytest.mark.parametrize("architecture", [ONE, TWO], ids=["one factor", "two factors"])
def test_proportional_samples_have_rank_one(architecture: PSDSensing | MatrixSensing, rng: np.random.Generator) -> None:
    found = matrices(SensingEnsemble(matrices="proportional", strengths=(1.0,)), architecture, rng)
    assert np.linalg.matrix_rank(found.reshape(len(found), -1)) == 1
    np.testing.assert_allclose(np.linalg.svd(found[0], compute_uv=False)[:3] / np.linalg.norm(found[0], 2), [1, 0.75, 0.5], atol=1e-12)


def test_orthogonal_samples_annihilate_each_other(rng: np.random.Generator) -> None:
    found = matrices(SensingEnsemble(matrices="orthogonal_samples", strengths=(1.0, 0.5)), ONE, rng)
    assert np.abs(found[0] @ found[1]).max() < 1e-12
    assert np.linalg.matrix_rank(found[0]) == 3


@pytest.mark.parametrize("kind", ["orthogonal_features", "commuting"])
def test_commuting_matrices_commute_and_are_not_diagonal(kind: str, rng: np.random.Generator) -> None:
    found = matrices(SensingEnsemble(matrices=kind), ONE, rng)  # type: ignore[arg-type]
    assert max(np.abs(a @ b - b @ a).max() for a, b in combinations(found, 2)) < 1e-12
    assert np.abs(found[0] - np.diag(np.diag(found[0]))).max() > 0.1


@pytest.mark.parametrize("architecture", [ONE, TWO], ids=["one factor", "two factors"])
def test_isotropic_samples_give_the_identity(architecture: PSDSensing | MatrixSensing, rng: np.random.Generator) -> None:
    moments = SensingEnsemble(matrices="isotropic").problem(architecture, rng).moments
    order = rng.standard_normal(architecture.input_shape)
    order = order + order.T if architecture is ONE else order
    np.testing.assert_allclose(moments.act(order), order, atol=1e-12)


def test_disturbance_is_relative(rng: np.random.Generator) -> None:
    calm, shaken = (matrices(SensingEnsemble(matrices="isotropic", disturbance=size), ONE, np.random.default_rng(1)) for size in (0.0, 0.1))
    ratio = np.linalg.norm(shaken - calm, axis=(1, 2)) / np.linalg.norm(calm, axis=(1, 2))
    np.testing.assert_allclose(ratio, 0.1, rtol=0.5)


@pytest.mark.parametrize(
    ("task", "architecture", "says"),
    [
        (SensingEnsemble(), MLP(), "psd_sensing or matrix_sensing"),
        (SensingEnsemble(matrices="projected"), TWO, "one factor"),
        (SensingEnsemble(matrices="orthogonal_samples"), ONE, "needs 12 eigenvectors"),
        (SensingEnsemble(matrices="proportional"), PSDSensing(rows=20), "give one"),
    ],
)
def test_what_does_not_fit_is_refused(task: SensingEnsemble, architecture: MLP, says: str, rng: np.random.Generator) -> None:
    with pytest.raises(TaskError, match=says):
        task.problem(architecture, rng)


def test_an_orthonormal_start_is_a_multiple_of_the_identity(rng: np.random.Generator) -> None:
    weights = PSDSensing(rows=6, width=8, start="orthonormal").initial(rng)
    np.testing.assert_allclose(weights @ weights.T, 8 * np.eye(6), atol=1e-12)
    with pytest.raises(ValueError, match="orthonormal rows do not fit"):
        PSDSensing(rows=9, width=8, start="orthonormal").check()
