"""Exponent, floor and window of a curve with an interval that repeats the whole procedure on resampled curves.

A resampled curve is the smooth part (the fitted law in the window, straight pieces of log-log outside) times blocks of residuals drawn
with replacement, long enough to keep correlation in time, each in units of its bin's noise (early bins hold few records); window and fit
are then found anew. The interval is the exponent plus and minus Student's quantile (degrees of freedom: blocks in the window less the
three parameters) times the deviation of the resampled exponents, and what correlation longer than a block adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.analysis.curves.bins import Binned
from nqf_pipeline.analysis.curves.profile import EXPONENTS
from nqf_pipeline.analysis.curves.scan import Found, scan, scan_many
from nqf_pipeline.analysis.powerlaw import PowerLaw, PowerLaws, fit, fit_many
from nqf_pipeline.analysis.windows import Unresolved, Window
from nqf_pipeline.theory.student import student

RESAMPLED = 60
"""Resampled curves."""
CONFIDENCE = 0.95
BLOCK = 4
"""Bins in a block: bins hold many records, so most correlation is inside them already."""
STABLE = 0.5
"""Share of the resampled curves in which a window must be found again."""
WIDE = 0.5
"""Half width of an interval over the exponent, beyond which nothing is resolved."""
ABOVE = 0.5
"""Decades of the window in which the power law has to be larger than its floor."""
SEED = 20260813


@dataclass(frozen=True)
class Law:
    """A power law with floor, in the units of the file."""

    exponent: float
    low: float
    high: float
    window: Window
    floor: float
    amplitude: float
    residual: float

    def __call__(self, time: Float[np.ndarray, "points"]) -> Float[np.ndarray, "points"]:
        return self.amplitude * time**-self.exponent + self.floor


def law(curve: Binned, confidence: float = CONFIDENCE) -> Law:
    """The law of a stretch that falls; raises Unresolved."""
    found = scan(curve)
    fitted = _fitted(curve, found)
    above = float(decades_above_floor(fitted, found.window.start, found.window.end))
    if above < ABOVE:
        raise Unresolved(f"too few decades: the law exceeds its floor ({fitted.floor:.3g}) for {above:.2f}, at least {ABOVE:g} are needed")
    low, high = _interval(curve, found, fitted, confidence)
    if high - low > 2 * WIDE * fitted.exponent:
        raise Unresolved(f"not determined: exponent {fitted.exponent:.2f}, but the {confidence:.0%} interval is {low:.2f} to {high:.2f}")
    return Law(fitted.exponent, low, high, found.window, fitted.floor, fitted.amplitude, fitted.residual)


def decades_above_floor(fitted: PowerLaw | PowerLaws, start: Any, end: Any) -> Any:
    """Decades of a window before the law falls to its floor: beyond, the exponent hangs on the floor that was fitted with it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (np.log(fitted.amplitude) - np.log(fitted.floor)) / fitted.exponent
    return (np.minimum(np.where(np.asarray(fitted.floor) > 0, crossing, np.inf), np.log(end)) - np.log(start)) / np.log(10)


def _fitted(curve: Binned, found: Found) -> PowerLaw:
    part = curve.part(found.first, found.last)
    with np.errstate(over="ignore", under="ignore"):
        fitted = fit(part.time, part.loss, None)
    if not sane(fitted):
        raise Unresolved("no power law: the fit ends at the edge of what can be a power law")
    return fitted


def sane(fitted: PowerLaw | PowerLaws) -> Any:
    """Whether a fit (or each of many) is one of a power law."""
    return (fitted.exponent > 0) & (fitted.exponent < EXPONENTS[1]) & (fitted.amplitude > 0) & (fitted.amplitude < np.inf)


def _interval(curve: Binned, found: Found, fitted: PowerLaw, confidence: float) -> tuple[float, float]:
    smooth = _smooth(curve, found, fitted)
    inside = ((curve.y - smooth) / curve.error)[found.first : found.last]
    free = len(inside) - 3
    rng = np.random.default_rng(SEED)
    noise = np.stack([_blocks(inside, len(curve.x), rng) for _ in range(RESAMPLED)]) * np.sqrt(len(inside) / free)
    again = smooth + curve.error * noise
    windows = scan_many(curve.x, again, np.broadcast_to(curve.error, again.shape))
    with np.errstate(over="ignore", under="ignore"):
        fits = fit_many(curve.time, np.exp(again), windows.inside(len(curve.x)))
    exponents = fits.exponent[sane(fits) & (windows.last > 0)]
    if len(exponents) < STABLE * RESAMPLED:
        raise Unresolved(f"hangs on single records: a window is found in {len(exponents)} of {RESAMPLED} resampled curves only")
    blocks = max(2.0, free / BLOCK)
    half = float(student(confidence, blocks)) * float(np.std(exponents, ddof=1)) * _beyond_blocks(inside)
    return fitted.exponent - half, fitted.exponent + half


def _beyond_blocks(residual: Float[np.ndarray, "window"]) -> float:
    """What correlation that blocks cut off adds to deviations, for the first-order process with the residuals' correlation."""
    lag = float(correlation((residual - residual.mean())[None], np.array([len(residual)]))[0])
    lags = np.arange(1, BLOCK)
    inside = 1 + 2 * float(np.sum((1 - lags / BLOCK) * lag**lags))
    return float(np.sqrt((1 + lag) / (1 - lag) / inside))


def correlation(residual: Float[np.ndarray, "curves points"], count: Any) -> Float[np.ndarray, "curves"]:
    """First-order correlation of the `count` residuals of each fit (others 0), at least 0 and at most 0.95."""
    with np.errstate(invalid="ignore"):
        lag = np.nan_to_num((residual[:, 1:] * residual[:, :-1]).sum(1) / (residual**2).sum(1))
    # Three parameters fitted to so few points make residuals look less correlated than they are.
    return np.clip(lag + 3 * (1 + lag) / np.maximum(count, 1), 0.0, 0.95)


def _smooth(curve: Binned, found: Found, fitted: PowerLaw) -> Float[np.ndarray, "bins"]:
    """The law inside the window; outside, the law times the running mean of what it misses."""
    shape = np.log(fitted(curve.time))
    gap = curve.y - shape
    kernel = np.ones(5)
    mean = np.convolve(gap, kernel, "same") / np.convolve(np.ones(len(gap)), kernel, "same")
    mean[found.first : found.last] = 0.0
    return shape + mean


def _blocks(residual: Float[np.ndarray, "window"], count: int, rng: np.random.Generator) -> Float[np.ndarray, "bins"]:
    """So many residuals in blocks drawn from all places (circular)."""
    starts = rng.integers(len(residual), size=-(-count // BLOCK))
    return np.asarray(residual[(starts[:, None] + np.arange(BLOCK)).ravel()[:count] % len(residual)])
