"""Saddle-to-saddle clock of feedforward layers with correlated inputs: no time steps, one walk over the plateaus.

On plateau k the order parameter relaxes to R_k, the best one of rank k (theory: section 4, "The event clock",
matrix form). Weights outside the k residents' directions in unit space are small and follow the linear flow of the residual E = K (G* - G):
along its singular pairs, z gains 4 sigma per unit of time. The next event is when the straight line of ln z reaches
the logarithm of its capacity, where the saturating curve passes half of it. Residents reach directions of small K slowly, at rates
2 kappa h with kappa the eigenvalue of K and h the resident's own strength, so E is followed through that relaxation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.modes import ModeBasis
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.theory.growth import log_growth
from nqf_pipeline.theory.ignition import crossing

Array = Any
RANK_TOLERANCE = 1e-9
"""Singular values below this share of the largest are rounding, not modes."""
FIRST_INTERVAL, WIDENING = 0.25, 1.4
"""The residual is held constant over intervals that start at this share of the fastest growth time and widen by this factor."""
MOST_INTERVALS = 60
MINOR = 0.05
"""Pairs whose height is below this share of the largest one are fluctuations of the residual, not the next mode."""
STRETCH_POINTS = 200
RELAXATION, RELAXATION_POINTS = 8, 100
"""A strength is looked for up to this many times the last event's step: residents relax slowly where inputs are ill-conditioned."""


@dataclass(frozen=True)
class Metric:
    """K of a "left" structure in its eigenbasis, with the minima of the loss at each rank."""

    moments: Moments

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        values, axes = np.linalg.eigh(self.moments.operator)
        return np.where(values > 1e-12 * values[-1], values, 0.0), axes

    def ranked(self, most: int) -> list[Array]:
        """R_0 = 0, R_1, ...: K^(-1/2) times the truncations of K^(1/2) G*, at most `most` of them after R_0."""
        values, axes = self.eigen
        root = np.sqrt(values)
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        left, size, right = np.linalg.svd(root[:, None] * (axes.T @ self.moments.optimum), full_matrices=False)
        count = min(most, int(np.sum(size > RANK_TOLERANCE * max(size[0], 1e-300))))
        terms = [np.outer(axes @ (inverse * left[:, k]), size[k] * right[k]) for k in range(count)]
        return list(np.cumsum([np.zeros_like(self.moments.optimum), *terms], axis=0))


@dataclass(frozen=True)
class Plateau:
    """From `step` on the order parameter relaxes towards the rank-k minimum `goal`, from goal + left gap right^T.

    Along the output direction v_j of resident j, G v_j relaxes at rate 2 kappa_i h_j in the eigenbasis of K, with h_j = |G v_j| the
    resident's present strength: in the stretched time theta_j = integral of h_j dt the relaxation is exponential.
    """

    step: float
    goal: Float[Array, "rows columns"]
    gap: Float[Array, "kappas residents"]
    metric: Metric
    right: Float[Array, "columns residents"]

    @classmethod
    def after(cls, step: float, goal: Array, reached: Array, metric: Metric) -> Plateau:
        """The plateau that begins with G = reached."""
        _, strength, right = np.linalg.svd(goal, full_matrices=False)
        right = right[strength > RANK_TOLERANCE * max(strength[0], 1e-300)].T
        return cls(step, goal, metric.eigen[1].T @ (reached - goal) @ right, metric, right)

    def orders(self, times: Float[Array, "times"]) -> Float[Array, "times rows columns"]:
        """G after flow times on this plateau."""
        values, axes = self.metric.eigen
        stretched = np.empty((len(times), 1, self.gap.shape[1]))
        for j, clock in enumerate(self._clocks):
            stretched[:, 0, j] = np.interp(times, clock, self._stretched)
        return self.goal + axes @ (self.gap * np.exp(-2 * values[:, None] * stretched)) @ self.right.T

    @cached_property
    def _stretched(self) -> Float[Array, "points"]:
        values = self.metric.eigen[0]
        ends = (1e-2 / values.max(), 1e2 / values[values > 0].min())
        return np.concatenate([[0.0], np.geomspace(*ends, STRETCH_POINTS)])

    @cached_property
    def _clocks(self) -> Float[Array, "residents points"]:
        """Flow time at the points of stretched time, by the trapezoidal rule."""
        values, axes = self.metric.eigen
        decay = np.exp(-2 * self._stretched[:, None] * values)
        columns = axes.T @ self.goal @ self.right + decay[..., None] * self.gap
        slowness = 1 / np.maximum(np.linalg.norm(columns, axis=1), 1e-300)
        steps = np.diff(self._stretched)[:, None] * (slowness[1:] + slowness[:-1]) / 2
        return np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps, 0)]).T


@dataclass(frozen=True)
class Invader:
    """The singular pair whose logistic growth passes half its height at `step`."""

    step: float
    saturated: Float[Array, "rows columns"]
    rate: float
    """Growth of ln z in flow time."""


