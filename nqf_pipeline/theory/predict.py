"""Predictions for cells: regime, standing and, where a closed regime holds, curves and ignition times by tier. Nothing is trained.

Tiers. `asymptote`: each mode jumps from 0 to its plateau at t_k = ln(1/epsilon) / r_k, with epsilon = degrees sigma^2 the scale
of z_k(0) (not of the weights), whatever its own seed and profile. `flow`: closed forms of gradient flow from the cell's own seeds, at
time = the integral of the learning rate / (1 - momentum). `discrete`: the exact steps of each mode under the optimizer, or, where no
closed regime holds, of all order parameters together (any loss, and the very batches of training). `event`: the saddle-to-saddle clock of
feedforward layers whose features are correlated, with logistic invasions and relaxing residents, from the cell's own weights.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.dynamics import closed
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.candidates import problem_projectors
from nqf_pipeline.theory.events import EventClock, event_clock
from nqf_pipeline.theory.growth import log_growth
from nqf_pipeline.theory.ignition import FRACTION, crossing
from nqf_pipeline.theory.invasion import Walk, walk
from nqf_pipeline.theory.matrix_modes import curvature_of, exact_steps, isotropic_flow
from nqf_pipeline.theory.order_parameters import order_curves
from nqf_pipeline.theory.regime import Regime, regime
from nqf_pipeline.theory.stepping import coupled_modes, discrete_modes
from nqf_pipeline.theory.systems import (
    CoupledSystem,
    System,
    coupled_system,
    entry_system,
    feedforward_system,
    group_system,
    projector_system,
    symmetric_system,
)

Array = Any
MOST_WALKED, LATE_POINTS = 100, 2000
"""Interacting modes up to which the event clock is walked, and points of the grid on which late ignitions are looked for."""
SLIGHT = 1e-6
"""Share of a watched strength below which a mode does not matter for it: rounding of a common basis."""
TIERS = frozenset({"asymptote", "event", "flow", "discrete"})


@dataclass(frozen=True)
class CellInputs:
    """What a prediction reads of a cell: never its trained weights."""

    architecture: Architecture
    problem: Problem
    optimizer: Optimizer
    weights: Float[Array, "unit_size width"]
    """Initial weights."""
    step_number: Int[Array, "records"]
    sigma: float | None = None
    """Weight scale of the asymptote's epsilon; measured on the initial weights when not given."""
    batch_seed: int = 0
    """Seed of the stream from which training draws its minibatches."""

    @property
    def epsilon(self) -> float:
        """Scale of the initial order parameters, degrees sigma^2."""
        sigma = self.sigma if self.sigma is not None else float(np.sqrt(np.mean((self.weights / self.problem.initial_scale) ** 2)))
        return self.architecture.degrees * sigma**2


@dataclass(frozen=True)
class TierCurve:
    """One tier of theory for one cell."""

    mode: Float[Array, "records watched"]
    """Recovered strengths of the watched modes."""
    loss: Float[Array, "records"]
    """Training loss, all modes and the floor included."""
    ignition: Float[Array, "watched"]
    """Steps until strength 1/2: nan where not predicted, inf where never."""


@dataclass(frozen=True)
class Prediction:
    """All that theory says about one cell without training it."""

    regime: Regime
    tiers: dict[str, TierCurve] = field(default_factory=dict)
    plateau_loss: Float[Array, "watched"] | None = None
    """Loss on the plateau that each watched mode's ignition ends (nan: none); None without tiers."""
    modes: System | None = None
    """The closed modes behind asymptote, flow and discrete."""
    events: EventClock | None = None
    """The walk behind the event tier."""

    @property
    def standing(self) -> str:
        return self.regime.standing

    @property
    def reason(self) -> str:
        return self.regime.reason


