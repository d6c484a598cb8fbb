"""Finite-size scaling of steps on logistic modes, whose scaling form is known exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xarray import DataTree

from nqf_pipeline.analysis.collapse import Size, Transition, quality_of, rescaled, rows_of, transitions
from nqf_pipeline.store.open import Study
from tests.analysis.synthetic import dataset, power_law

RATES = np.array([1.0, 0.5, 0.2])


def size(epsilon: float, power: float = 1.0, seeds: int = 6) -> Size:
    """Modes with ln odds = r (t - L / r) slowed by L^(power - 1), so that widths in tau shrink as L^-power."""
    length = np.log(1 / epsilon)
    time = np.linspace(0, 3 * length / RATES.min(), 6000)
    slow = length ** (power - 1)
    start = np.log(np.random.default_rng(0).chisquare(8, (seeds, 3)) / 8)
    odds = slow * (RATES * time[:, None] - length) + start[:, None]
    strength = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
    crossing = np.array([(length + (np.log(e / (1 - e)) - start) / slow) / RATES for e in (0.1, 0.5, 0.9)])
    return Size(epsilon, time, strength, crossing, 1 / RATES)


def transition(power: float = 1.0) -> Transition:
    return Transition({}, np.arange(1.0, 4), tuple(size(epsilon, power) for epsilon in (1e-3, 1e-6, 1e-12, 1e-24)))


def test_logistic_modes_sharpen_and_collapse_with_power_one() -> None:
    for row, rate in zip(rows_of(transition()), RATES, strict=True):
        assert row["width_exponent"] == pytest.approx(1.0, abs=1e-6)
        assert row["tau_c"] == pytest.approx(1 / rate, rel=1e-6)
        assert row["tau_c_predicted"] == 1 / rate
        assert row["phi"] == pytest.approx(1.0, abs=0.02)
        assert row["phi_low"] <= 1 <= row["phi_high"]
        assert row["quality"] < 0.1 < 10 < row["unscaled"]
        assert row["variance_ratio"] < 0.01


def test_another_power_is_found_and_the_predicted_one_refused() -> None:
    row = next(iter(rows_of(transition(0.7))))
    assert row["width_exponent"] == pytest.approx(0.7, abs=1e-6)
    assert row["phi"] == pytest.approx(0.7, abs=0.03)
    assert row["phi_high"] < 1
    assert row["quality"] > 1.5


def test_quality_is_about_one_for_errors_of_the_stated_size() -> None:
    rng = np.random.default_rng(2)
    x = np.linspace(-8, 8, 400)
    curves = [(x, 1 / (1 + np.exp(-x)) + 0.01 * rng.standard_normal(400), np.full(400, 0.01)) for _ in range(6)]
    assert 0.7 < quality_of(curves)[0] < 1.3


def test_rescaling_keeps_the_place_of_the_step() -> None:
    found = transition()
    curves = rescaled(found.curves(0), found.length, 1.0, 1.0)
    places = [np.interp(0.5, mean, x) for x, mean, _ in curves]
    assert np.ptp(places) < 0.01


def test_separation_and_plateaus_grow_with_the_size() -> None:
    """Half-times L / r over mean widths ln 81 / r: the sudden verdict's own formula."""
    small, large = size(0.05), size(1e-24)
    order = np.array([np.median(s.crossing[1], 0) for s in (small, large)])
    widths = np.log(81) / RATES
    expected = np.diff(order[1], prepend=0) / ((widths + np.concatenate([[0], widths[:-1]])) / 2)
    np.testing.assert_allclose(large.verdict.separation, expected)
    assert (large.verdict.separation > small.verdict.separation).all()
    assert large.verdict.plateaus == 3 > small.verdict.plateaus


def test_seeds_of_one_setting_stay_together_whatever_their_estimated_error() -> None:
    """The regime's estimate differs from data set to data set: it names no setting."""
    grid = [(epsilon, seed) for epsilon in (1e-4, 1e-6, 1e-8, 1e-12) for seed in (0, 1)]
    curves = [power_law(2.0, 0.8, epsilon, modes=3, late=1.0) for epsilon, _ in grid]
    data = dataset(curves, rate=1e-4, timing_error=("cell", np.linspace(0, 1e-3, len(grid))))
    data = data.assign(theory_ignition=data["theory_ignition"] * 0 + 100.0).assign_coords(tier=["asymptote"])
    named = {name: ("cell", list(values)) for name, values in zip(("epsilon", "seed"), zip(*grid, strict=True), strict=True)}
    tree = DataTree.from_dict({"bucket": data.fillna(100.0).assign_coords(architecture=("cell", ["diagonal"] * len(grid)), **named)})
    found = list(transitions(Study(Path(), tree)))
    assert [transition.key["source"] for transition in found] == ["network", "twin"]
    assert {len(size.strength) for size in found[0].sizes} == {2}
    assert len(found[0].sizes) == 4
