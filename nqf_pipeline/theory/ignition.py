"""Ignition: the first step at which a recovered strength reaches rho, read off a recorded curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

Array = Any
FRACTION = 0.5
"""rho: a mode has ignited when this share of its target is recovered."""
EDGE = 1e-12
"""Strengths are kept this far from 0 and 1, where the logit ends."""


def crossing(
    step_number: Int[Array, "*cells records"], strength: Float[Array, "*cells records modes"], rho: float = FRACTION
) -> Float[Array, "*cells modes"]:
    """First step at which each strength reaches rho; nan where it does not within the records.

    Between records the logit of the strength is taken as linear in the step: exact for logistic growth.
    """
    strength, step = np.asarray(strength), np.asarray(step_number, float)
    reached = strength >= rho
    after = reached.argmax(-2)
    before = np.maximum(after - 1, 0)
    low, high = (_logit(np.take_along_axis(strength, index[..., None, :], -2)[..., 0, :]) for index in (before, after))
    share = np.divide(_logit(rho) - low, high - low, out=np.ones_like(low), where=high > low)
    earlier, later = (np.take_along_axis(step, index, -1) for index in (before, after))
    found = earlier + share * (later - earlier)
    return np.where(reached.any(-2), np.where(after == 0, step[..., :1], found), np.nan)


def _logit(strength: Any) -> Array:
    share = np.clip(strength, EDGE, 1 - EDGE)
    return np.log(share) - np.log1p(-share)
