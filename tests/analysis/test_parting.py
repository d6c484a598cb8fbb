"""Where curves part, on curves whose parting is known, and the claims that rest on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from nqf_pipeline.analysis.claims.subjects.digits import CLAIMS, accuracy, early, late
from nqf_pipeline.analysis.parting import parting
from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.store.select import Curves

STEPS = np.arange(11)
TWIN = np.maximum(1 - 0.1 * STEPS, 0.5)
"""Falls to one half in five steps and stays there."""


def test_parting_is_the_first_step_beyond_the_threshold() -> None:
    network = np.where(STEPS < 7, TWIN, TWIN / 2)
    found = parting(network, TWIN, 10 * STEPS)
    assert (found.step, found.loss, found.learnt, found.end_ratio) == (70, 0.25, 1.0, 0.5)


@pytest.mark.parametrize(("at", "learnt"), [(0, 0.0), (2, 0.4), (4, 0.8)])
def test_what_the_twin_has_learnt_by_then(at: int, learnt: float) -> None:
    assert parting(np.where(at > STEPS, TWIN, 2 * TWIN), TWIN, STEPS).learnt == pytest.approx(learnt)


def test_curves_that_stay_together_never_part() -> None:
    found = parting(1.05 * TWIN, TWIN, STEPS)
    assert np.isnan([found.step, found.loss, found.learnt]).all()
    assert found.end_ratio == pytest.approx(1.05)
    assert parting(1.05 * TWIN, TWIN, STEPS, threshold=0.01).step == 0


def evidence(**variables: np.ndarray) -> Any:
    """A study of three equal cells."""
    data = xr.Dataset({name: ("step", values) for name, values in variables.items()} | {"step_number": ("step", STEPS)})
    return SimpleNamespace(curves=lambda *names, **conditions: [Curves(pd.Series(conditions), data)] * 3)


@pytest.mark.parametrize(("at", "verdict"), [(2, "fails"), (7, "holds"), (99, "holds")])
def test_the_early_phase_is_half_of_what_the_twin_learns(at: int, verdict: str) -> None:
    found = early("mlp")(evidence(network_loss=np.where(at > STEPS, TWIN, TWIN / 3), twin_loss=TWIN))
    assert found.verdict == verdict
    assert ("never (median" if at == 99 else f"at step {at} and") in found.note


@pytest.mark.parametrize(("factor", "verdict"), [(1.05, "holds"), (0.3, "fails")])
def test_final_losses_agree_or_do_not(factor: float, verdict: str) -> None:
    assert late("mlp")(evidence(network_loss=factor * TWIN, twin_loss=TWIN)).verdict == verdict


def test_accuracies_agree_or_do_not_or_are_absent() -> None:
    own, twin = np.full(11, 0.96), np.full(11, 0.9)
    assert accuracy("mlp")(evidence(network_test_accuracy=own, twin_test_accuracy=twin)).verdict == "fails"
    assert accuracy("mlp")(evidence(network_test_accuracy=own, twin_test_accuracy=own)).verdict == "holds"
    with pytest.raises(Unresolved, match="no test accuracy"):
        accuracy("mlp")(evidence())


def test_three_claims_an_architecture() -> None:
    assert len({claim.id for claim in CLAIMS}) == 9
    assert {claim.study for claim in CLAIMS} == {"fig7"}
