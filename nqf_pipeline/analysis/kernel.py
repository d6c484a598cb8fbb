"""Lazy or feature learning, from the drift of the twin's tangent kernel (theory: Propositions 8 and 9)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from nqf_pipeline.analysis.slopes import Slope, common_slope

LAZY, FEATURES = 0.1, 1.0
"""Relative change of the kernel over training below which it counts as kept, and above which as learnt."""


def regime(change: float) -> str:
    """`lazy`, `feature learning` or `in between`, by the relative change of the kernel."""
    if not np.isfinite(change):
        return "unknown"
    return "lazy" if change < LAZY else "feature learning" if change > FEATURES else "in between"


def kernel_drift(dataset: xr.Dataset) -> dict[str, Float[np.ndarray, "cells records"]]:
    """Change and turn of the twin's kernel by the names of the table `cells`; NaN where a study has not recorded them."""
    nothing = np.full(dataset["step_number"].shape, np.nan)
    recorded = {name: dataset.get(f"twin_{name}") for name in ("kernel_change", "kernel_turn")}
    return {name: nothing if values is None else values.to_numpy() for name, values in recorded.items()}


def width_exponent(cells: pd.DataFrame) -> Slope | None:
    """Slope of ln(change) against ln(width) with an own level for every sigma; None where no sigma has two widths."""
    if "width" not in cells:
        return None
    rows = cells[np.isfinite(cells["kernel_change"]) & (cells["kernel_change"] > 0)]
    slope = common_slope(np.log(rows["width"].astype(float)), np.log(rows["kernel_change"]), rows["sigma"])
    return slope if np.isfinite(slope.value) else None
