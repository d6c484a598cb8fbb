"""Where a loss curve is fitted: between the ignition of an early mode and that of a small share of all modes.

The window opens when mode `first_mode` ignites (before it single steps are seen, not a power law) and closes when `last_share` of all modes
have ignited (from then on the modes that are missing beyond the last one bend the curve), or with the last ignition recorded. It is read
off the ignitions measured on the same curve, so it needs no theory; the prediction is then fitted in the very same window.

A curve whose window would be too short, or hold too few modes or records, has no resolved exponent. What is fitted then is all that was
recorded from the first ignition on, and the reason stays with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nqf_pipeline.study.config import WindowRule

POINTS = 8
"""Fewest records in a window."""
FALL = 0.8
"""A loss that keeps more than this share over the window has not left its plateau."""
MODES = 3.0
"""Fewest ignitions in a window."""


class Unresolved(Exception):
    """A curve that has no exponent; the message is the reason."""


@dataclass(frozen=True)
class Window:
    """A stretch of gradient-flow time."""

    start: float
    end: float
    ignitions: float
    """Modes that ignite inside."""
    reason: str = ""
    """Why no exponent is resolved in it; empty: one is."""

    @property
    def decades(self) -> float:
        return float(np.log10(self.end / self.start))

    def of(self, time: Float[np.ndarray, "points"]) -> Bool[np.ndarray, "points"]:
        """The records inside."""
        return (time >= self.start * (1 - 1e-12)) & (time <= self.end * (1 + 1e-12))

    def part(self, low: float, high: float) -> Window:
        """The part between two shares of its logarithmic length."""
        ratio = self.end / self.start
        return Window(self.start * ratio**low, self.start * ratio**high, self.ignitions * (high - low))


@dataclass(frozen=True)
class Clock:
    """When each watched mode ignites, median over seeds; modes that most seeds never ignited are left out."""

    number: Int[np.ndarray, "modes"]
    log_time: Float[np.ndarray, "modes"]

    @classmethod
    def of(cls, ignition: Float[np.ndarray, "seeds modes"], number: Int[np.ndarray, "modes"]) -> Clock:
        with np.errstate(divide="ignore"):
            middle = np.median(np.log(np.where(np.isnan(ignition), np.inf, ignition)), axis=0)
        order = np.argsort(number)
        seen = order[np.isfinite(middle[order])]
        return cls(number[seen], np.maximum.accumulate(middle[seen]))

    def time(self, mode: float) -> float:
        """Ignition of a mode, interpolated between watched ones (time is a power of the number)."""
        return float(np.exp(np.interp(np.log(mode), np.log(self.number), self.log_time)))

    @property
    def last(self) -> float:
        """Number of the last mode that ignited."""
        return float(self.number.max(initial=0))


def window(
    ignition: Float[np.ndarray, "seeds modes"], number: Int[np.ndarray, "modes"], time: Float[np.ndarray, "points"], rule: WindowRule
) -> Window:
    """The window of some seeds' mean curve; raises Unresolved where nothing can be fitted at all."""
    clock = Clock.of(ignition, number)
    try:
        return _checked(_by_rule(clock, int(number.max(initial=0)), rule), time, rule)
    except Unresolved as finding:
        if not len(clock.number) or time[-1] <= clock.time(1):
            raise
        whole = Window(clock.time(1), float(time[-1]), float(len(clock.number)), str(finding))
        if int(whole.of(time).sum()) < POINTS:
            raise
        return whole


def _by_rule(clock: Clock, total: int, rule: WindowRule) -> Window:
    last = rule.last_share * total
    if last - rule.first_mode < MODES:
        share = f"{rule.last_share:.0%} of them"
        raise Unresolved(f"too few modes: {total} in all, fewer than {MODES:g} between mode {rule.first_mode} and {share}")
    if clock.last < rule.first_mode:
        raise Unresolved(f"too few modes: mode {rule.first_mode} did not ignite within the run")
    reached = min(last, clock.last)
    return Window(clock.time(rule.first_mode), clock.time(reached), reached - rule.first_mode)


def _checked(found: Window, time: Float[np.ndarray, "points"], rule: WindowRule) -> Window:
    """The window if it is long enough to speak of an exponent."""
    if found.ignitions < MODES:
        raise Unresolved(f"too few modes: {found.ignitions:.1f} ignite in the window, at least {MODES:g} are needed")
    if found.decades < rule.decades:
        raise Unresolved(f"too few decades: the window spans {found.decades:.2f}, at least {rule.decades:g} are needed")
    points = int(found.of(time).sum())
    if points < POINTS:
        raise Unresolved(f"too few points: {points} records in the window, at least {POINTS} are needed")
    return found
