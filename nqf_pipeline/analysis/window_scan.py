"""Exponents in every window of a curve, not only in the one that the rule chooses: how much of an exponent is the choice of its window.

Windows begin and end on even marks of log time between the first ignition and the end of the records. Theory's curve is fitted in the same
windows: where both change alike, the finite size of the ensemble does it and not the measurement.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from nqf_pipeline.analysis.exponents import Curves, fit_window, has_scaling, source_curves
from nqf_pipeline.analysis.sources import sources_of
from nqf_pipeline.analysis.windows import POINTS, Clock, Unresolved, Window
from nqf_pipeline.store.schema import Status
from nqf_pipeline.study.config import AnalysisSettings

MARKS = 12
"""Intervals between the marks."""
SHORTEST = 0.25
"""Decades of the shortest window."""


def scan_rows(dataset: xr.Dataset, coordinates: pd.DataFrame, settings: AnalysisSettings) -> pd.DataFrame:
    """One row a window and curve of one setting (its seeds' mean); see `nqf_pipeline.analysis.exponents.exponent_rows`."""
    done = np.flatnonzero(dataset["status"].to_numpy() == Status.done)
    if not has_scaling(dataset, settings.window) or not len(done):
        return pd.DataFrame()
    key = coordinates.iloc[0].drop(labels=["cell", "seed", "steps", "experiment"], errors="ignore").to_dict()
    sources = dict(source_curves(dataset.isel(cell=done), settings.rho))
    theory = sources.get("theory")
    return pd.DataFrame([{**key, "source": name, **row} for name in sources_of(dataset) for row in _rows(sources[name], theory)])


def _rows(curves: Curves, theory: Curves | None) -> list[dict[str, Any]]:
    clock = Clock.of(curves.ignition, curves.number)
    if not len(clock.number) or clock.time(1) >= curves.time[-1]:
        return []
    marks = np.geomspace(max(clock.time(1), curves.time[0]), curves.time[-1], MARKS + 1)
    windows = [Window(float(marks[i]), float(marks[j]), float("nan")) for i in range(MARKS) for j in range(i + 1, MARKS + 1)]
    rows = []
    for window in windows:
        points = int(window.of(curves.time).sum())
        exponent = _exponent(curves, window) if window.decades >= SHORTEST and points >= POINTS else float("nan")
        if np.isfinite(exponent):
            place = {"window_start": window.start, "window_end": window.end, "decades": window.decades, "points": points}
            rows.append({**place, "exponent": exponent, "predicted_finite": _exponent(theory, window)})
    return rows


def _exponent(curves: Curves | None, window: Window) -> float:
    try:
        return float("nan") if curves is None else fit_window(curves, window).exponent
    except Unresolved:
        return float("nan")
