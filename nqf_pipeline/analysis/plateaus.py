"""Ignition times, measured beside predicted: one row per cell, curve, mode and tier.

Status of a row:

- `matched`: the mode ignited, and the tier predicts a finite time (however far off);
- `unmatched_mode`: predicted within the observed steps, and did not ignite;
- `unmatched_plateau`: ignited, and the tier says it never would or says nothing about this mode;
- `censored`: did not ignite, and was not predicted to within the observed steps (later, never, or no statement). A prediction of never
  can be refuted (`unmatched_plateau`) but not confirmed in finite time, so it is never `matched`.

A network's rows have one more tier, `twin`: the measured ignition of its trained, same-init twin, which is no prediction without training.
Tiers that make no statement about a cell have no rows, and neither have cells that train nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from nqf_pipeline.analysis.ignition import Ignition, measure
from nqf_pipeline.analysis.sources import sources_of
from nqf_pipeline.theory.ignition import FRACTION, crossing

FLAT = 0.8
"""A plateau's slope is at most this share of the slope of the drops beside it; otherwise the drops overlap and there is no plateau."""


def plateau_rows(dataset: xr.Dataset, coordinates: pd.DataFrame, rho: float = FRACTION) -> pd.DataFrame:
    """Rows for all cells of a (loaded) dataset; `coordinates` has one row per cell."""
    steps = dataset["step_number"].to_numpy()
    sources = sources_of(dataset)
    losses = {source: dataset[f"{source}_loss"].to_numpy() for source in sources}
    ignitions = {source: measure(steps, dataset[f"{source}_mode"].to_numpy(), losses[source], rho) for source in sources}
    predictions = predicted(dataset, rho)
    nothing = np.full(dataset["mode_number"].shape, np.nan)
    parts = []
    for source in sources:
        tiers = predictions if source == "twin" else {**predictions, "twin": ignitions["twin"].step}
        levels = plateau_loss(steps, losses[source], ignitions[source])
        fixed: dict[str, object] = {
            "source": source,
            "mode": dataset["mode_number"].to_numpy(),
            "t_measured": ignitions[source].step,
            "t_uncertainty": ignitions[source].uncertainty,
            "t_asymptotic": predictions.get("asymptote", nothing),
            "t_low": dataset["ignition_low"].to_numpy() if "ignition_low" in dataset else nothing,
            "t_high": dataset["ignition_high"].to_numpy() if "ignition_high" in dataset else nothing,
            "plateau_loss": levels,
            "last_step": np.broadcast_to(ignitions[source].last_step[:, None], nothing.shape),
        }
        parts += [_tier_rows(coordinates, fixed, tier, times) for tier, times in tiers.items()]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def predicted(dataset: xr.Dataset, rho: float = FRACTION) -> dict[str, Float[np.ndarray, "cells modes"]]:
    """Predicted ignition by tier. Theory stores it for rho = 1/2; for another rho it is read off the predicted curves."""
    if "theory_ignition" not in dataset:
        return {}
    steps = dataset["step_number"].to_numpy()
    times = {}
    ignitions = dataset["theory_ignition"].transpose("tier", ...).to_numpy()
    for number, tier in enumerate(dataset["tier"].to_numpy()):
        times[str(tier)] = ignitions[number]
        if rho != FRACTION:
            curves = np.nan_to_num(dataset["theory_mode"].isel(tier=number).to_numpy(), nan=0.0)
            within = crossing(steps, curves, rho)
            later = times[str(tier)] > steps[:, -1:]
            times[str(tier)] = np.where(np.isnan(within) & later, times[str(tier)], within)
    return times


def _tier_rows(coordinates: pd.DataFrame, fixed: dict[str, object], tier: str, times: np.ndarray) -> pd.DataFrame:
    """One row per cell and mode, of the cells that the tier says anything about (every cell for the tier `twin`)."""
    cells = np.flatnonzero(~np.isnan(times).all(1) | (tier == "twin"))
    columns = {name: np.asarray(value)[cells].ravel() for name, value in fixed.items() if name != "source"}
    columns["t_predicted"] = times[cells].ravel()
    rows = pd.DataFrame(columns)
    comparable = np.isfinite(rows["t_predicted"]) & (rows["t_predicted"] > 0)
    rows["relative_error"] = rows["t_measured"] / rows["t_predicted"].where(comparable) - 1
    rows["status"] = _status(rows)
    repeated = coordinates.iloc[np.repeat(cells, times.shape[1])].reset_index(drop=True)
    return pd.concat([repeated, rows.assign(source=fixed["source"], tier=tier)], axis=1)


def _status(rows: pd.DataFrame) -> np.ndarray:
    seen, finite = np.isfinite(rows["t_measured"]), np.isfinite(rows["t_predicted"])
    due = finite & (rows["t_predicted"] <= rows["last_step"])
    return np.select([seen & finite, seen, due], ["matched", "unmatched_plateau", "unmatched_mode"], "censored")


def plateau_loss(steps: np.ndarray, loss: np.ndarray, ignition: Ignition) -> Float[np.ndarray, "cells modes"]:
    """Loss on the plateau that each mode's ignition ends.

    It is the loss where the curve is flattest between the previous ignition (of any watched mode) and this one. NaN where there is no
    plateau: fewer than two records in between, or a flattest slope above `FLAT` times that of the drops on either side.
    """
    levels = np.full(ignition.step.shape, np.nan)
    for cell, times in enumerate(ignition.step):
        for mode, start, end in _intervals(times):
            levels[cell, mode] = _flattest(steps[cell], loss[cell], start, end)
    return levels


def _intervals(times: Float[np.ndarray, "modes"]) -> Iterator[tuple[int, float, float]]:
    """(mode, previous ignition or -inf, ignition), in order of time."""
    before = -np.inf
    for mode in np.argsort(times):
        if not np.isfinite(times[mode]):
            return
        yield int(mode), before, float(times[mode])
        before = float(times[mode])


def _flattest(steps: np.ndarray, loss: np.ndarray, start: float, end: float) -> float:
    first, last = np.searchsorted(steps, start, "right"), np.searchsorted(steps, end, "left")
    if last - first < 2:
        return float("nan")
    slope = np.abs(np.diff(loss[: last + 1]) / np.diff(steps[: last + 1]))
    drops = [slope[last - 1]] + ([slope[first - 1]] if first > 0 else [])
    between = slope[first : last - 1]
    best = int(np.argmin(between))
    if between[best] > FLAT * min(drops):
        return float("nan")
    return float((loss[first + best] + loss[first + best + 1]) / 2)
