"""Scaling exponents of loss curves, with window, interval and prediction; one row per setting (all its seeds) and curve.

Measured and predicted exponents come from the same estimator: the mean over seeds of the loss above its floor, fitted in the window that
the measured ignitions give. `predicted_finite` is that fit, in the measured window, of the theory's curve: the one expected from spectrum
and epsilon before weights are drawn, where there is one, else that of the finest tier. So both share whatever finite epsilon, finite number
of modes and the window do to a straight line; what is left between them is theory against measurement.

The interval is the wider of two: a t-interval from the delete-one jackknife over seeds, which repeats everything, choice of the window
included (`jackknife_t`), and the range of exponents over windows with a quarter of the length cut off (`subwindows`), the only
one where a setting has one seed or its seeds do not differ.

Settings with fewer modes than any window needs (a teacher of rank 4) pose no question of scaling and have no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float, Int

from nqf_pipeline.analysis.evidence import NOTHING, evidence
from nqf_pipeline.analysis.ignition import flow_time, measure
from nqf_pipeline.analysis.jackknife import without_each
from nqf_pipeline.analysis.plateaus import predicted
from nqf_pipeline.analysis.powerlaw import PowerLaw, fit
from nqf_pipeline.analysis.sources import sources_of
from nqf_pipeline.analysis.windows import FALL, MODES, Unresolved, Window, window
from nqf_pipeline.store.schema import Status
from nqf_pipeline.study.config import AnalysisSettings, WindowRule
from nqf_pipeline.theory.student import student

UNSTABLE = 0.5
"""Exponents of the two halves of a window may differ by this share of their mean."""
SMOOTH = ("discrete", "flow")
"""Tiers whose loss curves have a slope, finest first; those of the others are staircases."""
CUTS = ((0.0, 0.75), (0.25, 1.0), (0.125, 0.875))
"""Subwindows, as shares of the logarithmic length."""


@dataclass(frozen=True)
class Curves:
    """One curve of every seed of a setting, on a common time grid (start excluded)."""

    time: Float[np.ndarray, "points"]
    loss: Float[np.ndarray, "seeds points"]
    floor: Float[np.ndarray, "seeds"] | None
    """Loss that cannot be gone below; None: fitted."""
    ignition: Float[np.ndarray, "seeds modes"]
    """Ignition of the watched modes, in the unit of `time`."""
    number: Int[np.ndarray, "modes"]

    def without(self, seed: int) -> Curves:
        keep = np.arange(len(self.loss)) != seed
        return replace(self, loss=self.loss[keep], floor=None if self.floor is None else self.floor[keep], ignition=self.ignition[keep])


def fit_window(curves: Curves, where: Window) -> PowerLaw:
    """The power law of the seeds' mean curve in a window."""
    time, loss, known = mean_curve(curves, where)
    if len(time) < 3:
        raise Unresolved(f"too few points: {len(time)} records between times {where.start:.4g} and {where.end:.4g}")
    if not np.isfinite(loss).all():
        raise Unresolved("the loss is not finite in the window")
    return fit(time, loss, 0.0 if known else None)


def mean_curve(curves: Curves, where: Window) -> tuple[np.ndarray, np.ndarray, bool]:
    """(time, mean loss over seeds, whether the known floor was taken off) in a window."""
    inside = where.of(curves.time)
    loss = curves.loss[:, inside]
    if curves.floor is not None:
        excess = (loss - curves.floor[:, None]).mean(0)
        if (excess > 0).all():
            return curves.time[inside], excess, True
    return curves.time[inside], loss.mean(0), False


def _evidence(curves: Curves, theory: Curves | None, where: Window) -> dict[str, Any]:
    """Other laws beside the power law; theory's curve is that of all its times, so that it may be shifted."""
    time, loss, _ = mean_curve(curves, where)
    if theory is None:
        return evidence(time, loss)
    everywhere = Window(float(theory.time[0]), float(theory.time[-1]), float("nan"))
    return evidence(time, loss, *mean_curve(theory, everywhere)[:2])


