"""`nqf fit`: exponents of synthetic curves, their intervals, and curves that hold no power law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqf_pipeline.analysis.curves import describe
from nqf_pipeline.analysis.curves.bins import binned
from nqf_pipeline.analysis.curves.columns import Series
from nqf_pipeline.analysis.curves.describe import Description
from nqf_pipeline.analysis.curves.noise import noise as roughness
from nqf_pipeline.analysis.curves.scan import scan
from tests.analysis.curve_files import epochs, noise, power_law

LOG, LINEAR = np.geomspace(1, 1e4, 200), np.arange(5.0, 1e4, 5)


def described(time: np.ndarray, loss: np.ndarray, epoch: np.ndarray | None = None) -> Description:
    (found,) = describe(Series("loss", "step", time, loss, epoch))
    return found


@pytest.mark.parametrize(
    ("time", "exponent", "floor"),
    [(LOG, 0.3, 0.0), (LOG, 1.5, 1e-4), (LINEAR, 0.7, 0.01)],
    ids=["log", "log_steep", "linear"],
)
def test_exponent_and_floor_of_a_power_law(time, exponent, floor):
    found = described(time, power_law(time, exponent, floor, 0.0, "white", np.random.default_rng(0)))
    assert found.status == "ok"
    assert found.law.exponent == pytest.approx(exponent, rel=1e-3)
    assert found.law.floor == pytest.approx(floor, rel=0.02, abs=1e-4 * time[-1] ** -exponent)
    assert found.spacing == ("log" if time is LOG else "linear")
    assert found.law.window.decades > 2.5


@pytest.mark.parametrize(
    ("kind", "time", "sigma"),
    [("white", LOG, 0.03), ("autocorrelated", LINEAR, 0.05)],
    ids=["white", "autocorrelated"],
)
def test_interval_covers_the_truth(kind, time, sigma):
    """Of ten intervals of 95 %, fewer than seven cover with probability 0.001; docs/fitting.md has the coverage of a hundred."""
    rng = np.random.default_rng(11)
    found = [described(time, power_law(time, 0.8, 3e-3, sigma, kind, rng)) for _ in range(10)]
    laws = [item.law for item in found if item.law]
    assert len(laws) == 10
    assert sum(law.low <= 0.8 <= law.high for law in laws) >= 7
    assert np.median([law.high - law.low for law in laws]) < 0.15
    assert abs(np.mean([law.exponent for law in laws]) / 0.8 - 1) < 0.02


@settings(max_examples=15)
@given(st.floats(0.3, 1.5), st.floats(0.5, 100), st.floats(1e-3, 1e3))
def test_units_of_time_and_loss_do_not_matter(exponent, scale, unit):
    loss = power_law(LOG, exponent, 0.0, 0.01, "white", np.random.default_rng(3))
    rough = roughness(np.log(loss))
    first, second = scan(binned(LOG, loss, rough, 60)), scan(binned(LOG * scale, loss * unit, rough, 60))
    assert second.exponent == pytest.approx(first.exponent)
    assert second.window.start == pytest.approx(first.window.start * scale)


def test_window_leaves_out_a_plateau_and_a_cut_off():
    """An early plateau and a late exponential cut-off: the window lies between them."""
    time = np.geomspace(1, 1e6, 400)
    found = described(time, (time + 10) ** -0.5 * np.exp(-((time / 6e5) ** 2)))
    assert found.status == "ok"
    assert found.law.exponent == pytest.approx(0.5, abs=0.03)
    assert 10 < found.law.window.start < 1000
    assert found.law.window.end < 4e5


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (np.exp(-LOG / 300) + 0.01, "no power law"),
        (np.exp(-((LOG / 50) ** 0.4)), "no power law"),
        (np.full(200, 0.7), "never left its plateau"),
        (LOG**0.2, "the loss rises"),
        (LOG**-1.0 + 0.3, "law exceeds its floor"),
    ],
    ids=["exponential", "stretched", "flat", "rising", "floor"],
)
def test_what_is_no_power_law_is_not_resolved(loss, reason):
    found = described(LOG, loss * np.exp(0.01 * noise("white", 200, np.random.default_rng(5))))
    assert found.status == "not_resolved"
    assert reason in found.reason
    assert found.document()["exponent"] is None


@pytest.mark.parametrize(("time", "reason"), [(np.geomspace(100, 500, 80), "too few decades"), (np.geomspace(1, 1e4, 6), "too few points")])
def test_short_curves_are_not_resolved(time, reason):
    assert reason in described(time, time**-0.5).reason


def test_loss_is_not_fitted_through_a_rise():
    """A power law over three decades, a rise, and another fall: the exponent is that of the stretch, and the rise is said."""
    time = np.geomspace(1, 1e5, 500)
    found = described(time, time**-0.5 * np.where(time > 3e3, 1 + 4 * np.log(np.maximum(time / 3e3, 1)), 1.0))
    assert "rise" in {note.code for note in found.notes}
    assert found.status == "ok"
    assert found.law.exponent == pytest.approx(0.5, abs=0.02)
    assert found.law.window.end < 4e3


def test_jumps_break_the_curve():
    time = np.arange(1.0, 3000)
    loss = time**-0.8 * np.where(time > 2000, 30.0, 1.0)
    found = described(time, loss)
    assert [note.code for note in found.notes] == ["jump"]
    assert found.law.exponent == pytest.approx(0.8, abs=0.01)
    assert found.law.window.end < 2001


def test_spikes_are_left_out():
    loss = LINEAR**-0.5
    loss[[400, 401, 1200]] *= 5
    found = described(LINEAR, loss)
    assert [note.code for note in found.notes] == ["spikes"]
    assert "3 records" in found.notes[0].message
    assert found.law.exponent == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("count", "records", "counted"), [(8, 50, False), (20, 10, True), (10, 200, False), (4, 40, True)])
def test_drops_at_epoch_boundaries_are_named(count, records, counted):
    step, loss, epoch = epochs(count, records)
    loss = loss * np.exp(0.02 * noise("white", len(step), np.random.default_rng(2)))
    found = described(step, loss, epoch if counted else None)
    named = [drop for drop in found.drops if drop.kind == "epoch_boundary"]
    assert len(named) == count - 1
    assert np.allclose([drop.time for drop in named], records * np.arange(1, count), atol=1.0)
    assert "epoch_staircase" in {note.code for note in found.notes}
    assert not [drop for drop in found.drops if drop.kind == "drop"]
    assert "epoch boundaries" in found.reason
