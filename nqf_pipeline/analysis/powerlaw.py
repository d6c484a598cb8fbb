"""A floor-aware power law, E = A t^-k + floor, fitted to windows of loss curves, one or a hundred thousand.

Residuals are those of ln E, so that each decade weighs alike. With a known floor the fit is a straight line in ln(E - floor); with an
unknown one ln A is projected out (it enters linearly) and k and s = ln(floor / A) are found by Levenberg-Marquardt, for many curves on one
time grid together. Starts are the best shapes of a table that all of them share, so looking them up is a matrix product. Plain NumPy does
tens of thousands of fits a second on one core in float64, and no compiler has to start for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

_EXPONENTS = np.geomspace(0.03, 6.0, 24)
_SHARES = np.array([1e-4, 1e-2, 0.1, 0.3, 0.6, 0.9, 0.99])
"""Starts: floors as shares of the loss at the end of the range; and at marks inside it, where a window may end."""
_MARKS = 4
_LOOKED_AT = 64
"""Points of a curve (of twice as many at most) that choose its start."""
_ROUNDS, _PRECISION = 60, 1e-10
_LEAVE = 0.25
"""Share of the curves that must have converged before they leave a batch: leaving copies the others."""
_CHUNK = 256
"""Curves fitted together: their arrays stay in the cache."""
_REACH = 1.5
"""Longest step in ln(floor / A)."""
_LIMITS = np.array([[60.0], [600.0]])
"""Of k and s: beyond, they mean nothing and would overflow."""
Curve = Float[np.ndarray, "points"]
Curves = Float[np.ndarray, "curves points"]
Numbers = Float[np.ndarray, "curves"]
Pair = Float[np.ndarray, "2 curves"]
"""Of k and s."""


@dataclass(frozen=True)
class PowerLaw:
    """A fitted power law; all NaN where there was nothing to fit."""

    exponent: float
    amplitude: float
    floor: float
    residual: float
    """Root mean square of the residuals of ln E."""

    def __call__(self, time: Curve) -> Curve:
        return self.amplitude * time**-self.exponent + self.floor


@dataclass(frozen=True)
class PowerLaws:
    """Fits of many curves; NaN where a curve could not be fitted (fewer than three points, a loss that has no logarithm)."""

    exponent: Numbers
    amplitude: Numbers
    floor: Numbers
    residual: Numbers

    def __getitem__(self, curve: int) -> PowerLaw:
        return PowerLaw(float(self.exponent[curve]), float(self.amplitude[curve]), float(self.floor[curve]), float(self.residual[curve]))


def fit(time: Curve, loss: Curve, floor: float | None = 0.0) -> PowerLaw:
    """Fit a window of a curve; `floor` is what the loss cannot go below, or None to fit it (then at least 0)."""
    if floor is None:
        return fit_many(time, loss[None])[0]
    excess = np.log(loss - floor)
    x = np.log(time)
    slope, intercept = _line(x, excess[None])
    residual = excess - intercept[0] - slope[0] * x
    return PowerLaw(-float(slope[0]), float(np.exp(intercept[0])), floor, float(np.sqrt(np.mean(residual**2))))


def straight_many(time: Curve, loss: Curves) -> Numbers:
    """Exponents of many curves whose floor is taken off, by straight lines in the logarithms; NaN where one has no logarithm."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return -_line(np.log(time), np.log(loss))[0]


def _line(x: Curve, y: Curves) -> tuple[Numbers, Numbers]:
    """(slope, intercept) of each row; sums in the order of the records, so that a row's bits do not depend on the others."""
    middle, level = x.mean(), y.mean(1)
    slope = ((x - middle) * (y - level[:, None])).sum(1) / ((x - middle) ** 2).sum()
    return slope, level - slope * middle


