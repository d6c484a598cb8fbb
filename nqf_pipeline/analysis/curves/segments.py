"""A curve as the fewest straight pieces in ln loss against ln time: exact dynamic programming over all cuts, one price per piece.

The price (4 ln n in units of the noise's variance, twice BIC's for slope and level) makes a cut in pure noise rare. Bins are few, so
the exact optimum costs milliseconds and no change-point library is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from nqf_pipeline.analysis.curves.bins import Binned

PRICE = 4.0


@dataclass(frozen=True)
class Piece:
    """A straight stretch of bins; `steepness` is minus its slope."""

    start: float
    end: float
    steepness: float
    error: float
    """Deviation of the steepness."""
    left: float
    right: float
    """ln loss of the line at its ends."""
    loose: float
    """Deviation of the line at its ends."""

    @property
    def length(self) -> float:
        """In ln time."""
        return self.end - self.start


def pieces(curve: Binned) -> list[Piece]:
    """Straight pieces, with a piece of its own for every drop between two bins."""
    cuts = _cuts(curve)
    found: list[Piece] = []
    for first, last in pairwise(cuts):
        piece = _line(curve, first, last)
        step = _step(found[-1], piece) if found else None
        found += [step, piece] if step else [piece]
    return found


def smooth(curve: Binned) -> Float[np.ndarray, "bins"]:
    """ln loss on the pieces."""
    cuts = _cuts(curve)
    lines = [(_line(curve, first, last), curve.x[first:last]) for first, last in pairwise(cuts)]
    return np.concatenate([line.left - line.steepness * (x - line.start) for line, x in lines])


def _cuts(curve: Binned) -> list[int]:
    """Bounds of the pieces: 0, ..., n."""
    cost, count = _costs(curve), len(curve.x)
    price = PRICE * np.log(count)
    best, previous = np.full(count + 1, np.inf), np.zeros(count + 1, int)
    best[0] = -price
    for end in range(2, count + 1):
        totals = best[: end - 1] + price + cost[: end - 1, end]
        previous[end] = int(np.argmin(totals))
        best[end] = totals[previous[end]]
    cuts = [count]
    while cuts[-1] > 0:
        cuts.append(int(previous[cuts[-1]]))
    return cuts[::-1]


def _costs(curve: Binned) -> Float[np.ndarray, "starts ends"]:
    """Squared misfit of the best line through bins i to j - 1, over the noise's variance."""
    weight = curve.error**-2.0
    x, y = curve.x - curve.x.mean(), curve.y - curve.y.mean()
    sums = [np.concatenate([[0.0], np.cumsum(weight * values)]) for values in (np.ones_like(x), x, y, x * x, x * y, y * y)]
    w, sx, sy, sxx, sxy, syy = (total[None, :] - total[:, None] for total in sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        vx, vy, cov = sxx - sx**2 / w, syy - sy**2 / w, sxy - sx * sy / w
        misfit = vy - cov**2 / vx
    return np.maximum(np.nan_to_num(misfit, nan=0.0, posinf=0.0, neginf=0.0), 0.0)


def _line(curve: Binned, first: int, last: int) -> Piece:
    part = curve.part(first, last)
    weight = part.error**-2.0
    center, level = np.average(part.x, weights=weight), float(np.average(part.y, weights=weight))
    x = part.x - center
    spread, total = float(np.sum(weight * x**2)), float(np.sum(weight))
    slope = float(np.sum(weight * x * part.y)) / spread
    left, right = level + slope * float(x[0]), level + slope * float(x[-1])
    loose = float(np.sqrt(1 / total + float(np.max(x**2)) / spread))
    return Piece(float(part.x[0]), float(part.x[-1]), -slope, spread**-0.5, left, right, loose)


def _step(before: Piece, after: Piece) -> Piece | None:
    """The fall from one line to the next where it is steeper than both."""
    width = after.start - before.end
    steepness, error = (before.right - after.left) / width, float(np.hypot(before.loose, after.loose)) / width
    if steepness - max(before.steepness, after.steepness) < 5.0 * error:
        return None
    return Piece(before.end, after.start, steepness, error, before.right, after.left, max(before.loose, after.loose))
