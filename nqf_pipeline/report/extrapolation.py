"""Exponents over 1 / ln(1/epsilon) with the missing modes' loss added: where do they go as epsilon -> 0?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.analysis.extrapolation import FEWEST, Approach, approaches, row
from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, panels, source_legend
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.fits import SYMBOLS
from nqf_pipeline.report.kinds import whose
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.style import LINES, MARKERS, colour_of
from nqf_pipeline.report.wording import percent, power
from nqf_pipeline.study.config import ReportSettings

PANELS = 9
Case = tuple[dict[str, Any], Approach]


def extrapolation(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """One panel a setting: corrected exponents, the theory's, the straight line in 1/k and its end at epsilon = 0."""
    found = [(key, approach) for key, approach in approaches(study.study) if len(approach.epsilon) >= FEWEST]
    found = [(key, approach) for key, approach in found if key["source"] == "network" or key.get("train") == "twin"]
    if not found:
        return Omitted(f"no setting has an exponent at {FEWEST} epsilon and a known tail of missing modes")
    shown = found[:: -(-len(found) // PANELS)]
    errors = np.abs([row(key, approach)["relative_error"] for key, approach in found])
    whom = whose(pd.DataFrame([{"train": key.get("train")} for key, _ in found]))
    title = (
        f"Carried to ε = 0, exponents{whom} lie {percent(float(np.median(errors)))} from their limit (worst {percent(float(errors.max()))})"
    )
    height, width = grid_of(len(shown), 3 if len(shown) != 4 else 2)
    figure, axes = panels(height, width, 1.9, title)
    left = drop_unused(axes, len(shown))
    for axis, case in zip(left, shown, strict=True):
        _panel(axis, case, colour_of(str(case[0]["architecture"]), look.palette))
        axis.set_title(_name(case[0]))
    for axis in left[-width:]:
        axis.set_xlabel("ε (spaced as 1/ln(1/ε))")
    figure.supylabel("exponent, missing modes added", fontsize=9)
    source_legend(figure, [], _legend())
    caption = (
        f"{len(shown)} of {len(found)} settings. The line is straight in 1/exponent and knows neither limit nor theory; "
        "points are fits of the mean over seeds with the analytic tail of the missing modes added."
    )
    return Drawing(figure, title, caption)


def _name(key: dict[str, Any]) -> str:
    named = [f"{SYMBOLS[name]} = {key[name]:g}" for name in ("alpha1", "alpha2", "gamma1", "gamma2", "theta") if _given(key, name)]
    flat = ["flat seeds"] if _given(key, "initial_profile") and key["initial_profile"] == 0 else []
    units = [str(key["activation"])] if isinstance(key.get("activation"), str) and key["activation"] else []
    return ", ".join([*named, *flat, *units])


def _given(key: dict[str, Any], name: str) -> bool:
    return isinstance(key.get(name), float) and bool(np.isfinite(key[name]))


def _panel(axis: Axes, case: Case, colour: str) -> None:
    key, approach = case
    found, x = row(key, approach), approach.inverse
    slope, intercept = np.polyfit(x, 1 / approach.corrected, 1)
    line = np.linspace(0, x.max(), 100)
    axis.plot(line, 1 / (intercept + slope * line), color=MUTED, linewidth=1.0)
    axis.plot(x, approach.predicted, color=INK, marker=MARKERS["theory"], markersize=8, markerfacecolor="none", **LINES["theory"])
    axis.plot(x, approach.corrected, color=colour, marker=MARKERS["network"], markersize=4.5, linestyle="none")
    sides = np.abs([[found["extrapolated"] - found["ci_low"]], [found["ci_high"] - found["extrapolated"]]])
    axis.errorbar([0], [found["extrapolated"]], yerr=sides, color=colour, marker="o", markerfacecolor="none", capsize=3, clip_on=False)
    axis.axhline(approach.limit, color=MUTED, linewidth=0.9, linestyle=(0, (6, 2)))
    axis.set_xlim(-0.03 * x.max(), 1.1 * x.max())
    axis.set_xticks([0, *x[[0, -1]]], ["0", *(power(value) for value in approach.epsilon[[0, -1]])])
    axis.margins(y=0.2)
    axis.grid(True)


def _legend() -> list[Line2D]:
    theory: dict[str, Any] = {"color": INK, "marker": MARKERS["theory"], "markerfacecolor": "none", **LINES["theory"]}
    return [
        Line2D([], [], color=INK, marker="o", linestyle="none", label="measured"),
        Line2D([], [], label="predicted", **theory),
        Line2D([], [], color=INK, marker="o", markerfacecolor="none", linestyle="none", label="carried to ε = 0"),
        Line2D([], [], color=MUTED, linestyle=(0, (6, 2)), label="limit"),
    ]
