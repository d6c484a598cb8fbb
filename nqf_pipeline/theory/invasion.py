"""Event clock of interacting modes, dz_k/dt = z_k (r_k - sum_j C_kj z_j), for small seeds: no time steps.

On each plateau the residents S sit at z_S = C_SS^-1 r_S and every other mode grows at its invasion rate r_k - sum_S C_kj z_j,
so ln z_k is piecewise linear. The next event is the first mode to reach the logarithm of its own capacity as an invader,
where the saturating curve passes half of it; residents driven out leave (theory: section 4, "The event clock").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.theory.growth import log_growth

Array = Any
EVENTS_PER_MODE = 3
"""Modes may be driven out and come back; a walk longer than this many events a mode is cut."""


def invasion_steps(
    rate: Float[Array, "modes"], interaction: Float[Array, "modes modes"], log_seed: Float[Array, "modes"], optimizer: Optimizer
) -> Float[Array, "modes"]:
    """Step at which each mode first ignites; inf for modes that never do."""
    size = len(rate)
    rate = rate - 2 * optimizer.weight_decay
    resident, z = np.zeros(size, bool), np.zeros(size)
    log_z, now, steps = np.array(log_seed, float), 0.0, np.full(size, np.inf)
    for _ in range(EVENTS_PER_MODE * size):
        # Weight decay is in the rates already, so growth is that of the plain optimizer.
        gain = log_growth(rate - interaction @ z + 2 * optimizer.weight_decay, optimizer)
        candidates = np.flatnonzero(~resident & (gain > 0))
        plans = {k: fixed_point(rate, interaction, resident | (np.arange(size) == k)) for k in candidates}
        waits = {k: max(np.log(plan[k]) - log_z[k], 0.0) / gain[k] for k, plan in plans.items() if plan[k] > 0}
        if not waits:
            break
        first = min(waits, key=lambda k: waits[k])
        now += waits[first]
        log_z = np.where(resident, log_z, log_z + gain * waits[first])
        steps[first] = min(steps[first], now)
        driven_out = resident & (plans[first] <= 0)
        log_z[driven_out] = np.log(z[driven_out])
        z = plans[first]
        resident = z > 0
    return steps


def fixed_point(
    rate: Float[Array, "modes"], interaction: Float[Array, "modes modes"], allowed: Bool[Array, "modes"]
) -> Float[Array, "modes"]:
    """Non-negative z with r = C z on its support, found by dropping the most negative member until none is left."""
    support, z = allowed.copy(), np.zeros(len(rate))
    while support.any():
        z[:] = 0
        z[support] = np.linalg.solve(interaction[np.ix_(support, support)], rate[support])
        if z.min() >= 0:
            return z
        support[np.argmin(z)] = False
    return np.zeros(len(rate))
