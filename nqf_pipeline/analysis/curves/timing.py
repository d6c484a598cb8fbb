"""When a drop happens: the time at which three quarters of the fall in loss are made.

Under squared error a mode of strength z (of 1) leaves (1 - z)^2 of its share of the loss, so that is where its strength is one half: the
ignition that theory predicts. Strengths read off the loss between two levels are logistic in time where one mode is learnt (theory,
Theorem 6), so a straight line through their logits gives the time from all bins of the drop, well within the distance of two of them.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from nqf_pipeline.analysis.curves.bins import Binned

INNER = (0.12, 0.88)
"""Strengths whose logits are used: beyond, the levels' own errors count."""
LEFT = 0.25
"""Share of the fall still to come at half strength."""


def half_strength(drop: Binned, high: float, low: float) -> tuple[float, float]:
    """(time, uncertainty) of a drop, given as its bins, between two levels of ln loss."""
    time, loss = drop.time, drop.loss
    before, after = float(np.exp(high)), float(np.exp(low))
    left = np.clip((loss - after) / (before - after), 1e-9, 1.0)
    strength = 1 - np.sqrt(left)
    crossing, width = _crossing(time, left)
    inner = (strength > INNER[0]) & (strength < INNER[1])
    if inner.sum() < 3:
        return crossing, width / float(np.sqrt(12.0))
    z, t = strength[inner], time[inner]
    error = 0.5 * loss[inner] * drop.error[inner] / ((before - after) * (1 - z)) / (z * (1 - z))
    root, spread = _root(t, np.log(z / (1 - z)), error)
    # A fall that is no logistic has its crossing elsewhere: that is what is reported then.
    agrees = t[0] <= root <= t[-1] and abs(root - crossing) <= width + 3 * spread
    return (root, spread) if agrees else (crossing, width / float(np.sqrt(12.0)))


def _crossing(time: Float[np.ndarray, "bins"], left: Float[np.ndarray, "bins"]) -> tuple[float, float]:
    """(where the share that is left crosses a quarter, distance of the bins around it)."""
    after = max(1, int(np.argmax(left <= LEFT))) if (left <= LEFT).any() else len(left) - 1
    fall = left[after - 1] - left[after]
    share = float(np.clip((left[after - 1] - LEFT) / fall, 0.0, 1.0)) if fall > 0 else 0.5
    width = float(time[after] - time[after - 1])
    return float(time[after - 1] + share * width), width


def _root(t: Float[np.ndarray, "bins"], logit: Float[np.ndarray, "bins"], error: Float[np.ndarray, "bins"]) -> tuple[float, float]:
    """Zero of the weighted line through the logits, with its standard error; infinite error where the line does not rise."""
    weight = error**-2.0
    total = float(weight.sum())
    center, level = float(weight @ t) / total, float(weight @ logit) / total
    spread = float(weight @ (t - center) ** 2)
    slope = float(weight @ ((t - center) * logit)) / spread
    if slope <= 0:
        return center, float("inf")
    root = center - level / slope
    rest = float(weight @ (logit - level - slope * (t - center)) ** 2) / (len(t) - 2)
    return root, float(np.sqrt(max(1.0, rest) * (1 / total + (root - center) ** 2 / spread)) / slope)
