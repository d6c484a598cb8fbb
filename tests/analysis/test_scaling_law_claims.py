"""Claims about spectra, limits, splits and transitions: their verdicts follow from the tables, and what is absent is not resolved."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nqf_pipeline.analysis.claims import Evidence
from nqf_pipeline.analysis.claims.subjects.scaling_laws import CLAIMS, NAMES
from nqf_pipeline.analysis.claims.table import found_by
from nqf_pipeline.study.reading import read_study

ROOT = Path(__file__).parents[2]
BY_ID = {claim.id: claim for claim in CLAIMS}


def verdict(name: str, **tables: list[dict[str, Any]]) -> str:
    study: Any = SimpleNamespace(**{table: pd.DataFrame(rows) for table, rows in tables.items()})
    return found_by(BY_ID[name], Evidence(study)).verdict


def law(power_law: int, **fields: Any) -> dict[str, Any]:
    ends = {f"{a}{end}": 2.0 for a in ("alpha1", "alpha2") for end in ("", "_low", "_high")}
    shared = {"architecture": "mlp", "task": "digits", "convention": "principal", "first_mode": 3, "last_mode": 31, "reason": "bent"}
    return {**shared, **ends, "power_law": power_law, "modes": 60, **fields}


def test_every_study_named_is_in_config() -> None:
    names = {read_study(path).name for path in (ROOT / "config").glob("*.yaml")}
    assert {claim.study for claim in CLAIMS} <= names


def test_a_spectrum_with_a_range_holds_and_one_without_fails() -> None:
    assert verdict("spectra.digits_mlp", spectral_laws=[law(0, modes=1), law(1)]) == "holds"
    assert verdict("spectra.digits_mlp", spectral_laws=[law(0, modes=1), law(0)]) == "fails"
    assert verdict("spectra.digits_cnn", spectral_laws=[law(1)]) == "not resolved"


@pytest.mark.parametrize(("error", "said"), [(0.01, "holds"), (0.05, "fails")])
def test_ensembles_are_judged_at_the_limit(error: float, said: str) -> None:
    row = {"source": "network", "task": "feature_power_law", "exponent": 1.4, "predicted_limit": 1.25, "relative_error": error}
    assert verdict("limit.flat", extrapolation=[{**row, "initial_profile": 0.0}]) == said
    assert verdict("limit.matched", extrapolation=[{**row, "initial_profile": np.nan}]) == said
    assert verdict("limit.matched", extrapolation=[{**row, "initial_profile": 0.0}]) == "not resolved"


@pytest.mark.parametrize(("exponent", "said"), [(-0.55, "holds"), (-0.45, "fails")])
def test_splits_are_judged_by_their_worst_setting(exponent: float, said: str) -> None:
    row = {"quantity": "loss of compute", "status": "ok", "alpha1": 2.0, "alpha2": 0.8, "predicted_limit": -0.5556}
    assert verdict("compute.loss", tradeoffs=[{**row, "exponent": exponent, "ci_low": -0.56, "ci_high": -0.54}]) == said


@pytest.mark.parametrize("kind", list(NAMES))
def test_transitions_are_judged_over_all_modes(kind: str) -> None:
    row = {"architecture": kind, "source": "network", "epsilons": 5, "width_exponent": 1.0, "tau_c": 1.01, "tau_c_predicted": 1.0}
    row |= {"quality": 0.5, "unscaled": 50.0, "variance_ratio": 0.01}
    for name in ("width", "place", "curves"):
        assert verdict(f"collapse.{name}_{kind}", collapse=[row, row]) == "holds"
    assert verdict(f"collapse.width_{kind}", collapse=[row, {**row, "width_exponent": 0.7}]) == "not resolved"
    assert verdict(f"collapse.curves_{kind}", collapse=[{**row, "variance_ratio": 0.5}]) == "fails"
