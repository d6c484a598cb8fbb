"""The tables of spectra: one spectrum a setting, whatever optimizer, sigma and seed its cells have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP, Diagonal
from nqf_pipeline.stages.spectra import Spectra, described, write_spectra
from nqf_pipeline.store.tables import read_table
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import FeaturePowerLaw, Teacher
from nqf_pipeline.theory.spectra import Spectrum


def cells() -> list[Cell]:
    def cell(**fields: object) -> Cell:
        return Cell.model_validate({"optimizer": Optimizer(learning_rate=0.1), "sigma": 0.01, "steps": 300, **fields})

    diagonal = {"architecture": Diagonal(inputs=40), "task": FeaturePowerLaw(modes=40, alpha1=2.0, alpha2=0.8)}
    teacher = {"architecture": MLP(inputs=6, outputs=3, width=8), "task": Teacher(inputs="white", strengths=(1.0, 0.5), samples=50)}
    return [cell(**diagonal), cell(**diagonal, sigma=0.001), cell(**diagonal, seed=1), cell(**teacher), cell(**teacher, seed=1)]


def test_one_spectrum_a_setting(tmp_path: Path) -> None:
    write_spectra(tmp_path, cells())
    modes, laws = read_table(tmp_path, "spectra"), read_table(tmp_path, "spectral_laws")
    assert laws.groupby("architecture").size().to_dict() == {"diagonal": 1, "mlp": 1}
    assert modes.groupby("architecture").size().to_dict() == {"diagonal": 40, "mlp": 2}
    (law,) = laws[laws["architecture"] == "diagonal"].to_dict("records")
    assert (law["power_law"], law["alpha1_low"], law["exponent"]) == (1, pytest.approx(2.0), pytest.approx(1.25))
    assert law["task"] == "feature_power_law"
    assert "sigma" not in laws
    assert "optimizer" not in laws
    (law,) = laws[laws["architecture"] == "mlp"].to_dict("records")
    assert law["power_law"] == 0
    assert "too few modes" in law["reason"]
    assert np.isnan(law["exponent"])


def test_equal_data_are_described_once() -> None:
    known = Spectra()
    first, other, *_ = cells()
    assert known.of(first, first.problem()) is known.of(other, other.problem())


def test_shares_that_fall_too_slowly_give_no_exponent() -> None:
    """alpha1 <= 1: the sum over missing modes does not converge, so no exponent follows."""
    k = np.arange(1.0, 101)
    found = described(Spectrum("entries", k**-0.8, k**-0.9, np.ones(100), 0.0))
    assert found["power_law"]
    assert found["alpha1"] == pytest.approx(0.9)
    assert np.isnan(found["exponent"])
