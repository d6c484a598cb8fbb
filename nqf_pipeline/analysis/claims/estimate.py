"""A measured number with its interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.theory.student import student

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """`value` with the ends of its interval."""

    value: float
    low: float
    high: float


def exactly(value: float) -> Estimate:
    """A number without spread: a count, or what deterministic dynamics give."""
    return Estimate(float(value), float(value), float(value))


def mean_of(values: Iterable[float]) -> Estimate:
    """Mean of independent draws with Student's 95 % interval; needs two. Raises Unresolved for fewer."""
    data = _several(values)
    half = float(student(CONFIDENCE, len(data) - 1) * data.std(ddof=1) / np.sqrt(len(data)))
    return Estimate(float(data.mean()), float(data.mean()) - half, float(data.mean()) + half)


def median_of(values: Iterable[float]) -> Estimate:
    """Median with the interval between order statistics that covers it in at least 95 % (all values, where there are too few for that).

    Infinite values take part.
    """
    from scipy import stats  # takes long to import, and most studies never need it

    data = np.sort(_several(values, infinite=True))
    ranks = np.arange(len(data) // 2 + 1)
    cut = max(int(ranks[stats.binom.cdf(ranks - 1, len(data), 0.5) <= (1 - CONFIDENCE) / 2].max()) - 1, 0)
    return Estimate(float(np.median(data)), float(data[cut]), float(data[-1 - cut]))


def span_of(values: Iterable[float]) -> Estimate:
    """Median with smallest and largest value: for statements about every single case. One value is enough."""
    data = np.asarray([*values], float)
    if not len(data) or not np.isfinite(data).all():
        raise Unresolved(f"{np.sum(~np.isfinite(data))} of {len(data)} values are missing")
    return Estimate(float(np.median(data)), float(data.min()), float(data.max()))


def share_of(hits: Iterable[bool]) -> Estimate:
    """Share of independent cases, with the exact (Clopper-Pearson) 95 % interval."""
    from scipy import stats  # takes long to import, and most studies never need it

    data = np.asarray([*hits], bool)
    if not len(data):
        raise Unresolved("there are no cases")
    interval = stats.binomtest(int(data.sum()), len(data)).proportion_ci(CONFIDENCE, "exact")
    return Estimate(float(data.mean()), float(interval.low), float(interval.high))


def _several(values: Iterable[float], infinite: bool = False) -> np.ndarray:
    data = np.asarray([*values], float)
    data = data[~np.isnan(data) if infinite else np.isfinite(data)]
    if len(data) < 2:
        raise Unresolved(f"an interval needs at least two values, and there {'is one' if len(data) else 'are none'}")
    return data
