"""Bias, coverage, false and missed plateaus, over many curves of known truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.bulk import Measured, measure_curves
from nqf_pipeline.analysis.calibration import truth
from nqf_pipeline.analysis.curves.columns import Series
from nqf_pipeline.analysis.curves.describe import describe

LEVEL = 0.03
"""Deviation of the noise, relative."""
FOUND = 0.1
"""A drop within this share of an ignition time counts as that of the mode."""
SMOOTH = (
    ("power law", "log", truth.DECADES, 0.0),
    ("power law and floor", "log", truth.DECADES, truth.FLOOR),
    ("power law and floor", "linear", truth.DECADES, truth.FLOOR),
    ("power law, short", "log", 1.5, 0.0),
)
"""(curve, recorded, decades, floor)."""


def calibrate(curves: int, rng: np.random.Generator, resampled: int = 0) -> pd.DataFrame:
    """One row a kind of curve, noise and procedure: `curves` each, of which `resampled` also through `nqf fit`'s resampled intervals."""
    rows = [*_power_laws(curves, rng), *(_resampled(resampled, rng) if resampled else ()), *_wrong(curves, rng), *_staircases(curves, rng)]
    return pd.DataFrame(rows)


def _power_laws(curves: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    for name, recorded, decades, floor in SMOOTH:
        for kind in truth.NOISES:
            time, exponent = truth.times(recorded, decades), rng.uniform(0.4, 1.4, curves)
            found = _measured(time, truth.power_law(time, exponent, floor), kind, rng)
            laws = found.laws[["exponent", "ci_low", "ci_high"]].to_numpy()
            yield {**_about(name, recorded, kind, curves), "interval": "local", **_exponents(exponent, laws), **_false(found)}


def _resampled(curves: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """The intervals of `nqf fit`, which repeat the choice of the window."""
    for recorded in ("log", "linear"):
        for kind in truth.NOISES:
            time, exponent = truth.times(recorded), rng.uniform(0.4, 1.4, curves)
            loss = _noisy(truth.power_law(time, exponent, truth.FLOOR), kind, rng)
            found = [describe(Series("loss", "time", time, values, None))[0].law for values in loss]
            laws = np.array([(law.exponent, law.low, law.high) if law else (np.nan,) * 3 for law in found])
            yield {**_about("power law and floor", recorded, kind, curves), "interval": "resampled", **_exponents(exponent, laws)}


def _wrong(curves: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    for name, shape in truth.WRONG.items():
        for kind in truth.NOISES:
            time = truth.times("log")
            loss = np.stack([shape(time, k) for k in rng.uniform(0.5, 1.5, curves)])
            found = _measured(time, loss, kind, rng)
            false = {} if name in truth.STEPPED else _false(found)
            yield {**_about(name, "log", kind, curves), "resolved": float((found.laws["status"] == "ok").mean()), **false}


def _staircases(curves: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    for recorded in ("log", "linear"):
        for kind in truth.NOISES:
            time = truth.times(recorded, np.log10(120.0))
            loss, ignition = truth.staircase(time, curves)
            found = _measured(time, loss, kind, rng)
            resolved = float((found.laws["status"] == "ok").mean())
            yield {**_about("staircase", recorded, kind, curves), "resolved": resolved, **_drops(found, ignition, curves)}


def _about(name: str, recorded: str, kind: str, curves: int) -> dict[str, Any]:
    return {"curve": name, "recorded": recorded, "noise": kind, "curves": curves}


def _noisy(loss: truth.Losses, kind: str, rng: np.random.Generator) -> truth.Losses:
    return np.asarray(loss * np.exp(LEVEL * truth.noise(kind, (len(loss), loss.shape[1]), rng)))


def _measured(time: truth.Times, loss: truth.Losses, kind: str, rng: np.random.Generator) -> Measured:
    return measure_curves(time, _noisy(loss, kind, rng))


def _exponents(exponent: truth.Numbers, laws: np.ndarray) -> dict[str, float]:
    """Of the curves that have an exponent: relative bias (median), coverage of the 95 % intervals, their median half width."""
    resolved = np.isfinite(laws[:, 0])
    if not resolved.any():
        return {"resolved": 0.0}
    (found, low, high), true = laws[resolved].T, exponent[resolved]
    return {
        "resolved": float(resolved.mean()),
        "bias": float(np.median(found / true - 1)),
        "coverage": float(np.mean((low <= true) & (true <= high))),
        "half_width": float(np.median((high - low) / 2 / true)),
    }


def _false(found: Measured) -> dict[str, float]:
    """Share of smooth curves with a plateau or drop."""
    return {"false_plateaus": float((found.laws["plateaus"] + found.laws["drops"] > 0).mean())}


def _drops(found: Measured, ignition: np.ndarray, curves: int) -> dict[str, float]:
    """Missed modes, drops that are no mode, and errors of the drop times of the modes that were found."""
    drops = found.events[found.events["event"] == "drop"]
    off = drops["time"].to_numpy()[:, None] / ignition - 1
    nearest, mode = np.abs(off).min(1), np.abs(off).argmin(1)
    hit = nearest < FOUND
    seen = pd.DataFrame({"curve": drops["curve"].to_numpy()[hit], "mode": mode[hit]}).drop_duplicates()
    inside = np.abs(drops["time"].to_numpy() - ignition[mode]) <= 1.96 * drops["uncertainty"].to_numpy()
    return {
        "missed_drops": 1 - len(seen) / (curves * len(ignition)),
        "extra_drops": float((~hit).sum() / curves),
        "time_error": float(np.median(nearest[hit])),
        "time_error_95": float(np.quantile(nearest[hit], 0.95)),
        "time_coverage": float(inside[hit].mean()),
    }
