"""Growth per step of small modes against the recursion it is the root of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.recursion import recursion
from nqf_pipeline.models import Diagonal, FourierMLP, PhaseRetrieval
from nqf_pipeline.tasks import FeaturePowerLaw, Fourier, Teacher
from nqf_pipeline.theory.errors import TheoryError
from nqf_pipeline.theory.growth import log_growth, mode_law


@pytest.mark.parametrize("rate", [1.5, 0.4, -0.5])
@pytest.mark.parametrize(
    "optimizer",
    [
        Optimizer(learning_rate=0.1),
        Optimizer(kind="momentum", learning_rate=0.02, momentum=0.8),
        Optimizer(learning_rate=0.1, weight_decay=0.3),
    ],
    ids=lambda o: f"{o.kind}{o.weight_decay:g}",
)
def test_growth_is_that_of_a_small_mode(rate: float, optimizer: Optimizer) -> None:
    z = recursion(
        np.full((1, 1, 1), rate),
        np.ones((1, 1, 1)),
        np.full((1, 1, 1), 1e-250),
        np.array([optimizer.learning_rate]),
        np.array([optimizer.momentum]),
        np.array([optimizer.weight_decay]),
        np.array([[400, 500]]),
    )[0, :, 0, 0]
    assert float(log_growth(np.array(rate), optimizer)) == pytest.approx(np.log(z[1] / z[0]) / 100, rel=1e-6)


@given(rate=st.floats(1e-6, 10), momentum=st.floats(0, 0.99))
def test_growth_tends_to_the_flow_for_small_steps(rate: float, momentum: float) -> None:
    eta = 1e-4 * (1 - momentum) ** 2 / rate
    optimizer = Optimizer(kind="momentum", learning_rate=eta, momentum=momentum)
    assert float(log_growth(np.array(rate), optimizer)) == pytest.approx(rate * optimizer.time_scale, rel=1e-3)


def test_weight_decay_above_half_the_rate_stops_growth() -> None:
    optimizer = Optimizer(learning_rate=0.1, weight_decay=0.5)
    gains = log_growth(np.array([0.99, 1.0, 1.01]), optimizer)
    assert gains[0] < 0 < gains[2]
    assert gains[1] == pytest.approx(0, abs=1e-12)


def test_adam_has_no_growth_rate() -> None:
    with pytest.raises(TheoryError, match="steps"):
        log_growth(np.array(1.0), Optimizer(kind="adam"))


def test_laws_of_entries_follow_their_tasks(rng: np.random.Generator) -> None:
    """As the ensembles declare them: r_k = k^-alpha2, z_k(inf) = k^-(alpha1 - alpha2); Fourier: r = 4 s b / sqrt P, C = 2 s^2 / P."""
    number = np.arange(1.0, 31)
    diagonal = Diagonal(inputs=30)
    law = mode_law(diagonal, FeaturePowerLaw(modes=30, alpha1=2.2, alpha2=0.7).problem(diagonal, rng).moments)
    np.testing.assert_allclose(law.rate, number**-0.7, rtol=1e-12)
    np.testing.assert_allclose(law.rate / law.saturation, number**-1.5, rtol=1e-12)
    fourier = FourierMLP(width=30)
    law = mode_law(fourier, Fourier(theta=0.5, beta=1.5).problem(fourier, rng).moments)
    np.testing.assert_allclose(law.rate, 4 * number**-2.0 / np.sqrt(30), rtol=1e-10)
    np.testing.assert_allclose(law.saturation, 2 * number**-1.0 / 30, rtol=1e-10)


def test_one_factor_has_negative_rates_for_negative_targets(rng: np.random.Generator) -> None:
    architecture = PhaseRetrieval(inputs=4)
    problem = Teacher(strengths=(1.0, -0.9), samples=4000).problem(architecture, rng)
    assert mode_law(architecture, problem.moments).rate[-1] < 0
