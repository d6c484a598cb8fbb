"""`nqf fit`: plateaus and drops are found where they are, and not where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from nqf_pipeline.analysis.curves.describe import fine_bins
from nqf_pipeline.analysis.curves.epochs import staircase as periodic
from nqf_pipeline.analysis.curves.noise import noise as roughness
from nqf_pipeline.analysis.curves.steps import steps
from tests.analysis.curve_files import noise, power_law, staircase


def found_in(time: np.ndarray, loss: np.ndarray):
    return steps(fine_bins(time, loss, roughness(np.log(loss))))


@pytest.mark.parametrize(("kind", "curves"), [("white", 300), ("autocorrelated", 800), ("heavy_tailed", 300)])
def test_smooth_power_laws_have_no_plateau(kind, curves):
    """False plateaus, drops or epochs on fewer than 1 % of noisy power laws with and without floor."""
    rng = np.random.default_rng(1)
    false = 0
    for number in range(curves):
        records = int(rng.choice([60, 200, 1000]))
        time = np.geomspace(1, 1e4, records) if number % 2 else 10.0 * np.arange(1, records + 1)
        floor = float(rng.choice([0, 10 ** rng.uniform(-4, -1)]))
        loss = power_law(time, rng.uniform(0.2, 2), floor, 10 ** rng.uniform(-3, -0.7), kind, rng)
        false += any(found_in(time, loss)) or periodic(time, loss, roughness(np.log(loss)), None) is not None
    assert false / curves < 0.01


@pytest.mark.parametrize("sigma", [0.0, 0.003, 0.03])
@pytest.mark.parametrize("time", [np.geomspace(1, 770, 200), np.linspace(0.77, 770, 1000)], ids=["log", "linear"])
def test_a_known_staircase_is_recovered(time, sigma):
    """Four modes a factor of 0.3 apart: levels, order and times (half of the strength is a quarter of the excess loss)."""
    strengths = 0.3 ** np.arange(4.0)
    clean, ignition = staircase(time, strengths)
    plateaus, drops = found_in(time, clean * np.exp(sigma * noise("white", len(time), np.random.default_rng(4))))
    assert len(drops) == 4
    assert np.allclose([drop.time for drop in drops], ignition, rtol=0.06)
    assert all(drop.start <= drop.time <= drop.end for drop in drops)
    assert [plateau.kind for plateau in plateaus[:4]] == ["first", "between", "between", "between"]
    levels = [(strengths[k:] ** 2).sum() + 1e-3 for k in range(4)]
    assert np.allclose([plateau.loss for plateau in plateaus[:4]], levels, rtol=0.06)
    assert all(plateau.end <= drop.start * 1.2 for plateau, drop in zip(plateaus, drops, strict=False))


def test_the_last_level_is_a_plateau_that_nothing_has_ended():
    time = np.geomspace(1, 1000, 300)
    plateaus, drops = found_in(time, 1.0 - 0.9 / (1 + np.exp(-12 * np.log(time / 30))))
    assert [plateau.kind for plateau in plateaus] == ["first", "last"]
    assert [drop.kind for drop in drops] == ["drop"]
    assert plateaus[-1].loss == pytest.approx(0.1, rel=0.05)
    assert drops[0].factor == pytest.approx(10, rel=0.1)


def test_a_drop_that_the_record_cuts_is_unfinished():
    time = np.geomspace(1, 60, 200)
    _, drops = found_in(time, 1.0 - 0.999 / (1 + np.exp(-6 * np.log(time / 50))))
    assert [drop.kind for drop in drops] == ["unfinished"]


def test_a_long_fall_after_a_plateau_is_no_drop():
    time = np.geomspace(1, 1e6, 300)
    plateaus, drops = found_in(time, (1 + time / 100) ** -0.7)
    assert [plateau.kind for plateau in plateaus] == ["first"]
    assert drops == []
