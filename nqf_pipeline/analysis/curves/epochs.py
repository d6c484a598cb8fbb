"""Drops with a fixed period in linear time: memorised data, seen again at every epoch boundary. No ignition of anything.

A drop is a step between the means of the records just before and just after. Three or more of them that stand on a lattice of equal
distances, most of whose places are taken, are a period. Where the file counts epochs, the period has to be one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nqf_pipeline.analysis.curves.noise import Noise

FEWEST = 4
"""Drops that make a period; three will do where the file counts epochs and agrees."""
TAKEN = 0.7
"""Share of the lattice's places that must hold a drop."""
OFF = 0.08
"""Largest root mean square distance from the lattice, in periods."""
INSIDE = 5
"""Fewest records in a period: steps between fewer cannot be told from a slope."""
SIGNIFICANT = 6.0
CORRELATED = 4.0
"""Largest inflation of the noise believed here."""
SHARP = 4.0
"""A step over the typical change across as many records, and over those just before and after it, at least."""
STEP = 0.01
"""Smallest step, in ln loss."""
Values = Float[np.ndarray, "records"]


@dataclass(frozen=True)
class Staircase:
    """Equidistant drops."""

    period: float
    times: Float[np.ndarray, "drops"]
    factors: Float[np.ndarray, "drops"]
    """Loss before over loss after."""
    spread: float
    """Half the distance between records: how well the times are known."""
    of_epochs: bool
    """The file counts epochs, and this is their length."""

    def holds(self, time: float) -> bool:
        """Whether a drop at this time is one of these."""
        return bool(np.abs(self.times - time).min() < self.period / 4)


def staircase(time: Values, loss: Values, rough: Noise, epoch: Values | None) -> Staircase | None:
    """The equidistant drops of a curve, or None."""
    length = _epoch_length(time, epoch)
    widths = [width for width in (2, 3, 5, 8, 12, 20, 40, 80) if len(time) >= 8 * width]
    for width in widths[::-1]:
        where, size = _drops(np.log(loss), width, rough)
        found = _lattice(time, where, size, length)
        if found is not None:
            return found
    return None


def per_epoch(time: Values, epoch: Values | None) -> bool:
    """Whether there is one record an epoch, at its end: nothing is known of what happens inside."""
    return epoch is not None and len(time) > 3 and bool(np.allclose(np.diff(epoch), 1.0) and np.allclose(epoch, np.round(epoch)))


def _epoch_length(time: Values, epoch: Values | None) -> float | None:
    if epoch is None or len(time) < 3 or np.ptp(epoch) <= 0 or np.corrcoef(time, epoch)[0, 1] < 0.999:
        return None
    return float(np.ptp(time) / np.ptp(epoch))


def _drops(log_loss: Values, width: int, rough: Noise) -> tuple[np.ndarray, Values]:
    """(first record after each drop, its size in ln loss)."""
    means = np.convolve(log_loss, np.full(width, 1 / width), "valid")
    fall = means[:-width] - means[width:]
    # A staircase itself looks like noise correlated over periods: only so much correlation is believed; the lattice does the rest.
    error = rough.deviation * float(np.sqrt(2.0 * min(rough.inflation, CORRELATED) / width))
    least = max(STEP, SIGNIFICANT * error, SHARP * float(np.median(np.abs(fall))))
    padded = np.pad(fall, width, constant_values=-np.inf)
    highest = np.lib.stride_tricks.sliding_window_view(padded, 2 * width + 1).max(1)
    around = np.pad(fall, 2 * width, constant_values=0.0)
    beside = np.maximum(around[: len(fall)], around[4 * width :])  # a steep slope falls before or after as well
    peaks = np.flatnonzero((fall > least) & (fall == highest) & (fall > SHARP * beside))
    return peaks + width, fall[peaks]


def _lattice(time: Values, where: np.ndarray, size: Values, length: float | None) -> Staircase | None:
    if len(where) < 3:
        return None
    times = (time[where] + time[where - 1]) / 2
    period = float(np.median(np.diff(times)))
    place = np.round((times - times[0]) / period)
    if len(np.unique(place)) < len(place):
        return None
    period, origin = (float(value) for value in np.polyfit(place, times, 1))
    off = (times - origin - period * place) / period
    known = length is not None and abs(period / length - 1) < 0.1
    inside = np.sum((time >= times[0]) & (time <= times[-1])) / (place[-1] - place[0])
    if len(times) < (3 if known else FEWEST) or inside < INSIDE:
        return None
    if np.sqrt(np.mean(off**2)) > OFF or len(place) < TAKEN * (place[-1] - place[0] + 1):
        return None
    return Staircase(period, times, np.exp(size), float(np.median(np.diff(time))) / 2, known)
