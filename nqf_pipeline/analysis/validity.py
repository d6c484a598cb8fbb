"""The validity map of the twin: its timing error over the scale of the weights, the width and the number of samples (theory: section 4).

The timing error of a mode is |t_network / t_twin - 1|, both measured at the same fraction of the mode's target; a twin predicts the
ignition of its network as far as this is small. A point of the map is the median over modes and seeds; a trend is the slope of
ln(error) against ln(axis) over cells, each with the median of its modes, every setting of the other axes having a level of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.slopes import common_slope

AXES = ("sigma", "width", "samples")
EARLIEST = 5
"""Ignitions before this step are the start itself, not something to time."""
TINY = 1e-6
"""Errors below this are rounding of single precision: no trend is fitted through them."""


@dataclass(frozen=True)
class Trend:
    """error ~ axis^slope over the range of the axis, with an interval of the slope."""

    slope: float
    low: float
    high: float
    cells: int

    @property
    def resolved(self) -> bool:
        """Whether the interval tells a direction."""
        return self.low * self.high > 0


def timing_errors(plateaus: pd.DataFrame) -> pd.DataFrame:
    """One row per mode whose ignition was seen in network and twin, with the column `error`."""
    if plateaus.empty:
        return plateaus.assign(error=[])
    rows = plateaus[(plateaus["source"] == "network") & (plateaus["tier"] == "twin") & (plateaus["status"] == "matched")]
    rows = rows[np.isfinite(rows["relative_error"]) & (rows[["t_measured", "t_predicted"]].min(axis=1) >= EARLIEST)]
    return rows.assign(error=rows["relative_error"].abs())


def swept(rows: pd.DataFrame) -> list[str]:
    """Axes of the map along which these rows differ."""
    return [axis for axis in AXES if axis in rows and rows[axis].nunique() > 1]


def middle(values: pd.Series) -> float:
    """The value of an axis at which the other axes are looked at: the middle one of those there are."""
    found = np.sort(values.dropna().unique())
    return float(found[(len(found) - 1) // 2])


def plane(rows: pd.DataFrame, free: tuple[str, ...]) -> pd.DataFrame:
    """The rows at the middle of every swept axis that is not free."""
    for axis in swept(rows):
        if axis not in free:
            rows = rows[rows[axis] == middle(rows[axis])]
    return rows


def median_map(rows: pd.DataFrame, across: str, up: str) -> pd.DataFrame:
    """Median error over modes and seeds: one row per value of `up`, one column per value of `across`."""
    return rows.pivot_table(index=up, columns=across, values="error", aggfunc="median")


def trend(rows: pd.DataFrame, axis: str) -> Trend:
    """Slope of ln(error) against ln(axis) with an own level for every setting of the other axes; NaN where that leaves no freedom."""
    others = [other for other in swept(rows) if other != axis]
    cells = rows.groupby("cell").agg({axis: "first", "error": "median", **dict.fromkeys(others, "first")})
    cells = cells[cells["error"] > TINY]
    levels = cells.groupby(others).ngroup() if others else pd.Series(0, index=cells.index)
    slope = common_slope(np.log(cells[axis].astype(float)), np.log(cells["error"]), levels)
    return Trend(slope.value, slope.low, slope.high, len(cells))


def valley(rows: pd.DataFrame) -> float:
    """The sigma at which the median error is smallest: smaller is not always closer."""
    return float(rows.groupby("sigma")["error"].median().idxmin())
