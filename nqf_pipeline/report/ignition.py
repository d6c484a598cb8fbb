"""Measured against predicted ignition, over every cell and tier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels
from nqf_pipeline.report.data import Findings, ordered
from nqf_pipeline.report.style import INK, TIER_NAMES, colour_of, readable
from nqf_pipeline.report.wording import SMALLEST, listed, number, percent, spread
from nqf_pipeline.store.schema import TIERS
from nqf_pipeline.study.config import ReportSettings

TIER_ORDER = ("twin", "discrete", "event", "asymptote", "flow")
PANELS = 3
"""Tiers shown: the first of `TIER_ORDER` that a study has; the tables hold all."""
EXACT = frozenset(kind for kind, cls in ARCHITECTURES.items() if cls.exactly_quadratic)
"""Networks that are their own twin: comparing the two says nothing."""
_MARKERS = {"gd": "o", "sgd": "v", "momentum": "s", "adam": "^"}
_RASTER = 1500
"""Points of a panel from which on they are drawn as pixels."""


def matched_networks(study: Findings) -> pd.DataFrame:
    """One row per network, mode and tier whose ignition was both seen and predicted."""
    table = study.plateaus
    if table.empty:
        return table
    table = table[(table["source"] == "network") & (table["status"] == "matched")]
    return table[np.isfinite(table["relative_error"]) & ~((table["tier"] == "twin") & table["architecture"].isin(EXACT))]


def finest_predictions(table: pd.DataFrame) -> pd.DataFrame:
    """Per network and mode, the row of the finest tier that predicts without training."""
    rank = table["tier"].map({tier: i for i, tier in enumerate(TIERS)})
    table = table[rank.notna()].assign(_rank=rank)
    return table.sort_values("_rank", kind="stable").drop_duplicates(["cell", "mode"], keep="last").drop(columns="_rank")


def ignition(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Above: measured against predicted step. Below: the relative error by architecture."""
    table = matched_networks(study)
    if table.empty:
        return Omitted("no matched ignition")
    tiers = [tier for tier in TIER_ORDER if tier in set(table["tier"])][:PANELS]
    parts = {tier: table[table["tier"] == tier] for tier in tiers}
    title = _title(table)
    kinds = ordered(table["architecture"])
    figure, axes = panels(2, len(tiers), 2.2, title, sharex="row", sharey="row", height_ratios=[1.15, 1])
    for j, (tier, part) in enumerate(parts.items()):
        _scatter(axes[0, j], part, look)
        axes[0, j].set_title(f"{TIER_NAMES[tier]}\nn {len(part):,}, {spread(part['relative_error'])}", fontsize=8.5)
        _errors(axes[1, j], part, kinds, look)
    axes[0, 0].set_ylabel("measured ignition (step)")
    _legend(figure, kinds, ordered(table["optimizer"]), look)
    return Drawing(figure, title, _caption(parts))


def _scatter(axis: Axes, part: pd.DataFrame, look: ReportSettings) -> None:
    style: dict[str, Any] = {"linestyle": "none", "markersize": 3.6, "alpha": 0.55, "markeredgewidth": 0, "rasterized": len(part) > _RASTER}
    for (architecture, optimizer), group in part.groupby(["architecture", "optimizer"], sort=True):
        look_of: dict[str, Any] = {"marker": _MARKERS.get(optimizer, "o"), "color": colour_of(architecture, look.palette)}
        axis.plot(group["t_predicted"], group["t_measured"], **style, **look_of)
    ends = part[["t_predicted", "t_measured"]].agg(["min", "max"])
    line = [ends.loc["min"].min(), ends.loc["max"].max()]
    axis.plot(line, line, color=INK, linewidth=0.8)
    log_axes(axis)
    axis.set_xlabel("predicted (step)")


def _errors(axis: Axes, part: pd.DataFrame, kinds: list[str], look: ReportSettings) -> None:
    """Per architecture: all errors (thin), their middle half (thick), their median (tick and number)."""
    sizes = part["relative_error"].abs()
    for row, kind in enumerate(kinds):
        own = sizes[part["architecture"] == kind]
        if len(own):
            lowest, low, median, high, highest = own.quantile([0, 0.25, 0.5, 0.75, 1]).clip(lower=SMALLEST)  # log axis: no place for 0
            axis.hlines([row, row], [lowest, low], [highest, high], color=colour_of(kind, look.palette), linewidths=[1.2, 9.0])
            axis.vlines(median, row - 0.28, row + 0.28, color=INK, linewidth=1.4)
            axis.text(1.01, row, percent(own.median()), transform=axis.get_yaxis_transform(), va="center", fontsize=8)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(numticks=4))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axis.set_yticks(range(len(kinds)), [readable(kind) for kind in kinds])
    axis.set(xlabel="size of relative error", ylim=(len(kinds) - 0.5, -0.5))
    axis.tick_params(axis="y", length=0)
    axis.grid(True, axis="x")


def _legend(figure: Figure, kinds: list[str], optimizers: list[str], look: ReportSettings) -> None:
    styles = [(readable(kind), colour_of(kind, look.palette), "o") for kind in kinds]
    styles += [(readable(kind), INK, _MARKERS.get(kind, "o")) for kind in optimizers]
    handles = [Line2D([], [], color=colour, marker=marker, linestyle="none", label=name) for name, colour, marker in styles]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, handletextpad=0.2, columnspacing=1.2)


def _title(table: pd.DataFrame) -> str:
    networks = table[~table["architecture"].isin(EXACT)]
    twins = networks[networks["tier"] == "twin"]
    predicted = finest_predictions(networks if len(networks) else table)
    pieces = [f"{_median(twins)} from their twins'"] if len(twins) else []
    pieces += [f"{_median(predicted)} from the predicted step"] if len(predicted) else []
    return f"{'Networks' if len(networks) else 'Ensembles'} ignite {listed(pieces)} (medians over all cells)"


def _median(part: pd.DataFrame) -> str:
    return percent(part["relative_error"].abs().median())


def _caption(parts: dict[str, pd.DataFrame]) -> str:
    pieces = []
    for tier, part in parts.items():
        row = part.loc[part["relative_error"].abs().idxmax()]
        worst = f"{readable(row['architecture'])}, {readable(row['optimizer'])}, σ = {number(row['sigma'])}, mode {int(row['mode'])}"
        pieces.append(f"{TIER_NAMES[tier]}: n {len(part):,}, {spread(part['relative_error'])} ({worst})")
    return (
        "Above: each point is one mode of one network, the line is equality. "
        f"Below: all errors (thin), their middle half (thick), medians (number). {'; '.join(pieces)}."
    )
