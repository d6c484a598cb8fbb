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
EVENTS_PER_MODE, MOST_EVENTS = 3, 300
"""Modes may be driven out and come back; a longer walk is cut, and modes not reached by then count as never igniting."""

COPY = 1e-9
"""Share of a mode's own saturation below which its Schur complement is rounding."""


def invasion_steps(
    rate: Float[Array, "modes"], interaction: Float[Array, "modes modes"], log_seed: Float[Array, "modes"], optimizer: Optimizer
) -> Float[Array, "modes"]:
    """Step at which each mode first ignites; inf for modes that never do."""
    size = len(rate)
    rate = rate - 2 * optimizer.weight_decay
    resident, z = np.zeros(size, bool), np.zeros(size)
    log_z, now, steps = np.array(log_seed, float), 0.0, np.full(size, np.inf)
    for _ in range(min(EVENTS_PER_MODE * size, MOST_EVENTS)):
        invasion = rate - interaction @ z
        # Weight decay is in these rates already, and log_growth takes it off again.
        gain = log_growth(invasion + 2 * optimizer.weight_decay, optimizer)
        height = np.where(resident, 0.0, invasion / invader_capacity(interaction, resident))
        rises = (height > 0) & (gain > 0)
        if not rises.any():
            break
        wait = np.full(size, np.inf)
        wait[rises] = np.maximum(np.log(height[rises]) - log_z[rises], 0) / gain[rises]
        first = int(np.argmin(wait))
        if not np.isfinite(wait[first]):
            break
        now += wait[first]
        log_z = np.where(resident, log_z, log_z + gain * wait[first])
        steps[first] = min(steps[first], now)
        settled = fixed_point(rate, interaction, resident | (np.arange(size) == first))
        driven_out = resident & (settled <= 0)
        log_z[driven_out] = np.log(z[driven_out])
        z, resident = settled, settled > 0
    return steps


def invader_capacity(interaction: Float[Array, "modes modes"], resident: Bool[Array, "modes"]) -> Float[Array, "modes"]:
    """Invasion rate over the invader's height next to the residents: the Schur complement of C_kk, positive for a positive definite C."""
    own = np.diag(interaction).copy()
    if resident.any():
        others = np.linalg.solve(interaction[np.ix_(resident, resident)], interaction[resident])
        own = own - np.einsum("ks,sk->k", interaction[:, resident], others)
    # Nothing of an invader that copies the residents is its own: it never rises.
    return np.where(own > COPY * np.diag(interaction), own, np.inf)


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
