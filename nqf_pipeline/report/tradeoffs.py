"""Loss over compute for models of every size, and the best of them: how to split compute between modes and steps."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.analysis.tradeoffs import EXPONENTS, Sweep, sweep_rows, sweeps
from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, log_axes, panels, source_legend
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.fits import SYMBOLS
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.style import colour_of, shades
from nqf_pipeline.report.wording import number, percent
from nqf_pipeline.study.config import ReportSettings

PANELS = 6


def tradeoffs(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """One panel a setting: a curve a size (darkest the largest), the envelope, and the predicted slope beside it."""
    found = list(sweeps(study.study))
    if not found:
        return Omitted("no ensemble was run at several sizes")
    rows = [{row["quantity"]: row for row in sweep_rows(sweep)} for sweep in found]
    errors = np.array([one["loss of compute"]["exponent"] / one["loss of compute"]["predicted_limit"] - 1 for one in rows])
    title = f"The best loss over compute: slopes differ from the predicted limit by {percent(float(np.nanmax(np.abs(errors))))} at most"
    shown = list(zip(found, rows, strict=True))[:PANELS]
    height, width = grid_of(len(shown), 3)
    figure, axes = panels(height, width, 2.4, title)
    left = drop_unused(axes, len(shown))
    for axis, (sweep, measured) in zip(left, shown, strict=True):
        _panel(axis, sweep, colour_of(str(sweep.key["architecture"]), look.palette))
        first, second = EXPONENTS[str(sweep.key["task"])][:2]
        axis.set_title(", ".join(f"{SYMBOLS[name]} = {sweep.key[name]:g}" for name in (first, second)))
        named = [("L", "loss of compute"), ("n", "modes of compute")]
        text = "\n".join(f"{s} ~ C^{measured[q]['exponent']:.3f} ({measured[q]['predicted_limit']:.3f})" for s, q in named)
        axis.text(0.04, 0.05, text, transform=axis.transAxes, fontsize=8.5, va="bottom")
    for axis in left[-width:]:
        axis.set_xlabel("compute C = modes × time")
    figure.supylabel("loss of the whole target", fontsize=9)
    lines = [
        Line2D([], [], color=MUTED, linewidth=1.0, label="one size (darkest the largest)"),
        Line2D([], [], color=INK, linewidth=2.0, label="best size"),
        Line2D([], [], color=INK, linewidth=0.9, linestyle=":", label="predicted slope"),
    ]
    source_legend(figure, [], lines)
    sizes = [model.size for model in found[0].models]
    caption = f"Sizes {number(sizes[0])} to {number(sizes[-1])}; fitted exponents, in brackets the predicted limit. {_learned(rows)}"
    return Drawing(figure, title, caption)


def _panel(axis: Axes, sweep: Sweep, colour: str) -> None:
    best = sweep.measured
    for shade, model in zip(shades(colour, len(sweep.models))[::-1], sweep.models, strict=True):
        axis.plot(model.size * model.time, model.loss.mean(0), color=shade, linewidth=0.9)
    log_axes(axis)
    if len(best.compute):
        axis.plot(best.compute, best.loss, color=INK, linewidth=2.0)
        guide = 0.5 * best.loss[0] * (best.compute / best.compute[0]) ** -sweep.limit.loss
        axis.plot(best.compute, guide, color=INK, linewidth=0.9, linestyle=":")
        axis.set_xlim(best.compute[0] / 10, best.compute[-1] * 10)
        axis.set_ylim(best.loss[-1] / 8, None)


def _learned(rows: list[dict[str, dict[str, object]]]) -> str:
    values = [one["loss of modes learnt"] for one in rows]
    errors = [float(str(v["exponent"])) / float(str(v["predicted_limit"])) - 1 for v in values if v["status"] == "ok"]
    if not errors:
        return ""
    return f"Loss against modes learnt: slopes within {percent(float(np.abs(errors).max()))} of -(α₁ - 1)."
