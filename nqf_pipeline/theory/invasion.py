"""Event clock of interacting modes, dz_k/dt = z_k (r_k - sum_j C_kj z_j), for small seeds: no time steps, many cells at once.

On each plateau the residents S sit at z_S = C_SS^-1 r_S and every other mode grows at its invasion rate r_k - sum_S C_kj z_j,
so ln z_k is piecewise linear. The next event is the first mode to reach the logarithm of its own capacity as an invader,
where the saturating curve passes half of it; residents driven out leave (theory: section 4, "The event clock").

Three corrections need no time steps either. They follow from ln z_i(t) = ln z_i(0) + r_i t - sum_j C_ij integral of z_j dt, which is exact:

- *Shift.* Let X_j be the integral of z_j minus its step at the event. Members j of the new plateau know their ln z on both sides, so
  sum_l C_jl X_l = -ln(z_j after / z_j before), and 0 for the invader. One solve gives X; small modes' lines move by -sum_l C_il X_l.
- *Company.* Modes that are small but growing slow an invader by C_kj z_j / g_j in ln z.
- *Lag.* Residents give way at finite rates, so an invader passes its half later than a logistic one (`competition.lag`).

What the walk leaves out is estimated along with it, in ln z: unfinished relaxation of the last event, company that is not small, uncertain
earlier events. Divided by the growth rate and the time it is the relative error of an ignition; above `TRUSTED`, integrate instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.theory.competition import act, fixed_point, invader_capacity, lag, slowest, solve, within
from nqf_pipeline.theory.growth import log_growth

Array = Any
EVENTS_PER_MODE, MOST_EVENTS = 3, 300
"""Modes may be driven out and come back; a longer walk is cut, and modes not reached by then count as never igniting."""
TRUSTED = 0.03
"""Relative error, as estimated, up to which an ignition is taken from the walk."""


@dataclass(frozen=True)
class Event:
    """One ignition in each cell still on its way; the others wait at infinity."""

    step: Float[Array, "cells"]
    mode: Int[Array, "cells"]
    gain: Float[Array, "cells"]
    """Growth of the invader's ln z per step."""
    settled: Float[Array, "cells modes"]
    """z on the plateau that begins here."""


@dataclass(frozen=True)
class Walk:
    """Events of some cells, and each mode's first ignition; inf for modes that never ignite."""

    step: Float[Array, "cells modes"]
    height: Float[Array, "cells modes"]
    """What z saturates at, as an invader: it ignites at half of it."""
    error: Float[Array, "cells modes"]
    """Estimated relative error of the step."""
    events: list[Event] = field(default_factory=list)

    @property
    def trusted(self) -> Bool[Array, "cells modes"]:
        """Whether the events are far enough apart; otherwise integrate."""
        return self.error <= TRUSTED

    def z(self, step: Float[Array, "records"], cell: int = 0) -> Float[Array, "records modes"]:
        """One cell's z at these (full) steps: plateaus, with the logistic growth of each invader in place of the jump.

        A resident that a slower invader drives out falls before it has risen on this account, so z is kept from falling below 0.
        """
        z, before = np.zeros((len(step), self.step.shape[1])), np.zeros(self.step.shape[1])
        for event in self.events:
            if np.isfinite(event.step[cell]):
                share = expit(event.gain[cell] * (np.asarray(step, float) - event.step[cell]))
                z += share[:, None] * (event.settled[cell] - before)
                before = event.settled[cell]
        return np.maximum(z, 0.0)


@dataclass(frozen=True)
class State:
    """Where the walk stands: the plateau, and the small modes on it."""

    now: Float[Array, "cells"]
    z: Float[Array, "cells modes"]
    """Residents at their plateau, 0 elsewhere."""
    log_z: Float[Array, "cells modes"]
    unsure: Float[Array, "cells modes"]
    """Estimated error of log_z."""
    moved: Float[Array, "cells modes"]
    """Shift of log_z by the last event, complete once the plateau has relaxed."""
    relaxing: Float[Array, "cells"]
    """Slowest rate of that relaxation, in flow time."""


@dataclass(frozen=True)
class Setting:
    """The law of all cells, with weight decay in the rates."""

    rate: Float[Array, "cells modes"]
    interaction: Float[Array, "cells modes modes"]
    optimizer: Optimizer
    corrected: bool = True

    def gain(self, invasion: Float[Array, "..."]) -> Float[Array, "..."]:
        """Growth of ln z per step; decay is in these rates already, and log_growth takes it off again."""
        return log_growth(invasion + 2 * self.optimizer.weight_decay, self.optimizer)

    def invasion(self, z: Float[Array, "cells modes"]) -> Float[Array, "cells modes"]:
        return self.rate - act(self.interaction, z)


