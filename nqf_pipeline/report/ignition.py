"""Measured against predicted ignition, over every cell and tier."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from nqf_pipeline.report.canvas import Drawing, Omitted, log_axes, panels
from nqf_pipeline.report.chosen import EXACT, finest_predictions, inexact, matched_alone, matched_networks
from nqf_pipeline.report.data import Findings, ordered
from nqf_pipeline.report.foretold import foretold
from nqf_pipeline.report.names import INK, TIER_NAMES, readable
from nqf_pipeline.report.style import colour_of
from nqf_pipeline.report.wording import SMALLEST, listed, number, percent, plural, spread
from nqf_pipeline.study.config import ReportSettings

TIER_ORDER = ("twin", "discrete", "event", "asymptote", "flow")
PANELS = 3
"""Tiers shown: the first of `TIER_ORDER` that a study has; the tables hold all."""
_MARKERS = {"gd": "o", "sgd": "v", "momentum": "s", "adam": "^"}
BEYOND = 30.0
"""Factor beyond all measured steps at which predictions that lie still farther off are drawn."""
_RASTER = 1500
"""Points of a panel from which on they are drawn as pixels."""


def _parts(networks: pd.DataFrame, alone: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Panels by name: the networks' first tiers, then the twins alone against their finest prediction."""
    if networks.empty:
        tiers = [tier for tier in TIER_ORDER if len(alone) and tier in set(alone["tier"])][:PANELS]
        return {TIER_NAMES[tier]: alone[alone["tier"] == tier] for tier in tiers}
    also = {"twins alone: finest prediction": finest_predictions(alone)} if len(alone) else {}
    tiers = [tier for tier in TIER_ORDER if tier in set(networks["tier"])][: PANELS - len(also)]
    return {TIER_NAMES[tier]: networks[networks["tier"] == tier] for tier in tiers} | also