def predict(cells: Sequence[CellInputs], tiers: Collection[str] = TIERS) -> list[Prediction]:
    """Predict many cells at once, in those of the asked tiers that each admits; systems of equal shape are stepped together."""
    regimes = [_regime_of(cell) for cell in cells]
    systems = {i: system(cell, found) for i, (cell, found) in enumerate(zip(cells, regimes, strict=True)) if found.closed}
    # An isotropic M is stepped whole.
    stepped = {i: modes for i, modes in systems.items() if regimes[i].name != "isotropic"} if "discrete" in tiers else {}
    found = discrete_modes(list(stepped.values()), [cells[i].optimizer for i in stepped], [cells[i].step_number for i in stepped])
    discrete = dict(zip(stepped, found, strict=True))
    coupled = {i: system(cells[i], known) for i, known in enumerate(regimes) if known.coupled}
    systems |= coupled
    if "discrete" in tiers:
        among = [modes for modes in coupled.values() if isinstance(modes, CoupledSystem)]
        discrete |= zip(
            coupled, coupled_modes(among, [cells[i].optimizer for i in coupled], [cells[i].step_number for i in coupled]), strict=True
        )
    closure = [i for i, known in enumerate(regimes) if known.stepped and "discrete" in tiers]
    predictions = [_prediction(cell, regimes[i], systems.get(i), discrete.get(i), tiers) for i, cell in enumerate(cells)]
    for i, (strength, loss) in zip(closure, order_curves([cells[i] for i in closure]), strict=True):
        predictions[i] = _with_closure(predictions[i], TierCurve(strength, loss, crossing(cells[i].step_number, strength)))
    return predictions


def _regime_of(cell: CellInputs) -> Regime:
    return regime(cell.architecture, cell.problem, cell.optimizer, np.asarray(cell.weights, float), int(cell.step_number[-1]))


def _with_closure(known: Prediction, curve: TierCurve) -> Prediction:
    """The closure has no plateaus of its own: those of the event clock where there is one."""
    plateau_loss = np.full(len(curve.ignition), np.nan) if known.plateau_loss is None else known.plateau_loss
    return replace(known, tiers=known.tiers | {"discrete": curve}, plateau_loss=plateau_loss)


def system(cell: CellInputs, found: Regime) -> System:
    """The closed modes of a cell in a closed regime."""
    architecture, problem, weights = cell.architecture, cell.problem, np.asarray(cell.weights, float)
    if found.name == "whitened_feedforward":
        return feedforward_system(architecture, problem, weights)
    if found.name == "isotropic":
        return symmetric_system(problem, architecture.factors(weights)[0], curvature_of(problem.moments))
    if found.name == "general":
        return projector_system(problem, problem_projectors(problem.moments, architecture.factors(weights)[0]))
    build = {"orthogonal_features": entry_system, "lotka_volterra": coupled_system}.get(found.name, group_system)
    return build(architecture, problem, weights)


def _prediction(cell: CellInputs, found: Regime, modes: System | None, discrete: Array | None, asked: Collection[str]) -> Prediction:
    curves, plateau_loss, events = {}, None, None
    if isinstance(modes, CoupledSystem):
        curves, modes = _coupled(cell, modes, discrete, asked), None
    elif modes is not None and found.name == "isotropic":
        plateau_loss, curves = _plateau_loss(cell, modes), _isotropic(cell, modes, asked)
    elif modes is not None:
        plateau_loss = _plateau_loss(cell, modes)
        if "asymptote" in asked:
            curves["asymptote"] = _asymptote(cell, modes)
        if "flow" in asked:
            time = cell.optimizer.flow_time(cell.step_number)
            curves["flow"] = _curve(cell, modes, modes.flow(time, cell.optimizer.weight_decay), _flow_ignition(cell, modes))
        if discrete is not None:
            curves["discrete"] = _curve(cell, modes, discrete, clock_steps(cell, modes, modes.led(modes.seed)[modes.owner]))
    if found.evented and "event" in asked:
        events, curves["event"], plateau_loss = _event_prediction(cell)
    return Prediction(found, curves, plateau_loss, modes, events)


def _coupled(cell: CellInputs, modes: CoupledSystem, discrete: Array | None, asked: Collection[str]) -> dict[str, TierCurve]:
    """Interacting modes, integrated and stepped; what ignites after the records is read off the flow, if there are not too many modes."""
    curves, later = {}, np.full(len(modes.mix), np.nan)
    time = cell.optimizer.flow_time(cell.step_number)
    if len(modes.rate) <= MOST_WALKED and np.all(modes.seed > 0):
        events = walk(modes.rate[None, :, 0], modes.interaction[None], np.log(modes.seed[None, :, 0]), cell.optimizer)
        last = max((float(event.step[0]) for event in events.events), default=1.0)
        grid = np.geomspace(1.0, max(2 * last, 2.0), LATE_POINTS)
        # One solution serves both grids.
        times, place = np.unique(np.concatenate([grid * cell.optimizer.time_scale, time]), return_inverse=True)
        path = modes.flow(times, cell.optimizer.weight_decay)[place]
        flow, recorded = path[: len(grid)], path[len(grid) :]
        later = cell.optimizer.scheduled_steps(crossing(grid, modes.strength(flow)))
        if "event" in asked:
            curves["event"] = _walked(cell, modes, events, grid)
    else:
        recorded = modes.flow(time, cell.optimizer.weight_decay)
    if "flow" in asked:
        curves["flow"] = _curve(cell, modes, recorded, later)
    if discrete is not None:
        curves["discrete"] = _curve(cell, modes, discrete, later)
    return curves


