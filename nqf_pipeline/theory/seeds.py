"""Seeds: how much of each mode the initial weights hold, and what is left of it once earlier modes have ignited.

In a feedforward layer a mode that has ignited occupies its direction in unit space. Later modes keep only the part of their
vector p_k that is orthogonal to it, so the seed that sets the clock is a Schur complement (squared Cholesky pivot) of the
Gram matrix p_j . p_k, taken in ignition order (theory: section 3). Entries of a vector G do not interact: their seed is z_k(0).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

Array = Any
EMPTY = 1e-24
"""A remainder below this share of the largest seed is squared rounding: no degree of freedom is left for the mode."""
NO_RATE = 1e-9
"""Rates below this share of the largest are rounding: G* has no such mode."""
EQUAL = 1e-6
"""Rates within this share of one another are degenerate."""


def effective_seeds(
    vectors: Float[Array, "modes degrees"], rate: Float[Array, "modes"], capacity: Float[Array, "modes"]
) -> tuple[Float[Array, "modes modes"], Float[Array, "modes"]]:
    """(rotation, effective z_k(0)): columns of the rotation are the modes, mixed only within sets of equal rate.

    The next mode to ignite is the earliest on the clock ln(1 + capacity / seed) / rate. Any basis serves modes of equal rate; in the one
    taken here they do not interact: the Gram matrix Q of the set obeys dQ/dt = r Q - C Q^2, whose eigenvectors
    stand still. Seeds are zero for modes beyond the number of degrees of freedom, which never ignite, and for rates that are not positive.
    """
    remainder = np.array(vectors, float)
    own = (remainder**2).sum(1)
    rotation, seeds = np.eye(len(own)), np.zeros(len(own))
    waiting = np.flatnonzero(rate > NO_RATE * np.max(rate, initial=0.0))
    while len(waiting):
        for equal in _equal(rate, waiting):
            axes = np.linalg.eigh(remainder[equal] @ remainder[equal].T)[1]
            remainder[equal], rotation[:, equal] = axes.T @ remainder[equal], rotation[:, equal] @ axes
        left = (remainder[waiting] ** 2).sum(1)
        left = np.where(left > EMPTY * own.max(), left, 0.0)
        # The 1 keeps modes whose seed exceeds their capacity, which occupy nothing, from going first.
        with np.errstate(divide="ignore"):
            clock = np.where(left > 0, np.log1p(capacity[waiting] / left) / rate[waiting], np.inf)
        first = int(np.argmin(clock))
        if not np.isfinite(clock[first]):
            break
        k = waiting[first]
        seeds[k] = left[first]
        direction = remainder[k] / np.sqrt(left[first])
        waiting = np.delete(waiting, first)
        remainder[waiting] -= (remainder[waiting] @ direction)[:, None] * direction
    return rotation, seeds


def _equal(rate: Float[Array, "modes"], waiting: Array) -> list[Array]:
    """Sets of two or more waiting modes whose rates are equal within `EQUAL`."""
    order = waiting[np.argsort(-rate[waiting], kind="stable")]
    breaks = np.flatnonzero(np.diff(rate[order]) < -EQUAL * rate[order[:-1]]) + 1
    return [part for part in np.split(order, breaks) if len(part) > 1]
