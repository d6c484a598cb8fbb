"""Extrapolation to epsilon -> 0 and infinitely many modes on curves whose limit is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nqf_pipeline.analysis import extrapolation
from nqf_pipeline.analysis.extrapolation import Approach, approaches, row
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import Diagonal
from nqf_pipeline.stages.theory import predict_cells
from nqf_pipeline.store.schema import validate
from nqf_pipeline.store.select import index_of
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import FeaturePowerLaw

EPSILON = np.array([1e-8, 1e-12, 1e-18, 1e-30])


def approach(limit: float, shift: float, noise: float = 0.0, seeds: int = 6) -> Approach:
    """1 / k = (1 - shift x) / limit, seeds scattering about it."""
    rng = np.random.default_rng(3)
    k = limit / (1 - shift / np.log(1 / EPSILON))
    draws = k + noise * rng.standard_normal((seeds, 1)) + 0.2 * noise * rng.standard_normal((seeds, len(k)))
    mean = draws.mean(0)
    left_out = (mean * seeds - draws) / (seeds - 1)
    return Approach(EPSILON, 1.02 * mean, mean, left_out, k, limit)


def test_the_law_of_finite_epsilon_is_undone_exactly() -> None:
    found = row({}, approach(1.25, 1.5))
    assert found["extrapolated"] == pytest.approx(1.25)
    assert found["shifted"] == pytest.approx(1.25)
    assert found["ci_high"] - found["ci_low"] < 1e-9
    assert found["corrected"] > 1.25 * 1.02, "the smallest epsilon alone is still off"


def test_intervals_cover_the_limit_under_seed_scatter() -> None:
    found = row({}, approach(1.25, 1.5, noise=0.02))
    for name, low, high in (("extrapolated", "ci_low", "ci_high"), ("shifted", "shifted_low", "shifted_high")):
        assert found[low] < 1.25 < found[high]
        assert 0.005 < found[high] - found[low] < 0.2
        assert found[name] != 1.25


def test_two_epsilon_are_too_few_for_a_line_and_enough_for_a_shift() -> None:
    whole = approach(1.25, 1.5)
    few = Approach(EPSILON[:2], whole.measured[:2], whole.corrected[:2], whole.without[:, :2], whole.predicted[:2], 1.25)
    found = row({}, few)
    assert np.isnan(found["extrapolated"])
    assert found["shifted"] == pytest.approx(1.25)


def test_the_theory_stage_stores_the_missing_tail() -> None:
    """Longer ensembles miss less: the tail of 50 modes is the loss that 500 modes have more, at any time."""
    tails = []
    for modes in (50, 500):
        fields: dict[str, Any] = {"architecture": Diagonal(inputs=modes), "task": FeaturePowerLaw(modes=modes), "sigma": 1e-3}
        cell = Cell.model_validate({**fields, "optimizer": Optimizer(learning_rate=0.5), "steps": 2000, "records": 40})
        predicted = predict_cells([cell])
        validate(predicted, "theory", "here")
        tails.append(predicted["missing_tail"].to_numpy()[0] + predicted["expected_loss"].to_numpy()[0])
    np.testing.assert_allclose(*tails, rtol=2e-3)


def test_an_epsilon_without_a_stored_tail_is_left_out_with_its_exponent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old cells in an extended study: every exponent stays beside its own epsilon."""
    rows = [{"epsilon": epsilon, "exponent": k, "predicted_limit": 1.25, "status": "ok"} for k, epsilon in enumerate(EPSILON)]
    table = pd.DataFrame(rows).assign(source="network", architecture="diagonal", task="feature_power_law", optimizer="gd")
    study = SimpleNamespace(exponents=table, index=index_of({}), curves_of_groups=lambda *_: iter(()))

    def corrected(_: Any, fitted: pd.Series) -> tuple[float, float, np.ndarray, float] | None:
        return None if fitted["epsilon"] == EPSILON[0] else (fitted["exponent"], fitted["exponent"], np.zeros(2), 1.3)

    monkeypatch.setattr(extrapolation, "_corrected", corrected)
    ((_, found),) = approaches(study)
    np.testing.assert_array_equal(found.epsilon, EPSILON[1:])
    np.testing.assert_array_equal(found.measured, [1, 2, 3])


def test_the_missing_tail_follows_a_schedule() -> None:
    """Half the learning rate all along is half the time: the tail at step 2n is the one of the whole rate at step n."""
    fields: dict[str, Any] = {"architecture": Diagonal(inputs=50), "task": FeaturePowerLaw(modes=50), "sigma": 1e-3, "records": 40}
    halved = Optimizer(learning_rate=0.5, schedule="step", decay_steps=1, final_share=0.5)
    tails = {
        steps: predict_cells([Cell.model_validate({**fields, "optimizer": optimizer, "steps": steps})])["missing_tail"].to_numpy()[0, -1]
        for steps, optimizer in ((1000, Optimizer(learning_rate=0.5)), (1999, halved))
    }
    assert tails[1000] == pytest.approx(tails[1999], rel=1e-9)
