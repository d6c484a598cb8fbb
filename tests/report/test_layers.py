"""The figure of deep and shallow twins, on curves made up for it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from nqf_pipeline.report.canvas import Drawing, Omitted
from nqf_pipeline.report.data import Curves
from nqf_pipeline.report.layers import final_distance, layers
from nqf_pipeline.study.config import ReportSettings

STEPS = np.array([0, 1, 10, 100])
ENDS = {"deep": 0.02, "shallow": 0.4}


class Made:
    """What the figure asks a study for."""

    def __init__(self, twins=("deep", "shallow")):
        grid = [(twin, sigma, seed) for twin in twins for sigma in (0.1, 1.0) for seed in (0, 1)]
        self.rows = pd.DataFrame(grid, columns=["twin_depth", "sigma", "seed"]).assign(architecture="deep_mlp", experiment="mlp")

    def select(self):
        return self.rows

    def curves(self, rows, *names):
        for _, row in rows.iterrows():
            fall = np.array([1.0, 0.9, 0.5, 0.1]) * (1 + row["seed"])
            data = {name: ("step", fall) for name in names if name != "divergence"}
            end = ENDS[row["twin_depth"]] * row["sigma"] / 0.1
            yield Curves(row, xr.Dataset({**data, "divergence": ("step", end * np.ones(4)), "step_number": ("step", STEPS)}))


def test_it_says_how_far_each_twin_ends_from_its_network():
    drawing = layers(Made(), ReportSettings())
    assert isinstance(drawing, Drawing)
    assert "2.0\N{NO-BREAK SPACE}% and 40\N{NO-BREAK SPACE}% (deep MLP)" in drawing.title
    titles = [axis.get_title() for axis in drawing.figure.axes]
    assert titles == ["deep MLP, initial variance 0.01", "deep MLP, initial variance 1"]
    network = drawing.figure.axes[0].lines[0]
    np.testing.assert_allclose(network.get_ydata(), [1.35, 0.75, 0.15])
    np.testing.assert_array_equal(network.get_xdata(), STEPS[1:])
    assert "2 seeds" in drawing.caption


def test_distances_are_medians_of_one_twin():
    curves = list(Made().curves(Made().rows, "divergence"))
    assert final_distance(curves, "deep") == pytest.approx(np.median([0.02, 0.2]))


@pytest.mark.parametrize("made", [Made(twins=("deep",))])
def test_one_twin_alone_is_no_comparison(made):
    assert isinstance(layers(made, ReportSettings()), Omitted)
    made.rows = made.rows.drop(columns="twin_depth")
    assert isinstance(layers(made, ReportSettings()), Omitted)


def test_a_network_without_its_second_twin_is_left_out():
    made = Made()
    alone = made.rows[made.rows["twin_depth"] == "deep"].assign(architecture="deep_attention")
    made.rows = pd.concat([made.rows, alone], ignore_index=True)
    drawing = layers(made, ReportSettings())
    assert len(drawing.figure.axes) == 2
    assert "attention" not in drawing.title