def ignition(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Above: measured against predicted step. Below: the relative error by architecture. Predictions alone where nothing is trained."""
    networks, alone = matched_networks(study), matched_alone(study)
    parts = _parts(networks, alone)
    if not parts:
        return foretold(study, look)
    title = _title(networks, alone)
    kinds, optimizers = (ordered(pd.concat([part[name] for part in parts.values()])) for name in ("architecture", "optimizer"))
    figure, axes = panels(2, len(parts), 2.2, title, sharex="row", sharey="row", height_ratios=[1.15, 1])
    reach = _reach(parts)
    for j, (name, part) in enumerate(parts.items()):
        _scatter(axes[0, j], part, reach, look)
        axes[0, j].set_title(f"{name}\nn {len(inexact(part)):,}, median {_median(inexact(part))}", fontsize=8.5)
        _errors(axes[1, j], part, kinds, look)
    axes[0, 0].set_ylabel("measured ignition (step)")
    axes[1, 0].set_ylabel("relative error")
    _legend(figure, kinds, optimizers, look)
    return Drawing(figure, title, _caption(parts))


def _reach(parts: dict[str, pd.DataFrame]) -> tuple[float, float]:
    """First and last predicted step shown: what was measured, and a factor `BEYOND` on both sides."""
    measured = pd.concat([part["t_measured"] for part in parts.values()])
    return float(measured.min()) / BEYOND, float(measured.max()) * BEYOND


def _beyond(part: pd.DataFrame, reach: tuple[float, float]) -> int:
    return int((~part["t_predicted"].between(*reach)).sum())


def _scatter(axis: Axes, part: pd.DataFrame, reach: tuple[float, float], look: ReportSettings) -> None:
    style: dict[str, Any] = {
        "linestyle": "none",
        "markersize": 3.6,
        "alpha": 0.55 if len(part) <= _RASTER else 0.2,
        "markeredgewidth": 0,
        "rasterized": len(part) > _RASTER,
    }
    for (architecture, optimizer), group in part.groupby(["architecture", "optimizer"], sort=True):
        look_of: dict[str, Any] = {"marker": _MARKERS.get(optimizer, "o"), "color": colour_of(architecture, look.palette)}
        axis.plot(group["t_predicted"].clip(*reach), group["t_measured"], **style, **look_of)
    line = [part["t_measured"].min(), part["t_measured"].max()]
    axis.plot(line, line, color=INK, linewidth=0.8)
    log_axes(axis)
    axis.set_xlabel("predicted (step)")


def _errors(axis: Axes, part: pd.DataFrame, kinds: list[str], look: ReportSettings) -> None:
    """Size of the relative error against sigma: medians joined, a thin line over the middle 90 %."""
    for place, kind in enumerate(kinds):
        by_sigma = part.loc[part["architecture"] == kind, "relative_error"].abs().groupby(part["sigma"])
        low, sizes, high = (by_sigma.quantile(share) for share in (0.05, 0.5, 0.95))
        sigma = sizes.index.to_numpy() * 10.0 ** (0.05 * (place - (len(kinds) - 1) / 2))  # beside each other, not on top
        style: dict[str, Any] = {"color": colour_of(kind, look.palette)}
        axis.plot(sigma, sizes.clip(lower=SMALLEST), marker="o", markersize=4, linewidth=1.2, **style)
        axis.vlines(sigma, low.clip(lower=SMALLEST), high.clip(lower=SMALLEST), linewidth=1.0, alpha=0.6, **style)
    log_axes(axis)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("σ")


def _legend(figure: Figure, kinds: list[str], optimizers: list[str], look: ReportSettings) -> None:
    styles = [(readable(kind), colour_of(kind, look.palette), "o") for kind in kinds]
    styles += [(readable(kind), INK, _MARKERS.get(kind, "o")) for kind in optimizers]
    handles = [Line2D([], [], color=colour, marker=marker, linestyle="none", label=name) for name, colour, marker in styles]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, handletextpad=0.2, columnspacing=1.2)


def _title(table: pd.DataFrame, alone: pd.DataFrame) -> str:
    also = f"{_median(finest_predictions(alone))} from the predicted step" if len(alone) else ""
    if table.empty:
        return f"Twins alone ignite {also} (median over all cells)"
    twins, predicted = table[table["tier"] == "twin"], finest_predictions(inexact(table))
    pieces = [f"{_median(twins)} from their twins'"] if len(twins) else []
    pieces += [f"{_median(predicted)} from the predicted step"] if len(predicted) else []
    return f"Networks ignite {listed(pieces)}{f'; twins alone {also}' if also else ''} (medians over all cells)"


def _median(part: pd.DataFrame) -> str:
    return percent(part["relative_error"].abs().median())


def _count(part: pd.DataFrame) -> str:
    """Number and size of the errors, of networks that differ from their twins where there are any."""
    part = inexact(part)
    return f"n {len(part):,}, {spread(part['relative_error'])}"


def _caption(parts: dict[str, pd.DataFrame]) -> str:
    pieces = []
    for name, part in parts.items():
        row = part.loc[inexact(part)["relative_error"].abs().idxmax()]
        worst = f"{readable(row['architecture'])}, {readable(row['optimizer'])}, σ = {number(row['sigma'])}, mode {int(row['mode'])}"
        pieces.append(f"{name}: {_count(part)} ({worst})")
    every = pd.concat(parts.values())
    exact = finest_predictions(every[every["architecture"].isin(EXACT) & (every["source"] == "network")])
    also = f" Exactly quadratic networks against prediction: n {len(exact):,}, {spread(exact['relative_error'])}." if len(exact) else ""
    off = sum(_beyond(part, _reach(parts)) for part in parts.values())
    edge = f" At the edge: {plural(off, 'prediction')} more than a factor {BEYOND:g} beyond all measured steps." if off else ""
    return (
        f"Above: each point is one mode of one cell, the line is equality.{edge} "
        f"Below: median error by architecture and σ, thin lines "
        f"from 5 to 95 % of the modes; in brackets, the worst. {'; '.join(pieces)}.{also}"
    )
