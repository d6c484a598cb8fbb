"""Mode strengths against step, with the predicted ignition of each mode."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, log_axes, panels, source_legend
from nqf_pipeline.report.chosen import every_network, finest_predictions, highlighted, shown_sigma
from nqf_pipeline.report.data import Curves, Findings, ordered, where
from nqf_pipeline.report.learning import draw
from nqf_pipeline.report.names import INK, TIER_NAMES, readable
from nqf_pipeline.report.style import LINES, colour_of, shades
from nqf_pipeline.report.wording import listed, number, percent, plural
from nqf_pipeline.study.config import ReportSettings

_NAMES = ("network_mode", "twin_mode", "theory_ignition", "mode_number")
MODES_SHOWN = 6
CLOSE = 0.04
"""Share of a panel's width that the number of a mode takes."""
_LINE = {**LINES["theory"], "linewidth": 1.8}


def modes(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """One panel per architecture, one optimizer, one sigma, one seed."""
    rows = every_network(study)
    if rows.empty:
        return Omitted("no finished network on a teacher task")
    optimizers = ordered(rows["optimizer"])
    optimizer = look.optimizer if look.optimizer in optimizers else optimizers[0]
    rows = where(rows, optimizer=optimizer)
    kinds = [part for _, part in rows.groupby("architecture", sort=False)]
    rows = pd.concat([where(part, sigma=shown_sigma(part, look), seed=highlighted(part, look)) for part in kinds])
    curves = [curve for curve in study.curves(rows, *_NAMES) if curve.of("network_mode") is not None]
    if not curves:
        return Omitted("no recorded mode strengths")
    matched = _matched(study, rows)
    title = _title(matched, rows["sigma"], optimizer)
    height, width = grid_of(len(curves), 2)
    figure, axes = panels(height, width, 2.2, title, sharey=True)
    left = drop_unused(axes, len(curves))
    for axis, curve in zip(left, curves, strict=True):
        _panel(axis, curve, look)
    for axis in left[-width:]:
        axis.set_xlabel("step")
    figure.supylabel("recovered strength of a mode" + (" (1 when learnt)" if height > 1 else ""), fontsize=9)
    line = Line2D([], [], color=INK, label="predicted ignition (strength 1/2)", **_LINE)
    source_legend(figure, ["network", "twin"], [line])
    return Drawing(figure, title, _caption(matched, curves))


def _panel(axis: Axes, curve: Curves, look: ReportSettings) -> None:
    network, twin = curve.of("network_mode"), curve.of("twin_mode")
    assert network is not None
    shown = min(network.shape[-1], MODES_SHOWN)
    colours = shades(colour_of(curve.cell["architecture"], look.palette), shown)
    finest = curve.finest("theory_ignition")
    numbers = curve.data["mode_number"].to_numpy() if "mode_number" in curve.data else np.arange(1, shown + 1)
    window = _window(curve.steps, network[:, :shown])
    sides = _sides(finest[1][:shown], window) if finest else []
    for k in range(shown):
        draw(axis, curve.steps, network[:, k], "network", colours[k])
        draw(axis, curve.steps, None if twin is None else twin[:, k], "twin", INK)
        if finest and np.isfinite(finest[1][k]):
            axis.axvline(finest[1][k], color=colours[k], **_LINE)
            axis.text(finest[1][k], 1.2, f" {numbers[k]} ", ha=sides[k], color=INK, va="top", fontsize=8.5, fontweight="bold", clip_on=True)
    log_axes(axis, y=False)
    axis.set(ylim=(-0.05, 1.22), yticks=[0, 0.5, 1])
    axis.set_xlim(*window)
    axis.set_title(
        readable(curve.cell["architecture"]) + (f" ({TIER_NAMES[finest[0]]})" if finest else " (no prediction without training)")
    )


def _sides(times: np.ndarray, window: tuple[float, float]) -> list[str]:
    """Where the numbers end or begin beside the lines: left of a line whose right neighbour leaves no room."""
    room, order = (window[1] / window[0]) ** CLOSE, np.argsort(times)
    tight = {int(k) for k, following in pairwise(order) if times[following] < times[k] * room}
    return ["right" if k in tight else "left" for k in range(len(times))]


def _window(steps: np.ndarray, strengths: np.ndarray) -> tuple[float, float]:
    """From before the first mode moves to the end."""
    moving = np.flatnonzero((np.abs(strengths) > 0.02).any(-1) & (steps > 0))
    return max(1.0, steps[moving[0]] / 1.5 if len(moving) else 1.0), steps[-1] * 1.05


def _matched(study: Findings, rows: pd.DataFrame) -> pd.DataFrame:
    """Measured ignition of these networks beside their finest untrained prediction."""
    table = study.plateaus
    if table.empty:
        return table
    table = table[(table["source"] == "network") & (table["status"] == "matched") & table["cell"].isin(rows["cell"])]
    return finest_predictions(table)


def _title(matched: pd.DataFrame, sigmas: pd.Series, optimizer: str) -> str:
    values = listed([number(float(value)) for value in sorted(sigmas.unique())])
    setting = f"σ = {values}, {readable(optimizer)}"
    if matched.empty:
        return f"Modes switch on one after another ({setting})"
    error = float(matched["relative_error"].abs().median())
    return f"Modes ignite {percent(error)} from the predicted step (median; {setting})"


def _caption(matched: pd.DataFrame, curves: list[Curves]) -> str:
    start = f"Each curve is one mode of the target in {plural(len(curves), 'network')}; numbers name the modes, strongest first."
    if matched.empty:
        return start
    error = matched["relative_error"].abs()
    worst = matched.loc[error.idxmax()]
    return (
        f"{start} {len(matched)} ignitions lie {percent(float(error.median()))} from their predicted step in the median; "
        f"the worst is {percent(float(error.max()))} (mode {int(worst['mode'])}, {readable(worst['architecture'])})."
    )