def estimate(curves: Curves, rule: WindowRule) -> tuple[PowerLaw, Window]:
    """The whole procedure: window, then fit."""
    where = window(curves.ignition, curves.number, curves.time, rule)
    return fit_window(curves, where), where


def interval(curves: Curves, where: Window, exponent: float, settings: AnalysisSettings) -> tuple[float, float, str]:
    """(low, high, method) of the exponent."""
    parts = [fit_window(curves, where.part(*cut)).exponent for cut in CUTS]
    low, high, method = min(*parts, exponent), max(*parts, exponent), "subwindows"
    seeds = len(curves.loss)
    if seeds < 2:
        return low, high, method
    try:
        left_out = without_each(curves, settings.window, lambda seed: estimate(curves.without(seed), settings.window)[0].exponent)
    except Unresolved as finding:
        raise Unresolved(f"hangs on a single seed: without it {finding}") from None
    error = np.sqrt((seeds - 1) / seeds * np.sum((left_out - left_out.mean()) ** 2))
    half = float(student(settings.confidence, seeds - 1) * error)
    return (exponent - half, exponent + half, "jackknife_t") if 2 * half > high - low else (low, high, method)


def verify(curves: Curves, where: Window, law: PowerLaw) -> None:
    """Raise Unresolved where the window holds no power law."""
    if where.reason:
        raise Unresolved(where.reason)
    first, second = (fit_window(curves, where.part(*half)).exponent for half in ((0.0, 0.5), (0.5, 1.0)))
    if not law.exponent > 0 or (where.start / where.end) ** law.exponent > FALL:
        raise Unresolved(f"never left its plateau: the loss falls by less than {1 - FALL:.0%} in the window")
    if abs(first - second) > UNSTABLE * law.exponent:
        raise Unresolved(f"unstable slope: {first:.2f} in the first half of the window, {second:.2f} in the second")


# ---- rows


def has_scaling(dataset: xr.Dataset, rule: WindowRule) -> bool:
    """Whether some window could hold enough modes."""
    return bool(dataset["mode_number"].to_numpy().max(initial=0) >= rule.first_mode + MODES)


def exponent_rows(dataset: xr.Dataset, coordinates: pd.DataFrame, settings: AnalysisSettings) -> pd.DataFrame:
    """Rows of one setting: `dataset` holds its seeds (loaded), `coordinates` one row a cell."""
    if not has_scaling(dataset, settings.window):
        return pd.DataFrame()
    done = np.flatnonzero(dataset["status"].to_numpy() == Status.done)
    key = coordinates.iloc[0].drop(labels=["cell", "seed", "steps", "experiment"], errors="ignore").to_dict()
    if not len(done):
        reason = "no cell of this setting finished"
        return pd.DataFrame([{**key, **_unresolved(source, 0, reason)} for source in sources_of(dataset)])
    finished = dataset.isel(cell=done)
    sources = dict(source_curves(finished, settings.rho))
    theory = sources.get("theory")
    limit = _limit(finished)
    return pd.DataFrame([{**key, **_row(source, curves, theory, settings), "predicted_limit": limit} for source, curves in sources.items()])


def _row(source: str, curves: Curves, theory: Curves | None, settings: AnalysisSettings) -> dict[str, Any]:
    row = _unresolved(source, len(curves.loss), "")
    try:
        law, where = estimate(curves, settings.window)
        row |= {"window_start": where.start, "window_end": where.end, "decades": where.decades, "ignitions": where.ignitions}
        row |= {"points": int(where.of(curves.time).sum()), "exponent": law.exponent, "floor": _floor(curves, law)}
        row["predicted_finite"] = _prediction(theory, where)
        row |= _evidence(curves, theory, where) if source == "network" else NOTHING
        row["relative_error"] = law.exponent / row["predicted_finite"] - 1
        row["ci_low"], row["ci_high"], row["ci_method"] = interval(curves, where, law.exponent, settings)
        verify(curves, where, law)
    except Unresolved as finding:
        return row | {"reason": str(finding)}
    return row | {"status": "ok"}


