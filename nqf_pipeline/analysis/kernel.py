"""Lazy or feature learning, from the drift of the twin's tangent kernel (theory: Propositions 8 and 9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from scipy import stats

LAZY, FEATURES = 0.1, 1.0
"""Relative change of the kernel over training below which it counts as kept, and above which as learnt."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Exponent:
    """kernel change ~ width^value, with its interval."""

    value: float
    low: float
    high: float


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


def width_exponent(cells: pd.DataFrame) -> Exponent | None:
    """Slope of ln(change) against ln(width) with an own level for every sigma; None where no sigma has two widths."""
    if "width" not in cells:
        return None
    rows = cells[np.isfinite(cells["kernel_change"]) & (cells["kernel_change"] > 0)]
    rows = rows.assign(x=np.log(rows["width"].astype(float)), y=np.log(rows["kernel_change"]))
    levels = rows.groupby("sigma")[["x", "y"]].transform("mean")
    x, y = (rows["x"] - levels["x"]).to_numpy(), (rows["y"] - levels["y"]).to_numpy()
    free = len(rows) - rows["sigma"].nunique() - 1
    if free < 1 or not (x**2).sum() > 0:
        return None
    slope = float((x * y).sum() / (x**2).sum())
    error = np.sqrt(((y - slope * x) ** 2).sum() / free / (x**2).sum())
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, free) * error)
    return Exponent(slope, slope - half, slope + half)
