"""How well a power law, or an exponential decay, with a floor of at least 0 can fit some bins, whatever its amplitude and floor.

For a given exponent (or rate) amplitude and floor are linear and have a closed form, so the misfit is a function of one number: looked at
on a grid over its whole range, then closer and closer around the lowest point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nqf_pipeline.analysis.curves.bins import Binned

EXPONENTS = (0.01, 8.0)
RATES = (0.2, 50.0)
"""Decays from a fiftieth of the window's end to five times it."""
COARSE, CLOSE, ROUNDS = 64, 9, 4
Rates = Float[np.ndarray, "rates"]
Shape = Callable[[Binned, Rates], Float[np.ndarray, "rates bins"]]


@dataclass(frozen=True)
class Lowest:
    """The best exponent or rate, and the sum of squared relative residuals there."""

    rate: float
    cost: float


def power(part: Binned, exponents: Rates) -> Float[np.ndarray, "rates bins"]:
    """t^-k, 1 at the first bin."""
    return np.exp(-exponents[:, None] * (part.x - part.x[0]))


def exponential(part: Binned, rates: Rates) -> Float[np.ndarray, "rates bins"]:
    """exp(-rate t / end), 1 at the first bin."""
    return np.exp(-rates[:, None] * (part.time - part.time[0]) / part.time[-1])


def lowest(part: Binned, shape: Shape, low: float, high: float) -> Lowest:
    """The best fit with a rate between two bounds."""
    count = COARSE
    for _ in range(ROUNDS):
        rates = np.geomspace(low, high, count)
        costs = _costs(part, shape(part, rates))
        best, count = int(np.argmin(costs)), CLOSE
        low, high = float(rates[max(best - 1, 0)]), float(rates[min(best + 1, len(rates) - 1)])
    return Lowest(float(rates[best]), float(costs[best]))


def _costs(part: Binned, shapes: Float[np.ndarray, "rates bins"]) -> Rates:
    """Sum of squared relative residuals of the best amplitude and floor for each shape."""
    shrink = np.exp(part.y.min() - part.y)
    u, v = shapes * shrink, shrink[None, :]
    uu, uv, vv, su, sv = (u * u).sum(1), (u * v).sum(1), float((v * v).sum()), u.sum(1), float(v.sum())
    determinant = uu * vv - uv**2
    with np.errstate(invalid="ignore", divide="ignore"):
        amplitude = (su * vv - sv * uv) / determinant
        floor = (sv * uu - su * uv) / determinant
    bare = ~((floor > 0) & (amplitude > 0) & (determinant > 1e-12 * uu * vv))
    amplitude, floor = np.where(bare, su / uu, amplitude), np.where(bare, 0.0, floor)
    return ((amplitude[:, None] * u + floor[:, None] * v - 1.0) ** 2).sum(1)
