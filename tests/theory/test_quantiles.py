"""Predicted quantiles of ignition against many seeds integrated in weight space."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, polygamma

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.modes import SingularBasis
from nqf_pipeline.models import MLP, Diagonal, FourierMLP
from nqf_pipeline.tasks import FeaturePowerLaw, Fourier, Teacher
from nqf_pipeline.theory.ignition import crossing
from nqf_pipeline.theory.predict import CellInputs, predict
from nqf_pipeline.theory.quantiles import IgnitionSpread, chi_square, ignition_spread
from tests.theory.weights import cell

Array = Any
SEEDS = 1500
"""The share of seeds inside the 90 % band is then known to 0.8 %: a band that covers less than 87 % or more than 93 % fails."""
LAYER = MLP(width=4, inputs=6, outputs=4)
WHITE = Teacher(inputs="white", strengths=(1.0, 0.6, 0.35), samples=60)


def spread_of(inputs: CellInputs) -> IgnitionSpread:
    (found,) = predict([inputs])
    assert found.modes is not None
    return ignition_spread(inputs, found.regime, found.modes, found.tiers["discrete"].ignition)


def simulated(inputs: CellInputs, seeds: int, steps: int) -> Array:
    """Ignition steps of the layer's quadratic form from many draws of its weights, all at once: (seeds, modes)."""
    rng, architecture, problem, optimizer = np.random.default_rng(7), inputs.architecture, inputs.problem, inputs.optimizer
    assert inputs.sigma is not None
    draws = [architecture.factors(inputs.sigma * architecture.initial(rng)) for _ in range(seeds)]
    first, second = (np.array([draw[k] for draw in draws]) for k in (0, 1))
    moments, basis = problem.moments, problem.modes
    assert isinstance(basis, SingularBasis)
    strength = []
    for _ in range(steps + 1):
        order = first @ second.swapaxes(1, 2)
        strength.append(np.einsum("ak,sab,bk->sk", basis.left, order, basis.right, optimize=True) / basis.target)
        slope = 2 * moments.operator @ (order - moments.optimum)
        first, second = (
            first - optimizer.learning_rate * slope @ second,
            second - optimizer.learning_rate * slope.swapaxes(1, 2) @ first,
        )
    recorded = np.array(strength)
    return crossing(np.arange(steps + 1), recorded.reshape(steps + 1, -1)).reshape(seeds, -1)


def test_the_band_covers_nine_seeds_of_ten() -> None:
    """Four units and three modes: their seeds have 4, 3 and 2 degrees of freedom, and the band of none fits another."""
    inputs = cell(LAYER, WHITE, Optimizer(learning_rate=0.1), 1e-4, 260)
    found, truth = spread_of(inputs), simulated(inputs, SEEDS, 260)
    assert list(found.freedom) == [4, 3, 2]
    assert np.isfinite(truth).mean() > 0.998
    truth = np.where(np.isnan(truth), np.inf, truth)
    covered = ((truth >= found.level[0]) & (truth <= found.level[2])).mean(0)
    assert np.all((covered > 0.87) & (covered < 0.93)), covered
    assert np.all(np.abs((truth < found.level[1]).mean(0) - 0.5) < 0.04)
    np.testing.assert_allclose(np.mean(truth, axis=0, where=np.isfinite(truth)), found.mean, rtol=0.005)
    # Without the Schur complement the last mode's band misses.
    wrong = replace(found, level=found.level - (np.log(chi_square(4) / chi_square(2))[:3][::-1, None] / (0.1 * 4 * 0.35)))
    assert not 0.87 < ((truth[:, 2] >= wrong.level[0, 2]) & (truth[:, 2] <= wrong.level[2, 2])).mean() < 0.93


def test_mean_and_spread_are_those_of_the_logarithm_of_chi_square() -> None:
    """E ln z(0) = ln sigma^2 + digamma(n/2) + ln 2: the mean step follows it at small seeds."""
    inputs = cell(LAYER, WHITE, Optimizer(learning_rate=0.01), 1e-6, 4000)
    (found,) = predict([inputs])
    spread = spread_of(inputs)
    freedom = np.array([4, 3, 2])
    assert found.modes is not None
    own = np.log(found.modes.led(found.modes.seed)[found.modes.owner])
    rate = 2 * np.log1p(0.01 * found.modes.led(found.modes.rate)[found.modes.owner] / 2)
    later = own - (np.log(1e-12) + digamma(freedom / 2) + np.log(2))
    np.testing.assert_allclose(spread.mean - found.tiers["discrete"].ignition, later / rate, rtol=1e-3)
    deviation = np.sqrt(polygamma(1, freedom / 2)) / rate
    assert np.all(spread.level[2] - spread.level[0] > 3 * deviation)


def test_modes_beyond_the_units_never_ignite() -> None:
    spread = spread_of(cell(MLP(width=2, inputs=6, outputs=4), WHITE, Optimizer(learning_rate=0.1), 1e-4, 300))
    assert list(spread.freedom) == [2, 1, 0]
    assert list(np.isinf(spread.mean)) == [False, False, True]
    assert np.all(np.isinf(spread.level[:, 2]))


@pytest.mark.parametrize("start", ["signs", "gaussian"])
def test_commuting_modes_have_all_degrees_and_signs_no_spread(start: Any) -> None:
    inputs = cell(Diagonal(inputs=20, width=3, start=start), FeaturePowerLaw(modes=20), Optimizer(learning_rate=0.2), 1e-3, 600)
    spread, own = spread_of(inputs), predict([inputs])[0].tiers["discrete"].ignition
    assert set(spread.freedom) == {3}
    assert np.all(spread.level[0] <= spread.level[1])
    if start == "signs":
        np.testing.assert_allclose(spread.level, np.broadcast_to(own, (3, len(own))), rtol=1e-9)
        np.testing.assert_allclose(spread.mean, own, rtol=1e-9)
    else:
        assert np.all(spread.level[2] > spread.level[0])


def test_two_factor_entries_start_at_one_degree_of_freedom() -> None:
    """Quantiles of the entries over draws of the weights, from the discrete tier itself."""
    inputs = cell(FourierMLP(width=6), Fourier(theta=0.5, grid=64), Optimizer(learning_rate=0.5), 1e-3, 3000)
    spread = spread_of(inputs)
    rng = np.random.default_rng(3)
    draws = [replace(inputs, weights=1e-3 * inputs.architecture.initial(rng)) for _ in range(400)]
    steps = np.array([found.tiers["discrete"].ignition for found in predict(draws, {"discrete"})])
    first = steps[:, :2]
    inside = ((first >= spread.level[0, :2]) & (first <= spread.level[2, :2])).mean(0)
    assert set(spread.freedom) == {1}
    assert np.all((inside > 0.86) & (inside < 0.94)), inside
