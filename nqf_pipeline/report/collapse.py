"""Sudden learning as a transition: steps at many epsilon over t / ln(1/epsilon), and collapsed."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.analysis.collapse import Transition, rescaled, rows_of, transitions
from nqf_pipeline.report.canvas import Drawing, Omitted, panels, source_legend
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.names import INK, MUTED, readable
from nqf_pipeline.report.style import colour_of, shades
from nqf_pipeline.report.wording import power
from nqf_pipeline.study.config import ReportSettings

COLUMNS = 2
REACH = 8.0
"""Widths shown on either side of a step."""


def collapse(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Above: two modes of each network over tau, a shade an epsilon (darkest the smallest). Below: the first of them, rescaled."""
    found = [transition for transition in transitions(study.study) if transition.key["source"] == "network"][:COLUMNS]
    if not found:
        return Omitted("no setting was run at several epsilon until all modes had ignited")
    rows = [list(rows_of(transition)) for transition in found]
    every = [row for one in rows for row in one]
    ratio = max(row["variance_ratio"] for row in every)
    widths = [row["width_exponent"] for row in every]
    title = f"Steps sharpen as ln(1/ε)^-{np.median(widths):.2f} and collapse: at most {ratio:.1%} of the spread is left"
    figure, axes = panels(2, len(found), 2.3, title)
    for column, (transition, measured) in enumerate(zip(found, rows, strict=True)):
        colour = colour_of(str(transition.key["architecture"]), look.palette)
        _above(axes[0, column], transition, colour)
        _below(axes[1, column], transition, measured[0], colour)
        axes[0, column].set_title(f"{readable(str(transition.key['architecture']))}: modes 1 and 2")
    axes[0, 0].set_ylabel("strength")
    axes[1, 0].set_ylabel("strength of mode 1")
    lines = [
        Line2D([], [], color=MUTED, linewidth=1.2, label="one ε (darkest the smallest)"),
        Line2D([], [], color=INK, linewidth=0.9, linestyle=":", label="predicted place, 1/r"),
    ]
    source_legend(figure, [], lines)
    spans = [f"{readable(str(t.key['architecture']))}: ε from {power(t.sizes[0].epsilon)} to {power(t.sizes[-1].epsilon)}" for t in found]
    counts = [f"{t.sizes[0].verdict.plateaus} to {t.sizes[-1].verdict.plateaus} of {len(t.number)} steps follow a plateau" for t in found]
    said = "; ".join(f"{span}, {count}" for span, count in zip(spans, counts, strict=True))
    return Drawing(figure, title, f"Predicted power 1 in both. {said}.")


def _above(axis: Axes, transition: Transition, colour: str) -> None:
    for mode in range(min(2, len(transition.number))):
        for shade, (tau, mean, _) in zip(_dark_last(transition, colour), transition.curves(mode), strict=True):
            axis.plot(tau, mean, color=shade, linewidth=1.2)
        axis.axvline(transition.sizes[-1].asymptote[mode], color=INK, linewidth=0.9, linestyle=":")
    axis.set_xlim(0, 2 * transition.sizes[-1].asymptote[min(1, len(transition.number) - 1)])
    axis.set_xlabel("τ = t / ln(1/ε)")


def _below(axis: Axes, transition: Transition, row: dict[str, float], colour: str) -> None:
    tau_c = float(row["tau_c_predicted"])
    curves = rescaled(transition.curves(0), transition.length, tau_c, 1.0)
    for shade, (x, mean, _) in zip(_dark_last(transition, colour), curves, strict=True):
        axis.plot(x * transition.length[0], mean, color=shade, linewidth=1.2)
    axis.set_xlim(-REACH * tau_c, REACH * tau_c)
    axis.set_xlabel("(τ - 1/r) ln(1/ε)")
    best = f"best power {row['phi']:.2f} ({row['phi_low']:.2f} to {row['phi_high']:.2f})"
    text = f"S = {row['quality']:.2g} (unscaled {row['unscaled']:.2g})\n{best}"
    axis.text(0.04, 0.9, text, transform=axis.transAxes, fontsize=8.5, va="top")


def _dark_last(transition: Transition, colour: str) -> list[str]:
    return shades(colour, len(transition.sizes))[::-1]
