"""The twin's tangent kernel: lazy training keeps it, feature learning turns and grows it (theory: Proposition 8)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from nqf_pipeline.analysis.kernel import FEATURES, LAZY, regime, width_exponent
from nqf_pipeline.analysis.slopes import Slope
from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels
from nqf_pipeline.report.chosen import networks
from nqf_pipeline.report.data import Findings, ordered, typical
from nqf_pipeline.report.names import INK, MUTED, readable
from nqf_pipeline.report.style import colour_of
from nqf_pipeline.report.wording import listed, number, percent
from nqf_pipeline.study.config import ReportSettings

_GREY = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (2, 2))}


def kernel(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Left: how far the kernel has turned, along training. Right: how far it has moved at the end, over sigma."""
    rows, cells = networks(study), study.cells
    if "kernel_change" not in cells or rows.empty:
        return Omitted("no recorded tangent kernel of a twin on a teacher task")
    optimizer = look.optimizer if look.optimizer in set(rows["optimizer"]) else ordered(rows["optimizer"])[0]
    cells = cells[cells["task"].str.startswith("teacher") & (cells["optimizer"] == optimizer) & (cells["status"] == "done")]
    cells = cells[np.isfinite(cells["kernel_change"])]
    if cells.empty:
        return Omitted("no recorded tangent kernel of a twin on a teacher task")
    title = _title(cells)
    figure, axes = panels(1, 2, 2.6, title)
    _turns(axes[0, 0], study, typical(rows[rows["optimizer"] == optimizer], ["architecture", "sigma"], {"sigma"}), look)
    _changes(axes[0, 1], cells, look)
    return Drawing(figure, title, _caption(cells))


def _turns(axis: Axes, study: Findings, rows: pd.DataFrame, look: ReportSettings) -> None:
    """One curve per architecture and sigma (its first seed); thick at the smallest sigma."""
    rows = rows.drop_duplicates(["architecture", "sigma"])
    smallest, largest = rows["sigma"].min(), rows["sigma"].max()
    for curve in study.curves(rows[rows["sigma"].isin([smallest, largest])], "twin_kernel_turn"):
        turn = curve.of("twin_kernel_turn")
        if turn is None:
            continue
        style = {"linewidth": 2.4} if curve.cell["sigma"] == smallest else {"linewidth": 1.0, "linestyle": (0, (4, 2))}
        axis.plot(curve.steps[1:], turn[1:], color=colour_of(curve.cell["architecture"], look.palette), **style)
    log_axes(axis, y=False)
    axis.set(xlabel="step", ylabel="turn of the kernel", ylim=(-0.02, None))
    axis.set_title(f"thick: σ = {number(smallest)}" + (f", dashed: σ = {number(largest)}" if largest > smallest else ""), fontsize=8.5)


def _changes(axis: Axes, cells: pd.DataFrame, look: ReportSettings) -> None:
    for architecture in ordered(cells["architecture"]):
        part = cells[cells["architecture"] == architecture]
        axis.plot(
            part["sigma"],
            part["kernel_change"],
            linestyle="none",
            marker="o",
            markersize=3,
            alpha=0.5,
            color=colour_of(architecture, look.palette),
            label=readable(architecture),
        )
    for level, name in ((FEATURES, "feature learning"), (LAZY, "lazy")):
        axis.axhline(level, **_GREY)  # type: ignore[arg-type]  # keyword arguments of a line
        axis.text(cells["sigma"].min(), level, name, fontsize=8, color=INK, va="bottom" if level == FEATURES else "top")
    log_axes(axis)
    axis.set(xlabel="σ", ylabel="|K - K(0)| / |K(0)| at the end")
    axis.legend(fontsize=7.5)


def _title(cells: pd.DataFrame) -> str:
    groups = cells.groupby("sigma")[["kernel_change"]].median()["kernel_change"]
    kinds = groups.map(regime)
    if kinds.nunique() == 1:
        return f"{str(kinds.iloc[0]).capitalize()} at every σ: the twin's tangent kernel changes by {_times(float(groups.median()))}"
    runs = kinds.groupby(kinds, sort=False).apply(lambda part: _range(part.index.to_numpy()))
    return "The twin's tangent kernel: " + listed([f"{kind} at σ = {where}" for kind, where in runs.items()])


def _range(values: np.ndarray) -> str:
    return number(float(values[0])) if len(values) == 1 else f"{number(float(values[0]))} to {number(float(values[-1]))}"


def _times(value: float) -> str:
    return f"{number(value)} times its size" if value >= 1 else percent(value)


def _caption(cells: pd.DataFrame) -> str:
    meaning = (
        "K is the twin's tangent kernel, from its second moments alone (Proposition 8), between a few samples and all outputs; its turn is "
        f"1 - <K, K(0)> / (|K| |K(0)|). A change below {LAZY:g} is called lazy, above {FEATURES:g} feature learning."
    )
    words = [meaning]
    for architecture in ordered(cells["architecture"]):
        found = width_exponent(cells[cells["architecture"] == architecture])
        if found is not None and found.low * found.high > 0:
            words.append(f"{readable(architecture)} at fixed σ: {_spoken(found)}.")
    return " ".join(words)


def _spoken(found: Slope) -> str:
    direction = "turns lazy as it grows wider" if found.high < 0 else "keeps learning features as it grows wider"
    return f"the change goes as width^{found.value:.2f} ({found.low:.2f} to {found.high:.2f}), so it {direction}"