def _walked(cell: CellInputs, modes: CoupledSystem, found: Walk, grid: Float[Array, "points"]) -> TierCurve:
    """The event clock of interacting modes; no statement on ignitions whose events lie too close for it.

    `grid` (full steps) is where late ignitions are looked for.
    """
    late = cell.optimizer.scheduled_steps(crossing(grid, modes.strength(found.z(grid)[..., None])))
    curve = _curve(cell, modes, found.z(cell.optimizer.full_steps(cell.step_number))[..., None], late)
    ignition = np.where(np.isnan(curve.ignition) & np.isnan(late), np.inf, curve.ignition)
    # A mode may pass on its way out in a doubtful event, long before one of its own.
    doubtful = np.where(found.trusted[0], np.inf, found.step[0]).min()
    share = np.abs(modes.mix[..., 0])
    part = (share >= SLIGHT * share.max(-1, keepdims=True)) & np.isfinite(found.step[0])
    known = ((found.step[0] < doubtful) | ~part).all(-1) & (part.any(-1) | np.isinf(doubtful))
    return replace(curve, ignition=np.where(known, ignition, np.nan))


def _isotropic(cell: CellInputs, modes: System, asked: Collection[str]) -> dict[str, TierCurve]:
    """M as a whole, in closed form and step by step; clocks of modes with effective seeds beyond the records."""
    factor = cell.architecture.factors(np.asarray(cell.weights, float))[0]
    curves = {}
    if "asymptote" in asked:
        curves["asymptote"] = _asymptote(cell, modes)
    if "flow" in asked:
        time = cell.optimizer.flow_time(cell.step_number)
        orders = isotropic_flow(cell.problem, factor, time, cell.optimizer.weight_decay)
        curves["flow"] = _order_curve(cell, orders, _flow_ignition(cell, modes))
    if "discrete" in asked:
        orders = exact_steps(cell.problem, factor, cell.optimizer, cell.step_number)
        curves["discrete"] = _order_curve(cell, orders, clock_steps(cell, modes, modes.led(modes.seed)[modes.owner]))
    return curves


def _order_curve(cell: CellInputs, orders: Float[Array, "records rows rows"], late: Float[Array, "watched"]) -> TierCurve:
    """The same as `_curve` for whole order parameters."""
    strength = np.array([cell.problem.modes.strength(order) for order in orders])
    loss = np.array([cell.problem.moments.loss(order) for order in orders])
    ignition = crossing(cell.step_number, strength)
    return TierCurve(strength, loss, np.where(np.isnan(ignition) & (late > cell.step_number[-1]), late, ignition))


def _event_prediction(cell: CellInputs) -> tuple[EventClock, TierCurve, Float[Array, "watched"]]:
    """The event clock, its curve with ignition times, and the loss on each of its plateaus."""
    problem, basis = cell.problem, cell.problem.modes
    factors = cell.architecture.factors(np.asarray(cell.weights, float))
    clock = event_clock(problem.moments, factors, cell.optimizer, len(basis.target))
    orders = clock.orders(cell.optimizer.full_steps(cell.step_number))
    strength = np.array([basis.strength(order) for order in orders])
    ignition, late = crossing(cell.step_number, strength), cell.optimizer.scheduled_steps(clock.ignition(basis))
    ignition = np.where(np.isnan(ignition) & (late > cell.step_number[-1]), late, ignition)
    loss = np.array([problem.moments.loss(order) for order in orders])
    # The plateau before the first one at whose end the mode is at half strength or more.
    reached = np.array([basis.strength(plateau) >= FRACTION for plateau in clock.plateaus])
    before = np.array([problem.moments.loss(plateau) for plateau in clock.plateaus])[np.maximum(reached.argmax(0) - 1, 0)]
    return clock, TierCurve(strength, loss, ignition), np.where(reached.any(0), before, np.nan)


