"""Closed forms of gradient flow for single modes (NumPy): the logistic law and groups of features that share a sample.

A mode z = |w|^2 obeys dz/dt = z (r - C z) (theory: Theorems 4 to 6 and Corollary 4 reduce to it). Forms are written in decaying
exponentials only, so that nothing overflows for r t from -1e4 to 1e6; an empty seed stays empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

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
    reached = below & (seed > 0) & (rate > saturation * goal)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
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


def orthogonal_samples(
    time: Float[Array, "times"],
    rate: Float[Array, "samples members"],
    coupling: Float[Array, "samples members"],
    seed: Float[Array, "samples members"],
    weight_decay: float = 0.0,
    tolerance: float = 1e-10,
) -> Float[Array, "times samples members"]:
    """Features that share one sample: dz_k/dt = z_k (r_k - a_k sum_j a_j z_j), with r_k = y a_k for a common y (Theorem 5).

    Then every ln z_k moves along a_k by the same amount xi, one scalar equation a sample: dxi/dt = y - sum_j a_j z_j. A two-factor entry
    is such a group with a = (+, -): its symmetric and antisymmetric parts. Weight decay lowers all rates by 2 weight_decay.
    """
    time = np.asarray(time, float)
    strongest = np.abs(coupling).argmax(-1)[:, None]
    largest = np.abs(np.take_along_axis(coupling, strongest, -1))
    target = np.take_along_axis(rate, strongest, -1) / np.take_along_axis(coupling, strongest, -1)
    share = coupling / largest

    def slope(now: float, progress: Array) -> Array:
        members = seed * np.exp(share * progress[:, None] - 2 * weight_decay * now)
        return (largest * (target - (coupling * members).sum(-1, keepdims=True)))[:, 0]

    solution = solve_ivp(slope, (0, time[-1]), np.zeros(len(seed)), "LSODA", time, rtol=tolerance, atol=tolerance, lband=0, uband=0)
    return seed * np.exp(share * solution.y.T[..., None] - 2 * weight_decay * time[:, None, None])


def _floats(*arrays: Any) -> tuple[Array, ...]:
    kind = np.result_type(*arrays, np.float32)
    return tuple(np.broadcast_arrays(*(np.asarray(array, kind) for array in arrays)))
