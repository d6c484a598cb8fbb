"""Measured beside predicted, with the status that says what a comparison is worth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from nqf_pipeline.analysis.departure import departure
from nqf_pipeline.analysis.ignition import measure
from nqf_pipeline.analysis.plateaus import plateau_loss, plateau_rows
from tests.analysis.synthetic import dataset, logistic

RATE = np.array([1.0, 0.5, 0.25, 0.125])
CAPACITY = np.ones(4)
EPSILON = 1e-6
SHARE = np.array([1.0, 0.6, 0.3, 0.1])
TRUTH = np.log(1 / EPSILON - 1) / RATE


def curve(speed: float = 1.0, epsilon: float = EPSILON, end: float = 300.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    time = np.unique(np.concatenate([[0.0], np.geomspace(0.01, end, 299).round(3)]))
    strength = logistic(time, speed * RATE, CAPACITY, np.full(4, epsilon))
    return time, (1 - strength) ** 2 @ SHARE, strength


@pytest.fixture
def data() -> xr.Dataset:
    """Two cells; the network of the second is 10 % slow."""
    made = dataset([curve(), curve()], rate=1e-3, network=[curve(), curve(1 / 1.1)])
    made = made.isel(tier=[0, 0]).assign_coords(tier=["asymptote", "discrete"])
    made["theory_ignition"] = (("tier", "cell", "mode"), np.stack([np.tile(TRUTH * 1e3 * f, (2, 1)) for f in (0.9, 1.0)]))
    return made


COORDINATES = pd.DataFrame({"cell": ["a", "b"], "architecture": ["mlp", "cnn"]})


def rows_of(data: xr.Dataset, **conditions: object) -> pd.DataFrame:
    rows = plateau_rows(data, COORDINATES)
    for name, value in conditions.items():
        rows = rows[rows[name] == value]
    return rows.sort_values(["cell", "mode"]).reset_index(drop=True)


def test_times_errors_and_tiers(data: xr.Dataset) -> None:
    rows = rows_of(data)
    assert len(rows) == 2 * 4 * (3 + 2)
    assert set(rows["status"]) == {"matched"}
    discrete = rows_of(data, source="network", tier="discrete")
    np.testing.assert_allclose(discrete["relative_error"], [0] * 4 + [0.1] * 4, atol=1e-3)
    np.testing.assert_allclose(discrete["t_asymptotic"], np.tile(TRUTH * 900, 2))
    np.testing.assert_allclose(rows_of(data, source="network", tier="twin", cell="b")["relative_error"], 0.1, atol=1e-3)
    assert rows_of(data, source="twin", tier="twin").empty
    assert discrete["architecture"].tolist() == ["mlp"] * 4 + ["cnn"] * 4


def test_statuses(data: xr.Dataset) -> None:
    short = data.isel(step=data["time"].to_numpy()[0] < 80)  # modes 1 and 2 ignite, at 13.8 and 27.6; mode 3 at 55.3, mode 4 at 110
    short["theory_ignition"].loc[{"tier": "discrete", "cell": short["cell"][0]}] = [np.inf, 1e9, 1e9, 1e9]
    short["theory_ignition"].loc[{"tier": "discrete", "cell": short["cell"][1]}] = [np.nan, 1e4, 5e4, 6e4]
    found = rows_of(short, source="network", tier="discrete")
    assert found[found["cell"] == "a"]["status"].tolist() == ["unmatched_plateau", "matched", "matched", "censored"]
    assert found[found["cell"] == "b"]["status"].tolist() == ["unmatched_plateau", "matched", "matched", "unmatched_mode"]
    assert found["relative_error"].isna().tolist()[0]


def test_never_predicted_and_never_seen_is_censored(data: xr.Dataset) -> None:
    short = data.isel(step=data["time"].to_numpy()[0] < 80)
    short["theory_ignition"][:, :, 3] = np.inf
    last = rows_of(short, source="twin", tier="discrete", mode=4)
    assert last["status"].tolist() == ["censored"] * 2
    assert np.isinf(last["t_predicted"]).all()


def test_a_diverged_cell_is_censored_after_its_step(data: xr.Dataset) -> None:
    late = data["time"].to_numpy()[0] > 40
    for name in ("network_loss", "network_mode"):
        data[name][{"cell": 0, "step": late}] = np.nan
    rows = rows_of(data, source="network", tier="discrete", cell="a")
    assert rows["status"].tolist() == ["matched", "matched", "censored", "censored"]
    assert (rows["last_step"] < 40e3).all()


def test_tiers_that_say_nothing_have_no_rows(data: xr.Dataset) -> None:
    data["theory_ignition"][:, 1] = np.nan
    assert set(rows_of(data, cell="b")["tier"]) == {"twin"}
    assert set(rows_of(data, cell="a")["tier"]) == {"twin", "asymptote", "discrete"}
    without = data.drop_vars([name for name in data.variables if str(name).startswith("theory")]).drop_dims("tier", errors="ignore")
    assert set(plateau_rows(without, COORDINATES)["tier"]) == {"twin"}


def test_another_rho_compares_the_same_crossing(data: xr.Dataset) -> None:
    rows = plateau_rows(data, COORDINATES, rho=0.9)
    exact = rows[(rows["source"] == "twin") & (rows["tier"] == "discrete")]
    np.testing.assert_allclose(exact["relative_error"], 0, atol=1e-9)
    np.testing.assert_allclose(exact["t_measured"].to_numpy()[:4], (TRUTH + np.log(9) / RATE) * 1e3, rtol=1e-3)


def test_plateau_loss_is_the_loss_of_the_modes_not_yet_learnt(data: xr.Dataset) -> None:
    found = rows_of(data, source="twin", tier="discrete", cell="a")
    remaining = np.cumsum(SHARE[::-1])[::-1]
    np.testing.assert_allclose(found["plateau_loss"], remaining, rtol=0.02)


def test_overlapping_drops_have_no_plateau_between() -> None:
    steps = np.arange(400)
    strength = logistic(steps * 0.1, np.array([1.0, 0.97]), np.ones(2), np.full(2, 1e-6))
    loss = (1 - strength) ** 2 @ np.ones(2)
    found = measure(steps[None], strength[None], loss[None])
    levels = plateau_loss(steps[None], loss[None], found)[0]
    assert levels[0] == pytest.approx(2.0, rel=1e-3)
    assert np.isnan(levels[1])


def test_departure(data: xr.Dataset) -> None:
    data["divergence"] = data["divergence"] + xr.where(data["step_number"] >= 30_000, 0.2, 0.0) * np.array([0, 1])[:, None]
    found = departure(data)
    assert np.isinf(found.step[0])
    assert 30_000 <= found.step[1] < 31_000
    gap = np.abs(curve()[2] - curve(1 / 1.1)[2]).max()
    np.testing.assert_allclose(found.largest_mode_gap, [0, gap])
    data["network_loss"][1] = np.nan
    missing = departure(data)
    assert np.isnan([missing.step[1], missing.largest_mode_gap[1], missing.largest_divergence[1]]).all()
