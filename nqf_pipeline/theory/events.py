"""Saddle-to-saddle clock of feedforward and bilinear structures whose K is not a multiple of the identity.

On plateau k the order parameter sits at R_k, the best one of rank k; the modes that are still small grow along
the singular pairs of the residual K (G* - R_k), at 4 (one factor: 8) times its singular values, so ln z is
piecewise linear in time. The next event is the first mode whose straight line reaches its capacity, 2 |R_{k+1} - R_k|
(one factor: |R_{k+1} - R_k|): there the saturating curve passes half of it (theory: section 4, "The event clock", matrix form).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.theory.growth import factor_count, flow_rate, log_growth

if TYPE_CHECKING:
    from nqf_pipeline.dynamics.optimizers import Optimizer

Array = Any
RANK_TOLERANCE = 1e-9
"""Singular values below this share of the largest are rounding, not modes."""


def plateau_orders(moments: Moments, symmetric: bool, most: int) -> list[Array]:
    """R_0 = 0, R_1, ..., the order parameters of the plateaus, at most `most` events.

    Exact minima of the loss at each rank for "left" structures. For "dense" ones truncations of G*, which are the
    minima only when K acts alike on all its directions; symmetric structures keep positive eigenvalues only.
    """
    back, values, left, right = _spectrum(moments, symmetric)
    count = min(most, int(np.sum(values > RANK_TOLERANCE * np.abs(values).max(initial=1e-300))))
    terms = [values[k] * np.outer(back @ left[:, k], right[:, k]) for k in range(count)]
    return [np.zeros_like(moments.optimum), *np.cumsum(terms, axis=0)] if terms else [np.zeros_like(moments.optimum)]


def _spectrum(moments: Moments, symmetric: bool) -> tuple[Array, Array, Array, Array]:
    """(map back to G, values, left, right) of the matrix whose truncations are the plateaus."""
    identity = np.eye(len(moments.optimum))
    if symmetric:
        values, vectors = np.linalg.eigh(moments.optimum)
        return identity, values[::-1], vectors[:, ::-1], vectors[:, ::-1]
    if moments.kind != "left":
        left, values, right = np.linalg.svd(moments.optimum, full_matrices=False)
        return identity, values, left, right.T
    scale, axes = np.linalg.eigh(moments.operator)
    root = np.sqrt(np.clip(scale, 0, None))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=scale > 1e-12 * scale[-1])
    left, values, right = np.linalg.svd((axes * root) @ axes.T @ moments.optimum, full_matrices=False)
    return (axes * inverse) @ axes.T, values, left, right.T


@dataclass(frozen=True)
class EventClock:
    """Plateaus R_0, R_1, ... and the step at which each gives way to the next (inf: never)."""

    orders: Sequence[Array]
    step: Float[Array, "events"]


def event_clock(architecture: Architecture, moments: Moments, optimizer: Optimizer, log_seed: Float[Array, "modes"]) -> EventClock:
    """Walk the plateaus from seeds ln z_k(0) of the modes in ignition order; as many events as there are seeds."""
    symmetric = factor_count(architecture) == 1
    scale = flow_rate(architecture)
    orders = plateau_orders(moments, symmetric, len(log_seed))
    heights = np.array([np.linalg.norm(after - before) for before, after in pairwise(orders)])
    level = np.log(heights if symmetric else 2 * heights)
    log_z, now, steps = np.array(log_seed[: len(level)], float), 0.0, np.full(len(level), np.inf)
    for k in range(len(level)):
        gain = log_growth(scale * _residual_values(moments, orders[k], symmetric)[: len(level) - k], optimizer)
        if not len(gain) or gain[0] <= 0:
            break
        wait = max(level[k] - log_z[k], 0.0) / gain[0]
        log_z[k : k + len(gain)] += wait * gain
        now += wait
        steps[k] = now
    return EventClock(orders, steps)


def _residual_values(moments: Moments, order: Array, symmetric: bool) -> Array:
    """Growth per mode on a plateau: singular values of K (G* - R), eigenvalues when symmetric, largest first."""
    residual = moments.act(moments.optimum - order)
    return np.linalg.eigvalsh(residual)[::-1] if symmetric else np.linalg.svd(residual, compute_uv=False)
