"""Scaling exponents of power-law ensembles: the limit, what finite epsilon makes of it, and the expected loss of the finite ensemble.

With growth rates r_k ~ k^-alpha2 and loss shares V_k ~ k^-alpha1 the excess loss falls as time^-((alpha1 - 1) / alpha2) in the limit
epsilon -> 0 and infinitely many modes (theory: section 5). A straight-line fit sees neither limit, so its prediction is the same fit,
in the same window, of `mean_loss_curve`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaincinv, ndtr, zeta

from nqf_pipeline.dynamics import closed
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem, Task
from nqf_pipeline.tasks.fourier import Fourier
from nqf_pipeline.tasks.power_law import PowerLaw
from nqf_pipeline.theory.errors import TheoryError
from nqf_pipeline.theory.stepping import discrete_modes
from nqf_pipeline.theory.systems import System, entry_system

Array = Any
SCORE_REACH, SCORE_STEP = 6.0, 0.25
"""Seeds are averaged over by the trapezoidal rule in the normal score of their distribution, from -6 to 6."""
CACHED = 32768
"""Numbers worked on together: they stay in the second-level cache."""
TAIL_REACH = 10
"""Missing modes are summed one by one up to this many times the number of modes, and as unlearnt beyond."""


@dataclass(frozen=True)
class Spectrum:
    """Power laws of an ensemble: r_k ~ k^-rate, V_k ~ k^-loss, z_k(0) ~ k^-profile."""

    rate: float
    loss: float
    profile: float

    @property
    def limit(self) -> float:
        """Exponent of the excess loss for epsilon -> 0 and infinitely many modes."""
        return (self.loss - 1) / self.rate


def spectrum(task: Task) -> Spectrum | None:
    """The declared power laws of a task, None where it has none."""
    if isinstance(task, PowerLaw):
        rate, loss = task.exponents
        return Spectrum(rate, loss, task.profile)
    if isinstance(task, Fourier):
        return Spectrum(task.theta + task.beta, 2 * task.beta, 0.0)
    return None


def limit_exponent(task: Task) -> float:
    """(alpha1 - 1) / alpha2, (2 gamma1 - 1) / gamma2 or (2 beta - 1) / (theta + beta); nan for tasks without power laws."""
    declared = spectrum(task)
    return declared.limit if declared is not None else float("nan")


def local_exponent(task: Task, architecture: Architecture, epsilon: float, number: Float[Array, "..."]) -> Float[Array, "..."]:
    """Slope of ln E against -ln time where mode `number` ignites, at finite epsilon and for infinitely many modes.

    (alpha1 - 1) / (alpha2 - (alpha1 - alpha2 - b) / ln(z_k(inf) / z_k(0))), with z_k(0) = epsilon k^-b.
    """
    declared = _declared(task)
    modes = _ensemble(architecture, _problem(task, architecture), epsilon, 1.0)
    first = float(modes.led(modes.rate)[0] / modes.led(modes.saturation)[0] / modes.led(modes.seed)[0])
    surplus = declared.loss - declared.rate - declared.profile
    return (declared.loss - 1) / (declared.rate - surplus / (np.log(first) - surplus * np.log(number)))


def mean_loss_curve(
    task: Task,
    architecture: Architecture,
    epsilon: float,
    optimizer: Optimizer,
    step_number: Int[Array, "records"],
    tier: Literal["flow", "discrete"] = "discrete",
) -> Float[np.ndarray, "records"]:
    """Expected loss at the recorded steps over random initial weights with the task's declared profile, epsilon = degrees sigma^2.

    Exact for the quadratic form under a linear-span optimizer on the full batch; initial signs have no spread to average over.
    """
    if not optimizer.in_linear_span:
        raise TheoryError(f"no loss curve is predicted for {optimizer.kind}: its steps do not follow the modes; use gd, sgd or momentum")
    problem = _problem(task, architecture)
    quantiles, weights = seed_quantiles(architecture)
    steps, one = np.asarray(step_number), _ensemble(architecture, problem, epsilon, 1.0)
    if tier == "flow" and one.rate.shape[1] == 1 and np.all(one.rate > 2 * optimizer.weight_decay):
        return _mean_logistic_loss(one, quantiles, weights, optimizer.flow_time(steps), optimizer.weight_decay)
    systems = [_ensemble(architecture, problem, epsilon, quantile) for quantile in quantiles]
    if tier == "flow":
        z = [modes.flow(optimizer.flow_time(steps), optimizer.weight_decay) for modes in systems]
    else:
        z = discrete_modes(systems, [optimizer] * len(systems), [steps] * len(systems))
    return weights @ np.array([modes.loss(values) for modes, values in zip(systems, z, strict=True)])


def _mean_logistic_loss(
    modes: System, quantiles: Float[Array, "nodes"], weights: Float[Array, "nodes"], time: Float[Array, "records"], weight_decay: float
) -> Float[np.ndarray, "records"]:
    """The same average for independent growing modes, z = z(inf) / (1 + (z(inf) / z(0) - 1) exp(-r t)): seeds share one exponential."""
    rate = modes.rate[:, 0] - 2 * weight_decay
    full = rate / modes.coupling[:, 0] ** 2
    height, ratio = modes.coupling[:, 0] * full, full / modes.seed[:, 0]
    loss = np.full(len(time), modes.rest)
    rows = max(1, CACHED // len(rate))
    for start in range(0, len(time), rows):
        decay = np.exp(-np.multiply.outer(time[start : start + rows], rate))
        gap = np.empty_like(decay)
        for quantile, weight in zip(quantiles, weights, strict=True):
            np.multiply(decay, ratio / quantile - 1, out=gap)
            gap += 1
            np.divide(height, gap, out=gap)
            gap -= modes.target
            loss[start : start + rows] += weight / 8 * np.einsum("tk,tk->t", gap, gap)
    return loss


def seed_quantiles(architecture: Architecture) -> tuple[Float[np.ndarray, "nodes"], Float[np.ndarray, "nodes"]]:
    """(z_k(0) over its mean, weight) at quadrature nodes of chi^2 with the architecture's degrees of freedom.

    A trapezoidal rule in the normal score x with P(z_k) = Phi(x): smooth and rapidly decaying whatever the degrees, so it converges fast
    where Gauss-Laguerre nodes would miss the small seeds that ignite last.
    """
    if not getattr(architecture, "gaussian_start", True):
        return np.ones(1), np.ones(1)
    score = np.arange(-SCORE_REACH, SCORE_REACH + SCORE_STEP / 2, SCORE_STEP)
    weight = np.exp(-(score**2) / 2)
    return 2 * gammaincinv(architecture.degrees / 2, ndtr(score)) / architecture.degrees, weight / weight.sum()


def missing_tail(task: Task, architecture: Architecture, epsilon: float, time: Float[Array, "times"]) -> Float[np.ndarray, "times"]:
    """Loss that the modes beyond the finite ensemble would add at these flow times (mean seeds): added to a loss curve, it lifts the bias
    of a finite number of modes (theory: section 5, "Care")."""
    declared = _declared(task)
    modes = _ensemble(architecture, _problem(task, architecture), epsilon, 1.0)
    count = len(modes.rate)
    number = np.arange(count + 1, TAIL_REACH * count + 1)
    rate, saturation, seed = (modes.led(array)[0] for array in (modes.rate, modes.saturation, modes.seed))
    rates, seeds = rate * number**-declared.rate, seed * number**-declared.profile
    saturations = saturation * number ** (declared.loss - 2 * declared.rate)
    z = closed.logistic(np.asarray(time, float)[:, None], rates, saturations, seeds)
    gaps = 1 - z * saturations / rates
    first = rate**2 / (8 * saturation)
    return first * (gaps**2 @ number**-declared.loss + zeta(declared.loss, TAIL_REACH * count + 1))


def _declared(task: Task) -> Spectrum:
    declared = spectrum(task)
    if declared is None:
        raise TheoryError(f"task {task.name} declares no power laws, so it has no scaling exponent; use a power-law or fourier task")
    return declared


def _problem(task: Task, architecture: Architecture) -> Problem:
    """The ensemble itself: power-law tasks draw nothing."""
    _declared(task)
    return task.problem(architecture, np.random.default_rng(0))


def _ensemble(architecture: Architecture, problem: Problem, epsilon: float, quantile: float) -> System:
    """The modes of an ensemble whose leading parts all start at the same quantile of their seed distribution, the others at their mean."""
    weights = np.broadcast_to(problem.initial_scale, (architecture.unit_size, architecture.width))
    modes = entry_system(architecture, problem, np.asarray(weights))
    factors = architecture.factors(weights)
    profile = sum((factor**2).mean(-1) for factor in factors) / len(factors)
    seed = np.broadcast_to(epsilon * profile[:, None], modes.seed.shape)
    leads = np.arange(seed.shape[1]) == modes.leader[:, None]
    return replace(modes, seed=np.where(leads, quantile, 1.0) * seed)
