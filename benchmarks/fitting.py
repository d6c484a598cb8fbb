"""Floor-aware power-law fits of loss curves, against a plain `scipy.optimize.curve_fit` of the same three parameters."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import curve_fit
from threadpoolctl import threadpool_limits

from benchmarks.rows import Row, rate_row
from nqf_pipeline.analysis.powerlaw import fit_many

CURVES, PEER_CURVES, POINTS, NOISE = 4000, 200, 200, 0.01
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
    return [rate_row("fits_per_second", [r for r, _ in ours], "scipy curve_fit, one start", [r for r, _ in theirs], "fits/s", note=note)]


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
