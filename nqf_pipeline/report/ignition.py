"""Measured against predicted ignition, over every cell and tier."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from nqf_pipeline.report.canvas import Drawing, Omitted, listed, log_axes, panels, percent
from nqf_pipeline.report.data import Findings, ordered
from nqf_pipeline.study.config import ReportSettings
from nqf_pipeline.report.style import INK, MUTED, TIER_NAMES, colour_of, readable

TIER_ORDER = ("twin", "discrete", "event", "asymptote", "flow")
PANELS = 3
"""Tiers shown: the first of `TIER_ORDER` that a study has; the tables hold all."""
SMALLEST_ERROR = 1e-5
"""Relative errors below are drawn here: the axis is logarithmic and an exact hit has no place on it."""
_MARKERS = {"gd": "o", "sgd": "v", "momentum": "s", "adam": "^"}
_RASTER = 1500


def matched_networks(study: Findings) -> pd.DataFrame:
    """One row per network, mode and tier whose ignition was both seen and predicted."""
    table = study.plateaus
    if table.empty:
        return table
    table = table[(table["source"] == "network") & (table["status"] == "matched")]
    return table[np.isfinite(table["relative_error"].astype(float)) & (table["t_predicted"] > 0)]


def ignition(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Above: measured against predicted step. Below: the relative error by architecture."""
    table = matched_networks(study)
    if table.empty:
        return Omitted("no matched ignition")
    tiers = [tier for tier in TIER_ORDER if tier in set(table["tier"])][:PANELS]
    parts = {tier: table[table["tier"] == tier] for tier in tiers}
    title = _title(parts)
    figure, axes = panels(2, len(tiers), 2.2, title, sharex="row", sharey="row", height_ratios=[1.15, 1])
    kinds = ordered(table["architecture"])
    for j, tier in enumerate(tiers):
        _scatter(axes[0, j], parts[tier], look)
        axes[0, j].set_title(f"{TIER_NAMES[tier]}\n{_summary(parts[tier])}", fontsize=8.5)
        _errors(axes[1, j], parts[tier], kinds, look)
    axes[0, 0].set_ylabel("measured ignition (step)")
    _legend(figure, kinds, ordered(table["optimizer"]), look)
    return Drawing(figure, title, _caption(parts))


def _scatter(axis: Axes, part: pd.DataFrame, look: ReportSettings) -> None:
    for (architecture, optimizer), group in part.groupby(["architecture", "optimizer"], sort=True):
        axis.plot(
            group["t_predicted"],
            group["t_measured"],
            marker=_MARKERS.get(optimizer, "o"),
            color=colour_of(architecture, look.palette),
            linestyle="none",
            markersize=3.6,
            alpha=0.55,
            markeredgewidth=0,
            rasterized=len(part) > _RASTER,
        )
    low, high = part[["t_predicted", "t_measured"]].min().min(), part[["t_predicted", "t_measured"]].max().max()
    axis.plot([low, high], [low, high], color=INK, linewidth=0.8)
    log_axes(axis)
    axis.set_xlabel("predicted (step)")


def _errors(axis: Axes, part: pd.DataFrame, kinds: list[str], look: ReportSettings) -> None:
    errors = part.assign(error=part["relative_error"].abs().clip(lower=SMALLEST_ERROR), name=part["architecture"].map(readable))
    sns.boxplot(
        errors,
        x="error",
        y="name",
        hue="name",
        order=[readable(kind) for kind in kinds],
        palette={readable(kind): colour_of(kind, look.palette) for kind in kinds},
        whis=(0, 100),
        width=0.6,
        linewidth=0.8,
        linecolor=INK,
        legend=False,
        log_scale=True,
        ax=axis,
    )
    for row, kind in enumerate(kinds):
        own = errors.loc[part["architecture"] == kind, "error"]
        if len(own):
            axis.text(1.01, row, percent(float(own.median())), transform=axis.get_yaxis_transform(), va="center", fontsize=8)
    axis.xaxis.set_major_locator(LogLocator(numticks=4))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axis.set(xlabel="size of relative error", ylabel="")
    axis.grid(True, axis="x")
    axis.axvline(0.01, color=MUTED, linewidth=0.6)


def _legend(figure: Figure, kinds: list[str], optimizers: list[str], look: ReportSettings) -> None:
    handles = [
        Line2D([], [], color=colour_of(kind, look.palette), marker="o", linestyle="none", markersize=5, label=readable(kind)) for kind in kinds
    ]
    handles += [
        Line2D([], [], color=INK, marker=_MARKERS.get(kind, "o"), linestyle="none", markersize=4, label=readable(kind)) for kind in optimizers
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, handletextpad=0.2, columnspacing=1.2)


def _summary(part: pd.DataFrame) -> str:
    error = part["relative_error"].abs()
    return f"n {len(part):,}, median {percent(float(error.median()))}, worst {percent(float(error.max()))}"


def _title(parts: dict[str, pd.DataFrame]) -> str:
    medians = {tier: float(part["relative_error"].abs().median()) for tier, part in parts.items()}
    pieces = [f"{percent(error)} ({TIER_NAMES[tier].split(' (')[0]})" for tier, error in medians.items()]
    return f"Ignition steps are predicted within {listed(pieces)}, median over all cells"


def _caption(parts: dict[str, pd.DataFrame]) -> str:
    pieces = []
    for tier, part in parts.items():
        error = part["relative_error"].abs()
        row = part.loc[error.idxmax()]
        where = f"{readable(row['architecture'])}, {readable(row['optimizer'])}, σ = {row['sigma']:g}, mode {int(row['mode'])}"
        pieces.append(f"{TIER_NAMES[tier]}: {_summary(part)} ({where})")
    return f"Each point is one mode of one network; the line is equality; numbers beside the boxes are medians. {'; '.join(pieces)}."
