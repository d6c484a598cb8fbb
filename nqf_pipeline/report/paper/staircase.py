"""Loss staircases with the predicted ignition of every step and the predicted height of every plateau (figures 3 and 4 of the paper)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from nqf_pipeline.report.canvas import log_axes
from nqf_pipeline.report.data import Curves
from nqf_pipeline.report.learning import draw
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.style import LINES, shades

LINE = {**LINES["theory"], "linewidth": 1.6}
CURVES = ("network_loss", "network_mode", "theory_loss", "theory_ignition", "mode_number")


def heights(curve: Curves) -> np.ndarray:
    """Loss on each plateau as epsilon -> 0: what the modes not yet ignited contribute, all of it first (asymptote tier)."""
    loss = curve.theory("theory_loss", "asymptote")
    if loss is None:
        return np.array([])
    levels = loss[np.concatenate([[True], np.abs(np.diff(loss)) > 1e-9 * loss[0]])]
    return np.asarray(levels[levels > 1e-9 * loss[0]])


def staircase(axis: Axes, curve: Curves, colour: str, **options: Any) -> None:
    """Network and theory, with one dotted line an ignition and one thin line a plateau."""
    for level in heights(curve):
        axis.axhline(level, color=MUTED, linewidth=0.6)
    times = curve.finest("theory_ignition")
    if times is not None:
        for time, shade in zip(times[1], shades(colour, len(times[1])), strict=True):
            axis.axvline(time, color=shade, **LINE)
    draw(axis, curve.steps, curve.of("network_loss"), "network", colour, **options)
    draw(axis, curve.steps, curve.untrained("theory_loss"), "theory", INK, linewidth=1.4)
    log_axes(axis)


def window(axis: Axes, curve: Curves) -> None:
    """From before the first ignition to after the last, and down to below the last plateau."""
    times, levels = curve.finest("theory_ignition"), heights(curve)
    if times is not None and len(levels):
        axis.set_xlim(times[1].min() / 3, times[1].max() * 2)
        axis.set_ylim(levels.min() / 12, levels.max() * 2)
