"""The floor-aware power law fitted by scipy, one curve after another from seven starts: the reference of the batched fits."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from nqf_pipeline.analysis.powerlaw import PowerLaw

_EXPONENTS = np.linspace(0.1, 4.0, 14)
_SHARES = np.array([1e-4, 1e-2, 0.1, 0.3, 0.6, 0.9, 0.99])
"""Starts: floors as shares of the last loss."""
Curve = Float[np.ndarray, "points"]


def fit(time: Curve, loss: Curve) -> PowerLaw:
    return _with_floor(np.log(time), np.log(loss))


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
