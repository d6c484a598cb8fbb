"""Loss curves that end as power laws: the ensembles and the Fourier target."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, log_axes, loss_label, panels, source_legend
from nqf_pipeline.report.data import Curves, Findings, ordered, typical, where
from nqf_pipeline.report.fits import AXES, ensembles, fit_of, fits, grid_points, resolved, why_not
from nqf_pipeline.report.kinds import ALONE, counted, kinds, lone, whose
from nqf_pipeline.report.learning import LOSS, draw, focus
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.style import colour_of, shades
from nqf_pipeline.report.wording import listed, number
from nqf_pipeline.study.config import ReportSettings

PANELS = 6
TIME = "time (learning rate × step)"


def power_laws(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Loss of the ensembles with the fitted window and theory, one panel a grid point, one curve an epsilon."""
    rows = study.best(study.done["task"].isin(list(AXES)))
    groups = grid_points(study, rows)
    if not groups:
        return Omitted("no finished power-law ensemble")
    shown = groups[:: -(-len(groups) // PANELS)]
    title, caption = _words(ensembles(study), len(groups), len(shown), rows)
    height, width = grid_of(len(shown), 3)
    figure, axes = panels(height, width, 2.0, title)
    left = drop_unused(axes, len(shown))
    for axis, (name, group) in zip(left, shown, strict=True):
        first = group[group["seed"] == group["seed"].min()].sort_values("epsilon", ascending=False)
        _law(axis, list(study.curves(first, "network_loss", "twin_loss", "theory_loss")), study, look)
        axis.set_title(name)
    for axis in left[-width:]:
        axis.set_xlabel(TIME)
    loss_label(figure, height, LOSS)
    window = Line2D([], [], color=MUTED, alpha=0.3, linewidth=7, label="fitted window, smallest ε")
    guide = Line2D([], [], color=INK, linewidth=0.8, label="slope of the limit")
    limits = any(table["predicted_limit"].notna().any() for table in ensembles(study).values())
    sources, names = _sources(rows)
    source_legend(figure, sources, ([window, guide] if limits else [window]) if "network" in sources else [], names)
    return Drawing(figure, title, caption)


def _law(axis: Axes, curves: list[Curves], study: Findings, look: ReportSettings) -> None:
    colours = shades(colour_of(str(curves[0].cell["architecture"]), look.palette), len(curves))[::-1]
    for colour, curve in zip(colours, curves, strict=True):
        measured = curve.of("network_loss") is not None or curve.of("twin_loss") is not None
        draw(axis, curve.time, leading_loss(curve), "network", colour, linewidth=2.0)
        draw(axis, curve.time, curve.untrained("theory_loss"), "theory", INK if measured else colour, linewidth=1.2 if measured else 2.0)
    log_axes(axis)
    focus(axis, curves, time=True)
    fit = fit_of(study, curves[-1].cell)
    if fit is not None and fit["status"] == "ok":
        axis.axvspan(fit["window_start"], fit["window_end"], color=MUTED, alpha=0.15, linewidth=0)
        _guide(axis, curves[-1], fit)
        axis.text(0.04, 0.06, _fit_text([("fit", fit)], 3), transform=axis.transAxes, fontsize=8.5)


def leading_loss(curve: Curves) -> np.ndarray | None:
    """The curve that stands for a cell: its network's, or its twin's where that is trained alone."""
    network = curve.of("network_loss")
    return curve.of("twin_loss") if network is None else network


def _sources(rows: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """Line styles in use, and what the solid one is."""
    alone, predicted = lone(rows), kinds(rows) == "nothing"
    if predicted.all():
        return ["theory"], {}
    return ["network", "theory"], {"network": ALONE if alone.all() else "network or twin (alone)"} if alone.any() else {}


def _fit_text(found: list[tuple[str, pd.Series]], digits: int) -> str:
    """Fitted exponents by name, then the limit, one a line; a fit that is not resolved says so."""
    lines = [f"{name} {fit['exponent']:.{digits}f}{'' if fit['status'] == 'ok' else ' (not resolved)'}" for name, fit in found]
    limits = [fit["predicted_limit"] for _, fit in found if np.isfinite(fit["predicted_limit"])]
    return "\n".join([*lines, *(f"limit {limit:.{digits}f}" for limit in limits[:1])])


def _guide(axis: Axes, curve: Curves, fit: pd.Series) -> None:
    """A line of the limiting slope over the window, a little above the curve."""
    window = np.array([fit["window_start"], fit["window_end"]], float)
    loss, later = leading_loss(curve), curve.time > 0
    if loss is None:
        return
    middle = np.sqrt(window.prod())
    level = np.exp(np.interp(np.log(middle), np.log(curve.time[later]), np.log(loss[later])))
    axis.plot(window, 1.6 * level * (window / middle) ** -float(fit["predicted_limit"]), color=INK, linewidth=0.8)


def _words(tables: dict[str, pd.DataFrame], points: int, shown: int, rows: pd.DataFrame) -> tuple[str, str]:
    who = counted(rows)
    start = f"{shown} of {points} grid points ({who}); one curve (one seed) per ε, darkest the smallest."
    if not tables or (kinds(rows) == "nothing").all():
        reason = "only predicted" if (kinds(rows) == "nothing").all() else "no exponent resolved"
        return f"Loss of the power-law ensembles ({reason})", start
    every = pd.concat(tables.values())
    title = f"Losses of the ensembles{whose(every)} fall as power laws over {every['decades'].median():.1f} decades of time (median window)"
    return title, f"{start} Fitted exponents range from {number(every['exponent'].min())} to {number(every['exponent'].max())}."


def fourier(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Fourier target: loss per theta with fitted and predicted exponents."""
    rows = study.best(study.done["task"].str.startswith("fourier"))
    if rows.empty:
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
        axis.set_xlabel(TIME)
    loss_label(figure, height, LOSS)
    sources = {"network_and_twin": ["network", "twin", "theory"], "twin": ["twin", "theory"], "nothing": ["theory"]}
    source_legend(figure, sources[kinds(rows).iloc[0]], names={"twin": ALONE} if lone(rows).all() else None)
    return Drawing(figure, title, caption)


def _fourier_panel(axis: Axes, curves: list[Curves], study: Findings, look: ReportSettings) -> None:
    colour = colour_of(str(curves[0].cell["architecture"]), look.palette)
    for curve in curves[1:]:
        draw(axis, curve.time, curve.of("network_loss"), "network", colour, alpha=0.3, linewidth=1.0)
    main = curves[0]
    draw(axis, main.time, main.of("network_loss"), "network", colour)
    draw(axis, main.time, main.of("twin_loss"), "twin", INK)
    draw(axis, main.time, main.untrained("theory_loss"), "theory", INK)
    log_axes(axis)
    focus(axis, curves, time=True)
    named = {"twin": ALONE} if lone(main.cell.to_frame().T).all() else {}
    found = [(named.get(source, source), fit) for source in ("network", "twin") if (fit := _own_fit(study, main.cell, source)) is not None]
    axis.text(0.05, 0.05, _fit_text(found, 2), transform=axis.transAxes, fontsize=8.5, va="bottom")


def _own_fit(study: Findings, cell: pd.Series, source: str) -> pd.Series | None:
    """The fit of this curve itself: a twin that stands for its cell is not its network's too."""
    fit = fit_of(study, cell, source)
    return None if fit is None or fit["source"] != source else fit


def _fourier_words(study: Findings, thetas: list[float]) -> tuple[str, str]:
    every = {source: fits(study, "fourier", source) for source in ("network", "twin")}
    network, twin = (table[table["source"] == source] if len(table) else table for source, table in every.items())
    tables = {"network": network, "twin": twin[~lone(twin)], ALONE: twin[lone(twin)]}
    words = [_theta_words({source: where(table, theta=float(theta)) for source, table in tables.items()}, theta) for theta in thetas]
    pieces = [piece for piece in words if piece]
    good = resolved(network if len(network) else tables[ALONE])
    values = f"Slopes of the loss: {'; '.join(pieces)}. " if pieces else ""
    if good.empty:
        reason = why_not(study, "fourier") or "none was fitted"
        return "Fourier target: no exponent is resolved", f"{values}None counts as an exponent, most often because of {reason}."
    named = [f"{fit['exponent']:.2f} (θ = {fit['theta']:g})" for _, fit in good.sort_values("theta").iterrows()]
    return f"Fourier target: fitted exponents{whose(good)} {listed(named)}", f"{values}{len(good)} of {len(thetas)} count as exponents."


def _theta_words(tables: dict[str, pd.DataFrame], theta: float) -> str:
    measured = [f"{source} {table['exponent'].median():.2f}" for source, table in tables.items() if len(table)]
    limits = [table["predicted_limit"].iloc[0] for table in tables.values() if len(table)]
    measured += [f"limit {limits[0]:.2f}"] if limits and np.isfinite(limits[0]) else []
    return f"θ = {theta:g}: {', '.join(measured)}" if measured else ""
