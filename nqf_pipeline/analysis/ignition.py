"""Measured ignition: the first step at which a mode's recovered strength reaches rho.

Between records the logit of the strength is taken as linear in the step (exact for logistic growth), by the same function that reads
predicted curves, so that interpolation cancels in measured against predicted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from nqf_pipeline.theory.ignition import EDGE, FRACTION, crossing

BLOWN_UP = 10.0
"""Records whose loss exceeds this many times the loss at the start are not learning: no mode ignites there."""


@dataclass(frozen=True)
class Ignition:
    """Ignition of every mode of some cells, in steps."""

    step: Float[np.ndarray, "cells modes"]
    """NaN: not within the valid records."""
    uncertainty: Float[np.ndarray, "cells modes"]
    """Error of the interpolation; at most half the distance of the records around it."""
    last_step: Float[np.ndarray, "cells"]
    """Last valid step: whatever comes later was not observed."""


def measure(
    step_number: Int[np.ndarray, "cells records"],
    strength: Float[np.ndarray, "cells records modes"],
    loss: Float[np.ndarray, "cells records"],
    rho: float = FRACTION,
) -> Ignition:
    """Ignition from recorded strengths. NaN records and whatever follows a blow-up count as not observed."""
    valid = valid_records(loss)
    seen = np.where(valid[..., None] & np.isfinite(strength), strength, 0.0)
    step = crossing(step_number, seen, rho)
    last = np.where(valid[:, 0], np.take_along_axis(step_number, valid.sum(1, keepdims=True) - 1, 1)[:, 0], np.nan)
    return Ignition(step, _uncertainty(step_number, seen, step, rho), last)


def flow_time(
    step: Float[np.ndarray, "..."], step_number: Int[np.ndarray, "records"], time: Float[np.ndarray, "records"]
) -> Float[np.ndarray, "..."]:
    """Gradient-flow time of steps of one cell, from its own records, so that learning-rate schedules count.

    Beyond the records time goes on as at their end. Exact where the learning rate is constant between two records. NaN stays NaN; a step
    of infinity takes forever.
    """
    step, last = np.asarray(step, float), float(step_number[-1])
    pace = (time[-1] - time[-2]) / (step_number[-1] - step_number[-2])
    late = np.where(np.isfinite(step), step - last, 0.0) * pace
    found = np.where(step > last, time[-1] + late, np.interp(step, step_number, time))
    return np.where(np.isinf(step), np.inf, found)


def valid_records(loss: Float[np.ndarray, "cells records"]) -> Bool[np.ndarray, "cells records"]:
    """Records before the first loss that is not finite or has blown up; prefixes only."""
    with np.errstate(invalid="ignore"):
        good = np.isfinite(loss) & (loss <= BLOWN_UP * loss[:, :1])
    return np.logical_and.accumulate(good, axis=1)


def _uncertainty(steps: np.ndarray, strength: np.ndarray, found: np.ndarray, rho: float) -> Float[np.ndarray, "cells modes"]:
    """h^2 / 8 |L''| / |L'| with L the logit and h the distance of the records around the crossing, L'' from their neighbours.

    Half of h where there is nothing to take L'' from: next to a strength outside (0, 1), or at the ends of the records.
    """
    after = (strength >= rho).argmax(1)
    last = strength.shape[1] - 1
    index = np.stack([np.clip(after + offset, 0, last) for offset in (-2, -1, 0, 1)])
    values = np.stack([np.take_along_axis(strength, i[:, None], 1)[:, 0] for i in index])
    times = np.stack([np.take_along_axis(steps, i, 1) for i in index]).astype(float)
    inside = (values > EDGE) & (values < 1 - EDGE)
    logit = np.log(np.clip(values, EDGE, 1 - EDGE)) - np.log1p(-np.clip(values, EDGE, 1 - EDGE))
    width = np.diff(times, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.diff(logit, axis=0) / width
        bends = [np.abs(slope[k + 1] - slope[k]) / ((width[k + 1] + width[k]) / 2) for k in (0, 1)]
        usable = [inside[k : k + 3].all(0) & (width[k : k + 2] > 0).all(0) for k in (0, 1)]
        bend = np.fmax(*(np.where(ok, value, np.nan) for ok, value in zip(usable, bends, strict=True)))
        error = width[1] ** 2 / 8 * bend / np.abs(slope[1])
    error = np.where(np.isnan(error), width[1] / 2, np.minimum(error, width[1] / 2))
    return np.where(np.isnan(found), np.nan, np.where(after == 0, 0.0, error))
