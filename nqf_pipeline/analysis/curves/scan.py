"""Which stretch of a curve is a power law with floor: a scan of windows in log time for a local exponent that does not move.

No mode, no theory is known of such a curve, so the rule is: **the longest window of at least a decade, and four tenths of the range,
whose first two thirds and last two thirds agree with the exponent of the whole, and which the law fits to 3 % or to the noise.** Windows
begin and end on eleven even marks of the record; of equally long ones the last is taken (a power law is a statement about late times).
"Agree" means within 15 % of the exponent, or within what noise allows (misfit at the common exponent above the best one by less than 6.6
noise variances: 1 % of chi squared). A window that an exponential decay to a floor fits as well is no power law.

The scan compares many windows, so it searches the exponent alone (`profile`); what is reported is fitted by `analysis.powerlaw`, in the
window found here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nqf_pipeline.analysis.curves.bins import Binned
from nqf_pipeline.analysis.curves.profile import EXPONENTS, RATES, Lowest, exponential, lowest, power
from nqf_pipeline.analysis.exponents import FALL
from nqf_pipeline.analysis.windows import POINTS, Unresolved, Window

DECADES = 1.0
"""Shortest window."""
SHARE = 0.4
"""Shortest window as a share of the range in log time: among many short ones, some look straight on any curve."""
MARKS = 10
"""Intervals between the marks at which windows may begin and end."""
MISFIT = 0.03
"""Root mean square residual of ln loss that counts as a fit even without noise."""
AGREE = 0.15
"""Relative difference of exponents that counts as agreement."""
CHI = 6.6
"""Misfit that noise allows, in its variances."""
PARTS = ((0.0, 2 / 3), (1 / 3, 1.0))


@dataclass(frozen=True)
class Found:
    """A window with the exponent of the scan in it."""

    window: Window
    exponent: float
    first: int
    last: int
    """Bins first to last - 1."""


def scan(curve: Binned) -> Found:
    """The window; raises Unresolved with the reason of the longest that failed."""
    if len(curve.x) < POINTS:
        raise Unresolved(f"too few points: {len(curve.x)} records on a log axis of time, at least {POINTS} are needed")
    if curve.decades < DECADES:
        raise Unresolved(f"too few decades: {curve.decades:.2f} of time, at least {DECADES:g} are needed")
    reasons = []
    for first, last in _windows(curve):
        exponent, reason = judged(curve.part(first, last))
        if not reason:
            window = Window(float(curve.time[first]), float(curve.time[last - 1]), float("nan"))
            return Found(window, exponent, first, last)
        reasons.append(reason)
    raise Unresolved(reasons[0] if reasons else f"too few points: no decade holds {POINTS} of them")


def _windows(curve: Binned) -> list[tuple[int, int]]:
    """Longest first, then latest."""
    marks = np.linspace(curve.x[0], curve.x[-1], MARKS + 1)
    firsts = np.searchsorted(curve.x, marks - 1e-9)
    lasts = np.searchsorted(curve.x, marks + 1e-9)
    pairs = [(i, j) for i in range(MARKS) for j in range(i + 1, MARKS + 1)]
    pairs.sort(key=lambda pair: (pair[0] - pair[1], -pair[1]))
    bins = [(int(firsts[i]), int(lasts[j])) for i, j in pairs]
    least = max(DECADES, SHARE * curve.decades) * (1 - 1e-9)
    return [(i, j) for i, j in bins if j - i >= POINTS and curve.part(i, j).decades >= least]


def judged(part: Binned) -> tuple[float, str]:
    """(exponent, why this window will not do)."""
    best = lowest(part, power, *EXPONENTS)
    return best.rate, _misfit(part, best) or _instability(part, best)


def _misfit(part: Binned, best: Lowest) -> str:
    """Why the window holds no power law."""
    residual, noise = _rms(best, part), _noise(part)
    if part.loss[-1] > FALL * part.loss[0]:
        return f"never left its plateau: the loss falls by less than {1 - FALL:.0%} in the longest window"
    if not EXPONENTS[0] * 1.01 < best.rate < EXPONENTS[1] / 1.01:
        return f"no power law: the best exponent is {best.rate:.2g}, the end of the range looked at"
    if residual > max(MISFIT, 2 * noise):
        return f"no power law: the best one with a floor misses the loss by {residual:.1%} (noise {noise:.1%})"
    other = _rms(lowest(part, exponential, *RATES), part)
    if other <= residual:
        return f"no power law: an exponential decay to a floor misses the loss by {other:.1%}, a power law by {residual:.1%}"
    return ""


def _instability(part: Binned, best: Lowest) -> str:
    """Why the exponent is not that of the window's parts."""
    scale = max(_noise(part), _rms(best, part)) ** 2
    pieces = [_share(part, *share) for share in PARTS]
    if min(len(piece.x) for piece in pieces) < POINTS // 2:
        return "too few points: the exponents of the window's parts cannot be compared"
    own = [lowest(piece, power, *EXPONENTS) for piece in pieces]
    near = [lowest(piece, power, best.rate / (1 + AGREE), best.rate * (1 + AGREE)) for piece in pieces]
    if any(common.cost - free.cost > CHI * scale for common, free in zip(near, own, strict=True)):
        return f"unstable slope: {own[0].rate:.2f} in the first two thirds of the window, {own[1].rate:.2f} in the last (with floors)"
    return ""


def _rms(fit: Lowest, part: Binned) -> float:
    return float(np.sqrt(fit.cost / len(part.x)))


def _noise(part: Binned) -> float:
    return float(np.sqrt(np.mean(part.error**2)))


def _share(part: Binned, low: float, high: float) -> Binned:
    """The part between two shares of the length in log time."""
    span = part.x[-1] - part.x[0]
    first, last = np.searchsorted(part.x, (part.x[0] + low * span - 1e-9, part.x[0] + high * span + 1e-9))
    return part.part(int(first), int(last))
