"""Synthetic loss curves and noise for the tests of `nqf fit`."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter


def noise(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Unit-variance noise: white, autocorrelated (first order, 0.7) or heavy-tailed (Student, three degrees of freedom)."""
    white = rng.standard_normal(count)
    if kind == "autocorrelated":
        start = rng.standard_normal()
        return lfilter([np.sqrt(1 - 0.7**2)], [1, -0.7], white, zi=[0.7 * start])[0]
    return rng.standard_t(3, count) / np.sqrt(3) if kind == "heavy_tailed" else white


def power_law(time: np.ndarray, exponent: float, floor: float, sigma: float, kind: str, rng: np.random.Generator) -> np.ndarray:
    return (time**-exponent + floor) * np.exp(sigma * noise(kind, len(time), rng))


def staircase(time: np.ndarray, strengths: np.ndarray, start: float = 1e-6) -> tuple[np.ndarray, np.ndarray]:
    """Loss of independent logistic modes from strength `start`, and their ignition times (strength one half)."""
    mode = 1 / (1 + (1 / start - 1) * np.exp(-2 * strengths[:, None] * time))
    return ((strengths[:, None] * (1 - mode)) ** 2).sum(0) + 1e-3, np.log(1 / start - 1) / strengths / 2


def epochs(count: int, records: int, fall: float = 0.35) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(step, loss, epoch) of memorised data: the loss falls at each epoch boundary and hardly in between."""
    step = np.arange(1, count * records + 1.0)
    epoch = step / records
    return step, 2.5 * np.exp(-fall * np.floor(epoch - 1e-9)) * step**-0.05, epoch
