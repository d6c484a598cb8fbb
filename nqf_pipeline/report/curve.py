"""A user's own loss curves: records, law in its window, plateaus and drops."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.analysis.curves import Description
from nqf_pipeline.report.canvas import Drawing, drop_unused, grid_of, log_axes, panels
from nqf_pipeline.report.names import INK, MUTED
from nqf_pipeline.report.wording import number, plural

PANELS = 8
"""Curves shown; the table has all."""
LAW, PLATEAU, DROP = "#d55e00", "#0173b2", "#029e73"
DROP_LINES: dict[str, Any] = {"drop": "--", "unfinished": (0, (6, 4)), "epoch_boundary": ":"}
WIDE = 52
"""Letters in a line of a panel's title."""


def finding(described: Description) -> str:
    """'exponent 0.71 (0.68 to 0.73)', or why there is none."""
    law = described.law
    if law is None:
        return f"not resolved: {described.reason}"
    return f"exponent {law.exponent:.3g} ({law.low:.3g} to {law.high:.3g})"


def curve(name: str, found: Sequence[Description]) -> Drawing:
    """One panel a curve; `name` is the file's."""
    shown = list(found[:PANELS])
    title = f"{name}: {finding(found[0])}" if len(found) == 1 else f"{name}: {_counted(found)}"
    height, width = grid_of(len(shown), 2)
    figure, axes = panels(height, width, 4.2 if height == 1 else 2.9, title)
    for axis, described in zip(drop_unused(axes, len(shown)), shown, strict=True):
        _panel(axis, described)
        if len(found) > 1:
            axis.set_title(f"{described.curve}\n{_short(finding(described))}", fontsize=8.5)
    figure.legend(handles=_legend(shown), loc="outside lower center", ncols=4)
    return Drawing(figure, title, finding(found[0]))


def _counted(found: Sequence[Description]) -> str:
    resolved = sum(described.law is not None for described in found)
    return f"{plural(len(found), 'curve')}, {resolved or 'none'} with an exponent"


def _short(text: str) -> str:
    """At most two lines."""
    return textwrap.fill(textwrap.shorten(text, 2 * WIDE, placeholder="…"), WIDE)


def _panel(axis: Axes, described: Description) -> None:
    rows = (described.time > 0) & (described.loss > 0)
    time, loss = described.time[rows], described.loss[rows]
    axis.plot(time, loss, color=INK, linewidth=0.9, marker="." if len(time) < 150 else "", markersize=3, alpha=0.8)
    for drop in described.drops:
        axis.axvline(drop.time, color=DROP, linewidth=0.9, linestyle=DROP_LINES[drop.kind])
    for plateau in described.plateaus:
        axis.plot([plateau.start, plateau.end], [plateau.loss] * 2, color=PLATEAU, linewidth=4.0, alpha=0.6, solid_capstyle="butt")
    if described.law:
        span = np.geomspace(described.law.window.start, described.law.window.end, 200)
        axis.plot(span, described.law(span), color=LAW, linewidth=1.8)
        if described.law.floor > loss.min() / 10:
            axis.axhline(described.law.floor, color=LAW, linewidth=0.8, linestyle=":")
    if len(time) > 1:
        log_axes(axis)
    axis.set(xlabel=described.time_name.replace("_", " "), ylabel="loss")


def _legend(shown: Sequence[Description]) -> list[Line2D]:
    handles = [Line2D([], [], color=INK, linewidth=0.9, label="records")]
    laws = [described.law for described in shown if described.law]
    if laws:
        handles.append(Line2D([], [], color=LAW, linewidth=1.8, label="power law in its window"))
        if any(law.floor > 0 for law in laws):
            handles.append(Line2D([], [], color=LAW, linewidth=0.8, linestyle=":", label=f"floor ({number(laws[0].floor)})"))
    if any(described.plateaus for described in shown):
        handles.append(Line2D([], [], color=PLATEAU, linewidth=4.0, alpha=0.6, label="plateau"))
    kinds = dict.fromkeys(drop.kind for described in shown for drop in described.drops)
    names = {"drop": "drop", "unfinished": "unfinished drop", "epoch_boundary": "epoch boundary"}
    handles += [Line2D([], [], color=DROP, linewidth=0.9, linestyle=DROP_LINES[kind], label=names[kind]) for kind in kinds]
    if any((described.loss <= 0).any() for described in shown):
        handles.append(Line2D([], [], color=MUTED, linestyle="", label="(losses up to 0 not shown)"))
    return handles
