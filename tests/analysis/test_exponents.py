"""Exponents: the fit recovers what made the curve, the interval covers, and what is not resolved says why."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqf_pipeline.analysis.exponents import Curves, estimate, exponent_rows, fit_window, interval, source_curves
from nqf_pipeline.analysis.ignition import flow_time
from nqf_pipeline.analysis.jackknife import without_each
from nqf_pipeline.analysis.powerlaw import fit, fit_many, influence
from nqf_pipeline.analysis.window_scan import scan_rows
from nqf_pipeline.analysis.windows import Unresolved, Window, window
from nqf_pipeline.study.config import AnalysisSettings, WindowRule
from tests.analysis import reference_fit
from tests.analysis.synthetic import dataset, power_law

SETTINGS = AnalysisSettings()
SHORT = AnalysisSettings(window=WindowRule(first_mode=3, last_share=0.2))


def rows(curves: list, analysis: AnalysisSettings = SETTINGS, rate: float = 1e-3, **coords: object) -> pd.DataFrame:
    data = dataset(curves, rate=rate)
    coordinates = pd.DataFrame({"cell": data["cell"].to_numpy(), "seed": range(len(curves)), "steps": 1, "experiment": "x", "alpha1": 2.0})
    return exponent_rows(data.assign_coords(**coords), coordinates, analysis).set_index("source")


@settings(max_examples=40, deadline=None)
@given(exponent=st.floats(0.3, 3.0), amplitude=st.floats(1e-3, 1e3), share=st.floats(1e-3, 0.8))
def test_fit_recovers_exponent_amplitude_and_floor(exponent: float, amplitude: float, share: float) -> None:
    time = np.geomspace(5, 5000, 120)
    floor = share * amplitude * time[60] ** -exponent
    loss = amplitude * time**-exponent + floor
    for known, tolerance in ((floor, 1e-8), (None, 1e-4)):
        found = fit(time, loss, known)
        assert found.exponent == pytest.approx(exponent, rel=tolerance)
        assert found.amplitude == pytest.approx(amplitude, rel=20 * tolerance)
        assert found.floor == pytest.approx(floor, rel=20 * tolerance)
        np.testing.assert_allclose(found(time), loss, rtol=1e-4)


@pytest.mark.parametrize(("decades", "noise"), [(3, 0.01), (2, 0.03)])
def test_batched_fits_agree_with_scipy(decades: float, noise: float) -> None:
    """Whole curves and windows of them: where the floor lies among the losses, both find the same minimum."""
    rng = np.random.default_rng(3)
    time, count = np.logspace(0, decades, 90), 60
    exponent = rng.uniform(0.4, 2.5, (count, 1))
    floor = rng.uniform(0.05, 1, (count, 1)) * time[60] ** -exponent
    loss = (time**-exponent + floor) * np.exp(noise * rng.standard_normal((count, 90)))
    inside = np.ones((count, 90), bool)
    inside[::2, :10] = False
    inside[::3, 80:] = False
    found = fit_many(time, loss, inside)
    expected = [reference_fit.fit(time[where], values[where]) for where, values in zip(inside, loss, strict=True)]
    for name in ("exponent", "amplitude", "floor", "residual"):
        np.testing.assert_allclose(getattr(found, name), [getattr(law, name) for law in expected], rtol=1e-5, err_msg=name)
    assert fit(time, loss[1], None).exponent == pytest.approx(found.exponent[1], rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    seeds=st.integers(2, 7),
    modes=st.integers(3, 12),
    floor=st.sampled_from([None, 0.0, 0.02]),
    broken=st.sampled_from([0.0, 0.0, np.inf, np.nan]),
    draw=st.integers(0, 2**31),
)
def test_all_seeds_are_left_out_at_once_as_one_by_one(seeds: int, modes: int, floor: float | None, broken: float, draw: int) -> None:
    """With modes that some seeds never ignite, windows that differ from seed to seed, floors known or not, and a run that diverges."""
    rng = np.random.default_rng(draw)
    time, number = np.geomspace(1, 1e4, 60), rng.permutation(np.arange(1, modes + 1) * 10)
    slope = rng.uniform(0.4, 1.2, (seeds, 1))
    ignition = 3.0 * number**1.2 * rng.lognormal(0, 0.2, (seeds, modes))
    ignition[rng.random(ignition.shape) < 0.1] = np.nan
    known = None if floor is None else np.full(seeds, floor)
    loss = time**-slope * rng.lognormal(0, 0.01, (seeds, 60)) + (floor or 0.01)
    loss[0, int(rng.integers(20, 60)) :] += broken
    curves = Curves(time, loss, known, ignition, number)
    rule, asked = WindowRule(first_mode=20, last_share=0.8, decades=0.4), []

    def one(seed: int) -> float:
        asked.append(seed)
        return estimate(curves.without(seed), rule)[0].exponent

    try:
        expected = [estimate(curves.without(seed), rule)[0].exponent for seed in range(seeds)]
    except Unresolved as finding:
        with pytest.raises(Unresolved, match=re.escape(str(finding))):
            without_each(curves, rule, one)
        return
    np.testing.assert_allclose(without_each(curves, rule, one), expected, rtol=1e-6 if floor is None else 1e-10)
    plain = [not window(ignition[np.arange(seeds) != seed], number, time, rule).reason for seed in range(seeds)]
    assert asked == [seed for seed in range(seeds) if not plain[seed]]


def test_curves_that_cannot_be_fitted_are_nan_and_spoil_no_others() -> None:
    time = np.geomspace(1, 100, 40)
    loss = np.stack([time**-0.5 + 0.01, np.full(40, np.nan), np.where(time > 2, 0.0, 1.0), time**-1.5 + 0.001])
    found = fit_many(time, loss)
    np.testing.assert_allclose(found.exponent[[0, 3]], [0.5, 1.5], rtol=1e-4)
    assert np.isnan(found.exponent[1])
    few = np.zeros(loss.shape, bool)
    few[:, :2] = True
    assert np.isnan(fit_many(time, loss, few).exponent).all()


def test_the_influence_of_noise_on_a_fit_gives_the_spread_of_its_exponents() -> None:
    time = np.geomspace(1, 1e3, 100)
    rng = np.random.default_rng(5)
    noise = 0.02 * np.where(time > 30, 0.3, 1.0)
    found = fit_many(time, (time**-0.9 + 0.01) * np.exp(noise * rng.standard_normal((2000, 100))))
    by_point = influence(time, found, np.ones((2000, 100), bool))
    assert np.std(found.exponent) == pytest.approx(np.median(np.sqrt(((noise * by_point) ** 2).sum(1))), rel=0.06)


def test_ignoring_a_floor_is_visibly_wrong() -> None:
    time = np.geomspace(5, 5000, 120)
    loss = time**-1.0 + 1e-3
    assert fit(time, loss, 0.0).exponent < 0.9
    assert fit(time, loss, None).exponent == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("alpha1", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("alpha2", [0.5, 0.8, 1.5])
def test_the_grid_of_the_paper_is_resolved_and_approaches_the_limit(alpha1: float, alpha2: float) -> None:
    limit = (alpha1 - 1) / alpha2
    errors = []
    for epsilon in (1e-4, 1e-10):
        row = rows([power_law(alpha1, alpha2, epsilon)]).loc["network"]
        assert row["status"] == "ok", row["reason"]
        assert row["ci_low"] <= row["exponent"] <= row["ci_high"]
        assert row["ci_method"] == "subwindows"
        assert row["relative_error"] == pytest.approx(0, abs=1e-12)
        errors.append(abs(row["exponent"] / limit - 1))
    assert errors[1] <= errors[0] + 1e-3
    assert errors[1] < (0.2 if alpha1 == 1.5 else 0.03)


def test_measured_and_predicted_share_the_window() -> None:
    """A slower network is fitted in its own, later window, and so is the prediction for it."""
    curve = power_law(2.0, 0.8, 1e-6)
    slow = (curve[0], *(values for values in power_law(2.0, 0.8, 1e-9)[1:]))
    data = dataset([curve], rate=1e-3, network=[slow])
    coordinates = pd.DataFrame({"cell": data["cell"].to_numpy(), "seed": [0]})
    found = exponent_rows(data, coordinates, SETTINGS).set_index("source")
    assert found.loc["network", "window_start"] != found.loc["twin", "window_start"]
    theory = dict(source_curves(data, 0.5))["theory"]
    where = window(dict(source_curves(data, 0.5))["network"].ignition, theory.number, theory.time, SETTINGS.window)
    assert found.loc["network", "predicted_finite"] == fit_window(theory, where).exponent
    assert found.loc["network", "relative_error"] != 0


def test_the_prediction_is_the_curve_expected_before_weights_are_drawn() -> None:
    rng = np.random.default_rng(3)
    curves = [power_law(2.0, 0.8, 1e-6, draws=rng.chisquare(8, 1000) / 8) for _ in range(3)]
    expected = power_law(2.0, 0.8, 1e-6)[1]
    data = dataset(curves, rate=1e-3)
    coordinates = pd.DataFrame({"cell": data["cell"].to_numpy(), "seed": range(3)})
    own = exponent_rows(data, coordinates, SETTINGS).set_index("source").loc["network"]
    prior = data.assign(expected_loss=(("cell", "step"), np.tile(expected, (3, 1))))
    found = exponent_rows(prior, coordinates, SETTINGS).set_index("source").loc["network"]
    assert own["relative_error"] == pytest.approx(0, abs=1e-12)
    assert found["exponent"] == own["exponent"]
    assert 0 < abs(found["relative_error"]) < 0.02
    partly = prior.assign(expected_loss=prior["expected_loss"].where(prior["step_number"] > 0))
    assert exponent_rows(partly, coordinates, SETTINGS)["predicted_finite"].iloc[0] == own["predicted_finite"]


def test_the_interval_covers_the_exponent_of_many_seeds() -> None:
    """Random seeds of the modes (chi-square with 1 degree of freedom), 5 runs a setting."""
    rng = np.random.default_rng(7)

    def seeds(count: int) -> Curves:
        curves = [power_law(2.0, 1.0, 1e-6, modes=200, draws=rng.chisquare(1, 200)) for _ in range(count)]
        return dict(source_curves(dataset(curves, rate=1e-3), 0.5))["network"]

    truth = estimate(seeds(300), SHORT.window)[0].exponent
    covered, methods = [], []
    for _ in range(60):
        curves = seeds(5)
        law, where = estimate(curves, SHORT.window)
        low, high, method = interval(curves, where, law.exponent, SHORT)
        covered.append(low <= truth <= high)
        methods.append(method)
        assert high - low < 0.4
    assert np.mean(covered) >= 0.87
    assert "jackknife_t" in methods


def test_one_row_per_curve_with_the_limit() -> None:
    curve = power_law(2.0, 0.8, 1e-6)
    found = rows([curve] * 3, exponent_limit=("cell", np.full(3, 1.25)))
    assert list(found.index) == ["network", "twin", "theory"]
    assert (found["predicted_limit"] == 1.25).all()
    assert (found["seeds"] == 3).all()
    assert found.loc["network", "ignitions"] == 97
    assert found.loc["network", "decades"] == pytest.approx(0.8 * np.log10(100 / 3), rel=0.05)


def test_a_known_floor_is_taken_off_and_a_wrong_one_is_fitted() -> None:
    time, loss, strength = power_law(2.0, 0.8, 1e-6)
    plain = rows([(time, loss, strength)]).loc["network"]
    lifted = dataset([(time, loss + 0.01, strength)], rate=1e-3)
    coordinates = pd.DataFrame({"cell": lifted["cell"].to_numpy(), "seed": [0]})
    known = exponent_rows(lifted.assign(loss_floor=("cell", [0.01])), coordinates, SETTINGS).iloc[0]
    assert known["exponent"] == pytest.approx(plain["exponent"], rel=1e-9)
    assert known["floor"] == 0.01
    fitted = exponent_rows(lifted.drop_vars("loss_floor"), coordinates, SETTINGS).iloc[0]
    assert fitted["floor"] == pytest.approx(0.01, rel=0.03)
    below = exponent_rows(lifted.assign(loss_floor=("cell", [0.02])), coordinates, SETTINGS).iloc[0]
    assert below["floor"] == fitted["floor"]


def unresolved(curves: list, **changes: object) -> str:
    row = rows(curves, AnalysisSettings(window=WindowRule(**changes))).loc["network"]
    assert row["status"] == "not_resolved"
    return str(row["reason"])


def test_reasons() -> None:
    curve = power_law(2.0, 0.8, 1e-6)
    early = tuple(values[:120] for values in curve)
    assert "too few modes: 8 in all" in unresolved([power_law(2.0, 0.8, 1e-6, modes=8)])
    assert "did not ignite within the run" in unresolved([early])
    assert "too few decades" in unresolved([curve], decades=3.0)
    assert "too few points" in unresolved([tuple(values[::20] for values in curve)])
    bent = (curve[0], curve[1] * np.maximum(curve[0] / 200, 1) ** -2.0, curve[2])
    assert "unstable slope" in unresolved([bent])
    flat = (curve[0], 1.0 + 1e-3 * curve[1], curve[2])
    assert "plateau" in unresolved([flat])


def test_a_curve_that_breaks_off_is_fitted_before_that() -> None:
    curve = power_law(2.0, 0.8, 1e-6)
    broken = (curve[0], np.where(curve[0] > 300, np.nan, curve[1]), curve[2])
    data = dataset([curve], rate=1e-3, network=[broken])
    found = exponent_rows(data, pd.DataFrame({"cell": data["cell"].to_numpy()}), SETTINGS).set_index("source")
    assert found.loc["network", "window_end"] < 300 < found.loc["twin", "window_end"]
    assert found.loc["network", "status"] == "ok"
    nowhere = data.assign(theory_loss=data["theory_loss"].where(data["time"] < 100))
    assert exponent_rows(nowhere, pd.DataFrame({"cell": data["cell"].to_numpy()}), SETTINGS)["predicted_finite"].isna().all()


def test_a_few_modes_pose_no_question_of_scaling() -> None:
    data = dataset([power_law(2.0, 0.8, 1e-6, modes=4)], rate=1e-3)
    assert exponent_rows(data, pd.DataFrame({"cell": data["cell"].to_numpy()}), SETTINGS).empty


def test_cells_that_did_not_finish_do_not_count() -> None:
    curve = power_law(2.0, 0.8, 1e-6)
    data = dataset([curve, curve], rate=1e-3)
    coordinates = pd.DataFrame({"cell": data["cell"].to_numpy(), "seed": [0, 1]})
    half = exponent_rows(data.assign(status=("cell", np.array([1, 2], "int8"))), coordinates, SETTINGS)
    assert half["seeds"].tolist() == [1, 1, 1]
    none = exponent_rows(data.assign(status=("cell", np.array([0, 2], "int8"))), coordinates, SETTINGS)
    assert none["reason"].tolist() == ["no cell of this setting finished"] * 2


def test_seeds_on_different_grids_meet_on_a_common_one() -> None:
    curves = [power_law(2.0, 0.8, 1e-6), power_law(2.0, 0.8, 1e-6, late=0.25)]
    assert rows(curves).loc["network", "exponent"] == pytest.approx(rows(curves[:1]).loc["network", "exponent"], rel=1e-3)


def test_the_window_waits_for_its_modes() -> None:
    number = np.array([1, 2, 3, 5, 10, 100])
    time = np.geomspace(1, 1e4, 200)
    ignition = 10.0 * number[None] ** 1.0
    found = window(ignition, number, time, WindowRule(first_mode=3, last_share=0.5, decades=0.5))
    assert (found.start, found.end) == (pytest.approx(30), pytest.approx(500))
    later = np.where(number > 10, np.nan, ignition)
    whole = window(later, number, time, WindowRule(last_share=0.5, decades=0.6))
    assert (whole.start, whole.end, whole.ignitions) == (pytest.approx(10), time[-1], 5)
    assert "too few decades: the window spans 0.52, at least 0.6" in whole.reason
    assert window(later, number, time, WindowRule(last_share=0.5, decades=0.5)).end == pytest.approx(100)
    few = np.where(number > 2, np.nan, ignition)
    assert "mode 3 did not ignite" in window(few, number, time, WindowRule(last_share=0.5)).reason
    with pytest.raises(Unresolved, match="mode 3 did not ignite"):
        window(few, number, time[time < 10], WindowRule(last_share=0.5))
    with pytest.raises(Unresolved, match="mode 3 did not ignite"):
        window(np.full_like(ignition, np.nan), number, time, WindowRule(last_share=0.5))


def test_what_is_not_resolved_still_shows_its_fit_and_prediction() -> None:
    """A run in which only a few of many modes ignite, as in the paper's Fourier MLP."""
    early = tuple(values[:80] for values in power_law(2.0, 1.5, 1e-6))
    row = rows([early], rate=1e-4).loc["network"]
    assert row["status"] == "not_resolved"
    assert "too few modes" in row["reason"]
    assert row["exponent"] == row["predicted_finite"]
    assert row["ci_low"] < row["exponent"] < row["ci_high"]
    assert row["window_end"] == early[0][-1]


