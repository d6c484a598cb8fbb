"""A curve as the fewest straight pieces in ln loss against ln time: exact dynamic programming over all cuts, one price per piece.

The price (4 ln n in units of the noise's variance, twice BIC's for slope and level) makes a cut in pure noise rare. Bins are few, so
the exact optimum costs milliseconds and no change-point library is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nqf_pipeline.analysis.curves.bins import Binned, ManyBinned

PRICE = 4.0
BATCH = 64
"""Curves cut together."""
Values = Float[np.ndarray, "curves bins"]
Lines = Float[np.ndarray, "lines"]


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
    return pieces_many(ManyBinned(curve.x, curve.y[None], curve.error[None]))[0]


def pieces_many(curves: ManyBinned) -> list[list[Piece]]:
    """The pieces of each curve."""
    lines = _lines(curves)
    found: list[list[Piece]] = [[] for _ in range(len(curves.y))]
    columns = (lines.start, lines.end, -lines.slope, lines.error, lines.left, lines.right, lines.loose)
    for curve, *numbers in zip(lines.curve.tolist(), *(column.tolist() for column in columns), strict=True):
        piece = Piece(*numbers)
        line = found[curve]
        step = _step(line[-1], piece) if line else None
        line += [step, piece] if step else [piece]
    return found


def smooth_many(curves: ManyBinned) -> Float[np.ndarray, "curves bins"]:
    """ln loss on the pieces."""
    lines = _lines(curves)
    line = lines.of_bin
    return np.asarray(lines.left[line] + lines.slope[line] * (curves.x - lines.start[line]))


@dataclass(frozen=True)
class _Lines:
    """The pieces of all curves, one after another."""

    curve: Int[np.ndarray, "lines"]
    start: Lines
    end: Lines
    slope: Lines
    error: Lines
    left: Lines
    right: Lines
    loose: Lines
    of_bin: Int[np.ndarray, "curves bins"]
    """Which line a bin lies on."""


def _lines(curves: ManyBinned) -> _Lines:
    begins = _begins(curves)
    of_bin = np.cumsum(begins.ravel()).reshape(begins.shape) - 1
    first = np.flatnonzero(begins)
    curve, column = np.divmod(first, begins.shape[1])
    last = np.append(first[1:], begins.size) - 1
    x = np.broadcast_to(curves.x, curves.y.shape).ravel()
    y, weight = curves.y.ravel(), curves.error.ravel() ** -2.0
    total, wx, wy = (np.add.reduceat(values, first) for values in (weight, weight * x, weight * y))
    center, level = wx / total, wy / total
    offset = x - center[of_bin.ravel()]
    spread = np.add.reduceat(weight * offset**2, first)
    slope = np.add.reduceat(weight * offset * y, first) / spread
    start, end = curves.x[column], curves.x[column + last - first]
    far = np.maximum((start - center) ** 2, (end - center) ** 2)
    left, right = level + slope * (start - center), level + slope * (end - center)
    return _Lines(curve, start, end, slope, spread**-0.5, left, right, np.sqrt(1 / total + far / spread), of_bin)


def _begins(curves: ManyBinned) -> Bool[np.ndarray, "curves bins"]:
    """Whether a piece begins at a bin, from the cheapest cuts; a batch at a time, so that its sums stay in the cache."""
    parts = np.array_split(np.arange(len(curves.y)), -(-len(curves.y) // BATCH))
    return np.concatenate([_cut(curves.x, curves.y[rows], curves.error[rows]) for rows in parts])


def _cut(x: Float[np.ndarray, "bins"], y: Values, error: Values) -> Bool[np.ndarray, "curves bins"]:
    sums = _sums(x, y, error)
    rows, count = np.arange(len(y)), len(x)
    price = PRICE * np.log(count)
    best, previous = np.full((len(y), count + 1), np.inf), np.zeros((len(y), count + 1), int)
    best[:, 0] = -price
    for end in range(2, count + 1):
        totals = best[:, : end - 1] + _misfit(sums, end)
        previous[:, end] = totals.argmin(1)
        best[:, end] = totals[rows, previous[:, end]] + price
    begins = np.zeros(y.shape, bool)
    bound = np.full(len(y), count)
    while len(rows):
        bound = previous[rows, bound]
        begins[rows, bound] = True
        rows, bound = rows[bound > 0], bound[bound > 0]
    return begins


def _sums(x: Float[np.ndarray, "bins"], y: Values, error: Values) -> Float[np.ndarray, "6 curves bounds"]:
    """Running sums of 1, x, y, x^2, xy, y^2 with weights, from 0."""
    weight = error**-2.0
    x, y = x - x.mean(), y - y.mean(1, keepdims=True)
    powers = np.stack([weight, weight * x, weight * y, weight * x * x, weight * x * y, weight * y * y])
    return np.concatenate([np.zeros((*powers.shape[:2], 1)), np.cumsum(powers, axis=2)], axis=2)


def _misfit(sums: Float[np.ndarray, "6 curves bounds"], end: int) -> Float[np.ndarray, "curves starts"]:
    """Squared misfit, over the noise's variance, of the best line from each start (two bins at least) to `end`."""
    w, sx, sy, sxx, sxy, syy = sums[:, :, end, None] - sums[:, :, : end - 1]
    mean_x, mean_y = sx / w, sy / w
    cov = sxy - mean_x * sy
    misfit = syy - mean_y * sy - cov**2 / (sxx - mean_x * sx)
    return np.maximum(misfit, 0.0)


def _step(before: Piece, after: Piece) -> Piece | None:
    """The fall from one line to the next where it is steeper than both."""
    width = after.start - before.end
    steepness, error = (before.right - after.left) / width, float(np.hypot(before.loose, after.loose)) / width
    if steepness - max(before.steepness, after.steepness) < 5.0 * error:
        return None
    return Piece(before.end, after.start, steepness, error, before.right, after.left, max(before.loose, after.loose))
