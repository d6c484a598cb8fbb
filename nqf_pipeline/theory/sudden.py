"""Sudden or gradual: are the steps of learning apart, compared with how long each takes?

A logistic mode of growth rate r needs ln 81 / r from 10 to 90 % of its plateau (the clock of theory section 4 at rho = 0.9 and 0.1), at any
seed, while the waiting times before and between steps grow as ln(1/epsilon). The *separation* of a step from the one before it is the
distance of their half-saturations over the mean of their two widths, the way chromatography measures resolution; the start of training is
an event of width zero. Above 1 the earlier mode has passed 90 % before the later one passes 10 %: a plateau lies between them. (Halfway
between two steps alike the fall has slowed down to 69 % at 1, and not at all at 0.6, the Sparrow limit.) Learning is called sudden when a
plateau precedes more than half of the steps. As epsilon -> 0 every step between unequal rates is separated.

Times and rates may be in any unit, as long as it is the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

Array = Any
RISE = float(np.log(81.0))
"""Growth of ln(z / (z(inf) - z)) from 10 to 90 % of the plateau."""
THRESHOLD = 1.0
"""Separation above which a plateau lies between two steps."""
EQUAL = 1e-6
"""Rates within this share of one another never come apart."""
DEEPEST = 1e6
"""ln(1/epsilon) beyond which the limit is taken as it is."""


@dataclass(frozen=True)
class Verdict:
    """The separations of all steps, in order of time, and what follows from them."""

    separation: Float[np.ndarray, "steps"]

    @property
    def steps(self) -> int:
        return len(self.separation)

    @property
    def plateaus(self) -> int:
        """Steps that a plateau precedes."""
        return int(np.sum(self.separation > THRESHOLD))

    @property
    def sudden(self) -> bool:
        """A plateau precedes more than half of the steps; without any step nothing is sudden."""
        return 2 * self.plateaus > self.steps


def verdict(time: Float[Array, "modes"], rate: Float[Array, "modes"], end: float = np.inf) -> Verdict:
    """From half-saturation times and growth rates of ln z; modes that never ignite, or only after `end`, make no step."""
    time, rate = np.asarray(time, float), np.asarray(rate, float)
    steps = np.flatnonzero(np.isfinite(time) & (rate > 0) & (time <= end))
    order = steps[np.argsort(time[steps], kind="stable")]
    width = np.concatenate([[0.0], RISE / rate[order]])
    return Verdict(np.diff(time[order], prepend=0.0) / ((width[1:] + width[:-1]) / 2))


def half_time(log_share: Float[Array, "modes"], rate: Float[Array, "modes"]) -> Float[np.ndarray, "modes"]:
    """Half-saturation of logistic modes from ln(z(0) / z(inf)): 0 for a seed above one half, inf for an empty one or without growth."""
    share, rate = np.asarray(log_share, float), np.asarray(rate, float)
    grows = (rate > 0) & (share > -np.inf)
    low = np.minimum(np.where(grows, share, 0.0), np.log(0.5))
    return np.where(grows, (np.log1p(-np.exp(low)) - low) / np.where(grows, rate, 1.0), np.inf)


def sudden_in_the_limit(rate: Float[Array, "modes"]) -> bool:
    """The verdict for epsilon -> 0 and a run long enough for every mode: are more than half of the steps at a rate of their own?"""
    falling = -np.sort(-np.asarray(rate, float)[np.asarray(rate) > 0])
    apart = np.diff(falling, prepend=np.inf) < -EQUAL * falling
    return bool(2 * apart.sum() > len(falling))


def sudden_below(rate: Float[Array, "modes"], log_profile: Float[Array, "modes"]) -> float:
    """ln of the epsilon below which learning is sudden, for seeds with ln(z(0) / z(inf)) = ln(epsilon) + log_profile.

    The crossover of finite-size scaling with ln(1/epsilon) as system size: by bisection. -inf: never; 0: sudden at epsilon = 1 already.
    """

    def sudden(depth: float) -> bool:
        return verdict(half_time(np.asarray(log_profile) - depth, rate), rate).sudden

    if sudden(0.0):
        return 0.0
    if not sudden(DEEPEST):
        return -np.inf
    shallow, deep = 0.0, DEEPEST
    while deep - shallow > 1e-6 * deep:
        middle = (shallow + deep) / 2
        shallow, deep = (shallow, middle) if sudden(middle) else (middle, deep)
    return -deep
