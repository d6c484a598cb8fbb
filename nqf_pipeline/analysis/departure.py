"""Where the twin leaves the network: the validity of the quadratic form, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from jaxtyping import Float

from nqf_pipeline.analysis.ignition import valid_records

THRESHOLD = 0.1
"""Divergence (rms distance of outputs over rms target) from which on the network counts as having left its twin."""


@dataclass(frozen=True)
class Departure:
    """Distance of network and twin over training."""

    step: Float[np.ndarray, "cells"]
    """First recorded step with divergence above the threshold; inf: never."""
    largest_divergence: Float[np.ndarray, "cells"]
    largest_mode_gap: Float[np.ndarray, "cells"]
    """max over steps and modes of |strength in the network - strength in the twin|."""


def departure(dataset: xr.Dataset, threshold: float = THRESHOLD) -> Departure:
    """Measured over records at which both are finite; NaN where there are none."""
    valid = valid_records(dataset["network_loss"].to_numpy()) & valid_records(dataset["twin_loss"].to_numpy())
    divergence = np.where(valid, dataset["divergence"].to_numpy(), np.nan)
    gap = np.abs(dataset["network_mode"].to_numpy() - dataset["twin_mode"].to_numpy())
    gap = np.where(valid[..., None], gap, np.nan).reshape(len(valid), -1)
    away = divergence > threshold
    steps = dataset["step_number"].to_numpy().astype(float)
    first = np.take_along_axis(steps, away.argmax(1, keepdims=True), 1)[:, 0]
    step = np.where(away.any(1), first, np.where(valid[:, 0], np.inf, np.nan))
    return Departure(step, _largest(divergence), _largest(gap))


def _largest(values: Float[np.ndarray, "cells values"]) -> Float[np.ndarray, "cells"]:
    """Largest finite value of each row; NaN where there is none."""
    largest = np.where(np.isfinite(values), values, -np.inf).max(1, initial=-np.inf)
    return np.where(np.isfinite(largest), largest, np.nan)
