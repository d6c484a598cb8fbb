from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from nqf_pipeline.analysis.validity import Trend
from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.report import ignition, modes, tables
from nqf_pipeline.report.canvas import grid_of
from nqf_pipeline.report.chosen import finest_predictions
from nqf_pipeline.report.data import narrowed, ordered, typical, where
from nqf_pipeline.report.style import architecture_colours, shades
from nqf_pipeline.report.validity import _title
from nqf_pipeline.report.wording import listed, number, percent, power, short


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0153, "1.5 %"),
        (0.153, "15 %"),
        (0.99, "99 %"),
        (1.234, "123 %"),
        (0.000123, "0.012 %"),
        (0.0, "0 %"),
        (3e-6, "< 0.001 %"),
        (-0.02, "-2.0 %"),
        (71.4, "71 ×"),
        (np.nan, "n/a"),
    ],
)
def test_percent(value, text):
    assert percent(value).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.001, "0.001"), (12345.0, "12,345"), (1e-30, "1e-30"), (2.5e-7, "2.5e-7"), (0.0, "0"), (3.14159, "3.14"), (np.inf, "n/a")],
)
def test_number(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("value", "text"), [(85.0, "85"), (1234.0, "1.2k"), (123456.0, "123k"), (2.5e6, "2.5M")])
def test_short(value, text):
    assert short(value) == text


@given(st.integers(-300, 300))
def test_powers_of_ten_are_written_raised(exponent):
    text = power(10.0**exponent)
    assert text.removeprefix("10").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) == str(exponent)


def test_listed():
    assert (listed([]), listed(["a"]), listed(["a", "b", "c"])) == ("", "a", "a, b and c")


@given(st.integers(1, 40), st.integers(1, 6))
def test_panels_hold_all_and_waste_less_than_a_row(count, columns):
    rows, width = grid_of(count, columns)
    assert rows * width >= count > (rows - 1) * width
    assert width <= columns


def test_where_tells_tiny_numbers_apart():
    frame = pd.DataFrame({"epsilon": [1e-9, 1e-12, 1e-15], "seed": [0, 1, 2]})
    assert where(frame, epsilon=1e-12)["seed"].tolist() == [1]
    assert where(frame, epsilon=1e-12 * (1 + 1e-12))["seed"].tolist() == [1]
    assert where(frame, absent=1).empty


def test_typical_keeps_one_setting_of_everything_but_the_free_axes():
    rows = [{"architecture": "mlp", "width": width, "sigma": sigma, "noise": 0.0} for width in (64, 64, 64, 16) for sigma in (0.1, 0.01)]
    rows += [{"architecture": "cnn", "width": 8, "sigma": 0.1, "noise": noise} for noise in (0.5, 0.5, 0.0)]
    kept = typical(pd.DataFrame(rows), ["architecture"], {"sigma"})
    assert sorted(kept.loc[kept["architecture"] == "mlp", "width"]) == [64] * 6
    assert kept.loc[kept["architecture"] == "cnn", "noise"].tolist() == [0.5, 0.5]


def test_the_settings_that_a_choice_leaves_out_are_named() -> None:
    sweep = {"architecture": "mlp", "experiment": "a", "sigma": [0.1, 0.1, 0.01], "width": [16, 64, 16], "eps": [1e-12, 1e-12, 1e-8]}
    rows = pd.concat([pd.DataFrame(sweep), pd.DataFrame({**sweep, "experiment": "b", "width": 256})], ignore_index=True)
    assert narrowed(rows, rows[:1]) == "eps 1e-12, sigma 0.1 and width 16"
    assert narrowed(rows, rows[:3]) == ""


@pytest.mark.parametrize(("high", "words"), [(-0.1, ", goes as width^-0.59"), (0.27, ""), (np.nan, "")])
def test_a_title_claims_no_trend_whose_interval_holds_zero(high: float, words: str) -> None:
    title = _title(pd.DataFrame({"error": [0.02]}), ["width"], {"width": Trend(-0.59, -1.44, high, 12)})
    assert title == f"When the twin tells the time of its network: error 2.0\u00a0% (median){words}"


def test_order_is_the_registrys_not_the_alphabets():
    assert ordered(pd.Series(["cnn", "multi_head", "mlp", "cnn"])) == ["mlp", "cnn", "multi_head"]
    assert ordered(pd.Series(["adam", "gd"])) == ["gd", "adam"]
    assert ordered(pd.Series([0.5, 0.0, 1.0])) == [0.0, 0.5, 1.0]


def test_architectures_have_colours_that_can_be_told_apart():
    colours = architecture_colours()
    assert list(colours) == list(ARCHITECTURES)
    distances = [np.abs(np.subtract(to_rgb(a), to_rgb(b))).sum() for a, b in combinations(colours.values(), 2)]
    assert min(distances) > 0.2


def luminance(colour):
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot([0.2126, 0.7152, 0.0722], channels))


@pytest.mark.parametrize("kind", list(ARCHITECTURES))
def test_shades_go_from_dark_to_light_and_stay_visible(kind):
    tones = shades(architecture_colours()[kind], 4)
    values = [luminance(tone) for tone in tones]
    assert values == sorted(values)
    assert len(set(tones)) == 4
    assert all(0.02 < value < 0.75 for value in values)


def test_no_prediction_stays_no_prediction():
    """Only trained twins predict here: no row, not a row of nothing."""
    table = pd.DataFrame({"cell": ["a"], "mode": [1], "tier": ["twin"], "relative_error": [0.1]}, index=[95])
    assert finest_predictions(table).empty


def test_a_long_table_says_where_its_other_rows_are() -> None:
    assert tables._rest(tables.MOST, "cells") == ""
    assert f"The first {tables.MOST:,} of 20,000 rows" in tables._rest(20_000, "cells")
    assert "nqf query RESULTS cells" in tables._rest(20_000, "cells")


def test_numbers_of_close_modes_stand_on_both_sides():
    """Steps 55 and 58 of a window from 20 to 1000 are closer than a number is wide."""
    times = np.array([40.0, 58.0, 55.0, np.inf, 500.0, np.nan])
    assert modes._sides(times, (20.0, 1000.0)) == ["left", "left", "right", "left", "left", "left"]


def test_a_prediction_far_off_leaves_the_others_readable():
    """A single one, of 1e18 steps, is drawn at the edge and said to be."""
    table = pd.DataFrame({"t_measured": [10.0, 1000.0], "t_predicted": [11.0, 1e18]})
    reach = ignition._reach({"clock": table})
    assert reach == (10 / ignition.BEYOND, 1000 * ignition.BEYOND)
    assert ignition._beyond(table, reach) == 1
