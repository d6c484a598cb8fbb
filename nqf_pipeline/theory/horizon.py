"""How many steps a cell needs, from the predicted ignition of its modes alone (NumPy, no JAX).

Used for `steps: auto` and for the check that warns when a mode asked for will not ignite. Seeds are
pessimistic: the lower 10 % point of sigma^2 chi^2, with the degrees of freedom of theory section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv

from nqf_pipeline.forms.modes import CoordinateBasis, SingularBasis
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.errors import TheoryError
from nqf_pipeline.theory.events import event_clock
from nqf_pipeline.theory.growth import ModeLaw, log_growth, mode_law

if TYPE_CHECKING:
    from nqf_pipeline.dynamics.optimizers import Optimizer

Array = Any
FRACTION = 0.5
"""Ignition: the recovered strength reaches this share of the target."""
LATE_SHARE = 0.3
"""Share of a large ensemble's modes to wait for: the slowest ones carry no loss and would take most of the run."""
LOW_SEED = 0.1
"""Quantile of the seed distribution that the horizon waits for."""
ADAM_SLACK = 2.5
WHITE = 0.02
"""Spread of the eigenvalues of K, relative to their mean, up to which one clock serves all inputs."""


def horizon(
    architecture: Architecture, problem: Problem, optimizer: Optimizer, sigma: float, mode: int | None = None, margin: float = 1.5
) -> int:
    """Steps until the slowest mode asked for has ignited, times `margin`.

    `mode` is the number of the last mode asked for. By default all watched modes of a matrix, but only the first 30 %
    to ignite of an ensemble of entries. Modes that never ignite (negative rates, more modes than degrees of
    freedom) are not waited for.
    """
    steps = (ignition_steps if optimizer.in_linear_span else adam_steps)(architecture, problem, optimizer, sigma)
    if mode is not None:
        steps = steps[problem.modes.number <= mode] if len(steps) == len(problem.modes.number) else steps[:mode]
    elif isinstance(problem.modes, CoordinateBasis):
        steps = np.sort(steps)[: max(1, int(np.ceil(LATE_SHARE * len(steps))))]
    finite = steps[np.isfinite(steps)]
    if not len(finite):
        raise TheoryError(
            f"{architecture.name}: no mode asked for ever reaches half its target (growth rates not positive, or weight decay "
            f"{optimizer.weight_decay:g} above them), so the horizon is unknown. Give `steps` explicitly or lower weight_decay."
        )
    return int(np.ceil(margin * finite.max()))


def ignition_steps(architecture: Architecture, problem: Problem, optimizer: Optimizer, sigma: float) -> Float[Array, "modes"]:
    """Late estimate of each mode's ignition step: all entries of a vector G, the watched modes of a matrix."""
    if architecture.pairing == "rowwise":
        law = mode_law(architecture, problem.moments)
        seed = sigma**2 * entry_profile(architecture, problem) * low_chi2(np.array([architecture.degrees]))
        return logistic_steps(law, seed, optimizer)
    basis = problem.modes
    if not isinstance(basis, SingularBasis):
        raise TheoryError(f"{architecture.name}: watched entries {type(basis).__name__} need a structure with a vector order parameter.")
    wanted = min(len(basis.target), architecture.degrees)
    freedom = architecture.degrees - np.arange(wanted)
    seed = sigma**2 * basis_profile(architecture, problem, basis)[:wanted] * low_chi2(freedom)
    if whiteness(problem) <= WHITE:
        law = mode_law(architecture, problem.moments)
        law = ModeLaw(law.rate[:wanted], law.saturation[:wanted], law.full[:wanted])
        return _padded(logistic_steps(law, seed, optimizer), len(basis.target))
    return _strength_steps(architecture, problem, basis, optimizer, np.log(seed))


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


def whiteness(problem: Problem) -> float:
    """Spread (standard deviation over mean) of the eigenvalues of K: 0 when K is a multiple of the identity."""
    moments = problem.moments
    if moments.kind == "diagonal":
        values = moments.operator
    else:
        size, trace = len(moments.operator), np.trace(moments.operator)
        return float(np.sqrt(max(size * np.sum(moments.operator**2) / trace**2 - 1, 0.0)))
    return float(np.std(values) / np.mean(values))


def entry_profile(architecture: Architecture, problem: Problem) -> Float[Array, "entries"]:
    """Variance of each entry's mode vector per degree of freedom, relative to sigma^2."""
    factors = _scales(architecture, problem)
    return sum((factor**2).mean(-1) for factor in factors) / len(factors)


def basis_profile(architecture: Architecture, problem: Problem, basis: SingularBasis) -> Float[Array, "modes"]:
    """Variance of each mode vector per degree of freedom, relative to sigma^2."""
    factors = _scales(architecture, problem)
    sides = (basis.left, basis.right)[: len(factors)]
    return sum((side**2).T @ (factor**2).mean(-1) for side, factor in zip(sides, factors, strict=True)) / len(factors)


def _scales(architecture: Architecture, problem: Problem) -> tuple[Array, ...]:
    return architecture.factors(np.broadcast_to(problem.initial_scale, (architecture.unit_size, architecture.width)))


def _strength_steps(architecture: Architecture, problem: Problem, basis: SingularBasis, optimizer: Optimizer, log_seed: Array) -> Array:
    """Step of the first event after which a mode's strength exceeds one half; the last event's where none suffices."""
    clock = event_clock(architecture, problem.moments, optimizer, log_seed)
    last = np.max(clock.step[np.isfinite(clock.step)], initial=-np.inf)
    if not np.isfinite(last):
        return np.full(len(basis.target), np.inf)
    reached = np.array([basis.strength(order) >= FRACTION for order in clock.orders[1:]])
    first = np.where(reached.any(0), clock.step[reached.argmax(0)], last)
    return np.where(np.isfinite(first), first, last)


def _padded(values: Array, size: int) -> Array:
    return np.concatenate([values, np.full(size - len(values), np.inf)])
