"""Rank plots of growth rates and loss shares: is the power law that the theory assumes there?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nqf_pipeline.report.canvas import Drawing, Omitted, drop_unused, grid_of, log_axes, panels, source_legend
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.names import INK, MUTED, readable
from nqf_pipeline.report.style import colour_of
from nqf_pipeline.report.wording import listed, plural
from nqf_pipeline.study.config import ReportSettings

PANELS = 6
FEWEST = 5
"""Spectra of fewer modes are no picture."""
DEEPEST = 1e-6
"""Shares of the largest value shown."""
_MADE = ("feature_power_law", "sample_power_law", "fourier")
"""Tasks whose power laws are prescribed: shown after measured ones."""


def spectra(study: Findings, look: ReportSettings) -> Drawing | Omitted:
    """Rates (filled) and loss shares (open) of one spectrum a kind of network and data, with the range that was found."""
    laws = chosen(study.spectral_laws)
    if laws.empty:
        return Omitted(f"no spectrum of at least {FEWEST} modes")
    title = _title(laws)
    height, width = grid_of(len(laws), 3)
    figure, axes = panels(height, width, 2.3, title)
    left = drop_unused(axes, len(laws))
    for axis, (_, row) in zip(left, laws.iterrows(), strict=True):
        modes = study.spectra[(study.spectra["spectrum"] == row["spectrum"]) & (study.spectra["convention"] == row["convention"])]
        _panel(axis, row, modes, colour_of(str(row["architecture"]), look.palette))
        axis.set_title(f"{readable(str(row['architecture']))}, {readable(str(row['task']))}")
    for axis in left[-width:]:
        axis.set_xlabel("number of the mode, by rate")
    figure.supylabel("share of the largest", fontsize=9)
    points = [
        Line2D([], [], color=INK, marker="o", linestyle="none", markersize=4, label="growth rate r"),
        Line2D([], [], color=MUTED, marker="o", markerfacecolor="none", linestyle="none", markersize=4, label="loss share V"),
        Line2D([], [], color=INK, linewidth=1.2, label="power law in its range"),
    ]
    source_legend(figure, [], points)
    return Drawing(figure, title, _caption(laws))


def chosen(laws: pd.DataFrame) -> pd.DataFrame:
    """One spectrum a kind of network and data (the convention with the most modes), measured ones first."""
    if laws.empty:
        return laws
    laws = laws[laws["modes"] >= FEWEST].sort_values("modes", ascending=False, kind="stable")
    laws = laws.drop_duplicates(["architecture", "task"])
    made = laws["task"].isin(_MADE)
    data = laws["task"].isin(["digits", "file"])
    order = np.lexsort([-laws["modes"], ~data, made])
    return laws.iloc[order].head(PANELS)


def _panel(axis: Axes, row: pd.Series, modes: pd.DataFrame, colour: str) -> None:
    number = modes["number"].to_numpy()
    ends = np.array([row["first_mode"], row["last_mode"]], float)
    for column, exponent, edge, face in (("rate", row["alpha2"], colour, colour), ("share", row["alpha1"], MUTED, "none")):
        values = modes[column].to_numpy() / modes[column].max()
        axis.plot(number, values, marker="o", markersize=3, linestyle="none", color=edge, markerfacecolor=face)
        if row["power_law"]:
            inside = (number >= ends[0]) & (number <= ends[1])
            level = np.exp(np.average(np.log(values[inside] * number[inside] ** exponent), weights=1 / number[inside]))
            axis.plot(ends, level * ends**-exponent, color=INK, linewidth=1.2)
    log_axes(axis)
    axis.set_ylim(bottom=max(axis.get_ylim()[0], DEEPEST))
    if row["power_law"]:
        axis.axvspan(*ends, color=MUTED, alpha=0.12, linewidth=0)
    axis.text(0.04, 0.05, _verdict(row), transform=axis.transAxes, fontsize=8.5, va="bottom")


def _verdict(row: pd.Series) -> str:
    if not row["power_law"]:
        why = "too few modes" if np.isnan(row["alpha1"]) else "bent, scattered or flat"
        return f"no power-law range\n({why})"
    return f"r ~ k^-{row['alpha2']:.2f}\nV ~ k^-{row['alpha1']:.2f}"


def _title(laws: pd.DataFrame) -> str:
    real = laws[~laws["task"].isin(_MADE)]
    if real.empty:
        every = f"All {len(laws)} spectra are power laws" if len(laws) > 1 else "The spectrum is a power law"
        return f"{every}, as prescribed" if laws["power_law"].all() else "Spectra of the ensembles"
    found = real[real["power_law"] == 1]
    if found.empty:
        return f"No power-law range in {plural(len(real), 'spectrum').replace('spectrums', 'spectra')} of data that are not made as one"
    names = listed([f"{readable(str(row['architecture']))} on {readable(str(row['task']))}" for _, row in found.iterrows()])
    return (
        f"Power-law range: {names}; none in the other {len(real) - len(found)}" if len(found) < len(real) else f"Power-law range: {names}"
    )


def _caption(laws: pd.DataFrame) -> str:
    said = []
    for _, row in laws[~laws["task"].isin(_MADE)].iterrows():
        name = f"{readable(str(row['architecture']))}, {readable(str(row['task']))} ({row['modes']} modes, {row['convention']})"
        if row["power_law"]:
            values = ", ".join(f"{symbol} = {_interval(row, key)}" for symbol, key in (("α₁", "alpha1"), ("α₂", "alpha2")))
            said.append(f"{name}: modes {row['first_mode']} to {row['last_mode']}, {values}")
        else:
            said.append(f"{name}: no")
    start = "A range must span a decade and half of the spectrum's rank, be straight and be closer to a power law than to an exponential."
    return " ".join([start, "; ".join(said) + "." if said else ""]).strip()


def _interval(row: pd.Series, key: str) -> str:
    return f"{row[key]:.2f} ({row[f'{key}_low']:.2f} to {row[f'{key}_high']:.2f})"
