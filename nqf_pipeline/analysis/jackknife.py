"""Exponents with each seed left out in turn, as `exponents.estimate` gives them, at a cost linear in the number of seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from nqf_pipeline.analysis.powerlaw import fit_many, straight_many
from nqf_pipeline.analysis.windows import MODES, POINTS, Window
from nqf_pipeline.study.config import WindowRule

if TYPE_CHECKING:
    from nqf_pipeline.analysis.exponents import Curves

Seeds = Float[np.ndarray, "seeds"]


def without_each(curves: Curves, rule: WindowRule, one: Callable[[int], float]) -> Seeds:
    """The exponent of the mean curve without each seed, in the window of the others. `one` gives it for a single seed: it is asked where
    the window is not the rule's plain one, or a mean not finite, and raises Unresolved where there is no exponent."""
    start, end = _windows(curves, rule)
    inside = np.array([Window(*ends, float("nan")).of(curves.time) for ends in zip(start, end, strict=True)])
    plain = np.flatnonzero(inside.sum(1) >= POINTS)
    found = np.full(len(start), np.nan)
    masks, group = np.unique(inside[plain], axis=0, return_inverse=True)
    for number, mask in enumerate(masks):
        seeds = plain[group.ravel() == number]
        found[seeds] = _fits(curves, seeds, mask)
    for seed in np.flatnonzero(np.isnan(found)):
        found[seed] = one(int(seed))
    return found


def _windows(curves: Curves, rule: WindowRule) -> tuple[Seeds, Seeds]:
    """Start and end of the rule's window without each seed; NaN where some condition of the rule is not met."""
    order = np.argsort(curves.number)
    number, middle = curves.number[order], _medians(curves.ignition)[:, order]
    last = rule.last_share * int(number.max(initial=0))
    ends = np.full((2, len(middle)), np.nan)
    for seed, row in enumerate(middle):
        seen = np.isfinite(row)
        reached = min(last, float(number[seen].max(initial=0)))
        if last - rule.first_mode >= MODES and reached - rule.first_mode >= MODES:
            modes = np.log([rule.first_mode, reached])
            ends[:, seed] = np.exp(np.interp(modes, np.log(number[seen]), np.maximum.accumulate(row[seen])))
    ends[:, ~(np.log10(ends[1] / ends[0]) >= rule.decades)] = np.nan
    return ends[0], ends[1]


def _medians(ignition: Float[np.ndarray, "seeds modes"]) -> Float[np.ndarray, "seeds modes"]:
    """Median of ln ignition over the other seeds; NaN counts as never."""
    with np.errstate(divide="ignore"):
        times = np.log(np.where(np.isnan(ignition), np.inf, ignition))
    rank, ascending = times.argsort(0, kind="stable").argsort(0, kind="stable"), np.sort(times, axis=0)
    left = len(times) - 1
    low, high = (np.take_along_axis(ascending, place + (rank <= place), 0) for place in ((left - 1) // 2, left // 2))
    return np.asarray((low + high) / 2)


def _fits(curves: Curves, seeds: np.ndarray, inside: Bool[np.ndarray, "points"]) -> Seeds:
    """Exponents without each of some seeds, which share a window; NaN where a mean is not finite in it."""
    time, loss, found = curves.time[inside], curves.loss[:, inside], np.full(len(seeds), np.nan)
    means = _means(loss, seeds)
    free = np.asarray(np.isfinite(means).all(1))
    if curves.floor is not None:
        excess = _means(loss - curves.floor[:, None], seeds)
        above = free & np.asarray((excess > 0).all(1))
        found[above] = straight_many(time, excess[above])
        free &= ~above
    if free.any():
        found[free] = fit_many(time, means[free]).exponent
    return found


def _means(values: Float[np.ndarray, "seeds points"], left_out: np.ndarray) -> Float[np.ndarray, "left_out points"]:
    with np.errstate(invalid="ignore", over="ignore"):  # of runs that diverged
        return np.asarray((values.sum(0) - values[left_out]) / (len(values) - 1))
