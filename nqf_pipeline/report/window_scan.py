"""How much of an exponent is its window: every window of one setting as a heat map, and what theory's curve gives in the same windows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh

from nqf_pipeline.analysis.sources import leading
from nqf_pipeline.report.canvas import Drawing, Omitted, panels
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.fits import SYMBOLS, fits
from nqf_pipeline.report.kinds import ALONE, lone
from nqf_pipeline.report.names import PAPER, readable
from nqf_pipeline.report.wording import number
from nqf_pipeline.study.config import ReportSettings

_KEYS = ("architecture", "task", "optimizer", "sigma", "bucket")
_NAMES = ("alpha1", "alpha2", "gamma1", "gamma2", "theta", "beta")


def window_scan(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Left: the network's exponent (or a twin's alone) in each window, the chosen one marked. Right: theory's in the same windows."""
    table = study.window_scan
    rows = leading(table)
    if rows.empty:
        return Omitted("no trained curve has enough modes for a window")
    rows, chosen = _shown(study, rows)
    span = rows["exponent"]
    limits = np.nanquantile(rows[["exponent", "predicted_finite"]].to_numpy(), [0.02, 0.98])
    title = f"One curve gives exponents from {number(float(span.min()))} to {number(float(span.max()))}, by the choice of its window"
    figure, axes = panels(1, 2, 3.4, title, sharey=True)
    measured = ALONE if lone(rows).all() else "network"
    for axis, column, name in zip(axes[0], ("exponent", "predicted_finite"), (measured, "theory's curve"), strict=True):
        mesh = _map(axis, rows, column, (float(limits[0]), float(limits[1])))
        axis.set_title(name)
        axis.set_xlabel("window starts (gradient-flow time)")
        if chosen is not None:
            axis.plot(chosen["window_start"], chosen["window_end"], "s", ms=8, markerfacecolor="none", color=PAPER, markeredgewidth=1.6)
    axes[0, 0].set_ylabel("window ends")
    figure.colorbar(mesh, ax=list(axes[0]), label="exponent", shrink=0.9)
    return Drawing(figure, title, _caption(rows, chosen))


def _shown(study: Findings, rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series | None]:
    """The setting with the longest resolved window (else the first), and its fit."""
    found = fits(study, "", "network")
    found = found[found["status"] == "ok"] if len(found) else found
    if found.empty:
        first = rows.iloc[0]
        return _same(rows, first), None
    best = found.loc[found["decades"].idxmax()]
    same = _same(rows, best)
    return (same, best) if len(same) else (_same(rows, rows.iloc[0]), None)


def _same(rows: pd.DataFrame, one: pd.Series) -> pd.DataFrame:
    for name in (*_KEYS, *_NAMES):
        if name in rows and name in one.index:
            rows = rows[rows[name].isna() if pd.isna(one[name]) else rows[name] == one[name]]
    return rows[~rows.duplicated(["window_start", "window_end"])]


def _map(axis: Axes, rows: pd.DataFrame, column: str, limits: tuple[float, float]) -> QuadMesh:
    marks = np.unique(rows[["window_start", "window_end"]].to_numpy().round(12))
    grid = np.full((len(marks), len(marks)), np.nan)
    i, j = (np.abs(np.log(rows[name].to_numpy()[:, None] / marks)).argmin(1) for name in ("window_start", "window_end"))
    grid[j, i] = rows[column]
    half = np.sqrt(marks[1] / marks[0]) if len(marks) > 1 else 1.1
    edges = np.append(marks / half, marks[-1] * half)
    mesh = axis.pcolormesh(edges, edges, grid, cmap="viridis", vmin=limits[0], vmax=limits[1], rasterized=True)
    axis.set_xscale("log")
    axis.set_yscale("log")
    return mesh


def _caption(rows: pd.DataFrame, chosen: pd.Series | None) -> str:
    one = rows.iloc[0]
    where = ", ".join(f"{SYMBOLS.get(name, name)} = {one[name]:g}" for name in _NAMES if name in rows and not pd.isna(one[name]))
    who = readable(str(one["architecture"])) + (f", {ALONE}" if lone(rows).all() else "")
    text = f"{who}, {where}, σ = {number(float(one['sigma']))}: {len(rows)} windows."
    error = (rows["exponent"] / rows["predicted_finite"] - 1).abs()
    if error.notna().any():
        text += f" Theory's curve in the same windows differs by {100 * float(error.median()):.2g} % (median)."
    if chosen is not None:
        text += f" The square marks the window of the rule: {float(chosen['exponent']):.3f}, limit {float(chosen['predicted_limit']):.3f}."
    return text
