"""Real handwritten digits: where the network parts from its twin, in loss and in test accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from nqf_pipeline.analysis.parting import THRESHOLD, Parting, parting
from nqf_pipeline.forms.losses import CONVENTIONS
from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels, source_legend
from nqf_pipeline.report.chosen import highlighted, shown_sigma
from nqf_pipeline.report.data import Curves, Findings, ordered, typical, where
from nqf_pipeline.report.learning import corner, draw, floor, focus, losses
from nqf_pipeline.report.names import INK, MUTED, readable
from nqf_pipeline.report.style import colour_of
from nqf_pipeline.report.wording import listed, number, percent
from nqf_pipeline.study.config import ReportSettings

NAMES = ("network_loss", "twin_loss", "theory_loss", "network_test_accuracy", "twin_test_accuracy")
Kind = tuple[str, str]
"""(loss, optimizer): one pair of rows."""


def digits(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """A column an architecture; for each loss and optimizer a row of training losses and a row of test accuracies."""
    rows = study.select()
    rows = rows[rows["task"].str.startswith("digits")]
    if rows.empty:
        return Omitted("no finished network on the digits")
    rows = where(rows, sigma=shown_sigma(rows, look)).assign(loss=_loss_of(rows))
    rows = typical(rows, ["architecture", "loss", "optimizer"], {"seed"})
    curves = list(study.curves(rows, *NAMES))
    kinds = [(loss, name) for loss in ordered(rows["loss"]) for name in ordered(rows["optimizer"]) if _of(curves, (loss, name))]
    measured = any(curve.of("network_test_accuracy") is not None for curve in curves)
    title, caption = _words(curves, kinds, float(rows["sigma"].iloc[0]))
    architectures, per = ordered(rows["architecture"]), 1 + measured
    figure, axes = panels(per * len(kinds), len(architectures), 1.8, title, sharex="col", sharey="row")
    for j, architecture in enumerate(architectures):
        for i, kind in enumerate(kinds):
            here = [curve for curve in _of(curves, kind) if curve.cell["architecture"] == architecture]
            _column(list(axes[per * i : per * (i + 1), j]), here, look)
        corner(axes[0, j], readable(architecture), colour_of(architecture, look.palette))
        axes[-1, j].set_xlabel("step")
    for i, kind in enumerate(kinds):
        floor(axes[per * i], _of(curves, kind))
        axes[per * i, 0].set_ylabel(f"{_spelt(kind, kinds)}\ntraining loss")
        if measured:
            axes[per * i + 1, 0].set_ylabel("test accuracy")
    predicted = ["theory"] if any(curve.finest("theory_loss") for curve in curves) else []
    source_legend(figure, ["network", "twin", *predicted])
    return Drawing(figure, title, caption)


def _loss_of(rows: pd.DataFrame) -> pd.Series:
    """Squared error where a study from before losses had names does not say."""
    named = rows["loss"] if "loss" in rows else pd.Series("", index=rows.index)
    return named.where(named.isin(list(CONVENTIONS)), "squared_error")


def _of(curves: Sequence[Curves], kind: Kind) -> list[Curves]:
    return [curve for curve in curves if (curve.cell["loss"], curve.cell["optimizer"]) == kind]


def _spelt(kind: Kind, kinds: Sequence[Kind]) -> str:
    """Loss and optimizer, as far as they differ between rows."""
    parts = [kind[k].replace("_", " ") if k == 0 else readable(kind[k]) for k in (0, 1) if len({other[k] for other in kinds}) > 1]
    return ", ".join(parts)


def _column(axes: Sequence[Axes], curves: Sequence[Curves], look: ReportSettings) -> None:
    if not curves:
        for axis in axes:
            axis.text(0.5, 0.5, "not in this study", transform=axis.transAxes, ha="center", color=INK)
        return
    seed = highlighted(pd.DataFrame([curve.cell for curve in curves]), look)
    colour = colour_of(curves[0].cell["architecture"], look.palette)
    main = next(curve for curve in curves if curve.cell["seed"] == seed)
    for curve in curves:
        if curve is not main:
            draw(axes[0], curve.steps, curve.of("network_loss"), "network", colour, alpha=0.3, linewidth=1.0)
    losses(axes[0], main, colour)
    log_axes(axes[0])
    for axis in axes[1:]:
        draw(axis, main.steps, main.of("network_test_accuracy"), "network", colour)
        draw(axis, main.steps, main.of("twin_test_accuracy"), "twin", INK)
        log_axes(axis, y=False)
    found = _parting(main)
    for axis in axes:
        focus(axis, [main])
        if np.isfinite(found.step):
            axis.axvline(found.step, color=MUTED, linewidth=0.8)
    if np.isfinite(found.step):
        words = f"part at step {found.step:.0f} \nloss {number(found.loss)} "
        axes[0].text(found.step, 0.5, words, transform=axes[0].get_xaxis_transform(), ha="right", fontsize=8, color=INK)


def _parting(curve: Curves) -> Parting:
    network, twin = curve.of("network_loss"), curve.of("twin_loss")
    if network is None or twin is None:
        return Parting(*(np.nan,) * 4)
    return parting(network, twin, curve.steps)


def _words(curves: Sequence[Curves], kinds: Sequence[Kind], sigma: float) -> tuple[str, str]:
    found = [_parting(curve) for curve in curves]
    learnt = [item.learnt for item in found if np.isfinite(item.learnt)]
    steps = [item.step for item in found if np.isfinite(item.step)]
    start = (
        f"Training loss and test accuracy, σ = {number(sigma)} (highlighted: one seed, pale: others). "
        f"The line: losses first differ by {percent(THRESHOLD)}. "
    )
    if not steps:
        return f"Handwritten digits: no network parts from its twin by {percent(THRESHOLD)} of the loss", start
    title = (
        f"Handwritten digits: networks part from their twins at step {number(float(np.median(steps)))} (median), "
        f"when twins have learnt {percent(float(np.median(learnt)))} of all they will"
    )
    return title, start + _ends(curves, kinds)


def _ends(curves: Sequence[Curves], kinds: Sequence[Kind]) -> str:
    """How far apart they end, by architecture."""
    parts = []
    for kind in kinds:
        for architecture in ordered(pd.Series([curve.cell["architecture"] for curve in _of(curves, kind)])):
            here = [curve for curve in _of(curves, kind) if curve.cell["architecture"] == architecture]
            ratio = float(np.nanmedian([_parting(curve).end_ratio for curve in here]))
            label = ", ".join(filter(None, [readable(architecture), _spelt(kind, kinds)]))
            parts.append(f"{label} {ratio:.2g}{_accuracies(here)}")
    return f"Final training loss over that of the twin (test accuracy of network and twin): {listed(parts)}; medians over seeds."


def _accuracies(curves: Sequence[Curves]) -> str:
    pairs = [(curve.of("network_test_accuracy"), curve.of("twin_test_accuracy")) for curve in curves]
    ends = [(float(network[-1]), float(twin[-1])) for network, twin in pairs if network is not None and twin is not None]
    if not ends:
        return ""
    network, twin = (float(np.median(side)) for side in zip(*ends, strict=True))
    return f" ({percent(network)} and {percent(twin)})"
