"""A floor-aware power law, E = A t^-k + floor, fitted to a window of a loss curve.

Residuals are those of ln E, so that each decade weighs alike. With a known floor the fit is a straight line in ln(E - floor); with an
unknown one ln A is projected out (it enters linearly) and k and ln(floor / A) are found by least squares from a grid of starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

_EXPONENTS = np.linspace(0.1, 4.0, 14)
_SHARES = np.array([1e-4, 1e-2, 0.1, 0.3, 0.6, 0.9, 0.99])
"""Starts: floors as shares of the last loss."""
Curve = Float[np.ndarray, "points"]


@dataclass(frozen=True)
class PowerLaw:
    """A fitted power law; all NaN where there was nothing to fit."""

    exponent: float
    amplitude: float
    floor: float
    residual: float
    """Root mean square of the residuals of ln E."""

    def __call__(self, time: Curve) -> Curve:
        return self.amplitude * time**-self.exponent + self.floor


def fit(time: Curve, loss: Curve, floor: float | None = 0.0) -> PowerLaw:
    """Fit a window of a curve; `floor` is what the loss cannot go below, or None to fit it (then at least 0)."""
    if floor is None:
        return _with_floor(np.log(time), np.log(loss))
    excess = np.log(loss - floor)
    design = np.stack([np.ones_like(time), np.log(time)])
    (intercept, slope), *_ = np.linalg.lstsq(design.T, excess, rcond=None)
    residual = excess - intercept - slope * np.log(time)
    return PowerLaw(-float(slope), float(np.exp(intercept)), floor, float(np.sqrt(np.mean(residual**2))))


def _shape(x: Curve, exponent: float, log_share: float) -> Curve:
    """ln(t^-k + floor / A) without overflow."""
    return np.logaddexp(-exponent * x, log_share)


def _with_floor(x: Curve, y: Curve) -> PowerLaw:
    origin = x.mean()
    x = x - origin  # a well-conditioned amplitude: the one at the window's middle

    def residuals(parameters: Curve) -> Curve:
        gap = y - _shape(x, *parameters)
        return gap - gap.mean()

    def jacobian(parameters: Curve) -> Float[np.ndarray, "points 2"]:
        exponent, log_share = parameters
        weight = np.exp(-exponent * x - _shape(x, exponent, log_share))  # share of the power law in the sum
        columns = np.stack([x * weight, weight - 1], axis=1)
        return columns - columns.mean(0)

    def cost(parameters: Curve) -> float:
        return float(np.sum(residuals(parameters) ** 2))

    # Towards floor 0 the cost is flat, so a single start may slide there: one start for each share, the best result kept.
    starts = [min((_start(x, exponent, share) for exponent in _EXPONENTS), key=cost) for share in _SHARES]
    found = min((least_squares(residuals, start, jacobian, method="lm", xtol=1e-12, ftol=1e-12) for start in starts), key=lambda f: f.cost)
    exponent, log_share = found.x
    log_amplitude = float(np.mean(y - _shape(x, exponent, log_share)))
    floor = float(np.exp(log_amplitude + log_share))
    amplitude = float(np.exp(log_amplitude + exponent * origin))
    return PowerLaw(float(exponent), amplitude, floor, float(np.sqrt(np.mean(found.fun**2))))


def _start(x: Curve, exponent: float, share: float) -> Curve:
    """Start in which the floor is this share of the last loss: floor / A from t^-k + floor / A = (loss / A)."""
    return np.array([exponent, np.log(share / (1 - share)) - exponent * x[-1]])
