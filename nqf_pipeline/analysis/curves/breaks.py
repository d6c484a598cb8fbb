"""What a curve must not be fitted through: spikes, jumps to a higher loss, slow rises.

A spike rises within a few records far above the noise and comes back as quickly; its records are left out. A jump does not come back at
once: the curve breaks there, and the pieces are described apart. A rise is slow: seen on the curve in bins of log time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from nqf_pipeline.analysis.curves.bins import Binned, ManyBinned
from nqf_pipeline.analysis.curves.noise import Noise

BEGINNING = 3
"""Records at the start that may jump without breaking the curve: training often begins with a rise."""
REACH = 6
"""Records within which a spike rises and comes back."""
SIGNIFICANT = 8.0
"""Deviations of the noise that single records must stand out by: thousands are looked at, and noise has tails."""
FEWEST = 20
"""Records of a curve whose first one can stand apart."""
APART = 0.01
"""Smallest such distance, in ln loss."""
SPIKE, JUMP, RISE = np.log(1.1), np.log(2.0), np.log(1.05)
"""Smallest spike, jump and rise, in ln loss."""
Values = Float[np.ndarray, "records"]


def spikes(log_loss: Values, rough: Noise) -> Bool[np.ndarray, "records"]:
    """Records that stand above what comes shortly before and shortly after."""
    least = max(SPIKE, SIGNIFICANT * rough.deviation)
    up = log_loss - _lowest(log_loss, before=True)
    down = log_loss - _lowest(log_loss, before=False)
    # Back means back: a jump that then decays has fallen a little a few records later, too.
    return (up > least) & (down > least) & (down > up / 2)


def first_apart(log_loss: Values, rough: Noise) -> bool:
    """Whether the first record is above the second by far more than the next five fall together, and than noise."""
    if len(log_loss) < FEWEST:
        return False
    gap, after = log_loss[0] - log_loss[1], np.ptp(log_loss[1:7])
    return bool(gap > max(APART, SIGNIFICANT * rough.deviation, 5.0 * after))


def jumps(log_loss: Values, rough: Noise) -> list[int]:
    """Records at which the loss has at least doubled at once, and stays up."""
    least = max(JUMP, SIGNIFICANT * rough.deviation)
    high = np.flatnonzero(np.diff(log_loss) > least) + 1
    high = high[high >= BEGINNING]
    return [int(i) for i in high if np.median(log_loss[i : i + 3]) - log_loss[i - 1] > least / 2]


def _lowest(values: Values, before: bool) -> Values:
    """Lowest of the neighbouring records on one side; infinite where there are none."""
    padded = np.concatenate([np.full(REACH, np.inf), values, np.full(REACH, np.inf)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, REACH)
    return windows[: len(values)].min(1) if before else windows[REACH + 1 :].min(1)


@dataclass(frozen=True)
class Rise:
    """From the lowest loss before to the highest after it."""

    start: float
    end: float
    low: float
    high: float


def rise(curve: Binned) -> Rise | None:
    """The largest rise of a curve in bins, if it is more than noise."""
    if len(curve.x) < 3:
        return None
    lowest = np.minimum.accumulate(curve.y)
    gain = curve.y - lowest
    top = int(np.argmax(gain))
    bottom = int(np.argmin(curve.y[: top + 1]))
    error = float(np.hypot(curve.error[top], curve.error[bottom]))
    if gain[top] <= max(RISE, 5.0 * error):
        return None
    return Rise(float(curve.time[bottom]), float(curve.time[top]), float(curve.loss[bottom]), float(curve.loss[top]))


def rises(curves: ManyBinned) -> Bool[np.ndarray, "curves"]:
    """Whether each of many curves rises by more than noise."""
    gain = curves.y - np.minimum.accumulate(curves.y, axis=1)
    return np.asarray((gain > np.maximum(RISE, 5.0 * np.sqrt(2.0) * curves.error.max(1, keepdims=True))).any(1))


def falling(curve: Binned) -> list[tuple[int, int]]:
    """Stretches of bins without a rise, first to last - 1, longest in log time first."""
    pieces, first, count = [], 0, len(curve.x)
    while first < count:
        last = _until_rise(curve, first)
        pieces.append((first, last))
        first = max(last, first + 1)
    return sorted(pieces, key=lambda piece: curve.x[piece[0]] - curve.x[piece[1] - 1])


def _until_rise(curve: Binned, first: int) -> int:
    """The bin after the lowest one that precedes the next significant rise; a rise at the start is stepped over."""
    bottom = first
    for i in range(first + 1, len(curve.x)):
        if curve.y[i] < curve.y[bottom]:
            bottom = i
        if curve.y[i] - curve.y[bottom] > max(RISE, 5.0 * float(np.hypot(curve.error[i], curve.error[bottom]))):
            return max(bottom, first) + 1
    return len(curve.x)