def walk(
    rate: Float[Array, "cells modes"],
    interaction: Float[Array, "cells modes modes"],
    log_seed: Float[Array, "cells modes"],
    optimizer: Optimizer,
    corrected: bool = True,
) -> Walk:
    """Follow all cells from their seeds until nothing grows any more; `corrected` for shift, company and lag."""
    setting = Setting(np.asarray(rate) - 2 * optimizer.weight_decay, np.asarray(interaction), optimizer, corrected)
    nothing, never = np.zeros(setting.rate.shape), np.full(setting.rate.shape, np.inf)
    state = State(nothing[:, 0], nothing, np.array(log_seed, float), nothing, nothing, never[:, 0])
    found = Walk(never, nothing, nothing)
    for _ in range(min(EVENTS_PER_MODE * nothing.shape[1], MOST_EVENTS)):
        invaders = Invaders.of(setting, state)
        if not np.isfinite(invaders.wait).any():
            break
        state, found = invaders.settle(state, found)
    return found


def invasion_steps(
    rate: Float[Array, "modes"],
    interaction: Float[Array, "modes modes"],
    log_seed: Float[Array, "modes"],
    optimizer: Optimizer,
    corrected: bool = True,
) -> Float[Array, "modes"]:
    """Step at which each mode of one cell first ignites; inf for modes that never do."""
    return np.asarray(walk(rate[None], interaction[None], np.asarray(log_seed)[None], optimizer, corrected).step[0])


