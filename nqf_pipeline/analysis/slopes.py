"""The slope that several groups of points share, each at a level of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nqf_pipeline.theory.student import student

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Slope:
    """`value` with the ends of Student's interval; NaN where the points leave no freedom."""

    value: float
    low: float
    high: float


def common_slope(x: pd.Series, y: pd.Series, group: pd.Series) -> Slope:
    """Least-squares slope of y against x with a level of its own for every value of `group`."""
    x, y = (values - values.groupby(group).transform("mean") for values in (x, y))
    free, spread = len(x) - group.nunique() - 1, float((x**2).sum())
    if free < 1 or not spread > 0:
        return Slope(*(float("nan"),) * 3)
    slope = float((x * y).sum()) / spread
    half = float(student(CONFIDENCE, free) * np.sqrt(((y - slope * x) ** 2).sum() / free / spread))
    return Slope(slope, slope - half, slope + half)
