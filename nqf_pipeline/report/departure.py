"""Where the twin leaves its network: maps over sigma, architecture, optimizer and width."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, number, panels, short
from nqf_pipeline.report.data import Findings, ordered, where
from nqf_pipeline.report.learning import networks
from nqf_pipeline.study.config import ReportSettings
from nqf_pipeline.report.style import readable, text_on

NORM = LogNorm(0.003, 1.0)
_FOLLOW = 0.1


def departure(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """One map per optimizer, and one over the width of each architecture that sweeps it."""
    cells = study.cells[study.cells["task"].str.startswith("teacher") & (study.cells["status"] == "done")]
    cells = cells[np.isfinite(cells["largest_mode_gap"])]
    base = cells[cells["cell"].isin(networks(study)["cell"])]
    if base.empty:
        return Omitted("no finished network on a teacher task with a twin beside it")
    maps = [(readable(kind), where(base, optimizer=kind), "architecture") for kind in ordered(base["optimizer"])]
    maps += [(f"{readable(kind)}: width", part, "width") for kind, part in _widths(cells, look)]
    title = _title(base)
    height, width = grid_of(len(maps), 2)
    figure, axes = panels(height, width, 2.35, title)
    for axis, (name, part, by) in zip(drop_unused(axes, len(maps)), maps, strict=True):
        _map(axis, part, by)
        axis.set_title(name)
    return Drawing(figure, title, _caption(base))


def _widths(cells: pd.DataFrame, look: ReportSettings) -> list[tuple[str, pd.DataFrame]]:
    found = []
    for kind in ordered(cells["architecture"]):
        part = where(cells, architecture=kind)
        own = where(part, optimizer=look.optimizer)
        part = own if len(own) else part
        if part["width"].nunique() > 1:
            found.append((kind, part))
    return found


def _map(axis: Axes, part: pd.DataFrame, by: str) -> None:
    gap = part.pivot_table(index=by, columns="sigma", values="largest_mode_gap", aggfunc="median")
    leaves = part.pivot_table(index=by, columns="sigma", values="departure_step", aggfunc="median").reindex_like(gap)
    gap, leaves = (frame.reindex(ordered(pd.Series(gap.index))) for frame in (gap, leaves))
    colours = sns.color_palette("rocket_r", as_cmap=True)
    axis.pcolormesh(gap.to_numpy(), cmap=colours, norm=NORM, edgecolors="white", linewidth=1.5)
    for i in range(gap.shape[0]):
        for j in range(gap.shape[1]):
            value = gap.iloc[i, j]
            if np.isfinite(value):
                step = leaves.iloc[i, j]
                text = f"{value:.2g}\n" + (f"step {short(float(step))}" if np.isfinite(step) else "never")
                axis.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=8, color=text_on(colours(NORM(value))[:3]), linespacing=1.35)
    axis.set_xticks(np.arange(gap.shape[1]) + 0.5, [number(value) for value in gap.columns])
    axis.set_yticks(np.arange(gap.shape[0]) + 0.5, [readable(str(value)) for value in gap.index])
    axis.set(xlabel="σ")
    axis.tick_params(length=0)
    axis.invert_yaxis()
    sns.despine(ax=axis, left=True, bottom=True)


def _title(base: pd.DataFrame) -> str:
    medians = base.groupby("sigma")["largest_mode_gap"].median()
    pieces = f"{medians.iloc[0]:.2g} at σ = {number(float(medians.index[0]))}, {medians.iloc[-1]:.2g} at σ = {number(float(medians.index[-1]))}"
    return f"Where the twin leaves its network: largest gap in mode strength is {pieces} (median)"


def _caption(base: pd.DataFrame) -> str:
    small = base[base["largest_mode_gap"] < _FOLLOW]
    worst = base.loc[base["largest_mode_gap"].idxmax()]
    return (
        f"Upper number: largest difference of mode strength between network and twin over training (1: a whole mode), median over seeds; lower: first step at "
        f"which their outputs differ by more than 0.1 of the target. {len(small)} of {len(base)} runs keep every mode within {_FOLLOW:g}; the largest gap is {worst['largest_mode_gap']:.2g} "
        f"({readable(worst['architecture'])}, {readable(worst['optimizer'])}, σ = {number(float(worst['sigma']))})."
    )
