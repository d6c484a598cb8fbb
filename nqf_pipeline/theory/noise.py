"""Minibatch noise of a layer f = G^T s(x) with white inputs: how it delays and spreads the clock, and what loss it leaves.

While a mode k is small its amplitude is multiplied, batch by batch, by 1 + eta (a_k + n_kk), with n = S^T g S the batch's noise in the
basis of symmetric mode vectors, g = 2 s(x) r(x)^T one sample's pull. To second order in eta the mean of ln z per step loses

    eta^2 / B (Var n_kk + 2 sum over j of E n_jk^2),    j: the modes that grow faster or have ignited,

the second part being the repulsion of the exponents of a product of random matrices: what mode k has along an earlier mode's direction
is not its own. ln z also wanders, by 4 eta^2 Var n_kk / B per step in variance, and so does the ignition step. Once everything is learnt
the noise of the gradients that remain, C per sample, keeps the excess loss at eta Tr(C) / (4 B), whatever the curvature (flat directions,
where noise costs nothing, are counted in: an upper estimate). Momentum: eta / (1 - momentum). The mean of M itself would not do: it
counts as the seed of a mode what batches carry over from modes that have ignited (a clock 18 % early where it is 3 % late).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.structure import LinearStructure
from nqf_pipeline.tasks.base import Problem

Array = Any


@dataclass(frozen=True)
class NoiseEffect:
    """What minibatches change, to leading order in learning rate over batch size."""

    shift: Float[Array, "modes"]
    """Mean delay of each ignition, as a share of its full-batch step."""
    spread: Float[Array, "modes"]
    """Standard deviation of the step over batches, as the same share."""
    floor: float
    """Excess loss that stays once all modes are learnt."""


def batch_noise(problem: Problem, optimizer: Optimizer, ignition: Float[Array, "modes"]) -> NoiseEffect | None:
    """The effect on modes that ignite at these full-batch steps (in the order of their singular values); None where it is not known."""
    structure, batch = problem.structure, optimizer.batch_size
    if not isinstance(structure, LinearStructure) or batch is None or problem.loss != "squared_error":
        return None
    eta, features = optimizer.time_scale, structure.features
    left, size, right = np.linalg.svd(problem.moments.linear, full_matrices=False)
    left, size, right = left[:, : len(ignition)], size[: len(ignition)], right[: len(ignition)]
    inputs, wanted = left.T @ features, problem.targets - structure.offset
    shift, variance = np.zeros(len(ignition)), np.zeros(len(ignition))
    order, now, known = np.argsort(ignition), 0.0, np.zeros_like(problem.moments.optimum)
    for place, first in enumerate(order):
        if not np.isfinite(ignition[first]):
            break
        pulls = right @ (wanted - known.T @ features)
        noise = inputs[:, None] * pulls[None] + inputs[None] * pulls[:, None]
        spread = noise.var(-1)
        duration = ignition[first] - now
        for k in order[place:]:
            ahead = [j for j in order if ignition[j] < ignition[k]]
            shift[k] += duration * (spread[k, k] + 2 * (noise[ahead, k] ** 2).mean(-1).sum())
            variance[k] += duration * spread[k, k]
        now = ignition[first]
        known = known + np.outer(left[:, first], left[:, first]) @ problem.moments.optimum @ np.outer(right[first], right[first])
    growth = 2 * (2 * size - optimizer.weight_decay)
    with np.errstate(divide="ignore", invalid="ignore"):
        delay = eta * shift / batch / growth / ignition
        wander = np.sqrt(4 * variance / batch) / growth / ignition
    return NoiseEffect(delay, wander, _floor(problem, structure, eta / batch))


def _floor(problem: Problem, structure: LinearStructure, rate: float) -> float:
    """rate Tr(C) / 4 at the optimum with balanced weights."""
    left, size, right = np.linalg.svd(problem.moments.optimum, full_matrices=False)
    features, residual = structure.features, structure.apply(problem.moments.optimum) + structure.offset - problem.targets
    first = ((size[:, None] * (right @ residual) ** 2).sum(0) * (features**2).sum(0)).mean()
    second = ((size[:, None] * (left.T @ features) ** 2).sum(0) * (residual**2).sum(0)).mean()
    return float(rate * (first + second))
