"""Drops of known staircases beside the ignitions that make them."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from nqf_pipeline.analysis.drops.expected import Expected, Prediction, readings
from nqf_pipeline.analysis.drops.match import GATE, match
from nqf_pipeline.analysis.drops.seen import Curve, Seen, lifted, look
from nqf_pipeline.analysis.drops.table import drop_rows
from nqf_pipeline.analysis.run import analyse
from nqf_pipeline.store.merge import merge
from nqf_pipeline.store.open import open_study
from nqf_pipeline.theory.sudden import RISE
from tests.analysis import merged
from tests.analysis.synthetic import dataset, logistic

RATE = 0.3 ** np.arange(4.0)
SHARE = 0.3 ** np.arange(4.0)
DEPTH = 20.0
TRUTH = DEPTH / RATE
Staircase = tuple[np.ndarray, np.ndarray, np.ndarray]


def staircase(rate: np.ndarray = RATE, share: np.ndarray = SHARE, depth: float = DEPTH, end: float = 5.0) -> Staircase:
    """(time, loss, strengths) of logistic modes with half-saturation at depth / rate, up to `end` times the last one."""
    last = end * depth / rate.min()
    time = np.concatenate([[0.0], np.geomspace(1e-4 * last, last, 255)])
    strength = logistic(time, rate, np.ones(len(rate)), np.full(len(rate), 1 / (1 + np.exp(depth))))
    return time, (1 - strength) ** 2 @ share, strength


def study(curve: Staircase, network: Staircase | None = None, ignition: np.ndarray | None = None, rate: float = 1e-3) -> xr.Dataset:
    """Two cells, of which the network may do something else than twin and theory."""
    made = dataset([curve] * 2, rate=rate, network=[network or curve] * 2)
    count = curve[2].shape[1]
    times = TRUTH[:count] if ignition is None else ignition
    return made.assign(theory_ignition=(("tier", "cell", "mode"), np.tile(times / rate, (1, 2, 1))))


def rows_of(data: xr.Dataset, source: str = "network", tier: str = "discrete", cell: str = "a") -> pd.DataFrame:
    rows = drop_rows(data, pd.DataFrame({"cell": ["a", "b"], "architecture": "mlp"}))
    return rows[(rows["source"] == source) & (rows["tier"] == tier) & (rows["cell"] == cell)].sort_values("number")


def test_separate_modes_are_matched_within_one_per_cent() -> None:
    rows = rows_of(study(staircase()))
    assert rows["mode_numbers"].tolist() == ["1", "2", "3", "4"]
    assert set(rows["status"]) == {"matched"}
    np.testing.assert_allclose(rows["t_predicted"], TRUTH * 1e3)
    np.testing.assert_allclose(rows["t_measured"], TRUTH * 1e3, rtol=0.01)
    np.testing.assert_allclose(rows["relative_error"], rows["t_measured"] / rows["t_predicted"] - 1)
    assert ((rows["t_low"] <= rows["t_measured"]) & (rows["t_measured"] <= rows["t_high"])).all()
    assert (rows["t_high"] < 1.1 * rows["t_measured"]).all()
    np.testing.assert_allclose(rows["plateau_loss"], np.cumsum(SHARE[::-1])[::-1], rtol=0.03)
    assert ((rows["plateau_start"] < rows["plateau_end"]) & (rows["plateau_end"] < rows["t_measured"])).all()


def test_every_curve_and_tier_has_its_rows() -> None:
    rows = drop_rows(study(staircase()), pd.DataFrame({"cell": ["a", "b"]}))
    assert rows.groupby(["cell", "source", "tier"]).size().to_dict() == {
        (cell, source, tier): 4
        for cell, source, tier in product("ab", ("network", "twin"), ("discrete", "twin"))
        if (source, tier) != ("twin", "twin")
    }


@pytest.mark.parametrize("separation", [0.3, 0.6, 0.9])
def test_modes_closer_than_their_width_are_one_drop(separation: float) -> None:
    """Steps of rates 1 and 1/q at a depth are apart by (2 depth / RISE) (q - 1) / (q + 1) mean widths."""
    share = separation * RISE / 2 / DEPTH
    rate = np.array([1.0, (1 - share) / (1 + share)])
    rows = rows_of(study(staircase(rate, np.ones(2)), ignition=DEPTH / rate))
    assert rows["mode_numbers"].tolist() == ["1-2"]
    assert rows["status"].tolist() == ["matched"]
    assert abs(rows["relative_error"].iloc[0]) < 0.03
    assert DEPTH / rate[0] < rows["t_predicted"].iloc[0] / 1e3 < DEPTH / rate[1]


@pytest.mark.parametrize("depth", [7.0, 10.0, 14.0, 25.0, 40.0])
@pytest.mark.parametrize("share", [1.0, 0.3, 0.1])
def test_two_modes_are_one_drop_or_two_well_timed_ones(depth: float, share: float) -> None:
    """At any separation no due mode is without a drop, and drops of single modes that are apart are within 2 % of them."""
    for separation in (0.6, 1.0, 1.4, 2.0, 2.5, 3.0, 4.0):
        odd = separation * RISE / 2 / depth
        if odd > 0.9:
            continue
        rate = np.array([1.0, (1 - odd) / (1 + odd)])
        time, loss, _ = staircase(rate, np.array([1.0, share]), depth)
        steps = np.round(time * 1e5)
        prediction = Prediction(np.array([1, 2]), depth / rate * 1e5, RISE / rate * 1e5, steps, lifted(loss))
        rows = match(look(steps[None].astype(int), loss[None])[0], readings(prediction))
        assert all(row.status != "unmatched_mode" for row in rows)
        pairs = [(row.expected.label, row.seen.time / row.expected.time - 1) for row in rows if row.seen and row.expected]
        if separation < 1:
            assert [label for label, _ in pairs] in ([], ["1-2"])
        if separation >= 2.5:
            assert all(abs(error) < 0.02 for label, error in pairs if label != "1-2")


def test_modes_due_after_the_records_are_censored() -> None:
    rows = rows_of(study(staircase(end=0.5)))
    assert rows["mode_numbers"].tolist() == ["1", "2", "3", "4"]
    assert rows["status"].tolist() == ["matched"] * 3 + ["censored"]
    assert np.isnan(rows["t_measured"].iloc[-1])


def test_a_fall_that_the_records_cut_is_censored() -> None:
    """Before half strength nothing says when three quarters of the fall are made; after it they are, however it goes on."""
    last = rows_of(study(staircase(end=0.97))).iloc[-1]
    assert (last["mode_numbers"], last["status"]) == ("4", "censored")
    assert last["t_measured"] < TRUTH[3] * 1e3
    assert np.isinf(last["t_high"])
    last = rows_of(study(staircase(end=1.02))).iloc[-1]
    assert (last["mode_numbers"], last["status"]) == ("4", "matched")
    assert last["t_low"] < TRUTH[3] * 1e3 * 1.001 < last["t_high"] * 1.002


def test_modes_too_small_to_be_seen_are_censored() -> None:
    rows = rows_of(study(staircase(share=np.array([1.0, 0.3, 1e-7, 1e-7]))))
    assert rows["status"].tolist() == ["matched"] * 2 + ["censored"] * 2


def test_a_drop_that_nobody_predicts_is_an_unmatched_plateau() -> None:
    """The third mode is never to ignite by the prediction, and does."""
    rows = rows_of(study(staircase(), ignition=np.array([*TRUTH[:2], np.inf, TRUTH[3]])))
    assert rows["mode_numbers"].tolist() == ["1", "2", "", "4"]
    assert rows["status"].tolist() == ["matched", "matched", "unmatched_plateau", "matched"]
    assert rows["t_measured"].iloc[2] == pytest.approx(TRUTH[2] * 1e3, rel=0.01)
    assert np.isnan(rows["t_predicted"].iloc[2])


def test_a_mode_that_makes_no_drop_is_unmatched() -> None:
    silent = staircase(share=np.array([1.0, 0.3, 0.0, 0.027]))
    rows = rows_of(study(staircase(), network=silent))
    assert rows["mode_numbers"].tolist() == ["1", "2", "3", "4"]
    assert rows["status"].tolist() == ["matched", "matched", "unmatched_mode", "matched"]
    assert set(rows_of(study(staircase(), network=silent), source="twin")["status"]) == {"matched"}


def test_a_slow_network_is_late_by_as_much() -> None:
    rows = rows_of(study(staircase(), network=staircase(RATE / 1.1, end=5 / 1.1)))  # recorded at the same steps
    np.testing.assert_allclose(rows["relative_error"], 0.1, atol=0.012)


def test_cells_of_which_nothing_can_be_told_have_no_rows() -> None:
    coordinates = pd.DataFrame({"cell": ["a", "b"]})
    data = study(staircase())
    assert set(drop_rows(data.assign(loss_floor=("cell", [np.nan, 0.0])), coordinates)["cell"]) == {"b"}
    assert drop_rows(data.assign(mode_number=data["mode_number"] * 2), coordinates).empty
    assert drop_rows(data.assign(theory_ignition=data["theory_ignition"] * np.nan), coordinates).empty
    assert drop_rows(data.drop_vars("theory_ignition"), coordinates).empty


def test_curves_of_other_lengths_and_blown_up_ones_are_looked_at_alone() -> None:
    time, loss, _ = staircase()
    steps = np.round(np.stack([time, time, 2 * time]) * 1e3).astype(int)
    cut = np.where(time > 2 * TRUTH[1], np.inf, loss)
    whole, short, slow = look(steps, np.stack([loss, cut, loss]))
    assert [len(curve.drops) for curve in (whole, short, slow)] == [4, 2, 4]
    assert short.last_step < 2e3 * TRUTH[1] < whole.last_step
    assert slow.last_step == pytest.approx(2 * whole.last_step, abs=1)
    np.testing.assert_allclose([d.time for d in slow.drops], [2 * d.time for d in whole.drops], rtol=5e-3)
    assert look(steps[:1], np.full((1, 256), np.nan))[0].drops == ()


def test_both_readings_of_a_gap_that_is_not_clear() -> None:
    """Equal rates are one, ten times slower ones two; in between the curve may decide."""
    counts = []
    for q in (1.0, 1.35, 10.0):
        rate = np.array([1.0, 1 / q])
        time, loss, _ = staircase(rate, np.ones(2))
        found = readings(Prediction(np.array([1, 2]), DEPTH / rate, RISE / rate, time, lifted(loss)))
        counts.append([len(reading) for reading in found])
    assert counts == [[1], [1, 2], [2]]


def _cheapest(seen: list[float], expected: list[float]) -> float:
    """All assignments, one by one."""
    places = [*range(len(expected)), *[-1] * len(seen)]
    costs = []
    for chosen in set(permutations(places, len(seen))):
        pairs = [abs(np.log(s / expected[j])) for s, j in zip(seen, chosen, strict=True) if j >= 0]
        if all(pair < GATE for pair in pairs):
            costs.append(sum(pairs) + GATE / 2 * (len(seen) + len(expected) - 2 * len(pairs)))
    return min(costs)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(10.0, 40.0), max_size=3), st.lists(st.floats(10.0, 40.0), max_size=3))
def test_the_assignment_is_the_cheapest(seen: list[float], expected: list[float]) -> None:
    curve = Curve(tuple(Seen(time, time, time, 1.0, 2.0, 1.0) for time in seen), 1e3)
    modes = [Expected((k,), time, time / 1.1, time * 1.1, 1.0) for k, time in enumerate(expected)]
    rows = match(curve, [modes])
    pairs = [abs(np.log(row.seen.time / row.expected.time)) for row in rows if row.seen and row.expected]
    assert len(rows) + len(pairs) == len(seen) + len(expected)
    assert all(pair < GATE for pair in pairs)
    alone = sum(row.status.startswith("unmatched") for row in rows)
    assert sum(pairs) + GATE / 2 * alone == pytest.approx(_cheapest(seen, expected))


def test_a_stored_study_has_the_table(tmp_path: Path) -> None:
    curve = staircase()
    data = dataset([curve] * 8, rate=1e-3).assign_coords(cell=[f"m{k}".ljust(16, "0") for k in range(8)])
    data = data.assign(theory_ignition=(("tier", "cell", "mode"), np.tile(TRUTH * 1e3, (1, 8, 1))))
    merged._write(tmp_path, "mlp_4", data)
    extra = [{"seed": seed, "epsilon": 1e-6, "modes": 4} for seed in range(8)]
    grids = data["step_number"].to_numpy().tolist()
    rows = [merged.Row(c, "mlp_4", e, tuple(s)) for c, e, s in zip(data["cell"].to_numpy(), extra, grids, strict=True)]
    merge(tmp_path, rows, {"study": "tiny"})
    analyse(tmp_path)
    found = open_study(tmp_path).drops
    assert len(found[found["seed"] != 1]) == 7 * 3 * 4
    assert set(found[found["seed"] != 1]["status"]) == {"matched"}
    diverged = found[(found["seed"] == 1) & (found["source"] == "network") & (found["tier"] == "discrete")]
    assert diverged["mode_numbers"].tolist() == ["1", "2", "3", "4"]
    assert diverged["status"].tolist() == ["matched"] * 3 + ["censored"]
    assert set(found["modes"]) == {4}
