"""How rough a curve is: the deviation of ln loss between neighbouring records, and by how much correlation in time makes means rougher.

A smooth curve has small third differences, noise has not: their median gives the deviation of single records, robustly. The same on means
of m neighbouring records shows correlated noise, whose means fall slower than 1 / sqrt(m).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

_THIRD = np.sqrt(20.0)
"""Deviation of third differences of white noise of deviation 1."""
_MEDIAN = 1.4826
"""Deviation over median absolute deviation of normal noise."""
FEWEST = 20
"""Means needed to trust their third differences."""
MOST = 300.0
"""Largest inflation believed."""
Values = Float[np.ndarray, "records"]


@dataclass(frozen=True)
class Noise:
    """Of ln loss, of one curve or of many."""

    deviation: Any
    """Of single records."""
    inflation: Any
    """Variance of the mean of many records times their number, over that of single ones."""

    def of_mean(self, records: Float[np.ndarray, "bins"]) -> Float[np.ndarray, "bins"]:
        """Deviation of the mean of so many neighbouring records, as if means were independent: correlated ones count as rougher."""
        single = self.deviation * np.sqrt(self.inflation)
        return np.asarray(np.multiply.outer(single, records**-0.5))


def noise(log_loss: Values) -> Noise:
    """Measured on records in order of time."""
    found = noise_many(log_loss[None])
    return Noise(float(found.deviation[0]), float(found.inflation[0]))


def noise_many(log_loss: Float[np.ndarray, "curves records"]) -> Noise:
    """Of each curve."""
    single = _deviation(log_loss)
    inflation, size = np.ones(len(log_loss)), 2
    while log_loss.shape[1] // size >= FEWEST:
        means = log_loss[:, : log_loss.shape[1] // size * size].reshape(len(log_loss), -1, size).mean(2)
        with np.errstate(invalid="ignore", divide="ignore"):
            inflation = np.fmax(inflation, size * (_deviation(means) / single) ** 2)
        size *= 2
    # Largest of several noisy estimates: white noise alone reaches about 1.3.
    return Noise(single, np.where(single > 0, np.clip(inflation / 1.3, 1.0, MOST), 1.0))


def _deviation(values: Float[np.ndarray, "curves records"]) -> Float[np.ndarray, "curves"]:
    third = np.diff(values, 3)
    return _MEDIAN / _THIRD * np.median(np.abs(third), axis=1) if third.shape[1] else np.zeros(len(values))
