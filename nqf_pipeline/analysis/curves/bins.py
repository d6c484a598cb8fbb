"""A curve on an even grid of log time: means of ln loss in bins, so that every part of a decade weighs alike however it was recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nqf_pipeline.analysis.curves.noise import Noise

Values = Float[np.ndarray, "bins"]
TOLERANCE = 0.003
"""Relative misfit that no curve is blamed for."""


@dataclass(frozen=True)
class Binned:
    """Occupied bins; x = ln time, y = ln loss."""

    x: Values
    y: Values
    error: Values
    """Deviation of y from noise, at least `TOLERANCE`."""

    @property
    def decades(self) -> float:
        return float((self.x[-1] - self.x[0]) / np.log(10)) if len(self.x) else 0.0

    def part(self, first: int, last: int) -> Binned:
        """Bins first to last - 1."""
        return Binned(self.x[first:last], self.y[first:last], self.error[first:last])

    @property
    def time(self) -> Values:
        return np.exp(self.x)

    @property
    def loss(self) -> Values:
        return np.exp(self.y)


def binned(time: Float[np.ndarray, "records"], loss: Float[np.ndarray, "records"], rough: Noise, bins: int) -> Binned:
    """At most `bins` bins over the range of the records."""
    x, y = np.log(time), np.log(loss)
    if len(x) <= bins:
        return Binned(x, y, np.maximum(rough.of_mean(np.ones(len(x))), TOLERANCE))
    place = np.minimum(((x - x[0]) / (x[-1] - x[0]) * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins)
    full = count > 0
    mean = [np.bincount(place, weights=values, minlength=bins)[full] / count[full] for values in (x, y)]
    return Binned(mean[0], mean[1], np.maximum(rough.of_mean(count[full].astype(float)), TOLERANCE))
