"""Closed ignition clocks of very many cells at once: arrays over cells in, steps out. No problem and no weights object a cell.

For sweeps of sigma, seeds, learning rates, momentum and weight decay over settings whose modes are known (`theory.systems`): the same
clocks and the same effective seeds as a cell's own prediction, vectorised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.dynamics import closed
from nqf_pipeline.theory.growth import growth_per_step
from nqf_pipeline.theory.ignition import FRACTION
from nqf_pipeline.theory.seeds import EMPTY

Array = Any


def shared_unit_seeds(
    vectors: Float[Array, "cells modes degrees"], rate: Float[Array, "cells modes"], capacity: Float[Array, "cells modes"]
) -> Float[np.ndarray, "cells modes"]:
    """Effective z_k(0) of feedforward layers: `seeds.effective_seeds` for many cells, rates apart (equal ones are not rotated).

    The next mode to ignite takes its direction in unit space from all others; modes beyond the degrees of freedom keep nothing.
    """
    # Only the Gram matrix matters, and its pivots cost nothing that grows with the number of units.
    gram = np.einsum("cki,cji->ckj", vectors, vectors)
    own = np.einsum("ckk->ck", gram).copy()
    floor = EMPTY**0.5 * own.max(-1, keepdims=True)
    seeds, waiting, cells = np.zeros_like(own), np.asarray(rate > 0).copy(), np.arange(len(own))
    for _ in range(own.shape[1]):
        left = np.where(waiting & (own > floor), own, 0.0)
        with np.errstate(divide="ignore"):
            clock = np.where(left > 0, np.log1p(capacity / left) / rate, np.inf)
        first = clock.argmin(-1)
        ignites = np.isfinite(clock[cells, first])
        pivot = np.where(ignites, left[cells, first], 1.0)
        seeds[cells, first] = np.where(ignites, pivot, seeds[cells, first])
        waiting[cells, first] = False
        row = gram[cells, first] * np.where(ignites, 1 / np.sqrt(pivot), 0.0)[:, None]
        gram = gram - row[:, :, None] * row[:, None, :]
        own = np.einsum("ckk->ck", gram)
    return seeds


def clock_steps_of(
    rate: Float[Array, "cells modes"],
    saturation: Float[Array, "cells modes"],
    seed: Float[Array, "cells modes"],
    learning_rate: Float[Array, "cells"],
    momentum: Float[Array, "cells"] | float = 0.0,
    weight_decay: Float[Array, "cells"] | float = 0.0,
) -> Float[np.ndarray, "cells modes"]:
    """Steps until half of r / C (the plateau without decay), by the logistic clock at the optimizer's exact growth; inf where never."""
    numbers = [np.broadcast_to(np.asarray(number, float), len(rate))[:, None] for number in (learning_rate, momentum, weight_decay)]
    eta, inertia, decay = numbers
    with np.errstate(divide="ignore", invalid="ignore"):
        goal = np.where(rate > 0, FRACTION * rate / saturation, np.inf)
    time = closed.logistic_time(goal, rate - 2 * decay, saturation, seed)
    gain = growth_per_step(rate, eta, inertia, decay)
    per_step = np.where(gain > 0, gain, 1.0)
    return np.where(gain > 0, time * (rate - 2 * decay) / per_step, np.where(time > 0, np.inf, 0.0))
