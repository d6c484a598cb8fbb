"""Figure 2 of the paper: recovered strengths of real modules beside their quadratic forms, at a small and a large initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels, source_legend
from nqf_pipeline.report.chosen import highlighted, networks
from nqf_pipeline.report.data import Curves, Findings, ordered
from nqf_pipeline.report.learning import draw
from nqf_pipeline.report.names import INK, MUTED, readable
from nqf_pipeline.report.style import colour_of, shades
from nqf_pipeline.report.wording import number, plural
from nqf_pipeline.study.config import ReportSettings


def figure2(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """One row a module, one column an optimizer at the smallest and at the largest sigma; one seed."""
    rows = networks(study)
    if rows.empty or rows["sigma"].nunique() < 2:
        return Omitted("no finished networks on a teacher at two or more sigmas")
    kinds, optimizers = ordered(rows["architecture"]), ordered(rows["optimizer"])
    sigmas = [float(rows["sigma"].min()), float(rows["sigma"].max())]
    title, caption = _words(study.cells, rows, sigmas)
    figure, axes = panels(len(kinds), len(sigmas) * len(optimizers), 1.35, title, sharey=True)
    shown = rows[(rows["seed"] == highlighted(rows, look)) & rows["sigma"].isin(sigmas)]
    found = {_key(curve.cell): curve for curve in study.curves(shown, "network_mode", "twin_mode")}
    for (i, kind), (j, (sigma, optimizer)) in product(enumerate(kinds), enumerate(product(sigmas, optimizers))):
        curve = found.get((kind, optimizer, sigma))
        if curve is None:
            axes[i, j].axis("off")
        else:
            _panel(axes[i, j], curve, colour_of(kind, look.palette))
        if i == 0:
            axes[i, j].set_title(f"{readable(optimizer)}\nσ = {number(sigma)}", fontsize=8.5)
    for axis, kind in zip(axes[:, 0], kinds, strict=True):
        axis.set_ylabel(readable(kind).replace(" ", "\n"), color=colour_of(kind, look.palette), fontweight="bold")
    for axis in axes[-1]:
        axis.set_xlabel("step")
    source_legend(figure, ["network", "twin"])
    return Drawing(figure, title, caption)


def _key(cell: pd.Series) -> tuple[str, str, float]:
    return str(cell["architecture"]), str(cell["optimizer"]), float(cell["sigma"])


def _panel(axis: Axes, curve: Curves, colour: str) -> None:
    network, twin = curve.of("network_mode"), curve.of("twin_mode")
    if network is not None and twin is not None:
        for k, shade in enumerate(shades(colour, network.shape[-1])):
            draw(axis, curve.steps, network[:, k], "network", shade, linewidth=2.0)
            draw(axis, curve.steps, twin[:, k], "twin", INK)
        axis.set_xlim(_start(curve.steps, np.concatenate([network, twin], axis=1)), curve.steps[-1])
    log_axes(axis, y=False)
    axis.xaxis.set_minor_formatter(NullFormatter())  # the panels are narrow
    axis.axhline(1.0, color=MUTED, linewidth=0.5)
    axis.set(ylim=(-0.3, 1.5), yticks=[0, 1])


def _start(steps: np.ndarray, strengths: np.ndarray) -> float:
    moving = np.flatnonzero((np.abs(strengths - strengths[0]) > 0.02).any(1) & (steps > 0))
    return max(1.0, steps[moving[0]] / 1.5) if len(moving) else 1.0


def _words(cells: pd.DataFrame, rows: pd.DataFrame, sigmas: Sequence[float]) -> tuple[str, str]:
    gaps = cells[cells["cell"].isin(rows["cell"])].groupby("sigma")["largest_mode_gap"]
    small, large = (gaps.median().loc[sigma] for sigma in sigmas)
    ends = [f"{gap:.2f} at σ = {number(sigma)}" for sigma, gap in zip(sigmas, (small, large), strict=True)]
    title = f"Strengths of networks and their twins differ by {ends[0]}, and by {ends[1]} (median of the largest gaps)"
    worst = gaps.max().loc[sigmas[0]]
    modules = plural(rows["architecture"].nunique(), "module")
    return title, (
        f"Recovered strengths of the four modes of the target, darkest the strongest, in {modules}. Gap: largest difference of a mode's "
        f"strength between network and twin at any time, median over {len(rows)} networks; at the small σ the worst is {worst:.2f}."
    )
