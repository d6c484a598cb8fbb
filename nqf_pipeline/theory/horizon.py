"""How many steps a cell needs, from the predicted ignition of its modes alone (NumPy, no JAX).

Used for `steps: auto` and for the check that warns when a mode asked for will not ignite. Seeds are those of a typical
draw where modes share units, and pessimistic where each has its own: the lower 10 % point of sigma^2 chi^2 (theory: section 4).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.modes import CoordinateBasis, SingularBasis
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.errors import TheoryError
from nqf_pipeline.theory.events import event_clock
from nqf_pipeline.theory.growth import ModeLaw, log_growth, mode_law
from nqf_pipeline.theory.ignition import FRACTION
from nqf_pipeline.theory.interactions import interacting_modes
from nqf_pipeline.theory.invasion import invasion_steps

Array = Any
LATE_SHARE = 0.3
"""Share of a large ensemble's modes to wait for: the slowest ones carry no loss and would take most of the run."""
LOW_SEED = 0.1
"""Quantile of the seed distribution that the horizon waits for."""
ADAM_SLACK = 2.5
"""Adam took up to this many times its travel time (see `adam_steps`)."""
CROWDING_SLACK = 1.5
"""Directions outside the modes of a symmetric G hold part of the trace for a while: phase retrieval (20 inputs, width 64) passed
one half up to 2.2 times (sigma 1e-2) and 1.3 times (1e-3) as late as the clock of its modes says."""


def horizon(
    architecture: Architecture, problem: Problem, optimizer: Optimizer, sigma: float, mode: int | None = None, margin: float = 1.5
) -> int:
    """Steps until the slowest mode asked for has ignited, times `margin`.

    `mode` is the number of the last mode asked for. By default all watched modes, but in an ensemble of entries no longer than until
    the first 30 % of all have ignited. Modes that never ignite (negative rates, more modes than degrees of freedom) are not waited for.
    """
    if architecture.layered:
        raise TheoryError(
            f"{architecture.name}: layers that read each other have no predicted ignition, so the horizon is unknown. Give `steps`."
        )
    steps = (ignition_steps if optimizer.in_linear_span else adam_steps)(architecture, problem, optimizer, sigma)
    if mode is not None:
        steps = steps[:mode]
    elif isinstance(problem.modes, CoordinateBasis):
        first_share = np.sort(steps)[: max(1, int(np.ceil(LATE_SHARE * len(steps))))]
        steps = np.minimum(steps[problem.modes.index], first_share[-1])
    steps = optimizer.scheduled_steps(steps)
    finite = steps[np.isfinite(steps)]
    if not len(finite):
        raise TheoryError(
            f"{architecture.name}: no mode asked for ever reaches half its target (growth rates not positive, or weight decay "
            f"{optimizer.weight_decay:g} above them, or a schedule that ends before), so the horizon is unknown. Give `steps` or "
            "lower weight_decay."
        )
    return int(np.ceil(margin * finite.max()))


def ignition_steps(architecture: Architecture, problem: Problem, optimizer: Optimizer, sigma: float) -> Float[Array, "modes"]:
    """Estimate of each mode's ignition step: all entries of a vector G, the watched modes of a matrix."""
    moments, basis = problem.moments, problem.modes
    if moments.kind == "diagonal":
        return logistic_steps(mode_law(architecture, moments), sigma**2 * low_seeds(architecture, problem), optimizer)
    if architecture.pairing == "outer" and not isinstance(basis, SingularBasis):
        raise TheoryError(f"{architecture.name}: a matrix order parameter is watched in singular modes, not in {type(basis).__name__}.")
    if moments.kind == "left":
        return _relaxed_steps(architecture, problem, optimizer, sigma)
    rate, interaction, profile = interacting_modes(architecture, problem)
    seed = np.log(sigma**2 * profile * low_chi2(np.array(architecture.degrees)))
    # A wait needs no corrections; for a symmetric G, whose other directions the modes leave out, they would be spurious.
    steps = invasion_steps(rate, interaction, seed, optimizer, corrected=False)
    if architecture.pairing == "rowwise":
        return steps
    return steps[: len(basis.target)] * (CROWDING_SLACK if architecture.positive else 1.0)


