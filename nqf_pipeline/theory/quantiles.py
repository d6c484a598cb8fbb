"""Seed-to-seed distribution of ignition steps, from the distribution of the seeds z_k(0) (theory: section 4, "Care (what eps means)").

Modes that do not interact start at sigma^2 chi^2 with `degrees` degrees of freedom. In a whitened feedforward layer the k-th mode in
ignition order keeps its Schur complement, sigma^2 chi^2 with degrees - k + 1; modes beyond the degrees never ignite. Signs have no spread.
The order is that of a typical draw: exact where rates are apart, approximate where two modes swap places from draw to draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaincinv, ndtr

from nqf_pipeline.theory.predict import CellInputs, clock_steps, system
from nqf_pipeline.theory.regime import Regime
from nqf_pipeline.theory.systems import System

Array = Any
LEVELS = (0.05, 0.5, 0.95)
SCORES = np.arange(-6.0, 6.01, 0.25)
"""The mean is taken by the trapezoidal rule in the normal score of the seed's distribution, which converges fast at any freedom."""


@dataclass(frozen=True)
class IgnitionSpread:
    """Of each watched mode, over seeds; inf where it never ignites."""

    freedom: Int[np.ndarray, "watched"]
    """Degrees of freedom of its seed; 0: it never gets one."""
    mean: Float[np.ndarray, "watched"]
    level: Float[np.ndarray, "levels watched"]
    """Quantiles of the ignition step at `LEVELS`."""


def ignition_spread(cell: CellInputs, found: Regime, modes: System, own: Float[Array, "watched"]) -> IgnitionSpread:
    """Distribution over draws of the weights, data as they are; `own` holds the ignition steps of this cell's own draw.

    The clock of another draw is the cell's own, moved by what the closed clock says of the difference in seeds, so that step size and
    saturation count as exactly as in `own`.
    """
    mean_seed = expected_seed(cell, found, modes)
    freedom = seed_freedom(cell, modes, mean_seed)
    spread = cell.architecture.gaussian_start
    high = np.array([chi_square(int(n), spread) for n in freedom]).T
    seeds = mean_seed[modes.owner] * high / cell.architecture.degrees
    steps = clock_steps(cell, modes, seeds)
    this = clock_steps(cell, modes, modes.led(modes.seed)[modes.owner])
    with np.errstate(invalid="ignore"):
        shift = np.where(np.isfinite(own) & np.isfinite(this) & (this > 0), own - this, 0.0)
    steps = np.maximum(steps + shift, 0.0)
    # Small seeds ignite late.
    level = steps[: len(LEVELS)][::-1]
    weight = np.exp(-(SCORES**2) / 2)
    return IgnitionSpread(freedom, weight @ steps[len(LEVELS) :] / weight.sum(), level)


def expected_seed(cell: CellInputs, found: Regime, modes: System) -> Float[np.ndarray, "groups"]:
    """Mean over draws of z_k(0) of each group's leader, were no mode to disturb another: epsilon times the initial profile."""
    architecture, scale = cell.architecture, np.asarray(cell.problem.initial_scale, float)
    if architecture.pairing == "outer":
        return np.full(len(modes.rate), cell.epsilon * float(np.mean(scale**2)))
    size = np.sqrt(cell.epsilon / architecture.degrees)
    weights = size * np.broadcast_to(scale, (architecture.unit_size, architecture.width))
    if architecture.positive:
        level = CellInputs(architecture, cell.problem, cell.optimizer, weights, cell.step_number, cell.sigma)
        return np.asarray(system(level, found).seed)[np.arange(len(modes.rate)), modes.leader]
    shares = [(factor**2).sum(-1) for factor in architecture.factors(weights)]
    return np.asarray(sum(shares) / len(shares))


def seed_freedom(cell: CellInputs, modes: System, mean_seed: Float[Array, "groups"]) -> Int[np.ndarray, "watched"]:
    """Degrees of freedom of each watched mode's seed."""
    degrees = cell.architecture.degrees
    if cell.architecture.pairing == "rowwise":
        return np.full(len(modes.owner), degrees)
    rate, saturation = modes.led(modes.rate), modes.led(modes.saturation)
    grows = (rate > 0) & (modes.led(modes.seed) > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        clock = np.where(rate > 0, np.log1p(rate / saturation / mean_seed) / rate, np.inf)
    # Groups that hold no mode (rounding) have no seed in any draw; those beyond the degrees come last.
    rank = np.argsort(np.argsort(np.where(grows, clock, np.inf), kind="stable"), kind="stable")
    return np.where(grows, np.maximum(degrees - rank, 0), 0)[modes.owner]


@lru_cache(maxsize=256)
def chi_square(freedom: int, spread: bool = True) -> Float[np.ndarray, "levels+scores"]:
    """Quantiles of chi^2 at `LEVELS` and at `SCORES`; its mean alone where there is no spread."""
    share = np.concatenate([LEVELS, ndtr(SCORES)])
    if freedom == 0 or not spread:
        return np.full(len(share), float(freedom))
    return np.asarray(2 * gammaincinv(freedom / 2, share))
