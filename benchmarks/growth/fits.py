"""Fits of loss curves against their number."""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.growth.scheduling import sizes
from benchmarks.growth.sweeps import Sweep
from nqf_pipeline.analysis.bulk import measure_curves
from nqf_pipeline.analysis.powerlaw import fit_many

CURVES, POINTS = (100, 300, 1000, 3000, 10_000), 200


def fit_sweeps(scale: float) -> list[Sweep]:
    """Three-parameter fits, and everything that is measured on a curve, on one thread."""
    times, rng = np.logspace(0, 4, POINTS), np.random.default_rng(0)
    fits, bulk = [], []
    for first in (fit_many, measure_curves):
        first(times, _curves(rng, times, 8))
    for count in sizes(CURVES, scale):
        loss = _curves(rng, times, count)
        with threadpool_limits(1):
            start = time.perf_counter()
            fit_many(times, loss)
            fits.append([count, time.perf_counter() - start])
            start = time.perf_counter()
            measure_curves(times, loss)
            bulk.append([count, time.perf_counter() - start])
    shared = {"panel": "fits", "size": "curves", "unit": "s", "setting": f"{POINTS} records, noise 1 %, one thread"}
    return [
        Sweep("fit_many", cost="exponents", points=fits, **shared),
        Sweep("measure_curves", cost="exponents, windows, plateaus, drops", points=bulk, **shared),
    ]


def _curves(rng: np.random.Generator, times: np.ndarray, count: int) -> np.ndarray:
    return (times ** -rng.uniform(0.4, 1.4, (count, 1)) + 3e-3) * np.exp(0.01 * rng.standard_normal((count, len(times))))