def adam_steps(architecture: Architecture, problem: Problem, optimizer: Optimizer, sigma: float) -> Float[Array, "modes"]:
    """How long Adam needs, from a rule of thumb: each weight moves one learning rate a step, whatever the gradient.

    Half a mode's z spread over the degrees of freedom is the distance; entries of a vector G travel side by side, the modes of a matrix
    one after another, each along a direction with `rows` coordinates (mean L1 norm 0.8 sqrt(rows)). Integrated
    linear MLPs (20 inputs, 8 outputs, 4 modes; width 16 to 256, sigma 1e-5 to 0.2, learning rate 1e-3 and 5e-3, condition number of K 1
    and 20) took 0.8 to 2.5 times that long, hence `ADAM_SLACK`. Sigma does not enter; gradients below Adam's own eps are not covered.
    """
    law = mode_law(architecture, problem.moments)
    if architecture.pairing == "rowwise":
        full, rows = law.full, 1
    else:
        full, rows = law.full[: len(problem.modes.target)], sum(len(scale) for scale in _scales(architecture, problem))
    ignites = (law.rate[: len(full)] > 0) & (full > 0)
    speed = optimizer.learning_rate * (0.8 * np.sqrt(rows) if rows > 1 else 1.0)
    steps = ADAM_SLACK * np.sqrt(np.maximum(full, 0) / (2 * architecture.degrees)) / speed
    return np.where(ignites, steps if rows == 1 else np.cumsum(steps), np.inf)


def logistic_steps(law: ModeLaw, seed: Float[Array, "modes"], optimizer: Optimizer) -> Float[Array, "modes"]:
    """Steps until z reaches half of `full`, by the exact root of the linear recursion and logistic saturation."""
    capacity = (law.rate - 2 * optimizer.weight_decay) / law.saturation
    goal = FRACTION * law.full
    gain = log_growth(law.rate, optimizer)
    seed = np.broadcast_to(seed, gain.shape)
    ignites = (goal > 0) & (goal < capacity) & (gain > 0) & (seed > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logit = np.log(goal / (capacity - goal)) - np.log(seed / np.maximum(capacity - seed, 1e-300))
        return np.where(ignites, np.maximum(logit, 0.0) / gain, np.inf)


def low_chi2(freedom: Array) -> Array:
    """Lower `LOW_SEED` point of chi^2 with these degrees of freedom."""
    return 2 * gammaincinv(np.asarray(freedom) / 2, LOW_SEED)


def low_seeds(architecture: Architecture, problem: Problem) -> Float[Array, "entries"]:
    """z_k(0) / sigma^2 of each entry: its low quantile, or its only value where the initial weights are signs."""
    factors = _scales(architecture, problem)
    profile = sum((factor**2).mean(-1) for factor in factors) / len(factors)
    random = getattr(architecture, "gaussian_start", True)
    return profile * (low_chi2(np.array(architecture.degrees)) if random else architecture.degrees)


def _scales(architecture: Architecture, problem: Problem) -> tuple[Array, ...]:
    return architecture.factors(np.broadcast_to(problem.initial_scale, (architecture.unit_size, architecture.width)))


def _relaxed_steps(architecture: Architecture, problem: Problem, optimizer: Optimizer, sigma: float) -> Array:
    """Event clock of one typical draw, with slowly relaxing residents; the last event's step for strengths that never pass one half."""
    weights = sigma * problem.initial_scale * architecture.initial(np.random.default_rng(0))
    clock = event_clock(problem.moments, architecture.factors(weights), optimizer, len(problem.modes.target))
    found = clock.ignition(problem.modes)
    possible = np.arange(len(found)) < architecture.degrees
    last = clock.step[-1] if len(clock.step) else np.inf
    return np.where(np.isinf(found) & possible, last, found)
