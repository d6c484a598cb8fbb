"""How rough a curve is: the deviation of ln loss between neighbouring records, and by how much correlation in time makes means rougher.

A smooth curve has small third differences, noise has not: their median gives the deviation of single records, robustly. The same on means
of m neighbouring records shows correlated noise, whose means fall slower than 1 / sqrt(m).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

_THIRD = np.sqrt(20.0)
"""Deviation of third differences of white noise of deviation 1."""
_MEDIAN = 1.4826
"""Deviation over median absolute deviation of normal noise."""
FEWEST = 30
"""Means needed to trust their third differences."""
MOST = 300.0
"""Largest inflation believed."""
Values = Float[np.ndarray, "records"]


@dataclass(frozen=True)
class Noise:
    """Of ln loss."""

    deviation: float
    """Of single records."""
    inflation: float
    """Variance of the mean of many records times their number, over that of single ones."""

    def of_mean(self, records: Float[np.ndarray, "bins"]) -> Float[np.ndarray, "bins"]:
        """Deviation of the mean of so many neighbouring records, as if means were independent: correlated ones count as rougher."""
        return self.deviation * np.sqrt(self.inflation / records)


def noise(log_loss: Values) -> Noise:
    """Measured on records in order of time."""
    single = _deviation(log_loss)
    if single == 0:
        return Noise(0.0, 1.0)
    inflation, size = 1.0, 2
    while len(log_loss) // size >= FEWEST:
        means = log_loss[: len(log_loss) // size * size].reshape(-1, size).mean(1)
        inflation = max(inflation, size * (_deviation(means) / single) ** 2)
        size *= 2
    # Largest of several noisy estimates: white noise alone reaches about 1.3.
    return Noise(single, float(np.clip(inflation / 1.3, 1.0, MOST)))


def _deviation(values: Values) -> float:
    third = np.diff(values, 3)
    return float(_MEDIAN * np.median(np.abs(third)) / _THIRD) if len(third) else 0.0
