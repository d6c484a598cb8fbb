"""Scaling exponents: the power-law ensembles and the Fourier target."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, listed, log_axes, number, panels, percent, source_legend
from nqf_pipeline.report.data import Curves, Findings, ordered, typical, where
from nqf_pipeline.report.learning import LOSS, draw, focus
from nqf_pipeline.study.config import ReportSettings
from nqf_pipeline.report.style import INK, LINES, MARKERS, MUTED, colour_of, shades

AXES = {"feature_power_law": ("alpha1", "alpha2"), "sample_power_law": ("gamma1", "gamma2")}
_SYMBOLS = {"alpha1": "α₁", "alpha2": "α₂", "gamma1": "γ₁", "gamma2": "γ₂"}
PANELS = 12
CURVE_PANELS = 6


def fitted(study: Findings, task: str, source: str = "network") -> pd.DataFrame:
    """Rows of the exponents table that hold a fitted value."""
    table = study.exponents
    if table.empty:
        return table
    return table[table["task"].str.startswith(task) & (table["source"] == source) & (table["status"] == "ok")]


def ensembles(study: Findings) -> dict[str, pd.DataFrame]:
    """Fitted exponents of the networks, per kind of ensemble."""
    found = {task: fitted(study, task) for task in AXES}
    return {task: table for task, table in found.items() if len(table)}


def exponents(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Exponent against epsilon, one panel a grid point, with both predictions."""
    tables = ensembles(study)
    if not tables:
        return Omitted("no fitted exponent of a power-law ensemble")
    groups = [(task, point, group) for task, table in tables.items() for point, group in table.groupby(list(AXES[task]), sort=True)]
    every = pd.concat(tables.values())
    title, caption = _exponent_words(every, len(groups))
    shown = groups[:: max(1, -(-len(groups) // PANELS))]
    height, width = grid_of(len(shown), 3 if len(shown) != 4 else 2)
    figure, axes = panels(height, width, 1.75, title, sharex=True)
    left = drop_unused(axes, len(shown))
    for axis, (task, point, group) in zip(left, shown, strict=True):
        _approach(axis, group, look)
        axis.set_title(_point_name(task, point))
    for axis in left[-width:]:
        axis.set_xlabel("ε (spaced as 1/ln(1/ε))")
    figure.supylabel("exponent of the loss curve", fontsize=9)
    _exponent_legend(figure, colour_of(str(every["architecture"].iloc[0]), look.palette))
    return Drawing(figure, title, caption)


def _approach(axis: Axes, group: pd.DataFrame, look: ReportSettings) -> None:
    group = group.sort_values("epsilon")
    x = 1.0 / np.log(1.0 / group["epsilon"].to_numpy())
    colour = colour_of(str(group["architecture"].iloc[0]), look.palette)
    low, high = group["exponent"] - group["ci_low"], group["ci_high"] - group["exponent"]
    axis.plot(x, group["predicted_finite"], color=INK, marker=MARKERS["theory"], markersize=3, markerfacecolor="none", **LINES["theory"])
    axis.errorbar(x, group["exponent"], yerr=np.abs([low, high]), fmt=MARKERS["network"], color=colour, markersize=4.5, capsize=2, linewidth=1.2)
    limit = float(group["predicted_limit"].iloc[0])
    axis.axhline(limit, color=MUTED, linewidth=0.9, linestyle=(0, (6, 2)))
    axis.plot([0], [limit], marker="*", color=INK, markersize=8, clip_on=False, zorder=5)
    axis.set_xlim(0, float(x.max()) * 1.12)
    _epsilon_ticks(axis, x, group["epsilon"].to_numpy())
    axis.margins(y=0.2)
    axis.grid(True)


def _epsilon_ticks(axis: Axes, x: np.ndarray, epsilon: np.ndarray) -> None:
    """Name each epsilon at its place, from the largest down to where names would touch."""
    kept = [(0.0, "0")]
    for position, value in sorted(zip(x, epsilon, strict=True), reverse=True):
        if all(abs(position - other) > 0.17 * x.max() for other, _ in kept):
            kept.append((position, f"$10^{{{round(np.log10(value))}}}$" if value < 1e-3 else f"{value:g}"))
    axis.set_xticks([position for position, _ in kept], [name for _, name in kept])


def _exponent_legend(figure: object, colour: str) -> None:
    extra = [
        Line2D([], [], color=colour, marker=MARKERS["network"], linestyle="none", label="measured, with interval"),
        Line2D([], [], color=INK, marker=MARKERS["theory"], markerfacecolor="none", markersize=4, **LINES["theory"], label="predicted, same window"),
        Line2D([], [], color=MUTED, marker="*", markerfacecolor=INK, markeredgecolor=INK, markersize=8, linestyle=(0, (6, 2)), label="limit, ε → 0"),
    ]
    source_legend(figure, [], extra)  # type: ignore[arg-type]


def _exponent_words(table: pd.DataFrame, points: int) -> tuple[str, str]:
    finite = (table["exponent"] / table["predicted_finite"] - 1).abs()
    smallest = table[table["epsilon"] == table["epsilon"].min()]
    largest = table[table["epsilon"] == table["epsilon"].max()]
    gaps = [float((part["exponent"] / part["predicted_limit"] - 1).abs().median()) for part in (largest, smallest)]
    title = f"Measured exponents lie {percent(float(finite.median()))} from their finite-size prediction (worst {percent(float(finite.max()))})"
    caption = (
        f"{len(table)} fits over {points} grid points. The distance to the limit shrinks from {percent(gaps[0])} at ε = {number(float(largest['epsilon'].iloc[0]))} "
        f"to {percent(gaps[1])} at ε = {number(float(smallest['epsilon'].iloc[0]))} (medians)."
        if gaps[1] < gaps[0]
        else f"{len(table)} fits over {points} grid points. Distance to the limit: {percent(gaps[0])} at the largest ε, {percent(gaps[1])} at the smallest (medians)."
    )
    return title, caption


def _point_name(task: str, point: tuple[float, ...]) -> str:
    return ", ".join(f"{_SYMBOLS[name]} = {value:g}" for name, value in zip(AXES[task], point, strict=True))


def power_laws(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Loss of the ensembles with fitted window and theory, one panel a grid point."""
    rows = study.select()
    rows = rows[rows["task"].isin(list(AXES))]
    if rows.empty:
        return Omitted("no finished power-law ensemble")
    groups = [(task, point, group) for task, part in rows.groupby("task") for point, group in part.groupby(list(AXES[str(task)]), sort=True)]
    shown = groups[:: max(1, -(-len(groups) // CURVE_PANELS))]
    title, caption = _power_words(fitted(study, ""), len(groups), len(shown))
    height, width = grid_of(len(shown), 3)
    figure, axes = panels(height, width, 2.0, title)
    left = drop_unused(axes, len(shown))
    for axis, (task, point, group) in zip(left, shown, strict=True):
        first = group[group["seed"] == group["seed"].min()].sort_values("epsilon", ascending=False)
        _law(axis, list(study.curves(first, "network_loss", "theory_loss")), study, look)
        axis.set_title(_point_name(str(task), point))
    for axis in left[-width:]:
        axis.set_xlabel("time (learning rate × step)")
    figure.supylabel(LOSS, fontsize=9)
    patch = Line2D([], [], color=MUTED, alpha=0.3, linewidth=7, label="fitted window, smallest ε")
    guide = Line2D([], [], color=INK, linewidth=0.8, label="slope of the limit")
    source_legend(figure, ["network", "theory"], [patch, guide])
    return Drawing(figure, title, caption)


def _law(axis: Axes, curves: list[Curves], study: Findings, look: ReportSettings) -> None:
    colours = shades(colour_of(str(curves[0].cell["architecture"]), look.palette), len(curves))[::-1]
    for colour, curve in zip(colours, curves, strict=True):
        draw(axis, curve.time, curve.of("network_loss"), "network", colour, linewidth=2.0)
        draw(axis, curve.time, curve.untrained("theory_loss"), "theory", INK, linewidth=1.2)
    log_axes(axis)
    focus(axis, curves, time=True)
    fit = _fit_of(study, curves[-1].cell)
    if fit is not None:
        axis.axvspan(fit["window_start"], fit["window_end"], color=MUTED, alpha=0.15, linewidth=0)
        _guide(axis, curves[-1], fit)
        axis.text(0.04, 0.06, f"fit {fit['exponent']:.3f}\nlimit {fit['predicted_limit']:.3f}", transform=axis.transAxes, fontsize=8.5)


def _guide(axis: Axes, curve: Curves, fit: pd.Series) -> None:
    """A line of the limiting slope, a little above the curve, over the window."""
    window = np.array([fit["window_start"], fit["window_end"]], float)
    loss, positive = curve.of("network_loss"), curve.steps > 0
    assert loss is not None
    middle = np.sqrt(window.prod())
    level = np.exp(np.interp(np.log(middle), np.log(curve.time[positive]), np.log(loss[positive])))
    axis.plot(window, 1.6 * level * (window / middle) ** -float(fit["predicted_limit"]), color=INK, linewidth=0.8)


def _fit_of(study: Findings, cell: pd.Series, source: str = "network") -> pd.Series | None:
    table = fitted(study, str(cell["task"]), source)
    names = [name for name in (*AXES.get(str(cell["task"]), ()), "theta", "beta", "epsilon") if name in table and name in cell.index]
    table = where(table, **{name: float(cell[name]) for name in names if np.isfinite(cell[name])})
    return table.iloc[0] if len(table) else None


def _power_words(table: pd.DataFrame, points: int, shown: int) -> tuple[str, str]:
    laws = table[table["task"].isin(list(AXES))] if len(table) else table
    if laws.empty:
        return "Loss of the power-law ensembles (no exponent resolved)", f"{shown} of {points} grid points, one curve per ε."
    decades = float(laws["decades"].median())
    title = f"Losses of the ensembles fall as power laws over {decades:.1f} decades of time (median window)"
    caption = f"{shown} of {points} grid points; one curve per ε, darkest the smallest. Fitted exponents of the windows: {number(float(laws['exponent'].min()))} to {number(float(laws['exponent'].max()))}."
    return title, caption


def fourier(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Fourier target: loss per theta with fitted and predicted exponents."""
    rows = study.select()
    rows = rows[rows["task"].str.startswith("fourier")]
    if rows.empty or "theta" not in rows:
        return Omitted("no finished network on the Fourier target")
    rows = typical(rows, ["theta"], {"seed"})
    thetas = ordered(rows["theta"])
    title, caption = _fourier_words(study, thetas)
    height, width = grid_of(len(thetas), 3)
    figure, axes = panels(height, width, 2.6, title, sharey=True)
    for axis, theta in zip(drop_unused(axes, len(thetas)), thetas, strict=True):
        curves = list(study.curves(where(rows, theta=float(theta)), "network_loss", "twin_loss", "theory_loss"))
        _fourier_panel(axis, curves, study, look)
        axis.set_title(f"θ = {theta:g}")
        axis.set_xlabel("time (learning rate × step)")
    figure.supylabel(LOSS, fontsize=9)
    source_legend(figure, ["network", "twin", "theory"])
    return Drawing(figure, title, caption)


def _fourier_panel(axis: Axes, curves: list[Curves], study: Findings, look: ReportSettings) -> None:
    colour = colour_of(str(curves[0].cell["architecture"]), look.palette)
    for curve in curves[1:]:
        draw(axis, curve.time, curve.of("network_loss"), "network", colour, alpha=0.3, linewidth=1.0)
    draw(axis, curves[0].time, curves[0].of("network_loss"), "network", colour)
    draw(axis, curves[0].time, curves[0].of("twin_loss"), "twin", INK)
    draw(axis, curves[0].time, curves[0].untrained("theory_loss"), "theory", INK)
    log_axes(axis)
    focus(axis, curves, time=True)
    fits = [(source, _fit_of(study, curves[0].cell, source)) for source in ("network", "twin", "theory")]
    lines = [f"{source} {fit['exponent']:.2f}" for source, fit in fits if fit is not None]
    limits = [fit["predicted_limit"] for _, fit in fits if fit is not None]
    text = "\n".join([*lines, *([f"limit {limits[0]:.2f}"] if limits else ["no exponent resolved"])])
    axis.text(0.05, 0.05, text, transform=axis.transAxes, fontsize=8.5, va="bottom")


def _fourier_words(study: Findings, thetas: list[float]) -> tuple[str, str]:
    pieces = []
    for theta in thetas:
        values = [where(fitted(study, "fourier", source), theta=float(theta)) for source in ("network", "twin")]
        if len(values[0]):
            twin = f", twin {values[1]['exponent'].median():.2f}" if len(values[1]) else ""
            limit = float(values[0]["predicted_limit"].iloc[0])
            pieces.append(f"θ = {theta:g}: network {values[0]['exponent'].median():.2f}{twin}, limit {limit:.2f}")
    if not pieces:
        return "Fourier target: no exponent could be resolved", "Loss against step; the exponents table gives the reason."
    title = f"Fourier target: fitted exponents {listed([piece.split('network ')[1].split(',')[0] for piece in pieces])} for θ = {listed([f'{t:g}' for t in thetas])}"
    return title, f"Fitted exponents of the loss. {'; '.join(pieces)}."