def test_seeds_that_never_ignite_a_mode_do_not_hide_it() -> None:
    number, time = np.arange(1, 41), np.geomspace(1, 1e4, 200)
    ignition = np.tile(10.0 * number, (3, 1))
    ignition[0, 4:] = np.nan
    assert window(ignition, number, time, WindowRule(last_share=0.5)).end == pytest.approx(200)
    ignition[1, 10:] = np.nan
    assert window(ignition, number, time, WindowRule(last_share=0.5)).end == pytest.approx(100)


def test_other_laws_and_the_finite_size_curve_stand_beside_the_exponent() -> None:
    """A network slower by a fifth than theory: its scale is measured, its shape fits, and a power law is not the whole story."""
    curve = power_law(2.0, 0.8, 1e-6)
    slow = (curve[0], np.interp(curve[0] / 1.2, curve[0], curve[1]), curve[2])
    data = dataset([curve], rate=1e-3, network=[slow])
    row = exponent_rows(data, pd.DataFrame({"cell": data["cell"].to_numpy(), "seed": [0]}), SETTINGS).set_index("source").loc["network"]
    assert row["theory_scale"] == pytest.approx(1.2, rel=0.005)
    assert row["theory_misfit"] < 0.003
    assert row["best_model"] == "theory"
    assert row["theory_bic"] == 0 < row["power_law_bic"]


