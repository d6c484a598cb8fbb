"""When each mode would ignite, of cells that are only predicted: nothing in this picture is measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, log_axes, panels
from nqf_pipeline.report.chosen import group_names
from nqf_pipeline.report.data import Curves, Findings, ordered, typical
from nqf_pipeline.report.kinds import kinds
from nqf_pipeline.report.names import INK, TIER_NAMES, readable
from nqf_pipeline.report.style import colour_of, shades
from nqf_pipeline.report.wording import listed, number, plural
from nqf_pipeline.study.config import ReportSettings

PANELS, LINES = 6, 6
"""Most families of cells shown (the largest), and values of sigma in each (spread over all)."""
FEW = 12
"""Modes up to which their numbers stand on a linear axis."""
ASYMPTOTE = "asymptote"
_READ = ("theory_ignition", "ignition_low", "ignition_high", "mode_number")


def foretold(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Step against mode number, a panel per architecture and task, a line per sigma: the finest tier, and the asymptote beside it."""
    rows = _shown(study)
    curves = [curve for curve in study.curves(rows, *_READ) if np.isfinite(_steps(curve)).any()] if len(rows) else []
    if not curves:
        return Omitted("no matched ignition")
    names = group_names(pd.DataFrame([curve.cell for curve in curves]))
    groups = {name: [curve for curve, own in zip(curves, names, strict=True) if own == name] for name in dict.fromkeys(names)}
    title = _title(curves)
    height, width = grid_of(len(groups), 3)
    figure, axes = panels(height, width, 2.7, title)
    used = drop_unused(axes, len(groups))
    for axis, own in zip(used, groups.values(), strict=True):
        _panel(axis, own, look)
        architecture, task, optimizer = (readable(own[0].cell[name]) for name in ("architecture", "task", "optimizer"))
        axis.set_title(f"{architecture}\n{task}, {optimizer}", fontsize=8.5)
        axis.set_xlabel("mode")
    for axis in used[::width]:
        axis.set_ylabel("predicted ignition (step)")
    figure.legend(handles=_legend(), loc="outside lower center", ncols=2, handlelength=2.6)
    return Drawing(figure, title, _caption(curves, groups, kinds(study.done)))


def _shown(study: Findings) -> pd.DataFrame:
    """The first seed at each sigma, at the typical setting of everything else, of the largest families."""
    rows = study.done
    rows = rows[(kinds(rows) == "nothing").to_numpy()] if len(rows) else rows
    if rows.empty:
        return rows
    rows = typical(rows, ["architecture", "task"], {"sigma", "seed"})
    sizes = rows.groupby(["architecture", "task"], sort=False)
    parts = [part for _, part in sizes]
    largest = sorted(range(len(parts)), key=lambda place: -len(parts[place]))[:PANELS]
    return pd.concat([_some(parts[place]) for place in sorted(largest)])


def _some(rows: pd.DataFrame) -> pd.DataFrame:
    sigmas = ordered(rows["sigma"])
    kept = {sigmas[i] for i in np.linspace(0, len(sigmas) - 1, min(LINES, len(sigmas))).round().astype(int)}
    return rows[rows["sigma"].isin(kept)].sort_values(["sigma", "seed"]).drop_duplicates("sigma")


def _steps(curve: Curves) -> np.ndarray:
    """Predicted ignition of each mode by the finest tier; not a number where there is none."""
    found = curve.untrained("theory_ignition")
    return np.array([np.nan]) if found is None else np.where(np.isfinite(found) & (found > 0), found, np.nan)


def _panel(axis: Axes, curves: Sequence[Curves], look: ReportSettings) -> None:
    for curve, colour in zip(curves, shades(colour_of(curves[0].cell["architecture"], look.palette), len(curves)), strict=True):
        steps, limit = _steps(curve), curve.theory("theory_ignition", ASYMPTOTE)
        modes = curve.data["mode_number"].to_numpy()
        axis.plot(modes, steps, color=colour, marker="o", markersize=3.5, linewidth=1.4, label=f"σ = {number(curve.cell['sigma'])}")
        low, high = curve.of("ignition_low"), curve.of("ignition_high")
        if low is not None and high is not None:
            axis.fill_between(modes, low, high, color=colour, alpha=0.15, linewidth=0)
        if limit is not None:
            axis.plot(modes, np.where(np.isfinite(limit), limit, np.nan), color=colour, linestyle=(0, (3, 2)), linewidth=0.9)
    few = max(int(curve.data["mode_number"].to_numpy().max()) for curve in curves) <= FEW
    log_axes(axis, x=not few)
    if few:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(fontsize=7, handlelength=1.4, labelspacing=0.2)


def _legend() -> list[Line2D]:
    return [
        Line2D([], [], color=INK, marker="o", markersize=3.5, linewidth=1.4, label="finest prediction (nothing is trained)"),
        Line2D([], [], color=INK, linestyle=(0, (3, 2)), linewidth=0.9, label=TIER_NAMES[ASYMPTOTE]),
    ]


def _title(curves: Sequence[Curves]) -> str:
    steps = np.concatenate([_steps(curve) for curve in curves])
    first, last = number(round(float(np.nanmin(steps)))), number(round(float(np.nanmax(steps))))
    return f"Predicted ignition, nothing trained: from step {first} to {last}"


def _caption(curves: Sequence[Curves], groups: dict[str, list[Curves]], every: pd.Series) -> str:
    tiers = [
        f"{name}: {listed([TIER_NAMES[tier] for tier in dict.fromkeys(_tier(curve) for curve in own)])}" for name, own in groups.items()
    ]
    never = sum(int(np.isinf(found).sum()) for curve in curves if (found := curve.untrained("theory_ignition")) is not None)
    also = f" {plural(never, 'mode')} of them never ignite{'s' if never == 1 else ''} (no point)." if never else ""
    return (
        f"One seed of each setting, {len(curves)} of {int((every == 'nothing').sum()):,} cells that are only predicted; no point is "
        f"measured. Finest predictions: {'; '.join(tiers)}. Bands: 5 to 95 % over draws of the weights.{also}"
    )


def _tier(curve: Curves) -> str:
    found = curve.finest("theory_ignition")
    return found[0] if found else ASYMPTOTE
