"""Measured exponents beside both predictions, and how they approach the limit; the predictions alone where nothing is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, panels, source_legend
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.fits import ensembles, grid_points, predicted_only
from nqf_pipeline.report.kinds import whose
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.style import LINES, MARKERS, colour_of
from nqf_pipeline.report.wording import listed, number, percent, plural, power
from nqf_pipeline.study.config import ReportSettings

PANELS = 12
_LIMIT = (0, (6, 2))
_APART = 0.16
"""Names of neighbouring epsilons are at least this share of the axis apart."""


def exponents(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Exponent against epsilon, one panel a grid point."""
    measured = ensembles(study)
    tables = measured or predicted_only(study)
    if not tables:
        return Omitted("no fitted exponent of a power-law ensemble")
    every = pd.concat(tables.values())
    groups = grid_points(study, every)
    shown = groups[:: -(-len(groups) // PANELS)]
    title = _title(every) if measured else _predicted_title(every)
    height, width = grid_of(len(shown), 3)
    figure, axes = panels(height, width, 1.75, title)
    left = drop_unused(axes, len(shown))
    for axis, (name, group) in zip(left, shown, strict=True):
        _approach(axis, group, look, bool(measured))
        axis.set_title(name)
    for axis in left[-width:]:
        axis.set_xlabel("ε (spaced as 1/ln(1/ε))")
    figure.supylabel("exponent of the loss curve", fontsize=9)
    colour = colour_of(str(every["architecture"].iloc[0]), look.palette)
    _legend(figure, colour if measured else None, limits=every["predicted_limit"].notna().any())
    return Drawing(figure, title, _caption(every, len(groups)))


def _approach(axis: Axes, group: pd.DataFrame, look: ReportSettings, measured: bool) -> None:
    group = group.sort_values("epsilon")
    x = 1.0 / np.log(1.0 / group["epsilon"].to_numpy())
    colour = colour_of(str(group["architecture"].iloc[0]), look.palette)
    axis.plot(x, group["predicted_finite"], color=INK, marker=MARKERS["theory"], markersize=8, markerfacecolor="none", **LINES["theory"])
    if measured:
        sides = np.abs([group["exponent"] - group["ci_low"], group["ci_high"] - group["exponent"]])
        axis.errorbar(x, group["exponent"], yerr=sides, fmt=MARKERS["network"], color=colour, markersize=4.5, capsize=2, linewidth=1.2)
    limit = float(group["predicted_limit"].iloc[0])
    if np.isfinite(limit):
        axis.axhline(limit, color=MUTED, linewidth=0.9, linestyle=_LIMIT)
        axis.plot([0], [limit], marker="*", color=INK, markersize=8, clip_on=False, zorder=5)
    axis.set_xlim(0, float(x.max()) * 1.12)
    _epsilon_ticks(axis, x, group["epsilon"].to_numpy())
    axis.margins(y=0.2)
    axis.grid(True)


def _epsilon_ticks(axis: Axes, x: np.ndarray, epsilon: np.ndarray) -> None:
    """Name each epsilon at its place, from the largest down to where names would touch."""
    kept = [(0.0, "0")]
    for position, value in sorted(zip(x, epsilon, strict=True), reverse=True):
        if all(abs(position - other) > _APART * x.max() for other, _ in kept):
            kept.append((position, power(value) if value < 1e-3 else f"{value:g}"))
    axis.set_xticks([position for position, _ in kept], [name for _, name in kept])


def _legend(figure: Figure, colour: str | None, limits: bool) -> None:
    """Without a colour nothing was measured."""
    line: dict[str, Any] = {"color": INK, "marker": MARKERS["theory"], "markerfacecolor": "none", "markersize": 7, **LINES["theory"]}
    star: dict[str, Any] = {
        "color": MUTED,
        "marker": "*",
        "markerfacecolor": INK,
        "markeredgecolor": INK,
        "markersize": 8,
        "linestyle": _LIMIT,
    }
    extra = [Line2D([], [], color=colour, marker=MARKERS["network"], linestyle="none", label="measured, with interval")] if colour else []
    extra.append(Line2D([], [], label="predicted, same window" if colour else "predicted (nothing is trained)", **line))
    limit = Line2D([], [], label="limit, ε → 0", **star)
    source_legend(figure, [], [*extra, limit] if limits else extra)


def _title(table: pd.DataFrame) -> str:
    error = (table["exponent"] / table["predicted_finite"] - 1).abs()
    return (
        f"Measured exponents{whose(table)} lie {percent(error.median())} from their finite-size prediction (worst {percent(error.max())})"
    )


def _predicted_title(table: pd.DataFrame) -> str:
    return f"Predicted exponents, nothing trained: {number(table['exponent'].min())} to {number(table['exponent'].max())}{_away(table)}"


def _away(table: pd.DataFrame) -> str:
    """', off their limit by 12 % at ε = 0.001 and 3 % at ε = 1e-8'; empty where there is no limit."""
    distance = (table["exponent"] / table["predicted_limit"] - 1).abs()
    if not distance.notna().any():
        return ""
    sizes = [(value, distance[table["epsilon"] == value].median()) for value in sorted(table["epsilon"].unique())[::-1]]
    named = [f"{percent(median)} at ε = {number(value)}" for value, median in dict([sizes[0], sizes[-1]]).items()]
    return f", off their limit by {listed(named)}"


def _caption(table: pd.DataFrame, points: int) -> str:
    start = f"{plural(len(table), 'fit')} over {plural(points, 'grid point')}."
    distance = (table["exponent"] / table["predicted_limit"] - 1).abs()
    if not distance.notna().any():
        return f"{start} The theory gives no limit here."
    sizes = [(value, distance[table["epsilon"] == value].median()) for value in (table["epsilon"].max(), table["epsilon"].min())]
    steps = ", ".join(f"{percent(median)} at ε = {number(value)}" for value, median in sizes)
    return f"{start} Median distance from the limit (ε → 0, infinitely many modes): {steps}."