def fit_many(time: Curve, loss: Curves, inside: Bool[np.ndarray, "curves points"] | None = None) -> PowerLaws:
    """Fit each row of `loss` (all on one time grid) where `inside` is True, floor included."""
    x = np.log(time)
    origin = float(x.mean())  # a well-conditioned amplitude: the one at the middle of the range
    x = x - origin
    with np.errstate(invalid="ignore", divide="ignore"):
        y = np.log(loss)
    weight = np.isfinite(y) if inside is None else inside & np.isfinite(y)
    y, enough = np.where(weight, y, 0.0), weight.sum(1) >= 3
    parts = np.array_split(np.arange(len(y)), max(1, -(-len(y) // _CHUNK)))
    table = _table(x[:: max(1, len(x) // _LOOKED_AT)], 1 if weight.all() else _MARKS)
    found = np.concatenate([_fitted(x, y[rows], weight[rows].astype(float), table) for rows in parts], axis=1)
    exponent, log_share, log_amplitude, residual = np.where(enough, found, np.nan)
    with np.errstate(over="ignore", under="ignore"):
        amplitude, floor = np.exp(log_amplitude + exponent * origin), np.exp(log_amplitude + log_share)
    return PowerLaws(exponent, amplitude, floor, residual)


def influence(time: Curve, laws: PowerLaws, inside: Bool[np.ndarray, "curves points"]) -> Curves:
    """By how much each fitted exponent moves with ln E at each point, to first order; 0 outside the window."""
    x = np.log(time) - np.log(time).mean()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        log_share = np.log(laws.floor / laws.amplitude) + laws.exponent * np.log(time).mean()
        share = 1 / (1 + np.exp(np.clip(-laws.exponent[:, None] * x - log_share[:, None], -700, 700)))
    count = np.maximum(inside.sum(1, keepdims=True), 1)
    columns = [np.where(inside, column, 0.0) for column in (x * (share - 1.0), share)]
    by_exponent, by_share = (np.where(inside, column - column.sum(1, keepdims=True) / count, 0.0) for column in columns)
    kk, ks, ss = (np.einsum("cp,cp->c", *pair)[:, None] for pair in ((by_exponent,) * 2, (by_exponent, by_share), (by_share,) * 2))
    known = ss <= 1e-9 * kk  # a floor of 0 has no say
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, by_exponent / kk, (ss * by_exponent - ks * by_share) / (kk * ss - ks**2))


@dataclass(frozen=True)
class _Table:
    """Shapes ln(t^-k + floor / A) on the grid of the curves."""

    exponent: Float[np.ndarray, "shapes"]
    log_share: Float[np.ndarray, "shapes"]
    shape: Float[np.ndarray, "points shapes"]


def _table(x: Curve, marks: int) -> _Table:
    ends = np.linspace(x[0], x[-1], marks + 1)[1:]
    exponent, share, end = (part.ravel() for part in np.meshgrid(_EXPONENTS, _SHARES, ends, indexing="ij"))
    log_share = np.log(share / (1 - share)) - exponent * end
    return _Table(exponent, log_share, np.logaddexp(-x[:, None] * exponent, log_share))


def _fitted(x: Curve, y: Curves, weight: Curves, table: _Table) -> Float[np.ndarray, "4 curves"]:
    """(exponent, log share, log amplitude, residual) of each curve: the best shape of the table, followed to the end."""
    every = max(1, len(x) // _LOOKED_AT)
    cost = _costs(y[:, ::every], weight[:, ::every], table.shape)
    best = cost.argmin(1)
    found = _descended(x, y, weight, np.stack([table.exponent[best], table.log_share[best]]))
    return np.stack([*found[:3], np.sqrt(found[3] / np.maximum(weight.sum(1), 1.0))])


def _costs(y: Curves, weight: Curves, shape: Float[np.ndarray, "points shapes"]) -> Float[np.ndarray, "curves shapes"]:
    """Squared misfit of every shape at its best amplitude, less what is the same for all."""
    level = weight * y
    gap = weight @ shape - level.sum(1)[:, None]
    return weight @ shape**2 - 2 * level @ shape - gap**2 / np.maximum(weight.sum(1), 1.0)[:, None]


def _descended(x: Curve, y: Curves, weight: Curves, start: Pair) -> Float[np.ndarray, "4 curves"]:
    """Levenberg-Marquardt on (k, s) from a start each; curves that have converged leave the batch."""
    total = np.maximum(weight.sum(1), 1.0)
    done = np.full((4, len(y)), np.nan)
    active, at, damping = np.arange(len(y)), start, np.full(len(y), 1e-3)
    here = _linear(x, y, weight, (weight * y).sum(1) / total, at)
    for _ in range(_ROUNDS):
        step = _step(at, here[2:4], here[4:7], damping)
        trial = np.clip(at + step, -_LIMITS, _LIMITS)
        there = _linear(x, y, weight, here[1], trial)
        better = there[0] <= here[0]
        gain = here[0] - there[0]
        at, here = np.where(better, trial, at), np.where(better, there, here)
        damping = np.clip(np.where(better, damping * 0.1, damping * 10), 1e-6, 1e12)
        settled = (damping <= 1e-2) & (np.abs(gain) <= _PRECISION * here[0])
        finished = settled | (damping >= 1e9) | ~np.isfinite(here[0]) | (here[0] < 1e-26 * total)
        if finished.mean() > _LEAVE:
            done[:, active[finished]] = np.stack([*at[:, finished], here[1, finished], here[0, finished]])
            keep = ~finished
            active, y, weight, total, damping = active[keep], y[keep], weight[keep], total[keep], damping[keep]
            at, here = at[:, keep], here[:, keep]
            if not len(active):
                break
    done[:, active] = np.stack([*at, here[1], here[0]])
    return done


def _linear(x: Curve, y: Curves, weight: Curves, level: Numbers, at: Pair) -> Float[np.ndarray, "7 curves"]:
    """(cost, ln A, gradient by k and s, Hessian kk, ks, ss) of the cost with ln A projected out; `level`: ln A as far as it is known."""
    share = np.exp(at[1])[:, None]
    both = np.exp(-at[0][:, None] * x) + share
    columns = np.empty((len(y), 4, len(x)))
    columns[:, 0] = 1.0
    columns[:, 1] = y - np.log(both) - level[:, None]
    np.divide(share, both, out=columns[:, 3])
    columns[:, 2] = x * (columns[:, 3] - 1.0)  # derivative of the shape by k
    columns *= weight[:, None]
    moments = columns @ columns.transpose(0, 2, 1)
    mean = moments[:, 0, 1:] / np.maximum(moments[:, 0, :1], 1.0)
    central = moments[:, 1:, 1:] - moments[:, 0, 1:, None] * mean[:, None]
    cost, gk, gs, kk, ks, ss = (central[:, i, j] for i, j in ((0, 0), (1, 0), (2, 0), (1, 1), (1, 2), (2, 2)))
    return np.stack([np.maximum(cost, 0.0), level + mean[:, 0], gk, gs, kk, ks, ss])


def _step(at: Pair, gradient: Pair, hessian: Float[np.ndarray, "3 curves"], damping: Numbers) -> Pair:
    """Where s may not go as far as it wants, k takes the best step for where it goes."""
    (gk, gs), (kk, ks, ss) = gradient, hessian
    kk, ss = kk * (1 + damping) + 1e-300, ss * (1 + damping) + 1e-300
    determinant = kk * ss - ks**2
    wanted = (kk * gs - ks * gk) / np.where(determinant > 0, determinant, np.inf)
    by_share = np.clip(wanted, -_REACH, _REACH)
    free = (gk - ks * by_share) / kk
    by_exponent = np.clip(free, -0.5 - 0.5 * np.abs(at[0]), 0.5 + 0.5 * np.abs(at[0]))
    return np.stack([by_exponent, by_share])
