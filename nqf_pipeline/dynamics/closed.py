"""Closed forms of gradient flow for single modes (NumPy): the logistic law and the two parts of a product.

A mode z = |w|^2 obeys dz/dt = z (r - C z) (theory: Theorems 4 to 6 and Corollary 4 reduce to it). Forms are written in decaying
exponentials only, so that nothing overflows for r t from -1e4 to 1e6; an empty seed stays empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

Array = Any


def logistic(time: Float[Array, "..."], rate: Float[Array, "..."], saturation: Float[Array, "..."], seed: Float[Array, "..."]) -> Array:
    """z(time) for z(0) = seed >= 0 and time >= 0; arguments broadcast, and their common floating-point type is kept."""
    time, rate, saturation, seed = _floats(time, rate, saturation, seed)
    decay = np.exp(-np.abs(rate) * time)
    crowding = saturation * seed * saturating_time(time, rate)
    with np.errstate(invalid="ignore", divide="ignore"):
        grown = seed / np.where(seed > 0, decay + crowding, 1)
    return np.where(rate >= 0, grown, seed * decay / (1 + crowding))


def saturating_time(time: Float[Array, "..."], rate: Float[Array, "..."]) -> Array:
    """(1 - exp(-|rate| time)) / |rate|, which is `time` for a rate of zero."""
    time, rate = _floats(time, rate)
    size = np.abs(rate)
    exponent = size * time
    # A vanishing rate would make this 0 / 0.
    small = exponent < np.finfo(exponent.dtype).tiny ** 0.5
    return np.where(small, time, -np.expm1(-exponent) / np.where(small, 1, size))


def logistic_time(
    goal: Float[Array, "..."], rate: Float[Array, "..."], saturation: Float[Array, "..."], seed: Float[Array, "..."]
) -> Array:
    """First time at which z >= goal > 0: 0 where the seed is there already, inf where it never gets there.

    With goal = rho r / C this is the clock of theory section 4, ln((r - C z0) / (C z0)) + ln(rho / (1 - rho)), over r.
    """
    goal, rate, saturation, seed = _floats(goal, rate, saturation, seed)
    below = seed < goal
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        reached = below & (seed > 0) & (rate > saturation * goal)
        logit = np.log(goal / seed) + np.log1p(saturation * (goal - seed) / (rate - saturation * goal))
        time = np.where(reached, logit, np.inf) / np.where(reached, rate, 1)
    return np.where(below, time, np.zeros_like(time))


def pair(
    time: Float[Array, "..."],
    rate: Float[Array, "..."],
    saturation: Float[Array, "..."],
    seed: Float[Array, "..."],
    other: Float[Array, "..."],
) -> tuple[Array, Array]:
    """Symmetric and antisymmetric parts of a product of two factors, dz/dt = z (r - C (z - z')), dz'/dt = -z' (r - C (z - z')), r >= 0.

    z z' is conserved, which makes z logistic about the two fixed points of dz/dt = r z - C z^2 + C z(0) z'(0).
    """
    time, rate, saturation, seed, other = _floats(time, rate, saturation, seed, other)
    product = seed * other
    spread = np.sqrt(rate**2 + 4 * saturation**2 * product)
    lower = 2 * saturation * product / np.where(spread > 0, rate + spread, 1)
    grown = logistic(time, spread, saturation, seed + lower) - lower
    main = np.where(product > 0, grown, logistic(time, rate, saturation, seed))
    decayed = logistic(time, -rate, saturation, other)
    return main, np.where(product > 0, product / np.where(main > 0, main, 1), decayed)


def _floats(*arrays: Any) -> tuple[Array, ...]:
    kind = np.result_type(*arrays, np.float32)
    return tuple(np.broadcast_arrays(*(np.asarray(array, kind) for array in arrays)))
