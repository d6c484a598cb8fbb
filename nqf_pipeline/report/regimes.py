"""How far ignition stays from its prediction in each regime: nowhere, where the theorem's condition holds exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.names import INK, MUTED, TIER_NAMES
from nqf_pipeline.report.style import shades
from nqf_pipeline.report.wording import number
from nqf_pipeline.store.schema import TIERS
from nqf_pipeline.study.config import ReportSettings

ORDER = {
    "proportional_samples": "proportional samples\n(Theorem 4)",
    "orthogonal_samples": "orthogonal samples\n(Theorem 5)",
    "orthogonal_features": "orthogonal features\n(Theorem 6)",
    "isotropic": "isotropic samples\n(Theorem 7)",
    "general": "projectors\n(Theorem 16)",
    "lotka_volterra": "Lotka-Volterra\n(Proposition 7)",
    "whitened_feedforward": "white layers\n(Corollary 4)",
    "moments": "moments\n(Theorem 2)",
    "weights": "none",
}
FEWEST = 2
"""Regimes of a study from which on the figure says something."""
SMALLEST = 1e-9
STANDINGS = {"condition holds": ("exact", "local"), "condition holds nearly": ("conditional",)}


def regimes(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Relative error of ignition against the trained quadratic form, by regime and tier; apart where conditions hold only nearly."""
    table = _rows(study)
    present = [name for name in ORDER if name in set(table["regime"])] if len(table) else []
    if len(present) < FEWEST:
        return Omitted(f"fewer than {FEWEST} regimes with predictions")
    tiers = [tier for tier in TIERS if tier in set(table["tier"])]
    colours = dict(zip(tiers, shades("#0173b2", len(tiers))[::-1], strict=True))
    title = _title(table)
    parts = {heading: table[table["standing"].isin(standings)] for heading, standings in STANDINGS.items()}
    parts = {heading: part for heading, part in parts.items() if len(part)} or {"no condition holds": table}
    figure, axes = panels(1, len(parts), 0.42 * len(present) + 1.6, title, sharey=True, sharex=True)
    for axis, (heading, part) in zip(axes[0], parts.items(), strict=True):
        _panel(axis, part, present, colours)
        axis.set_title(f"{heading}: {part['cell'].nunique():,} twins", fontsize=8.5)
    axes[0, 0].set_yticks(range(len(present)), [ORDER[name] for name in present])
    axes[0, 0].invert_yaxis()
    handles = [Line2D([], [], color=colours[tier], marker="o", linestyle="none", markersize=4, label=TIER_NAMES[tier]) for tier in tiers]
    if "timing_error" in table and (table["timing_error"] > 0).any():
        label = "estimate from the defect (least, median, worst)"
        handles.append(Line2D([], [], color=INK, marker="|", linestyle="none", markersize=9, label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, handletextpad=0.2)
    caption = (
        "Relative error of ignition steps against the quadratic form trained from the same weights, over every mode that ignites: "
        "median (point), 5 to 95 % (band), least to worst (line); errors below 1e-9 are drawn there. "
        "The flow's error is the step size's, the asymptote's that of finite epsilon."
    )
    return Drawing(figure, title, caption)


def _title(table: pd.DataFrame) -> str:
    """The worst error of stepped predictions where condition and quadratic form are exact."""
    steps = table[(table["standing"] == "exact") & (table["tier"] == "discrete")]
    if steps.empty:
        return "No regime holds exactly here: errors are those of conditions that hold nearly, or of networks near their quadratic form"
    worst = float(steps["relative_error"].abs().max())
    error = f"{100 * worst:.0e} % at worst" if worst > SMALLEST else "to rounding"
    return f"Where a condition holds exactly, its steps are those of training: {error}"


def _rows(study: Findings) -> pd.DataFrame:
    """Twins' matched ignitions with regime, standing and expected error of their cell."""
    table = study.plateaus
    if table.empty:
        return table
    wanted = (table["source"] == "twin") & (table["status"] == "matched") & np.isfinite(table["relative_error"])
    table = table.loc[wanted, ["cell", "tier", "relative_error"]]
    known = study.index[[name for name in ("cell", "regime", "standing", "timing_error") if name in study.index]]
    return table.merge(known, on="cell")


def _spread(axis: Axes, size: pd.Series, height: float, colour: str) -> None:
    """Median, the middle 90 %, and a thin line over all errors: the same however many cells there are."""
    least, low, median, high, most = size.quantile([0, 0.05, 0.5, 0.95, 1])
    axis.plot([least, most], [height] * 2, color=colour, linewidth=0.8, alpha=0.7)
    axis.plot([low, high], [height] * 2, color=colour, linewidth=3.2, alpha=0.45, solid_capstyle="butt")
    axis.plot([median], [height], "o", color=colour, markersize=4.5, markeredgewidth=0)


def _panel(axis: Axes, part: pd.DataFrame, present: list[str], colours: dict[str, Any]) -> None:
    for row, name in enumerate(present):
        here = part[part["regime"] == name]
        for shift, (tier, colour) in enumerate(colours.items()):
            size = here.loc[here["tier"] == tier, "relative_error"].abs().clip(lower=SMALLEST)
            height = row + 0.5 * (shift - (len(colours) - 1) / 2) / max(len(colours), 1)
            if len(size):
                _spread(axis, size, height, colour)
        if "timing_error" in here and (here["timing_error"] > 0).any():
            estimate = here.loc[here["timing_error"] > 0, "timing_error"].quantile([0, 0.5, 1]).unique()
            axis.plot(estimate, np.full(len(estimate), row + 0.42), "|", color=INK, markersize=6)
        axis.axhline(row + 0.5, color=MUTED, linewidth=0.3)
    log_axes(axis, y=False)
    axis.xaxis.set_major_locator(LogLocator(numticks=5))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{number(100 * value)} %"))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("relative error of ignition")
