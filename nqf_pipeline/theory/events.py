"""Saddle-to-saddle clock of feedforward layers with correlated inputs: no integration of weights, one walk over the plateaus.

On each plateau the residents relax together (`theory.residents`), towards the best order parameter of their rank. Weights outside the
residents' directions in unit space are small and follow the linear flow of the residual E = K (G* - G): along its singular pairs, z gains
4 sigma - 2 weight_decay per unit of time in the symmetric part, loses 4 sigma + 2 weight_decay in the antisymmetric one, and
2 weight_decay off all pairs. Residents rest where their own pair has sigma = weight_decay / 2: it gains nothing, nor does what is small
beside them along it. The next event is when ln z reaches the logarithm of its capacity, where the saturating curve
passes half of it (theory: section 4, "The event clock", matrix form).

The walk is wrong where events overlap, where a new resident moves on before it has risen, and where weight decay leaves a mode so little
height that it starts near it. All are estimated along with it: the relative error of an event is what overlaps, in ln z, over the growth so
far. Above `TRUSTED`, integrate the twin instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.modes import ModeBasis
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.theory.growth import log_growth
from nqf_pipeline.theory.ignition import crossing
from nqf_pipeline.theory.residents import EMPTY, Landscape, Stretch

Array = Any
FIRST_INTERVAL, WIDENING = 0.25, 1.4
"""The residual is held constant over intervals that start at this share of the fastest growth time and widen by this factor."""
MOST_CHANGE, MOST_HALVINGS = 0.1, 12
"""Residents may change by this share of their size within one interval."""
MOST_INTERVALS = 120
MINOR = 0.05
"""Pairs whose height is below this share of the largest one are fluctuations of the residual, not the next mode."""
RELAXATION, SETTLING, RELAXATION_POINTS = 8, 200.0, 100
"""A strength is looked for up to this many times the last event's step, and at least this many growth times of the fastest mode: residents
relax slowly where inputs are ill-conditioned."""
FASTEST_LOSS = -1e3
"""Of ln z per step: a single step may end a decaying part altogether, whose logarithm is infinite."""
MARGINAL = 1e-6
"""Pairs that gain no more than this share of what weight decay takes are at rest."""
TRUSTED = 0.04
"""Relative error, as estimated, up to which the walk is taken."""


@dataclass(frozen=True)
class Interval:
    """A stretch of the residents' flow, from `step` on."""

    step: float
    stretch: Stretch


@dataclass(frozen=True)
class Invader:
    """The singular pair whose logistic growth passes half its height at `step`."""

    step: float
    saturated: Float[Array, "rows columns"]
    rate: float
    """Growth of ln z in flow time."""
    plateau: Float[Array, "rows columns"]
    """G of the residents, where their plateau ends."""
    error: float
    """Estimated relative error of the step."""


@dataclass(frozen=True)
class EventClock:
    """The residents' path in intervals, the first from step 0 with G = 0, and the invaders that join them."""

    intervals: list[Interval]
    invaders: list[Invader]
    time_scale: float
    reach: float
    """Step up to which strengths are looked for."""

    @property
    def step(self) -> Float[Array, "events"]:
        """Steps of the events."""
        return np.array([invader.step for invader in self.invaders])

    def error(self, end: float = np.inf) -> float:
        """Largest estimated relative error of the events up to this step."""
        return max((invader.error for invader in self.invaders if invader.step <= end), default=0.0)

    @property
    def plateaus(self) -> list[Float[Array, "rows columns"]]:
        """G where each event finds it, and in the end."""
        return [*(invader.plateau for invader in self.invaders), self.intervals[-1].stretch.order]

    def ignition(self, modes: ModeBasis) -> Float[Array, "modes"]:
        """Step at which each watched strength reaches one half; inf where it does not, however long residents relax."""
        if not self.invaders:
            return np.full(len(modes.target), np.inf)
        span = np.geomspace(max(self.step[0] / 2, 1), self.reach, RELAXATION_POINTS)
        grid = np.unique(np.concatenate([self.step, span]))
        found = crossing(grid, np.array([modes.strength(order) for order in self.orders(grid)]))
        return np.where(np.isnan(found), np.inf, found)

    def orders(self, step_number: Float[Array, "records"]) -> Float[Array, "records rows columns"]:
        """G at these steps: the residents' path, with each invader's jump replaced by its logistic growth."""
        steps = np.asarray(step_number, float)
        starts = np.array([interval.step for interval in self.intervals])
        current = np.searchsorted(starts, steps, side="right") - 1
        orders = np.empty((len(steps), *self.intervals[0].stretch.order.shape))
        for k in np.unique(current):
            here = current == k
            orders[here] = self.intervals[k].stretch.after((steps[here] - starts[k]) * self.time_scale)
        for invader in self.invaders:
            away = (steps - invader.step) * self.time_scale * invader.rate
            share = np.where(away < 0, 1, -1) * expit(-np.abs(away))
            orders += share[:, None, None] * invader.saturated
        return orders


