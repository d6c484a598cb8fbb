"""Where a loss curve is fitted: between the ignition of an early mode and that of a small share of all modes.

The window opens when mode `first_mode` ignites (before it single steps are seen, not a power law) and closes when `last_share` of all modes
have ignited (from then on the modes that are missing beyond the last one bend the curve), or with the last ignition recorded. It is read
off the ignitions measured on the same curve, so it needs no theory; the prediction is then fitted in the very same window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nqf_pipeline.study.config import WindowRule

POINTS = 8
"""Fewest records in a window."""
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


def window(
    ignition: Float[np.ndarray, "seeds modes"], number: Int[np.ndarray, "modes"], time: Float[np.ndarray, "points"], rule: WindowRule
) -> Window:
    """The window of some seeds' mean curve; raises Unresolved where there is none."""
    total = int(number.max(initial=0))
    last = rule.last_share * total
    if last - rule.first_mode < MODES:
        raise Unresolved(
            f"too few modes: {total} in all, fewer than {MODES:g} between mode {rule.first_mode} and {rule.last_share:.0%} of them"
        )
    with np.errstate(divide="ignore"):
        mean = np.log(ignition).mean(0)
    order = np.argsort(number)
    seen = order[np.isfinite(mean[order])]
    if not len(seen) or number[seen].max() < rule.first_mode:
        raise Unresolved(f"too few modes: mode {rule.first_mode} did not ignite within the run")
    place = np.log(number[seen])
    clock = np.maximum.accumulate(mean[seen])
    start = float(np.exp(np.interp(np.log(rule.first_mode), place, clock)))
    reached = min(last, float(number[seen].max()))
    end = float(np.exp(np.interp(np.log(reached), place, clock)))
    return checked(Window(start, end, reached - rule.first_mode), time, rule)


def checked(found: Window, time: Float[np.ndarray, "points"], rule: WindowRule) -> Window:
    """The window if it is long enough to speak of an exponent."""
    if found.ignitions < MODES:
        raise Unresolved(f"too few modes: {found.ignitions:.1f} ignite in the window, at least {MODES:g} are needed")
    if found.decades < rule.decades:
        raise Unresolved(f"too few decades: the window spans {found.decades:.2f}, at least {rule.decades:g} are needed")
    points = int(found.of(time).sum())
    if points < POINTS:
        raise Unresolved(f"too few points: {points} records in the window, at least {POINTS} are needed")
    return found