@dataclass(frozen=True)
class Invaders:
    """The growing modes on a plateau, and which of them comes first."""

    setting: Setting
    invasion: Float[Array, "cells modes"]
    gain: Float[Array, "cells modes"]
    """Per step, 1 where nothing grows."""
    rises: Bool[Array, "cells modes"]
    log_height: Float[Array, "cells modes"]
    first: Int[Array, "cells"]
    wait: Float[Array, "cells"]
    """Steps until the first one ignites; inf where none does."""

    @classmethod
    def of(cls, setting: Setting, state: State) -> Invaders:
        resident = state.z > 0
        invasion = setting.invasion(state.z)
        gain = setting.gain(invasion)
        height = np.where(resident, 0.0, invasion / invader_capacity(setting.interaction, resident))
        rises = (height > 0) & (gain > 0)
        log_height, gain = np.log(np.where(rises, height, 1.0)), np.where(rises, gain, 1.0)
        waits = np.where(rises, np.maximum(log_height - state.log_z, 0) / gain, np.inf)
        first = waits.argmin(1)
        alone = cls(setting, invasion, gain, rises, log_height, first, waits.min(1))
        company = alone.company(state) if setting.corrected else 0.0
        slowed = np.maximum(alone.own(log_height - state.log_z) + company, 0) / alone.own(gain)
        return replace(alone, wait=np.where(np.isfinite(alone.wait), slowed, np.inf))

    def own(self, array: Float[Array, "cells modes"]) -> Float[Array, "cells"]:
        """An array at the first invader of each cell."""
        return np.take_along_axis(array, self.first[:, None], 1)[:, 0]

    @property
    def _others(self) -> Bool[Array, "cells modes"]:
        return self.rises & (np.arange(self.rises.shape[1]) != self.first[:, None])

    def company(self, state: State) -> Float[Array, "cells"]:
        """What the other growing modes take from the first one's ln z until its event."""
        waited = np.where(np.isfinite(self.wait), self.wait, 0.0)[:, None]
        there = np.minimum(state.log_z + self.gain * waited, self.log_height)
        row = np.take_along_axis(self.setting.interaction, self.first[:, None, None], 1)[:, 0]
        return np.asarray(np.where(self._others, row * np.exp(there) / np.where(self.rises, self.invasion, 1.0), 0.0).sum(1))

    def settle(self, state: State, found: Walk) -> tuple[State, Walk]:
        """The next plateau of every cell that has one, and what is known of its event."""
        goes = np.isfinite(self.wait)
        waited = np.where(goes, self.wait, 0.0)
        resident, pick = state.z > 0, (np.arange(state.z.shape[1]) == self.first[:, None]) & goes[:, None]
        log_z = np.where(resident, state.log_z, state.log_z + np.where(self.rises, self.gain, self._decline) * waited[:, None])
        now = state.now + waited
        settled: Array = np.where(goes[:, None], fixed_point(self.setting.rate, self.setting.interaction, resident | pick), state.z)
        shift, gone = self._shift(state.z, settled, pick), resident & (settled <= 0)
        log_z = np.where(gone, np.log(np.where(resident, state.z, 1.0)), log_z) + shift
        unsure, timing = self._uncertainty(state, settled, waited, log_z - shift)
        after = State(
            np.where(goes, now, state.now),
            settled,
            np.where(goes[:, None], log_z, state.log_z),
            np.where(goes[:, None], unsure, state.unsure),
            np.where(goes[:, None], shift, state.moved),
            np.where(goes, np.minimum(slowest(settled, self.setting.interaction), self.own(self.invasion)), state.relaxing),
        )
        return after, self._recorded(found, state, pick, now, settled, timing)

    @property
    def _decline(self) -> Float[Array, "cells modes"]:
        """Change of ln z per step of modes that do not grow."""
        return self.setting.gain(self.invasion)

    def _shift(self, before: Array, settled: Array, pick: Array) -> Float[Array, "cells modes"]:
        """-C X: by how much the transition moves the line of each small mode; a resident driven out is taken to decay from its step on."""
        if not self.setting.corrected:
            return np.zeros_like(settled)
        member, stays = settled > 0, (settled > 0) & (before > 0) & ~pick
        known = np.where(stays, -np.log(np.where(stays, settled, 1.0) / np.where(stays, before, 1.0)), 0.0)
        excess = np.where(member, solve(within(self.setting.interaction, member), known), 0.0)
        return np.where(member, 0.0, -act(self.setting.interaction, excess))

    def _uncertainty(self, state: State, settled: Array, waited: Array, log_z: Array) -> tuple[Array, Array]:
        """(errors of ln z on the next plateau, error of this event in flow time)."""
        matrix, rate = np.abs(self.setting.interaction), np.where(np.isfinite(self.wait), self.own(self.invasion), 1.0)
        scale = self.setting.optimizer.time_scale
        relaxed = np.where(np.isfinite(state.relaxing), state.relaxing, 0.0) * waited * scale
        unsure = state.unsure + np.abs(state.moved) * np.exp(-np.minimum(relaxed, 700.0))[:, None]
        close = np.where(self._others, np.exp(np.minimum(log_z - self.log_height, 0.0)), 0.0)
        speed = np.where(self.rises, self.invasion, 1.0)
        height, mine = np.exp(self.own(self.log_height)), self.first[:, None, None]
        row, column = np.take_along_axis(matrix, mine, 1)[:, 0], np.take_along_axis(matrix, mine, 2)[..., 0]
        timing = (self.own(unsure) + (row * close * np.exp(self.log_height) / speed).sum(1) / 2) / rate
        later = self.setting.invasion(settled)
        gone = (state.z > 0) & (settled <= 0)
        leaving = np.divide(state.z, np.maximum(np.abs(later), 1e-3 * np.abs(self.setting.rate)), out=np.zeros_like(later), where=gone)
        unsure = unsure + np.abs(later - self.invasion) * timing[:, None] + close * column * height[:, None] / speed / 2
        unsure = np.where((state.z > 0) | (settled > 0), 0.0, unsure + act(matrix, leaving) / 2)
        return np.where(gone, 1.0, unsure), timing

    def _recorded(self, found: Walk, state: State, pick: Array, now: Array, settled: Array, timing: Array) -> Walk:
        goes = np.isfinite(self.wait)
        rate, height = (np.where(goes, self.own(array), 1.0) for array in (self.invasion, np.exp(self.log_height)))
        behind = lag(state.z, self.setting.interaction, self.first, rate, height) if self.setting.corrected else np.zeros_like(rate)
        steps_per_time = rate / np.where(goes, self.own(self.gain), 1.0)
        step = np.where(goes, now + behind * steps_per_time, np.inf)
        error = (timing + behind**2 * rate / 2) * steps_per_time / np.maximum(step, 1e-300)
        new = pick & (step[:, None] < found.step)
        event = Event(np.where(goes, now, np.inf), self.first, self.own(self.gain), settled)
        return Walk(
            np.where(new, step[:, None], found.step),
            np.where(new, height[:, None], found.height),
            np.where(new, error[:, None], found.error),
            [*found.events, event],
        )