def event_clock(moments: Moments, factors: tuple[Array, Array], optimizer: Optimizer, most: int) -> EventClock:
    """Walk at most `most` events of a "left" structure from initial factors (Z1, Z2)."""
    walker = Walker(Landscape(moments, optimizer.weight_decay), optimizer, Small.start(factors), np.zeros_like(moments.optimum))
    most = min(most, factors[0].shape[1], int(np.sum(np.linalg.svd(moments.linear, compute_uv=False) > EMPTY)))
    while len(walker.invaders) < most and walker.next_event():
        pass
    fastest = float(log_growth(4 * np.linalg.norm(moments.linear, 2), optimizer))
    reach = max(RELAXATION * walker.now, SETTLING / fastest if fastest > 0 else 0.0, 2.0)
    walker.settle(reach)
    return EventClock(walker.intervals, walker.invaders, optimizer.time_scale, reach)


@dataclass(frozen=True)
class Growing:
    """The singular pairs of a residual, as invaders."""

    left: Float[Array, "rows pairs"]
    right: Float[Array, "pairs columns"]
    size: Float[Array, "pairs"]
    gain: Float[Array, "pairs"]
    """Of ln z per step."""
    loss: Float[Array, "pairs"]
    """The same (negative) of their antisymmetric parts."""
    idle: float
    """The same of what no pair drives: 0 without weight decay."""
    height: Float[Array, "pairs"]
    """Of the best multiple of a pair by itself."""
    modes: Float[Array, "pairs degrees"]
    """p_k, their vectors in unit space."""
    learnt: float
    """Size of what the residents hold."""

    @classmethod
    def of(cls, landscape: Landscape, order: Array, small: Small, optimizer: Optimizer) -> Growing:
        left, size, right = np.linalg.svd(landscape.residual(order), full_matrices=False)
        curvature = np.einsum("ak,ak->k", left, landscape.moments.operator @ left)
        height = (size - landscape.weight_decay / 2) / np.where(curvature > 0, curvature, np.inf)
        modes = small.symmetric(left, right)
        # Steps so long that what decays would overshoot and grow are not this clock's matter: training diverges.
        loss, idle = (np.clip(log_growth(rate, optimizer), FASTEST_LOSS, 0) for rate in (-4 * size, np.zeros(())))
        gain = np.maximum(log_growth(4 * size, optimizer), FASTEST_LOSS)
        return cls(left, right, size, gain, loss, float(idle), height, modes, float(np.linalg.norm(order)))

    @property
    def grows(self) -> Bool[Array, "pairs"]:
        """Not what rests: with weight decay a resident's own pair has no gain but what is left of its relaxation."""
        return self.gain > MARGINAL * -self.idle

    @property
    def room(self) -> Float[Array, "pairs"]:
        """ln of the capacity over z."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(2 * np.maximum(self.height, 0)) - np.log((self.modes**2).sum(1)))

    @property
    def need(self) -> Float[Array, "pairs"]:
        """Growth of ln z still missing; inf for pairs that do not rise."""
        rises = self.grows & (self.height >= MINOR * self.height.max()) & (self.height > 0)
        need = self.room
        # A weak pair that starts above its capacity is a remnant of the residual; only the strongest may ignite at once.
        at_once = (np.arange(len(need)) == 0) & (self.height >= MINOR * self.learnt)
        return np.where(rises & ((need > 0) | at_once), np.maximum(need, 0), np.inf)

    @property
    def waits(self) -> Float[Array, "pairs"]:
        """Steps until each ignites, were the residual to stay."""
        return np.where(np.isfinite(self.need), self.need, np.inf) / np.where(self.gain > 0, self.gain, 1.0)


@dataclass
class Walker:
    """Where the walk stands."""

    landscape: Landscape
    optimizer: Optimizer
    small: Small
    order: Float[Array, "rows columns"]
    now: float = 0.0
    settling: float = 0.0
    """Speed per step at which the newest resident comes to rest, where a stretch is not exact along it (with weight decay)."""
    intervals: list[Interval] = field(default_factory=list)
    invaders: list[Invader] = field(default_factory=list)

    def next_event(self) -> bool:
        """Follow residents and small weights up to the next event; False if there is none."""
        interval, initial = 0.0, replace(self.small)
        for _ in range(MOST_INTERVALS):
            stretch = Stretch(self.landscape, self.order, len(self.invaders))
            growing = self._growing(self.order)
            if not growing.grows.any():
                return False
            interval = self._bounded(stretch, max(interval * WIDENING, FIRST_INTERVAL / max(growing.gain[0], self.settling)))
            growing = self._growing(self._after(stretch, interval / 2))
            first = int(np.argmin(growing.waits))
            wait = float(growing.waits[first])
            self._take(stretch, min(wait, interval))
            self.small.advance(growing, min(wait, interval))
            if wait <= interval:
                self._join(growing, first, initial)
                return True
        return False

    def settle(self, end: float) -> None:
        """Follow the residents alone up to this step."""
        interval = 0.0
        for _ in range(MOST_INTERVALS):
            stretch = Stretch(self.landscape, self.order, len(self.invaders))
            interval = self._bounded(stretch, max(interval * WIDENING, end / 1e4, 1.0))
            self._take(stretch, interval)
            if self.now >= end:
                return

    def _growing(self, order: Array) -> Growing:
        return Growing.of(self.landscape, order, self.small, self.optimizer)

    def _after(self, stretch: Stretch, steps: float) -> Array:
        return stretch.after(np.array([steps * self.optimizer.time_scale]))[0]

    def _bounded(self, stretch: Stretch, interval: float) -> float:
        """The longest interval, by halving, within which the residents change little."""
        size = np.linalg.norm(stretch.order)
        for _ in range(MOST_HALVINGS):
            if np.linalg.norm(self._after(stretch, interval) - stretch.order) <= MOST_CHANGE * size:
                break
            interval /= 2
        return interval

    def _take(self, stretch: Stretch, steps: float) -> None:
        self.intervals.append(Interval(self.now, stretch))
        self.order = stretch.end(steps * self.optimizer.time_scale)
        self.now += steps

    def _overlap(self, growing: Growing, first: int, initial: Small) -> float:
        """What overlaps with an event, in ln z: company near its own capacity, a predecessor still rising, a start near saturation."""
        company = float(np.exp(-np.delete(growing.need, first)).sum()) / 2
        early = (initial.symmetric(growing.left[:, [first]], growing.right[[first]]) ** 2).sum() / (2 * growing.height[first])
        company += float(min(early, 1.0))
        if self.invaders:
            before = self.invaders[-1]
            company += float(np.exp(-min((self.now - before.step) * self.optimizer.time_scale * before.rate, 700.0)))
        return company

    def _join(self, growing: Growing, first: int, initial: Small) -> None:
        """The invader becomes a resident at its full height, and its direction in unit space is taken."""
        saturated = growing.height[first] * np.outer(growing.left[:, first], growing.right[first])
        rate = 4 * growing.size[first] - 2 * self.landscape.weight_decay
        before, self.order = self.order, self.order + saturated
        moving = Stretch(self.landscape, self.order, len(self.invaders) + 1).after(np.array([1 / rate]))[0] - self.order
        drift = float(np.linalg.norm(moving) / np.linalg.norm(saturated))
        error = (self._overlap(growing, first, initial) + drift / 2) / max(float(growing.gain[first]) * self.now, 1e-3)
        self.settling = float(growing.gain[first]) if self.landscape.weight_decay else 0.0
        self.invaders.append(Invader(self.now, saturated, rate, before, min(error, 1.0)))
        self.small.remove(growing.modes[first])


@dataclass
class Small:
    """Weights outside the residents' directions: rows of Z1 and Z2 in unit space, reduced to as many degrees as rows."""

    first: Float[Array, "rows degrees"]
    second: Float[Array, "columns degrees"]

    @classmethod
    def start(cls, factors: tuple[Array, Array]) -> Small:
        """Only the Gram matrix of the rows matters, so degrees beyond the number of rows are folded in exactly."""
        rows = np.concatenate(factors)
        if rows.shape[1] > rows.shape[0]:
            rows = np.asarray(np.linalg.qr(rows.T, mode="r")).T
        return cls(rows[: len(factors[0])], rows[len(factors[0]) :])

    def symmetric(self, left: Float[Array, "rows pairs"], right: Float[Array, "pairs columns"]) -> Float[Array, "pairs degrees"]:
        """p_k: what these pairs hold of the part that grows."""
        return np.asarray((left.T @ self.first + right @ self.second) / np.sqrt(2.0))

    def advance(self, growing: Growing, steps: float) -> None:
        """The linear flow over some steps: symmetric parts of each singular pair grow, antisymmetric ones and what no pair drives decay."""
        left, right, gain = growing.left, growing.right, growing.gain
        # What waits above or at its capacity without an event of its own grows no further.
        growth = np.minimum(gain * steps, np.where(gain > 0, np.maximum(growing.room, 0), np.inf))
        idle = np.exp(growing.idle * steps / 2)
        others = (left.T @ self.first - right @ self.second) / np.sqrt(2.0)
        # Beyond the decay that all share.
        grown = (np.exp(growth / 2) - idle)[:, None] * growing.modes / np.sqrt(2.0)
        decayed = (np.exp(growing.loss * steps / 2) - idle)[:, None] * others / np.sqrt(2.0)
        self.first = idle * self.first + left @ (grown + decayed)
        self.second = idle * self.second + right.T @ (grown - decayed)

    def remove(self, direction: Float[Array, "degrees"]) -> None:
        """Take a direction out of unit space."""
        unit = direction / np.linalg.norm(direction)
        self.first = self.first - np.outer(self.first @ unit, unit)
        self.second = self.second - np.outer(self.second @ unit, unit)
