"""Spectra read off data: what each convention means, against the dynamics and the loss."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from nqf_pipeline.models import MLP, DeepMLP, Diagonal, FourierMLP, PhaseRetrieval, PSDSensing
from nqf_pipeline.tasks import Digits, FeaturePowerLaw, Fourier, SamplePowerLaw, SensingEnsemble, Teacher, TeacherNetwork
from nqf_pipeline.tasks.population import whole_population
from nqf_pipeline.theory.spectra import spectra

Array = Any
RNG = np.random.default_rng


def one(architecture: Any, task: Any) -> Any:
    return spectra(architecture, task.problem(architecture, RNG(0)))


@pytest.mark.parametrize(
    ("architecture", "task", "alpha1", "alpha2"),
    [
        (Diagonal(inputs=50), FeaturePowerLaw(modes=50, alpha1=1.7, alpha2=0.6), 1.7, 0.6),
        (Diagonal(inputs=50), SamplePowerLaw(samples=50, gamma1=0.9, gamma2=0.7), 1.8, 0.7),
        (FourierMLP(width=50), Fourier(beta=1.5, theta=0.5, grid=128), 3.0, 2.0),
    ],
)
def test_prescribed_power_laws_are_read_back(architecture: Any, task: Any, alpha1: float, alpha2: float) -> None:
    (found,) = one(architecture, task)
    assert found.convention == "entries"
    assert len(found.rate) == 50
    np.testing.assert_allclose(found.rate / found.rate[0], found.number**-alpha2, rtol=1e-9)
    np.testing.assert_allclose(found.share / found.share[0], found.number**-alpha1, rtol=1e-9)


def test_shares_and_rates_of_the_ensemble_are_those_it_is_defined_by() -> None:
    """r_1 = C_11 = 1, V_k = k^-alpha1 / 8."""
    (found,) = one(Diagonal(inputs=20), FeaturePowerLaw(modes=20))
    assert found.rate[0] == pytest.approx(1.0)
    assert found.curvature[0] == pytest.approx(1.0)
    np.testing.assert_allclose(found.share, found.number**-2.0 / 8)
    np.testing.assert_allclose(found.share, found.rate**2 / (8 * found.curvature))


def test_singular_modes_of_white_inputs_carry_the_whole_loss() -> None:
    problem = Teacher(inputs="white").problem(MLP(), RNG(1))
    (found,) = spectra(MLP(), problem)
    assert found.convention == "singular"
    assert len(found.rate) == 4
    zero = np.zeros_like(problem.moments.optimum)
    assert found.share.sum() == pytest.approx(float(problem.moments.excess(zero)), rel=1e-9)
    np.testing.assert_allclose(found.rate, 4 * np.linalg.svd(problem.moments.linear, compute_uv=False)[:4], rtol=1e-9)


@pytest.mark.parametrize("architecture", [MLP(inputs=64, outputs=1)], ids=["mlp"])
def test_principal_modes_of_digits_carry_the_whole_loss(architecture: Any) -> None:
    problem = Digits().problem(architecture, RNG(0))
    singular, principal = spectra(architecture, problem)
    assert (singular.convention, principal.convention) == ("singular", "principal")
    assert len(singular.rate) == 1, "one linear output has one singular mode"
    zero = np.zeros_like(problem.moments.optimum)
    assert principal.share.sum() == pytest.approx(float(problem.moments.excess(zero)), rel=1e-6)
    assert np.all(np.diff(principal.rate) <= 0)
    assert singular.rate[0] == pytest.approx(np.linalg.norm(principal.rate))


def test_a_symmetric_structure_has_growing_eigenpairs_only() -> None:
    architecture = PhaseRetrieval(inputs=6, width=8)
    found = one(architecture, Teacher())
    assert found[0].convention == "singular"
    assert np.all(found[0].rate > 0)
    assert found[1].convention == "principal"
    assert len(found[1].rate) <= 21


def test_samples_that_share_no_entry_are_the_modes() -> None:
    """zeta_mu = 8/m max_k lambda_{mu,k} y_mu with lambda = x / 4, and V_mu = y_mu^2 / m (Theorem 5)."""
    x = np.array([[1.0, 0, 0], [2.0, 0, 0], [0, 3.0, 0], [0, 1.0, 0], [0, 0, 0.5], [0, 0, 1.0]])
    y = np.array([[2.0, 1.0, 0.5]])
    (found,) = spectra(Diagonal(inputs=6), whole_population(Diagonal(inputs=6), x, y, 6, np.ones((6, 1))))
    assert found.convention == "samples"
    np.testing.assert_allclose(found.rate, 8 / 3 * np.array([2 / 4 * 2.0, 3 / 4 * 1.0, 1 / 4 * 0.5]))
    np.testing.assert_allclose(found.share, np.array([4.0, 1.0, 0.25]) / 3)


def test_isotropic_samples_are_independent_modes() -> None:
    """K of symmetric matrices annihilates antisymmetric ones, which no M has: that makes no mode depend on another (Theorem 7)."""
    architecture = PSDSensing(rows=6, width=8)
    problem = SensingEnsemble().problem(architecture, RNG(0))
    (found,) = spectra(architecture, problem)
    assert found.convention == "singular"
    assert found.defect < 1e-9
    np.testing.assert_allclose(found.rate, 8 * np.array([1.0, 0.5, 0.25, 0.125]))
    assert found.share.sum() == pytest.approx(float(problem.moments.excess(np.zeros((6, 6)))))


def test_several_layers_have_no_spectrum() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert spectra(DeepMLP(), TeacherNetwork(samples=30).problem(DeepMLP(), RNG(0))) == []
