"""Figure 3 of the paper: orthogonal features, a staircase of five and a power law of a thousand."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels, source_legend
from nqf_pipeline.report.data import Curves, Findings, where
from nqf_pipeline.report.fits import fit_of
from nqf_pipeline.report.learning import draw, focus
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.paper.staircase import CURVES, LINE, staircase, window
from nqf_pipeline.report.style import colour_of
from nqf_pipeline.report.wording import number, percent
from nqf_pipeline.study.config import ReportSettings


def figure3(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Left: loss of five modes with their predicted ignitions and plateaus. Right: the power law with its fit."""
    stairs = where(study.select(), task="orthogonal_features", experiment="staircase")
    laws = where(study.select(), task="feature_power_law", experiment="power_law")
    if stairs.empty or laws.empty:
        return Omitted("no finished staircase, or no finished power law, of orthogonal features")
    stair = next(iter(study.curves(stairs.sort_values("seed"), *CURVES)))
    law = next(iter(study.curves(laws.sort_values("epsilon", ascending=False), "network_loss", "theory_loss")))
    fit = fit_of(study, law.cell)
    title, caption = _words(study.plateaus, stair, law, fit)
    figure, axes = panels(1, 2, 3.4, title)
    colour = colour_of("diagonal", look.palette)
    staircase(axes[0, 0], stair, colour)
    window(axes[0, 0], stair)
    axes[0, 0].set(xlabel="step", ylabel="loss")
    axes[0, 0].set_title(f"five features, ε = {number(float(stair.cell['epsilon']))}")
    _law(axes[0, 1], law, fit, colour)
    axes[0, 1].set_title(f"1000 features, z_k(0) = {number(float(law.cell['epsilon']))} k^-1.2")
    source_legend(figure, ["network", "theory"], [Line2D([], [], color=colour, label="predicted ignition", **LINE)])
    return Drawing(figure, title, caption)


def _law(axis: Axes, curve: Curves, fit: pd.Series | None, colour: str) -> None:
    loss = curve.of("network_loss")
    draw(axis, curve.time, loss, "network", colour)
    draw(axis, curve.time, curve.untrained("theory_loss"), "theory", INK, linewidth=1.4)
    log_axes(axis)
    focus(axis, [curve], time=True)
    axis.set(xlabel="time (learning rate × step)")
    if fit is None or loss is None or not np.isfinite(fit["exponent"]):
        return
    axis.axvspan(fit["window_start"], fit["window_end"], color=MUTED, alpha=0.15, linewidth=0)
    span = np.array([fit["window_start"], fit["window_end"]])
    middle = np.sqrt(span.prod())
    level = np.exp(np.interp(np.log(middle), np.log(curve.time[1:]), np.log(loss[1:])))
    axis.plot(span, 1.8 * level * (span / middle) ** -fit["predicted_limit"], color=INK, linewidth=0.8)
    words = f"fit {fit['exponent']:.3f}\nsame window, theory {fit['predicted_finite']:.3f}\nlimit {fit['predicted_limit']:.3f} (line)"
    axis.text(0.05, 0.06, words, transform=axis.transAxes, fontsize=8.5)


def _words(plateaus: pd.DataFrame, stair: Curves, law: Curves, fit: pd.Series | None) -> tuple[str, str]:
    rows = where(plateaus, cell=str(stair.cell["cell"]), source="network", status="matched")
    errors = {tier: rows.loc[rows["tier"] == tier, "relative_error"].abs() for tier in ("flow", "asymptote")}
    slope = "" if fit is None else f"; exponent {fit['exponent']:.3f}, {fit['predicted_limit']:.3f} in the limit"
    title = f"Five plateaus end within {percent(errors['flow'].max())} of the predicted steps{slope}"
    flow, asymptote = (percent(errors[tier].max()) for tier in ("flow", "asymptote"))
    return title, (
        f"Thin lines: heights of the plateaus as ε → 0. Closed forms of gradient flow miss the ignitions by {flow} at most (what is left "
        f"is the learning rate, {number(float(stair.cell['learning_rate']))}); the asymptote ln(1/ε)/r_k by up to {asymptote}. Right: "
        f"grey, the window of the fit, at ε = {number(float(law.cell['epsilon']))}."
    )
