"""A cost measured against a size, and the power law by which it grows.

A cost is a fixed part and a part that grows, y = y0 + c (x - x0)^k, with (x0, y0) the first point measured: fixed costs cancel in the
increments over it, and k is the slope of a straight line in log-log through them, by weighted least squares, with Student's interval.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import OptimizeWarning, curve_fit

CONFIDENCE = 0.95
NOISE = 0.02
"""An increment below this share of the first point's cost is not told from noise."""


@dataclass(frozen=True)
class Growth:
    """y = y0 + c (x - x0)^k. `low` and `high` are the ends of k's interval, infinite where two increments leave no freedom."""

    exponent: float
    low: float
    high: float
    x0: float
    y0: float
    coefficient: float
    largest: float
    """The largest x that was measured: the line is fitted up to here."""

    def at(self, x: float, exponent: float | None = None) -> float:
        """The cost at x, on the fitted line; with another exponent, on the line through its value at the largest measured x."""
        if x <= self.x0:
            return self.y0
        k = self.exponent if exponent is None else exponent
        top = self.coefficient * (self.largest - self.x0) ** self.exponent
        return float(self.y0 + top * ((x - self.x0) / (self.largest - self.x0)) ** k)

    def reaches(self, cost: float) -> float:
        """The x at which the fitted line reaches a cost."""
        return float(self.x0 + (max(cost - self.y0, 0.0) / self.coefficient) ** (1 / self.exponent))


@dataclass(frozen=True)
class Sweep:
    """One cost against one size, everything else fixed."""

    name: str
    panel: str
    """What is swept; sweeps of one panel are drawn together."""
    size: str
    """What x counts."""
    cost: str
    unit: str
    setting: str
    """What was held fixed."""
    points: list[list[float]]

    @property
    def x(self) -> np.ndarray:
        return np.array([point[0] for point in sorted(self.points)])

    @property
    def y(self) -> np.ndarray:
        return np.array([point[1] for point in sorted(self.points)])

    def growth(self) -> Growth | None:
        """The fitted line; None where the cost does not grow beyond noise over the sweep."""
        return fit(self.x, self.y)

    def straight(self) -> Growth | None:
        """Linear growth from the first to the last point, assumed where none is resolved; None where the cost is flat or falls."""
        dx, dy = float(self.x[-1] - self.x[0]), float(self.y[-1] - self.y[0])
        if self.flat or dy <= 0:
            return None
        return Growth(1.0, -np.inf, np.inf, float(self.x[0]), float(self.y[0]), dy / dx, float(self.x[-1]))

    @property
    def flat(self) -> bool:
        """Whether the cost stays within a twentieth of the smallest size's."""
        return bool(self.y.max() < 1.05 * self.y[0])

    def document(self) -> dict[str, Any]:
        return asdict(self)


def fit(x: np.ndarray, y: np.ndarray) -> Growth | None:
    """Least squares in log-log of the increments over the first point, each weighted by its share of the cost: noise is a share of that."""
    dx, dy = x[1:] - x[0], y[1:] - y[0]
    seen = dy > NOISE * y[0]
    freedom = int(seen.sum()) - 2
    if freedom < 0:
        return None
    given = np.log(dx[seen]), np.log(dy[seen])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)  # two points leave no covariance: the interval is then infinite
        (level, slope), covariance = curve_fit(lambda u, a, k: a + k * u, *given, p0=(0.0, 1.0), sigma=(y[1:] / dy)[seen])
    if not slope > 0:
        return None
    half = stats.t.ppf(0.5 + CONFIDENCE / 2, freedom) * np.sqrt(covariance[1, 1]) if freedom else np.inf
    ends = float(slope - half), float(slope + half)
    return Growth(float(slope), *ends, float(x[0]), float(y[0]), float(np.exp(level)), float(x[-1]))
