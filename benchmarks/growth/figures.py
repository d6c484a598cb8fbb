"""Figures of docs/scaling.md: the sweeps with their fitted lines, and the resources of a study as shares of their limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from benchmarks.growth.breaks import Break
from benchmarks.growth.forecast import Forecast
from benchmarks.growth.sweeps import Sweep

COLUMNS = 3
UNITS = {"s": "seconds", "": "number"}
MARKERS = "osD^vPX*"
SHOWN = 8
"""Limits drawn: those met first."""


def draw_growth(sweeps: Sequence[Sweep], path: Path) -> None:
    """One log-log panel for each thing swept; the legend gives each line's exponent."""
    panels: dict[str, list[Sweep]] = {}
    for sweep in sweeps:
        panels.setdefault(sweep.panel, []).append(sweep)
    _style("growth")
    rows = -(-len(panels) // COLUMNS)
    _, grid = plt.subplots(rows, COLUMNS, figsize=(3.9 * COLUMNS, 3.3 * rows), layout="constrained", squeeze=False)
    for axes, (panel, members) in zip(grid.flat, panels.items(), strict=False):
        _panel(axes, panel, members)
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    _save(path)


def _panel(axes: Axes, panel: str, members: list[Sweep]) -> None:
    sizes = {sweep.size for sweep in members}
    for position, sweep in enumerate(members):
        colour, growth = sns.color_palette("colorblind")[position % 10], sweep.growth()
        label = (sweep.cost if len(sizes) == 1 else sweep.size) + (
            (" (flat)" if sweep.flat else " (not resolved)") if growth is None else f", k = {growth.exponent:.2f}"
        )
        axes.plot(sweep.x, sweep.y, MARKERS[position % len(MARKERS)], color=colour, label=label, markersize=5)
        if growth is not None:
            x = np.geomspace(sweep.x.min(), sweep.x.max(), 100)
            axes.plot(x, [growth.at(value) for value in x], color=colour, linewidth=1.2)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=members[0].size if len(sizes) == 1 else "size",
        ylabel=UNITS.get(members[0].unit, members[0].unit),
        title=panel,
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(y=0.12)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** (0.11 * len(members)))  # room for the legend above the lines
    axes.legend(fontsize=7, loc="upper left", frameon=False, labelspacing=0.2, handletextpad=0.2)
    sns.despine(ax=axes)


def draw_limits(forecast: Forecast, found: Sequence[Break], path: Path) -> None:
    """Each resource over its limit against cells: what crosses the line first breaks first."""
    _style("limits")
    first = [one for one in found if np.isfinite(one.cells)][:SHOWN]
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    most = 10 ** np.ceil(np.log10(max([one.cells for one in first] + [1e8])))
    cells = np.geomspace(100, most, 120)
    for position, one in enumerate(first):
        colour = sns.color_palette("colorblind")[position % 10]
        share = [one.limit.cost(forecast, n) / one.limit.limit for n in cells]
        axes.plot(cells, share, color=colour, linewidth=1.4)
        axes.plot(
            one.cells, 1, "o", color=colour, markersize=7, label=f"{float(f'{one.cells:.1g}'):,.0f} cells: {one.limit.what}", zorder=3
        )
    axes.axhline(1, color="black", linewidth=1)
    axes.axvspan(cells[0], forecast.measured_to, color="0.93", zorder=0)
    axes.text(cells[0] * 1.15, 0.0013, "measured", fontsize=8, color="0.35")
    axes.set(xscale="log", yscale="log", xlabel="cells of the study", ylabel="share of the limit", ylim=(1e-3, 30), xlim=(cells[0], most))
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), title="what breaks, in order")
    sns.despine(figure)
    _save(path)


def _style(salt: str) -> None:
    sns.set_theme(style="ticks", context="paper")
    mpl.rcParams["svg.hashsalt"] = salt


def _save(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(path, metadata={"Date": None})
    plt.close()
