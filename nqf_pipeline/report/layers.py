"""Networks of several layers beside their deep and shallow twins, at every initial scale: training and test loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, loss_label, panels
from nqf_pipeline.report.data import Curves, Findings, ordered, where
from nqf_pipeline.report.learning import LOSS
from nqf_pipeline.report.names import INK, MUTED, readable
from nqf_pipeline.report.style import colour_of
from nqf_pipeline.report.wording import listed, number, percent
from nqf_pipeline.study.config import ReportSettings

TWINS = ("deep", "shallow")
_TWIN_NAMES = {"deep": "NQF of every layer", "shallow": "single-layer NQF"}
_READ = ("network_loss", "network_test_loss", "twin_loss", "twin_test_loss", "divergence")
_TEST: dict[str, Any] = {"linestyle": (0, (1, 1.2)), "linewidth": 1.4, "alpha": 0.8}


def layers(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """A row per architecture, a column per initial scale; medians over seeds."""
    rows = _compared(study)
    if rows.empty:
        return Omitted("no finished network of several layers with both a deep and a shallow twin")
    kinds = ordered(rows["architecture"])
    scales = [ordered(where(rows, architecture=kind)["sigma"]) for kind in kinds]
    curves = list(study.curves(rows, *_READ))
    figure, axes = panels(len(kinds), max(map(len, scales)), 2.5, title := _title(curves, kinds))
    for row, (kind, sigmas) in enumerate(zip(kinds, scales, strict=True)):
        for column, axis in enumerate(axes[row]):
            if column >= len(sigmas):
                axis.remove()
                continue
            here = [c for c in curves if c.cell["architecture"] == kind and np.isclose(c.cell["sigma"], sigmas[column])]
            _panel(axis, here, colour_of(kind, look.palette))
            axis.set_title(f"{readable(kind)}, initial variance {number(sigmas[column] ** 2)}")
            axis.set_xlabel("step" if row == len(kinds) - 1 else "")
    loss_label(figure, len(kinds), LOSS)
    figure.legend(handles=_legend(colour_of(kinds[0], look.palette)), loc="outside lower center", ncols=4, handlelength=2.6)
    return Drawing(figure, title, _caption(curves))


def _compared(study: Findings) -> pd.DataFrame:
    """Cells whose setting has both twins; a study's other experiments are left out."""
    rows = study.select()
    if "twin_depth" not in rows.columns:
        return rows.iloc[:0]
    rows = rows[rows["twin_depth"].isin(TWINS)]
    both = rows.groupby(["experiment", "architecture", "sigma"])["twin_depth"].transform("nunique") == len(TWINS)
    return rows[both]


def _panel(axis: Axes, curves: Sequence[Curves], colour: str) -> None:
    looks = {"network": (colour, 3.0), "deep": (INK, 1.5), "shallow": (MUTED, 1.5)}
    for name, (shade, width) in looks.items():
        twin, source = ("deep", "network") if name == "network" else (name, "twin")
        chosen = [curve for curve in curves if curve.cell["twin_depth"] == twin]
        for variable, style in ((f"{source}_loss", {"linewidth": width}), (f"{source}_test_loss", _TEST)):
            steps, median, low, high = _over_seeds(chosen, variable)
            axis.plot(steps, median, color=shade, **style)
            if variable == f"{source}_loss":
                axis.fill_between(steps, low, high, color=shade, alpha=0.12, linewidth=0)
    log_axes(axis)


def _over_seeds(curves: Sequence[Curves], variable: str) -> tuple[np.ndarray, ...]:
    """Steps after the first, and median, lowest and highest value over seeds."""
    values = np.array([curve.data[variable].to_numpy()[1:] for curve in curves])
    return curves[0].steps[1:], np.median(values, 0), values.min(0), values.max(0)


def _legend(colour: str) -> list[Line2D]:
    lines = [Line2D([], [], color=colour, linewidth=3.0, label="network")]
    lines += [Line2D([], [], color=c, linewidth=1.5, label=_TWIN_NAMES[t]) for c, t in ((INK, "deep"), (MUTED, "shallow"))]
    return [*lines, Line2D([], [], color=INK, label="dotted: test", **_TEST)]


def final_distance(curves: Sequence[Curves], twin: str) -> float:
    """Median over cells of the last distance of network and twin (rms over rms target)."""
    return float(np.median([curve.data["divergence"].to_numpy()[-1] for curve in curves if curve.cell["twin_depth"] == twin]))


def _title(curves: Sequence[Curves], kinds: Sequence[str]) -> str:
    parts = []
    for kind in kinds:
        own = [curve for curve in curves if curve.cell["architecture"] == kind]
        least = min(curve.cell["sigma"] for curve in own)
        deep, shallow = (percent(final_distance([c for c in own if np.isclose(c.cell["sigma"], least)], twin)) for twin in TWINS)
        parts.append(f"{deep} and {shallow} ({readable(kind)})")
    return f"From small weights, an NQF of every layer and a single-layer NQF end apart from the network by {listed(parts)}"


def _caption(curves: Sequence[Curves]) -> str:
    seeds = len({curve.cell["seed"] for curve in curves})
    return (
        f"Medians over {seeds} seeds (bands: lowest to highest training loss); dotted lines are losses on test samples. The NQF of every "
        "layer reads, in each, the outputs of the one below; the single-layer NQF is one layer between the same ends. All start from the "
        "same weights. Distances are the rms difference of outputs on training samples at the last step, as a share of the target."
    )
