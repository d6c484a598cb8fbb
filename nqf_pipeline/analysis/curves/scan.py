"""Which stretch of a curve is a power law with floor: a scan of windows in log time for a local exponent that does not move.

No mode, no theory is known of such a curve, so the rule is: **the longest window of at least a decade, and four tenths of the range,
whose first two thirds and last two thirds agree with the exponent of the whole, and which the law fits to 3 % or to the noise.** Windows
begin and end on eleven even marks of the record; of equally long ones the last is taken (a power law is a statement about late times).
"Agree" means within 15 % of the exponent, or within what noise allows (misfit at the common exponent above the best one by less than 6.6
noise variances: 1 % of chi squared). A window that an exponential decay to a floor fits as well is no power law.

The scan compares many windows, so it searches the exponent alone (`profile`), for all curves on the same bins together, longest windows
first and each curve only until its window is found. What is reported is fitted by `analysis.powerlaw`, in the window found here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nqf_pipeline.analysis.curves.bins import Binned
from nqf_pipeline.analysis.curves.profile import EXPONENTS, RATES, Bins, Numbers, Profile, Values, exponential, power, profile
from nqf_pipeline.analysis.windows import FALL, POINTS, Unresolved, Window

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


@dataclass(frozen=True)
class Scanned:
    """The windows of many curves on common bins: first to last - 1; both 0 where there is none, and then the reason of the longest."""

    first: Int[np.ndarray, "curves"]
    last: Int[np.ndarray, "curves"]
    exponent: Float[np.ndarray, "curves"]
    reason: list[str]

    def inside(self, bins: int) -> Bool[np.ndarray, "curves bins"]:
        """The bins of each window."""
        place = np.arange(bins)
        return (place >= self.first[:, None]) & (place < self.last[:, None])


def scan(curve: Binned) -> Found:
    """The window; raises Unresolved with the reason of the longest that failed."""
    found = scan_many(curve.x, curve.y[None], curve.error[None])
    if found.reason[0]:
        raise Unresolved(found.reason[0])
    first, last = int(found.first[0]), int(found.last[0])
    window = Window(float(curve.time[first]), float(curve.time[last - 1]), float("nan"))
    return Found(window, float(found.exponent[0]), first, last)


def scan_many(x: Bins, y: Values, error: Values) -> Scanned:
    """The windows of curves y = ln loss, with the deviations of y from noise."""
    first, last, exponent = np.zeros(len(y), int), np.zeros(len(y), int), np.full(len(y), np.nan)
    try:
        windows = _windows(x)
    except Unresolved as finding:
        return Scanned(first, last, exponent, [str(finding)] * len(y))
    reasons: list[str] = []
    pending = np.arange(len(y))
    for i, j in windows:
        judgement = judged(x[i:j], y[pending, i:j], error[pending, i:j])
        reasons = reasons or [judgement.reason(curve) for curve in range(len(y))]
        good = judgement.verdict == 0
        first[pending[good]], last[pending[good]], exponent[pending[good]] = i, j, judgement.rate[good]
        pending = pending[~good]
        if not len(pending):
            break
    return Scanned(first, last, exponent, ["" if end else text for end, text in zip(last, reasons, strict=True)])


def _windows(x: Bins) -> list[tuple[int, int]]:
    """Bins of the windows, longest first, then latest; raises Unresolved where there are none."""
    decades = float(x[-1] - x[0]) / np.log(10) if len(x) else 0.0
    if len(x) < POINTS:
        raise Unresolved(f"too few points: {len(x)} records on a log axis of time, at least {POINTS} are needed")
    if decades < DECADES:
        raise Unresolved(f"too few decades: {decades:.2f} of time, at least {DECADES:g} are needed")
    marks = np.linspace(x[0], x[-1], MARKS + 1)
    firsts, lasts = np.searchsorted(x, marks - 1e-9), np.searchsorted(x, marks + 1e-9)
    pairs = [(i, j) for i in range(MARKS) for j in range(i + 1, MARKS + 1)]
    pairs.sort(key=lambda pair: (pair[0] - pair[1], -pair[1]))
    bins = [(int(firsts[i]), int(lasts[j])) for i, j in pairs]
    least = max(DECADES, SHARE * decades) * np.log(10) * (1 - 1e-9)
    found = [(i, j) for i, j in bins if j - i >= POINTS and x[j - 1] - x[i] >= least]
    if not found:
        raise Unresolved(f"too few points: no decade holds {POINTS} of them")
    return found


@dataclass(frozen=True)
class Judgement:
    """What one window says about each curve."""

    rate: Numbers
    verdict: Int[np.ndarray, "curves"]
    """0: a power law; else which of `_REASONS`, counted from 1."""
    numbers: dict[str, Numbers]

    def reason(self, curve: int) -> str:
        """Why this window will not do; empty where it does."""
        found = int(self.verdict[curve])
        return _REASONS[found - 1].format(**{name: float(values[curve]) for name, values in self.numbers.items()}) if found else ""


_REASONS = (
    f"never left its plateau: the loss falls by less than {1 - FALL:.0%} in the longest window",
    "no power law: the best exponent is {rate:.2g}, the end of the range looked at",
    "no power law: the best one with a floor misses the loss by {rms:.1%} (noise {noise:.1%})",
    "no power law: an exponential decay to a floor misses the loss by {other:.1%}, a power law by {rms:.1%}",
    "too few points: the exponents of the window's parts cannot be compared",
    "unstable slope: {early:.2f} in the first two thirds of the window, {late:.2f} in the last (with floors)",
)


def judged(x: Bins, y: Values, error: Values) -> Judgement:
    """One window, given as its bins."""
    best = profile(x, y, power, EXPONENTS)
    noise, rms, other = np.sqrt(np.mean(error**2, axis=1)), _rms(best, x), _rms(profile(x, y, exponential, RATES), x)
    parts = [_share(x, *share) for share in PARTS]
    few = min(last - first for first, last in parts) < POINTS // 2
    own = [best, best] if few else [profile(x[first:last], y[:, first:last], power, EXPONENTS) for first, last in parts]
    allowed = CHI * np.maximum(noise, rms) ** 2
    moved = np.logical_or.reduce([part.near(best.rate, AGREE) - part.cost > allowed for part in own])
    failed = (
        y[:, -1] > np.log(FALL) + y[:, 0],
        (best.rate <= EXPONENTS[0] * 1.01) | (best.rate >= EXPONENTS[1] / 1.01),
        rms > np.maximum(MISFIT, 2 * noise),
        other <= rms,
        np.full(len(y), few),
        moved,
    )
    numbers = {"rate": best.rate, "rms": rms, "noise": noise, "other": other, "early": own[0].rate, "late": own[1].rate}
    return Judgement(best.rate, np.select(failed, range(1, len(failed) + 1), 0), numbers)


def _rms(fit: Profile, x: Bins) -> Numbers:
    return np.asarray(np.sqrt(fit.cost / len(x)))


def _share(x: Bins, low: float, high: float) -> tuple[int, int]:
    """The part between two shares of the length in log time."""
    span = x[-1] - x[0]
    first, last = np.searchsorted(x, (x[0] + low * span - 1e-9, x[0] + high * span + 1e-9))
    return int(first), int(last)
