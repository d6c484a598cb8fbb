"""The validity map: how well the twin tells when its network learns, over sigma, width and samples."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from nqf_pipeline.analysis.validity import Trend, median_map, middle, plane, swept, timing_errors, trend, valley
from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels
from nqf_pipeline.report.chosen import EXACT
from nqf_pipeline.report.data import Findings, ordered, where
from nqf_pipeline.report.names import INK, readable
from nqf_pipeline.report.style import colour_of, shades
from nqf_pipeline.report.tiles import tiles
from nqf_pipeline.report.wording import listed, number, percent
from nqf_pipeline.study.config import ReportSettings

NORM = LogNorm(1e-4, 0.3)
MAPS = 3
_LABELS = {"sigma": "σ", "width": "width", "samples": "samples"}


def validity(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Above: maps of the median timing error over two axes each. Below: its trend along each axis, with slopes."""
    rows = _richest(timing_errors(study.plateaus), look)
    axes_of = swept(rows) if len(rows) else []
    if len(axes_of) < 2:
        return Omitted("no network that sweeps two of sigma, width and samples beside a twin")
    pairs = list(combinations(axes_of, 2))[:MAPS]
    trends = {axis: trend(_below(rows, axis), axis) for axis in axes_of}
    title = _title(rows, axes_of, trends)
    columns = max(len(pairs), len(axes_of))
    figure, axes = panels(2, columns, 2.3, title)
    for axis, (across, up) in zip(axes[0], pairs, strict=False):
        _map(axis, plane(rows, (across, up)), across, up)
    for axis, name in zip(axes[1], axes_of, strict=False):
        _trend(axis, rows, name, trends[name], look)
    for row, used in ((0, len(pairs)), (1, len(axes_of))):
        for axis in axes[row, used:]:
            axis.remove()
    axes[1, 0].set_ylabel("timing error (median)")
    return Drawing(figure, title, _caption(rows, axes_of, trends))


def _richest(rows: pd.DataFrame, look: ReportSettings) -> pd.DataFrame:
    """One architecture, task and optimizer: the one with most settings on the map, the report's optimizer first."""
    if rows.empty:
        return rows
    rows = rows[~rows["architecture"].isin(EXACT)]
    rows = where(rows, optimizer=look.optimizer) if look.optimizer in set(rows["optimizer"]) else rows
    groups = [part for _, part in rows.groupby(["architecture", "task", "optimizer"], sort=True)]
    return max(groups, key=lambda part: (len(swept(part)), _settings(part)), default=rows.iloc[:0])


def _settings(part: pd.DataFrame) -> int:
    axes = swept(part)
    return len(part.drop_duplicates(axes)) if axes else 0


def _below(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Along sigma, the side of small weights: from the valley down; all of any other axis."""
    if axis != "sigma" or rows.empty:
        return rows
    bottom = valley(rows)
    return rows[rows["sigma"] >= bottom] if bottom < rows["sigma"].max() else rows


def _map(axis: Axes, rows: pd.DataFrame, across: str, up: str) -> None:
    table = median_map(rows, across, up).sort_index(ascending=False)
    named = table.set_axis([number(float(v)) for v in table.columns], axis=1).set_axis([number(float(v)) for v in table.index])
    texts = [[f"{100 * v:.2g}" for v in row] for row in table.to_numpy()]
    tiles(axis, named, texts, NORM, gap=1.2, fontsize=6.5 if table.shape[1] > 4 else 8)
    axis.set(xlabel=_LABELS[across], ylabel=_LABELS[up])
    axis.tick_params(labelsize=7.5)
    held = _fixed(rows, (across, up))
    axis.set_title("timing error in %" + (f", {held}" if held else ""), fontsize=8.5)


def _fixed(rows: pd.DataFrame, free: tuple[str, ...]) -> str:
    held = [axis for axis in _LABELS if axis in rows and axis not in free]
    return listed([f"{_LABELS[axis]} = {number(float(rows[axis].iloc[0]))}" for axis in held if len(rows)])


def _trend(axis: Axes, rows: pd.DataFrame, name: str, found: Trend, look: ReportSettings) -> None:
    """Median over modes and seeds along one axis: a line per value of another axis, thick at its middle value."""
    other = next((one for one in swept(rows) if one != name), name)
    values = ordered(rows[other]) if other != name else []
    for value, colour in zip(values, shades(colour_of(rows["architecture"].iloc[0], look.palette), max(len(values), 1)), strict=True):
        part = plane(rows[rows[other] == value], (name,))
        line = part.groupby(name)["error"].median()
        shown = value == middle(rows[other])
        axis.plot(line.index, line, color=colour, linewidth=2.4 if shown else 1.0, marker="o", markersize=3, label=number(float(value)))
    log_axes(axis)
    axis.set_xlabel(_LABELS[name])
    if np.isfinite(found.slope):
        axis.set_title(f"slope {found.slope:.2f} ({found.low:.2f} to {found.high:.2f})", fontsize=8.5, color=INK)
    axis.legend(title=_LABELS[other], fontsize=6.5, title_fontsize=7, handlelength=1.2, labelspacing=0.1)


def _title(rows: pd.DataFrame, axes: list[str], trends: dict[str, Trend]) -> str:
    parts = [f"{_LABELS[axis]}^{trends[axis].slope:.2f}" for axis in axes if axis != "sigma" and trends[axis].resolved]
    best = f", smallest at σ = {number(valley(rows))}" if "sigma" in axes else ""
    powers = f", goes as {listed(parts)}" if parts else ""
    return f"When the twin tells the time of its network: error {percent(float(rows['error'].median()))} (median){best}{powers}"


def _caption(rows: pd.DataFrame, axes: list[str], trends: dict[str, Trend]) -> str:
    slopes = [
        f"{trends[axis].slope:.2f} ({trends[axis].low:.2f} to {trends[axis].high:.2f}) in {_LABELS[axis]}"
        for axis in axes
        if np.isfinite(trends[axis].slope)
    ]
    side = " (from the smallest error upwards)" if "sigma" in axes else ""
    kind, optimizer = readable(str(rows["architecture"].iloc[0])), readable(str(rows["optimizer"].iloc[0]))
    return (
        f"Timing error of a mode: |ignition of the network / ignition of its twin - 1|, median over modes and seeds; {kind}, {optimizer}, "
        f"{rows['cell'].nunique()} cells. Maps hold the third axis at its middle value. Slopes of ln(error) along each axis, every setting "
        f"of the others at a level of its own, with 95 % intervals{side}: {listed(slopes) if slopes else 'not resolved'}."
    )
