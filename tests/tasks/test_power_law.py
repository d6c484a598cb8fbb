"""Rates, capacities and loss shares of the drawn data are those that were asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nqf_pipeline.errors import InputError
from nqf_pipeline.models import MLP, Diagonal
from nqf_pipeline.tasks import FeaturePowerLaw, Problem, SamplePowerLaw, TaskError
from nqf_pipeline.tasks.selection import log_spaced


def problem(task: FeaturePowerLaw | SamplePowerLaw, width: int = 1) -> Problem:
    return task.problem(Diagonal(inputs=task.count, width=width), np.random.default_rng(0))


def rates(drawn: Problem) -> tuple[np.ndarray, np.ndarray]:
    """(r, C) of the logistic modes: r = 8 (K G*)_k, C = 8 K_kk (theory: Theorem 6)."""
    return 8 * drawn.moments.linear, 8 * drawn.moments.operator


@given(alpha1=st.floats(1.05, 3), alpha2=st.floats(0.1, 2), modes=st.integers(1, 60))
def test_feature_law(alpha1: float, alpha2: float, modes: int) -> None:
    drawn = problem(FeaturePowerLaw(alpha1=alpha1, alpha2=alpha2, modes=modes))
    number = np.arange(1.0, modes + 1)
    rate, capacity = rates(drawn)
    assert drawn.moments.kind == "diagonal"
    np.testing.assert_allclose(rate, number**-alpha2, rtol=1e-12)
    np.testing.assert_allclose(rate**2 / (8 * capacity), number**-alpha1 / 8, rtol=1e-12)
    assert drawn.moments.excess(0 * drawn.moments.optimum) == pytest.approx((number**-alpha1).sum() / 8)
    assert drawn.moments.floor <= 1e-15 * modes


@given(gamma1=st.floats(0.55, 2), gamma2=st.floats(0.1, 2), samples=st.integers(1, 60))
def test_sample_law(gamma1: float, gamma2: float, samples: int) -> None:
    drawn = problem(SamplePowerLaw(gamma1=gamma1, gamma2=gamma2, samples=samples))
    number = np.arange(1.0, samples + 1)
    strongest = np.max(drawn.structure.coefficients * drawn.targets, axis=0)
    np.testing.assert_allclose(8 / samples * strongest, number**-gamma2, rtol=1e-12)
    np.testing.assert_allclose(drawn.targets[0] / drawn.targets[0, 0], number**-gamma1, rtol=1e-12)


def test_samples_are_orthogonal_in_both_senses() -> None:
    coefficients = problem(SamplePowerLaw(samples=9)).structure.coefficients
    assert np.count_nonzero(coefficients) == 9
    np.testing.assert_array_equal(np.count_nonzero(coefficients, axis=0), np.ones(9))


@pytest.mark.parametrize(("asked", "exponent"), [(None, 1.2), (0.0, 0.0), (0.7, 0.7)])
@pytest.mark.parametrize("width", [1, 3])
def test_initial_profile(asked: float | None, exponent: float, width: int) -> None:
    """z_k(0) = epsilon k^-b exactly, with epsilon = degrees sigma^2."""
    task = FeaturePowerLaw(alpha1=2, alpha2=0.8, modes=30, initial_profile=asked)
    architecture, sigma = Diagonal(inputs=30, width=width), 1e-3
    drawn = problem(task, width)
    start = sigma * drawn.initial_scale * architecture.initial(np.random.default_rng(5))
    np.testing.assert_allclose(architecture.order(start), architecture.degrees * sigma**2 * np.arange(1.0, 31) ** -exponent)


def test_default_profile_keeps_the_distance_to_the_plateau() -> None:
    drawn = problem(FeaturePowerLaw(alpha1=1.7, alpha2=0.4, modes=50))
    rate, capacity = rates(drawn)
    share = drawn.initial_scale[:, 0] ** 2 / (rate / capacity)
    np.testing.assert_allclose(share, share[0])
    assert rate[0] / capacity[0] == pytest.approx(1)


def test_watched_modes_are_learnt_at_the_optimum() -> None:
    drawn = problem(FeaturePowerLaw(modes=1000))
    assert len(drawn.modes.index) == 24
    np.testing.assert_allclose(drawn.modes.strength(drawn.moments.optimum), np.ones(24))
    np.testing.assert_array_equal(drawn.modes.number[:8], np.arange(1, 9))
    assert drawn.modes.number[-1] == 1000


def test_test_population_is_the_training_population() -> None:
    drawn = problem(FeaturePowerLaw(modes=5))
    assert drawn.test_moments is drawn.moments
    assert FeaturePowerLaw.shared_data


def test_nothing_is_random() -> None:
    task, architecture = FeaturePowerLaw(modes=5), Diagonal(inputs=5)
    first, other = (task.problem(architecture, np.random.default_rng(seed)) for seed in (0, 1))
    np.testing.assert_array_equal(first.inputs, other.inputs)
    np.testing.assert_array_equal(first.targets, other.targets)


@given(modes=st.integers(1, 100_000), watched=st.integers(1, 64))
def test_watched_selection(modes: int, watched: int) -> None:
    index = log_spaced(modes, watched)
    assert len(index) == min(modes, watched)
    assert (np.diff(index) > 0).all()
    assert index[0] == 0
    assert index[-1] < modes
    assert index[-1] == modes - 1 or watched <= 8
    np.testing.assert_array_equal(index[:8], np.arange(min(8, len(index))))


@pytest.mark.parametrize("task", [FeaturePowerLaw(modes=7), SamplePowerLaw(samples=7)], ids=lambda task: task.name)
def test_other_architectures_are_refused(task: FeaturePowerLaw | SamplePowerLaw) -> None:
    with pytest.raises(TaskError, match="diagonal, not mlp"):
        task.check(MLP())
    with pytest.raises(TaskError, match=r"7 modes but .* inputs = 8; .* set both to the same number"):
        task.check(Diagonal(inputs=8))


def test_ensembles_beyond_memory_are_refused() -> None:
    with pytest.raises(InputError, match=r"100000 one-hot samples .*ask for fewer modes"):
        FeaturePowerLaw(modes=100_000).check(Diagonal(inputs=100_000))


@pytest.mark.parametrize(
    ("cls", "wrong", "says"),
    [
        (FeaturePowerLaw, {"alpha1": 1.0}, "greater than 1"),
        (FeaturePowerLaw, {"alpha2": 0.0}, "greater than 0"),
        (SamplePowerLaw, {"gamma1": 0.5}, r"greater than 0\.5"),
        (SamplePowerLaw, {"gamma2": -1.0}, "greater than 0"),
        (FeaturePowerLaw, {"modes": 0}, "greater than or equal to 1"),
        (FeaturePowerLaw, {"initial_profile": float("inf")}, "finite"),
    ],
)
def test_exponents_outside_the_theorems_are_refused(cls: type, wrong: dict[str, float], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        cls(**wrong)
