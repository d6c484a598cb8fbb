"""Figure 4 of the paper: orthogonal samples ignite one by one, at tau = 1 / zeta."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels, source_legend
from nqf_pipeline.report.data import Curves, Findings, where
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.paper.staircase import CURVES, LINE, staircase, window
from nqf_pipeline.report.style import colour_of, shades
from nqf_pipeline.report.wording import number, percent
from nqf_pipeline.study.config import ReportSettings

SHOWN = 1e-5
"""Epsilon of the staircase (the nearest that the study has)."""


def figure4(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Left: the total loss. Right: ignition of each sample in tau = t / ln(1/epsilon), against epsilon."""
    rows = where(study.select(), task="orthogonal_samples")
    if rows.empty:
        return Omitted("no finished network on orthogonal samples")
    nearest = rows.loc[[np.abs(np.log(rows["epsilon"] / SHOWN)).idxmin()]]
    curve = next(iter(study.curves(nearest, *CURVES)))
    plateaus = where(study.plateaus, task="orthogonal_samples", source="network", status="matched")
    title, caption = _words(plateaus, curve)
    figure, axes = panels(1, 2, 3.4, title)
    colour = colour_of("diagonal", look.palette)
    staircase(axes[0, 0], curve, colour)
    window(axes[0, 0], curve)
    axes[0, 0].set(xlabel="step", ylabel="loss")
    axes[0, 0].set_title(f"four samples, ε = {number(float(curve.cell['epsilon']))}")
    _clocks(axes[0, 1], plateaus, colour)
    limit = Line2D([], [], color=MUTED, linewidth=0.8, label="1/ζ")
    source_legend(figure, ["network", "theory"], [Line2D([], [], color=colour, label="predicted ignition", **LINE), limit])
    return Drawing(figure, title, caption)


def tau(rows: pd.DataFrame, steps: pd.Series) -> pd.Series:
    """Gradient-flow time over ln(1/epsilon)."""
    return steps * rows["time_scale"] / -np.log(rows["epsilon"])


def _clocks(axis: Axes, plateaus: pd.DataFrame, colour: str) -> None:
    finest = plateaus[plateaus["tier"] == "flow"].sort_values("epsilon")
    for (mode, group), shade in zip(finest.groupby("mode"), shades(colour, finest["mode"].nunique()), strict=True):
        size = -np.log10(group["epsilon"])
        axis.plot(size, tau(group, group["t_measured"]), "o", color=shade, markersize=6)
        axis.plot(size, tau(group, group["t_predicted"]), color=INK, linestyle=LINE["linestyle"], linewidth=1.4)
        axis.axhline(tau(group, group["t_asymptotic"]).iloc[0], color=MUTED, linewidth=0.8)
        axis.text(size.max(), tau(group, group["t_measured"]).iloc[0] / 1.03, f"sample {mode}", ha="right", va="top", fontsize=8.5)
    log_axes(axis, x=False)
    axis.margins(x=0.1)
    axis.set(xlabel="log₁₀(1/ε)", ylabel="ignition, τ = t / ln(1/ε)")
    axis.set_title("ignition of each sample approaches 1/ζ")


def _words(plateaus: pd.DataFrame, curve: Curves) -> tuple[str, str]:
    flow = plateaus[plateaus["tier"] == "flow"]
    asymptote = plateaus[plateaus["tier"] == "asymptote"]
    worst = asymptote.groupby("epsilon")["relative_error"].apply(lambda errors: errors.abs().max())
    title = f"Samples ignite within {percent(flow['relative_error'].abs().max())} of the predicted steps, one by one"
    ends = [f"{percent(worst.iloc[i])} at ε = {number(float(worst.index[i]))}" for i in (-1, 0)]
    return title, (
        f"Left: ε = {number(float(curve.cell['epsilon']))}; thin lines are the heights of the plateaus as ε → 0. Right: measured ignition "
        f"(points), closed form (dotted) and its limit 1/ζ, off by up to {ends[0]} and by {ends[1]}. Every sample has three features; the "
        "fastest leads."
    )
