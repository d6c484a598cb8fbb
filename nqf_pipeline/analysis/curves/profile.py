"""How well a power law, or an exponential decay, with a floor of at least 0 can fit some bins, whatever its amplitude and floor.

For a given exponent (or rate) amplitude and floor are linear and have a closed form, so the misfit is a function of one number: taken on a
grid over its whole range, for many curves on the same bins as a few matrix products, with a parabola through the lowest point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

EXPONENTS = (0.01, 8.0)
RATES = (0.2, 50.0)
"""Decays from a fiftieth of the window's end to five times it."""
COUNT = 96
Bins = Float[np.ndarray, "bins"]
Values = Float[np.ndarray, "curves bins"]
Numbers = Float[np.ndarray, "curves"]
Rates = Float[np.ndarray, "rates"]
Shape = Callable[[Bins, Rates], Float[np.ndarray, "rates bins"]]


@dataclass(frozen=True)
class Profile:
    """Sums of squared relative residuals on a geometric grid of exponents or rates, and the lowest of them."""

    rates: Rates
    costs: Float[np.ndarray, "curves rates"]
    rate: Numbers
    cost: Numbers

    def near(self, rate: Numbers, share: float) -> Numbers:
        """Lowest cost at rates within a share of the given ones; beyond, costs rise towards the lowest point's other side."""
        wanted = np.clip(self.rate, rate / (1 + share), rate * (1 + share))
        place = np.log(np.maximum(wanted, self.rates[0]) / self.rates[0]) / np.log(self.rates[1] / self.rates[0])
        middle = np.clip(np.round(place).astype(int), 1, len(self.rates) - 2)
        low, mid, high = _around(self.costs, middle)
        offset = place - middle
        there = mid + offset * (high - low) / 2 + offset**2 * (high + low - 2 * mid) / 2
        return np.where(wanted == self.rate, self.cost, np.maximum(there, self.cost))


def power(x: Bins, exponents: Rates) -> Float[np.ndarray, "rates bins"]:
    """t^-k, 1 at the first bin; x = ln t."""
    return np.exp(-exponents[:, None] * (x - x[0]))


def exponential(x: Bins, rates: Rates) -> Float[np.ndarray, "rates bins"]:
    """exp(-rate t / end), 1 at the first bin."""
    return np.exp(-rates[:, None] * (np.exp(x - x[-1]) - np.exp(x[0] - x[-1])))


def profile(x: Bins, y: Values, shape: Shape, limits: tuple[float, float]) -> Profile:
    """The misfit of each curve y = ln loss on common bins."""
    rates = np.geomspace(*limits, COUNT)
    costs = _costs(y, shape(x, rates))
    best = costs.argmin(1)
    middle = np.clip(best, 1, COUNT - 2)
    low, mid, high = _around(costs, middle)
    bend = low + high - 2 * mid
    inside = (bend > 0) & (best == middle)
    offset = np.where(inside, (low - high) / (2 * np.where(inside, bend, 1.0)), best - middle)
    at = np.where(inside, mid - (low - high) ** 2 / (8 * np.where(inside, bend, 1.0)), np.take_along_axis(costs, best[:, None], 1)[:, 0])
    return Profile(rates, costs, rates[0] * (rates[1] / rates[0]) ** (middle + offset), np.maximum(at, 0.0))


def _around(costs: Float[np.ndarray, "curves rates"], middle: np.ndarray) -> tuple[Numbers, Numbers, Numbers]:
    low, mid, high = (np.take_along_axis(costs, (middle + step)[:, None], 1)[:, 0] for step in (-1, 0, 1))
    return low, mid, high


def _costs(y: Values, shapes: Float[np.ndarray, "rates bins"]) -> Float[np.ndarray, "curves rates"]:
    """Sum of squared relative residuals of the best amplitude and floor for each shape."""
    inverse = np.exp(y.min(1, keepdims=True) - y)
    square = inverse**2
    uu, uv, su = square @ (shapes**2).T, square @ shapes.T, inverse @ shapes.T
    vv, sv = square.sum(1, keepdims=True), inverse.sum(1, keepdims=True)
    determinant = uu * vv - uv**2
    with np.errstate(invalid="ignore", divide="ignore"):
        amplitude, floor = (su * vv - sv * uv) / determinant, (sv * uu - su * uv) / determinant
        free = (floor > 0) & (amplitude > 0) & (determinant > 1e-12 * uu * vv)
        cost = y.shape[1] - np.where(free, amplitude * su + floor * sv, su**2 / uu)
    return np.asarray(np.maximum(cost, 0.0))
