"""Where the twin leaves its network: maps over sigma, architecture, optimizer and width."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm

from nqf_pipeline.analysis.departure import THRESHOLD
from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, panels
from nqf_pipeline.report.chosen import every_network
from nqf_pipeline.report.data import Findings, narrowed, ordered, where
from nqf_pipeline.report.names import readable
from nqf_pipeline.report.tiles import tiles
from nqf_pipeline.report.wording import listed, number, short
from nqf_pipeline.study.config import ReportSettings

NORM = LogNorm(0.003, 1.0)
FOLLOWS = 0.1
"""Gap in mode strength below which a twin is said to follow."""


def departure(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """One map per optimizer, and one over the width of each architecture that sweeps it."""
    cells = study.cells[study.cells["task"].str.startswith("teacher") & (study.cells["status"] == "done")]
    cells = cells[np.isfinite(cells["largest_mode_gap"])]
    shown = every_network(study)
    base = cells[cells["cell"].isin(shown["cell"])]
    if base.empty:
        return Omitted("no finished network on a teacher task with a twin beside it")
    maps = [(readable(kind), where(base, optimizer=kind), "architecture") for kind in ordered(base["optimizer"])]
    maps += [(f"{readable(kind)}: width", part, "width") for kind, part in _widths(cells, look)]
    title = _title(base)
    height, width = grid_of(len(maps), 2)
    counts = [part[by].nunique() for _, part, by in maps]
    most = [max(counts[first : first + width]) for first in range(0, len(maps), width)]  # lines of tiles in each row of maps
    figure, axes = panels(height, width, 0.42 * sum(most) / height + 0.65, title, height_ratios=most)
    for i, (axis, (name, part, by)) in enumerate(zip(drop_unused(axes, len(maps)), maps, strict=True)):
        _map(axis, part, by)
        axis.set_ylim(most[i // width], 0)
        axis.set_title(name)
    held = narrowed(study.select(), shown)
    return Drawing(figure, title, _caption(base) + (f" Title, counts and the maps over architectures: {held}." if held else ""))


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
    labels = [[_tile(value, step) for value, step in zip(*row, strict=True)] for row in zip(gap.to_numpy(), leaves.to_numpy(), strict=True)]
    named = gap.set_axis([number(value) for value in gap.columns], axis=1).set_axis([readable(str(value)) for value in gap.index])
    tiles(axis, named, labels, NORM, gap=1.5, fontsize=8, linespacing=1.35)
    axis.set_xlabel("σ")


def _tile(gap: float, step: float) -> str:
    return f"{gap:.2g}\nstep {short(step)}" if np.isfinite(step) else f"{gap:.2g}\nnever"


def _title(base: pd.DataFrame) -> str:
    medians = base.groupby("sigma")["largest_mode_gap"].median()
    pieces = [f"{medians.loc[sigma]:.2g} at σ = {number(sigma)}" for sigma in (medians.index[0], medians.index[-1])]
    return f"Where the twin leaves its network: largest gap in mode strength {listed(pieces)} (median)"


def _caption(base: pd.DataFrame) -> str:
    small = base[base["largest_mode_gap"] < FOLLOWS]
    worst = base.loc[base["largest_mode_gap"].idxmax()]
    place = f"{readable(worst['architecture'])}, {readable(worst['optimizer'])}, σ = {number(worst['sigma'])}"
    return (
        "Upper: largest difference of a mode's strength between network and twin over training (1: a whole mode), median over seeds; "
        f"lower: first step at which their outputs differ by more than {THRESHOLD:g} of the target. {len(small)} of {len(base)} runs keep "
        f"every mode within {FOLLOWS:g}; the largest gap is {worst['largest_mode_gap']:.2g} ({place})."
    )
