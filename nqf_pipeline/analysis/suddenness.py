"""Sudden or gradual, as recorded strengths show it: the verdict of `theory.sudden` on measured steps instead of predicted ones."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.theory.ignition import FRACTION, crossing
from nqf_pipeline.theory.sudden import RISE, Verdict, verdict

LOW, HIGH = 0.1, 0.9
"""Shares of its final strength between which a mode's step is measured."""


def shown(step_number: Int[np.ndarray, "records"], strength: Float[np.ndarray, "records modes"]) -> Verdict:
    """The verdict from strengths: each mode that passes half makes a step, as wide as it takes from 10 to 90 % of its largest strength."""
    half, width = half_and_width(step_number, strength)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(width > 0, RISE / width, np.nan)
    return verdict(np.where(np.isfinite(rate), half, np.nan), np.where(np.isfinite(rate), rate, 0.0))


def half_and_width(
    step_number: Int[np.ndarray, "*cells records"], strength: Float[np.ndarray, "*cells records modes"]
) -> tuple[Float[np.ndarray, "*cells modes"], Float[np.ndarray, "*cells modes"]]:
    """When each mode passes half, and how long it takes from 10 to 90 %, in steps; twice the first half of it where the records end before.

    Strengths are taken relative to their largest value up to 1, so that plateaus lowered by weight decay count in full. NaN: not passed.
    """
    largest = np.nanmax(strength, axis=-2)
    relative = strength / np.clip(largest, FRACTION, 1.0)[..., None, :]
    passes = [crossing(step_number, relative, share) for share in (LOW, FRACTION, HIGH)]
    half = np.where(largest >= FRACTION, passes[1], np.nan)
    return half, np.where(np.isnan(passes[2]), 2 * (passes[1] - passes[0]), passes[2] - passes[0])
