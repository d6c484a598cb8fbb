"""Exponents, plateaus and drops of very many loss curves on one time grid: the measurements of `nqf fit`, a block of curves at a time.

Blocks are read inside their tasks, so memory holds one block a worker, however large the store is; with a dask cluster (a `Client` in the
program) the same call runs there. What differs from `nqf fit`: curves are taken as they are (one that rises, or holds a loss without a
logarithm, has a status and no exponent), and intervals are local (`_half_widths`), not resampled.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from dask.base import compute, is_dask_collection
from dask.delayed import delayed
from jaxtyping import Bool, Float
from threadpoolctl import threadpool_limits

from nqf_pipeline.analysis.curves.bins import ManyBinned, binned_many
from nqf_pipeline.analysis.curves.breaks import rises
from nqf_pipeline.analysis.curves.describe import FIT_BINS, fine_many
from nqf_pipeline.analysis.curves.law import ABOVE, CONFIDENCE, WIDE, correlation, decades_above_floor, sane
from nqf_pipeline.analysis.curves.noise import noise_many
from nqf_pipeline.analysis.curves.scan import scan_many
from nqf_pipeline.analysis.curves.steps import steps_many
from nqf_pipeline.analysis.powerlaw import PowerLaws, fit_many, influence
from nqf_pipeline.errors import InputError
from nqf_pipeline.theory.student import student

ROWS = 2048
"""Curves in a block."""
Times = Float[np.ndarray, "records"]
Losses = Float[np.ndarray, "curves records"]
Numbers = Float[np.ndarray, "curves"]
Inside = Bool[np.ndarray, "curves bins"]


@dataclass(frozen=True)
class Measured:
    """Two tables; `curve` is the position in the array."""

    laws: pd.DataFrame
    """One row a curve: curve, exponent, ci_low, ci_high, floor, window_start, window_end, plateaus, drops, status, reason."""
    events: pd.DataFrame
    """One row a plateau or drop: curve, event, kind, start, end, and loss (plateaus) or time, uncertainty and factor (drops)."""


def measure_curves(time: Times, loss: Any, rows: int = ROWS, confidence: float = CONFIDENCE, **options: Any) -> Measured:
    """Measure every row of `loss`, (curves, records): a NumPy, zarr or dask array, or anything else that is sliced like one.

    `options` go to `dask.compute` (`scheduler`, `num_workers`); without them a cluster's client is used if there is one, else threads.
    """
    time = np.asarray(time, float)
    if time.ndim != 1 or len(time) < 2 or not (np.isfinite(time).all() and time[0] > 0 and (np.diff(time) > 0).all()):
        raise InputError("measure_curves: `time` must be one row of increasing, positive, finite times; leave out the record at time 0")
    if len(loss.shape) != 2 or loss.shape[1] != len(time):
        raise InputError(f"measure_curves: `loss` has shape {tuple(loss.shape)}, which is not (curves, {len(time)}), the records in `time`")
    task = delayed(_block, pure=False, traverse=False)
    # NumPy arrays are cut here (views) and dask arrays too (lazily): a task gets its rows. All else is read inside the task.
    ready = isinstance(loss, np.ndarray) or is_dask_collection(loss)
    cuts = [slice(first, first + rows) for first in range(0, loss.shape[0], rows)]
    parts = compute(*[task(time, loss[cut] if ready else loss, cut, ready, confidence) for cut in cuts], **options)
    laws, events = ([part[i] for part in parts if len(part[i])] for i in (0, 1))
    return Measured(_together(laws), _together(events))


def _together(parts: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _block(time: Times, loss: Any, cut: slice, ready: bool, confidence: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    with threadpool_limits(1), np.errstate(all="ignore"):
        tables = measure_block(time, np.asarray(loss if ready else loss[cut], float), confidence)
    for table in tables:
        if len(table):
            table["curve"] += cut.start
    return tables


def measure_block(time: Times, loss: Losses, confidence: float = CONFIDENCE) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(laws, events) of a block in memory; see `Measured`."""
    usable = np.isfinite(loss).all(1) & (loss > 0).all(1)
    laws = pd.DataFrame({"curve": np.arange(len(loss)), "plateaus": 0, "drops": 0, "status": "not_resolved"})
    numbers = ("exponent", "ci_low", "ci_high", "floor", "window_start", "window_end")
    laws[list(numbers)] = np.nan
    laws["reason"] = "some losses are not finite and positive"
    events: list[dict[str, Any]] = []
    if usable.any():
        log_loss = np.log(loss[usable])
        rough = noise_many(log_loss)
        found = _laws(time, log_loss, binned_many(time, log_loss, rough, FIT_BINS), confidence)
        for number, (plateaus, drops) in zip(np.flatnonzero(usable), steps_many(fine_many(time, log_loss, rough)), strict=True):
            events += [{"curve": number, "event": "plateau", **asdict(plateau)} for plateau in plateaus]
            events += [{"curve": number, "event": "drop", **asdict(drop)} for drop in drops]
        laws.loc[usable, found.columns] = found.to_numpy()
    table = pd.DataFrame(events)
    for name in ("plateau", "drop") if len(table) else ():
        laws[f"{name}s"] = table[table["event"] == name].groupby("curve").size().reindex(laws["curve"], fill_value=0).to_numpy()
    return laws.astype(dict.fromkeys(numbers, float)), table


