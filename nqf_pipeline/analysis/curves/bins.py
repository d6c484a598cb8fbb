"""A curve on an even grid of log time: means of ln loss in bins, so that every part of a decade weighs alike however it was recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

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


@dataclass(frozen=True)
class ManyBinned:
    """Many curves in the same bins."""

    x: Values
    y: Float[np.ndarray, "curves bins"]
    error: Float[np.ndarray, "curves bins"]
    first: Int[np.ndarray, "bins"] | None = None
    """First record of each bin, where the records are known."""

    def __getitem__(self, curve: int) -> Binned:
        return Binned(self.x, self.y[curve], self.error[curve])


def binned(time: Float[np.ndarray, "records"], loss: Float[np.ndarray, "records"], rough: Noise, bins: int) -> Binned:
    """At most `bins` bins over the range of the records."""
    return binned_many(time, np.log(loss)[None], Noise(np.array([rough.deviation]), np.array([rough.inflation])), bins)[0]


def binned_many(time: Float[np.ndarray, "records"], log_loss: Float[np.ndarray, "curves records"], rough: Noise, bins: int) -> ManyBinned:
    """Of curves recorded at the same times."""
    x = np.log(time)
    if len(x) <= bins:
        return ManyBinned(x, log_loss, np.maximum(rough.of_mean(np.ones(len(x))), TOLERANCE), np.arange(len(x)))
    place = np.minimum(((x - x[0]) / (x[-1] - x[0]) * bins).astype(int), bins - 1)
    first = np.flatnonzero(np.diff(place, prepend=-1))
    count = np.diff(first, append=len(x))
    middle, mean = (np.add.reduceat(values, first, axis=-1) / count for values in (x, log_loss))
    return ManyBinned(middle, mean, np.maximum(rough.of_mean(count.astype(float)), TOLERANCE), first)