def _prediction(theory: Curves | None, where: Window) -> float:
    try:
        return float("nan") if theory is None else fit_window(theory, where).exponent
    except Unresolved:
        return float("nan")


def _floor(curves: Curves, law: PowerLaw) -> float:
    return float(np.mean(curves.floor)) if curves.floor is not None and law.floor == 0 else law.floor


def _unresolved(source: str, seeds: int, reason: str) -> dict[str, Any]:
    numbers = ("exponent", "ci_low", "ci_high", "window_start", "window_end", "decades", "ignitions", "floor", "predicted_finite")
    nothing: dict[str, Any] = dict.fromkeys((*numbers, "predicted_limit", "relative_error"), float("nan"))
    return {
        "source": source,
        "seeds": seeds,
        **nothing,
        **NOTHING,
        "points": 0,
        "ci_method": "",
        "status": "not_resolved",
        "reason": reason,
    }


def _limit(dataset: xr.Dataset) -> float:
    return float(dataset["exponent_limit"].to_numpy()[0]) if "exponent_limit" in dataset.variables else float("nan")


# ---- curves


def source_curves(dataset: xr.Dataset, rho: float) -> Iterator[tuple[str, Curves]]:
    """(source, curves) of one setting: what it trains (network, twin), and theory where a tier has a smooth curve."""
    steps, times = dataset["step_number"].to_numpy(), dataset["time"].to_numpy()
    number = dataset["mode_number"].to_numpy()[0]
    floor = _known_floor(dataset)
    for source in sources_of(dataset):
        loss = dataset[f"{source}_loss"].to_numpy()
        ignition = measure(steps, dataset[f"{source}_mode"].to_numpy(), loss, rho).step
        yield source, _common(times, loss, floor, _times_of(ignition, steps, times), number)
    tier = _finest(dataset)
    if tier is not None:
        ignition = _times_of(predicted(dataset, rho)[tier], steps, times)
        ignition = np.where(ignition <= times[:, -1:], ignition, np.nan)
        yield "theory", _common(times, _theory_loss(dataset, tier), floor, ignition, number)


def _times_of(ignition: np.ndarray, steps: np.ndarray, times: np.ndarray) -> np.ndarray:
    return np.array([flow_time(*cell) for cell in zip(ignition, steps, times, strict=True)])


def _theory_loss(dataset: xr.Dataset, tier: str) -> np.ndarray:
    """The curve expected before any weights are drawn, where theory gives one; else the tier's curves, which know each cell's start."""
    expected = dataset["expected_loss"].to_numpy() if "expected_loss" in dataset else np.array([np.nan])
    return expected if np.isfinite(expected).all() else dataset["theory_loss"].sel(tier=tier).to_numpy()


def _known_floor(dataset: xr.Dataset) -> np.ndarray | None:
    values = dataset["loss_floor"].to_numpy() if "loss_floor" in dataset.variables else np.array([np.nan])
    return values if np.isfinite(values).all() else None


def _finest(dataset: xr.Dataset) -> str | None:
    """The finest tier that predicts the smooth loss curve of every cell."""
    present = list(dataset["tier"].to_numpy()) if "theory_loss" in dataset else []
    for tier in SMOOTH:
        if tier in present and np.isfinite(dataset["theory_loss"].sel(tier=tier).to_numpy()).all():
            return tier
    return None


def _common(times: np.ndarray, loss: np.ndarray, floor: np.ndarray | None, ignition: np.ndarray, number: np.ndarray) -> Curves:
    """Curves on one grid: the records where all seeds share them, else as many log-spaced times that all of them cover."""
    if (times == times[0]).all():
        return Curves(times[0, 1:], loss[:, 1:], floor, ignition, number)
    grid = np.geomspace(times[:, 1].max(), times[:, -1].min(), times.shape[1] - 1)
    rows = [np.interp(np.log(grid), np.log(t[1:]), values[1:]) for t, values in zip(times, loss, strict=True)]
    return Curves(grid, np.array(rows), floor, ignition, number)