def _laws(time: Times, log_loss: Losses, curves: ManyBinned, confidence: float) -> pd.DataFrame:
    windows = scan_many(curves.x, curves.y, curves.error)
    inside = windows.inside(len(curves.x))
    middle = np.exp(curves.x)
    fits = fit_many(middle, np.exp(curves.y), inside)
    half = _half_widths(time, log_loss, curves, fits, inside, confidence)
    start, end = middle[windows.first], middle[np.maximum(windows.last - 1, 0)]
    above = decades_above_floor(fits, start, end)
    reasons = np.array(windows.reason, object)
    checks = (
        (windows.last > 0, ~sane(fits), "no power law: the fit ends at the edge of what can be a power law"),
        (windows.last > 0, above < ABOVE, f"too few decades: the law exceeds its floor for less than {ABOVE:g}"),
        (windows.last > 0, half > WIDE * fits.exponent, "not determined: the interval is wider than the exponent"),
        (np.ones(len(half), bool), rises(curves), "the loss rises, and is not fitted through"),
    )
    for applies, fails, reason in checks:
        reasons = np.where(applies & fails & (reasons == ""), reason, reasons)
    good = reasons == ""
    columns = {"exponent": fits.exponent, "ci_low": fits.exponent - half, "ci_high": fits.exponent + half, "floor": fits.floor}
    columns |= {"window_start": start, "window_end": end}
    shown = {name: np.where(good, values, np.nan) for name, values in columns.items()}
    return pd.DataFrame({**shown, "status": np.where(good, "ok", "not_resolved"), "reason": reasons})


def _half_widths(time: Times, log_loss: Losses, curves: ManyBinned, fits: PowerLaws, inside: Inside, confidence: float) -> Numbers:
    """Half width of the interval of each exponent: Student's quantile times its standard error under noise of first order in the records.

    A bin holds the mean of its records, so the fit's influence of a bin is shared among them; variance and correlation are those of the
    residuals of the records in the window.
    """
    assert curves.first is not None
    count = np.diff(curves.first, append=len(time))
    weight = np.repeat(influence(np.exp(curves.x), fits, inside) / count, count, axis=1)
    law = np.log(fits.amplitude[:, None] * time ** -fits.exponent[:, None] + fits.floor[:, None])
    residual = np.where(np.repeat(inside, count, axis=1), log_loss - law, 0.0)
    records = (inside * count).sum(1)
    lag = correlation(residual, records)
    fewer = (1 - lag) / (1 + lag)
    left = np.maximum(records - 3 / fewer, records / 3)
    variance = np.divide((residual**2).sum(1), left, out=np.full(len(left), np.nan), where=left > 0)  # NaN: no window
    error = np.sqrt(variance * _response(weight, lag))
    free = np.maximum(np.minimum(inside.sum(1), records * fewer) - 3, 2)
    return np.asarray(student(confidence, free) * error)


def _response(weight: Losses, lag: Numbers) -> Numbers:
    """Variance of the weighted sum of records of variance 1 whose correlation is lag^distance."""
    later, both = np.zeros(len(weight)), np.zeros(len(weight))
    for column in weight.T[::-1]:
        later = column + lag * later
        both += column * later
    return np.asarray(2 * both - (weight**2).sum(1))