def _curve(cell: CellInputs, modes: System, z: Array, late: Float[Array, "watched"]) -> TierCurve:
    """Strengths, loss and ignition of a tier; `late` is its clock for modes that ignite after the last record."""
    strength = modes.strength(z)
    ignition = crossing(cell.step_number, strength)
    return TierCurve(strength, modes.loss(z), np.where(np.isnan(ignition) & (late > cell.step_number[-1]), late, ignition))


def _goal(modes: System) -> Float[Array, "watched"]:
    """z at which the leading member of the group that owns a watched mode brings it to half strength; inf if never."""
    share = np.take_along_axis(modes.mix, modes.leader[None, :, None], -1)[..., 0][np.arange(len(modes.mix)), modes.owner]
    return np.divide(FRACTION, share, out=np.full_like(share, np.inf), where=share > 0)


def flow_time(cell: CellInputs, modes: System, seed: Float[Array, "... watched"]) -> Float[Array, "... watched"]:
    """Gradient-flow time at which each watched mode reaches half strength, were this the seed of the leader that owns it."""
    rate, saturation = (modes.led(array)[modes.owner] for array in (modes.rate - 2 * cell.optimizer.weight_decay, modes.saturation))
    return closed.logistic_time(_goal(modes), rate, saturation, seed)


def clock_steps(cell: CellInputs, modes: System, seed: Float[Array, "... watched"]) -> Float[Array, "... watched"]:
    """The same in steps, with the flow's clock run at the exact growth per step."""
    rate = modes.led(modes.rate)[modes.owner]
    gain = log_growth(rate, cell.optimizer)
    flow_gain = rate - 2 * cell.optimizer.weight_decay
    scale = np.divide(flow_gain, gain, out=np.full_like(gain, 1 / cell.optimizer.time_scale), where=gain > 0)
    return cell.optimizer.scheduled_steps(flow_time(cell, modes, seed) * scale)


def _flow_ignition(cell: CellInputs, modes: System) -> Float[Array, "watched"]:
    return cell.optimizer.scheduled_steps(flow_time(cell, modes, modes.led(modes.seed)[modes.owner]) / cell.optimizer.time_scale)


def asymptotic_steps(cell: CellInputs, modes: System) -> Float[Array, "groups"]:
    """t_k = ln(1/epsilon) / rate in steps; inf for modes without a positive rate or without a seed."""
    rate = modes.led(modes.rate) - 2 * cell.optimizer.weight_decay
    grows = (rate > 0) & (modes.led(modes.seed) > 0)
    full = np.where(grows, -np.log(cell.epsilon), np.inf) / np.where(grows, rate, 1) / cell.optimizer.time_scale
    return cell.optimizer.scheduled_steps(full)


def _asymptote(cell: CellInputs, modes: System) -> TierCurve:
    start = asymptotic_steps(cell, modes)
    z = np.where(np.asarray(cell.step_number)[:, None] >= start, _capacity(cell, modes), 0)[..., None] * _lead(modes)
    goal, owner = _goal(modes), modes.owner
    ignition = np.where(_capacity(cell, modes)[owner] >= goal, np.maximum(start, 0)[owner], np.inf)
    return TierCurve(modes.strength(z), modes.loss(z), ignition)


def _capacity(cell: CellInputs, modes: System) -> Float[Array, "groups"]:
    """Plateau z(inf) of each leader."""
    rate, saturation = modes.led(modes.rate) - 2 * cell.optimizer.weight_decay, modes.led(modes.saturation)
    return np.divide(np.maximum(rate, 0), saturation, out=np.zeros_like(rate), where=saturation > 0)


def _lead(modes: System) -> Array:
    """1 at each group's leader, 0 at the other members."""
    return np.arange(modes.rate.shape[1]) == modes.leader[:, None]


def _plateau_loss(cell: CellInputs, modes: System) -> Float[Array, "watched"]:
    """Loss with every group that ignites before the watched mode's own at its plateau and the others at zero."""
    rate, capacity = modes.led(modes.rate) - 2 * cell.optimizer.weight_decay, _capacity(cell, modes)
    half = closed.logistic_time(np.where(capacity > 0, capacity / 2, np.inf), rate, modes.led(modes.saturation), modes.led(modes.seed))
    before = half[None] < half[modes.owner][:, None]
    return modes.loss((before * capacity)[..., None] * _lead(modes))
