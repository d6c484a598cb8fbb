"""Loss against step: network, twin and theory side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, loss_label, panels, source_legend
from nqf_pipeline.report.chosen import chosen_setting, highlighted, networks, shown_sigma
from nqf_pipeline.report.data import Curves, Findings, ordered, where
from nqf_pipeline.report.names import INK, TIER_NAMES, readable
from nqf_pipeline.report.style import LINES, colour_of
from nqf_pipeline.report.wording import listed, number, percent
from nqf_pipeline.study.config import ReportSettings

LOSS = "loss (mean over samples, sum over outputs)"
DEPTH = 1e-5
"""Share of the initial loss at which loss axes end."""
FEW, BAND_POINTS = 12, 200
"""Other seeds of a panel up to which each is a line of its own; points of the band that stands for more."""
_NAMES = ("network_loss", "twin_loss", "theory_loss", "divergence")


def learning(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Small multiples, architecture by optimizer, at one sigma; one seed highlighted."""
    rows = networks(study)
    if rows.empty:
        return Omitted("no finished network on a teacher task")
    sigma = shown_sigma(rows, look)
    rows = where(rows, sigma=sigma)
    architectures, optimizers = ordered(rows["architecture"]), ordered(rows["optimizer"])
    curves = list(study.curves(rows, *_NAMES))
    title, caption = _words(curves, sigma, highlighted(rows, look))
    caption += chosen_setting(study, rows)
    figure, axes = panels(len(architectures), len(optimizers), 1.75, title, sharex="col", sharey="row")
    for i, architecture in enumerate(architectures):
        for j, optimizer in enumerate(optimizers):
            here = [c for c in curves if c.cell["architecture"] == architecture and c.cell["optimizer"] == optimizer]
            _panel(axes[i, j], here, look)
            axes[0, j].set_title(readable(optimizer))
            axes[-1, j].set_xlabel("step")
        corner(axes[i, 0], readable(architecture), colour_of(architecture, look.palette))
        floor(axes[i], [curve for curve in curves if curve.cell["architecture"] == architecture])
    loss_label(figure, len(architectures), LOSS)
    source_legend(figure, ["network", "twin", "theory"])
    return Drawing(figure, title, caption)


def _words(curves: Sequence[Curves], sigma: float, seed: int) -> tuple[str, str]:
    apart = [(float(np.nanmax(values)), curve.cell) for curve in curves if (values := curve.of("divergence")) is not None]
    panels_of = pd.DataFrame([curve.cell for curve in curves]).groupby(["architecture", "optimizer"]).size()
    pale = f"pale: {'other seeds' if panels_of.max() <= FEW + 1 else 'where 90 % of the other seeds lie'}"
    start = f"Loss of {len(curves)} networks against step (highlighted: seed {seed}, {pale}). {_tier_sentence(curves)}"
    if not apart:
        return f"Loss of networks and twins at σ = {number(sigma)}", start
    median = percent(float(np.median([size for size, _ in apart])))
    size, worst = max(apart, key=lambda pair: pair[0])
    return f"At σ = {number(sigma)} networks stay within {median} of their twins throughout (median of {len(apart)})", (
        f"{start} The largest distance of a network's outputs from its twin's in training, as a share of the target, has median {median}; "
        f"the worst is {percent(size)} ({readable(worst['architecture'])}, {readable(worst['optimizer'])})."
    )


def _panel(axis: Axes, curves: Sequence[Curves], look: ReportSettings) -> None:
    if not curves:
        axis.text(0.5, 0.5, "not in this study", transform=axis.transAxes, ha="center", color=INK)
        return
    seed = highlighted(pd.DataFrame([curve.cell for curve in curves]), look)
    colour = colour_of(curves[0].cell["architecture"], look.palette)
    others = [curve for curve in curves if curve.cell["seed"] != seed]
    if len(others) > FEW:
        _band(axis, others, colour)
    for curve in others if len(others) <= FEW else ():
        draw(axis, curve.steps, curve.of("network_loss"), "network", colour, alpha=0.3, linewidth=1.0)
    main = next(curve for curve in curves if curve.cell["seed"] == seed)
    losses(axis, main, colour)
    log_axes(axis)
    focus(axis, [main])


def _band(axis: Axes, curves: Sequence[Curves], colour: str) -> None:
    """The middle 90 % of the networks' losses at each step, on one grid of steps within all records."""
    found = [(curve.steps[1:], loss[1:]) for curve in curves if (loss := curve.of("network_loss")) is not None]
    ends = [(steps[0], steps[-1]) for steps, _ in found]
    grid = np.geomspace(max(first for first, _ in ends), min(last for _, last in ends), BAND_POINTS)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.exp([np.interp(np.log(grid), np.log(steps), np.log(loss)) for steps, loss in found])
    low, high = np.nanquantile(values, [0.05, 0.95], axis=0)
    axis.fill_between(grid, low, high, color=colour, alpha=0.25, linewidth=0)


def losses(axis: Axes, curve: Curves, colour: str) -> None:
    """Network, twin and the finest prediction of one cell."""
    draw(axis, curve.steps, curve.of("network_loss"), "network", colour)
    draw(axis, curve.steps, curve.of("twin_loss"), "twin", INK)
    draw(axis, curve.steps, curve.untrained("theory_loss"), "theory", INK)


def draw(axis: Axes, steps: np.ndarray, values: np.ndarray | None, source: str, colour: str, **options: float) -> None:
    """One curve in the style of its source; step 0 has no place on a log axis."""
    if values is not None:
        later = steps > 0
        axis.plot(steps[later], values[later], color=colour, **(LINES[source] | options))


def corner(axis: Axes, text: str, colour: str) -> None:
    """A panel's name inside it, where a falling curve leaves room."""
    axis.text(0.04, 0.08, text, transform=axis.transAxes, color=colour, fontweight="bold", fontsize=9)


def floor(axes: Iterable[Axes], curves: Sequence[Curves]) -> None:
    """End the loss axis where nothing is left to learn: below, only rounding differs."""
    losses = [loss for curve in curves if (loss := curve.of("network_loss")) is not None]
    start = max((loss[0] for loss in losses), default=1.0)
    lowest = min((float(np.nanmin(loss)) for loss in losses), default=start)
    for axis in axes:
        axis.set_ylim(max(lowest / 2, DEPTH * start), 2 * start)


def focus(axis: Axes, curves: Sequence[Curves], time: bool = False) -> None:
    """Start the axis shortly before the loss begins to fall: a log axis is mostly waiting."""
    starts, ends = [], []
    for curve in curves:
        network, steps = curve.of("network_loss"), curve.time if time else curve.steps
        values = curve.of("twin_loss") if network is None else network
        if values is not None:
            fallen = np.flatnonzero(values < 0.98 * values[0])
            starts.append(steps[fallen[0]] if len(fallen) else steps[-1] / 10)
            ends.append(np.nanmax(steps))
    if ends:
        axis.set_xlim(max(min(starts) / 2, min(ends) * 1e-6), max(ends) * 1.05)


def _tier_sentence(curves: Sequence[Curves]) -> str:
    tiers = {finest[0] for curve in curves if (finest := curve.finest("theory_loss"))}
    if not tiers:
        return "No tier of theory predicts these losses without training."
    return f"Theory is the finest tier that applies: {listed([TIER_NAMES[tier] for tier in sorted(tiers)])}."
