"""Is there a power-law range in a spectrum? A stated rule, with "no" as an answer.

Of all ranges of modes [a, b] that span at least `DECADES` of rank and `SPAN` of the whole spectrum's, and hold at least `MODES` modes, a
range is accepted when ln value against ln k, every decade of rank weighing alike,

1. falls: the slope is steeper than `FLAT`;
2. is straight: the slope that a lognormal alternative (a parabola in ln k) gives at both ends differs by at most `BEND` of their mean;
3. is closer to a power law than to an exponential c exp(-b k), with as many parameters, in squared residuals;
4. is known: the interval's half-width is at most `VAGUE` of the slope.

The longest accepted range counts (in decades of rank). The interval is the wider of two: a
t-interval of the jackknife over `BLOCKS` blocks of equal length in ln k, which scatter that is correlated from mode to mode does not fool,
and the regression's own for independent scatter. A spectrum has a power-law range
where rates and loss shares, both over the number of the mode in the order of the rates, are accepted on the same range.

What the rule cannot tell: the upper half of a broad lognormal sample, ordered by size, is straight enough over the decade or two that a
spectrum of 64 to 400 modes has (accepted in most draws). Exponential spectra, random matrices and white noise are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nqf_pipeline.theory.student import student

Values = Float[np.ndarray, "modes"]
DECADES = 1.0
SPAN = 0.5
MODES = 10
FLAT = 0.1
BEND = 1 / 4
VAGUE = 0.25
BLOCKS = 6
STARTS = 16
"""Candidate first modes and last modes of a range, log-spaced."""


@dataclass(frozen=True)
class Law:
    """value = amplitude k^-exponent on a range of modes, with what the rule looked at."""

    exponent: float
    low: float
    high: float
    bend: float
    """Difference of the slopes at both ends over their mean, from the parabola."""
    over_exponential: float
    """Squared residuals of the exponential over those of the power law."""
    residual: float
    """Root mean square of the residuals of ln value."""

    @property
    def refused(self) -> str:
        """Which condition fails; empty: none."""
        if self.exponent <= FLAT:
            return f"flat: it falls as k^-{self.exponent:.2g}"
        if self.bend > BEND:
            return f"bent: its slope changes by {self.bend:.0%} of its mean"
        if self.over_exponential < 1:
            return "an exponential fits better"
        if self.high - self.low > 2 * VAGUE * self.exponent:
            return f"too scattered: its exponent is {self.exponent:.2g}, between {self.low:.2g} and {self.high:.2g}"
        return ""


@dataclass(frozen=True)
class Range:
    """What the search found in some spectra over the same modes."""

    first: int
    last: int
    laws: tuple[Law, ...]
    reason: str
    """Why there is no power-law range; empty: there is one. Range and laws are then those that came closest."""

    @property
    def found(self) -> bool:
        return not self.reason

    @property
    def decades(self) -> float:
        return float(np.log10(self.last / self.first)) if self.last > self.first else 0.0


def power_law_range(spectra: Sequence[Values], names: Sequence[str], confidence: float = 0.95) -> Range:
    """Search a common range; `names` name the spectra in the reason. Values are positive, over k = 1, 2, ..."""
    count = len(spectra[0])
    if count < MODES:
        text = f"too few modes: {count}, which cannot span {DECADES:g} decade of rank"
        return Range(1, max(count, 1), (), text)
    misses = []
    for first, last in sorted(_candidates(count), key=lambda ends: ends[0] / ends[1]):
        laws = tuple(law(values, first, last, confidence) for values in spectra)
        refused = [f"{name}: {found.refused}" for name, found in zip(names, laws, strict=True) if found.refused]
        if not refused:
            return Range(first, last, laws, "")
        reason = f"no straight stretch of {DECADES:g} decade; over modes {first} to {last} {'; '.join(refused)}"
        misses.append((len(refused), Range(first, last, laws, reason)))
    return min(misses, key=lambda miss: miss[0])[1]


def _candidates(count: int) -> Iterator[tuple[int, int]]:
    """Ranges long enough, ends log-spaced from the whole inward."""
    shortest = max(10**DECADES, count**SPAN)
    starts = np.unique(np.geomspace(1, max(count / shortest, 1), STARTS).round().astype(int))
    for first in starts:
        for last in np.unique(np.geomspace(first * shortest, count, STARTS).round().astype(int)):
            if last - first + 1 >= MODES and last / first >= shortest * (1 - 1e-9) and last <= count:
                yield int(first), int(last)


def law(values: Values, first: int, last: int, confidence: float = 0.95) -> Law:
    """The power law of modes `first` to `last`, and its alternatives."""
    number = np.arange(first, last + 1.0)
    x, y, weight = np.log(number), np.log(values[first - 1 : last]), 1 / number
    slope, left = _line(x, y, weight)
    centre = x - np.average(x, weights=weight)
    square, line = _fit(np.stack([centre**2, centre, np.ones_like(x)]), y, weight)[:2]
    ends = np.array([line + 2 * square * centre[0], line + 2 * square * centre[-1]])
    bend = abs(ends[1] - ends[0]) / abs(ends.mean()) if ends.mean() else np.inf
    exponential = _line(number, y, weight)[1]
    half = max(_block_error(x, y, weight, confidence), _plain_error(x, y - slope * x, weight, confidence))
    ratio = exponential / left if left > 0 else np.inf
    spread = float(np.sqrt(left / weight.sum()))
    return Law(-slope, -slope - half, -slope + half, float(bend), float(ratio), spread)


def _fit(columns: Float[np.ndarray, "columns modes"], y: Values, weight: Values) -> Float[np.ndarray, "columns"]:
    root = np.sqrt(weight)
    return np.asarray(np.linalg.lstsq((columns * root).T, y * root, rcond=None)[0])


def _line(x: Values, y: Values, weight: Values) -> tuple[float, float]:
    """(slope, weighted sum of squared residuals) of a straight line."""
    dx, dy = x - np.average(x, weights=weight), y - np.average(y, weights=weight)
    slope = float(np.sum(weight * dx * dy) / np.sum(weight * dx**2))
    return slope, float(np.sum(weight * (dy - slope * dx) ** 2))


def _block_error(x: Values, y: Values, weight: Values, confidence: float) -> float:
    """Delete-one-block jackknife of the slope, blocks of equal length in ln k (those without a mode are none)."""
    edges = np.linspace(x[0], x[-1], BLOCKS + 1)
    block = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, BLOCKS - 1)
    kept = [block != b for b in np.unique(block)]
    slopes = np.array([_line(x[k], y[k], weight[k])[0] for k in kept])
    count = len(slopes)
    error = np.sqrt((count - 1) / count * np.sum((slopes - slopes.mean()) ** 2))
    return float(student(confidence, count - 1) * error)


def _plain_error(x: Values, rest: Values, weight: Values, confidence: float) -> float:
    """The weighted slope's own error were the scatter independent from mode to mode, of one size."""
    dx = x - np.average(x, weights=weight)
    rest = rest - np.average(rest, weights=weight)
    effective = weight.sum() ** 2 / np.sum(weight**2)
    variance = np.average(rest**2, weights=weight) * effective / max(effective - 2, 1)
    error = np.sqrt(variance * np.sum((weight * dx) ** 2)) / np.sum(weight * dx**2)
    return float(student(confidence, max(effective - 2, 1)) * error)
