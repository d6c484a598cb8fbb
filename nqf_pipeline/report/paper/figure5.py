"""Figure 5 of the paper: a Fourier target through features of power-law strength, and through none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels, source_legend
from nqf_pipeline.report.data import Curves, Findings, ordered, where
from nqf_pipeline.report.fits import fit_of
from nqf_pipeline.report.laws import TIME
from nqf_pipeline.report.learning import draw
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.style import colour_of
from nqf_pipeline.report.wording import listed, number, percent
from nqf_pipeline.study.config import ReportSettings

_NAMES = ("network_loss", "twin_loss", "expected_loss", "theory_loss", "network_mode")
ROWS = {"fourier": "30,000 steps\n(paper)", "long": "until 40 modes\nare due (ours)"}


def figure5(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Columns: theta, and the raw input. First row the paper's run, second a longer one."""
    rows = study.select()
    features = where(rows, task="fourier")
    raw = where(rows, task="fourier_raw")
    if features.empty:
        return Omitted("no finished network on the Fourier target")
    runs, thetas = [run for run in ROWS if (features["experiment"] == run).any()], ordered(features["theta"])
    title, caption = _words(study.exponents, thetas)
    figure, axes = panels(len(runs), len(thetas) + 1, 2.5, title, sharey=True)
    for i, run in enumerate(runs):
        for j, theta in enumerate(thetas):
            curves = list(study.curves(where(features, experiment=run, theta=float(theta)).sort_values("seed"), *_NAMES))
            _panel(axes[i, j], curves, study, look)
            axes[0, j].set_title(f"features, θ = {theta:g}")
        axes[i, 0].set_ylabel(ROWS[run])
    _raw(axes, list(study.curves(raw.sort_values("seed"), "network_loss", "twin_loss")), look)
    for axis in (*axes[-1, :-1], axes[0, -1]):
        axis.set_xlabel(TIME)
    source_legend(figure, ["network", "twin", "theory"], names={"theory": "theory, mean over seeds"})
    return Drawing(figure, title, caption)


def _panel(axis: Axes, curves: Sequence[Curves], study: Findings, look: ReportSettings) -> None:
    if not curves:
        axis.axis("off")
        return
    colour = colour_of(str(curves[0].cell["architecture"]), look.palette)
    for curve in curves:
        draw(axis, curve.time, curve.of("network_loss"), "network", colour, alpha=0.25, linewidth=0.8)
    for name, style, shade in (("network_loss", "network", colour), ("twin_loss", "twin", INK)):
        draw(axis, curves[0].time, _mean(curves, name), style, shade)
    expected = curves[0].of("expected_loss")
    draw(axis, curves[0].time, expected, "theory", INK, linewidth=1.4)
    log_axes(axis)
    axis.set_xlim(*_span(curves))
    found = [(source, fit_of(study, curves[0].cell, source)) for source in ("network", "twin")]
    lines = [f"{source} {fit['exponent']:.2f}{'' if fit['status'] == 'ok' else '*'}" for source, fit in found if fit is not None]
    fit = found[0][1]
    lines += [f"limit {fit['predicted_limit']:.2f}"] if fit is not None else []
    if fit is not None and fit["status"] == "ok":
        axis.axvspan(fit["window_start"], fit["window_end"], color=MUTED, alpha=0.15, linewidth=0)
    axis.text(0.05, 0.05, "\n".join(lines), transform=axis.transAxes, fontsize=8.5, va="bottom")


def _mean(curves: Sequence[Curves], name: str) -> np.ndarray:
    """Over seeds that recorded the curve."""
    return np.mean([values for curve in curves if (values := curve.of(name)) is not None], axis=0)


def _span(curves: Sequence[Curves]) -> tuple[float, float]:
    loss = _mean(curves, "network_loss")
    fallen = np.flatnonzero(loss < 0.95 * loss[0])
    return float(curves[0].time[fallen[0]]) / 2 if len(fallen) else 1.0, float(curves[0].time[-1])


def _raw(axes: np.ndarray, curves: list[Curves], look: ReportSettings) -> None:
    """The raw-input network in the last column, once."""
    for axis in axes[1:, -1]:
        axis.axis("off")
    if not curves:
        axes[0, -1].axis("off")
        return
    axis = axes[0, -1]
    for curve in curves:
        draw(axis, curve.time, curve.of("network_loss"), "network", colour_of("mlp", look.palette), linewidth=2.0)
    draw(axis, curves[0].time, curves[0].of("twin_loss"), "twin", INK)
    log_axes(axis)
    axis.set_xlim(*_span(curves))
    axis.set_title(f"raw input, width {int(curves[0].cell['width'])}")
    left = np.mean([loss[-1] / loss[0] for curve in curves if (loss := curve.of("network_loss")) is not None])
    axis.text(0.05, 0.05, f"{percent(float(left))} of the loss\nis left at the end", transform=axis.transAxes, fontsize=8.5)


def _words(table: pd.DataFrame, thetas: Sequence[float]) -> tuple[str, str]:
    network = where(table, task="fourier", source="network")
    good = network[network["status"] == "ok"] if len(network) else network
    longest = good.sort_values("decades").drop_duplicates("theta", keep="last").sort_values("theta")
    pieces = [f"{fit['exponent']:.2f} ({fit['predicted_limit']:.2f})" for _, fit in longest.iterrows()]
    title = f"Fourier features: exponents {listed(pieces)}, limits in brackets" if pieces else "Fourier features: no exponent is resolved"
    return title, (
        f"Mean over seeds (pale: each network) for θ = {listed([number(theta) for theta in thetas])}. An asterisk marks a slope that does "
        "not count as an exponent: too few modes ignite, or the window is too short. Grey: the fitted window. The last column reads the "
        "grid point itself: of the target it learns the part along x."
    )
