"""Maps of tiles: first row on top, readable texts, no text on a tile without a value."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.colors import LogNorm

from nqf_pipeline.report.canvas import panels
from nqf_pipeline.report.tiles import tiles


def test_tiles_stand_as_the_table_does() -> None:
    figure, axes = panels(1, 1, 2.0, "title")
    table = pd.DataFrame([[0.0, np.nan], [0.1, 1.0]], index=["top", "bottom"], columns=["left", "right"])
    tiles(axes[0, 0], table, [["a", "b"], ["c", "d"]], LogNorm(0.003, 1.0), gap=1.0, fontsize=8)
    figure.canvas.draw()
    found = {text.get_text(): (text.get_position(), text.get_color()) for text in axes[0, 0].texts}
    assert found == {"a": ((0.5, 0.5), "0.15"), "c": ((0.5, 1.5), "w"), "d": ((1.5, 1.5), "w")}
    assert tuple(axes[0, 0].collections[0].get_facecolors()[0]) == colormaps["rocket_r"](0), "zero is as bright as the smallest"
    assert axes[0, 0].get_ylim() == (2, 0)
    assert [label.get_text() for label in axes[0, 0].get_yticklabels()] == ["top", "bottom"]
    assert [label.get_text() for label in axes[0, 0].get_xticklabels()] == ["left", "right"]