@dataclass(frozen=True)
class EventClock:
    """Plateaus in order, the first from step 0 with G = 0, and the invaders that begin the others."""

    plateaus: list[Plateau]
    invaders: list[Invader]
    time_scale: float

    @property
    def step(self) -> Float[Array, "events"]:
        """Steps of the events."""
        return np.array([invader.step for invader in self.invaders])

    def ignition(self, modes: ModeBasis) -> Float[Array, "modes"]:
        """Step at which each watched strength reaches one half; inf where it does not, however long residents relax."""
        if not self.invaders:
            return np.full(len(modes.target), np.inf)
        span = np.geomspace(max(self.step[0] / 2, 1), max(RELAXATION * self.step[-1], 2), RELAXATION_POINTS)
        grid = np.unique(np.concatenate([self.step, span]))
        found = crossing(grid, np.array([modes.strength(order) for order in self.orders(grid)]))
        return np.where(np.isnan(found), np.inf, found)

    def orders(self, step_number: Float[Array, "records"]) -> Float[Array, "records rows columns"]:
        """G at these steps: the plateaus' relaxation, with each invader's jump replaced by its logistic growth."""
        steps = np.asarray(step_number, float)
        starts = np.array([plateau.step for plateau in self.plateaus])
        current = np.searchsorted(starts, steps, side="right") - 1
        orders = np.empty((len(steps), *self.plateaus[0].goal.shape))
        for k in np.unique(current):
            here = current == k
            orders[here] = self.plateaus[k].orders((steps[here] - starts[k]) * self.time_scale)
        for invader in self.invaders:
            away = (steps - invader.step) * self.time_scale * invader.rate
            share = np.where(away < 0, 1, -1) * expit(-np.abs(away))
            orders += share[:, None, None] * invader.saturated
        return orders


def event_clock(moments: Moments, factors: tuple[Array, Array], optimizer: Optimizer, most: int) -> EventClock:
    """Walk at most `most` events of a "left" structure from initial factors (Z1, Z2)."""
    metric = Metric(moments)
    goals = metric.ranked(min(most, factors[0].shape[1]))
    small = Small.start(factors)
    clock = EventClock([Plateau.after(0.0, goals[0], goals[0], metric)], [], optimizer.time_scale)
    for after in goals[1:]:
        invader = small.next_invader(clock, moments, optimizer)
        if invader is None:
            break
        reached = clock.orders([invader.step])[0] + invader.saturated
        clock.plateaus.append(Plateau.after(invader.step, after, reached, metric))
        clock.invaders.append(invader)
    return clock


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

    def next_invader(self, clock: EventClock, moments: Moments, optimizer: Optimizer) -> Invader | None:
        """Follow the linear flow to the next event, None if there is none; the invader's direction is then removed.

        An invader's height is that of the best multiple of its own singular pair; much lower pairs than the highest are no events.
        """
        now, interval = clock.plateaus[-1].step, 0.0
        for _ in range(MOST_INTERVALS):
            left, size, right = np.linalg.svd(moments.act(moments.optimum - clock.orders([now + interval / 2])[0]), full_matrices=False)
            gain = log_growth(4 * size, optimizer)
            if gain[0] <= 0:
                return None
            interval = max(interval * WIDENING, FIRST_INTERVAL / gain[0])
            height = size / np.einsum("ak,ak->k", left, moments.operator @ left)
            modes = (left.T @ self.first + right @ self.second) / np.sqrt(2.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                need = np.log(2 * height) - np.log((modes**2).sum(1))
                # A weak pair that starts above its capacity is a remnant of the residual; only the strongest may ignite at once.
                rises = (gain > 0) & (height >= MINOR * height.max()) & ((need > 0) | (np.arange(len(need)) == 0))
                wait = np.where(rises, np.maximum(need, 0) / gain, np.inf)
            first = int(np.argmin(wait))
            step = min(wait[first], interval)
            self._advance(left, right, modes, gain, step)
            now += step
            if wait[first] <= interval:
                self._remove(modes[first])
                return Invader(now, height[first] * np.outer(left[:, first], right[first]), 4 * size[first])
        return None

    def _advance(self, left: Array, right: Array, modes: Array, gain: Array, steps: float) -> None:
        """The linear flow over some steps: symmetric parts of each singular pair grow, antisymmetric ones decay."""
        others = (left.T @ self.first - right @ self.second) / np.sqrt(2.0)
        grown = (np.exp(gain * steps / 2) - 1)[:, None] * modes / np.sqrt(2.0)
        decayed = (np.exp(-gain * steps / 2) - 1)[:, None] * others / np.sqrt(2.0)
        self.first = self.first + left @ (grown + decayed)
        self.second = self.second + right.T @ (grown - decayed)

    def _remove(self, direction: Float[Array, "degrees"]) -> None:
        unit = direction / np.linalg.norm(direction)
        self.first = self.first - np.outer(self.first @ unit, unit)
        self.second = self.second - np.outer(self.second @ unit, unit)
