"""Maps of tiles: a colour and a text for each pair of values of two quantities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from nqf_pipeline.report.names import PAPER

_DARK = 0.408
"""Luminance of a tile (0 to 1) up to which its text is white."""


def tiles(axis: Axes, table: pd.DataFrame, texts: Sequence[Sequence[str]], norm: Normalize, gap: float, **font: Any) -> None:
    """Draw a table whose index and columns are labels, its first row at the top; a tile without a value stays empty.

    `texts` has the shape of the table and is drawn in `font`; `gap` is the width of the lines between tiles in points. Looks like
    seaborn's heat map, which draws the whole figure anew for each map to see whether labels overlap.
    """
    rows, columns = table.shape
    sns.despine(ax=axis, left=True, bottom=True)
    values = np.ma.masked_invalid(table.clip(lower=norm.vmin).to_numpy(float))  # zero has no logarithm, and a colour: the first
    mesh = axis.pcolormesh(values, cmap="rocket_r", norm=norm, linewidths=gap, edgecolors=PAPER)
    axis.set(xlim=(0, columns), ylim=(rows, 0))
    axis.set_xticks(np.arange(columns) + 0.5, list(table.columns))
    axis.set_yticks(np.arange(rows) + 0.5, list(table.index), va="center")
    axis.tick_params(length=0)
    colours = np.asarray(mesh.to_rgba(values))
    for i, j in np.argwhere(table.notna().to_numpy()):
        axis.text(j + 0.5, i + 0.5, texts[i][j], color=_ink(colours[i, j]), ha="center", va="center", **font)


def _ink(colour: np.ndarray) -> str:
    """White on dark, near black on bright (relative luminance of sRGB, W3C)."""
    linear = np.where(colour[:3] <= 0.03928, colour[:3] / 12.92, ((colour[:3] + 0.055) / 1.055) ** 2.4)
    return "0.15" if linear @ (0.2126, 0.7152, 0.0722) > _DARK else "w"
