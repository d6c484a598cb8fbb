"""Fits of loss curves against a plain `scipy.optimize.curve_fit` of the same three parameters; all that is measured, on 100,000 curves."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import curve_fit
from threadpoolctl import threadpool_limits

from benchmarks.memory import forget_peak, peak
from benchmarks.rows import Row, rate_row
from nqf_pipeline.analysis.bulk import measure_curves
from nqf_pipeline.analysis.curves import describe
from nqf_pipeline.analysis.curves.columns import Series
from nqf_pipeline.analysis.powerlaw import fit_many

CURVES, PEER_CURVES, POINTS, NOISE = 4000, 200, 200, 0.01
BULK, ALONE = 100_000, 20
TOLERANCE = 0.02
"""An exponent counts as recovered within this relative error."""

Curve = np.ndarray
Fit = Callable[[Curve, Curve], Curve]
"""Exponents of many curves on one time grid."""


def fitting_rows(repeats: int) -> list[Row]:
    """Fits per second on one thread, with the share of exponents that come out right."""
    curves = [_curve(np.random.default_rng(seed)) for seed in range(CURVES)]
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(_run(_ours, curves))
        theirs.append(_run(_each, curves[:PEER_CURVES]))
    right = f"exponents within {TOLERANCE:.0%}: {ours[0][1]:.0%}, curve_fit {theirs[0][1]:.0%}"
    note = f"{CURVES} curves of {POINTS} points, noise {NOISE:.0%}; {right}"
    fits = rate_row("fits_per_second", [r for r, _ in ours], "scipy curve_fit, one start", [r for r, _ in theirs], "fits/s", note=note)
    return [fits, _bulk_row(max(1, repeats // 3))]


def _bulk_row(repeats: int) -> Row:
    """Everything measured on many curves, against `nqf fit`'s own path one by one; memory is the peak above the curves themselves."""
    rng = np.random.default_rng(1)
    times = np.logspace(0, 4, POINTS)
    loss = (times ** -rng.uniform(0.4, 1.4, (BULK, 1)) + 3e-3) * np.exp(0.03 * rng.standard_normal((BULK, POINTS)))
    forget_peak()
    before, rates, alone = peak(), [], []
    for _ in range(repeats):
        start = time.perf_counter()
        measure_curves(times, loss)
        rates.append(60 * BULK / (time.perf_counter() - start))
        start = time.perf_counter()
        for values in loss[:ALONE]:
            describe(Series("loss", "time", times, values, None))
        alone.append(60 * ALONE / (time.perf_counter() - start))
    memory = f"peak memory {peak() - before:.0f} MB above the curves"
    note = f"{BULK:,} curves of {POINTS} points: exponents, windows, intervals, plateaus, drops; {memory}"
    return rate_row("curves_per_minute", rates, "nqf fit's resampled intervals, curve by curve", alone, "curves/min", note=note)


def _curve(rng: np.random.Generator) -> tuple[Curve, Curve, float]:
    """t^-k + floor over three decades, with multiplicative noise; k from 0.5 to 2, the floor up to the size of the last excess loss."""
    times, exponent = np.logspace(0, 3, POINTS), rng.uniform(0.5, 2)
    floor = rng.uniform(0, 1) * times[-1] ** -exponent
    return times, (times**-exponent + floor) * np.exp(NOISE * rng.standard_normal(POINTS)), exponent


def _run(method: Fit, curves: list[tuple[Curve, Curve, float]]) -> tuple[float, float]:
    times, loss, truth = curves[0][0], np.stack([loss for _, loss, _ in curves]), np.array([k for *_, k in curves])
    start = time.perf_counter()
    with threadpool_limits(1):
        found = method(times, loss)
    rate = len(curves) / (time.perf_counter() - start)
    return rate, float(np.mean(np.abs(found / truth - 1) < TOLERANCE))


def _ours(times: Curve, loss: Curve) -> Curve:
    return fit_many(times, loss).exponent


def _each(times: Curve, loss: Curve) -> Curve:
    return np.array([_curve_fit(times, values) for values in loss])


def _curve_fit(times: Curve, loss: Curve) -> float:
    """ln(A t^-k + floor) with A and floor in logarithms, from the curve's ends."""

    def model(t: Curve, log_amplitude: float, exponent: float, log_floor: float) -> Curve:
        return np.logaddexp(log_amplitude - exponent * np.log(t), log_floor)

    start = (np.log(loss[0]), 1.0, np.log(loss[-1] / 2))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a covariance that cannot be estimated: only the exponent is wanted
            parameters, _ = curve_fit(model, times, np.log(loss), start)
    except RuntimeError:  # not converged
        return np.nan
    return float(parameters[1])