def test_every_window_has_its_exponent_and_prediction() -> None:
    data = dataset([power_law(2.0, 0.8, 1e-6)], rate=1e-3)
    scanned = scan_rows(data, pd.DataFrame({"cell": data["cell"].to_numpy(), "seed": [0]}), SETTINGS)
    network = scanned[scanned["source"] == "network"]
    assert 40 < len(network) <= 78
    np.testing.assert_allclose(network["exponent"], network["predicted_finite"])
    assert network["exponent"].max() > 1.15 * network["exponent"].min()
    one = network.iloc[10]
    curves = dict(source_curves(data, 0.5))["network"]
    assert one["exponent"] == fit_window(curves, Window(one["window_start"], one["window_end"], 0.0)).exponent
    assert (network["decades"] >= 0.25).all()


def test_ignitions_of_a_scheduled_run_are_read_in_its_own_time() -> None:
    """Half the learning rate from the middle on: a step there takes half as long as before, and no common scale turns steps into time."""
    steps, time = np.array([0, 50, 100, 200, 300]), np.array([0.0, 50, 100, 150, 200])
    found = flow_time(np.array([25.0, 100.0, 150.0, 400.0, np.inf, np.nan]), steps, time)
    np.testing.assert_allclose(found, [25, 100, 125, 250, np.inf, np.nan])
    halted = np.array([0.0, 50, 100, 100, 100])
    np.testing.assert_allclose(flow_time(np.array([400.0, np.inf]), steps, halted), [100, np.inf])
    curve = power_law(2.0, 0.8, 1e-6)
    plain, slow = (dataset([curve], rate=1e-3) for _ in range(2))
    half = len(curve[0]) // 2
    late = slow["step_number"].to_numpy()
    late[:, half:] = 2 * late[:, half:] - late[:, half]
    ignitions = [dict(source_curves(data, 0.5))["network"].ignition for data in (plain, slow)]
    np.testing.assert_allclose(*ignitions, rtol=0.02)
