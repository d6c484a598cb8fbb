"""The validity map and the kernel's exponent: known laws are found again, and what has no trend says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nqf_pipeline.analysis.kernel import regime, width_exponent
from nqf_pipeline.analysis.validity import median_map, middle, plane, swept, timing_errors, trend, valley


def plateaus(rng: np.random.Generator) -> pd.DataFrame:
    """Errors 0.5 / width * (sigma / 1e-3)^(+-1/2) with 5 % noise, four modes and three seeds."""
    rows = [
        {"cell": f"{width}-{sigma}-{samples}-{seed}", "width": width, "sigma": sigma, "samples": samples, "seed": seed, "mode": mode}
        for width in (16, 64, 256)
        for sigma in (1e-5, 1e-3, 1e-1)
        for samples in (100, 1000)
        for seed in range(3)
        for mode in (1, 2, 3, 4)
    ]
    frame = pd.DataFrame(rows)
    size = 0.5 / frame["width"] * np.exp(0.5 * np.abs(np.log(frame["sigma"] / 1e-3)) + 0.05 * rng.standard_normal(len(frame)))
    sign = np.where(frame["mode"] > 2, -1, 1)
    return frame.assign(source="network", tier="twin", status="matched", relative_error=sign * size, t_measured=100.0, t_predicted=100.0)


def test_known_powers_are_found(rng) -> None:
    rows = timing_errors(plateaus(rng))
    assert swept(rows) == ["sigma", "width", "samples"]
    found = trend(plane(rows, ("width",)), "width")
    assert found.low < -1 < found.high
    assert found.high - found.low < 0.1
    assert valley(rows) == 1e-3
    upwards = trend(rows[(rows["sigma"] >= 1e-3) & (rows["width"] == 64)], "sigma")
    assert upwards.slope == pytest.approx(0.5, abs=0.02)
    flat = trend(plane(rows, ("samples",)), "samples")
    assert flat.low < 0 < flat.high


def test_the_map_holds_the_other_axis_at_its_middle(rng) -> None:
    rows = timing_errors(plateaus(rng))
    shown = plane(rows, ("sigma", "width"))
    assert set(shown["samples"]) == {middle(rows["samples"])} == {100.0}
    table = median_map(shown, "sigma", "width")
    assert table.shape == (3, 3)
    assert table.loc[64, 1e-3] == pytest.approx(0.5 / 64, rel=0.05)


def test_what_is_no_timing_is_left_out(rng) -> None:
    table = plateaus(rng)
    table.loc[0, "status"] = "censored"
    table.loc[1, "t_predicted"] = 2.0
    table.loc[2, "tier"] = "discrete"
    table.loc[3, "relative_error"] = np.nan
    assert len(timing_errors(table)) == len(table) - 4
    assert timing_errors(table.iloc[:0]).empty


def test_too_few_cells_have_no_trend(rng) -> None:
    rows = timing_errors(plateaus(rng))
    assert np.isnan(trend(rows[rows["width"] == 16], "width").slope)
    assert np.isnan(trend(rows[rows["cell"] == rows["cell"].iloc[0]], "sigma").slope)
    assert np.isnan(trend(rows.assign(error=1e-9), "width").slope)


def test_kernel_changes_are_named_and_scale_with_width(rng) -> None:
    assert [regime(value) for value in (0.05, 0.5, 20.0, np.nan)] == ["lazy", "in between", "feature learning", "unknown"]
    cells = pd.DataFrame([(w, s) for w in (16, 64, 256) for s in (1e-3, 1e-2)], columns=["width", "sigma"])
    cells["kernel_change"] = 3 / (cells["width"] * cells["sigma"] ** 2) * np.exp(0.02 * rng.standard_normal(len(cells)))
    found = width_exponent(cells)
    assert found is not None
    assert found.low < -1 < found.high < -0.9
    assert width_exponent(cells[cells["width"] == 16]) is None
